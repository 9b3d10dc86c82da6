#include "samples/train/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "samples/train/allreduce.h"
#include "samples/train/data.h"

/* Flags of messages. Anyone may want to stop; the first stage decides for all, a step ahead. */
enum { FLAG_STOP_WANTED = 1, FLAG_LAST_STEP = 2 };

struct stage {
  const struct options *o;
  const struct plan *plan;
  const struct order *order;
  const struct mesh *mesh;
  struct transport *transport;
  const struct trace *trace;
  const volatile sig_atomic_t *stop;
  int number, replica;
  struct parameters parameters;
  struct block blocks[MAX_CHUNKS];
  struct teacher teacher;
  struct tape *tapes; /* by chunk and microbatch */
  float **handed[2]; /* outputs of F, B that an op of this stage takes next; by chunk and microbatch */
  float *target; /* of the microbatch that is in the last virtual stage's F */
  int posted, ahead; /* ops whose receives are posted; index of the last one with a receive */
  int64_t held, peak; /* bytes of activations kept for the backward */
  int64_t began;
  bool stop_wanted, stop_agreed, last_step;
  double loss;
  struct stage_report report;
};

static size_t slot(const struct stage *s, int chunk, int microbatch) {
  return (size_t)chunk * (size_t)s->o->microbatches + (size_t)microbatch;
}
static bool begins_model(const struct op *op) {
  return op->vstage == 0;
}
static bool ends_model(const struct stage *s, const struct op *op) {
  return op->vstage == plan_vstages(s->plan) - 1;
}
static bool is_backward(const struct op *op) {
  return op->kind != OP_F;
}
static bool frees_tape(const struct op *op) {
  return op->kind == OP_W || op->kind == OP_BW;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static struct envelope envelope_of(const struct stage *s, const struct op *op, struct message side, bool sending,
                                   int64_t step) {
  int from = sending ? s->number : side.stage, to = sending ? side.stage : s->number;
  return (struct envelope){.peer = rank_of(s->o, side.stage, s->replica),
                           .sequence = step * s->plan->messages[from][to] + side.number,
                           .backward = is_backward(op),
                           .microbatch = op->microbatch,
                           .chunk = op->chunk,
                           .to_chunk = op->to_chunk,
                           .flags = (s->stop_wanted ? FLAG_STOP_WANTED : 0u) | (s->last_step ? FLAG_LAST_STEP : 0u),
                           .count = activation_size(&s->blocks[op->chunk])};
}

/* Keeps the receive of the op at `index` posted, and one more. */
static int post_receives(struct stage *s, int index, int64_t step, struct failure *why) {
  for (; s->posted < s->order->count && s->ahead <= index; s->posted++) {
    const struct op *op = &s->order->ops[s->posted];
    if (op->from.stage < 0) continue;
    struct envelope message = envelope_of(s, op, op->from, false, step);
    if (transport_post(s->transport, &message, why) != 0) return -1;
    s->ahead = s->posted;
  }
  return 0;
}

static int load_data(struct stage *s, const struct op *op, int64_t step, float **input, struct failure *why) {
  uint64_t number = microbatch_number(s->o, step, s->replica, op->microbatch);
  size_t bytes = activation_size(&s->blocks[op->chunk]) * sizeof(float);
  bubbletop_span span;
  if (begins_model(op) && (*input = malloc(bytes)) == NULL) return failed(why, "out of memory");
  bubbletop_begin(s->trace->session, &span, BUBBLETOP_HOST, bubbletop_at(op->microbatch, (int16_t)op->chunk));
  if (begins_model(op)) data_inputs(&s->teacher, number, s->o->batch, *input);
  if (ends_model(s, op)) data_targets(&s->teacher, number, s->o->batch, s->target);
  bubbletop_end(&span);
  return 0;
}

/* What the op works on: from another stage, from this one, or from the data set. */
static int take_input(struct stage *s, const struct op *op, int64_t step, float **input, struct failure *why) {
  *input = NULL;
  if (op->from.stage >= 0) {
    struct envelope message = envelope_of(s, op, op->from, false, step);
    unsigned flags;
    if (transport_take(s->transport, &message, input, &flags, why) != 0) return -1;
    if (flags & FLAG_STOP_WANTED) s->stop_wanted = true;
    if (flags & FLAG_LAST_STEP) s->last_step = true;
  } else if (op->kind != OP_W) {
    float **handed = &s->handed[is_backward(op)][slot(s, op->chunk, op->microbatch)];
    *input = *handed;
    *handed = NULL;
  }
  if (op->kind == OP_F && !s->o->timed && (begins_model(op) || ends_model(s, op)))
    return load_data(s, op, step, input, why);
  return 0;
}

/* To the stage that needs it; never waits. */
static int hand_on(struct stage *s, const struct op *op, int64_t step, float *output, struct failure *why) {
  if (op->to.stage >= 0 && op->to.stage != s->number) {
    struct envelope message = envelope_of(s, op, op->to, true, step);
    return transport_send(s->transport, &message, output, why);
  }
  if (op->to.stage == s->number)
    s->handed[is_backward(op)][slot(s, op->to_chunk, op->microbatch)] = output;
  else if (op->kind == OP_F)
    s->handed[true][slot(s, op->chunk, op->microbatch)] = output; /* the loss' gradient */
  return 0;
}

/* ---- compute ---------------------------------------------------------------------------------------------------- */

static bubbletop_kind kind_of(const struct op *op) {
  static const bubbletop_kind kinds[] = {
      [OP_F] = BUBBLETOP_F, [OP_B] = BUBBLETOP_B, [OP_W] = BUBBLETOP_W, [OP_BW] = BUBBLETOP_BW};
  return kinds[op->kind];
}

/* Leaves the CPU alone until the time has gone by, as the host does while a GPU computes. */
static void wait_timed(const struct stage *s, int64_t duration, int64_t step, int index) {
  uint64_t part = ((uint64_t)step << 16) + (uint64_t)s->o->rank;
  double jitter = s->o->jitter * random_value(s->o->seed, STREAM_JITTER, part, (uint64_t)index);
  int64_t until = bubbletop_now() + (int64_t)((double)duration * s->o->slow[s->number] * (1 + jitter));
  struct timespec deadline = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
  }
}

