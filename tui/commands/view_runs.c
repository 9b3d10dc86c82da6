/* The one run or two that the view shows, each with the thread that reads it. */
#include <string.h>
#include <time.h>

#include "tui/commands/open_run.h"
#include "tui/commands/view.h"
#include "tui/screen/pair.h"
#include "tui/screen/text.h"

/* What time it is, and when the newest record of the run was made, by the clock pairs of its ranks. */
static void note_age(bt_feed *feed, const bt_trace *trace) {
  int64_t newest = INT64_MIN;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    if (rank->clock_count == 0 || rank->heartbeat == INT64_MIN) continue;
    const bt_clock_pair *pair = &rank->clocks[rank->clock_count - 1];
    int64_t real = bt_time_add(bt_time_sub(rank->heartbeat, pair->mono), pair->real);
    if (real > newest) newest = real;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  feed->now = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  feed->newest[0] = 0;
  if (newest == INT64_MIN) return;
  time_t seconds = (time_t)(newest / 1000000000);
  struct tm local;
  if (localtime_r(&seconds, &local) != NULL) (void)strftime(feed->newest, sizeof feed->newest, "%H:%M:%S", &local);
}

static void set_feed(bt_viewed *run, const bt_view_options *options) {
  bt_view *view = &run->view;
  const bt_feeder *feeder = &run->feeder;
  view->trace = bt_run_trace(feeder->run);
  view->lods = &feeder->lods;
  bt_feed *feed = &view->feed;
  bt_run_name(run->paths[0], feed->name, sizeof feed->name);
  feed->loading = feeder->loading;
  feed->indexing = feeder->indexing;
  feed->gone = feeder->gone && !options->replay;
  feed->live = !feeder->ended && !feeder->failed && !feeder->gone && !options->replay;
  feed->problems = feeder->problems;
  memcpy(feed->problem, feeder->problem, sizeof feed->problem);
  feed->unaligned = feeder->unaligned;
  feed->verdict = feeder->verdict;
  feed->account = feeder->account;
  feed->plan_given = feeder->plan_source != NULL;
  feed->plan = feeder->plan_mode == view->plan ? feeder->plan : NULL;
  feed->plan_problem = feeder->plan_mode == view->plan ? feeder->plan_problem : "";
  feed->gaps = feeder->gaps;
  feed->gaps_refused = feeder->gaps_refused;
  feed->now = INT64_MIN;
  if (feed->live || feed->gone) note_age(feed, view->trace);
}

bt_status bt_viewed_open(bt_viewed_runs *all, const bt_view_options *options, bool follow, bt_error *error) {
  memset(all, 0, sizeof *all);
  size_t wanted = options->second != NULL ? 2 : 1;
  all->runs[0].paths = options->paths;
  all->runs[0].path_count = options->path_count;
  all->runs[1].paths = &options->second;
  all->runs[1].path_count = 1;
  bt_status status = BT_OK;
  while (status == BT_OK && all->count < wanted) {
    bt_viewed *run = &all->runs[all->count++];
    status = bt_feeder_open(&run->feeder, run->paths, run->path_count, follow, error);
  }
  return status;
}

bt_status bt_viewed_start(bt_viewed_runs *all, const bt_view_options *options, const bt_theme *theme) {
  for (size_t i = 0; i < all->count; i++) {
    bt_view_init(&all->runs[i].view, theme);
    all->runs[i].feeder.plan_source = options->plan;
    if (options->plan != NULL) all->runs[i].view.plan = BT_PLAN_GIVEN;
    all->runs[i].view.replaying = options->replay;
    all->runs[i].view.speed = options->speed;
  }
  return all->count == 2 ? bt_pair_join(&all->runs[0].view, &all->runs[1].view) : BT_OK;
}

void bt_viewed_lock(bt_viewed_runs *all) {
  for (size_t i = 0; i < all->count; i++)
    pthread_mutex_lock(&all->runs[i].feeder.mutex);
}

void bt_viewed_unlock(bt_viewed_runs *all) {
  for (size_t i = all->count; i-- > 0;)
    pthread_mutex_unlock(&all->runs[i].feeder.mutex);
}

void bt_viewed_feed(bt_viewed_runs *all, const bt_view_options *options) {
  for (size_t i = 0; i < all->count; i++)
    set_feed(&all->runs[i], options);
}

void bt_viewed_close(bt_viewed_runs *all) {
  for (size_t i = 0; i < all->count; i++) {
    bt_feeder_close(&all->runs[i].feeder);
    bt_view_free(&all->runs[i].view);
  }
}
