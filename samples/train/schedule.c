#include "samples/train/schedule.h"

#include <stdlib.h>
#include <string.h>

/* What a generator needs to know of its stage; it appends to `order`. */
struct writer {
  struct order *order;
  int stage, stages, chunks, microbatches;
  bool split; /* a backward is B and W, one after the other */
};

static void add(struct writer *w, enum op_kind kind, int chunk, int microbatch) {
  if (microbatch >= w->microbatches) return; /* zb-v is made for more microbatches and cut down to those that exist */
  w->order->ops[w->order->count++] = (struct op){.kind = kind, .microbatch = microbatch, .chunk = chunk};
}

static void add_backward(struct writer *w, int chunk, int microbatch) {
  add(w, w->split ? OP_B : OP_BW, chunk, microbatch);
  if (w->split) add(w, OP_W, chunk, microbatch);
}

static int least(int a, int b) {
  return a < b ? a : b;
}

/* `ahead` forwards, then one forward and one backward in turn, then the backwards that are left. */
static void one_forward_one_backward(struct writer *w, int ahead) {
  int total = w->microbatches;
  for (int i = 0; i < total + ahead; i++) {
    if (i < total) add(w, OP_F, 0, i);
    if (i >= ahead) add_backward(w, 0, i - ahead);
  }
}

static void gpipe(struct writer *w) {
  one_forward_one_backward(w, w->microbatches);
}

static void one_f_one_b(struct writer *w) {
  one_forward_one_backward(w, least(w->stages - 1 - w->stage, w->microbatches));
}

/* The k-th forward works on chunk (k / p) % v; backwards go through the chunks the other way round. */
static void interleaved(struct writer *w) {
  int p = w->stages, v = w->chunks, total = w->microbatches * v;
  int ahead = least((v - 1) * p + 2 * (p - 1 - w->stage), total);
  for (int i = 0; i < total + ahead; i++) {
    int k = i - ahead;
    if (i < total) add(w, OP_F, i / p % v, i / (p * v) * p + i % p);
    if (k >= 0) add_backward(w, v - 1 - k / p % v, k / (p * v) * p + k % p);
  }
}

/* Zero bubble: as 1F1B, but W waits until `delay` backwards have gone by, and fills the end. */
static void zero_bubble(struct writer *w, int ahead, int delay) {
  int total = w->microbatches, done = 0;
  for (int i = 0; i < least(ahead, total); i++)
    add(w, OP_F, 0, i);
  for (int i = 0; i < total; i++) {
    if (i + ahead < total) add(w, OP_F, 0, i + ahead);
    add(w, OP_B, 0, i);
    if (i >= delay) add(w, OP_W, 0, done++);
  }
  while (done < total)
    add(w, OP_W, 0, done++);
}

static void zb_h1(struct writer *w) {
  zero_bubble(w, w->stages - 1 - w->stage, w->stage);
}
static void zb_h2(struct writer *w) {
  zero_bubble(w, 2 * (w->stages - 1 - w->stage), 2 * w->stage);
}

/* Zero bubble on a V: chunk 0 goes down the stages and chunk 1 up again (the order of PyTorch's ScheduleZBVZeroBubble). */
static void zb_v(struct writer *w) {
  int p = w->stages, r = w->stage, total = w->microbatches > 2 * p - 1 ? w->microbatches : 2 * p - 1;
  int f0 = 0, f1 = 0, b0 = 0, b1 = 0, w0 = 0, w1 = 0;
  for (int i = 0; i < 2 * (p - r) - 1; i++)
    add(w, OP_F, 0, f0++);
  for (int i = 0; i < r; i++) {
    add(w, OP_F, 1, f1++);
    add(w, OP_F, 0, f0++);
  }
  for (int i = 0; i < p - r; i++) {
    add(w, OP_F, 1, f1++);
    add(w, OP_B, 1, b1++);
    add(w, OP_W, 1, w1++);
  }
  while (f1 < f0 || f0 < total) {
    if (f0 < total) add(w, OP_F, 0, f0++);
    add(w, OP_B, 0, b0++);
    add(w, OP_W, 0, w0++);
    add(w, OP_F, 1, f1++);
    add(w, OP_B, 1, b1++);
    add(w, OP_W, 1, w1++);
  }
  for (int i = 0; i < r; i++) {
    add(w, OP_B, 0, b0++);
    add(w, OP_B, 1, b1++);
  }
  for (int i = 0; i < p - r; i++) {
    add(w, OP_B, 0, b0++);
    add(w, OP_W, 0, w0++);
  }
  while (w1 < b1)
    add(w, OP_W, 1, w1++);
  while (w0 < b0)
    add(w, OP_W, 0, w0++);
}

