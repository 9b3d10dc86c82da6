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

enum { LOOK_BACK = 32 /* collectives before an op that it may wait for */ };

void bt_theory_free(bt_theory *theory) {
  free(theory->own);
  free(theory->synced);
  free(theory->call);
  free(theory->outer);
  free(theory->place);
  free(theory->lane_of);
  free(theory->collective_place);
  free(theory->waits_for);
  free(theory->lanes);
  free(theory->ops);
  free(theory->links);
  bt_replay_free(theory->replay);
}

/* --- what is replayed ------------------------------------------------------------------------------------------------ */

static bool allocate(bt_theory *theory) {
  const bt_model *model = theory->model;
  size_t ops = model->ops_count + 1;
  size_t collectives = model->collectives_count + 1;
  theory->lane_count = (size_t)model->rank_count * BT_LANES_A_RANK;
  theory->own = calloc(ops, sizeof *theory->own);
  theory->synced = calloc(ops, sizeof *theory->synced);
  theory->call = calloc(ops, sizeof *theory->call);
  theory->outer = malloc(ops * sizeof *theory->outer);
  theory->place = malloc(ops * sizeof *theory->place);
  theory->waits_for = malloc(ops * sizeof *theory->waits_for);
  theory->lane_of = malloc(collectives * sizeof *theory->lane_of);
  theory->collective_place = malloc(collectives * sizeof *theory->collective_place);
  theory->lanes = calloc(theory->lane_count + 1, sizeof *theory->lanes);
  theory->ops = calloc(ops + collectives * BT_LANES_A_RANK, sizeof *theory->ops);
  theory->links = calloc(ops + collectives * BT_LANES_A_RANK, sizeof *theory->links);
  return theory->own != NULL && theory->synced != NULL && theory->call != NULL && theory->outer != NULL &&
         theory->place != NULL && theory->waits_for != NULL && theory->lane_of != NULL &&
         theory->collective_place != NULL && theory->lanes != NULL && theory->ops != NULL && theory->links != NULL;
}

/* Which ops lie inside others, and how much of each is its own work, how much collectives cut out of it. */
static void measure_ops(bt_theory *theory) {
  const bt_model *model = theory->model;
  for (int32_t r = 0; r < model->rank_count; r++) {
    const bt_model_rank *rank = &model->ranks[r];
    int32_t outer = BT_NO_INDEX;
    for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
      const bt_model_op *op = &model->ops[i];
      theory->outer[i] = outer != BT_NO_INDEX && op->start < model->ops[outer].end ? outer : BT_NO_INDEX;
      if (theory->outer[i] == BT_NO_INDEX) outer = i;
      theory->own[i] = op->end - op->start;
    }
  }
  for (size_t i = 0; i < model->segments_count; i++) {
    const bt_model_segment *segment = &model->segments[i];
    int32_t op = theory->outer[segment->op] == BT_NO_INDEX ? segment->op : theory->outer[segment->op];
    if (segment->class < BT_CLASS_COMPUTE_LIMIT) continue;
    theory->own[op] -= segment->end - segment->start;
    if (segment->class == BT_CLASS_EXPOSED_COLLECTIVE) theory->synced[op] += segment->end - segment->start;
  }
}

static bool is_replayed(const bt_theory *theory, int32_t visit, int64_t start) {
  return visit != BT_NO_INDEX && theory->model->visits[visit].step >= theory->first_step && start < theory->model->end;
}

/* Collectives inside a replayed op, on its own stream, belong to the op. */
static void cut_collectives(bt_theory *theory, const bt_model_rank *rank) {
  const bt_model *model = theory->model;
  int32_t at = rank->segments.first;
  int32_t end = at + rank->segments.count;
  for (int32_t c = rank->collectives.first; c < rank->collectives.first + rank->collectives.count; c++) {
    const bt_model_collective *collective = &model->collectives[c];
    theory->collective_place[c] = BT_NO_INDEX;
    theory->lane_of[c] = BT_NO_INDEX;
    while (at < end && model->segments[at].end <= collective->start)
      at++;
    if (at == end || model->segments[at].start > collective->start) continue;
    if (model->segments[at].class < BT_CLASS_COMPUTE_LIMIT || collective->start == collective->end) continue;
    int32_t op = model->segments[at].op;
    if (theory->outer[op] != BT_NO_INDEX) op = theory->outer[op];
    theory->lane_of[c] = BT_CUT;
    theory->collective_place[c] = op;
    theory->call[op] = collective->call;
  }
}

