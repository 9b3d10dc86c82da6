/* The vocabulary of a capture stream: kinds, event codes, flags, domains, and the decoded form of one record.
 *
 * Times are int64 nanoseconds of CLOCK_MONOTONIC of the writing host. The integers here are the ones on the wire
 * (formats/FORMAT.md) and in a ring's slots, so they never change meaning; new ones are added, old readers skip them.
 */
#ifndef BT_WIRE_EVENT_H
#define BT_WIRE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* The first element of every record. Codes below BT_CODE_SPAN_LIMIT are spans (a bt_kind), the rest are marks. */
typedef enum bt_code {
  BT_NONE = 0,
  /* compute */
  BT_F = 1, /* forward */
  BT_B = 2, /* input-gradient backward */
  BT_W = 3, /* weight gradient */
  BT_BW = 4, /* fused backward: B and W in one */
  BT_FB = 5, /* overlapped forward (microbatch, chunk) and backward (microbatch_b, chunk_b) */
  BT_RECOMPUTE = 6, /* activation recomputation */
  BT_OPTIMIZER = 7,
  BT_OTHER = 8,
  /* point to point */
  BT_SEND_F = 16,
  BT_RECV_F = 17,
  BT_SEND_B = 18,
  BT_RECV_B = 19,
  BT_SEND = 20, /* whether forward or backward is not known */
  BT_RECV = 21,
  /* collectives */
  BT_ALL_REDUCE = 24,
  BT_REDUCE_SCATTER = 25,
  BT_ALL_GATHER = 26,
  BT_ALL_TO_ALL = 27,
  BT_BROADCAST = 28,
  /* a compute lane that was blocked on communication */
  BT_GATE = 32,
  /* data loading, launch */
  BT_HOST = 40,
  BT_CODE_SPAN_LIMIT = 64,
  /* marks made by the traced program */
  BT_STEP_BEGIN = 64,
  BT_STEP_END = 65,
  BT_INSTANT = 66,
  BT_COUNTER = 67,
  BT_GROUP = 68,
  BT_META = 69,
  /* records made by the writer itself (always in ring 0) */
  BT_CLOCK = 80,
  BT_ANCHOR = 81,
  BT_OPEN = 82,
  BT_DROPPED = 83,
  BT_HEARTBEAT = 84,
  BT_END_OF_STREAM = 85
} bt_code;

/* Bits of bt_event.flags. Without BT_FLAG_GPU_TIMED a span has host times. */
enum {
  BT_FLAG_GPU_TIMED = 1 << 0,
  BT_FLAG_GPU_UNKNOWN = 1 << 1, /* meant to be GPU-timed, but only host times survived */
  BT_FLAG_GROUPED = 1 << 2, /* one time for a whole group launch: the end is an upper bound */
  BT_FLAG_DERIVED = 1 << 3, /* made by an importer from something else */
  BT_FLAG_OPEN = 1 << 4, /* had not ended when it was recorded; the duration is "so far" */
  BT_FLAG_DIRECTED = 1 << 7 /* never recorded: a reader found out whether it is forward or backward */
};

typedef enum bt_domain {
  BT_DOMAIN_UNKNOWN = 0,
  BT_DOMAIN_DP = 1,
  BT_DOMAIN_TP = 2,
  BT_DOMAIN_CP = 3,
  BT_DOMAIN_EP = 4,
  BT_DOMAIN_PP = 5,
  BT_DOMAIN_WORLD = 6
} bt_domain;

enum {
  BT_MAX_TEXT = 255, /* bytes of a name; longer ones are cut at a UTF-8 boundary */
  BT_MAX_RUNS = 64, /* arithmetic runs in a group's member list */
  BT_MAX_CHUNKS = 64, /* model chunks of one rank */
  BT_MAX_META = 4096, /* bytes of a meta map */
  BT_WRITER_RING = 0 /* the ring number of the writer's own records; threads' rings count from 1 */
};

/* Members first, first+stride, … (count of them): global ranks. */
typedef struct bt_run_of_ranks {
  int32_t first, stride, count;
} bt_run_of_ranks;

/* One record, decoded. Fields that a code does not use hold their defaults (bt_event_init). Pointers are borrowed:
 * from the caller when encoding, from the decoder's input buffer when decoding (valid as long as that buffer). */
