/* The longest gaps, and the gap at a place. */
#include "tui/analysis/lod_sweep.h"

/* Level of the largest node that begins at `first` and ends by `end`. */
static unsigned node_level(size_t first, size_t end) {
  unsigned fits = 63 - (unsigned)__builtin_clzll(end - first);
  unsigned aligned = first == 0 ? 63 : (unsigned)__builtin_ctzll(first);
  return fits < aligned ? fits : aligned;
}

uint32_t bt_lod_longer_gap(const bt_lod *lod, uint32_t a, uint32_t b) {
  return lod->gap[b] > lod->gap[a] ? b : a;
}

bool bt_lod_leaf_gap(const bt_lod *lod, const bt_track *track, size_t leaf, int64_t from, int64_t end,
                     bt_gap_finder *gaps) {
  bt_sweep s;
  bt_sweep_start(&s, lod, track, leaf);
  if (s.now < from) bt_sweep_to(&s, from);
  s.now = from; /* which may be before the first span */
  s.gaps = gaps;
  bt_sweep_to(&s, end);
  gaps->closed = false;
  size_t last = s.next + BT_LOD_LEAF;
  while (gaps->in_gap && !gaps->closed && s.next < s.limit && s.next < last) {
    int64_t start = track->spans[s.next].start;
    bt_sweep_to(&s, start == INT64_MAX ? start : start + 1);
    if (start == INT64_MAX) break;
  }
  bt_gap_close(gaps, s.now);
  return gaps->any;
}

bool bt_lod_longest_gap(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, int64_t *start,
                        int64_t *end) {
  if (from >= to) return false;
  bt_gap_finder gaps = {.any = false};
  if (track->count == 0) {
    *start = from;
    *end = to;
    return true;
  }
  size_t first = bt_lod_leaf_at(lod, track, from), last = bt_lod_leaf_at(lod, track, to);
  /* The edge leaves are swept, and the last whole one too: its gap may reach beyond `to`. */
  if (last - first <= 2) {
    bt_sweep s;
    bt_sweep_seek(&s, lod, track, from);
    s.gaps = &gaps;
    bt_sweep_to(&s, to);
    bt_gap_close(&gaps, to);
  } else {
    bt_lod_leaf_gap(lod, track, first, from, bt_lod_leaf_start(track, first + 1), &gaps);
    uint32_t best = (uint32_t)first + 1;
    for (size_t leaf = first + 1; leaf < last - 1;) {
      unsigned level = node_level(leaf, last - 1);
      best = bt_lod_longer_gap(lod, best, lod->longest[bt_lod_node(leaf, level)]);
      leaf += (size_t)1 << level;
    }
    if (lod->gap[best] > 0)
      bt_lod_leaf_gap(lod, track, best, bt_lod_leaf_start(track, best), bt_lod_leaf_start(track, best + 1), &gaps);
    bt_sweep s;
    bt_sweep_start(&s, lod, track, last - 1);
    s.gaps = &gaps;
    bt_sweep_to(&s, to);
    bt_gap_close(&gaps, to);
  }
  *start = gaps.best_start < from ? from : gaps.best_start;
  *end = gaps.best_end > to ? to : gaps.best_end;
  return gaps.any && *start < *end;
}

bool bt_lod_gap_at(const bt_lod *lod, const bt_track *track, int64_t time, int64_t *start, int64_t *end) {
  *start = INT64_MIN;
  *end = INT64_MAX;
  if (track->count == 0) return true;
  if (time == INT64_MAX) return false;
  size_t leaf = bt_lod_leaf_at(lod, track, time);
  bt_gap_finder gaps = {.any = false};
  for (size_t from = leaf;; from--) { /* back to a leaf with something other than gates before `time` */
    gaps = (bt_gap_finder){.any = false};
    bt_sweep s;
    bt_sweep_start(&s, lod, track, from);
    if (s.now > time) s.now = time; /* before the first span */
    s.gaps = &gaps;
    bt_sweep_to(&s, time);
    bool before = gaps.closed || from == 0;
    bt_sweep_to(&s, time + 1);
    if (!gaps.in_gap) return false;
    if (!before) continue;
    *start = gaps.closed ? gaps.open : INT64_MIN;
    gaps.closed = gaps.any = false;
    gaps.first = true;
    while (!gaps.closed && s.next < s.limit) {
      int64_t next = track->spans[s.next].start;
      if (next == INT64_MAX) break;
      bt_sweep_to(&s, next + 1);
    }
    /* A gate that reveals the span under it ends the gap without a start of its own. */
    if (!gaps.closed) bt_sweep_to(&s, INT64_MAX);
    if (gaps.closed) *end = gaps.best_end;
    return true;
  }
}
