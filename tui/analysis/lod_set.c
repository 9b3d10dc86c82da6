/* The indexes of all ranks. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/lod_cut.h"

void bt_lod_set_free(bt_lod_set *set) {
  for (size_t i = 0; i < set->count; i++) {
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++)
      bt_lod_free(&set->ranks[i].lanes[lane]);
    bt_lod_cut_free(&set->ranks[i].cut);
  }
  free(set->ranks);
  memset(set, 0, sizeof *set);
}

/* Makes the set hold exactly the trace's ranks, in its order: ranks are only ever added. */
static bt_status match_ranks(bt_lod_set *set, const bt_trace *trace) {
  if (set->count == trace->rank_count) return BT_OK;
  if (trace->rank_count > set->capacity) {
    size_t capacity = trace->rank_count + trace->rank_count / 2;
    bt_lod_rank *ranks = realloc(set->ranks, capacity * sizeof *ranks);
    if (ranks == NULL) return BT_ERR_NOMEM;
    set->ranks = ranks;
    set->capacity = capacity;
  }
  size_t old = set->count;
  for (size_t i = trace->rank_count; i-- > 0;) { /* from behind, so that the move is in place */
    if (old > 0 && set->ranks[old - 1].rank == trace->ranks[i].rank) {
      set->ranks[i] = set->ranks[--old];
    } else {
      memset(&set->ranks[i], 0, sizeof set->ranks[i]);
      set->ranks[i].rank = trace->ranks[i].rank;
    }
  }
  set->count = trace->rank_count;
  return BT_OK;
}

/* One rank, as far as `budget` goes, which is counted down; 0: no bound. */
static bt_status update_rank(bt_lod_set *set, bt_lod_rank *own, const bt_rank *rank, size_t *budget, bool *done) {
  bool compute_done = true;
  for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
    bt_lod *lod = &own->lanes[lane];
    if (bt_lod_is_current(lod, &rank->tracks[lane])) continue;
    uint64_t before = lod->built;
    bool lane_done;
    bt_status status = bt_lod_update(lod, &rank->tracks[lane], *budget, &lane_done);
    if (status != BT_OK) return status;
    set->generation++;
    *done = *done && lane_done;
    if (lane == BT_LANE_COMPUTE) compute_done = lane_done;
    size_t built = (size_t)(lod->built - before) * BT_LOD_LEAF;
    if (*budget != 0) *budget = built < *budget ? *budget - built : 1;
  }
  if (!compute_done) return BT_OK;
  bool cut_done;
  size_t leaves = own->cut.count;
  bt_status status = bt_lod_cut_update(&own->cut, rank, &own->lanes[BT_LANE_COMPUTE], *budget, &cut_done);
  if (own->cut.count != leaves) set->generation++;
  *done = *done && cut_done;
  return status;
}

bt_status bt_lod_set_update(bt_lod_set *set, const bt_trace *trace, size_t budget, bool *done) {
  *done = true;
  bt_status status = match_ranks(set, trace);
  for (size_t i = 0; i < set->count && status == BT_OK; i++)
    status = update_rank(set, &set->ranks[i], &trace->ranks[i], &budget, done);
  return status;
}

const bt_lod *bt_lod_of(const bt_lod_set *set, size_t rank_index, bt_lane lane) {
  static const bt_lod empty;
  return rank_index < set->count ? &set->ranks[rank_index].lanes[lane] : &empty;
}
