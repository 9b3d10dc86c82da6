/* Where the time of a range went: compute by what ran, idle time by the accounting's classes where they are known. */
#ifndef BT_SCREEN_RANGE_H
#define BT_SCREEN_RANGE_H

#include "tui/analysis/accounting.h"
#include "tui/analysis/gaps.h"
#include "tui/analysis/lod.h"

/* Adds the time of trace->ranks[rank_index] in [from, to) on the aligned clock to the classes; together to - from. `gaps`: what
 * is not told of there is unattributed; NULL: all idle time is. Pure. */
void bt_range_classes(const bt_trace *trace, const bt_lod_set *lods, const bt_gaps *gaps, size_t rank_index,
                      int64_t from, int64_t to, int64_t ns[BT_CLASS_COUNT]);

#endif