static float *compute_timed(const struct stage *s, const struct op *op, float *input, int64_t step, int index) {
  const struct options *o = s->o;
  const int64_t durations[] = {
      [OP_F] = o->forward_ns, [OP_B] = o->backward_ns, [OP_W] = o->weight_ns, [OP_BW] = o->backward_ns + o->weight_ns};
  wait_timed(s, durations[op->kind], step, index);
  if (input != NULL) return input; /* the next stage gets as many bytes */
  return op->kind == OP_W ? NULL : calloc(activation_size(&s->blocks[op->chunk]), sizeof(float));
}

static float *compute_real(struct stage *s, const struct op *op, float *input) {
  const struct block *b = &s->blocks[op->chunk];
  struct tape *t = &s->tapes[slot(s, op->chunk, op->microbatch)];
  float *output = NULL;
  if (op->kind == OP_F) {
    output = block_forward(b, t, input);
    if (output != NULL && ends_model(s, op))
      s->loss += loss_and_gradient(output, s->target, activation_size(b), row_weight(s->o));
  }
  if (op->kind == OP_B || op->kind == OP_BW) output = block_input_gradient(b, t, input);
  if (frees_tape(op)) block_weight_gradient(b, t);
  return output;
}

static void count_op(struct stage *s, const struct op *op) {
  const struct block *b = &s->blocks[op->chunk];
  int64_t kept = (int64_t)(activation_size(b) * sizeof(float)) * b->layers * 2;
  if (op->kind == OP_F) s->held += kept;
  if (frees_tape(op)) s->held -= kept;
  if (s->held > s->peak) s->peak = s->held;
  s->report.forwards += op->kind == OP_F;
  s->report.backwards += op->kind == OP_B;
  s->report.weights += op->kind == OP_W;
  s->report.fused += op->kind == OP_BW;
}

