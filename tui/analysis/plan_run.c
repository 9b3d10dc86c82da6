/* The run as a plan sees it: the ops of every visit in order, microbatch numbers, usual durations and transfers. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/plan_private.h"

/* --- ops by visit ---------------------------------------------------------------------------------------------------- */

/* Recomputation of its own, in front of a backward, belongs to it; one inside an op does already. */
static void note_recompute(bt_laying *laying, const bt_model_rank *rank) {
  const bt_model *model = &laying->model;
  int64_t pending = 0;
  int64_t op_end = INT64_MIN;
  for (int32_t k = rank->ops.first; k < rank->ops.first + rank->ops.count; k++) {
    const bt_model_op *op = &model->ops[k];
    if (op->kind == BT_RECOMPUTE && op->end > op_end) pending += op->end - op->start;
    if (bt_plan_kind(op->kind) < 0) continue;
    if (op->end > op_end) op_end = op->end;
    if (op->kind == BT_F || op->kind == BT_W) continue;
    laying->recompute[k] = pending;
    pending = 0;
  }
}

static void note_ready(bt_laying *laying, const bt_model_rank *rank) {
  const bt_model *model = &laying->model;
  int64_t end = INT64_MIN;
  int32_t newest = BT_NO_INDEX;
  for (int32_t k = rank->ops.first; k < rank->ops.first + rank->ops.count; k++) {
    const bt_model_op *op = &model->ops[k];
    bool pipeline = bt_plan_kind(op->kind) >= 0;
    if (pipeline && op->visit != BT_NO_INDEX && op->visit > newest) {
      laying->visit_ready[op->visit] = end;
      newest = op->visit;
    }
    if ((pipeline || op->kind == BT_OPTIMIZER) && op->end > end) end = op->end;
  }
}

bt_status bt_plan_index_run(bt_laying *laying) {
  const bt_model *model = &laying->model;
  laying->visit_first = calloc(model->visits_count + 2, sizeof *laying->visit_first);
  laying->visit_ops = malloc((model->ops_count + 1) * sizeof *laying->visit_ops);
  laying->places = malloc((model->ops_count + 1) * sizeof *laying->places);
  laying->visit_ready = malloc((model->visits_count + 1) * sizeof *laying->visit_ready);
  laying->recompute = calloc(model->ops_count + 1, sizeof *laying->recompute);
  if (laying->visit_first == NULL || laying->visit_ops == NULL || laying->places == NULL ||
      laying->visit_ready == NULL || laying->recompute == NULL) {
    return BT_ERR_NOMEM;
  }
  int32_t *next = laying->visit_first + 1; /* next[v]: where visit v begins; at the end where v + 1 does */
  for (size_t k = 0; k < model->ops_count; k++) {
    const bt_model_op *op = &model->ops[k];
    if (op->visit == BT_NO_INDEX || bt_plan_kind(op->kind) < 0) continue;
    next[op->visit + 1]++;
    if (model->steps[model->visits[op->visit].step].reported) laying->seen[bt_plan_kind(op->kind)] = true;
  }
  for (size_t v = 1; v <= model->visits_count; v++)
    next[v] += next[v - 1];
  for (size_t k = 0; k < model->ops_count; k++) {
    const bt_model_op *op = &model->ops[k];
    if (op->visit == BT_NO_INDEX || bt_plan_kind(op->kind) < 0) continue;
    laying->places[next[op->visit]] = BT_NO_INDEX;
    laying->visit_ops[next[op->visit]++] = (int32_t)k;
  }
  for (size_t v = 0; v < model->visits_count; v++)
    laying->visit_ready[v] = INT64_MIN;
  for (int32_t r = 0; r < model->rank_count; r++) {
    note_recompute(laying, &model->ranks[r]);
    note_ready(laying, &model->ranks[r]);
  }
  return BT_OK;
}

