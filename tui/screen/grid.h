/* A screen as cells: what the view draws into, what terminal.c shows and what tests compare. No curses.
 *
 * Colours are meanings (bt_color); the terminal turns them into what it has. Text from traces is made harmless on the way in: control
 * characters, bidirectional controls and right-to-left letters become '?', marks without width are left out.
 */
#ifndef BT_SCREEN_GRID_H
#define BT_SCREEN_GRID_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/wire/status.h"
#include "tui/screen/theme.h"

enum { BT_ATTR_BOLD = 1, BT_ATTR_REVERSE = 2, BT_ATTR_UNDERLINE = 4 };

typedef struct bt_cell {
  uint32_t glyph; /* a code point of one column, or of two (then the next cell's is 0) */
  uint8_t fg, bg; /* bt_color */
  uint8_t attributes;
  uint8_t reserved;
} bt_cell;

/* How the picture moved since the frame before: rows [top, bottom) from column `left` on went `columns` cells to the left
 * (negative: to the right). A hint for terminal.c, which saves bytes with it. */
typedef struct bt_shift {
  int top, bottom, left, columns;
} bt_shift;

typedef struct bt_grid {
  int rows, columns;
  bt_cell *cells;
  int cursor_row, cursor_column; /* where the real cursor is parked; row -1: anywhere */
  bt_shift shift;
} bt_grid;

/* A zero-filled grid is empty. Resizing clears. */
bt_status bt_grid_resize(bt_grid *grid, int rows, int columns);
void bt_grid_free(bt_grid *grid);
void bt_grid_clear(bt_grid *grid);

static inline bt_cell *bt_grid_at(bt_grid *grid, int row, int column) {
  return &grid->cells[(size_t)row * (size_t)grid->columns + (size_t)column];
}

/* Outside the grid: nothing happens. */
void bt_grid_put(bt_grid *grid, int row, int column, uint32_t glyph, bt_color fg, bt_color bg, unsigned attributes);
/* Fills [column, column + width) of a row. */
void bt_grid_fill(bt_grid *grid, int row, int column, int width, uint32_t glyph, bt_color fg, bt_color bg,
                  unsigned attributes);
/* Writes UTF-8 text into at most `width` columns; bg stays what it is when `bg` is BT_COLOR_COUNT. Returns the columns used. */
int bt_grid_text(bt_grid *grid, int row, int column, int width, const char *text, bt_color fg, bt_color bg,
                 unsigned attributes);
/* The columns that the text would take. */
int bt_text_width(const char *text);

/* As text, one line a row, trailing blanks cut. `attributes`: then a second picture with one letter a cell for its
 * colours: the fg's of glyphs, the bg's of blanks. */
bt_status bt_grid_save(const bt_grid *grid, const bt_theme *theme, int attributes, FILE *out);

#endif
