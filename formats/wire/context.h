/* Internal: what a record leaves out, the encoder and the decoder must fill in alike. */
#ifndef BT_WIRE_CONTEXT_H
#define BT_WIRE_CONTEXT_H

#include <stdint.h>

#include "formats/wire/encode.h"

enum { BT_RECORD_FIELDS = 16 }; /* elements of a record that this version knows, at most */

/* Places of a record's elements (FORMAT.md, "Records"). */
enum { AT_CODE = 0, AT_START = 1, AT_DURATION = 2, AT_MARK = 2, AT_TEXT = 2, AT_MICROBATCH = 3 };
enum { COMPUTE_CHUNK = 4, COMPUTE_FLAGS = 5, COMPUTE_LANE = 6, COMPUTE_TOKENS = 7 };
enum { FB_MICROBATCH_B = 4, FB_CHUNK = 5, FB_CHUNK_B = 6, FB_FLAGS = 7, FB_LANE = 8, FB_TOKENS = 9 };
enum {
  COMM_SEQUENCE = 4,
  COMM_CHUNK = 5,
  COMM_PEER = 6,
  COMM_BYTES = 7,
  COMM_GROUP = 8,
  COMM_FLAGS = 9,
  COMM_LANE = 10
};
enum {
  GATE_ON = 4,
  GATE_SEQUENCE = 5,
  GATE_CHUNK = 6,
  GATE_PEER = 7,
  GATE_COUNT = 8,
  GATE_GROUP = 9,
  GATE_FLAGS = 10,
  GATE_LANE = 11
};
enum {
  OPEN_KIND = 3,
  OPEN_RING = 4,
  OPEN_MICROBATCH = 5,
  OPEN_CHUNK = 6,
  OPEN_PEER = 7,
  OPEN_SEQUENCE = 8,
  OPEN_GROUP = 9,
  OPEN_LANE = 10,
  OPEN_FLAGS = 11,
  OPEN_BYTES = 12
};
enum { DROPPED_COUNT = 3, DROPPED_RING = 4 };
enum { GROUP_ID = 2, GROUP_DOMAIN = 3, GROUP_OWN_RANK = 4, GROUP_COUNT = 5, GROUP_RUNS = 6, GROUP_IDENTITY = 7 };
enum { INSTANT_MICROBATCH = 3, INSTANT_CHUNK = 4, COUNTER_VALUE = 3, ANCHOR_BASE = 3 };

static inline void bt_context_begin(bt_context *context) {
  context->seen_spans = context->seen_gates = 0;
}

/* The entry for spans of `code`, or for gates on it; as it is at the beginning of a block when it was never asked for. */
static inline bt_previous *bt_context_previous(bt_context *context, bool gate, unsigned code) {
  uint64_t *seen = gate ? &context->seen_gates : &context->seen_spans;
  bt_previous *previous = gate ? &context->gates[code] : &context->spans[code];
  if ((*seen >> code & 1) == 0) {
    *seen |= UINT64_C(1) << code;
    *previous = (bt_previous){.sequence = -1, .bytes = -1, .tokens = -1, .peer = -1, .count = 1, .lane = -1};
  }
  return previous;
}

/* Sequences and starts wrap around: every int64 can follow every other. */
static inline int64_t bt_wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t bt_wrap_subtract(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

#endif
