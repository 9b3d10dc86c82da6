#include "tui/analysis/lod_sweep.h"

#include <stdlib.h>
#include <string.h>

/* A table, since it is asked for every span; what is not listed is slot 0. */
const uint8_t bt_lod_slots[256] = {
    [BT_F] = 0,          [BT_B] = 1,          [BT_W] = 2,         [BT_BW] = 3,         [BT_FB] = 4,
    [BT_RECOMPUTE] = 5,  [BT_OPTIMIZER] = 6,  [BT_OTHER] = 7,     [BT_GATE] = 8,       [BT_SEND_F] = 0,
    [BT_RECV_F] = 1,     [BT_SEND_B] = 2,     [BT_RECV_B] = 3,    [BT_ALL_REDUCE] = 0, [BT_REDUCE_SCATTER] = 1,
    [BT_ALL_GATHER] = 2, [BT_ALL_TO_ALL] = 3, [BT_BROADCAST] = 4, [BT_HOST] = 0,       [BT_SEND] = 4,
    [BT_RECV] = 5,
};

unsigned bt_lod_slot(unsigned kind) {
  return bt_lod_slots[kind & 0xFF];
}

bt_code bt_lod_kind(bt_lane lane, unsigned slot) {
  switch (lane) {
  case BT_LANE_COMPUTE: return slot < BT_LOD_GATE ? (bt_code)(BT_F + slot) : slot == BT_LOD_GATE ? BT_GATE : BT_NONE;
  case BT_LANE_P2P: return slot < 6 ? (bt_code)(BT_SEND_F + slot) : BT_NONE;
  case BT_LANE_COLLECTIVE: return slot < 5 ? (bt_code)(BT_ALL_REDUCE + slot) : BT_NONE;
  default: return slot == 0 ? BT_HOST : BT_NONE;
  }
}

/* Sweeps to `to`, which lies in `leaf`, past whole leaves without looking at them. `up_to`: what was busy up to where the
 * sweep stands; then up to `to`. */
static void sum_to(bt_sweep *s, int64_t to, size_t leaf, bt_lod_sum *up_to) {
  if (leaf * BT_LOD_LEAF > s->next) {
    bt_sweep_enter(s, leaf);
    s->now = s->lod->checkpoint[leaf].start;
    memcpy(up_to->busy, s->lod->before[leaf].busy, sizeof up_to->busy);
  }
  s->sum = up_to;
  bt_sweep_to(s, to);
}

/* To `from`, the start of a range. */
static void sum_seek(bt_sweep *s, const bt_lod *lod, const bt_track *track, int64_t from, bt_lod_sum *up_to) {
  size_t leaf =
      bt_lod_leaf_at(lod, track, from == INT64_MIN ? from : from - 1); /* spans at `from` itself may begin in it */
  bt_sweep_start(s, lod, track, leaf);
  if (s->now > from) s->now = from; /* before the first span */
  memset(up_to, 0, sizeof *up_to);
  if (leaf > 0) memcpy(up_to->busy, lod->before[leaf].busy, sizeof up_to->busy);
  s->sum = up_to;
  bt_sweep_to(s, from);
}

static void subtract(const bt_lod_sum *up_to, const bt_lod_sum *from, bt_lod_sum *sum) {
  for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++)
    sum->busy[slot] = up_to->busy[slot] - from->busy[slot];
}

/* The last leaf from `leaf` on that starts before `time`, or `leaf`. Looked for round `guess`, since columns have about
 * the same number of leaves. */
