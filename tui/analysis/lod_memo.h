/* The columns of a row, kept from one frame to the next: when the picture moves by whole columns, only those that came in
 * are computed, and those that can still change because their spans are not settled.
 */
#ifndef BT_ANALYSIS_LOD_MEMO_H
#define BT_ANALYSIS_LOD_MEMO_H

#include "tui/analysis/lod.h"

typedef struct bt_lod_memo {
  bt_lod_sum *sums; /* the result */
  size_t columns, capacity;
  /* what they are of */
  int32_t rank;
  bt_lane lane;
  int64_t origin, width;
  uint64_t reordered;
  size_t kept; /* these from the first on will not change; 0: nothing is known */
} bt_lod_memo;

/* A zero-filled memo knows nothing. */
void bt_lod_memo_free(bt_lod_memo *memo);
/* As bt_lod_columns for a lane of trace->ranks[rank_index], into memo->sums. */
bt_status bt_lod_memo_columns(bt_lod_memo *memo, const bt_lod_set *set, const bt_trace *trace, size_t rank_index,
                              bt_lane lane, int64_t origin, int64_t width, size_t columns, bt_lod_segments *segments);

#endif
