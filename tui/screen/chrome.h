/* What stands round the timeline: header, axis, the column of stages, the bar of where the time went, the line of the
 * cursor, the footer, help. Each has its fixed place, so that nothing jumps while time scrolls. */
#ifndef BT_SCREEN_CHROME_H
#define BT_SCREEN_CHROME_H

#include "tui/screen/grid.h"
#include "tui/screen/view.h"

void bt_chrome_header(bt_view *view, bt_grid *grid);
void bt_chrome_axis(bt_view *view, bt_grid *grid);
void bt_chrome_row(bt_view *view, const bt_row *row, bt_grid *grid, int y);
/* The keys, or what there is to say. */
void bt_chrome_footer(bt_view *view, bt_grid *grid);
void bt_chrome_bottom(bt_view *view, bt_grid *grid);
/* Parts of the bottom: where the time went, as a bar; the mark and what is under the cursor. */
void bt_chrome_time_bar(bt_view *view, bt_grid *grid, int y, int x, int width);
void bt_chrome_cursor(bt_view *view, bt_grid *grid, int y);
void bt_chrome_help(bt_view *view, bt_grid *grid);
/* For a screen too small to draw on. */
void bt_chrome_too_small(bt_grid *grid);

#endif
