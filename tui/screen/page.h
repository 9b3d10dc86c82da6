/* Other views of the same run than the timeline: stages and links, steps, the matrix of stages and replicas. Each shows a list
 * or a field with a selection of its own; Enter opens the timeline where the selection is. */
#ifndef BT_SCREEN_PAGE_H
#define BT_SCREEN_PAGE_H

#include "tui/screen/view.h"

/* Draws the page that view->page names, between header and footer. */
bt_status bt_page_draw(bt_view *view, bt_grid *grid);
/* What an action means on a page. False: nothing, it is for the timeline. */
bool bt_page_act(bt_view *view, bt_action action, unsigned count);

/* A kind of page. Rows [top, top + rows) of the grid are its. */
typedef struct bt_page_kind {
  const char *name;
  bt_status (*draw)(bt_view *view, bt_grid *grid, int top, int rows);
  /* Moves the selection by so many rows and columns; INT64_MIN and INT64_MAX rows: to the ends. */
  void (*move)(bt_view *view, int64_t rows, int64_t columns);
  void (*open)(bt_view *view);
} bt_page_kind;

extern const bt_page_kind bt_page_stages, bt_page_steps, bt_page_matrix;

/* Keeps a selection within `count` and on the screen; its first row shown is changed. */
void bt_page_scroll(size_t *at, size_t *top, size_t count, size_t shown);
/* at + by, within count. */
size_t bt_page_moved(size_t at, int64_t by, size_t count);

#endif
