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

/* Draws where the plan has the ops of a stage's row, as a thin line in screen row `y` below it. */
void bt_gantt_plan(bt_view *view, const bt_row *row, bt_grid *grid, int y);
/* What the plan says of the measured op of a rank that began then, appended; nothing where there is no plan. */
void bt_plan_note(const bt_view *view, int32_t rank, int64_t start, const char *sep, char *out, size_t room);
/* What the plan comes to, in a line. `alert`: it cannot be laid over the run. False: none is shown. */
bool bt_plan_line(bt_view *view, char *out, size_t room, bool *alert);

#endif
