/* Stages x replicas, coloured by how long a rank computes against the usual, or by its bubble: a straggler stands out among
 * thousands of ranks. Where there are more replicas than columns, a cell shows the worst of several. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/lod_cut.h"
#include "tui/screen/navigate.h"
#include "tui/screen/page.h"
#include "tui/screen/text.h"

enum { LABELS = 8, LEVELS = 6, NUMBERS = 7 /* columns a cell with a number takes */ };

/* One allocation. Cells are by stage, then replica. */
struct bt_matrix {
  int64_t from, to;
  int64_t step; /* whose window that is; INT64_MIN: of none */
  uint64_t generation, reordered;
  bool complete; /* all ranks had come to `to`: it will not change */
  size_t stages, replicas;
  double usual; /* median of the longest compute of the cells */
  size_t worst; /* the cell with the longest compute; SIZE_MAX none */
  struct matrix_cell {
    float compute, bubble; /* the longest of its ranks, ns; of all its ranks; NAN: no rank */
    int32_t rank; /* that computes longest */
    uint32_t members;
  } cells[];
};

typedef struct matrix_cell matrix_cell;

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static double median_of(const bt_matrix *matrix) {
  size_t total = matrix->stages * matrix->replicas, count = 0;
  float *values = malloc((total + 1) * sizeof *values);
  if (values == NULL) return 0;
  for (size_t i = 0; i < total; i++) {
    if (matrix->cells[i].members > 0) values[count++] = matrix->cells[i].compute;
  }
  qsort(values, count, sizeof *values, by_value);
  double median = count == 0 ? 0 : (double)values[(count - 1) / 2];
  free(values);
  return median;
}

/* The row of a stage, by the rows of the screen (those of the replica that is shown). */
static size_t row_of_stage(const bt_view *view, int32_t stage) {
  size_t row = 0;
  for (size_t i = 0; i < view->rows.count; i++) {
    if (view->rows.items[i].is_lane) continue;
    if (view->rows.items[i].stage == stage) return row;
    row++;
  }
  return SIZE_MAX;
}

static int32_t stage_of_row(const bt_view *view, size_t row) {
  for (size_t i = 0; i < view->rows.count; i++) {
    if (!view->rows.items[i].is_lane && row-- == 0) return view->rows.items[i].stage;
  }
  return -1;
}

/* The last whole step, or what is visible where there is none. */
static void range_of(bt_view *view, int64_t *from, int64_t *to, int64_t *id) {
  size_t step;
  *id = INT64_MIN;
  *from = view->origin;
  *to = bt_view_end(view) < view->last ? bt_view_end(view) : view->last;
  if (bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &step)) {
    *from = view->steps.items[step].from;
    *to = view->steps.items[step].to;
    *id = view->steps.items[step].id;
  }
}

static int64_t busy_of(const bt_view *view, size_t r, int64_t from, int64_t to) {
  bt_lod_sum sum;
  bt_lod_compute(view->lods, view->trace, r, from, to, &sum);
  return bt_lod_busy(&sum, BT_LANE_COMPUTE);
}

/* What a rank computed in the step. Replicas drift apart, so its part is between its own marks, where it has them. */
static int64_t compute_of(const bt_view *view, const bt_matrix *matrix, size_t r) {
  const bt_rank *rank = &view->trace->ranks[r];
  for (size_t i = rank->step_count; matrix->step != INT64_MIN && i-- > 0;) {
    const bt_step *step = &rank->steps[i];
    if (step->id == matrix->step && step->begin != INT64_MIN && step->end != INT64_MIN)
      return busy_of(view, r, step->begin, step->end);
  }
  return busy_of(view, r, bt_raw_time(rank, matrix->from), bt_raw_time(rank, matrix->to));
}

