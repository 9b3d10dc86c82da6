#include "tui/screen/rows.h"

#include <stdlib.h>
#include <string.h>

void bt_rows_free(bt_rows *rows) {
  free(rows->items);
  free(rows->members);
  memset(rows, 0, sizeof *rows);
}

static int compare_members(const void *a, const void *b) {
  const bt_stage_member *x = a, *y = b;
  if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static bt_status collect(bt_rows *rows, const bt_trace *trace, int32_t replica) {
  rows->member_count = 0;
  rows->replicas = 1;
  if (trace->rank_count > rows->member_capacity) {
    bt_stage_member *members = realloc(rows->members, trace->rank_count * sizeof *members);
    if (members == NULL) return BT_ERR_NOMEM;
    rows->members = members;
    rows->member_capacity = trace->rank_count;
  }
  bool sorted = true;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    int32_t own = bt_rank_replica(rank);
    if (own >= rows->replicas && own < INT32_MAX) rows->replicas = own + 1;
    if (own != replica) continue;
    bt_stage_member *member = &rows->members[rows->member_count++];
    *member = (bt_stage_member){.stage = bt_rank_stage(rank), .rank = rank->rank, .rank_index = i};
    if (rows->member_count > 1 && compare_members(member - 1, member) > 0) sorted = false;
  }
  if (!sorted) qsort(rows->members, rows->member_count, sizeof *rows->members, compare_members);
  return BT_OK;
}

static bool add_row(bt_rows *rows, bt_row row) {
  if (rows->count == rows->capacity) {
    size_t capacity = rows->capacity == 0 ? 64 : rows->capacity * 2;
    bt_row *items = realloc(rows->items, capacity * sizeof *items);
    if (items == NULL) return false;
    rows->items = items;
    rows->capacity = capacity;
  }
  rows->items[rows->count++] = row;
  return true;
}

static bool add_lanes(bt_rows *rows, const bt_trace *trace, const bt_stage_member *members, size_t count) {
  for (size_t i = 0; i < count; i++) {
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
      if (lane == BT_LANE_COMPUTE && i == 0) continue; /* the stage's own row shows it */
      if (lane != BT_LANE_COMPUTE && trace->ranks[members[i].rank_index].tracks[lane].count == 0) continue;
      bt_row row = {.stage = members[i].stage,
                    .rank = members[i].rank,
                    .rank_index = members[i].rank_index,
                    .members = count,
                    .lane = (bt_lane)lane,
                    .is_lane = true};
      if (!add_row(rows, row)) return false;
    }
  }
  return true;
}

bt_status bt_rows_build(bt_rows *rows, const bt_trace *trace, int32_t replica, const int32_t *open, size_t open_count) {
  bt_status status = collect(rows, trace, replica);
  if (status != BT_OK) return status;
  rows->count = 0;
  rows->stages = 0;
  for (size_t i = 0; i < rows->member_count;) {
    const bt_stage_member *first = &rows->members[i];
    size_t count = 1;
    while (i + count < rows->member_count && rows->members[i + count].stage == first->stage)
      count++;
    bt_row row = {.stage = first->stage, .rank = -1, .rank_index = first->rank_index, .members = count};
    if (!add_row(rows, row)) return BT_ERR_NOMEM;
    rows->stages++;
    for (size_t k = 0; k < open_count; k++) {
      if (open[k] == first->stage && !add_lanes(rows, trace, first, count)) return BT_ERR_NOMEM;
    }
    i += count;
  }
  return BT_OK;
}

const bt_stage_member *bt_rows_members(const bt_rows *rows, int32_t stage, size_t *count) {
  size_t low = 0, high = rows->member_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (rows->members[middle].stage < stage)
      low = middle + 1;
    else
      high = middle;
  }
  *count = 0;
  while (low + *count < rows->member_count && rows->members[low + *count].stage == stage)
    ++*count;
  return &rows->members[low];
}