static int run_op(struct stage *s, int index, int64_t step, struct failure *why) {
  const struct op *op = &s->order->ops[index];
  float *input, *output;
  bubbletop_span span;
  if (post_receives(s, index, step, why) != 0 || take_input(s, op, step, &input, why) != 0) return -1;

  bubbletop_begin(s->trace->session, &span, kind_of(op), bubbletop_at(op->microbatch, (int16_t)op->chunk));
  output = s->o->timed ? compute_timed(s, op, input, step, index) : compute_real(s, op, input);
  bubbletop_end(&span);

  count_op(s, op);
  if (output == NULL && (op->to.stage >= 0 || op->kind == OP_F)) return failed(why, "out of memory");
  if (op->to.stage < 0 && is_backward(op)) {
    free(output);
    return 0;
  }
  return hand_on(s, op, step, output, why);
}

/* ---- the step --------------------------------------------------------------------------------------------------- */

/* The first stage looks at the clock and the signals; replicas agree through one more float behind the gradients. */
static bool wants_to_stop(const struct stage *s) {
  bool late = s->o->seconds_ns != 0 && bubbletop_now() - s->began >= s->o->seconds_ns;
  return s->stop_wanted || *s->stop != 0 || (s->number == 0 && late);
}

static int reduce_gradients(struct stage *s, int64_t step, struct failure *why) {
  float *vote = &s->parameters.gradient[s->parameters.count];
  s->stop_wanted = wants_to_stop(s);
  *vote = s->stop_wanted ? 1 : 0;
  if (s->o->replicas > 1 &&
      all_reduce_gradients(s->mesh, s->trace, s->o, step, s->parameters.gradient, s->parameters.count + 1, why) != 0)
    return -1;
  s->stop_agreed = *vote > 0;
  return 0;
}

static void optimize(struct stage *s, int64_t step) {
  bubbletop_span span;
  if (s->o->timed && s->o->optimizer_ns == 0) return;
  bubbletop_begin(s->trace->session, &span, BUBBLETOP_OPTIMIZER, bubbletop_at(-1, -1));
  if (s->o->timed)
    wait_timed(s, s->o->optimizer_ns, step, -1);
  else
    parameters_update(&s->parameters, s->o->rate);
  bubbletop_end(&span);
}

static int run_step(struct stage *s, int64_t step, struct failure *why) {
  for (int i = 0; i < s->order->count; i++)
    if (run_op(s, i, step, why) != 0) return -1;
  if (reduce_gradients(s, step, why) != 0) return -1;
  optimize(s, step);
  bubbletop_counter(s->trace->session, "activation_memory", (double)s->peak); /* the step's peak */
  return s->o->barrier ? all_reduce_world(s->mesh, s->trace, step, &s->loss, why) : 0;
}

int stage_step(struct stage *s, int64_t step, struct stage_report *report, struct failure *why) {
  s->posted = 0;
  s->ahead = -1;
  s->peak = s->held;
  s->loss = 0;
  s->stop_wanted = wants_to_stop(s);
  s->last_step = s->number == 0 && s->stop_agreed;
  memset(s->parameters.gradient, 0, (s->parameters.count + 1) * sizeof(float));

  bubbletop_step_begin(s->trace->session, step);
  int status = run_step(s, step, why);
  bubbletop_step_end(s->trace->session, step);

  s->report.last = s->last_step;
  s->report.loss = (s->o->barrier ? s->loss : s->loss * s->o->replicas) / s->o->hidden;
  *report = s->report;
  return status;
}

/* ---- making and freeing ----------------------------------------------------------------------------------------- */

struct block block_of(const struct options *o, int vstage, int vstages) {
  int first = o->layers * vstage / vstages, end = o->layers * (vstage + 1) / vstages;
  return (struct block){.first_layer = first,
                        .layers = end - first,
                        .rows = o->batch,
                        .width = o->hidden,
                        .model_begins = vstage == 0,
                        .model_ends = vstage == vstages - 1};
}

