/* The trace model: what is known of a run, in memory, for drawing and accounting.
 *
 * Filled record by record (from streams, rings, importers or tests), read by tui/. Spans are 24 bytes, kept per rank and
 * lane class, sorted by (start, longer first). They arrive by end and from several rings, so the newest part is still
 * unsettled: everything before bt_track.settled will not move again unless a disordered stream or damage repair brings old
 * spans (then `bt_trace.reordered` counts up, and indexes begin anew where bt_track_moved says).
 *
 * Ownership: the trace owns everything it hands out; pointers are valid until the next bt_trace_* call that is not const.
 * Not thread-safe: one thread at a time, readers included (tui/ holds a lock).
 * Times are raw: int64 ns of the rank's own clock. Readers that compare ranks take bt_rank_time of them, which is the raw
 * time until clocks are aligned.
 */
#ifndef BT_FORMATS_TRACE_H
#define BT_FORMATS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/encode.h"
#include "formats/wire/event.h"
#include "formats/wire/status.h"

typedef enum bt_lane {
  BT_LANE_COMPUTE, /* compute spans and gates */
  BT_LANE_P2P,
  BT_LANE_COLLECTIVE,
  BT_LANE_HOST,
  BT_LANE_COUNT
} bt_lane;

bt_lane bt_lane_of(unsigned code);
const char *bt_lane_name(bt_lane lane);

/* 24 bytes, all that most spans take: what comm spans and gates say beside it repeats itself (peer, group, bytes), so they
 * share it and keep only the low 16 bits of their sequence. Read with bt_span_duration, _details and _sequence. */
typedef struct bt_span {
  int64_t start;
  uint32_t duration32; /* UINT32_MAX: in its details, which are its own then */
  uint32_t
      more; /* 0: no details; BT_MORE_OWN | index into bt_track.own; else place in bt_track.shared << 16 | low bits */
  int32_t microbatch; /* -1 none */
  uint8_t kind; /* bt_code < BT_CODE_SPAN_LIMIT */
  uint8_t flags; /* BT_FLAG_* */
  int8_t chunk; /* -1 none */
  int8_t stream; /* the program's lane number, -1 usual */
} bt_span;

/* Details that most compute spans do not have. */
typedef struct bt_span_more {
  int64_t duration; /* 0 where it is shared */
  int64_t bytes; /* -1 unknown */
  int64_t sequence_base; /* private: bt_span_sequence adds what the span keeps */
  int64_t tokens; /* -1 unknown */
  int32_t peer; /* as recorded: ask bt_trace_peer for the global rank; -1 none */
  uint32_t group; /* index into bt_rank.groups + 1, 0 none */
  int32_t microbatch_b;
  int16_t chunk_b;
  uint8_t on_code; /* gates */
  uint8_t reserved;
  int32_t count; /* gates */
  uint32_t name; /* 1 + index into bt_trace.names for imported names, 0 none */
} bt_span_more;

#define BT_MORE_OWN (UINT32_C(1) << 31)
enum { BT_MORE_SHARED = 1 << 15 };

enum { BT_TRACK_MOVES = 4 }; /* older ones are kept together */

typedef struct bt_track_move {
  uint64_t number; /* of bt_track.moves */
  size_t place;
} bt_track_move;

typedef struct bt_track {
  bt_span *spans;
  size_t count, capacity;
  size_t settled; /* spans before this index will not move */
  bt_span_more *shared; /* from 1 on; fewer than BT_MORE_SHARED */
  size_t shared_count, shared_capacity;
  bt_span_more *own; /* of single spans: long ones, and when there is no more room in `shared` */
  size_t own_count, own_capacity;
  int64_t longest; /* longest duration of any span: a bound for searches */
  uint64_t moves; /* counts how often settled spans had to move */
  /* private: spans added and not merged yet lie behind `count`; hash table of `shared` (a power of two of places, 0 free),
   * and which was used last by each kind */
  size_t pending;
  bool pending_unsorted;
  bt_track_move lowest[BT_TRACK_MOVES]; /* by rising number and rising place: the lowest place since each number */
  unsigned lowest_count;
  uint16_t *shared_table;
  size_t shared_table_size;
  uint16_t shared_last[8]; /* by kind, modulo */
} bt_track;