static void fill(bt_view *view, bt_matrix *matrix) {
  int32_t stage = -1;
  size_t row = SIZE_MAX;
  matrix->complete = true;
  for (size_t r = 0; r < view->trace->rank_count; r++) {
    const bt_rank *rank = &view->trace->ranks[r];
    int32_t replica = bt_rank_replica(rank);
    if (row == SIZE_MAX || bt_rank_stage(rank) != stage) row = row_of_stage(view, stage = bt_rank_stage(rank));
    if (row >= matrix->stages || replica < 0 || (size_t)replica >= matrix->replicas) continue;
    float busy = (float)busy_of(view, r, bt_raw_time(rank, matrix->from), bt_raw_time(rank, matrix->to));
    float bubble = 1 - busy / (float)bt_time_sub(matrix->to, matrix->from);
    float compute = (float)compute_of(view, matrix, r);
    matrix_cell *cell = &matrix->cells[row * matrix->replicas + (size_t)replica];
    if (cell->members == 0 || compute > cell->compute) {
      cell->compute = compute;
      cell->rank = rank->rank;
    }
    cell->bubble = (cell->bubble * (float)cell->members + bubble) / (float)(cell->members + 1);
    cell->members++;
    if (rank->first > rank->last || bt_view_time(rank, rank->last) < matrix->to) matrix->complete = false;
  }
  matrix->usual = median_of(matrix);
  matrix->worst = SIZE_MAX;
  for (size_t i = 0; i < matrix->stages * matrix->replicas; i++) {
    if (matrix->cells[i].members == 0) continue;
    if (matrix->worst == SIZE_MAX || matrix->cells[i].compute > matrix->cells[matrix->worst].compute) matrix->worst = i;
  }
}

static bt_status update(bt_view *view) {
  int64_t from, to, step;
  range_of(view, &from, &to, &step);
  bt_matrix *matrix = view->matrix;
  size_t stages = view->rows.stages, replicas = (size_t)view->rows.replicas;
  if (replicas > view->trace->rank_count) replicas = view->trace->rank_count; /* a number that is not to be believed */
  bool same = matrix != NULL && matrix->from == from && matrix->to == to && matrix->stages == stages &&
              matrix->replicas == replicas && matrix->reordered == view->trace->reordered;
  if (same && (matrix->complete || matrix->generation == view->trace->generation)) return BT_OK;
  matrix = calloc(1, sizeof *matrix + stages * replicas * sizeof matrix->cells[0]);
  if (matrix == NULL) return BT_ERR_NOMEM;
  *matrix = (bt_matrix){.from = from,
                        .to = to,
                        .step = step,
                        .generation = view->trace->generation,
                        .reordered = view->trace->reordered,
                        .stages = stages,
                        .replicas = replicas};
  free(view->matrix);
  view->matrix = matrix;
  fill(view, matrix);
  return BT_OK;
}

/* --- the picture ------------------------------------------------------------------------------------------------------ */

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

/* The cell of a group of replicas that computes longest (or has the largest bubble); NULL: none has a rank. */
static const matrix_cell *worst_of(const bt_view *view, const bt_matrix *matrix, const layout *l, size_t row,
                                   size_t column) {
  const matrix_cell *worst = NULL;
  for (size_t i = column * l->each; i < (column + 1) * l->each && i < matrix->replicas; i++) {
    const matrix_cell *cell = &matrix->cells[row * matrix->replicas + i];
    if (cell->members == 0) continue;
    bool worse = worst != NULL && (view->matrix_bubble ? cell->bubble > worst->bubble : cell->compute > worst->compute);
    if (worst == NULL || worse) worst = cell;
  }
  return worst;
}

static const double slower[LEVELS] = {-1, 0.03, 0.07, 0.12, 0.2, 0.35};
static const double bubbles[LEVELS] = {-9, 0.1, 0.2, 0.3, 0.45, 0.6};

static double value_of(const bt_view *view, const bt_matrix *matrix, const matrix_cell *cell) {
  if (view->matrix_bubble) return (double)cell->bubble;
  return matrix->usual > 0 ? (double)cell->compute / matrix->usual - 1 : 0;
}

static unsigned level_of(const bt_view *view, double value) {
  const double *limits = view->matrix_bubble ? bubbles : slower;
  unsigned level = 0;
  while (level + 1 < LEVELS && value >= limits[level + 1])
    level++;
  return level;
}

