/* Which step every op belongs to, which steps are whole, which are reported, and their windows. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

enum { MANY_LOSSES = 4096 /* from so many on, the whole rank counts as lost */ };

typedef struct step_key {
  int64_t epoch, id;
} step_key;

static int compare_key(const void *a, const void *b) {
  const step_key *x = a;
  const step_key *y = b;
  if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
  return (x->id > y->id) - (x->id < y->id);
}

static bt_model_visit *new_visit(bt_model *model, int32_t rank, step_key key) {
  bt_model_visit *visit = BT_PUSH(model, visits);
  if (visit == NULL) return NULL;
  *visit = (bt_model_visit){.first = INT64_MAX,
                            .last = INT64_MIN,
                            .begin = BT_UNKNOWN,
                            .end = BT_UNKNOWN,
                            .last_span = INT64_MIN,
                            .first_b = BT_UNKNOWN,
                            .last_f = BT_UNKNOWN,
                            .id = key.id,
                            .epoch = key.epoch,
                            .step = BT_NO_INDEX,
                            .rank = rank,
                            .whole = true};
  model->ranks[rank].visits.count++;
  return visit;
}

/* --- by marks -------------------------------------------------------------------------------------------------------- */

/* True: an op that starts at `start` belongs to visit `at` + 1 or a later one. A visit without begin mark begins at the
 * end of the one before it. */
static bool reaches(const bt_model_visit *visits, int32_t at, int64_t start) {
  const bt_model_visit *next = &visits[at + 1];
  if (next->begin != BT_UNKNOWN) return next->begin <= start;
  return at < 0 || next->end <= start || (visits[at].end != BT_UNKNOWN && visits[at].end <= start);
}

static bool visits_by_marks(bt_model *model, int32_t index) {
  bt_model_rank *rank = &model->ranks[index];
  const bt_rank *source = rank->source;
  int64_t epoch = 0;
  rank->visits.first = (int32_t)model->visits_count;
  for (size_t i = 0; i < source->step_count; i++) {
    const bt_step *step = &source->steps[i];
    if (i > 0 && step->id <= source->steps[i - 1].id) epoch++; /* the numbers start again: the rank was restarted */
    int64_t mark = step->begin != INT64_MIN ? step->begin : step->end;
    if (mark < rank->from || mark >= rank->to) continue;
    bt_model_visit *visit = new_visit(model, index, (step_key){epoch, step->id});
    if (visit == NULL) return false;
    if (bt_model_believes(rank, step->begin)) visit->begin = bt_model_time(rank, step->begin);
    if (bt_model_believes(rank, step->end)) visit->end = bt_model_time(rank, step->end);
  }
  bt_model_visit *visits = &model->visits[rank->visits.first];
  int32_t at = BT_NO_INDEX;
  for (int32_t k = rank->ops.first; k < rank->ops.first + rank->ops.count; k++) {
    bt_model_op *op = &model->ops[k];
    while (at + 1 < rank->visits.count && reaches(visits, at, op->start))
      at++;
    if (at >= 0) op->visit = rank->visits.first + at;
  }
  return true;
}

/* --- by the order of microbatches ------------------------------------------------------------------------------------ */

typedef struct seen_table { /* which (half, chunk, microbatch) ran in the step so far, and as which op */
  uint64_t *keys;
  int32_t *steps, *ops;
  size_t size;
} seen_table;

static bool make_seen(seen_table *seen, int32_t ops) {
  seen->size = 64;
  while (seen->size < (size_t)ops * 4)
    seen->size *= 2;
  seen->keys = calloc(seen->size, sizeof *seen->keys);
  seen->steps = calloc(seen->size, sizeof *seen->steps);
  seen->ops = calloc(seen->size, sizeof *seen->ops);
  return seen->keys != NULL && seen->steps != NULL && seen->ops != NULL;
}

static void free_seen(seen_table *seen) {
  free(seen->keys);
  free(seen->steps);
  free(seen->ops);
}

