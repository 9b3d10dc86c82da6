#include "tui/screen/paint.h"

#include <stdlib.h>
#include <string.h>

enum {
  WINDOW = 48, /* runs that are looked at for the next one to write */
  ROOM = 96, /* bytes of a move with its colours, at most */
  NEAR = 4 /* rows or columns that are moved over one by one */
};

/* Cells side by side that are written with the same colours and attributes. */
struct bt_paint_run {
  int row, column, length;
  int fg, bg;
  bool blank; /* any foreground will do */
  unsigned attributes;
  size_t next; /* 1 + the next one that is not written yet, 0 none */
};

void bt_paint_free(bt_paint *paint) {
  free(paint->bytes);
  free(paint->runs);
  memset(paint, 0, sizeof *paint);
}

void bt_paint_begin(bt_paint *paint) {
  paint->length = 0;
  paint->failed = false;
  paint->row = paint->column = paint->fg = paint->bg = -1;
  paint->attributes = 0;
}

/* --- finding the runs ------------------------------------------------------------------------------------------------- */

static bool same_cell(const bt_cell *a, const bt_cell *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static bt_paint_run run_of(const bt_cell *cell, int row, int column, const bt_theme *theme) {
  return (bt_paint_run){.row = row,
                        .column = column,
                        .length = 1,
                        .fg = bt_theme_number(theme, (bt_color)cell->fg),
                        .bg = bt_theme_number(theme, (bt_color)cell->bg),
                        .blank = cell->glyph == ' ' && (cell->attributes & ~BT_ATTR_BOLD) == 0,
                        .attributes = cell->attributes};
}

/* Makes the cell part of the run before it, if it can be. */
static bool join(bt_paint_run *run, const bt_paint_run *cell) {
  if (run->row != cell->row || run->column + run->length != cell->column) return false;
  if (run->bg != cell->bg || run->attributes != cell->attributes) return false;
  if (!run->blank && !cell->blank && run->fg != cell->fg) return false;
  if (run->blank && !cell->blank) {
    run->blank = false;
    run->fg = cell->fg;
  }
  run->length++;
  return true;
}

static void add_run(bt_paint *paint, const bt_paint_run *run) {
  if (paint->run_count > 0 && join(&paint->runs[paint->run_count - 1], run)) return;
  if (paint->run_count == paint->run_capacity) {
    size_t capacity = paint->run_capacity == 0 ? 256 : paint->run_capacity * 2;
    bt_paint_run *runs = realloc(paint->runs, capacity * sizeof *runs);
    if (runs == NULL) {
      paint->failed = true;
      return;
    }
    paint->runs = runs;
    paint->run_capacity = capacity;
  }
  paint->runs[paint->run_count++] = *run;
}

static void find_runs(bt_paint *paint, const bt_grid *shown, const bt_grid *wanted, const bt_theme *theme) {
  paint->run_count = 0;
  for (int row = 0; row < wanted->rows && !paint->failed; row++) {
    const bt_cell *old = &shown->cells[(size_t)row * (size_t)wanted->columns];
    const bt_cell *new = &wanted->cells[(size_t)row * (size_t)wanted->columns];
    for (int column = 0; column < wanted->columns; column++) {
      if (same_cell(&old[column], &new[column])) continue;
      bool half = column + 1 < wanted->columns && (new[column + 1].glyph == 0 || old[column + 1].glyph == 0);
      if (half || new[column].glyph == 0 || old[column].glyph == 0 || (new[column].glyph >= 0x80 && !theme->utf8)) {
        paint->failed = true;
        return;
      }
      bt_paint_run run = run_of(&new[column], row, column, theme);
      add_run(paint, &run);
    }
  }
  for (size_t i = 0; i < paint->run_count; i++)
    paint->runs[i].next = i + 1 < paint->run_count ? i + 2 : 0;
}

/* --- bytes ---------------------------------------------------------------------------------------------------------- */

/* A few bytes that are put together to see how many they are. */
typedef struct piece {
  char bytes[ROOM];
  size_t length;
} piece;

static void copy(piece *to, const piece *from) {
  memcpy(to->bytes, from->bytes, from->length);
  to->length = from->length;
}

static void put(piece *p, const char *text) {
  while (*text != 0)
    p->bytes[p->length++] = *text++;
}

static void put_number(piece *p, int number) {
  char digits[12];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0)
    p->bytes[p->length++] = digits[--count];
}

