/* Spans of the trace -> items of the model, per rank in order of start. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

void bt_model_free(bt_model *model) {
  free(model->ranks);
  free(model->ops);
  free(model->p2p);
  free(model->collectives);
  free(model->gates);
  free(model->visits);
  free(model->segments);
  free(model->collective_pieces);
  free(model->send_pieces);
  free(model->steps);
  free(model->windows);
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/* Ranks number their groups on their own, so a group's identity is its domain and members, or what NCCL calls it. */
static uint64_t group_identity(const bt_rank *rank, uint32_t index, int32_t *members, uint8_t *domain) {
  *members = 0;
  *domain = BT_DOMAIN_UNKNOWN;
  if (index == 0 || index > rank->group_count) return 0;
  const bt_group_info *group = &rank->groups[index - 1];
  *domain = group->domain;
  *members = group->count;
  if (group->joined != NULL) {
    *members = group->joined->count;
    return group->joined->state == BT_JOINED_NOT ? 0 : mix(2, group->identity) | 1;
  }
  if (group->run_count == 0) return 0;
  uint64_t hash = mix(1, group->domain);
  for (uint32_t i = 0; i < group->run_count; i++) {
    const bt_run_of_ranks *run = &group->runs[i];
    hash = mix(hash, (uint64_t)(uint32_t)run->first);
    hash = mix(hash, ((uint64_t)(uint32_t)run->count << 32) | (uint32_t)(run->count > 1 ? run->stride : 0));
  }
  return hash | 1;
}

typedef struct group_cache { /* the identities of one rank's groups */
  uint64_t *identity;
  int32_t *members;
  uint8_t *domain;
} group_cache;

static bool cache_groups(const bt_rank *rank, group_cache *cache) {
  size_t count = rank->group_count + 1;
  cache->identity = calloc(count, sizeof *cache->identity);
  cache->members = calloc(count, sizeof *cache->members);
  cache->domain = calloc(count, sizeof *cache->domain);
  if (cache->identity == NULL || cache->members == NULL || cache->domain == NULL) return false;
  for (uint32_t i = 0; i < count; i++) {
    cache->identity[i] = group_identity(rank, i, &cache->members[i], &cache->domain[i]);
  }
  return true;
}

static void free_cache(group_cache *cache) {
  free(cache->identity);
  free(cache->members);
  free(cache->domain);
}

enum { MOST_VIRTUAL_STAGES = 1 << 24 };

/* -1 when the span names no chunk though the rank has several, or the number is absurd. */
static int32_t vstage_of(const bt_rank *rank, int32_t chunk) {
  if (chunk < 0 && rank->layout.chunks > 1) return -1;
  int32_t vstage = bt_rank_vstage(rank, chunk);
  return vstage < MOST_VIRTUAL_STAGES ? vstage : -1;
}

/* Spans at impossible times (damage, a wrong unit) are left out, and it is said. */
static bool is_believed(const bt_model *model, const bt_model_rank *rank, int64_t start, int64_t end) {
  if (bt_model_believes(rank, start) && bt_model_believes(rank, end)) return true;
  bt_account_warn(model->out, "impossible_times", 1,
                  "spans of rank %d (and perhaps others) are weeks away from the rest of the run: left out",
                  rank->rank);
  return false;
}

static bool add_compute(bt_model *model, int32_t index, const bt_rank *rank) {
  const bt_model_rank *own = &model->ranks[index];
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  size_t limit = bt_track_lower_bound(track, own->to);
  for (size_t i = bt_track_lower_bound(track, own->from); i < limit; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    if (!is_believed(model, own, span->start, bt_span_end(track, span))) continue;
    int64_t start = bt_model_time(own, span->start);
    int64_t end = bt_model_time(own, bt_span_end(track, span));
    if ((span->flags & (BT_FLAG_GPU_TIMED | BT_FLAG_GPU_UNKNOWN)) != 0) model->gpu = true;
    if (span->kind == BT_GATE) {
      bt_model_gate *gate = BT_PUSH(model, gates);
      if (gate == NULL) return false;
      *gate = (bt_model_gate){start, end, more != NULL ? more->on_code : BT_NONE, span->flags, false};
      continue;
    }
    if (!bt_code_is_compute(span->kind)) continue;
    bt_model_op *op = BT_PUSH(model, ops);
    if (op == NULL) return false;
    bool both = span->kind == BT_FB && more != NULL;
    *op = (bt_model_op){.start = start,
                        .end = end,
                        .rank = index,
                        .visit = BT_NO_INDEX,
                        .microbatch = span->microbatch,
                        .microbatch_b = both ? more->microbatch_b : -1,
                        .vstage = vstage_of(rank, span->chunk),
                        .vstage_b = both ? vstage_of(rank, more->chunk_b) : -1,
                        .chunk = span->chunk,
                        .chunk_b = (int16_t)(both ? more->chunk_b : -1),
                        .kind = span->kind,
                        .flags = span->flags,
                        .stream = span->stream,
                        .e_known = true,
                        .r_known = true,
                        .e = INT64_MIN,
                        .r = INT64_MIN,
                        .send_until = INT64_MIN,
                        .collective_until = INT64_MIN,
                        .producer = BT_NO_INDEX,
                        .messages = {BT_NO_INDEX, BT_NO_INDEX}};
  }
  return true;
}

