/* What every op had to wait for: its producers on other ranks (E) and the arrival of their data (R). */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_index.h"
#include "tui/analysis/accounting_model.h"

enum { FORWARD = 1, BACKWARD = 2, RECOMPUTE_LOOK_AHEAD = 4, MOST_CANDIDATES = 4096 };

typedef struct half_op { /* a forward or backward half of an op */
  int32_t op, step, vstage, microbatch;
  int16_t chunk;
  uint8_t half;
} half_op;

static half_op half_of(const bt_model *model, int32_t index, uint8_t half) {
  const bt_model_op *op = &model->ops[index];
  bool second = half == BACKWARD && op->kind == BT_FB;
  half_op result = {.op = index,
                    .step = op->visit != BT_NO_INDEX ? model->visits[op->visit].step : BT_NO_INDEX,
                    .vstage = second ? op->vstage_b : op->vstage,
                    .microbatch = second ? op->microbatch_b : op->microbatch,
                    .chunk = second ? op->chunk_b : op->chunk,
                    .half = half};
  return result;
}

static bool has_half(const bt_model_op *op, uint8_t half) {
  return half == FORWARD ? bt_kind_has_forward(op->kind) : bt_kind_has_backward(op->kind);
}

/* --- producers ------------------------------------------------------------------------------------------------------- */

/* Halves of equal replica, step, virtual stage and microbatch, chained from the last to the first. */
typedef struct producer_table {
  bt_index heads;
  int32_t *next[BACKWARD]; /* per half */
} producer_table;

static bt_index_key place_of(int32_t replica, const half_op *key) {
  return bt_index_pair(replica, key->step, (uint64_t)(uint32_t)key->vstage << 2 | key->half, (uint32_t)key->microbatch);
}

static bool build_table(const bt_model *model, producer_table *table) {
  if (!bt_index_reserve(&table->heads, model->ops_count)) return false;
  for (int half = 0; half < BACKWARD; half++) {
    table->next[half] = bt_array_new((model->ops_count + 1), sizeof *table->next[half]);
    if (table->next[half] == NULL) return false;
  }
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    for (uint8_t half = FORWARD; half <= BACKWARD; half++) {
      if (!has_half(&model->ops[i], half)) continue;
      half_op key = half_of(model, i, half);
      if (key.step < 0 || key.vstage < 0 || key.microbatch < 0) continue;
      int32_t *head = bt_index_at(&table->heads, place_of(model->ranks[model->ops[i].rank].replica, &key));
      if (head == NULL) return false;
      table->next[half - 1][i] = *head;
      *head = i;
    }
  }
  return true;
}

static void free_table(producer_table *table) {
  bt_index_free(&table->heads);
  free(table->next[0]);
  free(table->next[1]);
}

/* How likely `candidate` is the producer: the sender of the message first, then the same member of a tensor or context
 * parallel group, the same chunk (bidirectional pipelines may number microbatches twice), the same rank. */
static int fitness(const bt_model *model, const half_op *consumer, const half_op *candidate, int32_t sender) {
  const bt_model_op *to = &model->ops[consumer->op];
  const bt_model_op *from = &model->ops[candidate->op];
  return (from->rank == sender) * 8 + (model->ranks[from->rank].member == model->ranks[to->rank].member) * 4 +
         (candidate->chunk == consumer->chunk) * 2 + (from->rank == to->rank);
}

static int32_t find_producer(const bt_model *model, const producer_table *table, const half_op *consumer,
                             int32_t sender) {
  half_op key = *consumer;
  key.vstage += consumer->half == FORWARD ? -1 : 1;
  int32_t replica = model->ranks[model->ops[consumer->op].rank].replica;
  int32_t best = BT_NO_INDEX;
  int best_fitness = -1;
  int looked = 0;
  for (int32_t i = bt_index_find(&table->heads, place_of(replica, &key)); i != BT_NO_INDEX && looked < MOST_CANDIDATES;
       i = table->next[key.half - 1][i], looked++) {
    half_op other = half_of(model, i, key.half);
    int fit = fitness(model, consumer, &other, sender);
    bool later = best != BT_NO_INDEX && fit == best_fitness && model->ops[i].end >= model->ops[best].end;
    if (fit > best_fitness || later) {
      best = i;
      best_fitness = fit;
    }
  }
  return best;
}

