#include "formats/join.h"

#include <stdlib.h>
#include <string.h>

#include "formats/array.h"
#include "formats/track.h"

/* ---- who is where ---- */

typedef struct claim { /* a rank says that it is in a communicator */
  uint64_t identity;
  int32_t place, count; /* -1, 0: not known */
  uint32_t rank, group; /* indexes */
} claim;

static int compare_claims(const void *left, const void *right) {
  const claim *a = left;
  const claim *b = right;
  if (a->identity != b->identity) return a->identity < b->identity ? -1 : 1;
  if (a->place != b->place) return a->place < b->place ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (a->group > b->group) - (a->group < b->group);
}

/* All claims, sorted. False: memory is short. */
static bool collect(const bt_trace *trace, claim **claims, size_t *count) {
  size_t capacity = 0;
  for (uint32_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    for (uint32_t g = 0; g < rank->group_count; g++) {
      const bt_group_info *group = &rank->groups[g];
      if (group->identity == 0) continue;
      if (!bt_array_reserve(claims, &capacity, *count + 1, sizeof **claims)) return false;
      (*claims)[(*count)++] = (claim){group->identity, group->own_rank, group->count, r, g};
    }
  }
  if (*count > 0) qsort(*claims, *count, sizeof **claims, compare_claims);
  return true;
}

static int compare_ranks(const void *left, const void *right) {
  int32_t a = ((const bt_member *)left)->rank;
  int32_t b = ((const bt_member *)right)->rank;
  return (a > b) - (a < b);
}

static int compare_places(const void *left, const void *right) {
  int32_t a = ((const bt_member *)left)->place;
  int32_t b = ((const bt_member *)right)->place;
  return (a > b) - (a < b);
}

/* The members as the claims, all of one identity, tell them. False: they contradict each other. */
static bool take_places(const bt_trace *trace, const claim *claims, size_t count, bt_joined *joined) {
  for (size_t i = 0; i < count; i++) {
    int32_t rank = trace->ranks[claims[i].rank].rank;
    if (claims[i].count > 0 && joined->count != 0 && claims[i].count != joined->count) return false;
    if (claims[i].count > 0) joined->count = claims[i].count;
    if (claims[i].place < 0) continue;
    const bt_member *last = joined->known > 0 ? &joined->members[joined->known - 1] : NULL;
    if (last != NULL && last->place == claims[i].place) {
      if (last->rank != rank) return false;
      continue; /* another life of the rank says the same */
    }
    joined->members[joined->known++] = (bt_member){claims[i].place, rank};
  }
  if (joined->known > 0 && joined->members[joined->known - 1].place >= joined->count) return false;
  qsort(joined->members, (size_t)joined->known, sizeof *joined->members, compare_ranks);
  for (int32_t i = 1; i < joined->known; i++) {
    if (joined->members[i].rank == joined->members[i - 1].rank) return false;
  }
  qsort(joined->members, (size_t)joined->known, sizeof *joined->members, compare_places);
  return true;
}

/* False: memory is short. */
static bool put_together(const bt_trace *trace, const claim *claims, size_t count, bt_joined *joined) {
  *joined = (bt_joined){.identity = claims[0].identity, .members = malloc(count * sizeof *joined->members)};
  if (joined->members == NULL) return false;
  if (!take_places(trace, claims, count, joined)) {
    joined->state = BT_JOINED_NOT;
    joined->known = 0;
  } else {
    bool all = joined->count > 0 && joined->known == joined->count;
    joined->state = all ? BT_JOINED : BT_JOINED_IN_PART;
  }
  return true;
}

/* ---- domain ---- */

enum { PP, TP, DP, CP, EP, AXES };

static int32_t place_on(const bt_layout *layout, int axis) {
  const int32_t places[AXES] = {layout->pp_rank, layout->tp_rank, layout->dp_rank, layout->cp_rank, layout->ep_rank};
  return places[axis];
}

/* What tells the members apart: an axis of the layout, if it is one alone. */
static uint8_t domain_of(const bt_trace *trace, const bt_joined *joined) {
  if (joined->state != BT_JOINED || joined->count < 2) return BT_DOMAIN_UNKNOWN;
  if (joined->count == trace->world_size) return BT_DOMAIN_WORLD;
  const bt_layout *first = &bt_trace_find(trace, joined->members[0].rank)->layout;
  bool differs[AXES] = {false};
  bool known = true;
  for (int32_t i = 1; i < joined->count && known; i++) {
    const bt_layout *layout = &bt_trace_find(trace, joined->members[i].rank)->layout;
    for (int axis = 0; axis < AXES; axis++) {
      known = known && (place_on(layout, axis) < 0) == (place_on(first, axis) < 0);
      differs[axis] |= place_on(layout, axis) != place_on(first, axis);
    }
  }
  if (!known) return BT_DOMAIN_UNKNOWN;
  bool data = differs[DP] || differs[EP]; /* experts are spread over data parallel ranks */
  int axes = differs[PP] + differs[TP] + (data || differs[CP]);
  if (axes != 1) return BT_DOMAIN_UNKNOWN;
  if (differs[PP]) return BT_DOMAIN_PP;
  if (differs[TP]) return BT_DOMAIN_TP;
  if (differs[EP] && joined->count == first->ep_size && joined->count != first->dp_size) return BT_DOMAIN_EP;
  return data ? BT_DOMAIN_DP : BT_DOMAIN_CP;
}

