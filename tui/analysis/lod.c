#include "tui/analysis/lod.h"

#include "tui/analysis/lod_cut.h"

#include <stdlib.h>
#include <string.h>

/* A table, since it is asked for every span; what is not listed is slot 0. */
static const uint8_t slots[256] = {
    [BT_F] = 0,          [BT_B] = 1,          [BT_W] = 2,         [BT_BW] = 3,         [BT_FB] = 4,
    [BT_RECOMPUTE] = 5,  [BT_OPTIMIZER] = 6,  [BT_OTHER] = 7,     [BT_GATE] = 8,       [BT_SEND_F] = 0,
    [BT_RECV_F] = 1,     [BT_SEND_B] = 2,     [BT_RECV_B] = 3,    [BT_ALL_REDUCE] = 0, [BT_REDUCE_SCATTER] = 1,
    [BT_ALL_GATHER] = 2, [BT_ALL_TO_ALL] = 3, [BT_BROADCAST] = 4, [BT_HOST] = 0,       [BT_SEND] = 4,
    [BT_RECV] = 5,
};

unsigned bt_lod_slot(unsigned kind) {
  return slots[kind & 0xFF];
}

bt_code bt_lod_kind(bt_lane lane, unsigned slot) {
  switch (lane) {
  case BT_LANE_COMPUTE: return slot < BT_LOD_GATE ? (bt_code)(BT_F + slot) : slot == BT_LOD_GATE ? BT_GATE : BT_NONE;
  case BT_LANE_P2P: return slot < 6 ? (bt_code)(BT_SEND_F + slot) : BT_NONE;
  case BT_LANE_COLLECTIVE: return slot < 5 ? (bt_code)(BT_ALL_REDUCE + slot) : BT_NONE;
  default: return slot == 0 ? BT_HOST : BT_NONE;
  }
}

/* --- the sweep: spans -> disjoint segments -------------------------------------------------------------------------- */

typedef struct gap_finder {
  int64_t open; /* where the current gap began */
  int64_t best_start, best_end;
  bool in_gap, any, closed; /* closed: a span came after the gap that was open */
  bool first; /* the first one is wanted, not the longest */
} gap_finder;

/* Spans on the stack end strictly earlier from bottom to top: one that would end under its successor is never seen
 * again, so it is dropped. The lower part of the stack is a list in the index's pool. */
typedef struct sweep {
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
  gap_finder *gaps;
  bool out_of_memory;
} sweep;

static int64_t span_end(const bt_track *track, const bt_span *span) {
  int64_t end;
  return __builtin_add_overflow(span->start, bt_span_duration(track, span), &end) ? INT64_MAX : end;
}

static int64_t leaf_start(const bt_track *track, size_t leaf) {
  return track->spans[leaf * BT_LOD_LEAF].start;
}

static void append_segment(sweep *s, uint32_t span, int64_t from, int64_t to) {
  bt_lod_segments *out = s->segments;
  if (out->count > 0 && out->items[out->count - 1].span == span && out->items[out->count - 1].end == from) {
    out->items[out->count - 1].end = to;
    return;
  }
  if (out->count == out->capacity) {
    size_t capacity = out->capacity == 0 ? 256 : out->capacity * 2;
    bt_lod_segment *items = realloc(out->items, capacity * sizeof *items);
    if (items == NULL) {
      s->out_of_memory = true;
      return;
    }
    out->items = items;
    out->capacity = capacity;
  }
  out->items[out->count++] = (bt_lod_segment){.start = from, .end = to, .span = span};
}

static void gap_open(gap_finder *gaps, int64_t from) {
  if (gaps->in_gap) return;
  gaps->in_gap = true;
  gaps->open = from;
}

static void gap_close(gap_finder *gaps, int64_t at) {
  gaps->closed = true;
  if (!gaps->in_gap) return;
  gaps->in_gap = false;
  if (gaps->any && gaps->first) return;
  if (!gaps->any || (uint64_t)at - (uint64_t)gaps->open > (uint64_t)gaps->best_end - (uint64_t)gaps->best_start) {
    gaps->best_start = gaps->open;
    gaps->best_end = at;
    gaps->any = true;
  }
}

static void emit(sweep *s, uint32_t span, int64_t from, int64_t to) {
  unsigned kind = s->track->spans[span].kind;
  if (s->sum != NULL) s->sum->busy[bt_lod_slot(kind)] += (uint64_t)to - (uint64_t)from;
  if (s->segments != NULL) append_segment(s, span, from, to);
  if (s->gaps == NULL) return;
  if (kind == BT_GATE)
    gap_open(s->gaps, from);
  else
    gap_close(s->gaps, from);
}

