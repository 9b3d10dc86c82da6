#include "tui/screen/screen.h"

#include "tui/screen/chrome.h"
#include "tui/screen/gantt.h"
#include "tui/screen/page.h"
#include "tui/screen/pair.h"
#include "tui/screen/text.h"

static bt_status draw_rows(bt_view *view, bt_grid *grid) {
  int y = view->area_top, end = view->area_top + view->area_rows;
  for (size_t index = view->top_row; index < view->rows.count && y + view->height <= end; index++, y += view->spacing) {
    const bt_row *row = &view->rows.items[index];
    bt_chrome_row(view, row, grid, y);
    bt_status status = view->width > 0 ? bt_gantt_row(view, row, grid, y) : BT_OK;
    if (status != BT_OK) return status;
    if (view->plan_lines > 0) bt_gantt_plan(view, row, grid, y + view->height);
    int gap = y + view->height + view->plan_lines;
    if (y + view->spacing > gap && gap < end && index + 1 < view->rows.count && !row->is_lane && !row[1].is_lane) {
      bt_gantt_messages(view, row, row + 1, grid, gap);
    }
  }
  return BT_OK;
}

static void say_nothing_yet(bt_view *view, bt_grid *grid) {
  const char *text =
      view->feed.loading || view->feed.live ? "waiting for the first spans of the run" : "this run holds no spans";
  bt_grid_text(grid, view->area_top + view->area_rows / 2, 2, grid->columns - 4, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT,
               0);
}

/* What moved since the last frame, if the picture is otherwise the same. */
static void hint_shift(bt_view *view, bt_grid *grid) {
  bool same = view->drawn_width == view->width && view->drawn_top == view->top_row && view->width > 0;
  int64_t moved = same ? bt_time_sub(view->origin, view->drawn_origin) : 0;
  if (same && moved % view->width == 0) {
    int64_t columns = moved / view->width;
    if (columns > -view->columns && columns < view->columns) {
      grid->shift =
          (bt_shift){.top = 1, .bottom = view->area_top + view->area_rows, .left = view->left, .columns = (int)columns};
    }
  }
  view->drawn_origin = view->origin;
  view->drawn_width = view->width;
  view->drawn_top = view->top_row;
}

/* Help, and the other views than the timeline. */
static bt_status draw_page(bt_view *view, bt_grid *grid) {
  if (view->help) {
    bt_chrome_help(view, grid);
    return BT_OK;
  }
  bt_chrome_footer(view, grid);
  return bt_page_draw(view, grid);
}

static bt_status draw_pair(bt_view *view, bt_grid *grid) {
  bt_view *focus = bt_pair_focus(view);
  bt_status status = bt_pair_update(view, grid->rows, grid->columns);
  if (status != BT_OK) return status;
  if (view->help || view->page != BT_PAGE_TIMELINE) {
    bt_chrome_header(focus, grid);
    return draw_page(view->help ? view : focus, grid);
  }
  bt_pair_header(view, grid);
  bt_chrome_axis(focus->width > 0 || view->width == 0 ? focus : view, grid);
  status = bt_pair_rows(view, grid);
  if (view->width == 0 && view->other->width == 0) say_nothing_yet(view, grid);
  grid->cursor_row = -1;
  size_t count;
  const bt_slot *slots = bt_pair_slots(view, &count);
  for (size_t i = 0; i < count; i++) {
    if (slots[i].view != focus || slots[i].row == NULL || slots[i].row != bt_view_row(focus)) continue;
    if (slots[i].height > 0 && !focus->parked) grid->cursor_row = slots[i].y + (view->height - 1) / 2;
    grid->cursor_column = view->left + (focus->width > 0 ? bt_view_column(focus, focus->cursor.time) : 0);
  }
  if (bt_pair_moved_along(view)) hint_shift(focus, grid);
  bt_pair_bottom(view, grid);
  return status;
}

bt_status bt_screen_draw(bt_view *view, bt_grid *grid, int rows, int columns) {
  bt_status status = bt_grid_resize(grid, rows, columns);
  if (status != BT_OK) return status;
  view->screen_rows = rows;
  view->screen_columns = columns;
  if (rows < BT_VIEW_MIN_ROWS || columns < BT_VIEW_MIN_COLUMNS) {
    bt_chrome_too_small(grid);
    return BT_OK;
  }
  if (view->other != NULL) return draw_pair(view, grid);
  status = bt_view_update(view, rows, columns);
  if (status != BT_OK) return status;
  bt_chrome_header(view, grid);
  if (view->help || view->page != BT_PAGE_TIMELINE) return draw_page(view, grid);
  bt_chrome_axis(view, grid);
  status = draw_rows(view, grid);
  if (view->width == 0) say_nothing_yet(view, grid);
  hint_shift(view, grid);
  int cursor = view->width > 0 ? bt_view_column(view, view->cursor.time) : 0;
  const bt_row *row = bt_view_row(view);
  if (row != NULL) {
    int line = (int)((size_t)(row - view->rows.items) - view->top_row) * view->spacing;
    grid->cursor_row = view->parked ? -1 : view->area_top + line + (view->height - 1) / 2;
    grid->cursor_column = view->left + cursor;
  }
  bt_chrome_bottom(view, grid);
  return status;
}