static void put(bt_theory *theory, bt_replay_lane *lane, bt_op op) {
  theory->ops[(size_t)(lane->ops - theory->ops) + lane->count++] = op;
}

static bt_op op_of(const bt_model *model, const bt_model_op *op) {
  bt_op result = {.kind = op->kind,
                  .chunk = op->chunk,
                  .chunk_b = op->chunk_b,
                  .vstage = op->vstage,
                  .microbatch = op->microbatch,
                  .vstage_b = op->vstage_b,
                  .microbatch_b = op->microbatch_b,
                  .step = model->visits[op->visit].step};
  return result;
}

static void fill_compute(bt_theory *theory, int32_t r, bt_replay_lane *lane) {
  const bt_model *model = theory->model;
  const bt_model_rank *rank = &model->ranks[r];
  int64_t before = INT64_MIN; /* end of what ran earlier */
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    const bt_model_op *op = &model->ops[i];
    theory->place[i] = BT_NO_INDEX;
    if (theory->outer[i] != BT_NO_INDEX) continue;
    if (!is_replayed(theory, op->visit, op->start)) {
      if (lane->count == 0 && op->end > before) before = op->end;
      continue;
    }
    if (lane->count == 0) theory->ready[r * BT_LANES_A_RANK] = op->waits ? before : op->start;
    theory->place[i] = (int32_t)lane->count;
    put(theory, lane, op_of(model, op));
  }
}

/* Until when gates on collectives held the op that starts at `start`; INT64_MIN: none did. Gates pass once. */
static int64_t gated_until(bt_theory *theory, const bt_model_rank *rank, int64_t start) {
  int64_t until = INT64_MIN;
  int32_t end = rank->gates.first + rank->gates.count;
  for (; theory->next_gate < end && theory->model->gates[theory->next_gate].start < start; theory->next_gate++) {
    const bt_model_gate *gate = &theory->model->gates[theory->next_gate];
    if (!gate->inside && bt_code_is_collective(gate->on_code) && gate->end > until) until = gate->end;
  }
  return until;
}

/* The collective that an op waits for: by its gate, else the last that ended since the op before it did. */
static void find_waits(bt_theory *theory, const bt_model_rank *rank) {
  const bt_model *model = theory->model;
  int64_t before = INT64_MIN;
  int32_t end = rank->collectives.first + rank->collectives.count;
  int32_t next = rank->collectives.first;
  theory->next_gate = rank->gates.first;
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    const bt_model_op *op = &model->ops[i];
    theory->waits_for[i] = BT_NO_INDEX;
    if (theory->outer[i] != BT_NO_INDEX) continue;
    int64_t until = rank->gated ? gated_until(theory, rank, op->start) : op->start;
    int64_t best = before;
    while (next < end && model->collectives[next].start < op->start)
      next++;
    for (int32_t k = next - 1; k >= rank->collectives.first && k >= next - LOOK_BACK; k--) {
      const bt_model_collective *collective = &model->collectives[k];
      if (theory->lane_of[k] == BT_CUT || collective->end > until || collective->end <= best) continue;
      best = collective->end;
      theory->waits_for[i] = k;
    }
    before = op->end;
  }
}