/* True: this half ran in step `step` (counted from 1) already, and it is not the same span recorded twice. */
static bool repeats(const bt_model *model, seen_table *seen, int32_t step, int32_t op, unsigned half, int chunk,
                    int32_t microbatch) {
  if (microbatch < 0) return false;
  uint64_t key = ((uint64_t)half << 48) | ((uint64_t)(uint8_t)chunk << 40) | ((uint64_t)microbatch + 1);
  size_t at = (key * 0x9E3779B97F4A7C15u >> 20) & (seen->size - 1);
  while (seen->keys[at] != 0 && seen->keys[at] != key)
    at = (at + 1) & (seen->size - 1);
  if (seen->keys[at] == key && seen->steps[at] == step) return model->ops[seen->ops[at]].end <= model->ops[op].start;
  seen->keys[at] = key;
  seen->steps[at] = step;
  seen->ops[at] = op;
  return false;
}

static bool starts_again(const bt_model *model, seen_table *seen, int32_t step, int32_t index) {
  const bt_model_op *op = &model->ops[index];
  bool again = false;
  if (bt_kind_has_forward(op->kind)) again |= repeats(model, seen, step, index, 1, op->chunk, op->microbatch);
  if (op->kind == BT_B || op->kind == BT_BW) again |= repeats(model, seen, step, index, 2, op->chunk, op->microbatch);
  if (op->kind == BT_FB) again |= repeats(model, seen, step, index, 2, op->chunk_b, op->microbatch_b);
  if (op->kind == BT_W) again |= repeats(model, seen, step, index, 3, op->chunk, op->microbatch);
  return again;
}

static bool visits_by_order(bt_model *model, int32_t index) {
  bt_model_rank *rank = &model->ranks[index];
  rank->visits.first = (int32_t)model->visits_count;
  seen_table seen;
  bool fine = make_seen(&seen, rank->ops.count);
  int32_t step = 0;
  for (int32_t k = rank->ops.first; fine && k < rank->ops.first + rank->ops.count; k++) {
    bt_model_op *op = &model->ops[k];
    bool pipeline = bt_code_is_pipeline_op(op->kind);
    if (pipeline && (step == 0 || starts_again(model, &seen, step, k))) {
      fine = new_visit(model, index, (step_key){0, step}) != NULL;
      step++;
      (void)starts_again(model, &seen, step, k); /* now it is the first of its step */
    }
    if (fine && step > 0) op->visit = (int32_t)model->visits_count - 1;
  }
  free_seen(&seen);
  return fine;
}

/* --- what a visit holds ---------------------------------------------------------------------------------------------- */

static void extend_visit(bt_model_visit *visit, const bt_model_op *op) {
  if (op->end > visit->last_span) visit->last_span = op->end;
  if (!bt_code_is_pipeline_op(op->kind)) return;
  if (op->start < visit->first) visit->first = op->start;
  if (op->end > visit->last) visit->last = op->end;
  bool forward = bt_kind_has_forward(op->kind);
  bool backward = bt_kind_has_backward(op->kind);
  if (forward && (visit->last_f == BT_UNKNOWN || op->end > visit->last_f)) visit->last_f = op->end;
  if (backward && (visit->first_b == BT_UNKNOWN || op->start < visit->first_b)) visit->first_b = op->start;
}

static void count_op(const bt_model *model, bt_model_visit *visit, const bt_model_op *op) {
  extend_visit(visit, op);
  if (!bt_code_is_pipeline_op(op->kind)) return;
  if (model->gpu && (op->flags & BT_FLAG_GPU_TIMED) == 0) visit->whole = false; /* when it ran is not known */
  visit->op_ns += op->end - op->start;
  visit->f += bt_kind_has_forward(op->kind);
  visit->b += bt_kind_has_backward(op->kind);
  visit->w += op->kind == BT_W || op->kind == BT_BW || op->kind == BT_FB;
}