/* ---- direction ---- */

static int32_t chunks_of(const bt_rank *rank) {
  int32_t chunks = rank->layout.chunks > rank->most_chunk ? rank->layout.chunks : rank->most_chunk + 1;
  return chunks < 1 ? 1 : chunks < BT_MAX_CHUNKS ? chunks : BT_MAX_CHUNKS;
}

static bool is_next(const bt_rank *rank, const bt_rank *peer) {
  for (int32_t mine = 0; mine < chunks_of(rank); mine++) {
    for (int32_t its = 0; its < chunks_of(peer); its++) {
      if (bt_rank_vstage(peer, its) == bt_rank_vstage(rank, mine) + 1) return true;
    }
  }
  return false;
}

typedef struct neighbour {
  int32_t peer; /* global rank */
  bool next, previous; /* holds a virtual stage behind one of the rank's, before one */
} neighbour;

static neighbour neighbour_of(const bt_trace *trace, const bt_rank *rank, int32_t peer) {
  neighbour result = {peer, false, false};
  const bt_rank *found = peer >= 0 ? bt_trace_find(trace, peer) : NULL;
  if (found == NULL || rank->layout.pp_rank < 0 || found->layout.pp_rank < 0) return result;
  if (bt_rank_replica(rank) != bt_rank_replica(found)) return result; /* no message of the pipeline */
  result.next = is_next(rank, found);
  result.previous = is_next(found, rank);
  return result;
}

static bt_code direct(bool send, const neighbour *to) {
  if (to->next == to->previous) return send ? BT_SEND : BT_RECV;
  if (send) return to->next ? BT_SEND_F : BT_SEND_B;
  return to->next ? BT_RECV_B : BT_RECV_F;
}

/* Messages that say no direction get one, those that got one here get it anew. True: one that was settled changed. */
static bool direct_messages(const bt_trace *trace, bt_rank *rank) {
  bt_track *track = &rank->tracks[BT_LANE_P2P];
  neighbour last = {-1, false, false};
  bool moved = false;
  for (size_t i = rank->directed; i < track->count; i++) {
    bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    bool plain = span->kind == BT_SEND || span->kind == BT_RECV || (span->flags & BT_FLAG_DIRECTED) != 0;
    if (!plain || more == NULL) continue;
    int32_t peer = bt_trace_peer(rank, more->group, more->peer);
    if (peer != last.peer) last = neighbour_of(trace, rank, peer);
    bt_code kind = direct(bt_code_is_send(span->kind), &last);
    moved |= kind != span->kind && i < track->settled;
    span->kind = (uint8_t)kind;
    span->flags = (uint8_t)(kind == BT_SEND || kind == BT_RECV ? span->flags & ~BT_FLAG_DIRECTED
                                                               : span->flags | BT_FLAG_DIRECTED);
  }
  rank->directed = track->settled;
  return moved;
}

/* ---- all ---- */

static void forget_all(bt_trace *trace) {
  for (size_t r = 0; r < trace->rank_count; r++) {
    for (size_t g = 0; g < trace->ranks[r].group_count; g++)
      trace->ranks[r].groups[g].joined = NULL;
  }
  bt_trace_forget_joined(trace);
}

static bt_status join_all(bt_trace *trace) {
  claim *claims = NULL;
  size_t count = 0;
  size_t distinct = 0;
  bool fine = collect(trace, &claims, &count);
  forget_all(trace);
  for (size_t i = 0; i < count; i++)
    distinct += i == 0 || claims[i].identity != claims[i - 1].identity;
  if (fine) trace->joined = calloc(distinct + 1, sizeof *trace->joined);
  fine = fine && trace->joined != NULL;
  for (size_t from = 0, to; from < count; from = to) {
    for (to = from + 1; to < count && claims[to].identity == claims[from].identity;)
      to++;
    bt_joined *joined = fine ? &trace->joined[trace->joined_count] : NULL;
    if (fine) fine = put_together(trace, claims + from, to - from, joined);
    if (fine) {
      trace->joined_count++;
      joined->domain = domain_of(trace, joined);
    }
    for (size_t i = from; i < to; i++) {
      bt_group_info *group = &trace->ranks[claims[i].rank].groups[claims[i].group];
      group->joined = fine ? joined : NULL;
      group->domain = fine && group->told_domain == BT_DOMAIN_UNKNOWN ? joined->domain : group->told_domain;
    }
  }
  free(claims);
  return fine ? BT_OK : BT_ERR_NOMEM;
}

bt_status bt_join(bt_trace *trace) {
  bool changed = trace->definitions != trace->definitions_seen;
  if (changed) {
    bt_status status = join_all(trace);
    if (status != BT_OK) return status;
    trace->definitions_seen = trace->definitions;
    trace->generation++;
  }
  bool anew = changed || trace->reordered != trace->reordered_seen;
  bool moved = false;
  for (size_t i = 0; i < trace->rank_count; i++) {
    bt_rank *rank = &trace->ranks[i];
    if (anew) rank->directed = 0;
    if (rank->undirected) moved |= direct_messages(trace, rank);
  }
  if (moved) trace->reordered++;
  trace->reordered_seen = trace->reordered;
  return BT_OK;
}

size_t bt_join_count(const bt_trace *trace, bt_joined_state state) {
  size_t count = 0;
  for (size_t i = 0; i < trace->joined_count; i++)
    count += trace->joined[i].state == state;
  return count;
}
