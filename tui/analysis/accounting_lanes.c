/* What theory replays: the ops and collectives of every rank as lanes, and what waits for what. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_theory.h"

enum { LOOK_BACK = 32 /* collectives before an op that it may wait for */ };

void bt_theory_free(bt_theory *theory) {
  free(theory->own);
  free(theory->synced);
  free(theory->call);
  free(theory->number);
  free(theory->outer);
  free(theory->place);
  free(theory->lane_of);
  free(theory->collective_place);
  free(theory->waits_for);
  free(theory->moved);
  free(theory->sender);
  free(theory->late);
  free(theory->lanes);
  free(theory->ready);
  free(theory->ops);
  free(theory->links);
  bt_replay_free(theory->replay);
}

bool bt_theory_allocate(bt_theory *theory) {
  const bt_model *model = theory->model;
  size_t ops = model->ops_count + 1;
  size_t collectives = model->collectives_count + 1;
  theory->lane_count = (size_t)model->rank_count * BT_LANES_A_RANK;
  theory->own = bt_array_new(ops, sizeof *theory->own);
  theory->synced = bt_array_new(ops, sizeof *theory->synced);
  theory->call = bt_array_new(ops, sizeof *theory->call);
  theory->number = calloc(collectives, sizeof *theory->number);
  theory->outer = bt_array_new(ops, sizeof *theory->outer);
  theory->place = bt_array_new(ops, sizeof *theory->place);
  theory->waits_for = bt_array_new(ops, sizeof *theory->waits_for);
  theory->moved = bt_array_new(ops * 2, sizeof *theory->moved);
  theory->sender = bt_array_new(ops * 2, sizeof *theory->sender);
  theory->late = bt_array_new(ops * 2, sizeof *theory->late);
  theory->lane_of = bt_array_new(collectives, sizeof *theory->lane_of);
  theory->collective_place = bt_array_new(collectives, sizeof *theory->collective_place);
  theory->lanes = calloc(theory->lane_count + 1, sizeof *theory->lanes);
  theory->ready = calloc(theory->lane_count + 1, sizeof *theory->ready);
  theory->ops = bt_array_new(ops + collectives * BT_LANES_A_RANK, sizeof *theory->ops);
  theory->links = bt_array_new(ops + collectives * BT_LANES_A_RANK, sizeof *theory->links);
  return theory->own != NULL && theory->synced != NULL && theory->call != NULL && theory->number != NULL &&
         theory->outer != NULL && theory->place != NULL && theory->waits_for != NULL && theory->moved != NULL &&
         theory->sender != NULL && theory->late != NULL && theory->lane_of != NULL &&
         theory->collective_place != NULL && theory->lanes != NULL && theory->ready != NULL && theory->ops != NULL &&
         theory->links != NULL;
}

/* What the messages of every op took: between its producers' end and its data, as far as the records tell. */
static void measure_messages(bt_theory *theory) {
  const bt_model *model = theory->model;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    for (int half = 0; half < 2; half++) {
      int32_t message = op->messages[half];
      theory->sender[2 * i + half] = BT_NO_INDEX;
      if (message == BT_NO_INDEX || model->p2p[message].moved == BT_UNKNOWN) continue;
      theory->moved[2 * i + half] = model->p2p[message].moved;
      theory->sender[2 * i + half] = model->p2p[message].peer;
      bool told = op->producer != BT_NO_INDEX && model->ops[op->producer].rank == model->p2p[message].peer;
      int64_t late = told ? model->p2p[model->p2p[message].match].start - op->e : 0;
      if (late > 0) theory->late[2 * i + half] = late;
    }
  }
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

/* Calls are numbered over the whole run; the replay wants those of the reported steps to be numbered from 1. */
static void number_calls(bt_theory *theory) {
  uint32_t used = 0;
  for (size_t lane = 0; lane < theory->lane_count; lane++) {
    bt_op_link *links = theory->links + (theory->lanes[lane].ops - theory->ops);
    for (size_t i = 0; i < theory->lanes[lane].count; i++) {
      if (links[i].sync == 0) continue;
      uint32_t *number = &theory->number[links[i].sync];
      if (*number == 0) *number = ++used;
      links[i].sync = *number;
    }
  }
}

void bt_theory_fill(bt_theory *theory) {
  measure_ops(theory);
  measure_messages(theory);
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
  number_calls(theory);
}
