#include "tui/screen/pair_private.h"

#include <stdlib.h>
#include <string.h>

#include "tui/screen/navigate.h"
#include "tui/screen/screen.h"
#include "tui/screen/text.h"

bt_status bt_pair_join(bt_view *first, bt_view *second) {
  first->pair = calloc(1, sizeof *first->pair);
  if (first->pair == NULL) return BT_ERR_NOMEM;
  first->other = second;
  first->sign = 'A';
  second->sign = 'B';
  second->unfocused = true;
  return BT_OK;
}

void bt_pair_free(bt_pair *pair) {
  if (pair == NULL) return;
  bt_comparison_free(pair->comparison);
  free(pair->slots);
  free(pair);
}

bt_view *bt_pair_focus(bt_view *view) {
  return view->other != NULL && view->pair->at_second ? view->other : view;
}

int64_t bt_pair_shift(const bt_view *view) {
  return view->pair->shift;
}

const bt_slot *bt_pair_slots(const bt_view *view, size_t *count) {
  *count = view->pair->count;
  return view->pair->slots;
}

const bt_slot *bt_pair_slot_at(const bt_view *view, int line) {
  for (size_t i = 0; i < view->pair->count; i++) {
    const bt_slot *slot = &view->pair->slots[i];
    if (slot->height > 0 && line >= slot->y && line < slot->y + slot->height) return slot;
  }
  return NULL;
}

/* --- alignment ------------------------------------------------------------------------------------------------------- */

/* The step of that number, or the nearest one. */
static bool find_step(const bt_view *view, int64_t id, size_t *index) {
  bool any = false;
  for (size_t i = 0; i < view->steps.count; i++) {
    int64_t own = view->steps.items[i].id, best = any ? view->steps.items[*index].id : 0;
    int64_t far = bt_time_sub(own, id), least = any ? bt_time_sub(best, id) : 0;
    if (any && (far < 0 ? -far : far) >= (least < 0 ? -least : least)) continue;
    *index = i;
    any = true;
    if (own == id) break;
  }
  return any;
}

/* Where what `view` shows begins: its step at `time`, else its first record. */
static void align(bt_view *first, const bt_view *leader, int64_t time) {
  bt_view *second = first->other;
  const bt_view *led = leader == first ? second : first;
  int64_t from = leader->first, to = led->first;
  size_t at, same;
  if (bt_steps_at(&leader->steps, time, &at) && find_step(led, leader->steps.items[at].id, &same)) {
    from = leader->steps.items[at].begin;
    to = led->steps.items[same].begin;
  }
  first->pair->shift = leader == first ? bt_time_sub(to, from) : bt_time_sub(from, to);
}

/* The run that decides where the picture is: the one that is followed, else that of the cursor. */
static bt_view *leader_of(bt_view *view) {
  bt_view *runs[] = {view, view->other, bt_pair_focus(view)};
  for (size_t i = 0; i < 2; i++) {
    if (runs[i]->feed.live && runs[i]->follow && !runs[i]->paused && bt_pair_has_data(runs[i])) return runs[i];
  }
  return bt_pair_has_data(runs[2]) ? runs[2] : bt_pair_opposite(view, runs[2]);
}

