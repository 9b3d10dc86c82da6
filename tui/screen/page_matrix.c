/* The matrix of stages x replicas as a page: a straggler stands out among thousands of ranks. Where there are more replicas
 * than columns, a cell shows the worst of several. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen/matrix.h"
#include "tui/screen/navigate.h"
#include "tui/screen/page.h"
#include "tui/screen/text.h"

enum { LABELS = 8, LEVELS = 6, NUMBERS = 7 /* columns a cell with a number takes */ };

typedef struct layout { /* of the field: so many replicas a cell of so many columns */
  size_t columns, each;
  int width;
} layout;

static layout lay_out(const bt_view *view, const bt_matrix *matrix) {
  size_t room = (size_t)(view->screen_columns - LABELS - 2);
  layout l = {.each = 1, .columns = matrix->replicas, .width = NUMBERS};
  while (l.width > 1 && l.columns * (size_t)l.width > room)
    l.width = l.width == NUMBERS ? 3 : l.width - 1;
  if (l.columns > room) {
    l.each = (l.columns + room - 1) / room;
    l.columns = (l.columns + l.each - 1) / l.each;
  }
  return l;
}

/* The worst cell of a group of replicas; NULL: none has a rank. */
static const bt_matrix_cell *worst_of(const bt_view *view, const bt_matrix *matrix, const layout *l, size_t row,
                                      size_t column) {
  const bt_matrix_cell *worst = NULL;
  for (size_t i = column * l->each; i < (column + 1) * l->each && i < matrix->replicas; i++) {
    const bt_matrix_cell *cell = &matrix->cells[row * matrix->replicas + i];
    if (cell->members == 0) continue;
    if (worst == NULL || bt_matrix_value(view, cell) > bt_matrix_value(view, worst)) worst = cell;
  }
  return worst;
}

/* The worst cell of all; NULL: there is none. */
static const bt_matrix_cell *worst_of_all(const bt_view *view, const bt_matrix *matrix) {
  const bt_matrix_cell *worst = NULL;
  for (size_t i = 0; i < matrix->stages * matrix->replicas; i++) {
    const bt_matrix_cell *cell = &matrix->cells[i];
    if (cell->members == 0) continue;
    if (worst == NULL || bt_matrix_value(view, cell) > bt_matrix_value(view, worst)) worst = cell;
  }
  return worst;
}

/* What a mode is called, and from which values on its colours begin. */
static const struct {
  const char *name;
  bool is_signed;
  double limits[LEVELS];
} modes[BT_MATRIX_MODES] = {
    [BT_MATRIX_COMPUTE] = {"compute against the usual", true, {-1, 0.03, 0.07, 0.12, 0.2, 0.35}},
    [BT_MATRIX_BUBBLE] = {"bubble", false, {-9, 0.1, 0.2, 0.3, 0.45, 0.6}},
    [BT_MATRIX_DELAY] = {"done later than other replicas, of a step", true, {-9, 0.02, 0.05, 0.1, 0.2, 0.4}},
};

static unsigned level_of(const bt_view *view, double value) {
  const double *limits = modes[view->matrix_mode].limits;
  unsigned level = 0;
  while (level + 1 < LEVELS && value >= limits[level + 1])
    level++;
  return level;
}

/* "+12%" */
static void say_percent(const bt_view *view, double value, const char *percent, char *out, size_t room) {
  bool is_signed = modes[view->matrix_mode].is_signed;
  (void)snprintf(out, room, is_signed ? "%+.0f%s" : "%.0f%s", value * 100, percent);
}

