/* What messages between hosts say of their clocks: sends joined with receives by what they are, never by when. */
#include <stdlib.h>

#include "formats/array.h"
#include "tui/analysis/clocks_private.h"

/* One half of a message or one member's part in a collective. Equal (from, to, a, b) belong together. */
typedef struct half {
  int32_t from, to; /* ranks; -1, -1: a collective */
  uint64_t a, b; /* group and sequence, or direction, virtual stage, step and microbatch */
  int64_t start, end;
  int32_t rank;
  uint32_t host;
  bool receive; /* or collective: its end says something */
  bool sender; /* its start says something */
} half;

/* More say little more, and cost memory and time: then a sample is taken, the same on both sides. */
enum { MOST_HALVES = 1 << 20 };

typedef struct halves {
  half *items;
  size_t count, capacity;
  uint64_t one_of; /* so many are kept */
} halves;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

static uint64_t joined_identity(const bt_trace *trace, const bt_rank *rank, const bt_joined *joined, bool *crosses) {
  if (joined->state == BT_JOINED_NOT) return 0;
  *crosses = false;
  for (int32_t k = 0; k < joined->known && !*crosses; k++) {
    const bt_rank *found = bt_trace_find(trace, joined->members[k].rank);
    *crosses = found != NULL && found->host != rank->host;
  }
  return mix(2, joined->identity) | 1;
}

/* Ranks number their groups on their own; a group is known by domain and members. 0: members not told. `crosses` tells
 * whether they are on several hosts. */
static uint64_t group_identity(const bt_trace *trace, const bt_rank *rank, uint32_t index, bool *crosses) {
  *crosses = true;
  if (index == 0 || index > rank->group_count) return 0;
  const bt_group_info *group = &rank->groups[index - 1];
  if (group->joined != NULL) return joined_identity(trace, rank, group->joined, crosses);
  if (group->run_count == 0) return 0;
  *crosses = false;
  uint64_t hash = mix(1, group->domain);
  for (uint32_t i = 0; i < group->run_count; i++) {
    const bt_run_of_ranks *run = &group->runs[i];
    for (int32_t k = 0; k < run->count; k++) {
      int64_t member = run->first + (int64_t)run->stride * k;
      hash = mix(hash, (uint64_t)member);
      const bt_rank *found = *crosses ? NULL : bt_trace_find(trace, (int32_t)member);
      if (found != NULL && found->host != rank->host) *crosses = true;
    }
  }
  return hash | 1;
}

typedef struct group_key {
  uint64_t identity;
  bool crosses;
  bool told; /* its members are recorded */
} group_key;

static group_key *group_keys(const bt_trace *trace, const bt_rank *rank) {
  group_key *keys = calloc(rank->group_count + 1, sizeof *keys);
  if (keys == NULL) return NULL;
  for (size_t i = 0; i <= rank->group_count; i++) {
    keys[i].told = i == 0 || rank->groups[i - 1].identity == 0;
    keys[i].identity = group_identity(trace, rank, (uint32_t)i, &keys[i].crosses);
  }
  return keys;
}

static bool is_forward(unsigned kind) {
  return kind == BT_SEND_F || kind == BT_RECV_F;
}

/* On a GPU a receive with host times ends when it was queued, which says nothing of when the data came. */
static bool has_gpu_times(const bt_rank *rank) {
  for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
    const bt_track *track = &rank->tracks[lane];
    for (size_t i = 0; i < track->count && i < 1000; i++) {
      if ((track->spans[i].flags & (BT_FLAG_GPU_TIMED | BT_FLAG_GPU_UNKNOWN)) != 0) return true;
    }
  }
  return false;
}

/* Index of the rank's step that a time falls into: steps of equal index belong together where every rank has marks. */
static uint64_t step_of(const bt_rank *rank, int64_t time, size_t *hint) {
  while (*hint < rank->step_count && rank->steps[*hint].begin != INT64_MIN && rank->steps[*hint].begin <= time)
    ++*hint;
  return *hint == 0 ? 0 : (uint64_t)rank->steps[*hint - 1].id + 1;
}

