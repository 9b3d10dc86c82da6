/* Which schedule is this? From the order of ops on the stages of one step, and nothing else.
 *
 * The orders are compared with what every family makes of the observed numbers of stages, chunks and microbatches.
 * Microbatches may be numbered in any ascending way, anew in each direction too; virtual stages need not be known. Ops
 * that were lost are forgiven (up to a tenth), ops in another place are not. The timing-driven schedules have as many
 * orders as there are durations: they are tried with the measured ones, then known by how their heuristics build.
 */
#ifndef BT_ANALYSIS_RECOGNISE_H
#define BT_ANALYSIS_RECOGNISE_H

#include <stddef.h>
#include <stdint.h>

#include "tui/analysis/schedule.h"

enum { BT_RECOGNISE_MOST_ALIASES = 16 };

/* One stage's ops in the order in which they ran. Kinds other than F, B, W, BW and FB are passed over; chunk -1 is 0. A
 * stage that was not recorded has none. */
typedef struct bt_observed_stage {
  const bt_op *ops;
  size_t count;
} bt_observed_stage;

/* Means of what was measured, for the timing-driven schedules; all zero: not known. */
typedef struct bt_observed_times {
  int64_t forward, backward, weight, comm;
} bt_observed_times;

typedef struct bt_recognition {
  const bt_schedule_family *family; /* NULL: unknown */
  const char *name; /* the family's, or "unknown" */
  const char *aliases[BT_RECOGNISE_MOST_ALIASES]; /* other families that give this order */
  size_t alias_count;
  bool by_build; /* timing-driven, known by its build only: no order to compare with */
  bool reversed, ragged; /* as in bt_schedule_params: how the family was made to give this order */
  double memory; /* timing-driven, exact: the memory limit that gives it; else 0 */
  int32_t stages, chunks, microbatches;
  size_t missing; /* ops of the schedule that were not observed */
  /* Of an unknown order: the nearest family, how many ops run in another place than there, and the first of them. */
  const bt_schedule_family *nearest;
  size_t moved;
  int32_t departs_stage;
  size_t departs_at; /* place in the stage's order, from 0 */
  char text[240]; /* for a person: "1f1b, 4 stages, 8 microbatches" or where it departs */
} bt_recognition;

/* `stages` in order of the pipeline. BT_OK also for an unknown order; BT_ERR_EMPTY: no ops at all, BT_ERR_ARG: more
 * stages, chunks or microbatches than a schedule can have; BT_ERR_NOMEM. */
bt_status bt_recognise(const bt_observed_stage *stages, size_t stage_count, const bt_observed_times *times,
                       bt_recognition *result, bt_error *error);

#endif
