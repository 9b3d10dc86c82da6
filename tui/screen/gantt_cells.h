/* Inside the drawing of a row: what it is drawn with, and what its cells show. */
#ifndef BT_SCREEN_GANTT_CELLS_H
#define BT_SCREEN_GANTT_CELLS_H

#include "tui/screen/grid.h"
#include "tui/screen/view.h"

/* What an eighth of a cell holds: nothing, or a colour. */
enum { BT_NOTHING = 0 };

typedef struct bt_painter {
  bt_view *view;
  bt_grid *grid;
  int top, height; /* rows of cells */
  int y; /* the one with the labels */
  const bt_row *row;
  const bt_rank *rank;
  const bt_track *track;
  const bt_lod *lod;
  double scale; /* eighths a ns */
  int64_t left; /* the left edge, raw: of a clock that runs like the others */
  int64_t clip; /* nothing at or after it is known (raw) */
  size_t selected; /* span under the cursor, SIZE_MAX none */
  int dots_from, dots_to; /* columns in which idle is a bubble and not just no data */
  bool fine;
  bool running; /* the picture follows new data: bytes count more than an eighth of a cell */
} bt_painter;

/* One picture in all rows of cells. */
void bt_cells_put(bt_painter *p, int x, uint32_t glyph, bt_color fg, bt_color bg, unsigned attributes);
/* Idle time in a column: dots where it is a bubble. */
void bt_cells_idle(bt_painter *p, int column);
/* A column of blocks, given as eight eighths. */
void bt_cells_eighths(bt_painter *p, int column, const uint8_t *eighths);
/* A column with many spans. */
void bt_cells_shares(bt_painter *p, int column, const bt_lod_sum *sum);
/* A column of a block where there are no sub-cell edges. */
void bt_cells_letter(bt_painter *p, int column, unsigned kind, bt_color color, char letter);
/* While the picture runs: the cheapest of equal pictures of a row of cells. `hidden`: what of the first block has left
 * already, in eighths. */
void bt_cells_economize(bt_painter *p, int y, int hidden);

#endif
