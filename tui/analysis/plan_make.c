/* The plan for a run: its shape, what a schedule family makes of it or what a CSV says, and whether the two fit. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/plan_private.h"
#include "tui/analysis/recognise.h"

typedef struct shape {
  int32_t stages, chunks;
  int32_t microbatches; /* distinct numbers in the sample step */
  int32_t by_chunk; /* the same, each chunk counted on its own */
  int32_t *visits; /* per stage: a rank's visit of the sample step; BT_NO_INDEX */
} shape;

/* --- the run --------------------------------------------------------------------------------------------------------- */

/* The first whole reported step, else the first reported one. */
static int32_t sample_step(const bt_model *model) {
  int32_t any = BT_NO_INDEX;
  for (int32_t i = 0; i < model->step_count; i++) {
    if (!model->steps[i].reported) continue;
    if (model->steps[i].whole) return i;
    if (any == BT_NO_INDEX) any = i;
  }
  return any;
}

static bt_status find_shape(bt_laying *laying, shape *of, bt_error *error) {
  const bt_model *model = &laying->model;
  of->stages = model->stage_count;
  of->chunks = model->out->chunks;
  if (of->stages > BT_SCHEDULE_MAX_STAGES)
    return bt_fail(error, BT_ERR_LIMIT, "plan: %d stages are too many", of->stages);
  of->visits = malloc(((size_t)of->stages + 1) * sizeof *of->visits);
  if (of->visits == NULL) return BT_ERR_NOMEM;
  for (int32_t s = 0; s < of->stages; s++)
    of->visits[s] = BT_NO_INDEX;
  int32_t step = sample_step(model);
  for (size_t v = 0; v < model->visits_count; v++) {
    const bt_model_rank *rank = &model->ranks[model->visits[v].rank];
    if (model->visits[v].step == step && rank->replica == 0) of->visits[rank->stage] = (int32_t)v;
  }
  if (bt_plan_note_numbers(laying, of->visits, (size_t)of->stages) != BT_OK) return BT_ERR_NOMEM;
  bt_plan_numbers all = {NULL, 0, 0};
  bool fine = true;
  for (int32_t c = 0; c < BT_MAX_CHUNKS; c++) {
    of->by_chunk += (int32_t)laying->run_numbers[c].count;
    for (size_t i = 0; fine && i < laying->run_numbers[c].count; i++)
      fine = bt_plan_add_number(&all, laying->run_numbers[c].list[i]);
  }
  bt_plan_sort_numbers(&all);
  of->microbatches = (int32_t)all.count;
  free(all.list);
  if (!fine) return BT_ERR_NOMEM;
  return of->microbatches > 0 ? BT_OK
                              : bt_fail(error, BT_ERR_ARG, "plan: the ops of the run do not say their microbatch");
}

/* A stage's ops in the order that was measured. Returns how many they are. */
static size_t measured_order(const bt_laying *laying, const shape *of, int32_t stage, bt_op *ops) {
  int32_t visit = of->visits[stage];
  size_t used = 0;
  if (visit == BT_NO_INDEX) return 0;
  for (int32_t i = laying->visit_first[visit]; i < laying->visit_first[visit + 1]; i++) {
    const bt_model_op *op = &laying->model.ops[laying->visit_ops[i]];
    ops[used] = bt_op_make(op->kind, op->chunk, op->vstage, op->microbatch);
    ops[used].chunk_b = op->chunk_b;
    ops[used].vstage_b = op->vstage_b;
    ops[used++].microbatch_b = op->microbatch_b;
  }
  return used;
}

/* The order that was measured, for what a family needs to know beside the shape. */
static bt_status recognise(const bt_laying *laying, const shape *of, const bt_observed_times *times,
                           bt_recognition *result) {
  bt_observed_stage *stages = calloc((size_t)of->stages + 1, sizeof *stages);
  bt_op *ops = malloc((laying->model.ops_count + 1) * sizeof *ops);
  bt_status status = stages != NULL && ops != NULL ? BT_OK : BT_ERR_NOMEM;
  size_t used = 0;
  for (int32_t s = 0; status == BT_OK && s < of->stages; s++) {
    stages[s].ops = ops + used;
    stages[s].count = measured_order(laying, of, s, ops + used);
    used += stages[s].count;
  }
  if (status == BT_OK) status = bt_recognise(stages, (size_t)of->stages, times, result, NULL);
  free(stages);
  free(ops);
  return status;
}