static int32_t rank_index(const bt_trace *trace, int32_t rank) {
  const bt_rank *found = rank >= 0 ? bt_trace_find(trace, rank) : NULL;
  return found != NULL ? (int32_t)(found - trace->ranks) : BT_NO_INDEX;
}

static bool add_p2p(bt_model *model, int32_t index, const bt_rank *rank, const group_cache *groups) {
  const bt_model_rank *own = &model->ranks[index];
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  size_t limit = bt_track_lower_bound(track, own->to);
  int32_t last_peer = -1;
  int32_t last_index = BT_NO_INDEX;
  for (size_t i = bt_track_lower_bound(track, own->from); i < limit; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    if (!is_believed(model, own, span->start, bt_span_end(track, span))) continue;
    if ((span->flags & BT_FLAG_GPU_TIMED) != 0) model->gpu = true;
    bt_model_p2p *message = BT_PUSH(model, p2p);
    if (message == NULL) return false;
    int32_t peer = more != NULL ? bt_trace_peer(rank, more->group, more->peer) : -1;
    if (peer != last_peer) last_index = rank_index(model->trace, peer);
    last_peer = peer;
    *message = (bt_model_p2p){.start = bt_model_time(own, span->start),
                              .end = bt_model_time(own, bt_span_end(track, span)),
                              .bytes = more != NULL ? more->bytes : -1,
                              .sequence = bt_span_sequence(track, span),
                              .group = more != NULL ? groups->identity[more->group] : 0,
                              .rank = index,
                              .peer = last_index,
                              .microbatch = span->microbatch,
                              .vstage = vstage_of(rank, span->chunk),
                              .match = BT_NO_INDEX,
                              .transfer = BT_UNKNOWN,
                              .moved = BT_UNKNOWN,
                              .kind = span->kind,
                              .flags = span->flags};
  }
  return true;
}

static bool add_collectives(bt_model *model, int32_t index, const bt_rank *rank, const group_cache *groups) {
  const bt_model_rank *own = &model->ranks[index];
  const bt_track *track = &rank->tracks[BT_LANE_COLLECTIVE];
  size_t limit = bt_track_lower_bound(track, own->to);
  for (size_t i = bt_track_lower_bound(track, own->from); i < limit; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    uint32_t group = more != NULL ? more->group : 0;
    if (!is_believed(model, own, span->start, bt_span_end(track, span))) continue;
    if ((span->flags & BT_FLAG_GPU_TIMED) != 0) model->gpu = true;
    bt_model_collective *collective = BT_PUSH(model, collectives);
    if (collective == NULL) return false;
    *collective = (bt_model_collective){.start = bt_model_time(own, span->start),
                                        .end = bt_model_time(own, bt_span_end(track, span)),
                                        .arrived = BT_UNKNOWN,
                                        .sequence = bt_span_sequence(track, span),
                                        .bytes = more != NULL ? more->bytes : -1,
                                        .visit = BT_NO_INDEX,
                                        .group = groups->identity[group],
                                        .rank = index,
                                        .members = groups->members[group],
                                        .kind = span->kind,
                                        .flags = span->flags,
                                        .domain = groups->domain[group],
                                        .stream = span->stream};
  }
  return true;
}

static int32_t member_identity(const bt_layout *layout) {
  int32_t tp = layout->tp_rank > 0 ? layout->tp_rank : 0;
  int32_t cp = layout->cp_rank > 0 ? layout->cp_rank : 0;
  int32_t cp_size = layout->cp_size > 0 ? layout->cp_size : 1;
  return (int32_t)((int64_t)tp * cp_size + cp);
}