static int make_blocks(struct stage *s) {
  size_t count = 0, slots = slot(s, s->o->chunks, 0);
  for (int chunk = 0; chunk < s->o->chunks; chunk++) {
    int vstage = plan_vstage(s->o, s->number, chunk), vstages = plan_vstages(s->plan);
    s->blocks[chunk] = block_of(s->o, vstage, vstages);
    count += block_size(&s->blocks[chunk]);
    s->report.has_loss |= vstage == vstages - 1;
  }
  s->tapes = calloc(slots, sizeof *s->tapes);
  s->handed[0] = calloc(slots, sizeof *s->handed[0]);
  s->handed[1] = calloc(slots, sizeof *s->handed[1]);
  s->target = malloc(activation_size(&s->blocks[0]) * sizeof *s->target);
  if (s->tapes == NULL || s->handed[0] == NULL || s->handed[1] == NULL || s->target == NULL ||
      parameters_make(&s->parameters, count) != 0)
    return -1;
  size_t offset = 0;
  for (int chunk = 0; chunk < s->o->chunks; chunk++) {
    struct block *b = &s->blocks[chunk];
    b->value = s->parameters.value + offset;
    b->gradient = s->parameters.gradient + offset;
    offset += block_size(b);
    block_initialise(b, s->o->seed);
    for (int microbatch = 0; microbatch < s->o->microbatches; microbatch++)
      if (tape_make(&s->tapes[slot(s, chunk, microbatch)], b) != 0) return -1;
  }
  return 0;
}

int stage_make(struct stage **out, const struct options *o, const struct plan *plan, const struct mesh *mesh,
               struct transport *transport, const struct trace *trace, const volatile sig_atomic_t *stop,
               struct failure *why) {
  struct stage *s = calloc(1, sizeof *s);
  if (s == NULL) return failed(why, "out of memory");
  s->o = o;
  s->plan = plan;
  s->number = stage_of(o, o->rank);
  s->replica = replica_of(o, o->rank);
  s->order = &plan->orders[s->number];
  s->mesh = mesh;
  s->transport = transport;
  s->trace = trace;
  s->stop = stop;
  s->began = bubbletop_now();
  if (make_blocks(s) != 0 || teacher_make(&s->teacher, o->hidden, o->seed) != 0) {
    stage_free(s);
    return failed(why, "out of memory");
  }
  *out = s;
  return 0;
}

void stage_free(struct stage *s) {
  size_t slots = slot(s, s->o->chunks, 0);
  for (size_t i = 0; i < slots; i++) {
    if (s->tapes != NULL) tape_free(&s->tapes[i], &s->blocks[i / (size_t)s->o->microbatches]);
    for (int side = 0; side < 2; side++)
      if (s->handed[side] != NULL) free(s->handed[side][i]);
  }
  free(s->tapes);
  free(s->handed[0]);
  free(s->handed[1]);
  free(s->target);
  teacher_free(&s->teacher);
  parameters_free(&s->parameters);
  free(s);
}

int dump_block(const struct block *b, const char *directory, int replica, struct failure *why) {
  if (mkdir(directory, 0777) != 0 && errno != EEXIST) return failed(why, "%s: %s", directory, strerror(errno));
  for (int layer = 0; layer < b->layers; layer++) {
    char path[4096];
    size_t count = layer_size(b->width);
    snprintf(path, sizeof path, "%s/layer-%03d.replica-%d.f32", directory, b->first_layer + layer, replica);
    FILE *file = fopen(path, "wb");
    size_t written = file != NULL ? fwrite(b->gradient + (size_t)layer * count, sizeof(float), count, file) : 0;
    if (file == NULL || fclose(file) != 0 || written != count) return failed(why, "%s: %s", path, strerror(errno));
  }
  return 0;
}

int stage_dump(const struct stage *s, const char *directory, struct failure *why) {
  for (int chunk = 0; chunk < s->o->chunks; chunk++)
    if (dump_block(&s->blocks[chunk], directory, s->replica, why) != 0) return -1;
  return 0;
}
