/* The whole screen, drawn into a grid: a pure function of the trace and the view's state. */
#ifndef BT_SCREEN_SCREEN_H
#define BT_SCREEN_SCREEN_H

#include "tui/screen/grid.h"
#include "tui/screen/view.h"

/* Updates the view and draws it. view->trace and view->lods must be set. The grid gets the given size. */
bt_status bt_screen_draw(bt_view *view, bt_grid *grid, int rows, int columns);

/* Handles the mouse. */
void bt_screen_mouse(bt_view *view, const bt_mouse *mouse);

/* Handles one key: changes the view, or says why not in its message line. */
void bt_screen_key(bt_view *view, bt_key key);

/* The same for one run of two (pair.h). */
void bt_view_key(bt_view *view, bt_key key);
void bt_view_mouse(bt_view *view, const bt_mouse *mouse);
/* The button goes down in a column of the timeline: the cursor goes there, and a range may begin. */
void bt_view_press(bt_view *view, int column);

#endif
