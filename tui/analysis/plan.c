#include "tui/analysis/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/plan_private.h"

int bt_plan_compare_op(const bt_plan_op *a, const bt_plan_op *b) {
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->vstage != b->vstage) return a->vstage < b->vstage ? -1 : 1;
  if (a->microbatch != b->microbatch) return a->microbatch < b->microbatch ? -1 : 1;
  if (a->vstage_b != b->vstage_b) return a->vstage_b < b->vstage_b ? -1 : 1;
  return (a->microbatch_b > b->microbatch_b) - (a->microbatch_b < b->microbatch_b);
}

bool bt_plan_add_number(bt_plan_numbers *numbers, int32_t number) {
  if (number < 0) return true;
  if (!bt_array_reserve(&numbers->list, &numbers->capacity, numbers->count + 1, sizeof number)) return false;
  numbers->list[numbers->count++] = number;
  return true;
}

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a;
  int32_t y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

void bt_plan_sort_numbers(bt_plan_numbers *numbers) {
  size_t kept = 0;
  if (numbers->count > 0) qsort(numbers->list, numbers->count, sizeof *numbers->list, ascending);
  for (size_t i = 0; i < numbers->count; i++) {
    if (kept == 0 || numbers->list[kept - 1] != numbers->list[i]) numbers->list[kept++] = numbers->list[i];
  }
  numbers->count = kept;
}

void bt_plan_warn(bt_plan_overlay *overlay, const char *code, const char *format, ...) {
  if (!bt_array_reserve(&overlay->warnings, &overlay->warning_capacity, overlay->warning_count + 1,
                        sizeof *overlay->warnings)) {
    return; /* out of memory: the caller notices soon */
  }
  bt_account_warning *fresh = &overlay->warnings[overlay->warning_count++];
  fresh->code = code;
  fresh->count = BT_UNKNOWN;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(fresh->text, sizeof fresh->text, format, arguments);
  va_end(arguments);
}

static bool begin_results(bt_laying *laying) {
  bt_plan_overlay *out = laying->out;
  out->worst = (bt_plan_late){.rank = -1, .stage = -1, .ns = BT_UNKNOWN};
  out->planned_ns = out->measured_ns = out->late_ns = BT_UNKNOWN;
  out->steps = calloc((size_t)laying->model.step_count + 1, sizeof *out->steps);
  out->stage_list = calloc((size_t)out->stages + 1, sizeof *out->stage_list);
  if (out->steps == NULL || out->stage_list == NULL) return false;
  for (int32_t i = 0; i < laying->model.step_count; i++) {
    if (!laying->model.steps[i].reported) continue;
    out->steps[out->step_count++] = (bt_plan_step){.step = laying->model.steps[i].id,
                                                   .planned_ns = BT_UNKNOWN,
                                                   .measured_ns = BT_UNKNOWN,
                                                   .late_ns = BT_UNKNOWN,
                                                   .worst = out->worst};
  }
  for (int32_t s = 0; s < out->stages; s++) {
    out->stage_list[s] =
        (bt_plan_stage){.stage = s, .longer_ns = BT_UNKNOWN, .planned_ns = BT_UNKNOWN, .late_ns = BT_UNKNOWN};
  }
  for (int32_t r = 0; r < laying->model.rank_count; r++) {
    if (laying->model.ranks[r].ops.count > 0) out->stage_list[laying->model.ranks[r].stage].ranks++;
  }
  return true;
}

static void free_laying(bt_laying *laying) {
  free(laying->visit_first);
  free(laying->visit_ops);
  free(laying->places);
  free(laying->visit_ready);
  free(laying->recompute);
  free(laying->displaced);
  free(laying->ops);
  free(laying->first);
  free(laying->keys);
  for (size_t i = 0; i < BT_MAX_CHUNKS; i++) {
    free(laying->run_numbers[i].list);
    free(laying->plan_numbers[i].list);
  }
  bt_accounting_free(laying->model.out);
  bt_model_free(&laying->model);
}

bt_status bt_plan_lay(const bt_trace *trace, const bt_accounting_options *options, const bt_plan_source *source,
                      bt_plan_overlay **overlay, bt_error *error) {
  *overlay = NULL;
  bt_laying laying = {.out = calloc(1, sizeof *laying.out)};
  if (laying.out == NULL) return bt_fail(error, BT_ERR_NOMEM, "plan: out of memory");
  bt_status status = bt_model_build(&laying.model, trace, options, error);
  if (status == BT_OK) {
    status = bt_plan_index_run(&laying);
    if (status == BT_OK && source->places) {
      laying.displaced = calloc(laying.model.ops_count + 1, sizeof *laying.displaced);
      if (laying.displaced == NULL) status = BT_ERR_NOMEM;
    }
    if (status == BT_OK) status = bt_plan_measure(&laying);
    if (status == BT_OK) status = bt_plan_make(&laying, source, error);
    if (status == BT_OK && !begin_results(&laying)) status = BT_ERR_NOMEM;
    if (status == BT_OK) status = bt_plan_compare_order(&laying);
    if (status == BT_OK) status = bt_plan_compare_times(&laying);
    if (status == BT_ERR_NOMEM) (void)bt_fail(error, status, "plan: out of memory");
  }
  free_laying(&laying);
  if (status == BT_OK) {
    *overlay = laying.out;
  } else {
    bt_plan_overlay_free(laying.out);
  }
  return status;
}

void bt_plan_overlay_free(bt_plan_overlay *overlay) {
  if (overlay == NULL) return;
  free(overlay->steps);
  free(overlay->places);
  free(overlay->stage_list);
  free(overlay->displaced_list);
  free(overlay->missing_list);
  free(overlay->extra_list);
  free(overlay->warnings);
  free(overlay);
}
