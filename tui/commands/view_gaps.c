/* What the screen asks for beside the picture: which gaps of which steps. */
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
                                   .context = BT_FEEDER_CONTEXT,
                                   .clock = &feeder->clock};
  bool refused = bt_accounting_spans(trace, &options) > BT_FEEDER_MOST_SPANS;
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