static size_t leaf_before(const bt_lod *lod, size_t leaf, size_t guess, int64_t time) {
  const bt_lod_checkpoint *checkpoint = lod->checkpoint;
  size_t low = leaf, high = lod->leaf_count + 1;
  if (guess == leaf) guess++;
  if (guess >= high) guess = lod->leaf_count;
  for (size_t step = 1; guess > low && guess < high; step *= 2) {
    if (checkpoint[guess].start < time) {
      low = guess;
      guess += step;
    } else {
      high = guess;
      guess = guess - low > step ? guess - step : low;
    }
  }
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (checkpoint[middle].start < time)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static void prefetch_leaf(const bt_sweep *s, size_t leaf) {
  enum { LINE = 64 };
  const char *at = (const char *)&s->track->spans[leaf * BT_LOD_LEAF];
  for (size_t i = 0; i < BT_LOD_LEAF * sizeof(bt_span) / 2; i += LINE)
    __builtin_prefetch(at + i);
  __builtin_prefetch(&s->lod->before[leaf]);
}

bool bt_lod_reaches(const bt_lod *lod, const bt_track *track, int64_t time) {
  size_t seen = bt_lod_visible(lod, track);
  return seen == track->count || track->spans[seen].start >= time;
}

void bt_lod_range(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, bt_lod_sum *sum) {
  memset(sum, 0, sizeof *sum);
  if (track->count == 0 || from >= to) return;
  bt_sweep s;
  bt_lod_sum start, end;
  sum_seek(&s, lod, track, from, &start);
  size_t first = s.next, leaf = bt_lod_leaf_at(lod, track, to - 1);
  end = start;
  sum_to(&s, to, leaf, &end);
  subtract(&end, &start, sum);
  sum->starts = (uint32_t)(s.next - first);
}

static bool is_sparse(const bt_sweep *s, int64_t end) {
  return s->next + BT_LOD_SPARSE >= s->limit || s->track->spans[s->next + BT_LOD_SPARSE].start >= end;
}

/* The edges of some columns that follow each other. */
typedef struct edges {
  int64_t width, end; /* of the last one found */
  size_t leaf, stride;
  struct {
    int64_t end;
    size_t leaf;
  } found[16];
  size_t count;
} edges;

/* Finds the next ones, and has what lies there fetched from memory all at once: waiting for each in turn is what would
 * take the time. Fewer than wanted: the rest lies beyond the end of time. */
static void find_edges(edges *e, const bt_sweep *s, size_t wanted) {
  e->count = 0;
  while (e->count < wanted && !__builtin_add_overflow(e->end, e->width, &e->end)) {
    size_t leaf = leaf_before(s->lod, e->leaf, e->leaf + e->stride, e->end);
    e->stride = leaf - e->leaf;
    e->leaf = leaf;
    if (e->stride > 0) prefetch_leaf(s, leaf);
    e->found[e->count].end = e->end;
    e->found[e->count++].leaf = leaf;
  }
}

bt_status bt_lod_columns(const bt_lod *lod, const bt_track *track, int64_t origin, int64_t width, size_t columns,
                         bt_lod_sum *sums, bt_lod_segments *segments) {
  enum { BATCH = sizeof((edges *)NULL)->found / sizeof((edges *)NULL)->found[0] };
  memset(sums, 0, columns * sizeof *sums);
  if (track->count == 0) return BT_OK;
  bt_sweep s;
  bt_lod_sum up_to, from;
  sum_seek(&s, lod, track, origin, &up_to);
  edges e = {.width = width, .end = origin, .leaf = s.next / BT_LOD_LEAF, .stride = 1};
  for (size_t column = 0; column < columns; column += e.count) {
    find_edges(&e, &s, columns - column < BATCH ? columns - column : BATCH);
    if (e.count == 0) break;
    for (size_t i = 0; i < e.count; i++) {
      bt_lod_sum *sum = &sums[column + i];
      int64_t end = e.found[i].end;
      size_t next = s.next;
      from = up_to;
      sum->segments = segments != NULL && is_sparse(&s, end);
      s.segments = sum->segments ? segments : NULL;
      s.sum = &up_to;
      if (sum->segments)
        bt_sweep_to(&s, end);
      else
        sum_to(&s, end, e.found[i].leaf, &up_to);
      subtract(&up_to, &from, sum);
      sum->starts = (uint32_t)(s.next - next);
    }
  }
  return s.out_of_memory ? BT_ERR_NOMEM : BT_OK;
}

uint64_t bt_lod_busy(const bt_lod_sum *sum, bt_lane lane) {
  uint64_t busy = 0;
  for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++) {
    if (lane != BT_LANE_COMPUTE || slot != BT_LOD_GATE) busy += sum->busy[slot];
  }
  return busy;
}

bool bt_lod_at(const bt_lod *lod, const bt_track *track, int64_t time, size_t *span) {
  if (track->count == 0 || time == INT64_MAX) return false;
  bt_sweep s;
  bt_lod_segments one = {NULL, 0, 0};
  bt_sweep_seek(&s, lod, track, time);
  s.segments = &one;
  bt_sweep_to(&s, time + 1);
  bool found = one.count > 0;
  if (found) *span = one.items[0].span;
  free(one.items);
  return found;
}