static void put_cell(const bt_view *view, bt_grid *grid, int y, int x, const layout *l, const bt_matrix_cell *cell,
                     bool here) {
  bt_color color = BT_COLOR_DEFAULT, fg = BT_COLOR_FAINT;
  char text[16] = "";
  int width = l->width > 2 ? l->width - 1 : l->width; /* a seam where there is room */
  unsigned attributes = 0;
  if (cell != NULL) {
    double value = bt_matrix_value(view, cell);
    unsigned level = level_of(view, value);
    color = (bt_color)(BT_COLOR_HEAT + level);
    fg = level < 3 ? BT_COLOR_BAR_TEXT : BT_COLOR_DARK_TEXT;
    if (l->width >= NUMBERS)
      say_percent(view, value, "%", text, sizeof text);
    else if (!bt_theme_fine(&view->theme))
      (void)snprintf(text, sizeof text, "%u", level);
  } else {
    text[0] = l->width > 1 ? '-' : 0;
  }
  if (here) {
    color = BT_COLOR_SELECT;
    fg = BT_COLOR_HEAT_TEXT;
    attributes = BT_ATTR_BOLD | (view->theme.level == BT_LEVEL_MONO ? BT_ATTR_REVERSE : 0);
  }
  bt_grid_fill(grid, y, x, width, ' ', fg, color, attributes);
  int at = (width - (int)strlen(text) + 1) / 2;
  bt_grid_text(grid, y, x + (at > 0 ? at : 0), width, text, fg, color, attributes);
}

