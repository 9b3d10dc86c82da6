#include "tui/screen/view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/lod_cut.h"
#include "tui/screen/pair.h"
#include "tui/screen/text.h"

void bt_view_init(bt_view *view, const bt_theme *theme) {
  memset(view, 0, sizeof *view);
  view->theme = *theme;
  view->clock = INT64_MAX;
  view->speed = 1;
  view->follow = true;
  view->feed.now = view->ages.now = INT64_MIN;
  view->cursor.stage = -1;
  view->cursor.rank = -1;
  view->first = INT64_MAX;
  view->last = INT64_MIN;
}

void bt_view_free(bt_view *view) {
  bt_rows_free(&view->rows);
  bt_steps_free(&view->steps);
  bt_ages_free(&view->ages);
  free(view->open_stages);
  free(view->matrix);
  bt_pair_free(view->pair);
  for (size_t i = 0; i < view->memo_count; i++)
    bt_lod_memo_free(&view->memos[i]);
  free(view->memos);
  free(view->eighths);
  free(view->segments.items);
  memset(view, 0, sizeof *view);
}

void bt_view_say(bt_view *view, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(view->message, sizeof view->message, format, args);
  va_end(args);
}

int64_t bt_view_end(const bt_view *view) {
  return bt_time_add(view->origin, bt_time_mul(view->width, view->columns));
}

int bt_view_column(const bt_view *view, int64_t time) {
  if (time < view->origin) return -1;
  int64_t column = bt_time_sub(time, view->origin) / view->width;
  return column < view->columns ? (int)column : view->columns;
}

const bt_row *bt_view_row(const bt_view *view) {
  for (size_t i = 0; i < view->rows.count; i++) {
    const bt_row *row = &view->rows.items[i];
    if (row->stage != view->cursor.stage) continue;
    if (row->is_lane ? row->rank == view->cursor.rank && row->lane == view->cursor.lane : view->cursor.rank < 0)
      return row;
  }
  return NULL;
}

bool bt_view_is_here(const bt_view *view, const bt_row *row) {
  return !view->unfocused && bt_view_row(view) == row;
}

/* --- the extent of the data, and the place of the picture ------------------------------------------------------------ */

static void find_extent(bt_view *view) {
  view->first = INT64_MAX;
  view->last = INT64_MIN;
  for (size_t i = 0; i < view->rows.member_count; i++) {
    const bt_rank *rank = &view->trace->ranks[view->rows.members[i].rank_index];
    if (rank->first > rank->last) continue;
    int64_t first = bt_view_time(rank, rank->first), last = bt_view_time(rank, rank->last);
    for (size_t k = 0; k < rank->open_count; k++) {
      int64_t until = bt_view_time(rank, bt_time_add(rank->open[k].event.start, rank->open[k].event.duration));
      if (until > last) last = until;
    }
    if (first < view->first) view->first = first;
    if (last > view->last) view->last = last;
  }
  if (view->replaying && view->clock < view->last) view->last = view->clock;
}

/* Widths of columns are round numbers: 1, 2 or 5 times a power of ten would make zooming coarse, so three digits. */
static int64_t round_width(double width) {
  if (!(width > 1)) return 1;
  if (width > 9e15) return INT64_C(9000000000000000);
  int64_t grain = 1;
  while ((double)grain * 1000 < width)
    grain *= 10;
  int64_t whole = (int64_t)(width / (double)grain);
  if ((double)whole * (double)grain < width) whole++;
  return whole * grain;
}

/* The first picture. A run that has ended shows its last whole step; a live one follows at a step's scale, or while there is
 * no whole step yet, shows all there is. */
static void place(bt_view *view) {
  bool ended = !view->replaying && !view->feed.live && !view->feed.loading;
  size_t step;
  if (bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &step)) {
    const bt_step_window *window = &view->steps.items[step];
    view->width = round_width((double)bt_time_sub(window->to, window->from) * 1.03 / view->columns);
    view->placed = !view->feed.loading;
    view->follow = !ended;
    view->origin = ended ? bt_time_sub(window->from, view->width) : view->first;
    view->fitted = ended;
    return;
  }
  double span = (double)bt_time_sub(view->last, view->first) / view->columns;
  if (ended) {
    view->width = round_width(span * 1.03);
    view->placed = view->fitted = true;
    view->follow = false;
  } else {
    if (view->width == 0) view->width = 1;
    while ((double)view->width < span)
      view->width *= 2;
  }
  view->origin = view->first;
}

