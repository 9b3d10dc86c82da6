/* Level of detail: how busy a lane was in any range of time, in O(log spans), exact at every zoom.
 *
 * The overlapping and nested spans of a track are seen as disjoint segments (the span that began last wins, so the
 * innermost one), cut into leaves of BT_LOD_LEAF spans by index. Where a leaf starts, the busy time of all before it is
 * kept: the busy time up to any moment is that plus a sweep through one leaf, made again from the spans; a column's is the
 * difference of two such. The longest gaps lie in an implicit segment forest (node of level L over leaves
 * [first, first + 2^L) at 2 * first + 2^L - 1). Appending is amortised O(1), and cutting back to the settled part is
 * setting a count. Spans that were open at the start of a leaf are a persistent list in `pool`.
 *
 * Idle time is never stored: it is the range minus the busy sums, so sums over columns equal the sum over their union.
 * Costs about 3.5 bytes a span. Not thread-safe; the track that is passed must be the one of the last update, unchanged
 * since. Times are raw (without bt_rank.offset_ns).
 */
#ifndef BT_ANALYSIS_LOD_H
#define BT_ANALYSIS_LOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"

enum {
  BT_LOD_LEAF = 32,
  BT_LOD_SLOTS = 9, /* kinds of one lane: the compute lane has the most */
  BT_LOD_SPARSE = 3, /* a column with at most this many starts is given as segments too */
  BT_LOD_GATE = 8 /* slot of a gate in the compute lane */
};

/* The place of a kind in the sums of its lane, and back (BT_NONE: the lane has no such slot). */
unsigned bt_lod_slot(unsigned kind);
bt_code bt_lod_kind(bt_lane lane, unsigned slot);

typedef struct bt_lod_carried { /* a span that reaches into a later leaf */
  uint32_t span, below; /* below: 1 + index into pool of the one under it, 0 none */
} bt_lod_carried;

typedef struct bt_lod_checkpoint { /* the state at the start of a leaf */
  int64_t start; /* of its first span: together they are searched faster than in the spans */
  uint32_t top; /* 1 + index into pool, 0 none */
  uint32_t pool_count;
} bt_lod_checkpoint;

typedef struct bt_lod_before { /* what was busy before a leaf starts, ns */
  uint64_t busy[BT_LOD_SLOTS];
} bt_lod_before;

typedef struct bt_lod {
  bt_lod_checkpoint *checkpoint; /* leaf_count + 1 */
  bt_lod_before *before; /* leaf_count + 1 */
  uint64_t *gap; /* longest idle stretch that begins in a leaf, ns */
  uint32_t *longest; /* the forest: the leaf with the longest one; two nodes a leaf */
  size_t leaf_count, leaf_capacity;
  size_t settled_leaves; /* these stay at the next update */
  size_t seen_count, seen_settled; /* of the track at the last complete update */
  uint64_t seen_moves; /* of the track at the last update */
  uint64_t built; /* leaves built so far, again ones too */
  bt_lod_carried *pool;
  size_t pool_count, pool_capacity;
} bt_lod;

/* A zero-filled bt_lod is an empty index. */
void bt_lod_free(bt_lod *lod);
/* Brings the index up to the track: only what was not settled, or moved nevertheless, is built anew. At most about `budget` spans are indexed (0: no bound); `done` tells whether all are.
 * BT_OK or BT_ERR_NOMEM (the index stays usable as it was). */
bt_status bt_lod_update(bt_lod *lod, const bt_track *track, size_t budget, bool *done);
/* True when an update would find nothing to do. */
bool bt_lod_is_current(const bt_lod *lod, const bt_track *track);
/* Bytes it holds. */
size_t bt_lod_bytes(const bt_lod *lod);

typedef struct bt_lod_sum {
  uint64_t busy[BT_LOD_SLOTS]; /* ns in the range, clipped exactly at its ends */
  uint32_t starts; /* spans that begin in the range */
  bool segments; /* bt_lod_columns: its segments were given too */
} bt_lod_sum;

/* True when all spans that start before `time` are seen by what follows. */
bool bt_lod_reaches(const bt_lod *lod, const bt_track *track, int64_t time);

/* Busy time in [from, to). Spans behind the indexed part and its last partial leaf are not seen. */
void bt_lod_range(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, bt_lod_sum *sum);

typedef struct bt_lod_segment {
  int64_t start, end; /* clipped to the range */
  uint32_t span;
} bt_lod_segment;

typedef struct bt_lod_segments { /* caller frees `items` */
  bt_lod_segment *items;
  size_t count, capacity;
} bt_lod_segments;

/* One sum for each of `columns` columns of `width` ns (> 0) from `origin` on, and the segments of the sparse ones in order
 * (added to `segments`, which may be NULL). The whole row costs one pass: O(columns * log spans). */
bt_status bt_lod_columns(const bt_lod *lod, const bt_track *track, int64_t origin, int64_t width, size_t columns,
                         bt_lod_sum *sums, bt_lod_segments *segments);

/* All kinds of a sum; of the compute lane without gates. */
uint64_t bt_lod_busy(const bt_lod_sum *sum, bt_lane lane);

/* The longest stretch of [from, to) in which nothing but gates was on the lane. False when there is none. */
bool bt_lod_longest_gap(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, int64_t *start,
                        int64_t *end);
/* The whole such stretch round `time` (its ends INT64_MIN or INT64_MAX when it is open there). False: busy then. */
bool bt_lod_gap_at(const bt_lod *lod, const bt_track *track, int64_t time, int64_t *start, int64_t *end);

/* The span that is seen at `time`. False: idle then. */
bool bt_lod_at(const bt_lod *lod, const bt_track *track, int64_t time, size_t *span);

/* lod_cut.h */
enum { BT_LOD_CUT_LEAF = 16 };

typedef struct bt_lod_cut_leaf {
  int64_t until; /* the latest end of a counted collective before it, INT64_MIN none */
  uint64_t busy[BT_LOD_SLOTS]; /* what those took, by kind of op, ns */
} bt_lod_cut_leaf;

typedef struct bt_lod_cut {
  bt_lod_cut_leaf *leaves; /* leaf i: before collective i * BT_LOD_CUT_LEAF */
  size_t count, capacity;
  uint64_t seen_collectives, seen_compute; /* moves of these tracks when it was brought up last */
} bt_lod_cut;

/* The indexes of all ranks of a trace. A zero-filled set is empty. */
typedef struct bt_lod_rank {
  int32_t rank;
  bt_lod lanes[BT_LANE_COUNT];
  bt_lod_cut cut;
} bt_lod_rank;

typedef struct bt_lod_set {
  bt_lod_rank *ranks; /* in the order of the trace's ranks */
  size_t count, capacity;
  uint64_t generation; /* counts up with every change */
} bt_lod_set;

void bt_lod_set_free(bt_lod_set *set);
bt_status bt_lod_set_update(bt_lod_set *set, const bt_trace *trace, size_t budget, bool *done);
/* The index of one lane of trace->ranks[rank_index]. */
const bt_lod *bt_lod_of(const bt_lod_set *set, size_t rank_index, bt_lane lane);

#endif
