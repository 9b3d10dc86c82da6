#include "tui/screen/range.h"

#include "tui/analysis/lod_cut.h"
#include "tui/screen/text.h"

static bt_class class_of(unsigned kind) {
  switch (kind) {
  case BT_F: return BT_CLASS_F;
  case BT_B: return BT_CLASS_B;
  case BT_W: return BT_CLASS_W;
  case BT_BW: return BT_CLASS_BW;
  case BT_FB: return BT_CLASS_FB;
  case BT_RECOMPUTE: return BT_CLASS_RECOMPUTE;
  case BT_OPTIMIZER: return BT_CLASS_OPTIMIZER;
  default: return BT_CLASS_OTHER;
  }
}

void bt_range_classes(const bt_trace *trace, const bt_lod_set *lods, const bt_gaps *gaps, size_t rank_index,
                      int64_t from, int64_t to, int64_t ns[BT_CLASS_COUNT]) {
  const bt_rank *rank = &trace->ranks[rank_index];
  int64_t rest = bt_time_sub(to, from);
  if (rest <= 0) return;
  bt_lod_sum sum;
  bt_lod_compute(lods, trace, rank_index, bt_raw_time(rank, from), bt_raw_time(rank, to), &sum);
  for (unsigned slot = 0; slot < BT_LOD_GATE; slot++) {
    int64_t busy = sum.busy[slot] < (uint64_t)rest ? (int64_t)sum.busy[slot] : rest;
    ns[class_of(bt_lod_kind(BT_LANE_COMPUTE, slot))] += busy;
    rest -= busy;
  }
  size_t count = 0;
  const bt_gap *gap = gaps == NULL ? NULL : bt_gaps_from(gaps, rank->rank, from, &count);
  for (; count > 0 && gap->start < to; gap++, count--) {
    int64_t start = gap->start > from ? gap->start : from, end = gap->end < to ? gap->end : to;
    int64_t idle = end - start < rest ? end - start : rest;
    ns[gap->class] += idle;
    rest -= idle;
  }
  ns[BT_CLASS_UNATTRIBUTED] += rest;
}