/* Shows a step of both whole: the newest that both have. */
static void place(bt_view *view, bt_view *leader) {
  bt_view *led = bt_pair_opposite(view, leader);
  size_t at, other;
  int64_t length = bt_time_sub(leader->last, leader->first), from = leader->first;
  bool steps = bt_steps_last(&leader->steps, leader->last, leader->trace, leader->lods, &leader->rows, &at);
  if (steps && bt_pair_has_data(led) &&
      bt_steps_last(&led->steps, led->last, led->trace, led->lods, &led->rows, &other) &&
      led->steps.items[other].id < leader->steps.items[at].id) {
    (void)find_step(leader, led->steps.items[other].id, &at);
  }
  if (steps) {
    const bt_step_window *window = bt_steps_window(&leader->steps, at, leader->trace, leader->lods, &leader->rows);
    from = window->from;
    length = bt_time_sub(window->to, from);
  }
  if (bt_pair_has_data(led)) {
    align(view, leader, from);
    int64_t begin = bt_pair_across(view, leader, from), end = led->last;
    if (steps && bt_steps_at(&led->steps, begin, &other)) {
      const bt_step_window *window = bt_steps_window(&led->steps, other, led->trace, led->lods, &led->rows);
      if (window->from < window->to) end = window->to;
    }
    if (bt_time_sub(end, begin) > length) length = bt_time_sub(end, begin);
  }
  bool running = leader->feed.live && leader->follow;
  leader->width = length / leader->columns + 1;
  leader->width += leader->width / 32;
  if (!running) leader->origin = bt_time_sub(from, leader->width);
  if (!running) leader->cursor.time = bt_time_add(leader->origin, leader->width);
  leader->fitted = !running;
}

/* Puts the other run's picture where it belongs to the leader's. */
static void lead(bt_view *view, bt_view *leader) {
  bt_view *led = bt_pair_opposite(view, leader), *focus = bt_pair_focus(view);
  bool follows = leader->feed.live && leader->follow && !leader->paused;
  if (follows || leader->realign) align(view, leader, follows ? leader->last : leader->cursor.time);
  leader->realign = led->realign = false;
  if (led->first > led->last) return;
  led->width = leader->width;
  led->fitted = leader->fitted;
  led->origin = bt_pair_across(view, leader, leader->origin);
  bt_view *other = bt_pair_opposite(view, focus);
  if (focus == led) { /* it may have been left behind */
    if (led->cursor.time < led->origin) led->cursor.time = led->origin;
    if (led->cursor.time >= bt_view_end(led)) led->cursor.time = bt_view_end(led) - 1;
  }
  if (focus == leader) led->parked = leader->parked;
  if (bt_pair_has_data(focus)) other->cursor.time = bt_pair_across(view, focus, focus->cursor.time);
}

/* --- frames and keys ------------------------------------------------------------------------------------------------- */

bt_status bt_pair_update(bt_view *view, int screen_rows, int screen_columns) {
  bt_pair *pair = view->pair;
  bt_view *leader = leader_of(view), *led = bt_pair_opposite(view, leader);
  bt_status status = bt_view_update(leader, screen_rows, screen_columns);
  if (status == BT_OK) status = bt_view_update(led, screen_rows, screen_columns);
  if (status != BT_OK || view->columns <= 0 || view->area_rows <= 0) return status;
  leader = leader_of(view);
  if (!pair->placed && bt_pair_has_data(leader)) {
    place(view, leader);
    pair->placed = view->placed = view->other->placed = !view->feed.loading && !view->other->feed.loading;
  }
  if (bt_pair_has_data(leader)) lead(view, leader);
  bt_pair_note_twin(view);
  return bt_pair_arrange(view);
}

const bt_comparison *bt_pair_comparison(bt_view *view) {
  bt_pair *pair = view->pair;
  const bt_accounting *a = bt_view_account(view), *b = bt_view_account(view->other);
  if (a == NULL || b == NULL) return NULL;
  int64_t steps[] = {view->feed.verdict.step, view->other->feed.verdict.step};
  if (pair->comparison != NULL && pair->compared[0] == a && pair->compared[1] == b && pair->steps[0] == steps[0] &&
      pair->steps[1] == steps[1]) {
    return pair->comparison;
  }
  bt_comparison_free(pair->comparison);
  pair->comparison = NULL;
  if (bt_compare(a, b, &pair->comparison, NULL) != BT_OK) return NULL;
  pair->compared[0] = a;
  pair->compared[1] = b;
  memcpy(pair->steps, steps, sizeof steps);
  return pair->comparison;
}