/* ESC [ number letter; 1 is left out. */
static void put_control(piece *p, int number, const char *letter) {
  put(p, "\033[");
  if (number != 1) put_number(p, number);
  put(p, letter);
}

static void put_glyph(piece *p, uint32_t glyph) {
  if (glyph < 0x80) {
    p->bytes[p->length++] = (char)glyph;
    return;
  }
  int more = glyph < 0x800 ? 1 : glyph < 0x10000 ? 2 : 3;
  static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
  p->bytes[p->length++] = (char)(first[more] | glyph >> (6 * more));
  while (more-- > 0)
    p->bytes[p->length++] = (char)(0x80 | (glyph >> (6 * more) & 0x3F));
}

static bool add_bytes(bt_paint *paint, const piece *p) {
  if (paint->length + p->length > paint->capacity) {
    size_t capacity = paint->capacity * 2 + 4096;
    char *bytes = realloc(paint->bytes, capacity);
    if (bytes == NULL) {
      paint->failed = true;
      return false;
    }
    paint->bytes = bytes;
    paint->capacity = capacity;
  }
  memcpy(paint->bytes + paint->length, p->bytes, p->length);
  paint->length += p->length;
  return true;
}

/* --- colours ---------------------------------------------------------------------------------------------------------- */

static void put_parameter(piece *p, int number) {
  if (p->bytes[p->length - 1] != '[') put(p, ";");
  put_number(p, number);
}

/* `base`: 30 foreground, 40 background. */
static void put_color(piece *p, int color, int base) {
  if (color < 0) {
    put_parameter(p, base + 9);
  } else if (color < 16) {
    put_parameter(p, color < 8 ? base + color : base + 60 + color - 8);
  } else {
    put_parameter(p, base + 8);
    put_parameter(p, 5);
    put_parameter(p, color);
  }
}

static const struct {
  unsigned attribute;
  int on, off;
} codes[] = {{BT_ATTR_BOLD, 1, 22}, {BT_ATTR_UNDERLINE, 4, 24}, {BT_ATTR_REVERSE, 7, 27}};

/* From colours and attributes to those of the run, step by step or, when `anew`, after switching all off. */
static void put_rendition(piece *p, int fg, int bg, unsigned attributes, const bt_paint_run *to, bool anew) {
  p->length = 0;
  put(p, "\033[");
  if (anew) {
    put_parameter(p, 0);
    fg = bg = -1;
    attributes = 0;
  }
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    unsigned had = attributes & codes[i].attribute, has = to->attributes & codes[i].attribute;
    if (had != has) put_parameter(p, has != 0 ? codes[i].on : codes[i].off);
  }
  if (!to->blank && fg != to->fg) put_color(p, to->fg, 30);
  if (bg != to->bg) put_color(p, to->bg, 40);
  if (p->length == 2) p->length = 0; /* nothing changes */
  if (p->length == 3 && anew) p->length--; /* ESC [ m */
  if (p->length > 0) put(p, "m");
}

/* True: all was switched off first. */
static bool rendition(const bt_paint *paint, const bt_paint_run *to, piece *p) {
  piece stepwise, anew;
  anew.length = 0;
  put_rendition(&stepwise, paint->fg, paint->bg, paint->attributes, to, false);
  if (stepwise.length > 4) put_rendition(&anew, paint->fg, paint->bg, paint->attributes, to, true);
  bool better = anew.length > 0 && anew.length < stepwise.length;
  copy(p, better ? &anew : &stepwise);
  return better;
}

/* --- moves ------------------------------------------------------------------------------------------------------------ */

static void put_rows(const bt_paint *paint, piece *p, int row) {
  int down = row - paint->row;
  if (down > 0 && down <= NEAR && !paint->no_newline) {
    while (down-- > 0)
      put(p, "\n");
  } else if (down == -1) {
    put(p, "\033[A");
  } else if (down != 0) {
    put_control(p, row + 1, "d");
  }
}

static void put_columns(const bt_paint *paint, piece *p, int column) {
  int right = column - paint->column;
  if (right > 0) {
    put_control(p, right, "C");
  } else if (-right <= NEAR) {
    while (right++ < 0)
      put(p, "\b");
  } else {
    put_control(p, -right, "D");
  }
}

