/* What the screen asks for beside the picture: which gaps of which steps, and where a plan has their ops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/commands/view.h"

/* The ranks of the replica that is shown, or all of them. Without memory all are watched: slower, not wrong. */
static void watch(bt_feeder *feeder, const bt_view *view) {
  size_t count = view->rows.member_count;
  bool all = count == 0 || count == view->trace->rank_count || view->page == BT_PAGE_MATRIX;
  int32_t *ranks = all ? NULL : malloc(count * sizeof *ranks);
  if (ranks == NULL) count = 0;
  for (size_t i = 0; i < count; i++)
    ranks[i] = view->rows.members[i].rank;
  bool changed =
      count != feeder->watched_count || (count > 0 && memcmp(ranks, feeder->watched, count * sizeof *ranks) != 0);
  if (!changed) {
    free(ranks);
    return;
  }
  free(feeder->watched);
  feeder->watched = ranks;
  feeder->watched_count = count;
  feeder->watch_changed = true;
}

void bt_feeder_listen(bt_feeder *feeder, bt_view *view) {
  watch(feeder, view);
  feeder->step_known = bt_view_last_step(view, &feeder->step);
  feeder->gaps_wanted = bt_view_wants_gaps(view);
  feeder->plan_wanted = bt_view_wants_plan(view);
}

static bool same(const bt_gaps_wanted *a, const bt_gaps_wanted *b) {
  if (a->wanted != b->wanted || a->bounded != b->bounded) return false;
  return !a->bounded || (a->first_step == b->first_step && a->last_step == b->last_step);
}

void bt_feeder_find_gaps(bt_feeder *feeder) {
  bt_trace *trace = bt_run_trace(feeder->run);
  pthread_mutex_lock(&feeder->mutex);
  bt_gaps_wanted wanted = feeder->gaps_wanted;
  pthread_mutex_unlock(&feeder->mutex);
  if (!wanted.wanted) return;
  bool grown = !wanted.bounded && trace->generation != feeder->gaps_generation;
  if (same(&wanted, &feeder->gaps_tried) && !grown) return;
  feeder->gaps_tried = wanted;
  feeder->gaps_generation = trace->generation;
  bt_accounting_options options = {.bounded = wanted.bounded,
                                   .first_step = wanted.first_step,
                                   .last_step = wanted.last_step,
                                   .warmup = true,
                                   .clock = &feeder->clock};
  bool refused = bt_feeder_choose_context(trace, &options) > BT_FEEDER_MOST_SPANS;
  pthread_mutex_lock(&feeder->mutex);
  feeder->gaps_refused = refused;
  pthread_mutex_unlock(&feeder->mutex);
  if (refused) return;
  bt_gaps *gaps = NULL;
  if (bt_gaps_find(trace, &options, &gaps, NULL) != BT_OK) return;
  pthread_mutex_lock(&feeder->mutex);
  bt_gaps *old = feeder->gaps;
  feeder->gaps = gaps;
  pthread_mutex_unlock(&feeder->mutex);
  bt_gaps_free(old);
  ssize_t written = write(feeder->wake[1], "", 1);
  (void)written; /* full: it is awake already */
}

/* Says what is known of the plan: an overlay, or why there is none. */
static void give_plan(bt_feeder *feeder, bt_plan_mode mode, bt_plan_overlay *plan, const char *problem) {
  pthread_mutex_lock(&feeder->mutex);
  bt_plan_overlay *old = feeder->plan;
  feeder->plan = plan;
  feeder->plan_mode = mode;
  (void)snprintf(feeder->plan_problem, sizeof feeder->plan_problem, "%s", problem);
  pthread_mutex_unlock(&feeder->mutex);
  bt_plan_overlay_free(old);
  ssize_t written = write(feeder->wake[1], "", 1);
  (void)written;
}

void bt_feeder_lay_plan(bt_feeder *feeder) {
  bt_trace *trace = bt_run_trace(feeder->run);
  pthread_mutex_lock(&feeder->mutex);
  bt_plan_wanted wanted = feeder->plan_wanted;
  pthread_mutex_unlock(&feeder->mutex);
  if (wanted.mode == BT_PLAN_NONE || !wanted.steps.wanted) return;
  bool grown = !wanted.steps.bounded && trace->generation != feeder->plan_generation;
  if (wanted.mode == feeder->plan_tried.mode && same(&wanted.steps, &feeder->plan_tried.steps) && !grown) return;
  feeder->plan_tried = wanted;
  feeder->plan_generation = trace->generation;
  bt_accounting_options options = {.bounded = wanted.steps.bounded,
                                   .first_step = wanted.steps.first_step,
                                   .last_step = wanted.steps.last_step,
                                   .warmup = true,
                                   .clock = &feeder->clock};
  if (bt_accounting_spans(trace, &options) > BT_FEEDER_MOST_SPANS) {
    give_plan(feeder, wanted.mode, NULL, "too many records on the screen to lay a plan over them: zoom in");
    return;
  }
  bt_plan_source source = {.own = true};
  if (wanted.mode == BT_PLAN_GIVEN && feeder->plan_source != NULL) source = *feeder->plan_source;
  source.places = true;
  bt_plan_overlay *plan = NULL;
  bt_error error = {BT_OK, ""};
  bool good = bt_plan_lay(trace, &options, &source, &plan, &error) == BT_OK;
  give_plan(feeder, wanted.mode, plan, good ? "" : error.text);
}
