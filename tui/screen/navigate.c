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

/* --- what is shown ------------------------------------------------------------------------------------------------------- */

void bt_view_open(bt_view *view, int32_t stage, bool open) {
  for (size_t i = 0; i < view->open_count; i++) {
    if (view->open_stages[i] != stage) continue;
    if (!open) view->open_stages[i] = view->open_stages[--view->open_count];
    return;
  }
  if (!open) return;
  if (view->open_count == view->open_capacity) {
    size_t capacity = view->open_capacity == 0 ? 16 : view->open_capacity * 2;
    int32_t *stages = realloc(view->open_stages, capacity * sizeof *stages);
    if (stages == NULL) return;
    view->open_stages = stages;
    view->open_capacity = capacity;
  }
  view->open_stages[view->open_count++] = stage;
}

static bool has_lanes(const bt_view *view, const bt_row *row) {
  if (row->members > 1) return true;
  for (unsigned lane = BT_LANE_P2P; lane < BT_LANE_COUNT; lane++) {
    if (view->trace->ranks[row->rank_index].tracks[lane].count > 0) return true;
  }
  return false;
}

static void toggle_lanes(bt_view *view) {
  const bt_row *row = bt_view_row(view);
  bool open = false;
  for (size_t i = 0; i < view->open_count; i++)
    open = open || view->open_stages[i] == row->stage;
  if (!open && !has_lanes(view, row)) {
    bt_view_say(view, "stage %d recorded compute only: there are no other lanes", (int)row->stage);
    return;
  }
  bt_view_open(view, row->stage, !open);
  view->cursor.rank = -1;
}

static void toggle_all_lanes(bt_view *view) {
  bool close = view->open_count > 0;
  view->open_count = 0;
  view->cursor.rank = -1;
  if (close) return;
  for (size_t i = 0; i < view->rows.count; i++) {
    if (has_lanes(view, &view->rows.items[i])) bt_view_open(view, view->rows.items[i].stage, true);
  }
  if (view->open_count == 0) bt_view_say(view, "this run recorded compute only: there are no other lanes");
}

static void next_replica(bt_view *view, int64_t count) {
  int64_t to = view->replica + count;
  if (view->rows.replicas < 2)
    bt_view_say(view, "this run has one replica");
  else if (to < 0 || to >= view->rows.replicas)
    bt_view_say(view, "there are %d replicas", (int)view->rows.replicas);
  else
    view->replica = (int32_t)to;
}

static void change_speed(bt_view *view, double factor, unsigned count) {
  if (!view->replaying) {
    bt_view_say(view, "speed is for a replay: bubbletop view --replay RUN");
    return;
  }
  for (unsigned i = 0; i < count; i++) {
    double speed = view->speed * factor;
    if (speed >= 1.0 / 1048576 && speed <= 1048576) view->speed = speed;
  }
  bt_view_say(view, "replay at %g times real speed", view->speed);
}

static void step_once(bt_view *view, unsigned count) {
  if (!view->replaying) {
    bt_view_say(view, "stepping is for a replay: bubbletop view --replay RUN");
    return;
  }
  view->paused = true;
  for (unsigned i = 0; i < count; i++) {
    size_t index;
    bool inside = bt_steps_at(&view->steps, view->clock, &index);
    size_t next = inside ? index + 1 : 0;
    if (next < view->steps.count) {
      view->clock = view->steps.items[next].begin;
      continue;
    }
    int64_t end = view->clock;
    for (size_t m = 0; m < view->rows.member_count; m++) {
      const bt_rank *rank = &view->trace->ranks[view->rows.members[m].rank_index];
      int64_t last = rank->first > rank->last ? end : bt_view_time(rank, rank->last);
      if (last > end) end = last;
    }
    if (end == view->clock) bt_view_say(view, "this is the end of the run");
    view->clock = end;
    return;
  }
}

static void set_follow(bt_view *view) {
  view->follow = !view->follow;
  if (view->follow) {
    view->paused = false;
    if (!view->feed.live && !view->replaying) {
      view->follow = false;
      bt_view_say(view, "the run has ended: there is nothing to follow");
    }
  } else {
    bt_view_say(view, "the picture stands still; f follows again");
  }
}

static void set_pause(bt_view *view) {
  if (!view->replaying && !view->feed.live) {
    bt_view_say(view, "the run has ended: there is nothing to pause");
    return;
  }
  view->paused = !view->paused;
  if (!view->paused) view->follow = true;
}

static void next_plan(bt_view *view) {
  if (view->plan == BT_PLAN_NONE)
    view->plan = view->feed.plan_given ? BT_PLAN_GIVEN : BT_PLAN_THEORY;
  else
    view->plan = view->plan == BT_PLAN_GIVEN ? BT_PLAN_THEORY : BT_PLAN_NONE;
  bt_view_say(view, view->plan == BT_PLAN_NONE ? "no plan"
                    : view->plan == BT_PLAN_GIVEN
                        ? "under every row: the plan"
                        : "under every row: the same order, had every op taken the usual time");
}

