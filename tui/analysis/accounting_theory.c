/* Theory: the same order of ops, replayed with mean durations and accounted for like the run itself.
 *
 * Only the reported steps are replayed; ops that run before them keep their times, so that what overlaps is the same in
 * both. Ops inside others move with the outermost. Tensor-parallel collectives inside an op are taken together at its end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_theory.h"

/* Ops and collectives that do not run before the interval's end are moved behind every interval. */
#define BT_NEVER (INT64_MAX / 2)

/* --- times back into a model ----------------------------------------------------------------------------------------- */

static const bt_op_time *time_of(const bt_theory *theory, size_t lane, int32_t place) {
  return &theory->replay->times[theory->replay->first[lane] + (size_t)place];
}

static void move_op(const bt_theory *theory, bt_model *model, int32_t i) {
  const bt_model_op *measured = &theory->model->ops[i];
  bt_model_op *op = &model->ops[i];
  const bt_replay *replay = theory->replay;
  size_t index = replay->first[op->rank * BT_LANES_A_RANK] + (size_t)theory->place[i];
  const bt_op_time *time = &replay->times[index];
  op->start = time->start;
  op->end = time->end;
  op->e = INT64_MIN;
  op->r = time->arrival;
  for (size_t half = 0; half < 2; half++) {
    uint32_t producer = replay->producer[2 * index + half];
    if (producer != BT_NO_OP && replay->times[producer].end > op->e) op->e = replay->times[producer].end;
  }
  if (measured->kind == BT_RECOMPUTE && measured->waits) op->e = op->r = time->start;
  op->waits = op->e != INT64_MIN;
  op->e_known = op->r_known = true;
  op->collective_until = op->send_until = INT64_MIN;
  int32_t collective = theory->waits_for[i];
  if (collective == BT_NO_INDEX) return;
  op->collective_until = model->collectives[collective].end;
  if (theory->lane_of[collective] >= 0) {
    op->collective_until =
        time_of(theory, (size_t)theory->lane_of[collective], theory->collective_place[collective])->end;
  }
}

/* An op inside another keeps its relative place. */
static void move_inner(const bt_theory *theory, bt_model *model, int32_t i) {
  const bt_model_op *from = &theory->model->ops[theory->outer[i]];
  const bt_model_op *to = &model->ops[theory->outer[i]];
  bt_model_op *op = &model->ops[i];
  double scale = from->end > from->start ? (double)(to->end - to->start) / (double)(from->end - from->start) : 1;
  op->start = to->start + (int64_t)((double)(op->start - from->start) * scale + 0.5);
  op->end = to->start + (int64_t)((double)(op->end - from->start) * scale + 0.5);
}

static void move_ops(const bt_theory *theory, bt_model *model) {
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    bt_model_op *op = &model->ops[i];
    if (theory->place[i] != BT_NO_INDEX) {
      move_op(theory, model, i);
    } else if (theory->outer[i] != BT_NO_INDEX) {
      move_inner(theory, model, i);
    } else if (op->start >= theory->model->end) {
      op->start = op->end = BT_NEVER;
      op->visit = BT_NO_INDEX;
    }
  }
}

static void move_collectives(const bt_theory *theory, bt_model *model) {
  for (size_t c = 0; c < model->collectives_count; c++) {
    bt_model_collective *collective = &model->collectives[c];
    if (theory->lane_of[c] == BT_CUT) {
      int32_t op = theory->collective_place[c];
      const bt_model_op *to = &model->ops[op];
      int64_t own = theory->place[op] == BT_NO_INDEX
                        ? to->end
                        : time_of(theory, (size_t)to->rank * BT_LANES_A_RANK, theory->place[op])->own_end;
      bool last = theory->call[op] == collective->call;
      if (theory->place[op] == BT_NO_INDEX) continue;
      collective->start = own;
      collective->end = last ? to->end : own;
      collective->arrived = to->end - bt_theory_sync_cost(theory, op);
    } else if (theory->lane_of[c] >= 0) {
      const bt_op_time *time = time_of(theory, (size_t)theory->lane_of[c], theory->collective_place[c]);
      size_t index = (size_t)(time - theory->replay->times);
      collective->start = time->start;
      collective->end = time->end;
      if (collective->call != 0) collective->arrived = time->end - theory->replay->costs[index].sync_duration;
    } else if (collective->start >= theory->model->end) {
      collective->start = collective->end = BT_NEVER;
      collective->visit = BT_NO_INDEX;
    }
  }
}

