/* The steps of a replica and their windows: first start to last end of the pipeline ops of all its ranks (DESIGN section 6).
 *
 * Boundaries are the step marks of the replica's first rank. Windows are found when asked for and kept once the step is
 * complete, so that a long run costs nothing.
 */
#ifndef BT_SCREEN_STEPS_H
#define BT_SCREEN_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"
#include "tui/analysis/lod.h"
#include "tui/screen/rows.h"

enum { BT_STEPS_SHOWN = 1024 /* at most, in one row */ };

typedef struct bt_step_window {
  int64_t id;
  int64_t begin; /* its mark */
  int64_t from, to; /* the window; from >= to: no pipeline op */
  double bubble; /* of all ranks, 0..1; NAN: unknown */
  bool complete; /* every rank has its end mark */
  bool final; /* complete, and computed from a whole index: it stays */
  uint64_t stamp; /* of the data it was computed from, 0: it was not computed */
} bt_step_window;

typedef struct bt_steps {
  bt_step_window *items; /* parallel to the reference rank's marks */
  size_t count, capacity;
  int32_t rank; /* the reference rank */
  uint64_t reordered;
  uint64_t clocks; /* of the ranks' clock corrections: when they change, so do all windows */
} bt_steps;

void bt_steps_free(bt_steps *steps);
bt_status bt_steps_update(bt_steps *steps, const bt_trace *trace, const bt_rows *rows);
/* The window of a step, computed now if it was not. */
const bt_step_window *bt_steps_window(bt_steps *steps, size_t index, const bt_trace *trace, const bt_lod_set *lods,
                                      const bt_rows *rows);
/* First start and last end of the pipeline ops of a track that begin in [begin, end), raw. False: there is none. */
bool bt_steps_extent(const bt_track *track, int64_t begin, int64_t end, int64_t *first, int64_t *last);
/* The last step that begins at or before `time`; false: none. */
bool bt_steps_at(const bt_steps *steps, int64_t time, size_t *index);
/* The newest complete step whose window ends by `clock`; false: none. */
bool bt_steps_last(bt_steps *steps, int64_t clock, const bt_trace *trace, const bt_lod_set *lods, const bt_rows *rows,
                   size_t *index);

/* A lasting change in a row of bubble rates (0..1; NAN: unknown): where the mean of what follows differs most from that of
 * what came before, by a point of bubble at least and by far more than from one step to the next. `before` and `after`:
 * the medians there. False: there is none. */
bool bt_steps_change(const double *bubbles, size_t count, size_t *at, double *before, double *after);

#endif