/* False: it cannot be known by what it is. */
static bool identify_message(half *out, const bt_rank *rank, const bt_span *span, const group_key *groups,
                             uint64_t step) {
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  const bt_span_more *more = bt_span_details(track, span);
  int64_t sequence = bt_span_sequence(track, span);
  bool receive = bt_code_is_receive(span->kind);
  bool forward = is_forward(span->kind);
  int32_t peer = bt_trace_peer(rank, more->group, more->peer);
  out->from = receive ? peer : rank->rank;
  out->to = receive ? rank->rank : peer;
  out->receive = receive;
  out->sender = !receive;
  if (sequence >= 0) {
    bool told = groups[more->group].told; /* NCCL counts what goes to a rank, in whatever direction */
    out->a = mix(told ? 2 + forward : 7, groups[more->group].identity);
    out->b = (uint64_t)sequence;
    return true;
  }
  if (span->microbatch < 0 || span->kind == BT_SEND || span->kind == BT_RECV) return false;
  int32_t stage = bt_rank_vstage(rank, span->chunk);
  if (!receive && stage >= 0) stage += forward ? 1 : -1; /* the virtual stage that gets it */
  out->a = mix(mix(4 + forward, (uint64_t)(int64_t)stage), step);
  out->b = (uint64_t)span->microbatch;
  return true;
}

static bool is_sampled(const halves *all, const half *one) {
  return all->one_of <= 1 || mix(mix(3, one->a), one->b) % all->one_of == 0;
}

static half *new_half(halves *all, const bt_rank *rank, int64_t start, int64_t end) {
  if (!bt_array_reserve(&all->items, &all->capacity, all->count + 1, sizeof(half))) return NULL;
  half *out = &all->items[all->count++];
  *out = (half){.from = -1, .to = -1, .start = start, .end = end, .rank = rank->rank, .host = rank->host};
  return out;
}

static bool add_messages(halves *all, const bt_trace *trace, const bt_rank *rank, const group_key *groups, bool gpu) {
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  const bt_rank *peer = NULL;
  size_t step = 0;
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    int32_t other = more != NULL ? bt_trace_peer(rank, more->group, more->peer) : -1;
    if (other < 0 || (span->flags & BT_FLAG_OPEN) != 0) continue;
    if (peer == NULL || peer->rank != other) peer = bt_trace_find(trace, other);
    if (peer == NULL || peer->host == rank->host) continue;
    half *out = new_half(all, rank, span->start, bt_span_end(track, span));
    if (out == NULL) return false;
    bool host_timed = gpu && (span->flags & BT_FLAG_GPU_TIMED) == 0;
    if (!identify_message(out, rank, span, groups, step_of(rank, span->start, &step)) || (out->receive && host_timed) ||
        !is_sampled(all, out))
      all->count--;
  }
  return true;
}

static bool add_collectives(halves *all, const bt_rank *rank, const group_key *groups, bool gpu) {
  const bt_track *track = &rank->tracks[BT_LANE_COLLECTIVE];
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    int64_t sequence = bt_span_sequence(track, span);
    if (more == NULL || span->kind == BT_BROADCAST || sequence < 0 || (span->flags & BT_FLAG_OPEN) != 0) continue;
    if (groups[more->group].identity == 0 || !groups[more->group].crosses) continue;
    half *out = new_half(all, rank, span->start, bt_span_end(track, span));
    if (out == NULL) return false;
    out->a = mix(groups[more->group].identity, span->kind);
    out->b = (uint64_t)sequence;
    out->sender = true;
    out->receive = !gpu || (span->flags & BT_FLAG_GPU_TIMED) != 0;
    if (!is_sampled(all, out)) all->count--;
  }
  return true;
}

static int compare_place(const half *x, const half *y) {
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  if (x->a != y->a) return x->a < y->a ? -1 : 1;
  return x->b == y->b ? 0 : x->b < y->b ? -1 : 1;
}

static int compare_halves(const void *left, const void *right) {
  const half *x = left;
  const half *y = right;
  int order = compare_place(x, y);
  if (order != 0) return order;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->receive != y->receive) return x->receive ? 1 : -1;
  return (x->start > y->start) - (x->start < y->start);
}

