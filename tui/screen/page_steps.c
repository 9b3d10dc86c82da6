/* The steps: when, how long, how much of it bubble; the newest last. */
#include <math.h>
#include <stdio.h>

#include "tui/screen/navigate.h"
#include "tui/screen/page.h"
#include "tui/screen/text.h"

static size_t step_count(const bt_view *view) {
  size_t last;
  return bt_steps_at(&view->steps, view->last, &last) ? last + 1 : 0;
}

static const bt_step_window *window_of(bt_view *view, size_t index) {
  return bt_steps_window(&view->steps, index, view->trace, view->lods, &view->rows);
}

static bool is_whole(const bt_view *view, const bt_step_window *window) {
  return window->complete && !isnan(window->bubble) && window->to <= view->last;
}

/* The newest steps as bars, the selected one strong. */
static void put_sparkline(bt_view *view, bt_grid *grid, int y, size_t count, size_t selected) {
  size_t room = (size_t)grid->columns - 2, shown = count < room ? count : room;
  size_t first = count - shown;
  if (selected < first) first = selected;
  double most = 0.01;
  for (size_t i = 0; i < shown; i++) {
    const bt_step_window *window = window_of(view, first + i);
    if (is_whole(view, window) && window->bubble > most) most = window->bubble;
  }
  for (size_t i = 0; i < shown; i++) {
    const bt_step_window *window = window_of(view, first + i);
    if (!is_whole(view, window) || window->bubble < 0) continue;
    int height = (int)(window->bubble / most * 16 + 0.5);
    bt_color fg = first + i == selected ? BT_COLOR_ALERT : BT_COLOR_MUTED;
    if (!bt_theme_fine(&view->theme)) {
      bt_grid_put(grid, y + 1, 1 + (int)i, (uint32_t)('0' + (int)(window->bubble / most * 9)), fg, BT_COLOR_DEFAULT, 0);
      continue;
    }
    bt_grid_put(grid, y + 1, 1 + (int)i,
                bt_glyph_lower(height >= 8  ? 8
                               : height > 0 ? (unsigned)height
                                            : 1),
                fg, BT_COLOR_DEFAULT, 0);
    if (height > 8) bt_grid_put(grid, y, 1 + (int)i, bt_glyph_lower((unsigned)(height - 8)), fg, BT_COLOR_DEFAULT, 0);
  }
}

static void put_bar(const bt_view *view, bt_grid *grid, int y, int x, double share, double most) {
  int width = grid->columns - x - 2;
  if (width > 60) width = 60;
  int eighths = (int)(share / most * width * 8 + 0.5);
  for (int i = 0; i * 8 < eighths && i < width; i++) {
    int here = eighths - i * 8 > 8 ? 8 : eighths - i * 8;
    bt_grid_put(grid, y, x + i, bt_theme_fine(&view->theme) ? bt_glyph_left((unsigned)here) : '#', BT_COLOR_BUBBLE,
                BT_COLOR_DEFAULT, 0);
  }
}

static bt_status draw(bt_view *view, bt_grid *grid, int top, int rows) {
  size_t count = step_count(view), *at = &view->page_at[BT_PAGE_STEPS], *first = &view->page_top[BT_PAGE_STEPS];
  if (count == 0) {
    bt_grid_text(grid, top, 1, grid->columns - 2, "this run has no step marks", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    return BT_OK;
  }
  if (view->page_fresh) { /* where the timeline's cursor is */
    (void)bt_steps_at(&view->steps, view->cursor.time, at);
    view->page_fresh = false;
  }
  int spark = rows >= 10 ? 3 : 0;
  size_t shown = (size_t)(rows - 1 - spark);
  bt_page_scroll(at, first, count, shown);
  if (spark > 0) put_sparkline(view, grid, top - 1, count, *at);
  int y = top + (spark > 0 ? 2 : 0);
  bt_grid_text(grid, y, 1, grid->columns - 2, "      step       begin      length   bubble", BT_COLOR_MUTED,
               BT_COLOR_DEFAULT, 0);
  double most = 0.01;
  for (size_t i = *first; i < *first + shown && i < count; i++) {
    const bt_step_window *window = window_of(view, i);
    if (is_whole(view, window) && window->bubble > most) most = window->bubble;
  }
  for (size_t i = *first; i < *first + shown && i < count; i++) {
    const bt_step_window *window = window_of(view, i);
    bool here = i == *at;
    char line[128], id[32], begin[32], length[32], bubble[16] = "";
    if (is_whole(view, window)) (void)snprintf(bubble, sizeof bubble, "%.1f %%", window->bubble * 100);
    bool known = window->from < window->to;
    (void)snprintf(line, sizeof line, "%10s  %10s  %10s %8s", bt_text_count(id, sizeof id, window->id),
                   bt_text_duration(begin, sizeof begin, bt_time_sub(window->begin, view->first)),
                   known ? bt_text_duration(length, sizeof length, bt_time_sub(window->to, window->from)) : "-",
                   bubble[0] != 0 ? bubble : "not whole");
    y++;
    if (here)
      bt_grid_put(grid, y, 0, bt_theme_glyph(&view->theme, BT_GLYPH_POINTER), BT_COLOR_ALERT, BT_COLOR_DEFAULT, 1);
    bt_grid_text(grid, y, 1, grid->columns - 2, line, here ? BT_COLOR_STRONG : BT_COLOR_DEFAULT, BT_COLOR_DEFAULT,
                 here ? BT_ATTR_BOLD : 0);
    if (bubble[0] != 0) put_bar(view, grid, y, 46, window->bubble, most);
  }
  return BT_OK;
}

static void move(bt_view *view, int64_t rows, int64_t columns) {
  size_t *at = &view->page_at[BT_PAGE_STEPS];
  *at = bt_page_moved(*at, rows != 0 ? rows : columns, step_count(view));
}

static void open(bt_view *view) {
  size_t at = view->page_at[BT_PAGE_STEPS];
  if (at < step_count(view)) bt_navigate_step(view, at);
}

const bt_page_kind bt_page_steps = {"steps", draw, move, open};
