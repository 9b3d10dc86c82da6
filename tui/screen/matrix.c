#include "tui/screen/matrix.h"

#include <math.h>
#include <stdlib.h>

#include "tui/analysis/lod_cut.h"
#include "tui/screen/text.h"

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Lower median of what is not NAN, 0 of nothing. Sorts the values. */
static float median_of(float *values, size_t count) {
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    if (!isnan(values[i])) values[known++] = values[i];
  }
  qsort(values, known, sizeof *values, by_value);
  return known == 0 ? 0 : values[(known - 1) / 2];
}

size_t bt_matrix_row(const bt_view *view, int32_t stage) {
  size_t row = 0;
  for (size_t i = 0; i < view->rows.count; i++) {
    if (view->rows.items[i].is_lane) continue;
    if (view->rows.items[i].stage == stage) return row;
    row++;
  }
  return SIZE_MAX;
}

int32_t bt_matrix_stage(const bt_view *view, size_t row) {
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

typedef struct rank_part {
  int64_t compute;
  int64_t done; /* from the step's begin to the end of its last op; INT64_MIN: it has none */
} rank_part;

/* What a rank did in the step. Replicas drift apart, so its part is between its own marks, where it has them. */
static rank_part part_of(const bt_view *view, const bt_matrix *matrix, size_t r) {
  const bt_rank *rank = &view->trace->ranks[r];
  int64_t from = bt_raw_time(rank, matrix->from), to = bt_raw_time(rank, matrix->to), first, last;
  for (size_t i = rank->step_count; matrix->step != INT64_MIN && i-- > 0;) {
    const bt_step *step = &rank->steps[i];
    if (step->id != matrix->step || step->begin == INT64_MIN || step->end == INT64_MIN) continue;
    from = step->begin;
    to = step->end;
    break;
  }
  bool any = bt_steps_extent(&rank->tracks[BT_LANE_COMPUTE], from, to, &first, &last);
  return (rank_part){busy_of(view, r, from, to), any ? bt_time_sub(last, from) : INT64_MIN};
}

static void add_rank(const bt_view *view, const bt_matrix *matrix, size_t r, bt_matrix_cell *cell) {
  const bt_rank *rank = &view->trace->ranks[r];
  float busy = (float)busy_of(view, r, bt_raw_time(rank, matrix->from), bt_raw_time(rank, matrix->to));
  float bubble = 1 - busy / (float)bt_time_sub(matrix->to, matrix->from);
  rank_part part = part_of(view, matrix, r);
  if (cell->members == 0 || (float)part.compute > cell->compute) {
    cell->compute = (float)part.compute;
    cell->rank = rank->rank;
  }
  if (cell->members == 0) cell->delay = (float)NAN;
  if (part.done != INT64_MIN && !(cell->delay >= (float)part.done)) cell->delay = (float)part.done;
  cell->bubble = (cell->bubble * (float)cell->members + bubble) / (float)(cell->members + 1);
  cell->members++;
}

/* What is usual is told by the replicas of a stage: stages are done one after the other. */
static void compare_cells(bt_matrix *matrix, float *room) {
  size_t cells = matrix->stages * matrix->replicas;
  for (size_t i = 0; i < cells; i++)
    room[i] = matrix->cells[i].members > 0 ? matrix->cells[i].compute : (float)NAN;
  matrix->usual = (double)median_of(room, cells);
  for (size_t row = 0; row < matrix->stages; row++) {
    bt_matrix_cell *own = &matrix->cells[row * matrix->replicas];
    for (size_t i = 0; i < matrix->replicas; i++)
      room[i] = own[i].members > 0 ? own[i].delay : (float)NAN;
    float usual = median_of(room, matrix->replicas);
    for (size_t i = 0; i < matrix->replicas; i++)
      own[i].delay = isnan(own[i].delay) ? 0 : own[i].delay - usual;
  }
}

static bool fill(const bt_view *view, bt_matrix *matrix) {
  float *room = malloc((matrix->stages * matrix->replicas + 1) * sizeof *room);
  int32_t stage = -1;
  size_t row = SIZE_MAX;
  if (room == NULL) return false;
  matrix->complete = true;
  for (size_t r = 0; r < view->trace->rank_count; r++) {
    const bt_rank *rank = &view->trace->ranks[r];
    int32_t replica = bt_rank_replica(rank);
    if (row == SIZE_MAX || bt_rank_stage(rank) != stage) row = bt_matrix_row(view, stage = bt_rank_stage(rank));
    if (row >= matrix->stages || replica < 0 || (size_t)replica >= matrix->replicas) continue;
    add_rank(view, matrix, r, &matrix->cells[row * matrix->replicas + (size_t)replica]);
    if (rank->first > rank->last || bt_view_time(rank, rank->last) < matrix->to) matrix->complete = false;
  }
  compare_cells(matrix, room);
  free(room);
  return true;
}

bt_status bt_matrix_update(bt_view *view) {
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
  return fill(view, matrix) ? BT_OK : BT_ERR_NOMEM;
}

double bt_matrix_value(const bt_view *view, const bt_matrix_cell *cell) {
  const bt_matrix *matrix = view->matrix;
  switch (view->matrix_mode) {
  case BT_MATRIX_BUBBLE: return (double)cell->bubble;
  case BT_MATRIX_DELAY: return (double)cell->delay / (double)bt_time_sub(matrix->to, matrix->from);
  default: return matrix->usual > 0 ? (double)cell->compute / matrix->usual - 1 : 0;
  }
}