/* Collectives go to lanes of their own, one after the other where they do not overlap. */
static void fill_collectives(bt_theory *theory, int32_t r) {
  const bt_model *model = theory->model;
  const bt_model_rank *rank = &model->ranks[r];
  int64_t busy_until[BT_LANES_A_RANK];
  for (int i = 0; i < BT_LANES_A_RANK; i++)
    busy_until[i] = INT64_MIN;
  int32_t last_op = BT_NO_INDEX;
  int32_t next_op = rank->ops.first;
  int32_t op_end = rank->ops.first + rank->ops.count;
  for (int32_t c = rank->collectives.first; c < rank->collectives.first + rank->collectives.count; c++) {
    const bt_model_collective *collective = &model->collectives[c];
    for (; next_op < op_end && model->ops[next_op].start < collective->start; next_op++) {
      bool ended = theory->place[next_op] != BT_NO_INDEX && model->ops[next_op].end <= collective->start;
      if (theory->place[next_op] != BT_NO_INDEX && !ended) break;
      if (ended) last_op = next_op;
    }
    if (theory->lane_of[c] == BT_CUT || !is_replayed(theory, collective->visit, collective->start)) continue;
    int lane = 1;
    while (lane + 1 < BT_LANES_A_RANK && busy_until[lane] > collective->start)
      lane++;
    busy_until[lane] = collective->end;
    bt_replay_lane *place = &theory->lanes[r * BT_LANES_A_RANK + lane];
    bt_op_link *link = &theory->links[(size_t)(place->ops - theory->ops) + place->count];
    *link = (bt_op_link){BT_NO_OP, BT_NO_OP, collective->call};
    if (last_op != BT_NO_INDEX) {
      link->after_lane = (uint32_t)(r * BT_LANES_A_RANK);
      link->after_op = (uint32_t)theory->place[last_op];
    } else if (place->count == 0) {
      theory->ready[r * BT_LANES_A_RANK + lane] = collective->start;
    }
    theory->lane_of[c] = r * BT_LANES_A_RANK + lane;
    theory->collective_place[c] = (int32_t)place->count;
    put(theory, place,
        (bt_op){.kind = collective->kind, .vstage = -1, .microbatch = -1, .vstage_b = -1, .microbatch_b = -1});
  }
}

static void link_ops(bt_theory *theory, int32_t r) {
  const bt_model *model = theory->model;
  const bt_model_rank *rank = &model->ranks[r];
  bt_op_link *links = theory->links + (theory->lanes[r * BT_LANES_A_RANK].ops - theory->ops);
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    if (theory->place[i] == BT_NO_INDEX) continue;
    const bt_model_op *op = &model->ops[i];
    bt_op_link *link = &links[theory->place[i]];
    *link = (bt_op_link){BT_NO_OP, BT_NO_OP, theory->call[i]};
    int32_t collective = theory->waits_for[i];
    if (collective != BT_NO_INDEX && theory->lane_of[collective] >= 0) {
      link->after_lane = (uint32_t)theory->lane_of[collective];
      link->after_op = (uint32_t)theory->collective_place[collective];
    } else if (collective != BT_NO_INDEX && theory->place[i] == 0) {
      int64_t *ready = &theory->ready[r * BT_LANES_A_RANK]; /* one that ran before what is replayed */
      if (model->collectives[collective].end > *ready) *ready = model->collectives[collective].end;
    }
    bool lent = op->kind == BT_RECOMPUTE && op->producer != BT_NO_INDEX && theory->place[op->producer] != BT_NO_INDEX;
    if (lent && link->after_op == BT_NO_OP) {
      link->after_lane = (uint32_t)(model->ops[op->producer].rank * BT_LANES_A_RANK);
      link->after_op = (uint32_t)theory->place[op->producer];
    }
  }
}

static void fill_lanes(bt_theory *theory) {
  const bt_model *model = theory->model;
  size_t used = 0;
  int32_t members = 1;
  for (int32_t r = 0; r < model->rank_count; r++) {
    if (model->ranks[r].member >= members) members = model->ranks[r].member + 1;
  }
  for (int32_t r = 0; r < model->rank_count; r++) {
    const bt_model_rank *rank = &model->ranks[r];
    for (int k = 0; k < BT_LANES_A_RANK; k++) {
      bt_replay_lane *lane = &theory->lanes[r * BT_LANES_A_RANK + k];
      *lane = (bt_replay_lane){theory->ops + used, theory->links + used, 0, r, rank->replica * members + rank->member};
      used += (size_t)(k == 0 ? rank->ops.count : rank->collectives.count);
      theory->ready[r * BT_LANES_A_RANK + k] = INT64_MIN;
    }
    cut_collectives(theory, rank);
    fill_compute(theory, r, &theory->lanes[r * BT_LANES_A_RANK]);
    find_waits(theory, rank);
    fill_collectives(theory, r);
    link_ops(theory, r);
  }
  for (int32_t r = 0; r < model->rank_count; r++)
    link_ops(theory, r); /* again: a recomputation's producer may be on a later rank */
}

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