enum { /* limits of the model, so that no input makes it grow without bound; more is refused with BT_ERR_LIMIT */
       BT_MAX_RANK = (1 << 20) - 1,
       BT_MAX_LIVES = 4096, /* of a rank */
       BT_MAX_GROUPS = 1024, /* of a rank */
       BT_MAX_OPEN = 1024, /* of a rank */
       BT_MAX_NAMES = 1 << 16,
       BT_MAX_HOSTS = 1 << 16
};

typedef struct bt_step {
  int64_t id;
  int64_t begin, end; /* INT64_MIN: that mark is missing */
} bt_step;

typedef enum bt_joined_state {
  BT_JOINED, /* every member is known */
  BT_JOINED_IN_PART, /* some ranks have not named it (yet) */
  BT_JOINED_NOT /* those that name it contradict each other: no member is known */
} bt_joined_state;

typedef struct bt_member {
  int32_t place, rank; /* in the communicator, of the world */
} bt_member;

/* A communicator that ranks know by its identity and their own place in it, as all of them tell it (formats/join.h). */
typedef struct bt_joined {
  uint64_t identity;
  bt_joined_state state;
  uint8_t domain; /* by its members' places in the layout; unknown where that does not tell */
  int32_t count; /* members in all, 0 unknown */
  int32_t known; /* of which are in `members` */
  bt_member *members; /* sorted by place */
} bt_joined;

typedef struct bt_group_info {
  uint32_t id; /* as the rank numbers it in this life */
  uint32_t life;
  uint8_t domain; /* BT_DOMAIN_UNKNOWN and count 0 while only spans have named the group */
  uint8_t told_domain; /* as recorded; `domain` may come from the members */
  uint64_t identity; /* not 0: a communicator, peers in its records are places in it (bt_trace_peer) */
  const bt_joined *joined; /* what is known of that; NULL: not joined yet */
  int32_t own_rank, count;
  uint32_t run_count;
  bt_run_of_ranks *runs;
} bt_group_info;

typedef struct bt_mark { /* an instant or a counter sample */
  int64_t time;
  double value; /* instants: NAN */
  uint32_t name; /* index into bt_trace.names */
  int32_t microbatch;
} bt_mark;

typedef struct bt_open_span { /* begun, not ended, as last reported */
  bt_event event; /* start, duration so far, kind in on_code; no borrowed pointers */
  uint32_t life, ring;
} bt_open_span;

typedef struct bt_loss { /* records known to be lost: a full ring, a damaged or missing part */
  int64_t from, to; /* ns, INT64_MIN / INT64_MAX: not known */
  uint64_t records; /* 0: not known */
  uint32_t life, ring;
} bt_loss;

typedef struct bt_clock_pair {
  int64_t mono, real;
} bt_clock_pair;

typedef struct bt_life { /* one process life of a rank */
  uint32_t life;
  int64_t pid;
  uint8_t marker[BT_MARKER_BYTES];
  int64_t first, last; /* ns of its records; first > last: none yet */
  bool ended; /* an end record was read */
  bool recoverable, recovered;
  uint32_t host; /* index into bt_trace.hosts */
} bt_life;