static int64_t known(int64_t ns, int64_t otherwise) {
  return ns != BT_UNKNOWN ? ns : otherwise;
}

static bt_observed_times times_of(const bt_laying *laying) {
  int64_t whole = known(laying->duration[BT_BW - BT_F], 0);
  bt_observed_times times = {.forward = known(laying->duration[0], 0)};
  times.backward = known(laying->duration[BT_B - BT_F], whole / 2);
  times.weight = known(laying->duration[BT_W - BT_F], whole - whole / 2);
  times.comm = known(laying->transfer_f, known(laying->transfer_b, 0));
  return times;
}

/* --- from a family --------------------------------------------------------------------------------------------------- */

static bool reserve_plan(bt_laying *laying, int32_t stages, size_t ops) {
  laying->ops = malloc((2 * ops + 1) * sizeof *laying->ops); /* an FB may be taken apart */
  laying->keys = malloc((2 * ops + 1) * sizeof *laying->keys);
  laying->first = calloc((size_t)stages + 1, sizeof *laying->first);
  return laying->ops != NULL && laying->keys != NULL && laying->first != NULL;
}

static bt_status plan_of_family(bt_laying *laying, const shape *of, const bt_plan_source *source, bt_error *error) {
  const bt_schedule_family *family = source->family;
  bt_observed_times times = times_of(laying);
  bt_recognition recognised;
  bt_status status = recognise(laying, of, &times, &recognised);
  if (status == BT_ERR_NOMEM) return status;
  bool same = status == BT_OK && recognised.family == family;
  bool both = family->placement == BT_PLACE_BOTH;
  bt_schedule_params params = {.stages = of->stages,
                               .microbatches = both ? of->by_chunk : of->microbatches,
                               .chunks = of->chunks,
                               .reversed = same && recognised.reversed,
                               .ragged = same ? recognised.ragged : of->microbatches % of->stages != 0,
                               .memory = source->memory_in_p * of->stages};
  if (same && recognised.memory > 0 && source->memory_in_p == 0) params.memory = recognised.memory;
  if (family->timed && times.forward > 0) {
    params.forward = times.forward;
    params.backward = times.backward;
    params.weight = times.weight;
    params.comm = times.comm;
  }
  bt_schedule *schedule = NULL;
  bt_error why = {BT_OK, ""};
  status = bt_schedule_make(family, &params, &schedule, &why);
  if (status == BT_ERR_NOMEM) return status;
  if (status != BT_OK) return bt_fail(error, status, "the plan does not fit the run: %s", why.text);
  size_t ops = 0;
  for (int32_t s = 0; s < schedule->stages; s++)
    ops += schedule->counts[s];
  if (reserve_plan(laying, schedule->stages, ops)) {
    for (int32_t s = 0; s < schedule->stages; s++) {
      size_t count;
      const bt_op *order = bt_schedule_order(schedule, s, &count);
      if (count > 0) memcpy(laying->ops + laying->first[s], order, count * sizeof *order);
      laying->first[s + 1] = laying->first[s] + count;
    }
  } else {
    status = BT_ERR_NOMEM;
  }
  laying->out->name = family->name;
  laying->out->stages = schedule->stages;
  laying->out->chunks = schedule->chunks;
  laying->out->microbatches = schedule->microbatches;
  bt_schedule_free(schedule);
  return status;
}

/* --- from the run itself --------------------------------------------------------------------------------------------- */

