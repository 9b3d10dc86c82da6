#include "tui/screen/page.h"

#include <stdio.h>

static const bt_page_kind *const kinds[BT_PAGE_COUNT] = {
    [BT_PAGE_STAGES] = &bt_page_stages, [BT_PAGE_STEPS] = &bt_page_steps, [BT_PAGE_MATRIX] = &bt_page_matrix};

size_t bt_page_moved(size_t at, int64_t by, size_t count) {
  if (count == 0) return 0;
  if (by < 0) return by == INT64_MIN || at < (size_t)-by ? 0 : at - (size_t)-by;
  return count - 1 - at < (size_t)by ? count - 1 : at + (size_t)by;
}

void bt_page_scroll(size_t *at, size_t *top, size_t count, size_t shown) {
  if (count > 0 && *at >= count) *at = count - 1;
  if (*at < *top) *top = *at;
  if (shown > 0 && *at >= *top + shown) *top = *at - shown + 1;
  if (*top + shown > count) *top = count > shown ? count - shown : 0;
}

/* The names of all views, this one marked. */
static void put_tabs(const bt_view *view, bt_grid *grid) {
  int x = 1;
  for (unsigned page = 0; page < BT_PAGE_COUNT; page++) {
    bool here = page == (unsigned)view->page;
    const char *name = page == BT_PAGE_TIMELINE ? "timeline" : kinds[page]->name;
    x += bt_grid_text(grid, 1, x, grid->columns - x, name, here ? BT_COLOR_STRONG : BT_COLOR_MUTED, BT_COLOR_DEFAULT,
                      here ? BT_ATTR_BOLD | BT_ATTR_UNDERLINE : 0);
    x += 3;
  }
  const char *hint = "v next view, Enter opens the timeline there";
  int at = grid->columns - 1 - bt_text_width(hint);
  if (at > x) bt_grid_text(grid, 1, at, grid->columns - at, hint, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
}

bt_status bt_page_draw(bt_view *view, bt_grid *grid) {
  put_tabs(view, grid);
  grid->cursor_row = -1;
  if (view->width == 0 || view->rows.count == 0) {
    bt_grid_text(grid, 3, 1, grid->columns - 2, "there is nothing to see yet", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    return BT_OK;
  }
  return kinds[view->page]->draw(view, grid, 3, grid->rows - 4);
}

bool bt_page_act(bt_view *view, bt_action action, unsigned count) {
  const bt_page_kind *kind = kinds[view->page];
  int64_t n = count, page = view->screen_rows > 8 ? view->screen_rows - 8 : 1;
  if (view->width == 0 || view->rows.count == 0) return false;
  switch (action) {
  case BT_ACTION_ROW_UP: kind->move(view, -n, 0); return true;
  case BT_ACTION_ROW_DOWN: kind->move(view, n, 0); return true;
  case BT_ACTION_ROWS_UP:
  case BT_ACTION_PAGE_LEFT: kind->move(view, -n * page, 0); return true;
  case BT_ACTION_ROWS_DOWN:
  case BT_ACTION_PAGE_RIGHT: kind->move(view, n * page, 0); return true;
  case BT_ACTION_START: kind->move(view, INT64_MIN, INT64_MIN); return true;
  case BT_ACTION_END: kind->move(view, INT64_MAX, INT64_MAX); return true;
  case BT_ACTION_PAN_LEFT: kind->move(view, 0, -n); return true;
  case BT_ACTION_PAN_RIGHT: kind->move(view, 0, n); return true;
  case BT_ACTION_LANES:
    kind->open(view);
    view->page = BT_PAGE_TIMELINE;
    return true;
  default: return false;
  }
}