typedef struct bt_rank {
  int32_t rank;
  bt_layout layout;
  uint32_t host; /* index into bt_trace.hosts: its clock domain (of the newest life) */
  /* its clock, set by tui/analysis (bt_rank_time): what to add to raw times, and how that changes with time */
  int64_t offset_ns, clock_pivot;
  double clock_rate;
  bt_track tracks[BT_LANE_COUNT];
  bt_step *steps; /* sorted by begin; a missing begin counts as the end */
  size_t step_count, step_capacity;
  bool steps_fell_back; /* their ids do not rise everywhere: a restart went back */
  bt_group_info *groups;
  size_t group_count, group_capacity;
  bt_mark *marks; /* sorted by time */
  size_t mark_count, mark_capacity;
  bt_open_span *open; /* sorted by start */
  size_t open_count, open_capacity;
  bt_loss *losses;
  size_t loss_count, loss_capacity;
  bt_clock_pair *clocks;
  size_t clock_count, clock_capacity;
  bt_life *lives; /* sorted by number */
  size_t life_count, life_capacity;
  int64_t first, last; /* extent of its spans and marks; first > last: nothing yet */
  int64_t heartbeat; /* time of the newest heartbeat or record, INT64_MIN none */
  uint64_t dropped; /* records refused by full rings, in all */
  /* private: where the unsorted parts begin, what was found last, how many messages formats/join.c has seen */
  size_t step_sorted, mark_sorted, last_group, last_life, directed;
  int32_t most_chunk; /* private: highest chunk of a compute span, -1 none */
  bool undirected; /* private: some messages were recorded as SEND or RECV */
} bt_rank;

typedef struct bt_host { /* a clock domain */
  char name[128];
  char boot_id[64];
  uint64_t time_namespace;
} bt_host;

typedef struct bt_trace {
  bt_rank *ranks; /* sorted by rank number */
  size_t rank_count, rank_capacity;
  bt_host *hosts;
  size_t host_count, host_capacity;
  char **names;
  size_t name_count, name_capacity;
  int32_t world_size; /* as told by headers, -1 unknown */
  char run_id[64];
  uint64_t span_count;
  uint64_t generation; /* counts up with every change */
  uint64_t reordered; /* counts up when a settled part had to move */
  bt_joined *joined; /* sorted by identity */
  size_t joined_count;
  /* private: what the joined communicators follow from changed so often; what of that formats/join.c has seen */
  uint64_t definitions, definitions_seen, reordered_seen;
  /* private: hash table of names, 1 + index, 0 free; a power of two */
  uint32_t *name_table;
  size_t name_table_size;
} bt_trace;

bt_status bt_trace_new(bt_trace **trace);
void bt_trace_free(bt_trace *trace);
/* Private to formats: forgets what communicators were joined. */
void bt_trace_forget_joined(bt_trace *trace);

/* Finds or makes a rank. NULL when memory is short or the number is not in 0..BT_MAX_RANK. The pointer moves when ranks
 * are added; adding in rising order is cheap, otherwise each costs the moving of those behind it. */
bt_rank *bt_trace_rank(bt_trace *trace, int32_t rank);
const bt_rank *bt_trace_find(const bt_trace *trace, int32_t rank);

/* Finds or makes a process life of a rank. NULL when memory is short or a limit is reached. Moves when lives are added. */
bt_life *bt_trace_life(bt_rank *rank, uint32_t life);

/* Takes what a stream header says: life, clock domain, clock pair, world size, run id, and the layout keys that it knows
 * unless a newer life was seen. BT_OK, BT_ERR_NOMEM or BT_ERR_LIMIT. */
bt_status bt_trace_header(bt_trace *trace, bt_rank *rank, const bt_header *header);

/* Forgets the open spans of a ring: a newer look at it tells which ones there are. */
void bt_trace_forget_open(bt_rank *rank, uint32_t life, uint32_t ring);

/* Notes a loss that the reader found (the program's own are BT_DROPPED records). */
bt_status bt_trace_loss(bt_trace *trace, bt_rank *rank, const bt_loss *loss);

/* Finds or makes a clock domain, a name: their index, or UINT32_MAX when memory is short or the limit is reached. */
uint32_t bt_trace_host(bt_trace *trace, const char *name, const char *boot_id, uint64_t time_namespace);
uint32_t bt_trace_name(bt_trace *trace, const char *text, size_t length);

