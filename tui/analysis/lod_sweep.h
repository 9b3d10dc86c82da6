/* The sweep that all of lod*.c is made of: spans of a track -> disjoint segments. Private to the index.
 *
 * A sweep begins at the start of a leaf and goes on in time; what it comes past is added to a sum, collected as segments, or
 * searched for gaps, by which of these it was given.
 */
#ifndef BT_ANALYSIS_LOD_SWEEP_H
#define BT_ANALYSIS_LOD_SWEEP_H

#include "tui/analysis/lod.h"

typedef struct bt_gap_finder {
  int64_t open; /* where the current gap began */
  int64_t best_start, best_end;
  bool in_gap, any, closed; /* closed: a span came after the gap that was open */
  bool first; /* the first one is wanted, not the longest */
} bt_gap_finder;

/* Spans on the stack end strictly earlier from bottom to top: one that would end under its successor is never seen
 * again, so it is dropped. The lower part of the stack is a list in the index's pool. */
typedef struct bt_sweep {
  const bt_lod *lod;
  const bt_track *track;
  size_t next, limit; /* span to push next; one past the last that may be */
  int64_t now;
  uint32_t below;
  unsigned depth;
  struct {
    int64_t end;
    uint32_t span;
  } stack[BT_LOD_LEAF + 1];
  bt_lod_sum *sum;
  bt_lod_segments *segments;
  bt_gap_finder *gaps;
  bool out_of_memory;
} bt_sweep;

static inline int64_t bt_lod_leaf_start(const bt_track *track, size_t leaf) {
  return track->spans[leaf * BT_LOD_LEAF].start;
}

/* bt_lod_slot of all kinds. */
extern const uint8_t bt_lod_slots[256];

/* The place of the forest's node of `level` that begins at leaf `first`. */
static inline size_t bt_lod_node(size_t first, unsigned level) {
  return 2 * first + ((size_t)1 << level) - 1;
}

/* Spans that can be seen: those of the leaves, and of the part behind them. */
size_t bt_lod_visible(const bt_lod *lod, const bt_track *track);
/* The leaf that holds `time`: the last that starts at or before it, or 0. */
size_t bt_lod_leaf_at(const bt_lod *lod, const bt_track *track, int64_t time);

/* Stands at the start of the leaf, with nothing to add to. */
void bt_sweep_start(bt_sweep *s, const bt_lod *lod, const bt_track *track, size_t leaf);
/* Stands at `time`. */
void bt_sweep_seek(bt_sweep *s, const bt_lod *lod, const bt_track *track, int64_t time);
/* Goes on at the start of another leaf; `now` and the sum are the caller's business. */
void bt_sweep_enter(bt_sweep *s, size_t leaf);
/* Sweeps up to `time`; spans that start at it are not on the stack yet. */
void bt_sweep_to(bt_sweep *s, int64_t time);
/* Puts the next span on the stack, at the time where the sweep stands. */
void bt_sweep_push(bt_sweep *s);

/* The gap that is open ends. */
void bt_gap_close(bt_gap_finder *gaps, int64_t at);
/* Finds the longest gap of [from, end) in a leaf. It may reach beyond it (behind a gate at the edge), so the sweep goes on, at
 * most one leaf further, until a span ends the gap. */
bool bt_lod_leaf_gap(const bt_lod *lod, const bt_track *track, size_t leaf, int64_t from, int64_t end,
                     bt_gap_finder *gaps);
/* Which of two leaves has the longer gap. */
uint32_t bt_lod_longer_gap(const bt_lod *lod, uint32_t a, uint32_t b);

#endif
