/* Blockwise, in the style of ZeroPP (arXiv 2402.03791): microbatches go through in units of 2p - 1 or more; in a unit every chunk
 * runs all of its forwards, then, last chunk first, all of its input gradients, so that a chunk's shards are gathered
 * twice a unit. Weight gradients wait for gaps; at a unit's end those beyond what the next unit's gap can take are done.
 *
 * Only abstracts of the paper were at hand: this is its idea, not its tables. Idle is 2 (p - 1) chunk slots a step where
 * F, B and W take equally long. */
#include <stdlib.h>

#include "tui/analysis/schedule.h"

typedef struct cursor { /* where a stage is in its list of F and B */
  int32_t unit, phase, index; /* phase: chunks forward, then chunks backward */
  int32_t first; /* microbatch of the unit */
} cursor;

typedef struct block_writer {
  bt_schedule *schedule;
  int32_t p, m, v, units;
  cursor *at;
  size_t *weights_from; /* per stage: B's before this op have had their W */
  int32_t *owed;
  int32_t *done[2]; /* F, B: [virtual stage * m + microbatch]: slot after it, 0: not yet */
} block_writer;

/* What m leaves over is spread, so that no unit is too short to fill the pipeline. */
static int32_t unit_size(const block_writer *with, int32_t unit) {
  return with->m / with->units + (unit < with->m % with->units);
}

static void put_weight(block_writer *with, int32_t stage) {
  size_t count;
  const bt_op *ops = bt_schedule_order(with->schedule, stage, &count);
  while (ops[with->weights_from[stage]].kind != BT_B)
    with->weights_from[stage]++;
  const bt_op *of = &ops[with->weights_from[stage]++];
  bt_schedule_put(with->schedule, stage, BT_W, of->chunk, of->microbatch);
  with->owed[stage]--;
}

/* Moves on to the next op of the list; true where a unit ends. */
static bool advance(block_writer *with, int32_t stage) {
  cursor *at = &with->at[stage];
  if (++at->index < unit_size(with, at->unit)) return false;
  at->index = 0;
  if (++at->phase < 2 * with->v) return false;
  at->phase = 0;
  at->first += unit_size(with, at->unit++);
  return true;
}

/* Runs the stage's next F or B in this slot if what it needs was done before. */
static bool run_next(block_writer *with, int32_t stage, int32_t slot, bool *unit_ends) {
  cursor *at = &with->at[stage];
  bool forward = at->phase < with->v;
  int32_t chunk = forward ? at->phase : 2 * with->v - 1 - at->phase;
  int32_t microbatch = at->first + at->index;
  int32_t vstage = chunk * with->p + stage, last = with->v * with->p - 1;
  int32_t *done = with->done[!forward];
  int32_t from = forward ? vstage - 1 : vstage + 1;
  int32_t ready = from >= 0 && from <= last ? done[(size_t)from * (size_t)with->m + (size_t)microbatch] : 1;
  if (ready == 0 || ready > slot) return false;
  bt_schedule_put(with->schedule, stage, forward ? BT_F : BT_B, chunk, microbatch);
  done[(size_t)vstage * (size_t)with->m + (size_t)microbatch] = slot + 1;
  if (!forward) with->owed[stage]++;
  *unit_ends = advance(with, stage);
  return true;
}

static void run_slots(block_writer *with) {
  int32_t finished = 0;
  int32_t *flush = with->owed + with->p; /* W's to be done before going on */
  for (int32_t slot = 1; finished < with->p; slot++) {
    finished = 0;
    for (int32_t stage = 0; stage < with->p; stage++) {
      bool unit_ends = false;
      if (flush[stage] > 0) {
        flush[stage]--;
        put_weight(with, stage);
      } else if (with->at[stage].unit == with->units) {
        finished++;
      } else if (run_next(with, stage, slot, &unit_ends)) {
        int32_t keep = with->at[stage].unit == with->units ? 0 : 2 * (with->p - 1 - stage);
        if (unit_ends && with->owed[stage] > keep) flush[stage] = with->owed[stage] - keep;
      } else if (with->owed[stage] > 0) {
        put_weight(with, stage);
      }
    }
  }
}

bt_status bt_schedule_zeropp(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  int32_t p = params->stages, m = params->microbatches, v = params->chunks;
  size_t cells = (size_t)p * (size_t)v * (size_t)m;
  block_writer with = {schedule, p, m, v, m / (2 * p - 1), NULL, NULL, NULL, {NULL, NULL}};
  if (with.units == 0) with.units = 1;
  with.at = calloc((size_t)p, sizeof *with.at);
  with.weights_from = calloc((size_t)p, sizeof *with.weights_from);
  with.owed = calloc(2 * (size_t)p, sizeof *with.owed);
  with.done[0] = calloc(cells, sizeof **with.done);
  with.done[1] = calloc(cells, sizeof **with.done);
  bt_status status = BT_OK;
  if (with.at == NULL || with.weights_from == NULL || with.owed == NULL || with.done[0] == NULL ||
      with.done[1] == NULL) {
    status = bt_fail(error, BT_ERR_NOMEM, "no memory for %zu ops", cells);
  } else {
    run_slots(&with);
  }
  free(with.at);
  free(with.weights_from);
  free(with.owed);
  free(with.done[0]);
  free(with.done[1]);
  return status;
}
