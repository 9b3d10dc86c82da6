/* A plan laid over a run: which ops ran in another order, which are missing or too many, and what ended later.
 *
 * A plan is the order of ops on every stage in one step: what a schedule family makes for the run's stages, chunks and
 * microbatches, a schedule CSV, or the run's own order in its first whole step, which tells what time alone would have been. Ops are told apart by kind, virtual stage and microbatch; microbatches that the run
 * numbers otherwise (on through the steps, anew in each direction) are taken by their order.
 *
 * Order: of the ops that plan and run have in common, the longest sequence that runs in the planned order is in order
 * (the ops are distinct, so a longest increasing subsequence finds it); the others are displaced: the smallest set of
 * ops that would have to move.
 *
 * Lateness: the plan is timed by the replay (replay.h), with one duration per kind and one transfer per direction, the
 * same on all stages: the lower median over the stages of their means. So a slow stage, link or microbatch, jitter,
 * pauses and another order all show as lateness. An op is late by its measured end minus its planned end. Each step
 * starts where it started; a rank is ready when it was done with the step before.
 *
 * Pure, no state between calls. The caller owns the bt_plan_overlay and frees it; it borrows nothing.
 */
#ifndef BT_ANALYSIS_PLAN_H
#define BT_ANALYSIS_PLAN_H

#include "formats/import_schedule_csv.h"
#include "tui/analysis/accounting.h"
#include "tui/analysis/schedule.h"

enum { BT_PLAN_MOST_LISTED = 1000 }; /* of displaced, missing and extra ops each; the counts count all */

/* Exactly one of family, csv and own. */
typedef struct bt_plan_source {
  const bt_schedule_family *family;
  double
      memory_in_p; /* timing-driven families: the limit in activations per stage, over the stages; 0: the usual one */
  const bt_schedule_csv *csv;
  bool own; /* the order of the run itself */
  bool places; /* list where every op should have been, too */
} bt_plan_source;

typedef struct bt_plan_op { /* an op of the plan or of the run */
  uint8_t kind;
  int32_t vstage, microbatch;
  int32_t vstage_b, microbatch_b; /* FB: the backward half; -1 otherwise */
} bt_plan_op;

typedef struct bt_plan_deviation { /* of one op on one rank, over all steps */
  int32_t rank, stage;
  bt_plan_op op; /* microbatch as the plan numbers it (extra ops: as the run does) */
  int32_t planned_place, place; /* in the rank's order of the first such step, from 0; -1: not there */
  int64_t step; /* the first */
  int64_t steps; /* how many */
} bt_plan_deviation;

typedef struct bt_plan_place { /* an op of the plan on one rank in one step, and what was measured of it */
  int32_t rank, stage;
  bt_plan_op op; /* as the plan numbers it */
  int64_t step;
  int64_t start, end; /* as planned, on the aligned clock */
  int64_t ran_start, ran_end; /* BT_UNKNOWN: it did not run */
  int32_t planned_place, place; /* in the rank's order of the step, from 0; -1: it did not run */
  bool displaced; /* it would have to move */
} bt_plan_place;

typedef struct bt_plan_late {
  int32_t rank, stage; /* -1: nothing is known to be late */
  bt_plan_op op;
  int64_t ns; /* BT_UNKNOWN likewise */
} bt_plan_late;

typedef struct bt_plan_step {
  int64_t step;
  int64_t displaced, missing, extra; /* ops, over all ranks */
  /* From the step's first start to its last end, as planned and as measured (of the replica that ends latest against
   * its plan); BT_UNKNOWN where lateness is withheld. */
  int64_t planned_ns, measured_ns, late_ns;
  bt_plan_late worst;
} bt_plan_step;

typedef struct bt_plan_stage {
  int32_t stage, ranks;
  int64_t displaced, missing, extra;
  int64_t longer_ns; /* how much longer its ops took than planned, over all steps and ranks; BT_UNKNOWN */
  int64_t planned_ns; /* their planned durations */
  int64_t late_ns; /* lateness of its ranks' last ops, summed over ranks and steps; BT_UNKNOWN */
} bt_plan_stage;

typedef struct bt_plan_overlay {
  const char *name; /* of the family; "own order"; NULL: a CSV */
  int32_t stages, chunks, microbatches;
  int64_t planned_ops; /* in one step of one replica, one rank a stage */
  int64_t ops; /* pipeline ops of the run that were looked at, over all steps and ranks */
  int64_t in_order; /* of them, those in the plan and in its order */
  int64_t displaced, missing, extra; /* over all steps and ranks */
  bool late_known;
  int64_t planned_ns, measured_ns, late_ns; /* sums over the steps where they are known; late_ns can be negative */
  size_t timed_steps; /* how many that are */
  bt_plan_late worst;
  bt_plan_step *steps; /* the reported ones */
  size_t step_count;
  bt_plan_stage *stage_list; /* all of them, by number */
  bt_plan_place *places; /* by rank, then planned start; empty unless they are asked for and lateness is known */
  size_t place_count, place_capacity;
  int64_t longest; /* planned duration of any of them */
  bt_plan_deviation *displaced_list, *missing_list, *extra_list; /* by rank, then place */
  size_t displaced_listed, missing_listed, extra_listed;
  bt_account_warning *warnings; /* what could not be compared, and why */
  size_t warning_count, warning_capacity;
} bt_plan_overlay;

/* Options as for the accounting. BT_OK; BT_ERR_ARG: the plan does not fit the run, or fits no run, and why; BT_ERR_EMPTY:
 * no pipeline op in the (chosen) steps; BT_ERR_LIMIT, BT_ERR_NOMEM. */
bt_status bt_plan_lay(const bt_trace *trace, const bt_accounting_options *options, const bt_plan_source *source,
                      bt_plan_overlay **overlay, bt_error *error);
void bt_plan_overlay_free(bt_plan_overlay *overlay);

/* The places of a rank that end after `time` as planned, in order. */
const bt_plan_place *bt_plan_places_from(const bt_plan_overlay *overlay, int32_t rank, int64_t time, size_t *count);

#endif
