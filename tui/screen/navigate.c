#include "tui/screen/navigate.h"

#include <stdlib.h>
#include <string.h>

#include "tui/screen/page.h"
#include "tui/screen/text.h"

static void push_place(const bt_view *view, bt_place places[BT_VIEW_HISTORY], size_t *count) {
  if (*count == BT_VIEW_HISTORY) {
    memmove(&places[0], &places[1], (BT_VIEW_HISTORY - 1) * sizeof places[0]);
    --*count;
  }
  places[(*count)++] = (bt_place){view->origin, view->width, view->cursor, view->replica};
}

void bt_navigate_remember(bt_view *view) {
  push_place(view, view->history, &view->history_count);
  view->undone_count = 0;
}

bool bt_navigate_history(bt_view *view, bool forth) {
  bt_place *from = forth ? view->undone : view->history, *to = forth ? view->history : view->undone;
  size_t *from_count = forth ? &view->undone_count : &view->history_count;
  if (*from_count == 0) return false;
  push_place(view, to, forth ? &view->history_count : &view->undone_count);
  const bt_place *place = &from[--*from_count];
  view->origin = place->origin;
  view->width = place->width;
  view->cursor = place->cursor;
  view->replica = place->replica;
  view->follow = false;
  return true;
}

void bt_navigate_place(bt_view *view, const char *text) {
  char *end;
  long long number = strtoll(text, &end, 10);
  int64_t since;
  if (text[0] == 0) return;
  if (bt_text_parse_duration(text, &since)) {
    int64_t time = bt_time_add(view->first, since);
    if (time > view->last) {
      bt_view_say(view, "the run is not that long");
      return;
    }
    bt_navigate_remember(view);
    bt_navigate_to(view, time);
    return;
  }
  if (*end != 0) {
    bt_view_say(view, "'%s' is neither a step's number nor a time like 12.5s", text);
    return;
  }
  for (size_t i = view->steps.count; i-- > 0;) {
    if (view->steps.items[i].id != number || view->steps.items[i].begin > view->last) continue;
    bt_navigate_step(view, i);
    return;
  }
  if (view->steps.count == 0)
    bt_view_say(view, "this run has no step marks");
  else
    bt_view_say(view, "there is no step %lld: the run has %lld to %lld", number, (long long)view->steps.items[0].id,
                (long long)view->steps.items[view->steps.count - 1].id);
}

static void pan(bt_view *view, int64_t columns) {
  int64_t origin = bt_time_add(view->origin, bt_time_mul(columns, view->width));
  /* some of the data stays in sight */
  int64_t latest = bt_time_sub(view->last, bt_time_mul(view->columns / 8, view->width));
  int64_t earliest = bt_time_sub(view->first, bt_time_mul(view->columns - view->columns / 8, view->width));
  if (latest < view->first) latest = view->first;
  bool at_end = columns > 0 && view->origin >= latest, at_start = columns < 0 && view->origin <= earliest;
  if (at_end || at_start) {
    bt_view_say(view, at_end ? "this is the end of the data" : "this is the start of the run");
    return;
  }
  if (columns > 0 && origin > latest)
    origin = bt_time_add(view->origin, (latest - view->origin) / view->width * view->width);
  if (columns < 0 && origin < earliest)
    origin = bt_time_sub(view->origin, (view->origin - earliest) / view->width * view->width);
  if (columns < 0) view->follow = false;
  view->origin = origin;
}

void bt_navigate_to(bt_view *view, int64_t time) {
  view->cursor.time = time;
  int column = bt_view_column(view, time);
  if (column >= 0 && column < view->columns) return;
  int64_t columns = bt_time_sub(time, view->origin) / view->width - view->columns / 3;
  view->origin = bt_time_add(view->origin, bt_time_mul(columns, view->width));
  view->follow = false;
}

static void zoom(bt_view *view, double factor, unsigned count) {
  double width = (double)view->width;
  for (unsigned i = 0; i < count && i < 64; i++)
    width *= factor;
  double most = (double)bt_time_sub(view->last, view->first) * 4 / view->columns + 1;
  if (width < 1) width = 1;
  if (width > most) width = most > (double)view->width ? most : (double)view->width;
  int64_t rounded = (int64_t)width;
  if (factor > 1 && rounded == view->width && width < most) rounded++;
  if (rounded == view->width) {
    bt_view_say(view, factor < 1 ? "one column is 1 ns already" : "the run is all in sight already");
    return;
  }
  int column = bt_view_column(view, view->cursor.time);
  view->fitted = false;
  view->width = rounded;
  view->origin = bt_time_sub(view->cursor.time, bt_time_mul(column, rounded));
}