/* --- the receive of an op -------------------------------------------------------------------------------------------- */

static bt_index_key receive_key(int32_t half, int32_t vstage, int32_t microbatch) {
  return bt_index_pair(half, vstage, 0, (uint32_t)microbatch);
}

/* receives[op * 2 + half - 1]: the last receive of its microbatch that began before the op, and after the op of the step
 * before. `waiting`: receives that no op has taken. */
static bool find_receives(const bt_model *model, const bt_model_rank *rank, bt_index *waiting, int32_t *receives) {
  int32_t p = rank->p2p.first;
  int32_t p_end = p + rank->p2p.count;
  bt_index_clear(waiting);
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    for (; p < p_end && model->p2p[p].start <= model->ops[i].start; p++) {
      const bt_model_p2p *p2p = &model->p2p[p];
      int32_t half = p2p->kind == BT_RECV_F ? FORWARD : p2p->kind == BT_RECV_B ? BACKWARD : 0;
      if (half == 0 || p2p->microbatch < 0) continue;
      int32_t *place = bt_index_at(waiting, receive_key(half, p2p->vstage, p2p->microbatch));
      if (place == NULL) return false;
      *place = p;
    }
    for (uint8_t half = FORWARD; half <= BACKWARD; half++) {
      receives[i * 2 + half - 1] = BT_NO_INDEX;
      if (!has_half(&model->ops[i], half)) continue;
      half_op op = half_of(model, i, half);
      int32_t *place = bt_index_at(waiting, receive_key(half, op.vstage, op.microbatch));
      if (place == NULL) return false;
      receives[i * 2 + half - 1] = *place;
      *place = BT_NO_INDEX;
    }
  }
  return true;
}

/* --- E and R --------------------------------------------------------------------------------------------------------- */

/* When the data of a half was there. False: the records cannot tell. */
static bool ready_time(const bt_model *model, const bt_model_op *op, int64_t e, int32_t receive, int64_t *ready) {
  if (receive == BT_NO_INDEX) return false;
  const bt_model_p2p *in = &model->p2p[receive];
  if (model->gpu && ((in->flags ^ op->flags) & BT_FLAG_GPU_TIMED) != 0) return false;
  if (in->transfer == BT_UNKNOWN) {
    *ready = in->end;
    return (in->flags & BT_FLAG_GROUPED) == 0; /* the end of a grouped launch is only an upper bound */
  }
  int64_t start = in->start;
  if (model->p2p[in->match].start > start) start = model->p2p[in->match].start;
  if (e > start) start = e;
  *ready = start + in->transfer < in->end ? start + in->transfer : in->end;
  return true;
}

static void wait_for_half(bt_model *model, const producer_table *table, int32_t index, uint8_t half, int32_t receive) {
  bt_model_op *op = &model->ops[index];
  half_op key = half_of(model, index, half);
  bool located = key.vstage >= 0 && key.microbatch >= 0 && key.step >= 0;
  if (located && key.vstage == (half == FORWARD ? 0 : model->virtual_stages - 1)) return;
  int32_t sender =
      receive != BT_NO_INDEX && model->p2p[receive].match != BT_NO_INDEX ? model->p2p[receive].peer : BT_NO_INDEX;
  int32_t producer = located ? find_producer(model, table, &key, sender) : BT_NO_INDEX;
  if (producer != BT_NO_INDEX && model->ops[producer].rank == op->rank) return; /* handed over on the rank itself */
  op->waits = true;
  int64_t e = INT64_MIN;
  bool timed = producer != BT_NO_INDEX &&
               (model->aligned || model->ranks[model->ops[producer].rank].host == model->ranks[op->rank].host);
  if (timed) {
    e = model->ops[producer].end;
    if (e > op->e) {
      op->e = e;
      op->producer = producer;
    }
  } else {
    op->e_known = false;
  }
  int64_t ready = INT64_MIN;
  if (!ready_time(model, op, e, receive, &ready)) op->r_known = false;
  if (ready > op->r) op->r = ready;
  op->messages[op->kind == BT_FB && half == BACKWARD] = receive;
}