static void put_axis(bt_grid *grid, int y, const layout *l, const bt_matrix *matrix) {
  bt_grid_text(grid, y, 1, LABELS, "stage", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  int free_from = 0;
  for (size_t column = 0; column < l->columns; column++) {
    size_t replica = column * l->each;
    char text[32], number[24];
    (void)snprintf(text, sizeof text, column == 0 ? "replica %s" : "%s",
                   bt_text_count(number, sizeof number, (int64_t)replica));
    int x = LABELS + (int)column * l->width;
    if (x < free_from) continue;
    if (column > 0 && l->width < NUMBERS && replica % (l->each * 10) != 0) continue;
    if (x + bt_text_width(text) >= grid->columns) break;
    free_from = x + bt_grid_text(grid, y, x, grid->columns - x, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0) + 1;
  }
  (void)matrix;
}

static void put_legend(const bt_view *view, bt_grid *grid, int y, const layout *l) {
  const double *limits = modes[view->matrix_mode].limits;
  const char *name = modes[view->matrix_mode].name;
  int x = 3 + bt_grid_text(grid, y, 1, grid->columns, name, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  for (unsigned level = 0; level < LEVELS && x + 12 < grid->columns; level++) {
    char text[24];
    if (level == 0)
      (void)snprintf(text, sizeof text, "below %.0f %%", limits[1] * 100);
    else
      say_percent(view, limits[level], " %", text, sizeof text);
    bt_color color = (bt_color)(BT_COLOR_HEAT + level);
    bt_grid_put(grid, y, x, bt_theme_fine(&view->theme) ? ' ' : '0' + level, BT_COLOR_DARK_TEXT, color, 0);
    bt_grid_put(grid, y, x + 1, ' ', BT_COLOR_DARK_TEXT, color, 0);
    x += 3 + bt_grid_text(grid, y, x + 3, grid->columns - x, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0) + 2;
  }
  if (l->each > 1) {
    char text[64];
    (void)snprintf(text, sizeof text, "a cell: the worst of %zu", l->each);
    if (x + bt_text_width(text) < grid->columns)
      bt_grid_text(grid, y, x, grid->columns - x, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
}

static void say_cell(const bt_view *view, const bt_matrix *matrix, const bt_matrix_cell *cell, const char *what,
                     char *out, size_t room) {
  const char *sep = view->theme.utf8 ? " \u00b7 " : " - ";
  size_t at = (size_t)(cell - matrix->cells);
  char text[32];
  bt_text_append(out, room, "%sstage %d%sreplica %zu%srank %d%scompute %s", what,
                 (int)bt_matrix_stage(view, at / matrix->replicas), sep, at % matrix->replicas, sep, (int)cell->rank,
                 sep, bt_text_duration(text, sizeof text, (int64_t)cell->compute));
  double more = matrix->usual > 0 ? (double)cell->compute / matrix->usual - 1 : 0;
  bt_text_append(out, room, " (%+.1f %%)%sbubble %.1f %%", more * 100, sep, (double)cell->bubble * 100);
  if (matrix->replicas < 2) return;
  bt_text_append(out, room, "%sdelay %s", sep, bt_text_duration(text, sizeof text, (int64_t)cell->delay));
}

static bt_status draw(bt_view *view, bt_grid *grid, int top, int rows) {
  bt_status status = bt_matrix_update(view);
  if (status != BT_OK) return status;
  const bt_matrix *matrix = view->matrix;
  layout l = lay_out(view, matrix);
  size_t *at = &view->page_at[BT_PAGE_MATRIX], *first = &view->page_top[BT_PAGE_MATRIX];
  if (view->page_fresh) {
    *at = bt_matrix_row(view, view->cursor.stage);
    view->page_column = (size_t)view->replica / l.each;
    view->page_fresh = false;
  }
  if (view->page_column >= l.columns) view->page_column = l.columns - 1;
  int lines = rows - 5; /* below: legend, usual, worst, the cell */
  size_t shown = lines < 1 ? 1 : (size_t)lines < matrix->stages ? (size_t)lines : matrix->stages;
  int height = (int)((size_t)(lines > 0 ? lines : 1) / matrix->stages);
  height = height > 2 ? 2 : height < 1 ? 1 : height;
  bt_page_scroll(at, first, matrix->stages, shown);
  put_axis(grid, top, &l, matrix);
  const bt_matrix_cell *selected = NULL;
  for (size_t row = *first; row < *first + shown && row < matrix->stages; row++) {
    int y = top + 1 + (int)(row - *first) * height;
    char text[16];
    (void)snprintf(text, sizeof text, "%4d", (int)bt_matrix_stage(view, row));
    bt_grid_text(grid, y, 1, LABELS, text, row == *at ? BT_COLOR_STRONG : BT_COLOR_DEFAULT, BT_COLOR_DEFAULT,
                 row == *at ? BT_ATTR_BOLD : 0);
    if (row == *at)
      bt_grid_put(grid, y, 0, bt_theme_glyph(&view->theme, BT_GLYPH_POINTER), BT_COLOR_ALERT, BT_COLOR_DEFAULT, 1);
    for (size_t column = 0; column < l.columns; column++) {
      const bt_matrix_cell *cell = worst_of(view, matrix, &l, row, column);
      bool here = row == *at && column == view->page_column;
      if (here) selected = cell;
      put_cell(view, grid, y, LABELS + (int)column * l.width, &l, cell, here);
    }
  }
  char line[256] = "", number[32];
  int y = top + rows - 4;
  put_legend(view, grid, y++, &l);
  (void)snprintf(line, sizeof line, "usual    compute %s, the median of %zu x %zu",
                 bt_text_duration(number, sizeof number, (int64_t)matrix->usual), matrix->stages, matrix->replicas);
  bt_grid_text(grid, y++, 1, grid->columns - 2, line, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  line[0] = 0;
  const bt_matrix_cell *worst = worst_of_all(view, matrix);
  if (worst != NULL) say_cell(view, matrix, worst, "worst    ", line, sizeof line);
  bt_grid_text(grid, y++, 1, grid->columns - 2, line, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  line[0] = 0;
  if (selected != NULL) say_cell(view, matrix, selected, "cursor   ", line, sizeof line);
  bt_grid_text(grid, y, 1, grid->columns - 2, line, BT_COLOR_STRONG, BT_COLOR_DEFAULT, 0);
  return BT_OK;
}

static void move(bt_view *view, int64_t rows, int64_t columns) {
  if (view->matrix == NULL) return;
  layout l = lay_out(view, view->matrix);
  view->page_at[BT_PAGE_MATRIX] = bt_page_moved(view->page_at[BT_PAGE_MATRIX], rows, view->matrix->stages);
  view->page_column = bt_page_moved(view->page_column, columns, l.columns);
}

static void open(bt_view *view) {
  if (view->matrix == NULL) return;
  layout l = lay_out(view, view->matrix);
  const bt_matrix_cell *cell = worst_of(view, view->matrix, &l, view->page_at[BT_PAGE_MATRIX], view->page_column);
  if (cell == NULL) return;
  bt_navigate_remember(view);
  view->replica = (int32_t)((size_t)(cell - view->matrix->cells) % view->matrix->replicas);
  view->cursor.stage = bt_matrix_stage(view, view->page_at[BT_PAGE_MATRIX]);
  view->cursor.rank = -1;
}

const bt_page_kind bt_page_matrix = {"matrix", draw, move, open};