static void fit(bt_view *view, int64_t from, int64_t to) {
  int64_t length = bt_time_sub(to, from);
  view->width = length / view->columns + 1;
  view->width += view->width / 32;
  view->fitted = true;
  view->origin = bt_time_sub(from, view->width);
}

static void fit_window(bt_view *view, size_t index) {
  const bt_step_window *window = bt_steps_window(&view->steps, index, view->trace, view->lods, &view->rows);
  bool known = window->from < window->to;
  view->realign = true;
  fit(view, known ? window->from : window->begin, known ? window->to : view->last);
  view->follow = false;
}

static void fit_step(bt_view *view) {
  size_t index;
  if (!bt_steps_at(&view->steps, view->cursor.time, &index)) {
    bt_view_say(view, view->steps.count == 0 ? "this run has no step marks" : "the cursor is before the first step");
    return;
  }
  bt_navigate_remember(view);
  fit_window(view, index);
}

void bt_navigate_step(bt_view *view, size_t index) {
  bt_navigate_remember(view);
  view->cursor.time = view->steps.items[index].begin;
  view->placed = true;
  fit_window(view, index);
}

static void zoom_range(bt_view *view) {
  int64_t from, to;
  if (!bt_view_range(view, &from, &to)) {
    bt_view_say(view, "no range is chosen: M sets a mark, from which it goes to the cursor");
    return;
  }
  char length[32];
  bt_navigate_remember(view);
  fit(view, from, to);
  view->cursor.time = from;
  view->follow = false;
  bt_view_clear_range(view);
  bt_view_say(view, "these are %s; Backspace goes back",
              bt_text_duration(length, sizeof length, bt_time_sub(to, from)));
}

static void move_row(bt_view *view, int64_t rows) {
  const bt_row *row = bt_view_row(view);
  if (row == NULL) return;
  int64_t at = row - view->rows.items, to = at + rows;
  if (to < 0) to = 0;
  if (to >= (int64_t)view->rows.count) to = (int64_t)view->rows.count - 1;
  if (to == at) {
    bt_view_say(view, rows < 0 ? "this is the first row" : "this is the last row");
    return;
  }
  const bt_row *target = &view->rows.items[to];
  view->cursor.stage = target->stage;
  view->cursor.rank = target->is_lane ? target->rank : -1;
  view->cursor.lane = target->lane;
}

static void next_step(bt_view *view, int64_t count) {
  size_t index;
  bool inside = bt_steps_at(&view->steps, view->cursor.time, &index);
  if (view->steps.count == 0) {
    bt_view_say(view, "this run has no step marks");
    return;
  }
  int64_t to = inside ? (int64_t)index + count : 0;
  if (count < 0 && inside && view->cursor.time > view->steps.items[index].begin) to++; /* first its own start */
  if (to < 0 || to >= (int64_t)view->steps.count || view->steps.items[to].begin > view->last) {
    bt_view_say(view, count > 0 ? "this is the last step" : "this is the first step");
    return;
  }
  /* the step comes to where the last one was */
  int64_t begin = view->steps.items[to].begin;
  int64_t moved = bt_time_sub(begin, inside ? view->steps.items[index].begin : view->cursor.time);
  view->origin = bt_time_add(view->origin, moved / view->width * view->width);
  view->cursor.time = begin;
  view->follow = false;
  view->realign = true;
  if (bt_view_column(view, begin) < 0 || bt_view_column(view, begin) >= view->columns) bt_navigate_to(view, begin);
}

static bool needs_data(bt_action action) {
  return action < BT_ACTION_PAUSE && action != BT_ACTION_CLEAR && action != BT_ACTION_SCOPE &&
         action != BT_ACTION_TIMES && action != BT_ACTION_WHY && action != BT_ACTION_PLAN &&
         action != BT_ACTION_OTHER_RUN && action != BT_ACTION_BY_STAGE && action != BT_ACTION_NEXT_PAGE &&
         action != BT_ACTION_PREVIOUS_PAGE;
}

