/* The timeline of one row, and the messages between two rows, drawn into a grid.
 *
 * Where few spans begin in a column their segments are painted in eighths of a cell; where many do, a cell shows the shares
 * of the two largest of its kinds and idle, as heights. So nothing is sampled: what is idle looks idle at any zoom.
 */
#ifndef BT_SCREEN_GANTT_H
#define BT_SCREEN_GANTT_H

#include "tui/screen/grid.h"
#include "tui/screen/view.h"

/* Draws the lane of a row into [view->left, …) of screen row `y`. */
bt_status bt_gantt_row(bt_view *view, const bt_row *row, bt_grid *grid, int y);
/* Draws the messages between two stages' rows into screen row `y` between them. */
void bt_gantt_messages(bt_view *view, const bt_row *above, const bt_row *below, bt_grid *grid, int y);

#endif