/* Adds one record of rank, life and ring. Spans, steps and marks are collected and become visible (and sorted) with
 * bt_trace_settle: call it before anybody reads. Duplicates are the caller's business (it merges by record number).
 * BT_OK, BT_ERR_NOMEM, BT_ERR_LIMIT, or BT_ERR_ARG for a record that makes no sense (negative duration, an end that
 * overflows, …); in these cases nothing was added. */
bt_status bt_trace_add(bt_trace *trace, bt_rank *rank, uint32_t life, uint32_t ring, const bt_event *event);

/* Merges what bt_trace_add collected into the sorted tracks; linear in the overlap with what is there. `horizon`: no
 * span that starts before it will be added any more as far as the caller knows (INT64_MIN: nothing is settled,
 * INT64_MAX: all is). */
bt_status bt_trace_settle(bt_trace *trace, bt_rank *rank, int64_t horizon);
/* The same, but spans that lie far back wait until there are many: call bt_trace_settle when no more come for now. */
bt_status bt_trace_settle_lazily(bt_trace *trace, bt_rank *rank, int64_t horizon);

static inline int64_t bt_span_duration(const bt_track *track, const bt_span *span) {
  return span->duration32 != UINT32_MAX ? (int64_t)span->duration32 : track->own[span->more - BT_MORE_OWN].duration;
}
static inline int64_t bt_span_end(const bt_track *track, const bt_span *span) {
  return span->start + bt_span_duration(track, span);
}
/* NULL: it has none. */
static inline const bt_span_more *bt_span_details(const bt_track *track, const bt_span *span) {
  if (span->more == 0) return NULL;
  return span->more >= BT_MORE_OWN ? &track->own[span->more - BT_MORE_OWN] : &track->shared[span->more >> 16];
}
/* -1: unknown. */
static inline int64_t bt_span_sequence(const bt_track *track, const bt_span *span) {
  const bt_span_more *more = bt_span_details(track, span);
  if (more == NULL) return -1;
  return span->more >= BT_MORE_OWN ? more->sequence_base : more->sequence_base + (span->more & 0xFFFF);
}

/* A raw time of the rank on the clock that all ranks share. */
static inline int64_t bt_rank_time(const bt_rank *rank, int64_t time) {
  if (rank->clock_rate == 0) return time + rank->offset_ns;
  return time + rank->offset_ns + (int64_t)(rank->clock_rate * (double)(time - rank->clock_pivot));
}

/* The global rank at a place of a communicator; -1: not known. */
int32_t bt_joined_member(const bt_joined *joined, int32_t place);

/* The global rank of a recorded peer in a group (index + 1, 0 none) of the rank; -1: none, or not known. */
static inline int32_t bt_trace_peer(const bt_rank *rank, uint32_t group, int32_t peer) {
  if (group == 0 || group > rank->group_count || rank->groups[group - 1].identity == 0) return peer;
  const bt_joined *joined = rank->groups[group - 1].joined;
  return joined != NULL ? bt_joined_member(joined, peer) : -1;
}
/* The same of a span that has not ended. */
int32_t bt_trace_open_peer(const bt_rank *rank, const bt_open_span *open);

/* The first index whose span may be another than when bt_track.moves was `since`, of those that were settled then; SIZE_MAX:
 * all are as they were. */
size_t bt_track_moved(const bt_track *track, uint64_t since);

/* First index whose span starts at or after `time`. */
size_t bt_track_lower_bound(const bt_track *track, int64_t time);

/* Derived from layout, with the usual defaults: stage = pp rank (or the rank itself when nothing is known), virtual
 * stage of a chunk, replica = dp rank (0 when unknown). */
int32_t bt_rank_stage(const bt_rank *rank);
int32_t bt_rank_replica(const bt_rank *rank);
int32_t bt_rank_vstage(const bt_rank *rank, int32_t chunk);

#endif