/* Keeps the newest data inside the picture. The origin moves by whole columns. */
static void follow(bt_view *view) {
  int64_t head = bt_time_sub(view->last, view->origin) / view->width;
  int64_t over = head - (view->columns - 1);
  if (over > 0) view->origin = bt_time_add(view->origin, bt_time_mul(over, view->width));
}

static void keep_cursor(bt_view *view) {
  if (bt_view_row(view) == NULL && view->rows.count > 0) {
    const bt_row *near = &view->rows.items[0];
    for (size_t i = 0; i < view->rows.count; i++) {
      if (!view->rows.items[i].is_lane && view->rows.items[i].stage <= view->cursor.stage) near = &view->rows.items[i];
    }
    view->cursor.stage = near->stage;
    view->cursor.rank = -1;
  }
  if (view->width == 0) return;
  int64_t end = bt_view_end(view);
  if (view->parked && !view->feed.live && !view->replaying) { /* nothing to follow any more, or all is read */
    view->parked = false;
    view->cursor.time = view->origin + view->width;
  }
  if (view->cursor.time < view->origin && view->follow && !view->paused && (view->feed.live || view->replaying))
    view->parked = true;
  if (view->cursor.time < view->origin) view->cursor.time = view->origin;
  if (view->cursor.time >= end) view->cursor.time = end - 1;
}

static bt_status scratch(bt_view *view, int rows, int columns) {
  if (rows > 0 && (size_t)rows > view->memo_count) {
    bt_lod_memo *memos = realloc(view->memos, (size_t)rows * sizeof *memos);
    if (memos == NULL) return BT_ERR_NOMEM;
    memset(&memos[view->memo_count], 0, ((size_t)rows - view->memo_count) * sizeof *memos);
    view->memos = memos;
    view->memo_count = (size_t)rows;
  }
  if (columns <= 0 || (size_t)columns <= view->scratch_columns) return BT_OK;
  uint8_t *eighths = realloc(view->eighths, (size_t)columns * 8);
  if (eighths == NULL) return BT_ERR_NOMEM;
  view->eighths = eighths;
  view->scratch_columns = (size_t)columns;
  return BT_OK;
}

static void lay_out(bt_view *view, int rows, int columns) {
  view->screen_rows = rows;
  view->screen_columns = columns;
  view->left = columns >= 70 ? 19 : 10;
  view->columns = columns - view->left;
  view->area_top = 2;
  /* what lies below: footer, cursor line, the bar, the verdict, steps and a rule where there is room */
  int below = rows < 12 ? 2 : rows < 16 ? 3 : rows < 20 ? 4 : 6;
  view->area_rows = rows - view->area_top - below;
  bt_view_set_heights(view, view->rows.count, view->area_rows);
}

void bt_view_set_heights(bt_view *view, size_t rows, int lines) {
  int plan = view->plan != BT_PLAN_NONE && view->page == BT_PAGE_TIMELINE, least = 1 + plan;
  int64_t most = (lines + 1) / (rows > 0 ? (int64_t)rows : 1);
  /* rows that are higher than a few cells gain nothing */
  int limit = BT_VIEW_ROW_HEIGHT + least;
  view->plan_lines = plan;
  view->spacing = most < least ? least : most > limit ? limit : (int)most;
  view->height = view->spacing > least ? view->spacing - least : 1;
}

static void keep_row_visible(bt_view *view) {
  size_t shown = (size_t)((view->area_rows + view->spacing - view->height - view->plan_lines) / view->spacing);
  const bt_row *row = bt_view_row(view);
  size_t at = row == NULL ? 0 : (size_t)(row - view->rows.items);
  if (at < view->top_row) view->top_row = at;
  if (at >= view->top_row + shown) view->top_row = at - shown + 1;
  if (view->top_row + shown > view->rows.count) {
    view->top_row = view->rows.count > shown ? view->rows.count - shown : 0;
  }
}