static bool add_numbers(bt_laying *laying, int32_t visit) {
  for (int32_t i = laying->visit_first[visit]; i < laying->visit_first[visit + 1]; i++) {
    const bt_model_op *op = &laying->model.ops[laying->visit_ops[i]];
    int32_t chunk = bt_plan_chunk(op->chunk);
    int32_t chunk_b = bt_plan_chunk(op->chunk_b);
    if (chunk >= BT_MAX_CHUNKS || chunk_b >= BT_MAX_CHUNKS) continue;
    if (!bt_plan_add_number(&laying->run_numbers[chunk], op->microbatch)) return false;
    if (op->kind == BT_FB && !bt_plan_add_number(&laying->run_numbers[chunk_b], op->microbatch_b)) return false;
  }
  return true;
}

bt_status bt_plan_note_numbers(bt_laying *laying, const int32_t *visits, size_t count) {
  for (int32_t c = 0; c < BT_MAX_CHUNKS; c++)
    laying->run_numbers[c].count = 0;
  for (size_t i = 0; i < count; i++) {
    if (visits[i] != BT_NO_INDEX && !add_numbers(laying, visits[i])) return BT_ERR_NOMEM;
  }
  for (int32_t c = 0; c < BT_MAX_CHUNKS; c++)
    bt_plan_sort_numbers(&laying->run_numbers[c]);
  return BT_OK;
}

/* --- durations and transfers ----------------------------------------------------------------------------------------- */

typedef struct mean {
  int64_t sum, count;
} mean;

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a;
  int64_t y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Lower median of means[i * stride], those that have samples; BT_UNKNOWN: none has. */
static int64_t middle(const mean *means, size_t count, size_t stride, int64_t *room) {
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    const mean *one = &means[i * stride];
    if (one->count > 0) room[used++] = (one->sum + one->count / 2) / one->count;
  }
  if (used == 0) return BT_UNKNOWN;
  qsort(room, used, sizeof *room, by_value);
  return room[(used - 1) / 2];
}

static bool counts(const bt_model *model, int32_t visit) {
  if (visit == BT_NO_INDEX) return false;
  const bt_model_step *step = &model->steps[model->visits[visit].step];
  return step->reported && step->whole;
}

bt_status bt_plan_measure(bt_laying *laying) {
  const bt_model *model = &laying->model;
  size_t ranks = (size_t)model->rank_count; /* the ranks of a stage are as many samples of it */
  mean *ops = calloc(ranks * BT_PLAN_KINDS + 1, sizeof *ops);
  mean *messages = calloc(ranks * 2 + 1, sizeof *messages); /* what a rank receives: forward, backward */
  int64_t *room = malloc((ranks + 1) * sizeof *room);
  bool fine = ops != NULL && messages != NULL && room != NULL;
  for (size_t k = 0; fine && k < model->ops_count; k++) {
    const bt_model_op *op = &model->ops[k];
    int kind = bt_plan_kind(op->kind);
    if (kind < 0 || !counts(model, op->visit)) continue;
    mean *to = &ops[(size_t)op->rank * BT_PLAN_KINDS + (size_t)kind];
    to->sum += op->end - op->start + laying->recompute[k];
    to->count++;
  }
  for (size_t k = 0; fine && k < model->p2p_count; k++) {
    const bt_model_p2p *in = &model->p2p[k];
    if ((in->kind != BT_RECV_F && in->kind != BT_RECV_B) || in->transfer == BT_UNKNOWN) continue;
    mean *to = &messages[(size_t)in->rank * 2 + (in->kind == BT_RECV_B)];
    to->sum += in->transfer;
    to->count++;
  }
  for (size_t kind = 0; fine && kind < BT_PLAN_KINDS; kind++)
    laying->duration[kind] = middle(ops + kind, ranks, BT_PLAN_KINDS, room);
  laying->transfer_f = fine ? middle(messages, ranks, 2, room) : BT_UNKNOWN;
  laying->transfer_b = fine ? middle(messages + 1, ranks, 2, room) : BT_UNKNOWN;
  free(ops);
  free(messages);
  free(room);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
