/* What every op had to wait for: its producers on other ranks (E) and the arrival of their data (R). */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

enum { FORWARD = 1, BACKWARD = 2, RECOMPUTE_LOOK_AHEAD = 4 };

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

typedef struct producer_table { /* open addressing; equal keys follow each other */
  int32_t *places; /* op * 4 + half + 1; 0 free */
  size_t size;
} producer_table;

static size_t place_of(const producer_table *table, int32_t replica, const half_op *key) {
  uint64_t hash = (uint64_t)key->half + 4u * (uint64_t)(uint32_t)replica;
  hash = (hash * 0x9E3779B97F4A7C15u) ^ (uint32_t)key->step;
  hash = (hash * 0x9E3779B97F4A7C15u) ^ (uint32_t)key->vstage;
  hash = (hash * 0x9E3779B97F4A7C15u) ^ (uint32_t)key->microbatch;
  return (size_t)((hash * 0x9E3779B97F4A7C15u) >> 24) & (table->size - 1);
}

static bool build_table(const bt_model *model, producer_table *table) {
  table->size = 64;
  while (table->size < model->ops_count * 4)
    table->size *= 2;
  table->places = calloc(table->size, sizeof *table->places);
  if (table->places == NULL) return false;
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    for (uint8_t half = FORWARD; half <= BACKWARD; half++) {
      if (!has_half(&model->ops[i], half)) continue;
      half_op key = half_of(model, i, half);
      if (key.step < 0 || key.vstage < 0 || key.microbatch < 0) continue;
      size_t at = place_of(table, model->ranks[model->ops[i].rank].replica, &key);
      while (table->places[at] != 0)
        at = (at + 1) & (table->size - 1);
      table->places[at] = i * 4 + half + 1;
    }
  }
  return true;
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
  for (size_t at = place_of(table, replica, &key); table->places[at] != 0; at = (at + 1) & (table->size - 1)) {
    int32_t place = table->places[at] - 1;
    if (place % 4 != key.half) continue;
    half_op other = half_of(model, place / 4, key.half);
    if (other.step != key.step || other.vstage != key.vstage || other.microbatch != key.microbatch) continue;
    if (model->ranks[model->ops[other.op].rank].replica != replica) continue;
    int fit = fitness(model, consumer, &other, sender);
    bool later = best != BT_NO_INDEX && fit == best_fitness && model->ops[other.op].end > model->ops[best].end;
    if (fit > best_fitness || later) {
      best = other.op;
      best_fitness = fit;
    }
  }
  return best;
}

/* --- the receive of an op -------------------------------------------------------------------------------------------- */

typedef struct receive_key {
  int32_t half, vstage, microbatch;
  int32_t is_op; /* receives stand before ops of equal start */
  int64_t start;
  int32_t index;
} receive_key;

static bool same_receive(const receive_key *x, const receive_key *y) {
  return x->half == y->half && x->vstage == y->vstage && x->microbatch == y->microbatch;
}

static int compare_receive(const void *a, const void *b) {
  const receive_key *x = a;
  const receive_key *y = b;
  if (x->half != y->half) return x->half - y->half;
  if (x->vstage != y->vstage) return x->vstage < y->vstage ? -1 : 1;
  if (x->microbatch != y->microbatch) return x->microbatch < y->microbatch ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->is_op != y->is_op) return x->is_op - y->is_op;
  return (x->index > y->index) - (x->index < y->index);
}

/* receives[op * 2 + half - 1]: the last receive of its microbatch that began before the op, and after the op of the step
 * before. */
static bool find_receives(const bt_model *model, const bt_model_rank *rank, int32_t *receives) {
  receive_key *keys = malloc(((size_t)rank->ops.count * 2 + (size_t)rank->p2p.count + 1) * sizeof *keys);
  if (keys == NULL) return false;
  size_t count = 0;
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    for (uint8_t half = FORWARD; half <= BACKWARD; half++) {
      receives[i * 2 + half - 1] = BT_NO_INDEX;
      if (!has_half(&model->ops[i], half)) continue;
      half_op op = half_of(model, i, half);
      keys[count++] = (receive_key){half, op.vstage, op.microbatch, 1, model->ops[i].start, i};
    }
  }
  for (int32_t i = rank->p2p.first; i < rank->p2p.first + rank->p2p.count; i++) {
    const bt_model_p2p *p2p = &model->p2p[i];
    int32_t half = p2p->kind == BT_RECV_F ? FORWARD : p2p->kind == BT_RECV_B ? BACKWARD : 0;
    if (half == 0 || p2p->microbatch < 0) continue;
    keys[count++] = (receive_key){half, p2p->vstage, p2p->microbatch, 0, p2p->start, i};
  }
  qsort(keys, count, sizeof *keys, compare_receive);
  int32_t last = BT_NO_INDEX;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && !same_receive(&keys[i], &keys[i - 1])) last = BT_NO_INDEX;
    if (keys[i].is_op) receives[keys[i].index * 2 + keys[i].half - 1] = last;
    last = keys[i].is_op ? BT_NO_INDEX : keys[i].index;
  }
  free(keys);
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
  producer_table table = {NULL, 0};
  int32_t *receives = malloc((model->ops_count * 2 + 1) * sizeof *receives);
  bool fine = receives != NULL && build_table(model, &table);
  for (int32_t i = 0; fine && i < model->rank_count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    fine = find_receives(model, rank, receives);
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
  free(table.places);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