bt_status bt_view_update(bt_view *view, int screen_rows, int screen_columns) {
  bt_status status = bt_rows_build(&view->rows, view->trace, view->replica, view->open_stages, view->open_count);
  if (status == BT_OK) status = bt_steps_update(&view->steps, view->trace, &view->rows);
  int64_t now = view->feed.live && !view->replaying ? view->feed.now : INT64_MIN;
  if (status == BT_OK) status = bt_ages_update(&view->ages, view->trace, now, view->feed.loading);
  if (status != BT_OK) return status;
  int old_columns = view->columns;
  lay_out(view, screen_rows, screen_columns);
  status = scratch(view, screen_rows, view->columns);
  if (status != BT_OK || view->columns <= 0 || view->area_rows <= 0) return status;
  if (view->replaying && view->clock == INT64_MAX) {
    find_extent(view);
    if (view->first <= view->last) view->clock = view->first;
  }
  find_extent(view);
  if (view->first > view->last) return BT_OK;
  bool resized = view->width != 0 && old_columns > 0 && old_columns != view->columns;
  if (resized && view->fitted) {
    view->width = round_width((double)view->width * old_columns / view->columns);
  } else if (resized && view->follow) {
    view->origin = bt_time_add(view->origin, bt_time_mul(view->width, old_columns - view->columns));
    if (view->origin < view->first) view->origin = view->first;
  }
  if (!view->placed) {
    bool first = view->width == 0;
    int64_t clock = view->clock;
    if (view->replaying) { /* the scale of the first steps, though they are not there yet */
      view->clock = INT64_MAX;
      find_extent(view);
    }
    place(view);
    if (view->replaying) {
      view->clock = clock;
      find_extent(view);
    }
    if (first || (view->placed && !view->follow)) view->cursor.time = view->origin + view->width;
  }
  if (view->follow && !view->paused) follow(view);
  keep_cursor(view);
  keep_row_visible(view);
  return BT_OK;
}

bool bt_view_tick(bt_view *view, int64_t elapsed) {
  if (!view->replaying || view->paused || view->clock == INT64_MAX) return false;
  int64_t newest = INT64_MIN;
  for (size_t i = 0; i < view->rows.member_count; i++) {
    const bt_rank *rank = &view->trace->ranks[view->rows.members[i].rank_index];
    int64_t last = rank->first > rank->last ? INT64_MIN : bt_view_time(rank, rank->last);
    if (last > newest) newest = last;
  }
  if (view->clock >= newest) return false;
  double forward = (double)elapsed * view->speed;
  view->clock = bt_time_add(view->clock, forward > 9e18 ? INT64_MAX : (int64_t)forward);
  if (view->clock > newest) view->clock = newest;
  return true;
}

/* --- rates ------------------------------------------------------------------------------------------------------------ */

bool bt_view_range(const bt_view *view, int64_t *from, int64_t *to) {
  if (!view->marked || view->width == 0) return false;
  int64_t end = view->range_fixed ? view->range_end : view->cursor.time;
  *from = view->mark < end ? view->mark : end;
  *to = view->mark < end ? end : view->mark;
  return *from < *to;
}

void bt_view_clear_range(bt_view *view) {
  view->marked = view->range_fixed = view->dragging = false;
}

/* The ranges of the scope: what is chosen, windows of steps, or what is visible. */
static size_t scope_ranges(bt_view *view, int64_t (*ranges)[2]) {
  bt_steps *steps = &view->steps;
  size_t at, count = 0;
  if (bt_view_range(view, &ranges[0][0], &ranges[0][1])) return 1;
  if (view->scope != BT_SCOPE_VISIBLE && view->width > 0 &&
      bt_steps_last(steps, view->last, view->trace, view->lods, &view->rows, &at)) {
    size_t wanted = view->scope == BT_SCOPE_STEP ? 1 : BT_SCOPE_STEPS_COUNT;
    for (size_t seen = 0; seen < wanted; seen++, at--) {
      const bt_step_window *window = bt_steps_window(steps, at, view->trace, view->lods, &view->rows);
      if (!window->complete) break;
      if (count > 0 && window->to >= ranges[count - 1][0]) { /* windows may overlap: time counts once */
        if (window->from < ranges[count - 1][0]) ranges[count - 1][0] = window->from;
      } else if (window->from < window->to) {
        ranges[count][0] = window->from;
        ranges[count++][1] = window->to;
      }
      if (at == 0) break;
    }
    return count;
  }
  int64_t from = view->origin, to = bt_view_end(view);
  if (from < view->first) from = view->first;
  if (to > view->last) to = view->last;
  if (from >= to) return 0;
  ranges[0][0] = from;
  ranges[0][1] = to;
  return 1;
}

bool bt_view_last_step(bt_view *view, int64_t *id) {
  size_t at;
  if (!bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &at)) return false;
  *id = view->steps.items[at].id;
  return true;
}

const char *bt_view_scope_label(bt_view *view) {
  size_t at;
  int64_t from, to;
  if (bt_view_range(view, &from, &to)) return "range";
  if (view->scope != BT_SCOPE_VISIBLE &&
      !bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &at)) {
    return "visible, no full step";
  }
  return view->scope == BT_SCOPE_STEP ? "last step" : view->scope == BT_SCOPE_STEPS ? "last 10 steps" : "visible";
}

