#include "tui/analysis/lod_cut.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SWEPT = 4096 /* collectives behind the leaves: what comes later is not seen */ };

static const bt_track *collectives_of(const bt_rank *rank) {
  return &rank->tracks[BT_LANE_COLLECTIVE];
}

void bt_lod_cut_free(bt_lod_cut *cut) {
  free(cut->leaves);
  memset(cut, 0, sizeof *cut);
}

static bool blocks_by_domain(const bt_rank *rank, const bt_span *span) {
  const bt_span_more *more = bt_span_details(collectives_of(rank), span);
  if (more == NULL || more->group == 0 || more->group > rank->group_count) return false;
  unsigned domain = rank->groups[more->group - 1].domain;
  return domain == BT_DOMAIN_TP || domain == BT_DOMAIN_CP || domain == BT_DOMAIN_EP;
}

/* The op that a collective lies in, by its start, else by its end. */
static const bt_span *op_of(const bt_rank *rank, const bt_lod *compute, int64_t start, int64_t end) {
  const bt_track *ops = &rank->tracks[BT_LANE_COMPUTE];
  size_t at;
  if (bt_lod_at(compute, ops, start, &at) || bt_lod_at(compute, ops, end - 1, &at)) return &ops->spans[at];
  return NULL;
}

static bool is_on_own_stream(const bt_rank *rank, const bt_lod *compute, const bt_span *span, int64_t end) {
  bool blocks = blocks_by_domain(rank, span);
  if (!blocks && span->stream < 0) return false;
  const bt_span *op = op_of(rank, compute, span->start, end);
  if (op == NULL || ((op->flags ^ span->flags) & BT_FLAG_GPU_TIMED) != 0) return false;
  return op->stream >= 0 && span->stream >= 0 ? op->stream == span->stream : blocks;
}

/* Adds what is computed in [from, to) (negative: takes it away), but for FB ops. */
static void count_compute(const bt_rank *rank, const bt_lod *compute, int64_t from, int64_t to, bool negative,
                          uint64_t busy[BT_LOD_SLOTS]) {
  bt_lod_sum sum;
  bt_lod_range(compute, &rank->tracks[BT_LANE_COMPUTE], from, to, &sum);
  for (unsigned slot = 0; slot < BT_LOD_GATE; slot++) {
    if (slot == bt_lod_slot(BT_FB)) continue;
    busy[slot] += negative ? 0 - sum.busy[slot] : sum.busy[slot];
  }
}

/* Goes over a collective. */
static void take(const bt_rank *rank, const bt_lod *compute, const bt_span *span, bt_lod_cut_leaf *state) {
  int64_t end = bt_span_end(collectives_of(rank), span);
  int64_t from = span->start > state->until ? span->start : state->until;
  if (from >= end || !is_on_own_stream(rank, compute, span, end)) return;
  count_compute(rank, compute, from, end, false, state->busy);
  state->until = end;
}

static bt_lod_cut_leaf *push(bt_lod_cut *cut, const bt_lod_cut_leaf *leaf) {
  if (cut->count == cut->capacity) {
    size_t capacity = cut->capacity < 16 ? 16 : cut->capacity + cut->capacity / 2;
    bt_lod_cut_leaf *leaves = realloc(cut->leaves, capacity * sizeof *leaves);
    if (leaves == NULL) return NULL;
    cut->leaves = leaves;
    cut->capacity = capacity;
  }
  cut->leaves[cut->count] = *leaf;
  return &cut->leaves[cut->count++];
}

/* Ops that start before it are all there. */
static int64_t settled_until(const bt_track *ops) {
  return ops->settled == 0 ? INT64_MIN : ops->spans[ops->settled - 1].start;
}