static void move(bt_view *view, bt_action action, unsigned count) {
  int64_t n = count;
  if (action != BT_ACTION_ROW_UP && action != BT_ACTION_ROW_DOWN) view->placed = true;
  switch (action) {
  case BT_ACTION_PAN_LEFT: pan(view, -n * (view->columns / 8)); break;
  case BT_ACTION_PAN_RIGHT: pan(view, n * (view->columns / 8)); break;
  case BT_ACTION_PAGE_LEFT: pan(view, -n * (view->columns - view->columns / 8)); break;
  case BT_ACTION_PAGE_RIGHT: pan(view, n * (view->columns - view->columns / 8)); break;
  case BT_ACTION_ROW_UP: move_row(view, -n); break;
  case BT_ACTION_ROW_DOWN: move_row(view, n); break;
  case BT_ACTION_ROWS_UP: move_row(view, -n * (view->area_rows / view->spacing / 2 + 1)); break;
  case BT_ACTION_ROWS_DOWN: move_row(view, n * (view->area_rows / view->spacing / 2 + 1)); break;
  case BT_ACTION_ZOOM_IN: zoom(view, 1 / 1.5, count); break;
  case BT_ACTION_ZOOM_OUT: zoom(view, 1.5, count); break;
  case BT_ACTION_FIT_STEP: fit_step(view); break;
  case BT_ACTION_FIT_RUN:
    bt_navigate_remember(view);
    fit(view, view->first, view->last);
    break;
  case BT_ACTION_START:
    bt_navigate_remember(view);
    view->origin = view->cursor.time = view->first;
    view->follow = false;
    break;
  case BT_ACTION_END:
    bt_navigate_remember(view);
    view->cursor.time = view->last;
    view->origin = bt_time_sub(view->last, bt_time_mul(view->width, view->columns - 2));
    if (view->origin < view->first) view->origin = view->first;
    view->follow = view->feed.live || view->replaying;
    break;
  case BT_ACTION_ZOOM_RANGE: zoom_range(view); break;
  case BT_ACTION_CENTRE:
    view->origin = bt_time_add(view->origin,
                               bt_time_mul(bt_view_column(view, view->cursor.time) - view->columns / 2, view->width));
    view->follow = false;
    break;
  case BT_ACTION_NEXT_STEP: next_step(view, n); break;
  case BT_ACTION_PREVIOUS_STEP: next_step(view, -n); break;
  default: break;
  }
}

bool bt_action_works(const bt_view *view, bt_action action) {
  int64_t from, to;
  if (action == BT_ACTION_CLEAR) return true;
  if (action == BT_ACTION_ZOOM_RANGE) return view->page == BT_PAGE_TIMELINE && bt_view_range(view, &from, &to);
  if (action == BT_ACTION_OTHER_RUN) return view->sign != 0;
  if (action == BT_ACTION_BY_STAGE) return view->sign != 0 && view->page == BT_PAGE_TIMELINE;
  if (view->page == BT_PAGE_TIMELINE || action >= BT_ACTION_NEXT_REPLICA) {
    return view->page == BT_PAGE_TIMELINE ||
           (action != BT_ACTION_TIMES && action != BT_ACTION_WHY && action != BT_ACTION_PLAN);
  }
  return action == BT_ACTION_ROW_UP || action == BT_ACTION_ROW_DOWN || action == BT_ACTION_LANES ||
         action == BT_ACTION_BACK || action == BT_ACTION_FORTH;
}

void bt_navigate(bt_view *view, bt_action action, unsigned count) {
  if (needs_data(action) && (view->width == 0 || view->first > view->last || bt_view_row(view) == NULL)) {
    bt_view_say(view, "nothing to see yet");
    return;
  }
  if (view->page != BT_PAGE_TIMELINE && bt_page_act(view, action, count)) return;
  if (view->sign == 0 && (action == BT_ACTION_OTHER_RUN || action == BT_ACTION_BY_STAGE)) {
    bt_view_say(view, "there is one run: bubbletop view A B shows two");
    return;
  }
  bool zooms = action == BT_ACTION_ZOOM_RANGE && view->page == BT_PAGE_TIMELINE; /* which says what is missing */
  if (!zooms && !bt_action_works(view, action)) {
    bt_view_say(view, "that is for the timeline: v goes on to it");
    return;
  }
  if (action < BT_ACTION_SCOPE) view->parked = false;
  if (action <= BT_ACTION_CENTRE || action == BT_ACTION_NEXT_STEP || action == BT_ACTION_PREVIOUS_STEP) {
    move(view, action, count);
  } else if (action <= BT_ACTION_FORTH || action == BT_ACTION_SEARCH_NEXT || action == BT_ACTION_SEARCH_PREVIOUS) {
    bt_jump(view, action, count);
  } else {
    bt_navigate_change(view, action, count);
  }
}
