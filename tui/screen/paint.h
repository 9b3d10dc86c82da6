/* What to send to an ECMA-48 terminal of 256 colours (xterm, tmux, screen, …) so that it shows another picture than now, in
 * few bytes: cells of a colour are written one after the other wherever they are, since a new colour costs more than a move
 * of the cursor; blanks take any foreground; moves are as short as they get. No curses.
 */
#ifndef BT_SCREEN_PAINT_H
#define BT_SCREEN_PAINT_H

#include <stdbool.h>
#include <stddef.h>

#include "tui/screen/grid.h"

typedef struct bt_paint_run bt_paint_run; /* paint.c */

typedef struct bt_paint {
  char *bytes; /* the result, also of what failed */
  size_t length, capacity;
  bool no_newline; /* the terminal's driver makes more of a newline than one row down */
  /* where the terminal stands before and after: the cursor (column -1: not known), its colours and attributes */
  int row, column, fg, bg;
  unsigned attributes;
  /* private */
  bt_paint_run *runs;
  size_t run_count, run_capacity;
  bool failed;
} bt_paint;

/* A zero-filled bt_paint is empty. */
void bt_paint_free(bt_paint *paint);
/* Begins anew: nothing is known of the cursor, colours and attributes are the default ones. */
void bt_paint_begin(bt_paint *paint);

/* Adds what turns `shown` into `wanted`, which have one size. False: that is not for this terminal (a character of two columns,
 * one that it has no bytes for) or memory is short; the bytes so far are of no use then. */
bool bt_paint_differences(bt_paint *paint, const bt_grid *shown, const bt_grid *wanted, const bt_theme *theme);

#endif
