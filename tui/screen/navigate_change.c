/* What keys change in what is shown, and in the run and the program. */
#include <stdlib.h>
#include <string.h>

#include "tui/screen/navigate.h"
#include "tui/screen/text.h"

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

/* Escape: one thing after the other. */
static void clear(bt_view *view) {
  if (view->page != BT_PAGE_TIMELINE)
    view->page = BT_PAGE_TIMELINE;
  else if (view->marked)
    bt_view_clear_range(view);
  else
    bt_view_say(view, "q quits, ? is help");
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

/* The run and the program. */
static void control(bt_view *view, bt_action action, unsigned count) {
  switch (action) {
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

void bt_navigate_change(bt_view *view, bt_action action, unsigned count) {
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
    view->range_fixed = false;
    bt_view_say(view, view->marked ? "mark set: the range goes from here to the cursor" : "mark taken away");
    break;
  case BT_ACTION_CLEAR: clear(view); break;
  case BT_ACTION_SAVE: view->choosing = true; break;
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
  default: control(view, action, count);
  }
}