typedef struct bt_event {
  uint8_t code; /* bt_code */
  uint8_t flags; /* BT_FLAG_* */
  int16_t lane; /* the program's own lane (stream) number, -1: the usual lane of the kind */
  int16_t chunk; /* model chunk of the rank, -1 none */
  int16_t chunk_b; /* BT_FB: chunk of the backward half */
  int32_t microbatch; /* -1 none */
  int32_t microbatch_b; /* BT_FB: microbatch of the backward half, -1 none */
  int64_t start; /* ns; marks: their time */
  int64_t duration; /* ns, >= 0; marks: 0 */
  int64_t tokens; /* compute spans: tokens processed, -1 unknown */
  /* comm spans, gates */
  int32_t peer; /* global rank, -1 none or unknown */
  uint32_t group; /* id given by a BT_GROUP record, 0 none */
  int64_t bytes; /* payload bytes, -1 unknown */
  int64_t sequence; /* counted per group, peer and direction, -1 unknown */
  uint8_t on_code; /* BT_GATE: the comm kind waited for; BT_OPEN: the kind of the open span */
  int32_t count; /* BT_GATE: consecutive sequences waited for; BT_GROUP: members in all */
  /* marks */
  int64_t step; /* BT_STEP_*: step number */
  int64_t real; /* BT_CLOCK: CLOCK_REALTIME ns; BT_ANCHOR: half width ns */
  double value; /* BT_COUNTER */
  uint64_t number; /* BT_DROPPED: spans dropped; BT_HEARTBEAT: records accepted so far; BT_ANCHOR: base id;
                      BT_GROUP: identity of a communicator in which peers are its own ranks, 0: they are global */
  uint32_t ring; /* BT_OPEN, BT_DROPPED: the ring it speaks of */
  uint8_t domain; /* BT_GROUP: bt_domain */
  int32_t own_rank; /* BT_GROUP: this process's rank inside the group, -1 unknown */
  uint32_t run_count; /* BT_GROUP: entries of runs */
  const bt_run_of_ranks *runs;
  const char
      *text; /* BT_INSTANT, BT_COUNTER: name; BT_META: msgpack map, encoded; BT_END_OF_STREAM: why. Not 0-terminated */
  uint32_t text_length;
} bt_event;

/* Every field at its default. It has no code. */
extern const bt_event bt_event_blank;

/* Sets every field to its default (none, unknown, zero) and the code. A plain copy of something the compiler cannot see
 * into: from a visible constant it makes `rep stos`, or stores cut across fields, which cost more than decoding a record. */
static inline void bt_event_init(bt_event *event, bt_code code) {
  *event = bt_event_blank;
  event->code = (uint8_t)code;
  if (code == BT_GATE) event->count = 1;
}

static inline bool bt_code_is_span(unsigned code) {
  return code > BT_NONE && code < BT_CODE_SPAN_LIMIT;
}
static inline bool bt_code_is_compute(unsigned code) {
  return code >= BT_F && code <= BT_OTHER;
}
static inline bool bt_code_is_pipeline_op(unsigned code) {
  return code >= BT_F && code <= BT_RECOMPUTE;
}
static inline bool bt_code_is_p2p(unsigned code) {
  return code >= BT_SEND_F && code <= BT_RECV;
}
static inline bool bt_code_is_send(unsigned code) {
  return code == BT_SEND_F || code == BT_SEND_B || code == BT_SEND;
}
static inline bool bt_code_is_receive(unsigned code) {
  return code == BT_RECV_F || code == BT_RECV_B || code == BT_RECV;
}
static inline bool bt_code_is_collective(unsigned code) {
  return code >= BT_ALL_REDUCE && code <= BT_BROADCAST;
}
static inline bool bt_code_is_comm(unsigned code) {
  return bt_code_is_p2p(code) || bt_code_is_collective(code);
}
static inline int64_t bt_event_end(const bt_event *event) {
  return event->start + event->duration;
}

/* False for codes that a newer writer may have added. */
static inline bool bt_code_is_known(unsigned code) {
  const uint64_t spans = UINT64_C(0x01fe) | UINT64_C(0x3f) << BT_SEND_F | UINT64_C(0x1f) << BT_ALL_REDUCE |
                         UINT64_C(1) << BT_GATE | UINT64_C(1) << BT_HOST;
  const uint64_t marks = UINT64_C(0x3f) | UINT64_C(0x3f) << (BT_CLOCK - BT_CODE_SPAN_LIMIT);
  if (code < BT_CODE_SPAN_LIMIT) return (spans >> code & 1) != 0;
  return code < 2 * BT_CODE_SPAN_LIMIT && (marks >> (code - BT_CODE_SPAN_LIMIT) & 1) != 0;
}

/* True when `runs` tell ranks (none negative, none beyond int32) of a group with `members` members; they may tell fewer
 * than all. */
bool bt_runs_are_sound(const bt_run_of_ranks *runs, uint32_t run_count, int32_t members);

/* The name of a code as DESIGN's words write it ("F", "RECV_B", "ALL_REDUCE", "step begin"); "?" when unknown. */
const char *bt_code_name(unsigned code);
/* The code of such a name, BT_NONE when there is none. */
bt_code bt_code_from_name(const char *name);
/* "dp", "tp", …; "?" when unknown. */
const char *bt_domain_name(unsigned domain);

/* Where a rank sits. -1: not known. Kept in a stream header and changed by BT_META records (the last wins). */
typedef struct bt_layout {
  int32_t pp_rank, pp_size, tp_rank, tp_size, dp_rank, dp_size, cp_rank, cp_size, ep_rank, ep_size;
  int32_t chunks; /* model chunks of this rank */
  int32_t microbatches; /* per step and replica */
  int32_t virtual_stages; /* layer blocks of the whole model */
  int32_t vstage[BT_MAX_CHUNKS]; /* virtual stage of chunk c; -1 unknown (then chunk * pp_size + pp_rank) */
  int32_t zero_stage; /* ZeRO stage, 0 none */
  int32_t w_separable; /* 1: the framework separates B and W, 0: it does not, -1 unknown */
  char schedule[32]; /* declared schedule, "" unknown */
} bt_layout;

void bt_layout_init(bt_layout *layout);

#endif
