/* Stages x replicas: how long each pair's ranks computed in the last whole step, their bubble, how much later than the usual
 * they were done. What is not known yet is worked out when more has come in.
 */
#ifndef BT_SCREEN_MATRIX_H
#define BT_SCREEN_MATRIX_H

#include "tui/screen/view.h"

typedef struct bt_matrix_cell {
  float compute, bubble; /* the longest of its ranks, ns; of all its ranks, 0..1 */
  float delay; /* from the step's begin to the end of its last op, the longest of its ranks, less what is usual, ns */
  int32_t rank; /* that computes longest */
  uint32_t members; /* 0: no rank, and nothing else is known */
} bt_matrix_cell;

/* One allocation. Cells are by stage, then replica. */
struct bt_matrix {
  int64_t from, to;
  int64_t step; /* whose window that is; INT64_MIN: of none */
  uint64_t generation, reordered;
  bool complete; /* all ranks had come to `to`: it will not change */
  size_t stages, replicas;
  double usual; /* median of the longest compute of the cells, ns */
  bt_matrix_cell cells[];
};

/* Brings view->matrix up to the trace. BT_OK or BT_ERR_NOMEM. */
bt_status bt_matrix_update(bt_view *view);

/* The row of a stage, by the rows of the screen (those of the replica that is shown), SIZE_MAX none; and back, -1 none. */
size_t bt_matrix_row(const bt_view *view, int32_t stage);
int32_t bt_matrix_stage(const bt_view *view, size_t row);

/* What a cell is coloured by, as the view wants it: more is worse. Compute and delay are relative: to the usual compute and
 * to the length of the step. */
double bt_matrix_value(const bt_view *view, const bt_matrix_cell *cell);

#endif
