/* How long things take in theory: means of what was measured. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_theory.h"

enum { KINDS = BT_OTHER + 1, MOST_SIZES = 64 };

typedef struct mean { /* the sum is exact up to 2^53 ns and cannot overflow */
  double sum;
  int64_t count;
} mean;

static void add(mean *m, int64_t value) {
  m->sum += (double)value;
  m->count++;
}

static int64_t value_of(const mean *m, int64_t otherwise) {
  return m->count > 0 ? (int64_t)(m->sum / (double)m->count + 0.5) : otherwise;
}

typedef struct collective_mean { /* of collectives of one kind, domain and size */
  uint8_t kind, domain;
  int64_t bytes;
  mean duration;
} collective_mean;

typedef struct means {
  bool balanced;
  size_t chunks;
  mean *own, *synced; /* [(row * KINDS + kind) * chunks + chunk]; balanced: row and chunk 0 */
  mean *transfer; /* [row * 2 + half] */
  collective_mean collectives[MOST_SIZES];
  size_t collective_count;
} means;

static size_t op_place(const means *m, const bt_model *model, const bt_model_op *op) {
  if (m->balanced) return (size_t)op->kind * m->chunks;
  size_t chunk = op->chunk >= 0 && (size_t)op->chunk < m->chunks ? (size_t)op->chunk : 0;
  return ((size_t)model->ranks[op->rank].row * KINDS + op->kind) * m->chunks + chunk;
}

static mean *transfer_place(const means *m, const bt_model *model, int32_t rank, bool backward) {
  return &m->transfer[(m->balanced ? 0 : (size_t)model->ranks[rank].row * 2) + backward];
}

static collective_mean *collective_place(means *m, const bt_model_collective *collective) {
  for (size_t i = 0; i < m->collective_count; i++) {
    collective_mean *known = &m->collectives[i];
    if (known->kind == collective->kind && known->domain == collective->domain && known->bytes == collective->bytes) {
      return known;
    }
  }
  if (m->collective_count == MOST_SIZES) return NULL;
  collective_mean *fresh = &m->collectives[m->collective_count++];
  *fresh = (collective_mean){collective->kind, collective->domain, collective->bytes, {0, 0}};
  return fresh;
}

/* As long as all members were in it; all of it where they are not known. */
static int64_t transfer_of(const bt_model_collective *collective) {
  int64_t start =
      collective->call != 0 && collective->arrived > collective->start ? collective->arrived : collective->start;
  return collective->end > start ? collective->end - start : 0;
}

static void measure(const bt_theory *theory, means *m) {
  const bt_model *model = theory->model;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (theory->place[i] == BT_NO_INDEX || !model->steps[model->visits[op->visit].step].reported) continue;
    add(&m->own[op_place(m, model, op)], theory->own[i]);
    if (theory->call[i] != 0) add(&m->synced[op_place(m, model, op)], theory->synced[i]);
  }
  for (size_t i = 0; i < model->p2p_count; i++) {
    const bt_model_p2p *in = &model->p2p[i];
    bool receive = in->kind == BT_RECV_F || in->kind == BT_RECV_B;
    if (!receive || in->moved == BT_UNKNOWN || in->end <= model->start || in->start >= model->end) continue;
    add(transfer_place(m, model, in->rank, in->kind == BT_RECV_B), in->moved);
  }
  for (size_t i = 0; i < model->collectives_count; i++) {
    const bt_model_collective *collective = &model->collectives[i];
    if (theory->lane_of[i] < 0) continue;
    collective_mean *place = collective_place(m, collective);
    if (place != NULL) add(&place->duration, transfer_of(collective));
  }
}

static bool make_means(const bt_theory *theory, bool balanced, means *m) {
  const bt_model *model = theory->model;
  memset(m, 0, sizeof *m);
  m->balanced = balanced;
  m->chunks = (size_t)model->out->chunks > 0 ? (size_t)model->out->chunks : 1;
  size_t rows = balanced ? 1 : model->out->stage_count;
  m->own = calloc(rows * KINDS * m->chunks, sizeof *m->own);
  m->synced = calloc(rows * KINDS * m->chunks, sizeof *m->synced);
  m->transfer = calloc(rows * 2, sizeof *m->transfer);
  return m->own != NULL && m->synced != NULL && m->transfer != NULL;
}

/* Other compute is of many kinds: its mean would say nothing, so each keeps its duration. */
static void cost_ops(bt_theory *theory, const means *m) {
  const bt_model *model = theory->model;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (theory->place[i] == BT_NO_INDEX) continue;
    bt_op_cost *cost =
        &theory->replay->costs[theory->replay->first[op->rank * BT_LANES_A_RANK] + (size_t)theory->place[i]];
    bool backward = op->kind == BT_B || op->kind == BT_BW;
    cost->duration = theory->own[i];
    if (op->kind != BT_OTHER) cost->duration = value_of(&m->own[op_place(m, model, op)], theory->own[i]);
    cost->sync_duration = theory->call[i] != 0 ? value_of(&m->synced[op_place(m, model, op)], theory->synced[i]) : 0;
    cost->transfer = value_of(transfer_place(m, model, op->rank, backward), 0);
    cost->transfer_b = value_of(transfer_place(m, model, op->rank, true), 0);
  }
}

static void cost_collectives(bt_theory *theory, means *m) {
  const bt_model *model = theory->model;
  for (size_t i = 0; i < model->collectives_count; i++) {
    const bt_model_collective *collective = &model->collectives[i];
    if (theory->lane_of[i] < 0) continue;
    bt_op_cost *cost =
        &theory->replay->costs[theory->replay->first[theory->lane_of[i]] + (size_t)theory->collective_place[i]];
    collective_mean *place = collective_place(m, collective);
    int64_t duration = place != NULL ? value_of(&place->duration, transfer_of(collective)) : transfer_of(collective);
    *cost = (bt_op_cost){0};
    if (collective->call != 0) {
      cost->sync_duration = duration;
    } else {
      cost->duration = duration;
    }
  }
}

bt_status bt_theory_costs(bt_theory *theory, bool balanced) {
  means *m = malloc(sizeof *m);
  if (m == NULL) return BT_ERR_NOMEM;
  bool fine = make_means(theory, balanced, m);
  if (fine) {
    measure(theory, m);
    cost_ops(theory, m);
    cost_collectives(theory, m);
  }
  free(m->own);
  free(m->synced);
  free(m->transfer);
  free(m);
  return fine ? BT_OK : BT_ERR_NOMEM;
}

int64_t bt_theory_sync_cost(const bt_theory *theory, int32_t op) {
  size_t lane = (size_t)theory->model->ops[op].rank * BT_LANES_A_RANK;
  return theory->replay->costs[theory->replay->first[lane] + (size_t)theory->place[op]].sync_duration;
}