/* What lies on the stack is seen until `time`; then no span may be seen before it any more. */
static void advance(sweep *s, int64_t time) {
  while (s->now < time) {
    uint32_t span;
    int64_t end;
    if (s->depth > 0) {
      span = s->stack[s->depth - 1].span;
      end = s->stack[s->depth - 1].end;
      if (end <= s->now) {
        s->depth--;
        continue;
      }
    } else if (s->below != 0) {
      span = s->lod->pool[s->below - 1].span;
      end = span_end(s->track, &s->track->spans[span]);
      if (end <= s->now) {
        s->below = s->lod->pool[s->below - 1].below;
        continue;
      }
    } else {
      if (s->gaps != NULL) gap_open(s->gaps, s->now);
      s->now = time;
      return;
    }
    int64_t until = end < time ? end : time;
    emit(s, span, s->now, until);
    s->now = until;
  }
}

static void push(sweep *s) {
  uint32_t index = (uint32_t)s->next++;
  const bt_span *span = &s->track->spans[index];
  int64_t end = span_end(s->track, span);
  if (end <= s->now) return; /* no length */
  while (s->depth > 0 && s->stack[s->depth - 1].end <= end)
    s->depth--;
  while (s->depth == 0 && s->below != 0) {
    const bt_lod_carried *under = &s->lod->pool[s->below - 1];
    if (span_end(s->track, &s->track->spans[under->span]) > end) break;
    s->below = under->below;
  }
  s->stack[s->depth].span = index;
  s->stack[s->depth++].end = end;
}

/* The state there is the same as the sweep's own, with an empty stack. */
static void enter_leaf(sweep *s, size_t leaf) {
  s->next = leaf * BT_LOD_LEAF;
  s->below = s->lod->checkpoint == NULL ? 0 : s->lod->checkpoint[leaf].top;
  s->depth = 0;
}

/* The common case of sums: nothing is open, and spans follow each other without overlap. */
static void sweep_flat(sweep *s, int64_t time) {
  const bt_span *spans = s->track->spans;
  size_t next = s->next;
  while (next + 1 < s->limit) {
    const bt_span *span = &spans[next];
    int64_t start = span->start;
    uint64_t length = span->duration32;
    if (span[1].start >= time || length > (uint64_t)span[1].start - (uint64_t)start || length == UINT32_MAX) break;
    s->sum->busy[slots[span->kind]] += length;
    next++;
  }
  if (next == s->next) return;
  s->next = next;
  s->now = spans[next].start; /* idle up to there */
}

/* Sweeps up to `time`; spans that start at it are not on the stack yet. */
static void sweep_to(sweep *s, int64_t time) {
  bool sums_only = s->sum != NULL && s->segments == NULL && s->gaps == NULL;
  while (s->next < s->limit && s->track->spans[s->next].start < time) {
    advance(s, s->track->spans[s->next].start);
    if (s->next % BT_LOD_LEAF == 0) enter_leaf(s, s->next / BT_LOD_LEAF);
    while (s->depth > 0 && s->stack[s->depth - 1].end <= s->now)
      s->depth--;
    if (sums_only && s->depth == 0 && s->below == 0) sweep_flat(s, time);
    if (s->next % BT_LOD_LEAF == 0) enter_leaf(s, s->next / BT_LOD_LEAF);
    push(s);
  }
  advance(s, time);
}

static size_t visible_spans(const bt_lod *lod, const bt_track *track) {
  size_t limit = (lod->leaf_count + 1) * BT_LOD_LEAF;
  return limit < track->count ? limit : track->count;
}