static bt_status plan_of_run(bt_laying *laying, const shape *of, bt_error *error) {
  laying->out->name = "own order";
  laying->out->stages = of->stages;
  laying->out->chunks = of->chunks;
  laying->out->microbatches = of->microbatches;
  if (!reserve_plan(laying, of->stages, laying->model.ops_count)) return BT_ERR_NOMEM;
  for (int32_t s = 0; s < of->stages; s++) {
    bt_op *ops = laying->ops + laying->first[s];
    size_t count = measured_order(laying, of, s, ops);
    for (size_t i = 0; i < count; i++) {
      if (ops[i].chunk >= BT_MAX_CHUNKS || ops[i].chunk_b >= BT_MAX_CHUNKS)
        return bt_fail(error, BT_ERR_LIMIT, "plan: more than %d chunks", BT_MAX_CHUNKS);
      ops[i].chunk = (int16_t)bt_plan_chunk(ops[i].chunk);
      ops[i].chunk_b = (int16_t)bt_plan_chunk(ops[i].chunk_b);
    }
    laying->first[s + 1] = laying->first[s] + count;
  }
  return BT_OK;
}

/* --- from a CSV ------------------------------------------------------------------------------------------------------ */

static bt_op op_of_cell(const bt_csv_cell *cell) {
  bt_op op = bt_op_make(cell->kind, 0, cell->stage, cell->microbatch);
  op.vstage_b = cell->stage_b;
  op.microbatch_b = cell->microbatch_b;
  if (cell->kind == BT_FB) op.chunk_b = 0;
  return op;
}

/* A rank's virtual stages are its chunks, in ascending order. */
static bt_status number_chunks(bt_laying *laying, int32_t stage, bt_error *error) {
  bt_plan_numbers vstages = {NULL, 0, 0};
  bool fine = true;
  for (size_t i = laying->first[stage]; fine && i < laying->first[stage + 1]; i++) {
    const bt_op *op = &laying->ops[i];
    fine = bt_plan_add_number(&vstages, op->vstage) && bt_plan_add_number(&vstages, op->vstage_b);
    if (vstages.count > 4 * BT_MAX_CHUNKS) bt_plan_sort_numbers(&vstages);
    if (vstages.count > 2 * BT_MAX_CHUNKS) break;
  }
  bt_plan_sort_numbers(&vstages);
  bt_status status = fine ? BT_OK : BT_ERR_NOMEM;
  if (vstages.count > BT_MAX_CHUNKS) {
    status = bt_fail(error, BT_ERR_LIMIT, "plan: rank %d has more than %d stages", stage, BT_MAX_CHUNKS);
  }
  for (size_t i = laying->first[stage]; status == BT_OK && i < laying->first[stage + 1]; i++) {
    bt_op *op = &laying->ops[i];
    for (size_t c = 0; c < vstages.count; c++) {
      if (vstages.list[c] == op->vstage) op->chunk = (int16_t)c;
      if (op->kind == BT_FB && vstages.list[c] == op->vstage_b) op->chunk_b = (int16_t)c;
    }
  }
  if ((int32_t)vstages.count > laying->out->chunks) laying->out->chunks = (int32_t)vstages.count;
  free(vstages.list);
  return status;
}

static bt_status plan_of_csv(bt_laying *laying, const bt_schedule_csv *csv, bt_error *error) {
  size_t cells = 0;
  for (size_t r = 0; r < csv->row_count; r++)
    cells += csv->rows[r].count;
  laying->out->stages = (int32_t)csv->row_count;
  if (!reserve_plan(laying, laying->out->stages, cells)) return BT_ERR_NOMEM;
  bt_plan_numbers all = {NULL, 0, 0};
  bool fine = true;
  size_t used = 0;
  for (size_t r = 0; r < csv->row_count; r++) {
    for (size_t i = 0; fine && i < csv->rows[r].count; i++) {
      const bt_csv_cell *cell = &csv->rows[r].cells[i];
      if (bt_plan_kind(cell->kind) < 0) continue;
      laying->ops[used++] = op_of_cell(cell);
      fine = bt_plan_add_number(&all, cell->microbatch) && bt_plan_add_number(&all, cell->microbatch_b);
    }
    laying->first[r + 1] = used;
  }
  bt_plan_sort_numbers(&all);
  laying->out->microbatches = (int32_t)all.count;
  free(all.list);
  bt_status status = fine ? BT_OK : BT_ERR_NOMEM;
  for (int32_t r = 0; status == BT_OK && r < laying->out->stages; r++)
    status = number_chunks(laying, r, error);
  if (csv->mixed) {
    bt_plan_warn(
        laying->out, "plan_mixed",
        "the plan has I and BW, so B may be the full backward or the input gradient: B and BW are taken as full");
  }
  if (status == BT_OK && used == 0) status = bt_fail(error, BT_ERR_ARG, "the plan has no forward and no backward");
  return status;
}

