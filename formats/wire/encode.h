/* The only encoder of the capture stream (formats/FORMAT.md): a header object, then blocks.
 *
 * Used by the capture library's writer thread, by recover, by the simulator and the importers. Nothing here allocates
 * or does I/O: the caller owns the buffers. An encoder is used by one thread at a time.
 */
#ifndef BT_WIRE_ENCODE_H
#define BT_WIRE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"

enum {
  BT_FORMAT_VERSION = 1,
  BT_MARKER_BYTES = 8,
  BT_PAYLOAD_MAX = 64 * 1024,
  BT_BLOCK_OVERHEAD = 64, /* bytes of a block besides its payload, at most */
  BT_BLOCK_MAX = BT_PAYLOAD_MAX + BT_BLOCK_OVERHEAD,
  BT_HEADER_MAX = 8192
};

/* What a stream says of itself; repeated at the head of every segment. Strings are 0-terminated, "" unknown. */
typedef struct bt_header {
  uint32_t version;
  uint8_t marker[BT_MARKER_BYTES];
  int32_t rank, world_size; /* -1 unknown */
  bt_layout layout;
  char host[128];
  char boot_id[64]; /* with time_namespace: the clock domain */
  uint64_t time_namespace; /* inode of /proc/self/ns/time, 0 unknown */
  int64_t pid;
  char run_id[64];
  uint32_t life, segment;
  int64_t mono_ns, real_ns; /* a clock pair taken at open */
  char ring_path[256]; /* "" when the rings are anonymous memory */
  uint64_t ring_inode;
  int recoverable; /* 1: ended spans survive SIGKILL in ring_path */
  int recovered; /* 1: this file was made by recover */
  char writer[64]; /* e.g. "libbubbletop 0.1.0" */
  /* decoding only: the whole payload map, unknown keys included; borrowed from the input buffer */
  const uint8_t *raw;
  size_t raw_length;
} bt_header;

void bt_header_init(bt_header *header);

/* Writes the header object at `out` (at least BT_HEADER_MAX bytes). `used` gets its length. */
bt_status bt_header_encode(const bt_header *header, uint8_t *out, size_t room, size_t *used, bt_error *error);

/* Encodes a layout as a msgpack map of the keys it knows (unknown ones are left out), for BT_META and the header.
 * BT_ERR_LIMIT: `room` is too small. */
bt_status bt_layout_encode(const bt_layout *layout, uint8_t *out, size_t room, size_t *used);

/* What the previous record of a code (of a GATE: with the same on_code) said: later ones of the block leave out what did
 * not change. */
typedef struct bt_previous {
  int64_t sequence, bytes, tokens;
  int32_t peer, count;
  uint32_t group;
  int16_t lane, chunk, chunk_b;
  uint8_t flags;
} bt_previous;

/* Bits of `seen` tell which entries hold something; the rest is not initialised. */
typedef struct bt_context {
  uint64_t seen_spans, seen_gates;
  bt_previous spans[BT_CODE_SPAN_LIMIT], gates[BT_CODE_SPAN_LIMIT];
} bt_context;

/* One block being built. Zero-initialise nothing: bt_encoder_begin does. About 72 KB: not for small stacks. */
typedef struct bt_encoder {
  uint32_t ring;
  uint64_t first; /* number of the first record */
  uint32_t count; /* records so far */
  int64_t previous_end; /* where the next record's delta counts from; 0 at the beginning of a block */
  int64_t min_start, max_end;
  bt_context context;
  size_t length; /* payload bytes so far */
  uint8_t payload[BT_PAYLOAD_MAX];
} bt_encoder;

/* Starts a block of `ring` whose first record has number `first`. */
void bt_encoder_begin(bt_encoder *encoder, uint32_t ring, uint64_t first);

/* Appends one record. BT_FULL: it does not fit (or the block has its most records): finish, begin with the next number,
 * add again. BT_ERR_ARG: an event that the format cannot carry (text too long, negative duration, end overflows). */
bt_status bt_encoder_add(bt_encoder *encoder, const bt_event *event);

/* Writes the finished block at `out` (at least BT_BLOCK_MAX bytes) and returns its length; 0 when it holds no record. */
size_t bt_encoder_finish(const bt_encoder *encoder, const uint8_t marker[BT_MARKER_BYTES], uint8_t *out);

#endif
