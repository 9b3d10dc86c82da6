#include "tui/analysis/lod_memo.h"

#include <stdlib.h>
#include <string.h>

void bt_lod_memo_free(bt_lod_memo *memo) {
  free(memo->sums);
  memset(memo, 0, sizeof *memo);
}

/* Moves the sums to where they are in the new picture. [*from, *to): columns that are known there. */
static void move_kept(bt_lod_memo *memo, int64_t origin, size_t columns, size_t *from, size_t *to) {
  *from = *to = 0;
  int64_t moved;
  if (memo->kept == 0 || __builtin_sub_overflow(origin, memo->origin, &moved) || moved % memo->width != 0) return;
  int64_t by = moved / memo->width; /* columns to the left */
  if (by >= (int64_t)memo->kept || by <= -(int64_t)columns) return;
  size_t first = by > 0 ? (size_t)by : 0, count = memo->kept - first;
  *from = by < 0 ? (size_t)-by : 0;
  if (count > columns - *from) count = columns - *from;
  *to = *from + count;
  memmove(&memo->sums[*from], &memo->sums[first], count * sizeof *memo->sums);
}

/* How many of the columns lie before anything that may still change. */
static size_t final_columns(const bt_lod_memo *memo, const bt_lod *lod, const bt_track *track) {
  size_t final = lod->leaf_count * BT_LOD_LEAF;
  if (track->settled < final) final = track->settled;
  if (final == 0) return 0;
  int64_t until = track->spans[final - 1].start;
  if (until <= memo->origin) return 0;
  uint64_t count = ((uint64_t)until - (uint64_t)memo->origin) / (uint64_t)memo->width;
  return count < memo->columns ? (size_t)count : memo->columns;
}

static bt_status make_room(bt_lod_memo *memo, size_t columns) {
  if (columns <= memo->capacity) return BT_OK;
  bt_lod_sum *sums = realloc(memo->sums, columns * sizeof *sums);
  if (sums == NULL) return BT_ERR_NOMEM;
  memo->sums = sums;
  memo->capacity = columns;
  return BT_OK;
}

bt_status bt_lod_memo_columns(bt_lod_memo *memo, const bt_lod_set *set, const bt_trace *trace, size_t rank_index,
                              bt_lane lane, int64_t origin, int64_t width, size_t columns, bt_lod_segments *segments) {
  enum { NEAR = 3 }; /* finding the place again costs as much as so many columns */
  const bt_rank *rank = &trace->ranks[rank_index];
  const bt_track *track = &rank->tracks[lane];
  const bt_lod *lod = bt_lod_of(set, rank_index, lane);
  bt_status status = make_room(memo, columns);
  if (status != BT_OK) return status;
  if (memo->rank != rank->rank || memo->lane != lane || memo->width != width || memo->reordered != trace->reordered) {
    memo->kept = 0;
  }
  size_t from, to;
  move_kept(memo, origin, columns, &from, &to);
  memo->rank = rank->rank;
  memo->lane = lane;
  memo->origin = origin;
  memo->width = width;
  memo->columns = columns;
  memo->reordered = trace->reordered;
  memo->kept = 0;
  for (size_t column = 0; column < columns && status == BT_OK;) {
    if (column >= from && column < to && !memo->sums[column].segments) {
      column++;
      continue;
    }
    /* a stretch of columns that are not known, or whose segments are wanted */
    size_t end = column + 1;
    for (size_t at = end; at < columns && at - end < NEAR; at++) {
      if (at < from || at >= to || memo->sums[at].segments) end = at + 1;
    }
    int64_t start;
    if (__builtin_mul_overflow((int64_t)column, width, &start) || __builtin_add_overflow(origin, start, &start)) {
      memset(&memo->sums[column], 0, (columns - column) * sizeof *memo->sums);
      break;
    }
    status = bt_lod_columns(lod, track, start, width, end - column, &memo->sums[column], segments);
    column = end;
  }
  if (status == BT_OK) memo->kept = final_columns(memo, lod, track);
  return status;
}