static void extend_windows(bt_model *model) {
  size_t cells = (size_t)model->replica_count * (size_t)model->step_count;
  for (size_t i = 0; i < cells; i++)
    model->windows[i] = (bt_model_window){INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < model->collectives_count; i++) {
    const bt_model_collective *collective = &model->collectives[i];
    if (collective->visit == BT_NO_INDEX) continue;
    bt_model_visit *visit = &model->visits[collective->visit];
    if (collective->end > visit->last_span) visit->last_span = collective->end;
  }
  for (int32_t i = 0; i < model->step_count; i++)
    model->steps[i].last_span = INT64_MIN;
  for (size_t i = 0; i < model->visits_count; i++) {
    const bt_model_visit *visit = &model->visits[i];
    bt_model_window *window = bt_model_window_of(model, model->ranks[visit->rank].replica, visit->step);
    if (visit->first < window->start) window->start = visit->first;
    if (visit->last > window->end) window->end = visit->last;
    bt_model_step *step = &model->steps[visit->step];
    if (visit->last_span > step->last_span) step->last_span = visit->last_span;
  }
}

void bt_model_extents(bt_model *model) {
  for (size_t i = 0; i < model->visits_count; i++) {
    bt_model_visit *visit = &model->visits[i];
    visit->first = INT64_MAX;
    visit->last = visit->last_span = INT64_MIN;
    visit->first_b = visit->last_f = BT_UNKNOWN;
  }
  for (size_t i = 0; i < model->ops_count; i++) {
    if (model->ops[i].visit != BT_NO_INDEX) extend_visit(&model->visits[model->ops[i].visit], &model->ops[i]);
  }
  extend_windows(model);
}

static void assign_collectives(bt_model *model, const bt_model_rank *rank) {
  if (rank->host_timed_collectives) return;
  const bt_model_visit *visits = &model->visits[rank->visits.first];
  int32_t at = BT_NO_INDEX;
  for (int32_t k = rank->collectives.first; k < rank->collectives.first + rank->collectives.count; k++) {
    bt_model_collective *collective = &model->collectives[k];
    if (model->gpu && (collective->flags & BT_FLAG_GPU_TIMED) == 0) continue;
    while (at + 1 < rank->visits.count && bt_visit_start(&visits[at + 1]) <= collective->start)
      at++;
    if (at >= 0) collective->visit = rank->visits.first + at;
  }
}

/* A message or collective that has the host's time only ran then or, the GPU being behind, in the next step. */
static void note_unknown(bt_model *model, const bt_model_rank *rank, unsigned flags, int64_t start) {
  if (!model->gpu || (flags & BT_FLAG_GPU_UNKNOWN) == 0 || rank->visits.count == 0) return;
  bt_model_visit *visits = &model->visits[rank->visits.first];
  int32_t low = 0;
  int32_t high = rank->visits.count;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (bt_visit_start(&visits[middle]) <= start)
      low = middle + 1;
    else
      high = middle;
  }
  if (low > 0) visits[low - 1].comm_unknown = true;
  if (low < rank->visits.count) visits[low].comm_unknown = true;
  bt_account_warn(model->out, "gpu_unknown", 1,
                  "messages or collectives without GPU time: what waited for them in their steps is unattributed");
}

static void note_all_unknown(bt_model *model, const bt_model_rank *rank) {
  for (int32_t k = rank->p2p.first; k < rank->p2p.first + rank->p2p.count; k++)
    note_unknown(model, rank, model->p2p[k].flags, model->p2p[k].start);
  for (int32_t k = rank->collectives.first; k < rank->collectives.first + rank->collectives.count; k++)
    note_unknown(model, rank, model->collectives[k].flags, model->collectives[k].start);
}

/* Lost or unfinished records make the steps they may belong to not whole. */
static void spoil(bt_model *model, const bt_model_rank *rank, int64_t from, int64_t to) {
  for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++) {
    bt_model_visit *visit = &model->visits[v];
    int64_t end = visit->end > visit->last ? visit->end : visit->last;
    if (bt_visit_start(visit) <= to && end >= from) visit->whole = false;
  }
}