static int compare_start(const void *a, const void *b) {
  const bt_model_collective *x = a;
  const bt_model_collective *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return (x->end < y->end) - (x->end > y->end);
}

/* Room for what a replay moves. What a model shares with the measured one is not freed with it. */
static bool make_copy(const bt_model *from, bt_model *to) {
  size_t cells = (size_t)from->replica_count * (size_t)from->step_count;
  memset(to, 0, sizeof *to);
  to->ranks = malloc((size_t)from->rank_count * sizeof *to->ranks);
  to->ops = bt_array_new(from->ops_count + 1, sizeof *to->ops);
  to->collectives = bt_array_new(from->collectives_count + 1, sizeof *to->collectives);
  to->visits = bt_array_new(from->visits_count + 1, sizeof *to->visits);
  to->steps = malloc((size_t)from->step_count * sizeof *to->steps);
  to->windows = malloc(cells * sizeof *to->windows);
  return to->ranks != NULL && to->ops != NULL && to->collectives != NULL && to->visits != NULL && to->steps != NULL &&
         to->windows != NULL;
}

/* The model as it was measured, without messages and gates; the pieces are still to be made. */
static bool fill_copy(const bt_model *from, bt_model *to) {
  bt_model own = *to;
  *to = *from;
  to->ranks = own.ranks;
  to->ops = own.ops;
  to->collectives = own.collectives;
  to->visits = own.visits;
  to->steps = own.steps;
  to->windows = own.windows;
  to->segments = own.segments;
  to->segments_capacity = own.segments_capacity;
  to->collective_pieces = own.collective_pieces;
  to->collective_pieces_capacity = own.collective_pieces_capacity;
  to->send_pieces = own.send_pieces;
  to->send_pieces_capacity = own.send_pieces_capacity;
  to->segments_count = to->collective_pieces_count = to->send_pieces_count = 0;
  to->p2p = NULL;
  to->gates = NULL;
  to->p2p_count = to->gates_count = 0;
  to->out = calloc(1, sizeof *to->out);
  if (to->out == NULL) return false;
  memcpy(to->ranks, from->ranks, (size_t)from->rank_count * sizeof *to->ranks);
  memcpy(to->ops, from->ops, from->ops_count * sizeof *to->ops);
  if (from->collectives_count > 0) {
    memcpy(to->collectives, from->collectives, from->collectives_count * sizeof *to->collectives);
  }
  memcpy(to->visits, from->visits, from->visits_count * sizeof *to->visits);
  memcpy(to->steps, from->steps, (size_t)from->step_count * sizeof *to->steps);
  for (int32_t r = 0; r < to->rank_count; r++) {
    bt_model_rank *rank = &to->ranks[r];
    rank->p2p.count = rank->gates.count = 0;
    rank->host_timed_p2p = rank->host_timed_collectives = false;
    rank->gated = true; /* what an op waited for is known, not guessed */
  }
  return true;
}

/* The end of the interval: as far behind the last step's last span as it was measured. */
static int64_t end_of(const bt_model *measured, const bt_model *replayed) {
  int32_t last = BT_NO_INDEX;
  for (int32_t i = 0; i < measured->step_count; i++) {
    if (measured->steps[i].reported) last = i;
  }
  int64_t end = replayed->steps[last].last_span + measured->end - measured->steps[last].last_span;
  for (int32_t r = 0; r < replayed->replica_count; r++) {
    int64_t window_end = bt_model_window_of(replayed, r, last)->end;
    if (window_end > end) end = window_end;
  }
  return end;
}

static bt_status account_replay(const bt_theory *theory, bt_model *model) {
  const bt_model *measured = theory->model;
  if (!fill_copy(measured, model)) return BT_ERR_NOMEM;
  move_ops(theory, model);
  move_collectives(theory, model);
  for (int32_t r = 0; r < model->rank_count; r++) {
    const bt_model_slice *slice = &model->ranks[r].collectives;
    if (slice->count > 1)
      qsort(&model->collectives[slice->first], (size_t)slice->count, sizeof *model->collectives, compare_start);
  }
  bt_model_extents(model);
  model->start = INT64_MAX;
  for (int32_t i = 0; i < model->step_count; i++) {
    for (int32_t r = 0; model->steps[i].reported && r < model->replica_count; r++) {
      int64_t start = bt_model_window_of(model, r, i)->start;
      if (start < model->start) model->start = start;
    }
  }
  model->end = end_of(measured, model);
  bt_status status = bt_model_segments(model);
  if (status == BT_OK) status = bt_model_totals(model);
  return status;
}

