#include "tui/analysis/lod_sweep.h"

#include <stdlib.h>

static int64_t span_end(const bt_track *track, const bt_span *span) {
  int64_t end;
  return __builtin_add_overflow(span->start, bt_span_duration(track, span), &end) ? INT64_MAX : end;
}

static void append_segment(bt_sweep *s, uint32_t span, int64_t from, int64_t to) {
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

static void gap_open(bt_gap_finder *gaps, int64_t from) {
  if (gaps->in_gap) return;
  gaps->in_gap = true;
  gaps->open = from;
}

void bt_gap_close(bt_gap_finder *gaps, int64_t at) {
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

static void emit(bt_sweep *s, uint32_t span, int64_t from, int64_t to) {
  unsigned kind = s->track->spans[span].kind;
  if (s->sum != NULL) s->sum->busy[bt_lod_slots[kind]] += (uint64_t)to - (uint64_t)from;
  if (s->segments != NULL) append_segment(s, span, from, to);
  if (s->gaps == NULL) return;
  if (kind == BT_GATE)
    gap_open(s->gaps, from);
  else
    bt_gap_close(s->gaps, from);
}

/* What lies on the stack is seen until `time`; then no span may be seen before it any more. */
static void advance(bt_sweep *s, int64_t time) {
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

void bt_sweep_push(bt_sweep *s) {
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
void bt_sweep_enter(bt_sweep *s, size_t leaf) {
  s->next = leaf * BT_LOD_LEAF;
  s->below = s->lod->checkpoint == NULL ? 0 : s->lod->checkpoint[leaf].top;
  s->depth = 0;
}

/* The common case of sums: nothing is open, and spans follow each other without overlap. */
static void sweep_flat(bt_sweep *s, int64_t time) {
  const bt_span *spans = s->track->spans;
  size_t next = s->next;
  while (next + 1 < s->limit) {
    const bt_span *span = &spans[next];
    int64_t start = span->start;
    uint64_t length = span->duration32;
    if (span[1].start >= time || length > (uint64_t)span[1].start - (uint64_t)start || length == UINT32_MAX) break;
    s->sum->busy[bt_lod_slots[span->kind]] += length;
    next++;
  }
  if (next == s->next) return;
  s->next = next;
  s->now = spans[next].start; /* idle up to there */
}

void bt_sweep_to(bt_sweep *s, int64_t time) {
  bool sums_only = s->sum != NULL && s->segments == NULL && s->gaps == NULL;
  while (s->next < s->limit && s->track->spans[s->next].start < time) {
    advance(s, s->track->spans[s->next].start);
    if (s->next % BT_LOD_LEAF == 0) bt_sweep_enter(s, s->next / BT_LOD_LEAF);
    while (s->depth > 0 && s->stack[s->depth - 1].end <= s->now)
      s->depth--;
    if (sums_only && s->depth == 0 && s->below == 0) sweep_flat(s, time);
    if (s->next % BT_LOD_LEAF == 0) bt_sweep_enter(s, s->next / BT_LOD_LEAF);
    bt_sweep_push(s);
  }
  advance(s, time);
}

size_t bt_lod_visible(const bt_lod *lod, const bt_track *track) {
  size_t limit = (lod->leaf_count + 1) * BT_LOD_LEAF;
  return limit < track->count ? limit : track->count;
}

size_t bt_lod_leaf_at(const bt_lod *lod, const bt_track *track, int64_t time) {
  size_t low = 0, high = lod->leaf_count;
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (bt_lod_leaf_start(track, middle) <= time)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

void bt_sweep_start(bt_sweep *s, const bt_lod *lod, const bt_track *track, size_t leaf) {
  s->lod = lod;
  s->track = track;
  s->limit = bt_lod_visible(lod, track);
  s->sum = NULL;
  s->segments = NULL;
  s->gaps = NULL;
  s->out_of_memory = false;
  bt_sweep_enter(s, leaf);
  s->now = track->count > 0 ? bt_lod_leaf_start(track, leaf) : INT64_MIN;
}

void bt_sweep_seek(bt_sweep *s, const bt_lod *lod, const bt_track *track, int64_t time) {
  bt_sweep_start(s, lod, track, track->count > 0 ? bt_lod_leaf_at(lod, track, time) : 0);
  if (s->now < time)
    bt_sweep_to(s, time);
  else
    s->now = time;
}