/* --- do they fit? ---------------------------------------------------------------------------------------------------- */

static bool plan_has_vstage(const bt_laying *laying, int32_t stage, int32_t vstage) {
  for (size_t i = laying->first[stage]; i < laying->first[stage + 1]; i++) {
    if (laying->ops[i].vstage == vstage || laying->ops[i].vstage_b == vstage) return true;
  }
  return false;
}

static bt_status check_fit(const bt_laying *laying, const shape *of, bt_error *error) {
  const bt_plan_overlay *plan = laying->out;
  bool numbers = plan->microbatches == of->microbatches || plan->microbatches == of->by_chunk;
  if (plan->stages != of->stages || plan->chunks != of->chunks || !numbers) {
    return bt_fail(error, BT_ERR_ARG,
                   "the plan does not fit the run: it is for %d stages, %d chunks a stage and %d microbatches, the run "
                   "has %d, %d and %d",
                   plan->stages, plan->chunks, plan->microbatches, of->stages, of->chunks, of->microbatches);
  }
  for (int32_t s = 0; s < of->stages; s++) {
    int32_t visit = of->visits[s];
    for (int32_t i = 0; visit != BT_NO_INDEX && i < laying->visit_first[visit + 1] - laying->visit_first[visit]; i++) {
      int32_t vstage = laying->model.ops[laying->visit_ops[laying->visit_first[visit] + i]].vstage;
      if (vstage < 0) return bt_fail(error, BT_ERR_ARG, "plan: the ops of the run do not say their chunk");
      if (!plan_has_vstage(laying, s, vstage)) {
        return bt_fail(
            error, BT_ERR_ARG,
            "the plan does not fit the run: virtual stage %d is on stage %d in the run, elsewhere in the plan", vstage,
            s);
      }
    }
  }
  return BT_OK;
}

/* --- one meaning of backward on both sides --------------------------------------------------------------------------- */

static bool plan_has(const bt_laying *laying, unsigned kind) {
  size_t count = laying->first[laying->out->stages];
  for (size_t i = 0; i < count; i++) {
    if (laying->ops[i].kind == kind) return true;
  }
  return false;
}

/* Takes FB apart (`unfold`), drops W and calls B BW (`fold`). */
static bool rewrite(bt_laying *laying, bool unfold, bool fold) {
  size_t stages = (size_t)laying->out->stages;
  size_t total = laying->first[stages];
  bt_op *from = malloc((total + 1) * sizeof *from);
  if (from == NULL) return false;
  memcpy(from, laying->ops, total * sizeof *from);
  size_t used = 0;
  size_t at = 0;
  for (size_t s = 0; s < stages; s++) {
    for (; at < laying->first[s + 1]; at++) {
      bt_op op = from[at];
      if (fold && op.kind == BT_W) continue;
      if (fold && op.kind == BT_B) op.kind = BT_BW;
      if (unfold && op.kind == BT_FB) {
        laying->ops[used++] = bt_op_make(BT_F, op.chunk, op.vstage, op.microbatch);
        op = bt_op_make(BT_BW, op.chunk_b, op.vstage_b, op.microbatch_b);
      }
      laying->ops[used++] = op;
    }
    laying->first[s + 1] = used;
  }
  free(from);
  return true;
}

