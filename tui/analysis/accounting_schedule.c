/* Which schedule the reported steps run: the order of ops of one step, handed to recognition. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"
#include "tui/analysis/recognise.h"

/* The first reported step that is whole (recorded in full), else the first reported; steady like the others, since
 * warm-up is left out. */
static int32_t typical_step(const bt_model *model) {
  int32_t first = BT_NO_INDEX;
  for (int32_t i = 0; i < model->step_count; i++) {
    if (!model->steps[i].reported) continue;
    if (model->steps[i].whole) return i;
    if (first == BT_NO_INDEX) first = i;
  }
  return first;
}

static bt_op observed(const bt_model_op *op) {
  bt_op result = bt_op_make((bt_code)op->kind, op->chunk, op->vstage, op->microbatch);
  result.chunk_b = op->chunk_b;
  result.vstage_b = op->vstage_b;
  result.microbatch_b = op->microbatch_b;
  return result;
}

/* The ops of a rank in a step; room for as many as the rank has. */
static size_t order_of(const bt_model *model, const bt_model_rank *rank, int32_t step, bt_op *ops) {
  size_t count = 0;
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (op->visit == BT_NO_INDEX || model->visits[op->visit].step < step) continue;
    if (model->visits[op->visit].step > step) break;
    if (bt_code_is_pipeline_op(op->kind)) ops[count++] = observed(op);
  }
  return count;
}

static void measure_times(const bt_model *model, bt_observed_times *times) {
  int64_t sum[BT_OTHER + 1] = {0};
  int64_t count[BT_OTHER + 1] = {0};
  int64_t moved = 0;
  int64_t messages = 0;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (op->visit == BT_NO_INDEX || !model->steps[model->visits[op->visit].step].reported) continue;
    sum[op->kind] += op->end - op->start;
    count[op->kind]++;
  }
  for (size_t i = 0; i < model->p2p_count; i++) {
    if (model->p2p[i].moved == BT_UNKNOWN) continue;
    moved += model->p2p[i].moved;
    messages++;
  }
  *times = (bt_observed_times){.forward = count[BT_F] > 0 ? sum[BT_F] / count[BT_F] : 0,
                               .backward = count[BT_B] > 0 ? sum[BT_B] / count[BT_B] : 0,
                               .weight = count[BT_W] > 0 ? sum[BT_W] / count[BT_W] : 0,
                               .comm = messages > 0 ? moved / messages : 0};
}

bt_status bt_model_schedule(bt_model *model) {
  bt_accounting *out = model->out;
  int32_t step = typical_step(model);
  size_t stage_count = out->stage_count;
  bt_observed_stage *stages = calloc(stage_count + 1, sizeof *stages);
  size_t most = 1;
  for (int32_t r = 0; r < model->rank_count; r++)
    most = (size_t)model->ranks[r].ops.count > most ? (size_t)model->ranks[r].ops.count : most;
  bt_op *ops = malloc(most * sizeof *ops);
  bt_status status = stages != NULL && ops != NULL ? BT_OK : BT_ERR_NOMEM;
  for (int32_t r = 0; status == BT_OK && r < model->rank_count; r++) {
    bt_observed_stage *stage = &stages[model->ranks[r].row];
    if (stage->count > 0) continue; /* another replica or member of the stage does the same */
    stage->count = order_of(model, &model->ranks[r], step, ops);
    bt_op *copy = malloc((stage->count + 1) * sizeof *copy);
    if (copy == NULL) {
      stage->count = 0;
      status = BT_ERR_NOMEM;
      break;
    }
    memcpy(copy, ops, stage->count * sizeof *copy);
    free((void *)stage->ops);
    stage->ops = copy;
  }
  if (status == BT_OK) {
    bt_observed_times times;
    measure_times(model, &times);
    status = bt_recognise(stages, stage_count, &times, &out->schedule, NULL);
    if (status == BT_ERR_ARG || status == BT_ERR_EMPTY) {
      out->schedule.family = NULL;
      status = BT_OK;
    }
  }
  for (size_t i = 0; stages != NULL && i < stage_count; i++)
    free((void *)stages[i].ops);
  free(stages);
  free(ops);
  return status;
}