/* Without aligned clocks, wall clocks bring the ranks near each other; nothing is concluded from it. */
static int64_t wall_of(const bt_model *model, const bt_rank *rank) {
  int64_t wall;
  if (model->aligned || rank->clock_count == 0) return 0;
  return __builtin_sub_overflow(rank->clocks[0].real, rank->clocks[0].mono, &wall) ? 0 : wall;
}

static bool is_moderate(int64_t time) {
  return time > -(INT64_C(1) << 61) && time < INT64_C(1) << 61;
}

/* Finds the rank's place in time; ranks whose ops are far from those of the first rank that has some are not placed. */
static void place(bt_model *model, bt_model_rank *rank) {
  const bt_track *track = &rank->source->tracks[BT_LANE_COMPUTE];
  if (track->count == 0) return;
  rank->anchor = track->spans[track->count / 2].start;
  if (!is_moderate(rank->anchor) || !is_moderate(rank->source->offset_ns) || !is_moderate(rank->wall)) return;
  int64_t time = bt_model_time(rank, rank->anchor);
  if (!model->placed) model->anchor = time;
  model->placed = true;
  int64_t distance;
  rank->placed =
      !__builtin_sub_overflow(time, model->anchor, &distance) && distance <= BT_REACH && distance >= -BT_REACH;
}

static int64_t mark_of(const bt_step *step) {
  return step->begin != INT64_MIN ? step->begin : step->end;
}

/* The last of a rank's steps with that number; where it has none, its last. */
static size_t find_step(const bt_rank *rank, int64_t id) {
  for (size_t i = rank->step_count; i-- > 0;) {
    if (rank->steps[i].id == id) return i;
  }
  return rank->step_count - 1;
}

/* What is looked at: everything, or the steps that the options name and their neighbours. */
static void bound(bt_model_rank *rank, const bt_accounting_options *options) {
  enum { AFTER = 2 };
  const bt_rank *source = rank->source;
  rank->from = INT64_MIN;
  rank->to = INT64_MAX;
  if (!options->bounded || options->context <= 0 || source->step_count == 0) return;
  size_t last = find_step(source, options->last_step), first = find_step(source, options->first_step);
  if (first > last) first = last;
  if (first > (size_t)options->context) rank->from = mark_of(&source->steps[first - (size_t)options->context]);
  if (source->step_count - last > AFTER + 1) rank->to = mark_of(&source->steps[last + AFTER + 1]);
}

static bool add_rank(bt_model *model, int32_t index, const bt_accounting_options *options) {
  const bt_rank *source = &model->trace->ranks[index];
  bt_model_rank *rank = &model->ranks[index];
  *rank = (bt_model_rank){.rank = source->rank,
                          .stage = bt_rank_stage(source),
                          .replica = bt_rank_replica(source),
                          .host = (int32_t)source->host,
                          .member = member_identity(&source->layout),
                          .wall = wall_of(model, source),
                          .source = source};
  place(model, rank);
  bound(rank, options);
  rank->ops.first = (int32_t)model->ops_count;
  rank->p2p.first = (int32_t)model->p2p_count;
  rank->collectives.first = (int32_t)model->collectives_count;
  rank->gates.first = (int32_t)model->gates_count;
  group_cache groups = {NULL, NULL, NULL};
  bool fine = cache_groups(source, &groups) && add_compute(model, index, source) &&
              add_p2p(model, index, source, &groups) && add_collectives(model, index, source, &groups);
  free_cache(&groups);
  if (!fine) return false;
  rank->ops.count = (int32_t)model->ops_count - rank->ops.first;
  rank->p2p.count = (int32_t)model->p2p_count - rank->p2p.first;
  rank->collectives.count = (int32_t)model->collectives_count - rank->collectives.first;
  rank->gates.count = (int32_t)model->gates_count - rank->gates.first;
  return true;
}