/* What both runs have in common, from one view to the other. */
static void share(bt_view *to, const bt_view *from) {
  to->page = from->page;
  to->scope = from->scope;
  to->absolute = from->absolute;
  to->show_why = from->show_why;
  to->plan = from->plan;
  to->by_stage = from->by_stage;
  to->paused = from->paused;
  to->count = from->count;
  to->help = from->help;
  to->help_top = from->help_top;
  to->asking = from->asking;
  to->asking_place = from->asking_place;
  memcpy(to->place, from->place, sizeof to->place);
  memcpy(to->query, from->query, sizeof to->query);
  memcpy(to->message, from->message, sizeof to->message);
  to->quit = from->quit;
  to->suspend = from->suspend;
  to->redraw = from->redraw;
  to->mouse = from->mouse;
  to->save_picture = from->save_picture;
  to->save_text = from->save_text;
  to->save_json = from->save_json;
  to->choosing = from->choosing;
}

static void share_mark(bt_view *view, const bt_view *from) {
  bt_view *to = bt_pair_opposite(view, from);
  to->marked = from->marked;
  to->range_fixed = from->range_fixed;
  if (from->marked) to->mark = bt_pair_across(view, from, from->mark);
  if (from->range_fixed) to->range_end = bt_pair_across(view, from, from->range_end);
}

static void go(bt_view *view, bt_view *run) {
  bt_view *from = bt_pair_opposite(view, run);
  if (bt_pair_focus(view) == run) return;
  view->pair->at_second = run != view;
  from->unfocused = true;
  run->unfocused = false;
  run->parked = false;
  if (bt_pair_has_data(from)) run->cursor.time = bt_pair_across(view, from, from->cursor.time);
}

/* To the same op in the other run, or else to the same time of the step. */
static void go_to_other(bt_view *view) {
  bt_view *run = bt_pair_opposite(view, bt_pair_focus(view));
  go(view, run);
  if (!run->twinned) return;
  const bt_rank *rank = &run->trace->ranks[run->twin_rank];
  run->cursor.stage = bt_rank_stage(rank);
  run->cursor.rank = -1;
  bt_navigate_to(run, bt_view_time(rank, rank->tracks[BT_LANE_COMPUTE].spans[run->twin_span].start));
}

/* Rows of both runs are one list. */
static void move_row(bt_view *view, int64_t by) {
  bt_pair *pair = view->pair;
  bt_view *focus = bt_pair_focus(view);
  size_t at = 0, to;
  while (at < pair->count && (pair->slots[at].view != focus || pair->slots[at].row != bt_view_row(focus)))
    at++;
  if (at == pair->count) return;
  to = at;
  size_t next = at;
  for (int64_t left = by < 0 ? -by : by; left > 0;) {
    if (by < 0 ? next == 0 : next + 1 == pair->count) break;
    next = by < 0 ? next - 1 : next + 1;
    if (pair->slots[next].row == NULL) continue; /* a title */
    to = next;
    left--;
  }
  if (to == at) {
    bt_view_say(focus, by < 0 ? "this is the first row" : "this is the last row");
    return;
  }
  const bt_row *row = pair->slots[to].row;
  bt_view *run = pair->slots[to].view;
  go(view, run);
  run->cursor.stage = row->stage;
  run->cursor.rank = row->is_lane ? row->rank : -1;
  run->cursor.lane = row->lane;
  run->parked = false;
}

/* Rows to move by; 0: it is no such key, or not for the timeline. */
static int64_t rows_of_key(const bt_view *view, bt_key key) {
  const bt_binding *binding = bt_binding_of_key(key);
  if (binding == NULL || view->help || view->asking || view->choosing || view->page != BT_PAGE_TIMELINE) return 0;
  int64_t count = view->count > 0 ? view->count : 1,
          half = view->area_rows / (view->spacing > 0 ? view->spacing : 1) / 2 + 1;
  switch (binding->action) {
  case BT_ACTION_ROW_UP: return -count;
  case BT_ACTION_ROW_DOWN: return count;
  case BT_ACTION_ROWS_UP: return -count * half;
  case BT_ACTION_ROWS_DOWN: return count * half;
  default: return 0;
  }
}