/* Gates say directly when an op could go on. One that lies inside an op is idle time of that op. */
static void apply_gates(bt_model *model, bt_model_rank *rank) {
  int32_t begun = rank->ops.first; /* the first op that did not begin before the gate */
  int32_t end = rank->ops.first + rank->ops.count;
  int64_t covered = INT64_MIN; /* end of the ops that began before the gate */
  int32_t k = begun; /* the pipeline op that the gate holds */
  int32_t gated = BT_NO_INDEX;
  for (int32_t g = rank->gates.first; g < rank->gates.first + rank->gates.count; g++) {
    bt_model_gate *gate = &model->gates[g];
    for (; begun < end && model->ops[begun].start < gate->start; begun++) {
      if (model->ops[begun].end > covered) covered = model->ops[begun].end;
    }
    if (k < begun) k = begun;
    while (k < end && !bt_code_is_pipeline_op(model->ops[k].kind))
      k++;
    gate->inside = gate->start < covered;
    if (gate->inside || k == end) continue;
    if (model->gpu && (gate->flags & BT_FLAG_GPU_TIMED) == 0) continue;
    bt_model_op *op = &model->ops[k];
    bool receives = gate->on_code == BT_RECV_F || gate->on_code == BT_RECV_B;
    if (receives && (gated != k || gate->end > op->r)) {
      op->r = gate->end;
      op->r_known = true;
      gated = k;
    }
    if (bt_code_is_p2p(gate->on_code) && !receives && gate->end > op->send_until) op->send_until = gate->end;
    if (bt_code_is_collective(gate->on_code) && gate->end > op->collective_until) op->collective_until = gate->end;
  }
}

/* A recomputation that begins after the gradient has come waited for it, as its backward would have. */
static void lend_to_recomputation(bt_model *model, const bt_model_rank *rank) {
  int32_t end = rank->ops.first + rank->ops.count;
  for (int32_t i = rank->ops.first; i < end; i++) {
    bt_model_op *op = &model->ops[i];
    if (op->kind != BT_RECOMPUTE) continue;
    for (int32_t k = i + 1; k < end && k <= i + RECOMPUTE_LOOK_AHEAD; k++) {
      const bt_model_op *next = &model->ops[k];
      if (next->kind != BT_B && next->kind != BT_BW) continue;
      if (next->microbatch != op->microbatch || next->chunk != op->chunk) continue;
      if (!next->waits || !next->e_known || !next->r_known || next->r > op->start || next->e > op->start) break;
      op->waits = true;
      op->e = next->e;
      op->r = next->r;
      op->producer = next->producer;
      op->messages[0] = next->messages[0];
      break;
    }
  }
}

bt_status bt_model_waits(bt_model *model) {
  producer_table table = {{NULL, 0, 0}, {NULL, NULL}};
  bt_index waiting = {NULL, 0, 0};
  int32_t *receives = bt_array_new((model->ops_count * 2 + 1), sizeof *receives);
  bool fine = receives != NULL && build_table(model, &table);
  for (int32_t i = 0; fine && i < model->rank_count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    fine = find_receives(model, rank, &waiting, receives);
    for (int32_t k = rank->ops.first; fine && k < rank->ops.first + rank->ops.count; k++) {
      for (uint8_t half = FORWARD; half <= BACKWARD; half++) {
        if (has_half(&model->ops[k], half)) wait_for_half(model, &table, k, half, receives[k * 2 + half - 1]);
      }
    }
    if (!fine) break;
    apply_gates(model, rank);
    lend_to_recomputation(model, rank);
  }
  free(receives);
  free_table(&table);
  bt_index_free(&waiting);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