static int compare_int32(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a;
  int32_t y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Replicas are numbered densely in order of their dp rank. */
static bool number_replicas(bt_model *model) {
  size_t count = (size_t)model->rank_count;
  int32_t *all = malloc(count * sizeof *all);
  if (all == NULL) return false;
  for (size_t i = 0; i < count; i++)
    all[i] = model->ranks[i].replica;
  qsort(all, count, sizeof *all, compare_int32);
  size_t distinct = 0;
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || all[i] != all[i - 1]) all[distinct++] = all[i];
  }
  for (size_t i = 0; i < count; i++) {
    int32_t *place = bsearch(&model->ranks[i].replica, all, distinct, sizeof *all, compare_int32);
    model->ranks[i].replica = (int32_t)(place - all);
  }
  model->replica_count = (int32_t)distinct;
  free(all);
  return true;
}

/* The model's virtual stages: what the layout says, else the highest that ran. */
static void count_virtual_stages(bt_model *model) {
  int64_t most = 0;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (!bt_code_is_pipeline_op(op->kind)) continue;
    if (op->vstage >= most) most = (int64_t)op->vstage + 1;
    if (op->vstage_b >= most) most = (int64_t)op->vstage_b + 1;
  }
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_layout *layout = &model->ranks[i].source->layout;
    if (layout->virtual_stages > most) most = layout->virtual_stages;
    bool mapped = layout->vstage[0] >= 0; /* placements of their own (V, bidirectional) may give one block twice */
    int64_t chunks = layout->chunks > 0 ? layout->chunks : 1;
    if (!mapped && layout->virtual_stages < 0 && layout->pp_size * chunks > most) most = layout->pp_size * chunks;
  }
  model->virtual_stages = most <= INT32_MAX ? (int32_t)most : INT32_MAX;
}

/* On a GPU run host times say nothing about when data was there. NCCL is one. */
static void note_host_times(bt_model *model) {
  const unsigned times =
      BT_FLAG_GPU_TIMED | BT_FLAG_GPU_UNKNOWN; /* that some times were lost is a matter of their steps */
  if (model->trace->joined_count > 0) model->gpu = true;
  for (int32_t i = 0; i < model->rank_count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    for (int32_t k = rank->gates.first; k < rank->gates.first + rank->gates.count; k++) {
      if (!model->gpu || (model->gates[k].flags & BT_FLAG_GPU_TIMED) != 0) rank->gated = true;
    }
    if (!model->gpu) continue;
    for (int32_t k = rank->p2p.first; k < rank->p2p.first + rank->p2p.count; k++) {
      if ((model->p2p[k].flags & times) == 0) rank->host_timed_p2p = true;
    }
    for (int32_t k = rank->collectives.first; k < rank->collectives.first + rank->collectives.count; k++) {
      if ((model->collectives[k].flags & times) == 0) rank->host_timed_collectives = true;
    }
  }
}

/* Steps can be told apart by their marks only where every rank has them. */
static bool all_marked(const bt_trace *trace) {
  for (size_t i = 0; i < trace->rank_count; i++) {
    if (trace->ranks[i].step_count == 0 && trace->ranks[i].tracks[BT_LANE_COMPUTE].count > 0) return false;
  }
  return true;
}

bt_status bt_model_ops(bt_model *model, const bt_accounting_options *options) {
  model->rank_count = (int32_t)model->trace->rank_count;
  model->ranks = calloc(model->trace->rank_count + 1, sizeof *model->ranks);
  if (model->ranks == NULL) return BT_ERR_NOMEM;
  bt_accounting_options bounds = *options;
  if (!all_marked(model->trace)) bounds.context = 0;
  for (int32_t i = 0; i < model->rank_count; i++) {
    if (!add_rank(model, i, &bounds)) return BT_ERR_NOMEM;
  }
  if (model->ops_count > INT32_MAX || model->p2p_count > INT32_MAX || model->collectives_count > INT32_MAX) {
    return BT_ERR_LIMIT;
  }
  if (!number_replicas(model)) return BT_ERR_NOMEM;
  count_virtual_stages(model);
  note_host_times(model);
  return BT_OK;
}

uint64_t bt_accounting_spans(const bt_trace *trace, const bt_accounting_options *options) {
  bt_accounting_options bounds = *options;
  if (!all_marked(trace)) bounds.context = 0;
  uint64_t sum = 0;
  for (size_t i = 0; i < trace->rank_count; i++) {
    bt_model_rank rank = {.source = &trace->ranks[i]};
    bound(&rank, &bounds);
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
      const bt_track *track = &trace->ranks[i].tracks[lane];
      size_t from = bt_track_lower_bound(track, rank.from), to = bt_track_lower_bound(track, rank.to);
      sum += to > from ? to - from : 0;
    }
  }
  return sum;
}