static bool needs_data(bt_action action) {
  return action < BT_ACTION_PAUSE && action != BT_ACTION_SCOPE && action != BT_ACTION_TIMES &&
         action != BT_ACTION_WHY && action != BT_ACTION_PLAN && action != BT_ACTION_OTHER_RUN &&
         action != BT_ACTION_BY_STAGE && action != BT_ACTION_NEXT_PAGE && action != BT_ACTION_PREVIOUS_PAGE;
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

static void change(bt_view *view, bt_action action, unsigned count) {
  switch (action) {
  case BT_ACTION_SEARCH:
    view->asking = true;
    view->asking_place = false;
    view->query[0] = 0;
    break;
  case BT_ACTION_GO:
    view->asking = view->asking_place = true;
    view->place[0] = 0;
    break;
  case BT_ACTION_LANES: toggle_lanes(view); break;
  case BT_ACTION_ALL_LANES: toggle_all_lanes(view); break;
  case BT_ACTION_MARK:
    view->marked = !view->marked || view->mark != view->cursor.time;
    view->mark = view->cursor.time;
    bt_view_say(view, view->marked ? "mark set: the line below tells the time from it" : "mark taken away");
    break;
  case BT_ACTION_SAVE_PICTURE: view->save_picture = true; break;
  case BT_ACTION_SAVE_TEXT: view->save_text = true; break;
  case BT_ACTION_MOUSE:
    view->mouse = !view->mouse;
    bt_view_say(view,
                view->mouse ? "mouse on: to copy from the screen, hold Shift or switch it off with x" : "mouse off");
    break;
  case BT_ACTION_NEXT_REPLICA: next_replica(view, count); break;
  case BT_ACTION_PREVIOUS_REPLICA: next_replica(view, -(int64_t)count); break;
  case BT_ACTION_NEXT_PAGE:
  case BT_ACTION_PREVIOUS_PAGE:
    view->page = (view->page + (action == BT_ACTION_NEXT_PAGE ? 1 : BT_PAGE_COUNT - 1)) % BT_PAGE_COUNT;
    view->page_fresh = true;
    break;
  case BT_ACTION_SCOPE:
    if (view->page == BT_PAGE_MATRIX) {
      view->matrix_mode = (view->matrix_mode + 1) % BT_MATRIX_MODES;
      bt_view_say(view, "colours: %s",
                  view->matrix_mode == BT_MATRIX_BUBBLE  ? "bubble"
                  : view->matrix_mode == BT_MATRIX_DELAY ? "how much later than other replicas it was done"
                                                         : "compute against the usual");
      break;
    }
    view->scope = (view->scope + 1) % BT_SCOPE_COUNT;
    bt_view_say(view, "bubble %% over the %s", bt_view_scope_label(view));
    break;
  case BT_ACTION_TIMES:
    view->absolute = !view->absolute;
    bt_view_say(view, view->absolute ? "times since the run's start" : "times since the step's start");
    break;
  case BT_ACTION_WHY:
    view->show_why = !view->show_why;
    bt_view_say(view, view->show_why ? "bubbles in the colours of what they wait for" : "bubbles plain");
    break;
  case BT_ACTION_PLAN: next_plan(view); break;
  case BT_ACTION_BY_STAGE:
    view->by_stage = !view->by_stage;
    bt_view_say(view, view->by_stage ? "stage by stage" : "run by run");
    break;
  case BT_ACTION_PAUSE: set_pause(view); break;
  case BT_ACTION_FOLLOW: set_follow(view); break;
  case BT_ACTION_STEP_ONCE: step_once(view, count); break;
  case BT_ACTION_SLOWER: change_speed(view, 0.5, count); break;
  case BT_ACTION_FASTER: change_speed(view, 2, count); break;
  case BT_ACTION_HELP:
    view->help = true;
    view->help_top = 0;
    break;
  case BT_ACTION_REDRAW: view->redraw = true; break;
  case BT_ACTION_SUSPEND: view->suspend = true; break;
  case BT_ACTION_QUIT: view->quit = true; break;
  default: break;
  }
}

bool bt_action_works(const bt_view *view, bt_action action) {
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
  if (!bt_action_works(view, action)) {
    bt_view_say(view, "that is for the timeline: v goes on to it");
    return;
  }
  if (action < BT_ACTION_SCOPE) view->parked = false;
  if (action <= BT_ACTION_CENTRE || action == BT_ACTION_NEXT_STEP || action == BT_ACTION_PREVIOUS_STEP) {
    move(view, action, count);
  } else if (action <= BT_ACTION_FORTH || action == BT_ACTION_SEARCH_NEXT || action == BT_ACTION_SEARCH_PREVIOUS) {
    bt_jump(view, action, count);
  } else {
    change(view, action, count);
  }
}