static const struct schedule {
  const char *name;
  void (*write)(struct writer *w);
  bool separable; /* B and W are apart by nature */
} schedules[] = {
    {"gpipe", gpipe, false}, {"1f1b", one_f_one_b, false}, {"interleaved", interleaved, false},
    {"zb-h1", zb_h1, true},  {"zb-h2", zb_h2, true},       {"zb-v", zb_v, true},
};

static const struct schedule *find(const char *name) {
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
    if (strcmp(schedules[i].name, name) == 0) return &schedules[i];
  return NULL;
}

static int check(const struct options *o, const struct schedule *schedule, struct failure *why) {
  if (schedule == NULL)
    return failed(why, "--schedule %s: gpipe, 1f1b, interleaved, zb-h1, zb-h2 or zb-v is needed", o->schedule);
  if (schedule->write == interleaved) {
    if (o->chunks < 2) return failed(why, "interleaved needs --chunks 2 or more");
    if (o->microbatches % o->stages != 0)
      return failed(why, "interleaved needs --microbatches in multiples of --stages");
  } else if (o->chunks != (schedule->write == zb_v ? 2 : 1)) {
    return failed(why, "--chunks %d: %s has %d", o->chunks, o->schedule, schedule->write == zb_v ? 2 : 1);
  }
  int fewest = schedule->write == zb_h1 ? o->stages : schedule->write == zb_h2 ? 2 * o->stages - 1 : 1;
  if (o->microbatches < fewest)
    return failed(why, "%s needs --microbatches %d or more for %d stages", o->schedule, fewest, o->stages);
  if (o->layers < o->stages * o->chunks)
    return failed(why, "--layers %d: %d stages of %d chunks need one each", o->layers, o->stages, o->chunks);
  return 0;
}

int plan_vstage(const struct options *o, int stage, int chunk) {
  if (strcmp(o->schedule, "zb-v") == 0 && chunk == 1) return 2 * o->stages - 1 - stage;
  return chunk * o->stages + stage;
}

static void owner_of(const struct options *o, int vstage, int *stage, int *chunk) {
  *chunk = vstage / o->stages;
  *stage = vstage % o->stages;
  if (plan_vstage(o, *stage, *chunk) != vstage) *stage = o->stages - 1 - *stage;
}

static struct op *find_op(struct order *order, enum op_kind kind, int chunk, int microbatch) {
  for (int i = 0; i < order->count; i++) {
    struct op *op = &order->ops[i];
    bool same = kind == OP_F ? op->kind == OP_F : op->kind == OP_B || op->kind == OP_BW;
    if (same && op->chunk == chunk && op->microbatch == microbatch) return op;
  }
  return NULL;
}

/* Finds who takes what `op` of `stage` makes, and numbers the message between them. */
static void connect_op(struct plan *plan, const struct options *o, int stage, struct op *op) {
  int next = op->kind == OP_F ? op->vstage + 1 : op->vstage - 1, to_stage, to_chunk;
  if (op->kind == OP_W || next < 0 || next >= plan_vstages(plan)) return;
  owner_of(o, next, &to_stage, &to_chunk);
  struct op *taker = find_op(&plan->orders[to_stage], op->kind, to_chunk, op->microbatch);
  op->to_chunk = to_chunk;
  if (to_stage == stage) {
    taker->handed = true;
    op->to.stage = stage;
    return;
  }
  int number = plan->messages[stage][to_stage]++;
  op->to = (struct message){to_stage, number};
  taker->from = (struct message){stage, number};
}

int plan_make(struct plan *plan, const struct options *o, struct failure *why) {
  const struct schedule *schedule = find(o->schedule);
  if (check(o, schedule, why) != 0) return -1;
  *plan = (struct plan){.stages = o->stages,
                        .chunks = o->chunks,
                        .microbatches = o->microbatches,
                        .w_separable = schedule->separable || o->split_backward};
  plan->orders = calloc((size_t)o->stages, sizeof *plan->orders);
  if (plan->orders == NULL) return failed(why, "out of memory");
  for (int stage = 0; stage < o->stages; stage++) {
    struct order *order = &plan->orders[stage];
    order->ops = calloc((size_t)o->chunks * (size_t)o->microbatches * 3, sizeof *order->ops);
    if (order->ops == NULL) return failed(why, "out of memory");
    schedule->write(&(struct writer){order, stage, o->stages, o->chunks, o->microbatches, plan->w_separable});
    for (int i = 0; i < order->count; i++) {
      struct op *op = &order->ops[i];
      op->vstage = plan_vstage(o, stage, op->chunk);
      op->from.stage = op->to.stage = -1;
    }
  }
  for (int stage = 0; stage < o->stages; stage++)
    for (int i = 0; i < plan->orders[stage].count; i++)
      connect_op(plan, o, stage, &plan->orders[stage].ops[i]);
  return 0;
}

void plan_free(struct plan *plan) {
  for (int stage = 0; plan->orders != NULL && stage < plan->stages; stage++)
    free(plan->orders[stage].ops);
  free(plan->orders);
  plan->orders = NULL;
}
