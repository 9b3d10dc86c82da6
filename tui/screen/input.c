/* What a key does where it is typed. */
#include <string.h>

#include "tui/screen/navigate.h"
#include "tui/screen/pair.h"
#include "tui/screen/screen.h"
#include "tui/screen/search.h"
#include "tui/screen/text.h"

static void key_of_line(bt_view *view, bt_key key) {
  char *line = view->asking_place ? view->place : view->query;
  size_t length = strlen(line);
  if (key == BT_KEY_ENTER) {
    view->asking = false;
    if (view->asking_place) {
      bt_navigate_place(view, line);
    } else {
      bt_navigate_remember(view);
      (void)bt_search(view, line, 1);
    }
  } else if (key == BT_KEY_ESCAPE || key == 3) {
    view->asking = false;
    line[0] = 0;
  } else if (key == BT_KEY_BACKSPACE || key == BT_KEY_DELETE) {
    if (length == 0)
      view->asking = false;
    else
      line[length - 1] = 0;
  } else if (key >= ' ' && key < 0x7F && length + 1 < BT_VIEW_QUERY) {
    line[length] = (char)key;
    line[length + 1] = 0;
  } else {
    return;
  }
}

/* What is to be written. */
static void choose(bt_view *view, bt_key key) {
  view->choosing = false;
  view->save_picture = key == 'e';
  view->save_json = key == 'j';
  view->save_text = key == 'y';
  if (!view->save_picture && !view->save_json && !view->save_text) bt_view_say(view, "nothing was written");
}

static int64_t time_at(const bt_view *view, int column) {
  int at = column - view->left;
  at = at < 0 ? 0 : at > view->columns ? view->columns : at;
  return bt_time_add(view->origin, bt_time_mul(at, view->width));
}

static void press(bt_view *view, const bt_mouse *mouse) {
  int line = mouse->row - view->area_top;
  size_t index = view->top_row + (size_t)(line < 0 ? 0 : line / view->spacing);
  bool in_row = line >= 0 && line < view->area_rows && line % view->spacing < view->height && index < view->rows.count;
  bool on_axis = mouse->row == 1 && mouse->column >= view->left;
  if (!in_row && !on_axis) return;
  if (in_row) {
    const bt_row *row = &view->rows.items[index];
    view->cursor.stage = row->stage;
    view->cursor.rank = row->is_lane ? row->rank : -1;
    view->cursor.lane = row->lane;
    view->parked = false;
  }
  if (mouse->column >= view->left) bt_view_press(view, mouse->column);
}

void bt_view_press(bt_view *view, int column) {
  bt_view_clear_range(view);
  view->dragging = true;
  view->mark = view->cursor.time = time_at(view, column);
}

/* From the column where the button was pressed to this one, both whole. */
static void drag(bt_view *view, const bt_mouse *mouse) {
  if (!view->dragging) { /* the press was lost, as in a burst over a slow line */
    if (!mouse->moved || mouse->column < view->left) return;
    bt_view_press(view, mouse->column);
  }
  int64_t start = view->cursor.time, here = time_at(view, mouse->column);
  bool back = here < start;
  if (!view->marked && here == start) return;
  view->marked = view->range_fixed = true;
  view->mark = back ? bt_time_add(start, view->width) : start;
  view->range_end = back ? here : bt_time_add(here, view->width);
  view->follow = false;
}

void bt_view_mouse(bt_view *view, const bt_mouse *mouse) {
  view->message[0] = 0;
  if (view->asking || view->choosing || view->width == 0) return;
  if (view->help) {
    view->help_top += 3 * mouse->wheel;
  } else if (view->page != BT_PAGE_TIMELINE) {
    if (mouse->wheel != 0) bt_navigate(view, mouse->wheel < 0 ? BT_ACTION_ROW_UP : BT_ACTION_ROW_DOWN, 3);
  } else if (mouse->wheel == 0) {
    if (mouse->moved || mouse->released) drag(view, mouse);
    if (mouse->released) view->dragging = false;
    if (!mouse->moved && !mouse->released) press(view, mouse);
  } else if (mouse->shift) {
    bt_navigate(view, mouse->wheel < 0 ? BT_ACTION_PAN_LEFT : BT_ACTION_PAN_RIGHT, 1);
  } else { /* what is under the pointer stays there */
    int64_t time = view->cursor.time;
    int column = mouse->column < view->left ? 0 : mouse->column - view->left;
    view->cursor.time = bt_time_add(view->origin, bt_time_mul(column, view->width));
    bt_navigate(view, mouse->wheel < 0 ? BT_ACTION_ZOOM_IN : BT_ACTION_ZOOM_OUT, 1);
    view->cursor.time = time;
  }
}

void bt_view_key(bt_view *view, bt_key key) {
  view->message[0] = 0;
  if (view->asking) {
    key_of_line(view, key);
    return;
  }
  if (view->choosing) {
    choose(view, key);
    return;
  }
  const bt_binding *binding = bt_binding_of_key(key);
  if (view->screen_columns > 0 &&
      (view->screen_columns < BT_VIEW_MIN_COLUMNS || view->screen_rows < BT_VIEW_MIN_ROWS)) {
    if (binding != NULL && (binding->action >= BT_ACTION_REDRAW)) bt_navigate(view, binding->action, 1);
    return; /* blind keys do nothing */
  }
  if (view->help) {
    bool up = key == BT_KEY_UP || key == 'k', down = key == BT_KEY_DOWN || key == 'j';
    int by = up || down                                                       ? 1
             : key == BT_KEY_PAGE_UP || key == BT_KEY_PAGE_DOWN || key == ' ' ? view->screen_rows - 4
                                                                              : 0;
    if (by > 0)
      view->help_top += up || key == BT_KEY_PAGE_UP ? -by : by;
    else
      view->help = false;
    if (binding != NULL && binding->action >= BT_ACTION_REDRAW && key != 'q') bt_navigate(view, binding->action, 1);
    return;
  }
  if ((key >= '1' && key <= '9') || (key == '0' && view->count > 0)) {
    view->count = view->count < 100000 ? view->count * 10 + (key - '0') : view->count;
    return;
  }
  unsigned count = view->count;
  view->count = 0;
  if (key == BT_KEY_ESCAPE && count > 0) return; /* it took the count away */
  int64_t from, to;
  if (key == BT_KEY_ENTER && view->page == BT_PAGE_TIMELINE && bt_view_range(view, &from, &to))
    binding = bt_binding_of_action(BT_ACTION_ZOOM_RANGE);
  if (binding == NULL) {
    char name[16];
    bt_view_say(view, "%s does nothing here: ? is help", bt_key_name(key, name));
    return;
  }
  if (count > 1 && !binding->counts) {
    char name[16];
    bt_view_say(view, "%s takes no count", bt_key_name(key, name));
    return;
  }
  bt_navigate(view, binding->action, count > 0 ? count : 1);
}

void bt_screen_key(bt_view *view, bt_key key) {
  if (view->other != NULL)
    bt_pair_key(view, key);
  else
    bt_view_key(view, key);
}

void bt_screen_mouse(bt_view *view, const bt_mouse *mouse) {
  if (view->other != NULL)
    bt_pair_mouse(view, mouse);
  else
    bt_view_mouse(view, mouse);
}