static int by_rank(const void *a, const void *b) {
  int32_t x = ((const bt_account_rank *)a)->rank, y = ((const bt_account_rank *)b)->rank;
  return (x > y) - (x < y);
}

/* The accounting also cuts collectives out of ops, so its figure is the one that counts where it has one. NAN: it has not. */
static double accounted_bubble(bt_view *view, const bt_stage_member *members, size_t count) {
  const bt_accounting *account = bt_view_account(view);
  if (account == NULL) return NAN;
  double window = 0, busy = 0;
  for (size_t i = 0; i < count; i++) {
    bt_account_rank wanted = {.rank = members[i].rank};
    const bt_account_rank *rank = bsearch(&wanted, account->rank_list, (size_t)account->ranks, sizeof wanted, by_rank);
    if (rank == NULL || rank->window_ns == BT_UNKNOWN) return NAN;
    window += (double)rank->window_ns;
    busy += (double)rank->busy_ns;
  }
  return window > 0 ? 1 - busy / window : NAN;
}

bool bt_view_rate(bt_view *view, int32_t stage, bt_rate *rate) {
  int64_t ranges[BT_SCOPE_STEPS_COUNT][2];
  size_t range_count = scope_ranges(view, ranges);
  size_t count = view->rows.member_count;
  const bt_stage_member *members = stage < 0 ? view->rows.members : bt_rows_members(&view->rows, stage, &count);
  memset(rate, 0, sizeof *rate);
  uint64_t busy = 0;
  for (size_t r = 0; r < range_count; r++) {
    for (size_t i = 0; i < count; i++) {
      const bt_rank *rank = &view->trace->ranks[members[i].rank_index];
      bt_lod_sum sum;
      bt_lod_compute(view->lods, view->trace, members[i].rank_index, bt_raw_time(rank, ranges[r][0]),
                     bt_raw_time(rank, ranges[r][1]), &sum);
      for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++)
        rate->busy[slot] += sum.busy[slot];
      busy += bt_lod_busy(&sum, BT_LANE_COMPUTE);
      rate->total += (uint64_t)ranges[r][1] - (uint64_t)ranges[r][0];
    }
  }
  if (rate->total == 0) return false;
  double accounted = accounted_bubble(view, members, count);
  rate->bubble = isnan(accounted) ? 1 - (double)busy / (double)rate->total : accounted;
  return true;
}

enum { MOST_GAP_STEPS = 64 };

/* The steps on the screen, if they are few. */
static bt_gaps_wanted steps_in_sight(bt_view *view, bool asked) {
  bt_gaps_wanted wanted = {.wanted = asked && view->width > 0};
  size_t last, first;
  if (!wanted.wanted || view->steps.count == 0) return wanted;
  wanted.bounded = true;
  int64_t origin = view->origin, end = bt_view_end(view), from, to;
  if (bt_view_range(view, &from, &to)) { /* which may lie outside */
    if (from < origin) origin = from;
    if (to > end) end = to;
  }
  if (end > view->last) end = view->last;
  (void)bt_steps_at(&view->steps, origin, &first);
  wanted.wanted = bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &last);
  if (!wanted.wanted) return wanted;
  while (last > first && view->steps.items[last].begin > end)
    last--;
  if (last < first || last - first >= MOST_GAP_STEPS) wanted.wanted = false;
  if (!wanted.wanted) return wanted;
  wanted.first_step = view->steps.items[first].id;
  wanted.last_step = view->steps.items[last].id;
  return wanted;
}

bt_gaps_wanted bt_view_wants_gaps(bt_view *view) {
  int64_t from, to;
  return steps_in_sight(view, view->show_why || bt_view_range(view, &from, &to));
}

bt_plan_wanted bt_view_wants_plan(bt_view *view) {
  return (bt_plan_wanted){view->plan, steps_in_sight(view, view->plan != BT_PLAN_NONE)};
}

const bt_accounting *bt_view_account(bt_view *view) {
  const bt_feed *feed = &view->feed;
  int64_t step, from, to;
  if (feed->account == NULL || bt_view_range(view, &from, &to) || view->scope != BT_SCOPE_STEP || !feed->verdict.known)
    return NULL;
  return bt_view_last_step(view, &step) && step == feed->verdict.step ? feed->account : NULL;
}
