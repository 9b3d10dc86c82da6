/* Which steps are reported, which of them rated, and the interval they span. */
#include <stdlib.h>

#include "tui/analysis/accounting_model.h"

enum {
  WARMUP_PERCENT = 130, /* a leading step is warm-up when half of the ranks compute that much of their usual time */
  WARMUP_MIN_REST = 3 /* … and at least so many steps remain */
};

static int compare_ratio(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Lower median over ranks of how much longer a rank computed in step `step` than in its middle step. */
static double slowness(const bt_model *model, int32_t step, const int64_t *middle, double *room) {
  size_t count = 0;
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_model_rank *rank = &model->ranks[i];
    for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++) {
      if (model->visits[v].step > step) break;
      if (model->visits[v].step == step && middle[i] > 0) {
        room[count++] = (double)model->visits[v].op_ns / (double)middle[i];
      }
    }
  }
  if (count == 0) return 0;
  qsort(room, count, sizeof *room, compare_ratio);
  return room[(count - 1) / 2];
}

static bool middle_times(const bt_model *model, int64_t *middle) {
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_model_rank *rank = &model->ranks[i];
    size_t count = (size_t)rank->visits.count;
    double *times = malloc((count + 1) * sizeof *times);
    if (times == NULL) return false;
    for (size_t k = 0; k < count; k++)
      times[k] = (double)model->visits[(size_t)rank->visits.first + k].op_ns;
    qsort(times, count, sizeof *times, compare_ratio);
    middle[i] = count > 0 ? (int64_t)times[(count - 1) / 2] : 0;
    free(times);
  }
  return true;
}

/* Marks the leading steps in which most ranks computed much longer than later: compilation, autotuning, first touch. */
static bool find_warmup(bt_model *model) {
  int64_t *middle = calloc((size_t)model->rank_count + 1, sizeof *middle);
  double *room = malloc(((size_t)model->rank_count + 1) * sizeof *room);
  bool fine = middle != NULL && room != NULL && middle_times(model, middle);
  for (int32_t i = 0; fine && i + WARMUP_MIN_REST < model->step_count; i++) {
    if (model->steps[i].whole && slowness(model, i, middle, room) * 100 < WARMUP_PERCENT) break;
    model->steps[i].warmup = model->steps[i].whole;
  }
  free(middle);
  free(room);
  return fine;
}

static void choose_steps(bt_model *model, const bt_accounting_options *options) {
  int32_t first = model->step_count;
  int32_t last = BT_NO_INDEX;
  int32_t warmups = 0;
  int32_t cut = 0;
  int32_t wanted = 0;
  for (int32_t i = 0; i < model->step_count; i++) {
    bt_model_step *step = &model->steps[i];
    bool asked = !options->bounded || (step->id >= options->first_step && step->id <= options->last_step);
    bool skipped = step->warmup && !options->bounded && !options->warmup;
    if (!asked) continue;
    wanted++;
    warmups += skipped;
    cut += !step->whole;
    if (skipped || !step->whole) continue;
    if (i < first) first = i;
    last = i;
  }
  for (int32_t i = 0; i < model->step_count; i++) {
    bt_model_step *step = &model->steps[i];
    bool asked = !options->bounded || (step->id >= options->first_step && step->id <= options->last_step);
    step->reported = asked && (last == BT_NO_INDEX || (i >= first && i <= last));
  }
  if (warmups > 0) {
    bt_account_warn(model->out, "warmup_steps", warmups, "%d warm-up step%s left out of the averages", warmups,
                    warmups == 1 ? " is" : "s are");
  }
  if (cut > 0) {
    bt_account_warn(model->out, "incomplete_steps", cut, "%d of %d steps %s not whole and left out of the rates", cut,
                    wanted, cut == 1 ? "is" : "are");
  }
}

/* A whole step is rated unless a step that is not whole reaches into its window: then its busy time is not known. */
static void rate_steps(bt_model *model) {
  for (int32_t i = 0; i < model->step_count; i++)
    model->steps[i].rated = model->steps[i].reported && model->steps[i].whole;
  for (int32_t r = 0; r < model->replica_count; r++) {
    for (int32_t i = 0; i + 1 < model->step_count; i++) {
      const bt_model_window *a = bt_model_window_of(model, r, i);
      const bt_model_window *b = bt_model_window_of(model, r, i + 1);
      if (b->start >= a->end) continue;
      if (!model->steps[i].whole) model->steps[i + 1].rated = false;
      if (!model->steps[i + 1].whole) model->steps[i].rated = false;
    }
  }
}

static void bound_interval(bt_model *model) {
  model->start = INT64_MAX;
  model->end = INT64_MIN;
  int32_t last = BT_NO_INDEX;
  for (int32_t i = 0; i < model->step_count; i++) {
    if (!model->steps[i].reported) continue;
    for (int32_t r = 0; r < model->replica_count; r++) {
      const bt_model_window *window = bt_model_window_of(model, r, i);
      if (window->start < model->start) model->start = window->start;
      if (window->end > model->end) model->end = window->end;
    }
    if (model->steps[i].last_span != INT64_MIN) last = i;
  }
  if (last == BT_NO_INDEX) return;
  const bt_model_step *step = &model->steps[last];
  int64_t end = step->end != BT_UNKNOWN ? step->end : step->last_span;
  if (end > model->end) model->end = end;
}

bt_status bt_model_choose(bt_model *model, const bt_accounting_options *options) {
  if (!find_warmup(model)) return BT_ERR_NOMEM;
  choose_steps(model, options);
  rate_steps(model);
  bound_interval(model);
  return model->start < model->end ? BT_OK : BT_ERR_EMPTY;
}