/* What began at `sent` on one host had begun before `received` on the other. */
static bool add_point(bt_clock_points *points, const half *send, const half *receive, bool collective) {
  if (send->host == receive->host) return true;
  if (!bt_array_reserve(&points->points, &points->capacity, points->count + 1, sizeof(bt_clock_point))) return false;
  bool upper = send->host < receive->host;
  int64_t lead; /* of the receiver's clock */
  if (__builtin_sub_overflow(receive->end, send->start, &lead)) return true;
  points->points[points->count++] = (bt_clock_point){.a = upper ? send->host : receive->host,
                                                     .b = upper ? receive->host : send->host,
                                                     .upper = upper,
                                                     .collective = collective,
                                                     .from = send->rank,
                                                     .to = receive->rank,
                                                     .time = upper ? send->start : receive->end,
                                                     .bound = upper ? lead : -lead};
  return true;
}

/* Halves of one message: one of each kind. More of them are the same message of several lives or, without sequences and
 * marks, of several steps: the n-th belongs to the n-th when both sides have all. */
static bool join_message(bt_clock_points *points, const half *items, size_t count) {
  size_t sends = 0;
  size_t receives = 0;
  for (size_t i = 0; i < count; i++)
    *(items[i].receive ? &receives : &sends) += 1;
  if (sends != receives) return true;
  const half *send = items[0].receive ? items + receives : items;
  const half *receive = items[0].receive ? items : items + sends;
  for (size_t i = 0; i < sends; i++) {
    if (send[i].receive || !receive[i].receive) return true;
    points->messages++;
    if (!add_point(points, &send[i], &receive[i], false)) return false;
  }
  return true;
}

/* Nobody leaves a collective before all have come. The host that comes first in the list is tied to every other: short
 * paths, and no more than two points a host. */
static bool join_collective(bt_clock_points *points, const half *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (items[i].rank == items[i - 1].rank) return true; /* numbers that came twice: of several lives */
  }
  size_t hub = 0;
  for (size_t i = 1; i < count; i++) {
    if (items[i].host < items[hub].host) hub = i;
  }
  for (size_t i = 0; i < count; i++) {
    if (items[i].host == items[hub].host) continue;
    if (items[i].receive && !add_point(points, &items[hub], &items[i], true)) return false;
    if (items[hub].receive && !add_point(points, &items[i], &items[hub], true)) return false;
  }
  return true;
}

static bool join(bt_clock_points *points, const halves *all) {
  for (size_t begin = 0, end; begin < all->count; begin = end) {
    const half *first = &all->items[begin];
    for (end = begin + 1; end < all->count && compare_place(first, &all->items[end]) == 0;)
      end++;
    bool fine =
        first->from < 0 ? join_collective(points, first, end - begin) : join_message(points, first, end - begin);
    if (!fine) return false;
  }
  return true;
}

static int compare_points(const void *left, const void *right) {
  const bt_clock_point *x = left;
  const bt_clock_point *y = right;
  if (x->a != y->a) return x->a < y->a ? -1 : 1;
  if (x->b != y->b) return x->b < y->b ? -1 : 1;
  if (x->upper != y->upper) return x->upper ? -1 : 1;
  return (x->time > y->time) - (x->time < y->time);
}

static bool collect_halves(const bt_trace *trace, halves *all) {
  size_t spans = 0;
  for (size_t i = 0; i < trace->rank_count; i++)
    spans += trace->ranks[i].tracks[BT_LANE_P2P].count + trace->ranks[i].tracks[BT_LANE_COLLECTIVE].count;
  all->one_of = spans / MOST_HALVES + 1;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    group_key *groups = group_keys(trace, rank);
    bool gpu = has_gpu_times(rank);
    bool fine =
        groups != NULL && add_messages(all, trace, rank, groups, gpu) && add_collectives(all, rank, groups, gpu);
    free(groups);
    if (!fine) return false;
  }
  return true;
}

bt_status bt_clock_points_collect(const bt_trace *trace, bt_clock_points *points) {
  *points = (bt_clock_points){.points = NULL};
  if (trace->host_count <= 1) return BT_OK;
  halves all = {.items = NULL};
  bool fine = collect_halves(trace, &all);
  if (fine && all.count > 0) {
    qsort(all.items, all.count, sizeof *all.items, compare_halves);
    fine = join(points, &all);
  }
  free(all.items);
  if (fine && points->count > 0) qsort(points->points, points->count, sizeof *points->points, compare_points);
  return fine ? BT_OK : BT_ERR_NOMEM;
}

void bt_clock_points_free(bt_clock_points *points) {
  free(points->points);
}