/* True when the cells from the cursor up to `column` can be written again with the colours that are on, which then moves it. */
static bool can_write_over(const bt_paint *paint, const bt_cell *cells, int column, const bt_theme *theme) {
  if (column <= paint->column || column - paint->column > NEAR) return false;
  for (int i = paint->column; i < column; i++) {
    bt_paint_run cell = run_of(&cells[i], paint->row, i, theme);
    if (cells[i].glyph == 0 || (cells[i].glyph >= 0x80 && !theme->utf8)) return false;
    if (cell.bg != paint->bg || cell.attributes != paint->attributes) return false;
    if (!cell.blank && cell.fg != paint->fg) return false;
  }
  return true;
}

static void move_to(const bt_paint *paint, const bt_grid *wanted, const bt_paint_run *to, const bt_theme *theme,
                    piece *p) {
  piece direct, stepwise, over;
  direct.length = stepwise.length = over.length = p->length = 0;
  if (paint->column >= 0 && to->row == paint->row && to->column == paint->column) return;
  put(&direct, "\033[");
  put_number(&direct, to->row + 1);
  put(&direct, ";");
  put_number(&direct, to->column + 1);
  put(&direct, "H");
  const piece *best = &direct;
  if (paint->column >= 0) {
    put_rows(paint, &stepwise, to->row);
    put_columns(paint, &stepwise, to->column);
    if (stepwise.length < best->length) best = &stepwise;
  }
  const bt_cell *cells = &wanted->cells[(size_t)to->row * (size_t)wanted->columns];
  if (paint->column >= 0 && to->row == paint->row && can_write_over(paint, cells, to->column, theme)) {
    for (int i = paint->column; i < to->column; i++)
      put_glyph(&over, cells[i].glyph);
    if (over.length <= best->length) best = &over;
  }
  copy(p, best);
}

/* --- writing ---------------------------------------------------------------------------------------------------------- */

static void write_run(bt_paint *paint, const bt_grid *wanted, const bt_paint_run *run, const piece *move,
                      const piece *colors, bool anew) {
  if (!add_bytes(paint, move) || !add_bytes(paint, colors)) return;
  const bt_cell *cells = &wanted->cells[(size_t)run->row * (size_t)wanted->columns + (size_t)run->column];
  for (int i = 0; i < run->length; i++) {
    piece glyph;
    glyph.length = 0;
    put_glyph(&glyph, cells[i].glyph);
    if (!add_bytes(paint, &glyph)) return;
  }
  paint->row = run->row;
  paint->column = run->column + run->length;
  if (paint->column == wanted->columns) paint->column = -1; /* terminals differ in where they are then */
  if (!run->blank)
    paint->fg = run->fg;
  else if (anew)
    paint->fg = -1;
  paint->bg = run->bg;
  paint->attributes = run->attributes;
}

/* Writes, of the first runs that are left, the cheapest to go on with, and takes it out of the list. */
static void write_next(bt_paint *paint, const bt_grid *wanted, const bt_theme *theme, size_t *first) {
  size_t *link = first, *best = first;
  piece move, colors, to_it, in_colors;
  size_t least = SIZE_MAX;
  bool anew = false;
  for (int looked = 0; *link != 0 && looked < WINDOW && least > 0; looked++) {
    bt_paint_run *run = &paint->runs[*link - 1];
    move_to(paint, wanted, run, theme, &to_it);
    bool from_default = rendition(paint, run, &in_colors);
    if (to_it.length + in_colors.length < least) {
      least = to_it.length + in_colors.length;
      best = link;
      copy(&move, &to_it);
      copy(&colors, &in_colors);
      anew = from_default;
    }
    link = &run->next;
  }
  const bt_paint_run *run = &paint->runs[*best - 1];
  *best = run->next;
  write_run(paint, wanted, run, &move, &colors, anew);
}

bool bt_paint_differences(bt_paint *paint, const bt_grid *shown, const bt_grid *wanted, const bt_theme *theme) {
  find_runs(paint, shown, wanted, theme);
  size_t first = paint->run_count > 0 ? 1 : 0;
  while (first != 0 && !paint->failed)
    write_next(paint, wanted, theme, &first);
  return !paint->failed;
}