/* The whole of both runs. */
static void fit_both(bt_view *view, bt_view *focus) {
  bt_view *led = bt_pair_opposite(view, focus);
  if (!bt_pair_has_data(focus) || !bt_pair_has_data(led)) return;
  align(view, focus, focus->first);
  int64_t from = bt_pair_across(view, led, led->first), to = bt_pair_across(view, led, led->last);
  if (focus->first < from) from = focus->first;
  if (focus->last > to) to = focus->last;
  focus->width = bt_time_sub(to, from) / focus->columns + 1;
  focus->width += focus->width / 32;
  focus->origin = bt_time_sub(from, focus->width);
}

/* What is to be told apart after a key. */
typedef struct before {
  int64_t origin, width;
  bool follow;
} before;

static before begin(bt_view *view, bt_view *focus) {
  if (focus != view) share(focus, view);
  return (before){focus->origin, focus->width, focus->follow};
}

static void end(bt_view *view, bt_view *focus, const before *was) {
  bt_view *led = bt_pair_opposite(view, focus);
  if (focus->origin != was->origin || focus->width != was->width || focus->follow != was->follow)
    led->follow = focus->follow && led->feed.live;
  share_mark(view, focus);
  share(led, focus);
}

/* The run that a key is for: that of the cursor, but following and pausing are for the one that grows. */
static bt_view *acting_for(bt_view *view, const bt_binding *binding) {
  bt_view *focus = bt_pair_focus(view), *other = bt_pair_opposite(view, focus);
  bool running = binding != NULL && (binding->action == BT_ACTION_FOLLOW || binding->action == BT_ACTION_PAUSE);
  return running && !focus->feed.live && other->feed.live ? other : focus;
}

void bt_pair_key(bt_view *view, bt_key key) {
  const bt_binding *binding = bt_binding_of_key(key);
  bt_view *acting = acting_for(view, binding);
  bool typed = view->asking || view->choosing || view->help, timeline = view->page == BT_PAGE_TIMELINE && !typed;
  before was = begin(view, acting);
  int64_t rows = rows_of_key(acting, key);
  if (rows != 0) {
    acting->message[0] = 0;
    acting->count = 0;
    move_row(view, rows);
  } else {
    bt_view_key(acting, key);
  }
  if (timeline && binding != NULL && binding->action == BT_ACTION_FIT_RUN) fit_both(view, acting);
  end(view, acting, &was);
  if (!typed && binding != NULL && binding->action == BT_ACTION_OTHER_RUN) go_to_other(view);
}

void bt_pair_mouse(bt_view *view, const bt_mouse *mouse) {
  bt_view *focus = bt_pair_focus(view);
  const bt_slot *slot = bt_pair_slot_at(view, mouse->row);
  bool clicks = mouse->wheel == 0 && !mouse->moved && !mouse->released && !focus->help && !focus->asking &&
                !focus->choosing && focus->page == BT_PAGE_TIMELINE && mouse->row != 1;
  if (clicks && (slot == NULL || slot->row == NULL)) return;
  if (clicks) {
    go(view, slot->view);
    focus = slot->view;
    focus->cursor.stage = slot->row->stage;
    focus->cursor.rank = slot->row->is_lane ? slot->row->rank : -1;
    focus->cursor.lane = slot->row->lane;
    if (mouse->column >= view->left) bt_view_press(focus, mouse->column);
    share_mark(view, focus);
    return;
  }
  before was = begin(view, focus);
  bt_view_mouse(focus, mouse);
  end(view, focus, &was);
}

bool bt_pair_moved_along(bt_view *view) {
  bool same = view->pair->drawn_shift == view->pair->shift;
  view->pair->drawn_shift = view->pair->shift;
  return same;
}
