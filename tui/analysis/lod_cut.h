/* What collectives on the ops' own stream take out of compute (DESIGN section 6, class 1), in any range of time, in
 * O(log spans): a stage that waits in tensor-parallel all-reduces does not compute.
 *
 * A collective of a tensor, context or expert parallel group blocks the op that it lies in, as does one that was recorded on
 * the op's own stream; not in an FB op, which overlaps its communication, and not where one is GPU-timed and the other is
 * not. Of two that overlap, the time counts once. A leaf keeps what all collectives before it took; the rest is swept.
 * About 6 bytes a collective span. Not thread-safe. Times are raw.
 */
#ifndef BT_ANALYSIS_LOD_CUT_H
#define BT_ANALYSIS_LOD_CUT_H

#include "tui/analysis/lod.h"

/* A zero-filled bt_lod_cut is empty. */
void bt_lod_cut_free(bt_lod_cut *cut);
/* Brings it up to the settled part of the rank's tracks; `compute` is the whole index of its compute lane. At most about `budget`
 * collectives are looked at (0: no bound); `done`: no more can be now. BT_OK or BT_ERR_NOMEM (it stays usable). */
bt_status bt_lod_cut_update(bt_lod_cut *cut, const bt_rank *rank, const bt_lod *compute, size_t budget, bool *done);

/* Compute of trace->ranks[rank_index] in [from, to), without what collectives took. */
void bt_lod_compute(const bt_lod_set *set, const bt_trace *trace, size_t rank_index, int64_t from, int64_t to,
                    bt_lod_sum *sum);
/* Takes what collectives took in [from, to) from `sum`, which is that range's of the compute lane. */
void bt_lod_cut_subtract(const bt_lod_cut *cut, const bt_rank *rank, const bt_lod *compute, int64_t from, int64_t to,
                         bt_lod_sum *sum);

#endif
