/* Why a rank stood still, piece by piece: the accounting's classes of idle time (DESIGN section 6), to be drawn.
 *
 * Pure: reads a trace. The caller owns what it gets (bt_gaps_free); nothing is borrowed from the trace.
 */
#ifndef BT_ANALYSIS_GAPS_H
#define BT_ANALYSIS_GAPS_H

#include "tui/analysis/accounting.h"

typedef struct bt_gap {
  int64_t start, end; /* on the aligned clock */
  bt_class class; /* none of those of compute */
} bt_gap;

typedef struct bt_gaps_rank {
  int32_t rank;
  size_t first, count; /* in `items` */
} bt_gaps_rank;

typedef struct bt_gaps {
  bool bounded; /* as asked for */
  int64_t first_step, last_step;
  bt_gap *items; /* of each rank: in order, disjoint */
  size_t count, capacity;
  bt_gaps_rank *ranks; /* sorted */
  size_t rank_count;
} bt_gaps;

/* The gaps of the steps that the options name. BT_OK, BT_ERR_EMPTY: no pipeline op in them, BT_ERR_NOMEM. */
bt_status bt_gaps_find(const bt_trace *trace, const bt_accounting_options *options, bt_gaps **gaps, bt_error *error);
void bt_gaps_free(bt_gaps *gaps);

/* Those of a rank that end after `time`, in order. */
const bt_gap *bt_gaps_from(const bt_gaps *gaps, int32_t rank, int64_t time, size_t *count);

#endif