static bool agree_on_kinds(bt_laying *laying) {
  const bool *seen = laying->seen;
  bool unfold = plan_has(laying, BT_FB) && !seen[BT_FB - BT_F];
  if (unfold && !rewrite(laying, true, false)) return false;
  bool plan_splits = plan_has(laying, BT_B) || plan_has(laying, BT_W);
  bool run_splits = seen[BT_B - BT_F] || seen[BT_W - BT_F];
  laying->plan_folded = plan_splits && !run_splits && seen[BT_BW - BT_F];
  laying->run_folded = !plan_splits && run_splits && !seen[BT_BW - BT_F];
  if (unfold) {
    bt_plan_warn(laying->out, "overlap_apart",
                 "the run has no overlapped forward and backward: those of the plan are taken as one after the other");
  }
  if (laying->plan_folded) {
    bt_plan_warn(laying->out, "backward_whole",
                 "the plan splits the backward, the run does not: its B are compared as BW, its W are left out");
  }
  if (laying->run_folded) {
    bt_plan_warn(laying->out, "backward_split",
                 "the run splits the backward, the plan does not: its B are compared as BW, its W are left out");
  }
  return !laying->plan_folded || rewrite(laying, false, true);
}

/* --- keys and numbers ------------------------------------------------------------------------------------------------ */

static int by_op(const void *a, const void *b) {
  const bt_plan_key *x = a;
  const bt_plan_key *y = b;
  int order = bt_plan_compare_op(&x->op, &y->op);
  return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static bt_status index_plan(bt_laying *laying, bool own, bt_error *error) {
  for (int32_t s = 0; s < laying->out->stages; s++) {
    size_t first = laying->first[s];
    size_t count = laying->first[s + 1] - first;
    for (size_t i = 0; i < count; i++) {
      const bt_op *op = &laying->ops[first + i];
      laying->keys[first + i] =
          (bt_plan_key){{op->kind, op->vstage, op->microbatch, op->vstage_b, op->microbatch_b}, (int32_t)i};
      bool fine = bt_plan_add_number(&laying->plan_numbers[op->chunk], op->microbatch);
      if (op->kind == BT_FB) fine &= bt_plan_add_number(&laying->plan_numbers[op->chunk_b], op->microbatch_b);
      if (!fine) return BT_ERR_NOMEM;
    }
    if (count > 0) qsort(laying->keys + first, count, sizeof *laying->keys, by_op);
    for (size_t i = first + 1; i < first + count; i++) {
      const bt_plan_op *op = &laying->keys[i].op;
      if (bt_plan_compare_op(&laying->keys[i - 1].op, op) != 0) continue;
      if (own) return bt_fail(error, BT_ERR_ARG, "plan: ops of the run cannot be told apart by their microbatches");
      return bt_fail(error, BT_ERR_ARG, "the plan is wrong: rank %d does %s of stage %d, microbatch %d, twice", s,
                     bt_code_name(op->kind), op->vstage, op->microbatch);
    }
  }
  for (int32_t c = 0; c < BT_MAX_CHUNKS; c++)
    bt_plan_sort_numbers(&laying->plan_numbers[c]);
  laying->out->planned_ops = (int64_t)laying->first[laying->out->stages];
  return BT_OK;
}

bt_status bt_plan_make(bt_laying *laying, const bt_plan_source *source, bt_error *error) {
  shape of = {.visits = NULL};
  bt_status status = find_shape(laying, &of, error);
  if (status == BT_OK && source->csv != NULL) status = plan_of_csv(laying, source->csv, error);
  if (status == BT_OK && source->own) status = plan_of_run(laying, &of, error);
  if (status == BT_OK && source->family != NULL) status = plan_of_family(laying, &of, source, error);
  if (status == BT_OK) status = check_fit(laying, &of, error);
  if (status == BT_OK && !agree_on_kinds(laying)) status = BT_ERR_NOMEM;
  if (status == BT_OK) status = index_plan(laying, source->own, error);
  free(of.visits);
  return status;
}