/* Forgets the leaves that collectives or ops lie before which have moved. */
static void forget_moved(bt_lod_cut *cut, const bt_rank *rank) {
  const bt_track *collectives = collectives_of(rank), *ops = &rank->tracks[BT_LANE_COMPUTE];
  size_t first = bt_track_moved(collectives, cut->seen_collectives);
  size_t op = bt_track_moved(ops, cut->seen_compute);
  if (op < ops->count) {
    int64_t from;
    if (__builtin_sub_overflow(ops->spans[op].start, collectives->longest, &from)) from = INT64_MIN;
    size_t reaching = bt_track_lower_bound(collectives, from);
    if (reaching < first) first = reaching;
  }
  if (first / BT_LOD_CUT_LEAF + 1 < cut->count) cut->count = first / BT_LOD_CUT_LEAF + 1;
  cut->seen_collectives = collectives->moves;
  cut->seen_compute = ops->moves;
}

bt_status bt_lod_cut_update(bt_lod_cut *cut, const bt_rank *rank, const bt_lod *compute, size_t budget, bool *done) {
  const bt_track *collectives = collectives_of(rank);
  bt_lod_cut_leaf state = {.until = INT64_MIN};
  *done = true;
  forget_moved(cut, rank);
  if (collectives->settled < BT_LOD_CUT_LEAF) return BT_OK;
  if (cut->count == 0 && push(cut, &state) == NULL) return BT_ERR_NOMEM;
  state = cut->leaves[cut->count - 1];
  int64_t known = settled_until(&rank->tracks[BT_LANE_COMPUTE]);
  for (size_t looked = 0;; looked += BT_LOD_CUT_LEAF) {
    size_t first = (cut->count - 1) * BT_LOD_CUT_LEAF;
    if (first + BT_LOD_CUT_LEAF > collectives->settled) return BT_OK;
    if (budget != 0 && looked >= budget) {
      *done = false;
      return BT_OK;
    }
    for (size_t i = first; i < first + BT_LOD_CUT_LEAF; i++) {
      const bt_span *span = &collectives->spans[i];
      if (bt_span_end(collectives, span) > known) return BT_OK;
      take(rank, compute, span, &state);
    }
    if (push(cut, &state) == NULL) return BT_ERR_NOMEM;
  }
}

/* What collectives took before `time`. */
static void before(const bt_lod_cut *cut, const bt_rank *rank, const bt_lod *compute, int64_t time,
                   bt_lod_cut_leaf *state) {
  const bt_track *collectives = collectives_of(rank);
  size_t low = 0, high = cut->count; /* leaves that begin before `time` */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    size_t at = middle * BT_LOD_CUT_LEAF;
    if (at < collectives->count && collectives->spans[at].start < time)
      low = middle + 1;
    else
      high = middle;
  }
  size_t at = low > 0 ? (low - 1) * BT_LOD_CUT_LEAF : 0;
  *state = low > 0 ? cut->leaves[low - 1] : (bt_lod_cut_leaf){.until = INT64_MIN};
  for (size_t i = at; i < collectives->count && i < at + MOST_SWEPT && collectives->spans[i].start < time; i++)
    take(rank, compute, &collectives->spans[i], state);
  if (state->until > time) count_compute(rank, compute, time, state->until, true, state->busy);
}

void bt_lod_cut_subtract(const bt_lod_cut *cut, const bt_rank *rank, const bt_lod *compute, int64_t from, int64_t to,
                         bt_lod_sum *sum) {
  if (collectives_of(rank)->count == 0) return;
  bt_lod_cut_leaf left, right;
  before(cut, rank, compute, from, &left);
  before(cut, rank, compute, to, &right);
  for (unsigned slot = 0; slot < BT_LOD_GATE; slot++)
    sum->busy[slot] -= right.busy[slot] - left.busy[slot];
}

void bt_lod_compute(const bt_lod_set *set, const bt_trace *trace, size_t rank_index, int64_t from, int64_t to,
                    bt_lod_sum *sum) {
  const bt_rank *rank = &trace->ranks[rank_index];
  const bt_lod *compute = bt_lod_of(set, rank_index, BT_LANE_COMPUTE);
  bt_lod_range(compute, &rank->tracks[BT_LANE_COMPUTE], from, to, sum);
  if (rank_index < set->count) bt_lod_cut_subtract(&set->ranks[rank_index].cut, rank, compute, from, to, sum);
}