static void spoil_losses(bt_model *model, const bt_model_rank *rank) {
  const bt_rank *source = rank->source;
  bool many = source->loss_count > MANY_LOSSES;
  for (size_t i = 0; i < source->loss_count; i++) {
    const bt_loss *loss = &source->losses[i];
    int64_t from = bt_model_believes(rank, loss->from) ? bt_model_time(rank, loss->from) : INT64_MIN;
    int64_t to = bt_model_believes(rank, loss->to) ? bt_model_time(rank, loss->to) : INT64_MAX;
    spoil(model, rank, many ? INT64_MIN : from, many ? INT64_MAX : to);
    if (many) break;
  }
  if (source->loss_count > 0) {
    bt_account_warn(model->out, "lost_events", (int64_t)source->loss_count,
                    "rank %d lost records; steps that may miss some are left out of the rates", rank->rank);
  }
  for (size_t i = 0; i < source->open_count; i++) {
    const bt_event *open = &source->open[i].event;
    if (bt_code_is_compute(open->on_code) && bt_model_believes(rank, open->start))
      spoil(model, rank, bt_model_time(rank, open->start), INT64_MAX);
  }
}

static int compare_visit_size(const void *a, const void *b) {
  const bt_model_visit *x = *(const bt_model_visit *const *)a;
  const bt_model_visit *y = *(const bt_model_visit *const *)b;
  if (x->f != y->f) return x->f < y->f ? -1 : 1;
  if (x->b != y->b) return x->b < y->b ? -1 : 1;
  return (x->w > y->w) - (x->w < y->w);
}

/* The commonest (f, b, w) of a rank's visits, the larger of two as common. False: no memory. */
static bool usual_visit(const bt_model *model, bt_model_rank *rank) {
  size_t count = (size_t)rank->visits.count;
  const bt_model_visit **sorted = malloc((count + 1) * sizeof(const bt_model_visit *));
  if (sorted == NULL) return false;
  for (size_t i = 0; i < count; i++)
    sorted[i] = &model->visits[(size_t)rank->visits.first + i];
  qsort(sorted, count, sizeof(const bt_model_visit *), compare_visit_size);
  size_t best = 0;
  for (size_t i = 0, run = 0; i < count; i++) {
    run = i > 0 && compare_visit_size(&sorted[i - 1], &sorted[i]) == 0 ? run + 1 : 1;
    if (run < best || sorted[i]->f == 0) continue;
    best = run;
    rank->usual_f = sorted[i]->f;
    rank->usual_b = sorted[i]->b;
    rank->usual_w = sorted[i]->w;
  }
  free(sorted);
  return true;
}

static void judge_visits(bt_model *model, const bt_model_rank *rank) {
  bool has_begins = false;
  bool has_ends = false;
  for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++) {
    has_begins |= model->visits[v].begin != BT_UNKNOWN;
    has_ends |= model->visits[v].end != BT_UNKNOWN;
  }
  for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++) {
    bt_model_visit *visit = &model->visits[v];
    if (has_begins && visit->begin == BT_UNKNOWN) visit->whole = false;
    if (has_ends && visit->end == BT_UNKNOWN) visit->whole = false;
    if (visit->f == 0 && visit->b == 0) visit->whole = false;
    if (visit->b > 0 && visit->f != visit->b) visit->whole = false;
  }
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

static bool number_steps(bt_model *model) {
  step_key *keys = malloc((model->visits_count + 1) * sizeof *keys);
  if (keys == NULL) return false;
  for (size_t i = 0; i < model->visits_count; i++)
    keys[i] = (step_key){model->visits[i].epoch, model->visits[i].id};
  qsort(keys, model->visits_count, sizeof *keys, compare_key);
  size_t distinct = 0;
  for (size_t i = 0; i < model->visits_count; i++) {
    if (i == 0 || compare_key(&keys[i], &keys[distinct - 1]) != 0) keys[distinct++] = keys[i];
  }
  model->steps = calloc(distinct + 1, sizeof *model->steps);
  if (model->steps != NULL) {
    for (size_t i = 0; i < distinct; i++) {
      model->steps[i] = (bt_model_step){
          .id = keys[i].id, .begin = BT_UNKNOWN, .end = BT_UNKNOWN, .last_span = INT64_MIN, .whole = true};
    }
    for (size_t i = 0; i < model->visits_count; i++) {
      step_key key = {model->visits[i].epoch, model->visits[i].id};
      step_key *place = bsearch(&key, keys, distinct, sizeof *keys, compare_key);
      model->visits[i].step = (int32_t)(place - keys);
    }
  }
  model->step_count = (int32_t)distinct;
  free(keys);
  return model->steps != NULL;
}