/* The leaf that holds `time`: the last that starts at or before it, or 0. */
static size_t leaf_at(const bt_lod *lod, const bt_track *track, int64_t time) {
  size_t low = 0, high = lod->leaf_count;
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (leaf_start(track, middle) <= time)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static void sweep_start(sweep *s, const bt_lod *lod, const bt_track *track, size_t leaf) {
  s->lod = lod;
  s->track = track;
  s->limit = visible_spans(lod, track);
  s->sum = NULL;
  s->segments = NULL;
  s->gaps = NULL;
  s->out_of_memory = false;
  enter_leaf(s, leaf);
  s->now = track->count > 0 ? leaf_start(track, leaf) : INT64_MIN;
}

static void sweep_seek(sweep *s, const bt_lod *lod, const bt_track *track, int64_t time) {
  sweep_start(s, lod, track, track->count > 0 ? leaf_at(lod, track, time) : 0);
  if (s->now < time)
    sweep_to(s, time);
  else
    s->now = time;
}

/* --- the forest ----------------------------------------------------------------------------------------------------- */

static size_t node_index(size_t first, unsigned level) {
  return 2 * first + ((size_t)1 << level) - 1;
}

/* Level of the largest node that begins at `first` and ends by `end`. */
static unsigned node_level(size_t first, size_t end) {
  unsigned fits = 63 - (unsigned)__builtin_clzll(end - first);
  unsigned aligned = first == 0 ? 63 : (unsigned)__builtin_ctzll(first);
  return fits < aligned ? fits : aligned;
}

static uint32_t longer_gap(const bt_lod *lod, uint32_t a, uint32_t b) {
  return lod->gap[b] > lod->gap[a] ? b : a;
}

/* --- building ------------------------------------------------------------------------------------------------------- */

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

/* Finds the longest gap that begins in a leaf. It may reach beyond it (behind a gate at the edge), so the sweep goes on, at most
 * one leaf further, until a span ends the gap. */
static bool leaf_gap(const bt_lod *lod, const bt_track *track, size_t leaf, int64_t from, int64_t end,
                     gap_finder *gaps) {
  sweep s;
  sweep_start(&s, lod, track, leaf);
  if (s.now < from) sweep_to(&s, from);
  s.now = from; /* which may be before the first span */
  s.gaps = gaps;
  sweep_to(&s, end);
  gaps->closed = false;
  size_t last = s.next + BT_LOD_LEAF;
  while (gaps->in_gap && !gaps->closed && s.next < s.limit && s.next < last) {
    int64_t start = track->spans[s.next].start;
    sweep_to(&s, start == INT64_MAX ? start : start + 1);
    if (start == INT64_MAX) break;
  }
  gap_close(gaps, s.now);
  return gaps->any;
}

/* Sums the leaf, and keeps what is still on the stack at its end for the next one. */
static void build_leaf(bt_lod *lod, const bt_track *track) {
  size_t leaf = lod->leaf_count;
  sweep s;
  bt_lod_sum sum = {.starts = 0};
  memcpy(sum.busy, lod->before[leaf].busy, sizeof sum.busy);
  sweep_start(&s, lod, track, leaf);
  s.limit = (leaf + 1) * BT_LOD_LEAF;
  s.sum = &sum;
  int64_t end = leaf_start(track, leaf + 1);
  sweep_to(&s, end);
  while (s.next < s.limit)
    push(&s); /* those that start at the very end of the leaf */
  memcpy(lod->before[leaf + 1].busy, sum.busy, sizeof sum.busy);
  uint32_t top = s.below;
  for (unsigned i = 0; i < s.depth && s.stack[i].end > end; i++) {
    lod->pool[lod->pool_count++] = (bt_lod_carried){.span = s.stack[i].span, .below = top};
    top = (uint32_t)lod->pool_count;
  }
  lod->leaf_count++;
  lod->checkpoint[lod->leaf_count] =
      (bt_lod_checkpoint){.start = end, .top = top, .pool_count = (uint32_t)lod->pool_count};
  if (leaf == 0) lod->checkpoint[0].start = leaf_start(track, 0);

  gap_finder gaps = {.any = false};
  bool any = leaf_gap(lod, track, leaf, leaf_start(track, leaf), end, &gaps);
  lod->gap[leaf] = any ? (uint64_t)gaps.best_end - (uint64_t)gaps.best_start : 0;
  lod->longest[node_index(leaf, 0)] = (uint32_t)leaf;
  for (unsigned level = 1; lod->leaf_count % ((size_t)1 << level) == 0; level++) {
    size_t half = (size_t)1 << (level - 1), first = lod->leaf_count - 2 * half;
    lod->longest[node_index(first, level)] =
        longer_gap(lod, lod->longest[node_index(first, level - 1)], lod->longest[node_index(first + half, level - 1)]);
  }
}

bt_status bt_lod_update(bt_lod *lod, const bt_track *track, size_t budget, bool *done) {
  *done = true;
  if (lod->seen_count == track->count && lod->seen_settled == track->settled) return BT_OK;
  lod->leaf_count = lod->settled_leaves;
  lod->pool_count = lod->checkpoint == NULL ? 0 : lod->checkpoint[lod->leaf_count].pool_count;
  bt_status status = BT_OK;
  size_t built = 0;
  /* A leaf's sums depend on the next span, its gap on the next leaf. */
  size_t settled = track->settled / BT_LOD_LEAF;
  settled = settled > 2 ? settled - 2 : 0;
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

void bt_lod_reset(bt_lod *lod) {
  lod->leaf_count = 0;
  lod->settled_leaves = 0;
  lod->pool_count = 0;
  lod->seen_count = 0;
}

size_t bt_lod_bytes(const bt_lod *lod) {
  return lod->leaf_capacity *
             (sizeof *lod->checkpoint + sizeof *lod->before + sizeof *lod->gap + 2 * sizeof *lod->longest) +
         lod->pool_capacity * sizeof *lod->pool;
}

/* --- queries -------------------------------------------------------------------------------------------------------- */

/* Sweeps to `to`, which lies in `leaf`, past whole leaves without looking at them. `up_to`: what was busy up to where the
 * sweep stands; then up to `to`. */
static void sum_to(sweep *s, int64_t to, size_t leaf, bt_lod_sum *up_to) {
  if (leaf * BT_LOD_LEAF > s->next) {
    enter_leaf(s, leaf);
    s->now = s->lod->checkpoint[leaf].start;
    memcpy(up_to->busy, s->lod->before[leaf].busy, sizeof up_to->busy);
  }
  s->sum = up_to;
  sweep_to(s, to);
}

/* To `from`, the start of a range. */
static void sum_seek(sweep *s, const bt_lod *lod, const bt_track *track, int64_t from, bt_lod_sum *up_to) {
  size_t leaf = leaf_at(lod, track, from == INT64_MIN ? from : from - 1); /* spans at `from` itself may begin in it */
  sweep_start(s, lod, track, leaf);
  if (s->now > from) s->now = from; /* before the first span */
  memset(up_to, 0, sizeof *up_to);
  if (leaf > 0) memcpy(up_to->busy, lod->before[leaf].busy, sizeof up_to->busy);
  s->sum = up_to;
  sweep_to(s, from);
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

static void prefetch_leaf(const sweep *s, size_t leaf) {
  enum { LINE = 64 };
  const char *at = (const char *)&s->track->spans[leaf * BT_LOD_LEAF];
  for (size_t i = 0; i < BT_LOD_LEAF * sizeof(bt_span) / 2; i += LINE)
    __builtin_prefetch(at + i);
  __builtin_prefetch(&s->lod->before[leaf]);
}

bool bt_lod_reaches(const bt_lod *lod, const bt_track *track, int64_t time) {
  size_t seen = visible_spans(lod, track);
  return seen == track->count || track->spans[seen].start >= time;
}

void bt_lod_range(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, bt_lod_sum *sum) {
  memset(sum, 0, sizeof *sum);
  if (track->count == 0 || from >= to) return;
  sweep s;
  bt_lod_sum start, end;
  sum_seek(&s, lod, track, from, &start);
  size_t first = s.next, leaf = leaf_at(lod, track, to - 1);
  end = start;
  sum_to(&s, to, leaf, &end);
  subtract(&end, &start, sum);
  sum->starts = (uint32_t)(s.next - first);
}

static bool is_sparse(const sweep *s, int64_t end) {
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
static void find_edges(edges *e, const sweep *s, size_t wanted) {
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
  sweep s;
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
        sweep_to(&s, end);
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

bool bt_lod_longest_gap(const bt_lod *lod, const bt_track *track, int64_t from, int64_t to, int64_t *start,
                        int64_t *end) {
  if (from >= to) return false;
  gap_finder gaps = {.any = false};
  if (track->count == 0) {
    *start = from;
    *end = to;
    return true;
  }
  size_t first = leaf_at(lod, track, from), last = leaf_at(lod, track, to);
  /* The edge leaves are swept, and the last whole one too: its gap may reach beyond `to`. */
  if (last - first <= 2) {
    sweep s;
    sweep_seek(&s, lod, track, from);
    s.gaps = &gaps;
    sweep_to(&s, to);
    gap_close(&gaps, to);
  } else {
    leaf_gap(lod, track, first, from, leaf_start(track, first + 1), &gaps);
    uint32_t best = (uint32_t)first + 1;
    for (size_t leaf = first + 1; leaf < last - 1;) {
      unsigned level = node_level(leaf, last - 1);
      best = longer_gap(lod, best, lod->longest[node_index(leaf, level)]);
      leaf += (size_t)1 << level;
    }
    if (lod->gap[best] > 0) leaf_gap(lod, track, best, leaf_start(track, best), leaf_start(track, best + 1), &gaps);
    sweep s;
    sweep_start(&s, lod, track, last - 1);
    s.gaps = &gaps;
    sweep_to(&s, to);
    gap_close(&gaps, to);
  }
  *start = gaps.best_start < from ? from : gaps.best_start;
  *end = gaps.best_end > to ? to : gaps.best_end;
  return gaps.any && *start < *end;
}

bool bt_lod_at(const bt_lod *lod, const bt_track *track, int64_t time, size_t *span) {
  if (track->count == 0 || time == INT64_MAX) return false;
  sweep s;
  bt_lod_segments one = {NULL, 0, 0};
  sweep_seek(&s, lod, track, time);
  s.segments = &one;
  sweep_to(&s, time + 1);
  bool found = one.count > 0;
  if (found) *span = one.items[0].span;
  free(one.items);
  return found;
}

bool bt_lod_gap_at(const bt_lod *lod, const bt_track *track, int64_t time, int64_t *start, int64_t *end) {
  *start = INT64_MIN;
  *end = INT64_MAX;
  if (track->count == 0) return true;
  if (time == INT64_MAX) return false;
  size_t leaf = leaf_at(lod, track, time);
  gap_finder gaps = {.any = false};
  for (size_t from = leaf;; from--) { /* back to a leaf with something other than gates before `time` */
    gaps = (gap_finder){.any = false};
    sweep s;
    sweep_start(&s, lod, track, from);
    if (s.now > time) s.now = time; /* before the first span */
    s.gaps = &gaps;
    sweep_to(&s, time);
    bool before = gaps.closed || from == 0;
    sweep_to(&s, time + 1);
    if (!gaps.in_gap) return false;
    if (!before) continue;
    *start = gaps.closed ? gaps.open : INT64_MIN;
    gaps.closed = gaps.any = false;
    gaps.first = true;
    while (!gaps.closed && s.next < s.limit) {
      int64_t next = track->spans[s.next].start;
      if (next == INT64_MAX) break;
      sweep_to(&s, next + 1);
    }
    /* A gate that reveals the span under it ends the gap without a start of its own. */
    if (!gaps.closed) sweep_to(&s, INT64_MAX);
    if (gaps.closed) *end = gaps.best_end;
    return true;
  }
}

/* --- all ranks ------------------------------------------------------------------------------------------------------ */

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

bt_status bt_lod_set_update(bt_lod_set *set, const bt_trace *trace, size_t budget, bool *done) {
  *done = true;
  bt_status status = match_ranks(set, trace);
  if (status != BT_OK) return status;
  if (set->reordered != trace->reordered) {
    for (size_t i = 0; i < set->count; i++) {
      for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++)
        bt_lod_reset(&set->ranks[i].lanes[lane]);
      bt_lod_cut_reset(&set->ranks[i].cut);
    }
    set->reordered = trace->reordered;
  }
  for (size_t i = 0; i < set->count; i++) {
    bool compute_done = false;
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
      bt_lod *lod = &set->ranks[i].lanes[lane];
      size_t before = lod->leaf_count;
      bool lane_done;
      const bt_track *track = &trace->ranks[i].tracks[lane];
      if (lod->seen_count != track->count || lod->seen_settled != track->settled) set->generation++;
      status = bt_lod_update(lod, track, budget, &lane_done);
      if (status != BT_OK) return status;
      *done = *done && lane_done;
      if (lane == BT_LANE_COMPUTE) compute_done = lane_done;
      size_t built = lod->leaf_count > before ? (lod->leaf_count - before) * BT_LOD_LEAF : 0;
      if (budget != 0) budget = built < budget ? budget - built : 1;
    }
    if (!compute_done) continue;
    bool cut_done;
    bt_lod_rank *rank = &set->ranks[i];
    status = bt_lod_cut_update(&rank->cut, &trace->ranks[i], &rank->lanes[BT_LANE_COMPUTE], budget, &cut_done);
    if (status != BT_OK) return status;
    *done = *done && cut_done;
  }
  return BT_OK;
}

const bt_lod *bt_lod_of(const bt_lod_set *set, size_t rank_index, bt_lane lane) {
  static const bt_lod empty;
  return rank_index < set->count ? &set->ranks[rank_index].lanes[lane] : &empty;
}