static void put_cell(const bt_view *view, bt_grid *grid, int y, int x, const layout *l, const bt_matrix *matrix,
                     const matrix_cell *cell, bool here) {
  bt_color color = BT_COLOR_DEFAULT, fg = BT_COLOR_FAINT;
  char text[16] = "";
  int width = l->width > 2 ? l->width - 1 : l->width; /* a seam where there is room */
  unsigned attributes = 0;
  if (cell != NULL) {
    double value = value_of(view, matrix, cell);
    unsigned level = level_of(view, value);
    color = (bt_color)(BT_COLOR_HEAT + level);
    fg = level < 3 ? BT_COLOR_BAR_TEXT : BT_COLOR_DARK_TEXT;
    if (l->width >= NUMBERS)
      (void)snprintf(text, sizeof text, view->matrix_bubble ? "%.0f%%" : "%+.0f%%", value * 100);
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
  int x = 1 +
          bt_grid_text(grid, y, 1, grid->columns, view->matrix_bubble ? "bubble" : "compute against the usual",
                       BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0) +
          2;
  const double *limits = view->matrix_bubble ? bubbles : slower;
  for (unsigned level = 0; level < LEVELS && x + 12 < grid->columns; level++) {
    char text[24];
    if (level == 0)
      (void)snprintf(text, sizeof text, "below %.0f %%", limits[1] * 100);
    else
      (void)snprintf(text, sizeof text, view->matrix_bubble ? "%.0f %%" : "+%.0f %%", limits[level] * 100);
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

static void say_cell(const bt_view *view, const bt_matrix *matrix, const matrix_cell *cell, const char *what, char *out,
                     size_t room) {
  const char *sep = view->theme.utf8 ? " \u00b7 " : " - ";
  size_t at = (size_t)(cell - matrix->cells);
  char text[32];
  bt_text_append(out, room, "%sstage %d%sreplica %zu%srank %d%scompute %s", what,
                 (int)stage_of_row(view, at / matrix->replicas), sep, at % matrix->replicas, sep, (int)cell->rank, sep,
                 bt_text_duration(text, sizeof text, (int64_t)cell->compute));
  double more = matrix->usual > 0 ? (double)cell->compute / matrix->usual - 1 : 0;
  bt_text_append(out, room, " (%+.1f %%)%sbubble %.1f %%", more * 100, sep, (double)cell->bubble * 100);
}

static bt_status draw(bt_view *view, bt_grid *grid, int top, int rows) {
  bt_status status = update(view);
  if (status != BT_OK) return status;
  const bt_matrix *matrix = view->matrix;
  layout l = lay_out(view, matrix);
  size_t *at = &view->page_at[BT_PAGE_MATRIX], *first = &view->page_top[BT_PAGE_MATRIX];
  if (view->page_fresh) {
    *at = row_of_stage(view, view->cursor.stage);
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
  const matrix_cell *selected = NULL;
  for (size_t row = *first; row < *first + shown && row < matrix->stages; row++) {
    int y = top + 1 + (int)(row - *first) * height;
    char text[16];
    (void)snprintf(text, sizeof text, "%4d", (int)stage_of_row(view, row));
    bt_grid_text(grid, y, 1, LABELS, text, row == *at ? BT_COLOR_STRONG : BT_COLOR_DEFAULT, BT_COLOR_DEFAULT,
                 row == *at ? BT_ATTR_BOLD : 0);
    if (row == *at)
      bt_grid_put(grid, y, 0, bt_theme_glyph(&view->theme, BT_GLYPH_POINTER), BT_COLOR_ALERT, BT_COLOR_DEFAULT, 1);
    for (size_t column = 0; column < l.columns; column++) {
      const matrix_cell *cell = worst_of(view, matrix, &l, row, column);
      bool here = row == *at && column == view->page_column;
      if (here) selected = cell;
      put_cell(view, grid, y, LABELS + (int)column * l.width, &l, matrix, cell, here);
    }
  }
  char line[256] = "", number[32];
  int y = top + rows - 4;
  put_legend(view, grid, y++, &l);
  (void)snprintf(line, sizeof line, "usual    compute %s, the median of %zu x %zu",
                 bt_text_duration(number, sizeof number, (int64_t)matrix->usual), matrix->stages, matrix->replicas);
  bt_grid_text(grid, y++, 1, grid->columns - 2, line, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  line[0] = 0;
  if (matrix->worst != SIZE_MAX) say_cell(view, matrix, &matrix->cells[matrix->worst], "longest  ", line, sizeof line);
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
  const matrix_cell *cell = worst_of(view, view->matrix, &l, view->page_at[BT_PAGE_MATRIX], view->page_column);
  if (cell == NULL) return;
  bt_navigate_remember(view);
  view->replica = (int32_t)((size_t)(cell - view->matrix->cells) % view->matrix->replicas);
  view->cursor.stage = stage_of_row(view, view->page_at[BT_PAGE_MATRIX]);
  view->cursor.rank = -1;
}

const bt_page_kind bt_page_matrix = {"matrix", draw, move, open};