/* A visit with another number of ops than usual is still whole when all ranks' numbers changed alike. */
static bool as_usual(const bt_model *model, const bt_model_visit *visit, const bt_model_visit *reference) {
  const bt_model_rank *rank = &model->ranks[visit->rank];
  const bt_model_rank *other = &model->ranks[reference->rank];
  return (int64_t)visit->f * other->usual_f == (int64_t)reference->f * rank->usual_f &&
         (int64_t)visit->w * rank->usual_f == (int64_t)visit->f * rank->usual_w;
}

static bool gather_steps(bt_model *model) {
  size_t cells = (size_t)model->replica_count * (size_t)model->step_count;
  int32_t *seen = calloc((size_t)model->step_count + 1, sizeof *seen);
  const bt_model_visit **reference = calloc((size_t)model->step_count + 1, sizeof(const bt_model_visit *));
  model->windows = malloc((cells + 1) * sizeof *model->windows);
  bool fine = seen != NULL && reference != NULL && model->windows != NULL;
  if (fine) extend_windows(model);
  for (size_t i = 0; fine && i < model->visits_count; i++) {
    const bt_model_visit *visit = &model->visits[i];
    bt_model_step *step = &model->steps[visit->step];
    if (visit->begin != BT_UNKNOWN && (step->begin == BT_UNKNOWN || visit->begin < step->begin))
      step->begin = visit->begin;
    if (visit->end > step->end) step->end = visit->end;
    if (reference[visit->step] == NULL) reference[visit->step] = visit;
    if (!visit->whole || !as_usual(model, visit, reference[visit->step])) step->whole = false;
    seen[visit->step]++;
  }
  int32_t working = 0;
  for (int32_t i = 0; i < model->rank_count; i++)
    working += model->ranks[i].ops.count > 0;
  for (int32_t i = 0; fine && i < model->step_count; i++) {
    if (seen[i] < working) model->steps[i].whole = false;
  }
  free(seen);
  free(reference);
  return fine;
}

static bool assign_ops(bt_model *model) {
  bool marked = true;
  for (int32_t i = 0; i < model->rank_count; i++) {
    if (model->ranks[i].ops.count > 0 && model->ranks[i].source->step_count == 0) marked = false;
  }
  if (!marked) {
    bt_account_warn(model->out, "no_step_marks", BT_UNKNOWN,
                    "steps are told apart by microbatch numbers that start again: not every rank marks them");
  }
  for (int32_t i = 0; i < model->rank_count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    if (rank->ops.count == 0) continue;
    if (!(marked ? visits_by_marks(model, i) : visits_by_order(model, i))) return false;
    for (int32_t k = rank->ops.first; k < rank->ops.first + rank->ops.count; k++) {
      const bt_model_op *op = &model->ops[k];
      if (op->visit != BT_NO_INDEX) count_op(model, &model->visits[op->visit], op);
    }
    assign_collectives(model, rank);
    note_all_unknown(model, rank);
    judge_visits(model, rank);
    spoil_losses(model, rank);
    if (!usual_visit(model, rank)) return false;
  }
  return true;
}

bt_status bt_model_steps(bt_model *model, const bt_accounting_options *options) {
  if (!assign_ops(model) || !number_steps(model) || !gather_steps(model)) return BT_ERR_NOMEM;
  return bt_model_choose(model, options);
}