/* --- the two replays ------------------------------------------------------------------------------------------------- */

/* `model`: a copy, which is filled anew. */
static bt_status replay_with(bt_theory *theory, bool balanced, bt_model *model, bt_accounting **result) {
  bt_status status = bt_theory_costs(theory, balanced);
  if (status != BT_OK) return status;
  for (size_t lane = 0; lane < theory->lane_count; lane++)
    theory->replay->ready[lane] = theory->ready[lane] != INT64_MIN ? theory->ready[lane] : theory->model->start;
  bt_replay_run(theory->replay);
  status = account_replay(theory, model);
  *result = model->out;
  model->out = NULL;
  return status;
}

static bool whole_steps(const bt_model *model, int32_t *first) {
  bool all = true;
  *first = BT_NO_INDEX;
  for (int32_t i = 0; i < model->step_count; i++) {
    if (!model->steps[i].reported) continue;
    if (*first == BT_NO_INDEX) *first = i;
    all &= model->steps[i].whole;
  }
  return all && *first != BT_NO_INDEX;
}

/* Whether every op that depends on others says which it is. */
static bool places_known(const bt_model *model) {
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    bool half = bt_kind_has_forward(op->kind) || bt_kind_has_backward(op->kind) || op->kind == BT_W;
    if (half && (op->vstage < 0 || op->microbatch < 0)) return false;
  }
  return true;
}

static void take(bt_accounting *out, const bt_accounting *jitterless, const bt_accounting *balanced) {
  out->ideal_rate_window = balanced->rate_window;
  out->ideal_rate_span = balanced->rate_span;
  out->jitterless_rate_window = jitterless->rate_window;
  if (out->bubble_ns != BT_UNKNOWN && out->rate_window > 0 && !isnan(balanced->rate_window)) {
    out->excess_ns = out->bubble_ns - (int64_t)((double)out->bubble_ns * balanced->rate_window / out->rate_window);
  }
  for (size_t i = 0; i < out->stage_count; i++)
    memcpy(out->stages[i].theory_ns, balanced->stages[i].ns, sizeof out->stages[i].theory_ns);
}

bt_status bt_model_theory(bt_model *model) {
  bt_theory theory = {.model = model};
  if (!model->aligned || !model->complete || !whole_steps(model, &theory.first_step)) {
    bt_account_warn(model->out, "no_theory", BT_UNKNOWN,
                    "what the schedule costs by itself is not known: the reported steps are not all there in full");
    return BT_OK;
  }
  if (!places_known(model)) {
    bt_account_warn(model->out, "no_theory", BT_UNKNOWN,
                    "what the schedule costs by itself is not known: ops do not say their chunk or microbatch");
    return BT_OK;
  }
  bt_status status = bt_theory_allocate(&theory) ? BT_OK : BT_ERR_NOMEM;
  bt_accounting *jitterless = NULL;
  bt_accounting *balanced = NULL;
  bt_error error = {BT_OK, ""};
  if (status == BT_OK) {
    bt_theory_fill(&theory);
    status = bt_replay_new(theory.lanes, theory.lane_count, &theory.replay, &error);
    bt_model copy = {.trace = NULL};
    if (status == BT_OK && !make_copy(model, &copy)) status = BT_ERR_NOMEM;
    if (status == BT_OK) status = replay_with(&theory, false, &copy, &jitterless);
    if (status == BT_OK) status = replay_with(&theory, true, &copy, &balanced);
    bt_model_free(&copy);
    if (status == BT_OK) status = bt_theory_causes(&theory);
  }
  if (status == BT_OK) {
    take(model->out, jitterless, balanced);
  } else if (status != BT_ERR_NOMEM) {
    bt_account_warn(model->out, "no_theory", BT_UNKNOWN, "what the schedule costs by itself is not known: %s",
                    error.text);
    status = BT_OK;
  }
  bt_accounting_free(jitterless);
  bt_accounting_free(balanced);
  bt_theory_free(&theory);
  return status;
}
