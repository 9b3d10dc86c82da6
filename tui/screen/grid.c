#include "tui/screen/grid.h"

#include <stdlib.h>
#include <string.h>

bt_status bt_grid_resize(bt_grid *grid, int rows, int columns) {
  if (rows < 1 || columns < 1) return BT_ERR_ARG;
  if (rows != grid->rows || columns != grid->columns) {
    bt_cell *cells = malloc((size_t)rows * (size_t)columns * sizeof *cells);
    if (cells == NULL) return BT_ERR_NOMEM;
    free(grid->cells);
    grid->cells = cells;
    grid->rows = rows;
    grid->columns = columns;
  }
  bt_grid_clear(grid);
  return BT_OK;
}

void bt_grid_free(bt_grid *grid) {
  free(grid->cells);
  memset(grid, 0, sizeof *grid);
}

void bt_grid_clear(bt_grid *grid) {
  size_t count = (size_t)grid->rows * (size_t)grid->columns;
  for (size_t i = 0; i < count; i++)
    grid->cells[i] = (bt_cell){.glyph = ' '};
  grid->cursor_row = grid->cursor_column = 0;
  memset(&grid->shift, 0, sizeof grid->shift);
}

void bt_grid_put(bt_grid *grid, int row, int column, uint32_t glyph, bt_color fg, bt_color bg, unsigned attributes) {
  if (row < 0 || row >= grid->rows || column < 0 || column >= grid->columns) return;
  *bt_grid_at(grid, row, column) =
      (bt_cell){.glyph = glyph, .fg = (uint8_t)fg, .bg = (uint8_t)bg, .attributes = (uint8_t)attributes};
}

void bt_grid_fill(bt_grid *grid, int row, int column, int width, uint32_t glyph, bt_color fg, bt_color bg,
                  unsigned attributes) {
  for (int i = 0; i < width; i++)
    bt_grid_put(grid, row, column + i, glyph, fg, bg, attributes);
}

/* One code point of hostile UTF-8; what is no character is U+FFFD and one byte long. */
static uint32_t next_code_point(const unsigned char **text) {
  const unsigned char *p = *text;
  unsigned length = p[0] < 0x80 ? 1 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC2 ? 2 : 0;
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (length == 0 || p[0] >= 0xF5) return ++*text, 0xFFFD;
  uint32_t point = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
  for (unsigned i = 1; i < length; i++) {
    if ((p[i] & 0xC0) != 0x80) return ++*text, 0xFFFD;
    point = point << 6 | (p[i] & 0x3Fu);
  }
  *text += length;
  if (point < smallest[length] || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) return 0xFFFD;
  return point;
}

typedef struct bt_span_of_points {
  uint32_t first, last;
} bt_span_of_points;

static bool within(uint32_t point, const bt_span_of_points *spans, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (point >= spans[i].first && point <= spans[i].last) return true;
  }
  return false;
}

/* 0: leave out; 1, 2: columns. Changes what must not reach a terminal. */
static int safe_width(uint32_t *point) {
  static const bt_span_of_points marks[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
                                            {0x200B, 0x200D}, {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F},
                                            {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};
  static const bt_span_of_points unsafe[] = {
      {0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x590, 0x8FF},     {0x200E, 0x200F},
      {0x2028, 0x202E}, {0x2066, 0x206F},   {0xE000, 0xF8FF},   {0xFB1D, 0xFDFF},   {0xFE70, 0xFEFE},
      {0xFFF0, 0xFFFC}, {0x10800, 0x10FFF}, {0x1E800, 0x1EFFF}, {0xE0000, 0x10FFFF}};
  static const bt_span_of_points wide[] = {
      {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},  {0xA960, 0xA97F}, {0xAC00, 0xD7A3},
      {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F},
      {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
  if (*point >= 0x20 && *point < 0x7F) return 1;
  if (within(*point, unsafe, sizeof unsafe / sizeof unsafe[0])) {
    *point = '?';
    return 1;
  }
  if (within(*point, marks, sizeof marks / sizeof marks[0])) return 0;
  return within(*point, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

int bt_grid_text(bt_grid *grid, int row, int column, int width, const char *text, bt_color fg, bt_color bg,
                 unsigned attributes) {
  const unsigned char *p = (const unsigned char *)text;
  int used = 0;
  while (*p != 0 && row >= 0 && row < grid->rows) {
    uint32_t point = next_code_point(&p);
    int columns = safe_width(&point);
    if (columns == 0) continue;
    if (used + columns > width || column + used + columns > grid->columns || column + used < 0) break;
    for (int i = 0; i < columns; i++) {
      bt_cell *cell = bt_grid_at(grid, row, column + used + i);
      bt_color behind = bg == BT_COLOR_COUNT ? (bt_color)cell->bg : bg;
      bt_grid_put(grid, row, column + used + i, i == 0 ? point : 0, fg, behind, attributes);
    }
    used += columns;
  }
  return used;
}

int bt_text_width(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  int width = 0;
  while (*p != 0) {
    uint32_t point = next_code_point(&p);
    width += safe_width(&point);
  }
  return width;
}

static void write_point(uint32_t point, FILE *out) {
  if (point < 0x80) {
    fputc((int)point, out);
  } else if (point < 0x800) {
    fprintf(out, "%c%c", (int)(0xC0 | point >> 6), (int)(0x80 | (point & 0x3F)));
  } else if (point < 0x10000) {
    fprintf(out, "%c%c%c", (int)(0xE0 | point >> 12), (int)(0x80 | (point >> 6 & 0x3F)), (int)(0x80 | (point & 0x3F)));
  } else {
    fprintf(out, "%c%c%c%c", (int)(0xF0 | point >> 18), (int)(0x80 | (point >> 12 & 0x3F)),
            (int)(0x80 | (point >> 6 & 0x3F)), (int)(0x80 | (point & 0x3F)));
  }
}

static char color_letter(const bt_cell *cell) {
  static const char letters[] = " SmfTtuX+-FfJjBbKkWwVvDROoPCH/:|>~h012345T%ga";
  unsigned color = cell->glyph == ' ' && cell->bg != BT_COLOR_DEFAULT ? cell->bg : cell->fg;
  return cell->glyph == ' ' && cell->bg == BT_COLOR_DEFAULT ? ' ' : letters[color];
}

bt_status bt_grid_save(const bt_grid *grid, const bt_theme *theme, int attributes, FILE *out) {
  for (int picture = 0; picture < (attributes ? 2 : 1); picture++) {
    for (int row = 0; row < grid->rows; row++) {
      const bt_cell *cells = &grid->cells[(size_t)row * (size_t)grid->columns];
      int end = grid->columns;
      while (end > 0 && (picture == 0 ? cells[end - 1].glyph == ' ' : color_letter(&cells[end - 1]) == ' '))
        end--;
      for (int column = 0; column < end; column++) {
        const bt_cell *cell = &cells[column];
        if (picture == 1)
          fputc(color_letter(cell), out);
        else if (cell->glyph != 0)
          write_point(cell->glyph < 0x80 || theme->utf8 ? cell->glyph : '?', out);
      }
      fputc('\n', out);
    }
    if (attributes && picture == 0)
      fprintf(out, "%.*s\n", grid->columns < 64 ? grid->columns : 64,
              "----------------------------------------------------------------");
  }
  return ferror(out) ? BT_ERR_IO : BT_OK;
}
