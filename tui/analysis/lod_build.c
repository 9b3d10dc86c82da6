/* Building the index and keeping it up to its track. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/lod_sweep.h"

static bool resize(void *array, size_t count, size_t size) {
  void **at = array;
  void *moved = realloc(*at, count * size);
  if (moved != NULL) *at = moved;
  return moved != NULL;
}

static bt_status grow(bt_lod *lod, size_t leaves) {
  if (leaves > lod->leaf_capacity) {
    size_t capacity = leaves + leaves / 8 + 16;
    bool first = lod->checkpoint == NULL || lod->before == NULL;
    if (!resize(&lod->checkpoint, capacity + 1, sizeof *lod->checkpoint) ||
        !resize(&lod->before, capacity + 1, sizeof *lod->before) || !resize(&lod->gap, capacity, sizeof *lod->gap) ||
        !resize(&lod->longest, 2 * capacity, sizeof *lod->longest)) {
      return BT_ERR_NOMEM;
    }
    if (first) {
      memset(lod->checkpoint, 0, sizeof *lod->checkpoint);
      memset(lod->before, 0, sizeof *lod->before);
    }
    lod->leaf_capacity = capacity;
  }
  if (lod->pool_count + BT_LOD_LEAF > lod->pool_capacity) {
    size_t capacity = lod->pool_capacity + lod->pool_capacity / 2 + BT_LOD_LEAF;
    if (!resize(&lod->pool, capacity, sizeof *lod->pool)) return BT_ERR_NOMEM;
    lod->pool_capacity = capacity;
  }
  return BT_OK;
}

/* Sums the leaf, and keeps what is still on the stack at its end for the next one. */
static void build_leaf(bt_lod *lod, const bt_track *track) {
  size_t leaf = lod->leaf_count;
  bt_sweep s;
  bt_lod_sum sum = {.starts = 0};
  memcpy(sum.busy, lod->before[leaf].busy, sizeof sum.busy);
  bt_sweep_start(&s, lod, track, leaf);
  s.limit = (leaf + 1) * BT_LOD_LEAF;
  s.sum = &sum;
  int64_t end = bt_lod_leaf_start(track, leaf + 1);
  bt_sweep_to(&s, end);
  while (s.next < s.limit)
    bt_sweep_push(&s); /* those that start at the very end of the leaf */
  memcpy(lod->before[leaf + 1].busy, sum.busy, sizeof sum.busy);
  uint32_t top = s.below;
  for (unsigned i = 0; i < s.depth && s.stack[i].end > end; i++) {
    lod->pool[lod->pool_count++] = (bt_lod_carried){.span = s.stack[i].span, .below = top};
    top = (uint32_t)lod->pool_count;
  }
  lod->leaf_count++;
  lod->built++;
  lod->checkpoint[lod->leaf_count] =
      (bt_lod_checkpoint){.start = end, .top = top, .pool_count = (uint32_t)lod->pool_count};
  if (leaf == 0) lod->checkpoint[0].start = bt_lod_leaf_start(track, 0);

  bt_gap_finder gaps = {.any = false};
  bool any = bt_lod_leaf_gap(lod, track, leaf, bt_lod_leaf_start(track, leaf), end, &gaps);
  lod->gap[leaf] = any ? (uint64_t)gaps.best_end - (uint64_t)gaps.best_start : 0;
  lod->longest[bt_lod_node(leaf, 0)] = (uint32_t)leaf;
  for (unsigned level = 1; lod->leaf_count % ((size_t)1 << level) == 0; level++) {
    size_t half = (size_t)1 << (level - 1), first = lod->leaf_count - 2 * half;
    lod->longest[bt_lod_node(first, level)] = bt_lod_longer_gap(lod, lod->longest[bt_lod_node(first, level - 1)],
                                                                lod->longest[bt_lod_node(first + half, level - 1)]);
  }
}

/* Leaves that will not change while the spans before `settled` do not: their sums depend on the next span, their gaps on the
 * next leaf. */
static size_t final_leaves(size_t settled) {
  size_t leaves = settled / BT_LOD_LEAF;
  return leaves > 2 ? leaves - 2 : 0;
}

bool bt_lod_is_current(const bt_lod *lod, const bt_track *track) {
  return lod->seen_count == track->count && lod->seen_settled == track->settled && lod->seen_moves == track->moves;
}

bt_status bt_lod_update(bt_lod *lod, const bt_track *track, size_t budget, bool *done) {
  *done = true;
  if (bt_lod_is_current(lod, track)) return BT_OK;
  if (lod->seen_moves != track->moves) {
    size_t kept = final_leaves(bt_track_moved(track, lod->seen_moves));
    if (kept < lod->settled_leaves) lod->settled_leaves = kept;
    lod->seen_moves = track->moves;
  }
  lod->leaf_count = lod->settled_leaves;
  lod->pool_count = lod->checkpoint == NULL ? 0 : lod->checkpoint[lod->leaf_count].pool_count;
  bt_status status = BT_OK;
  size_t built = 0;
  size_t settled = final_leaves(track->settled);
  while ((lod->leaf_count + 1) * BT_LOD_LEAF < track->count) {
    /* The unsettled part is built whole or not at all: progress in it would be lost. */
    if (budget != 0 && built >= budget && lod->leaf_count < settled) {
      *done = false;
      break;
    }
    status = grow(lod, lod->leaf_count + 1);
    if (status != BT_OK) break;
    build_leaf(lod, track);
    built += BT_LOD_LEAF;
  }
  lod->settled_leaves = settled < lod->leaf_count ? settled : lod->leaf_count;
  lod->seen_count = *done && status == BT_OK ? track->count : SIZE_MAX;
  lod->seen_settled = track->settled;
  return status;
}

void bt_lod_free(bt_lod *lod) {
  free(lod->checkpoint);
  free(lod->before);
  free(lod->gap);
  free(lod->longest);
  free(lod->pool);
  memset(lod, 0, sizeof *lod);
}

size_t bt_lod_bytes(const bt_lod *lod) {
  return lod->leaf_capacity *
             (sizeof *lod->checkpoint + sizeof *lod->before + sizeof *lod->gap + 2 * sizeof *lod->longest) +
         lod->pool_capacity * sizeof *lod->pool;
}