/* A model of the replay: what it shares with the measured one is not freed with it. */
static bool copy_model(const bt_model *from, bt_model *to) {
  *to = *from;
  to->segments = NULL;
  to->collective_pieces = NULL;
  to->send_pieces = NULL;
  to->segments_count = to->segments_capacity = 0;
  to->collective_pieces_count = to->collective_pieces_capacity = 0;
  to->send_pieces_count = to->send_pieces_capacity = 0;
  to->p2p = NULL;
  to->gates = NULL;
  to->p2p_count = to->gates_count = 0;
  size_t cells = (size_t)from->replica_count * (size_t)from->step_count;
  to->ranks = malloc((size_t)from->rank_count * sizeof *to->ranks);
  to->ops = malloc((from->ops_count + 1) * sizeof *to->ops);
  to->collectives = malloc((from->collectives_count + 1) * sizeof *to->collectives);
  to->visits = malloc((from->visits_count + 1) * sizeof *to->visits);
  to->steps = malloc((size_t)from->step_count * sizeof *to->steps);
  to->windows = malloc(cells * sizeof *to->windows);
  to->out = calloc(1, sizeof *to->out);
  if (to->ranks == NULL || to->ops == NULL || to->collectives == NULL || to->visits == NULL || to->steps == NULL ||
      to->windows == NULL || to->out == NULL) {
    return false;
  }
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
  if (!copy_model(measured, model)) return BT_ERR_NOMEM;
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

static bt_status replay_with(bt_theory *theory, bool balanced, bt_accounting **result) {
  bt_status status = bt_theory_costs(theory, balanced);
  if (status != BT_OK) return status;
  for (size_t lane = 0; lane < theory->lane_count; lane++)
    theory->replay->ready[lane] = theory->ready[lane] != INT64_MIN ? theory->ready[lane] : theory->model->start;
  bt_replay_run(theory->replay);
  bt_model model;
  memset(&model, 0, sizeof model);
  status = account_replay(theory, &model);
  *result = model.out;
  bt_model_free(&model);
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

static void take(bt_accounting *out, const bt_accounting *jitterless, const bt_accounting *balanced) {
  out->ideal_rate_window = balanced->rate_window;
  out->ideal_rate_span = balanced->rate_span;
  out->jitterless_rate_window = jitterless->rate_window;
  for (size_t i = 0; i < out->stage_count; i++)
    memcpy(out->stages[i].theory_ns, balanced->stages[i].ns, sizeof out->stages[i].theory_ns);
}

bt_status bt_model_theory(bt_model *model) {
  bt_theory theory = {.model = model};
  if (!model->aligned || !model->complete || !whole_steps(model, &theory.first_step)) {
    bt_account_warn(model->out, "no_theory", BT_UNKNOWN, "no theory: the reported steps are not all there in full");
    return BT_OK;
  }
  theory.ready = calloc((size_t)model->rank_count * BT_LANES_A_RANK + 1, sizeof *theory.ready);
  bt_status status = theory.ready != NULL && allocate(&theory) ? BT_OK : BT_ERR_NOMEM;
  bt_accounting *jitterless = NULL;
  bt_accounting *balanced = NULL;
  bt_error error = {BT_OK, ""};
  if (status == BT_OK) {
    measure_ops(&theory);
    fill_lanes(&theory);
    status = bt_replay_new(theory.lanes, theory.lane_count, &theory.replay, &error);
    if (status == BT_OK) status = replay_with(&theory, false, &jitterless);
    if (status == BT_OK) status = replay_with(&theory, true, &balanced);
  }
  if (status == BT_OK) {
    take(model->out, jitterless, balanced);
  } else if (status != BT_ERR_NOMEM) {
    bt_account_warn(model->out, "no_theory", BT_UNKNOWN, "no theory: %s", error.text);
    status = BT_OK;
  }
  bt_accounting_free(jitterless);
  bt_accounting_free(balanced);
  free(theory.ready);
  bt_theory_free(&theory);
  return status;
}
