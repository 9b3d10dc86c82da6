/* Two runs' accountings side by side: what a step takes, where the change is, and in one sentence why.
 *
 * Times are of a rank in a step, the mean over ranks and reported steps, so runs of different length compare; the
 * classes of a stage add up to its step exactly (rounding is carried along). Stages and links are matched by number.
 * change = b - a; comparing the runs the other way round changes every sign and nothing else.
 *
 * Pure. The caller owns the bt_comparison; it borrows nothing.
 */
#ifndef BT_ANALYSIS_COMPARE_H
#define BT_ANALYSIS_COMPARE_H

#include "tui/analysis/accounting.h"

typedef struct bt_change { /* BT_UNKNOWN where the run has no such thing, or withholds it */
  int64_t a, b, change;
} bt_change;

typedef struct bt_rate_change { /* NAN likewise */
  double a, b, change;
} bt_rate_change;

typedef struct bt_compared_stage {
  int32_t stage;
  bt_change step; /* sum of its classes */
  bt_change ns[BT_CLASS_COUNT];
  bt_change theory[BT_CLASS_COUNT]; /* of the balanced replay */
  bt_change compute; /* the compute classes together */
  bt_rate_change bubble_rate;
} bt_compared_stage;

typedef struct bt_compared_link { /* in a step of a replica */
  int32_t from, to;
  bt_change messages; /* rounded */
  bt_change bytes, wait, transfer;
  bt_change message; /* transfer of one message */
} bt_compared_link;

typedef struct bt_compared_run {
  int32_t stages, chunks, microbatches, ranks, replicas;
  size_t steps;
} bt_compared_run;

typedef struct bt_comparison {
  bt_compared_run a, b;
  bt_change step;
  bt_change microbatch; /* of a step's time */
  bt_change classes[BT_CLASS_COUNT]; /* the mean over all ranks; add up to step */
  bt_change theory[BT_CLASS_COUNT];
  bt_change theory_step; /* their sum: a step without jitter and imbalance */
  bt_rate_change rate_window, rate_span, over_ideal, ideal_rate_window, ideal_rate_span;
  bt_compared_stage *stages; /* of both runs, by number */
  size_t stage_count;
  bt_compared_link *links; /* of both runs, by from, to */
  size_t link_count;
  char verdict[400]; /* for a person */
} bt_comparison;

/* change / a; NAN when that says nothing. */
double bt_change_ratio(const bt_change *change);

/* BT_OK or BT_ERR_NOMEM. */
bt_status bt_compare(const bt_accounting *a, const bt_accounting *b, bt_comparison **comparison, bt_error *error);
void bt_comparison_free(bt_comparison *comparison);

/* Inside: the verdict's sentence. */
void bt_compare_verdict(bt_comparison *comparison);

#endif
