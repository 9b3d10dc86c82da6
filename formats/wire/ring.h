/* The ring file: where spans live between the moment they end and the moment they are in the stream file.
 *
 * One file a session (life), on tmpfs, mapped shared: a page-sized file header, then one ring a thread, all of equal
 * size. A ring is single producer (its thread), single consumer (the session's writer thread; after the owner's death
 * `recover`; a live reader on the same host only looks). The producer fills slots and then stores `head` with release;
 * the writer stores `tail` with release only after the block that holds the records is in the file. So whatever lies in
 * [tail, head) may or may not be in the file, and readers merge by record number.
 *
 * Plain fixed layout, native byte order: a ring file never leaves its host. Readers must treat it as hostile input:
 * bt_ring_map_check checks every length before it is believed.
 */
#ifndef BT_WIRE_RING_H
#define BT_WIRE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"

enum {
  BT_RING_VERSION = 1,
  BT_RING_PAGE = 4096,
  BT_SLOT_BYTES = 64,
  BT_OPEN_SLOTS = 32, /* spans that one thread may have open and visible at a time */
  BT_RING_MAX_BYTES = 1 << 20,
  BT_RING_MAX_RINGS = 1024,
  BT_RING_PATH_MAX = 2048
};

/* One record. A long one (text, members) continues in the next slots as raw bytes: `extra` of them. */
typedef struct bt_slot {
  uint64_t number; /* the record's number in its ring, from 0 */
  int64_t start;
  int64_t duration;
  uint8_t code, flags;
  int16_t lane;
  int16_t chunk;
  int16_t chunk_b; /* BT_GATE: on_code */
  int32_t microbatch;
  int32_t microbatch_b; /* BT_GATE, BT_GROUP: count */
  int32_t peer; /* BT_GROUP: own_rank */
  uint32_t group; /* BT_GROUP: id, with the domain in chunk_b */
  int64_t sequence; /* BT_STEP_*: step; compute spans: tokens; BT_COUNTER: the bits of value; BT_GROUP:
                       identity, -1 none */
  uint32_t bytes_low; /* comm: bytes, split so that a slot is one cache line; both words all ones: unknown */
  uint16_t bytes_high; /* 48 bits: 256 TiB */
  uint16_t extra; /* bytes of text or runs that follow in the next slots */
} bt_slot;

/* A span that has begun and not ended. state is odd while it is being changed, 0 when free. */
typedef struct bt_open_slot {
  uint32_t state; /* atomic; even and not 0: valid */
  uint8_t code, flags;
  int16_t lane;
  int64_t start;
  int16_t chunk, chunk_b;
  int32_t microbatch, microbatch_b, peer;
  uint32_t group;
  int64_t sequence;
  int64_t bytes;
  uint32_t reserved[2];
} bt_open_slot;

/* A table of pending spans: GPU-timed ones whose events were not read yet. It has a ring's shape and no records of its own;
 * each slot stands for itself and says in `number` what it is: a state, and for BT_PENDING_TAKEN, in the bits above it, the
 * place in the other ring that the span gets. So it is known after a kill whether that ring has it. */
enum { BT_PENDING_NONE, BT_PENDING_BEGUN, BT_PENDING_ENDED, BT_PENDING_TAKEN, BT_PENDING_BITS = 2 };

/* First page(s) of a ring; the slots follow at BT_RING_PAGE from its start. */
typedef struct bt_ring_head {
  uint32_t id; /* ring number in the stream, from 1 */
  uint32_t capacity; /* slots, a power of two */
  uint32_t in_use; /* atomic: 1 while a live thread owns it */
  uint32_t pending_of; /* not 0: no ring but a table of pending spans, which go to the ring of that id */
  uint8_t pad0[48];
  /* producer's line */
  uint64_t head; /* atomic: slots written, never wraps */
  uint64_t number; /* next record number; written by the producer alone */
  uint64_t dropped; /* atomic: records refused because the ring was full */
  int64_t dropped_from; /* ns; first refusal since the writer last reported */
  int64_t dropped_to;
  uint64_t cached_tail; /* the producer's last look at tail */
  uint8_t pad1[16];
  /* writer's line */
  uint64_t tail; /* atomic: slots that are in the file */
  uint64_t dropped_reported; /* of dropped, how many a BT_DROPPED record in the file covers */
  uint8_t pad2[48];
  bt_open_slot open[BT_OPEN_SLOTS];
} bt_ring_head;

/* The first page of a ring file. */
typedef struct bt_ring_file {
  char magic[8]; /* "BTRING\0\1" */
  uint32_t version;
  uint32_t page_bytes; /* BT_RING_PAGE */
  uint64_t ring_bytes; /* of one ring: page + capacity * 64 */
  uint32_t ring_count; /* atomic: rings made so far */
  int32_t rank;
  int32_t pid;
  uint32_t life;
  uint8_t marker[8]; /* the stream's marker */
  uint64_t created_ns; /* CLOCK_MONOTONIC */
  uint32_t clean; /* atomic: 1 once closed in good order (then nothing is to be recovered) */
  uint32_t header_bytes; /* of the stream header copied behind the path, for a recovered file */
  char directory[BT_RING_PATH_MAX]; /* the run directory, absolute */
  uint8_t header[1900]; /* the stream header object, encoded (same bytes as segment 0 begins with) */
} bt_ring_file;

/* Turns a record into slots and back. `extra` bytes (text, or bt_run_of_ranks entries) follow as raw bytes.
 * bt_slot_from_event fills one slot, `extra` (their count) included, and leaves `number` and those bytes to the caller.
 * bt_event_from_slot: `extra` points to slot->extra contiguous bytes (the caller un-wraps them), NULL when 0; the event
 * borrows them. Returns BT_ERR_FORMAT for a slot that no writer makes. */
void bt_slot_from_event(bt_slot *slot, const bt_event *event);
bt_status bt_event_from_slot(bt_event *event, const bt_slot *slot, const void *extra);

/* Slots that a record with `extra` bytes takes. */
static inline uint32_t bt_slot_count(uint32_t extra) {
  return 1 + (extra + BT_SLOT_BYTES - 1) / BT_SLOT_BYTES;
}

/* Bytes behind the slot that an event needs (its text or runs). */
static inline uint32_t bt_event_extra(const bt_event *event) {
  return event->code == BT_GROUP ? event->run_count * (uint32_t)sizeof(bt_run_of_ranks) : event->text_length;
}
static inline const void *bt_event_extra_bytes(const bt_event *event) {
  return event->code == BT_GROUP ? (const void *)event->runs : (const void *)event->text;
}

static inline bt_slot *bt_ring_slots(bt_ring_head *ring) {
  return (bt_slot *)((uint8_t *)ring + BT_RING_PAGE);
}

/* ---- reading: the session's writer thread, recover, and live readers, who trust nothing in the mapping ---- */

/* A ring file in memory, checked. The mapping belongs to the caller and may change at any time (a live owner, or somebody
 * hostile): what was checked is copied here. The mapping must not shrink; a reader that maps a file of somebody else must
 * guard against SIGBUS by reading it into memory instead. */
typedef struct bt_ring_map {
  const uint8_t *bytes;
  size_t length;
  uint64_t ring_bytes;
  uint32_t ring_count;
  int32_t rank, pid;
  uint32_t life;
  uint8_t marker[8];
  bool clean;
  char directory[BT_RING_PATH_MAX]; /* 0-terminated */
  const uint8_t *header; /* the stream header object, in the mapping; bt_header_decode it */
  size_t header_length;
} bt_ring_map;

/* Checks the first page. BT_ERR_FORMAT: no ring file, or one that contradicts itself; BT_ERR_VERSION: a newer one. May be
 * called again to see rings made since. */
bt_status bt_ring_map_check(bt_ring_map *map, const void *bytes, size_t length, bt_error *error);

/* A place in one ring. About 4 KB. */
typedef struct bt_ring_reader {
  const bt_ring_head *ring;
  uint32_t id, capacity;
  uint64_t position; /* the next slot to read */
  uint64_t end; /* head as it was at the last look */
  uint64_t
      skipped; /* slots that the writer gave back before they were read (they are in the file), or that were damaged */
  uint8_t extra[BT_MAX_META];
} bt_ring_reader;

/* Begins at the ring's tail. `index` < map->ring_count. BT_ERR_FORMAT: that ring makes no sense (capacity, bounds). */
bt_status bt_ring_reader_begin(bt_ring_reader *reader, const bt_ring_map *map, uint32_t index);
/* The same for a ring that the caller made itself and trusts. */
void bt_ring_reader_own(bt_ring_reader *reader, const bt_ring_head *ring, uint32_t capacity);

/* The next record, in order. BT_OK: `number` and `event` (its pointers are valid until the next call). BT_AGAIN: none now;
 * `position` is what a writer may store as tail once all is in the file. BT_DAMAGED: the slots make no sense; the reader
 * skips to the head, and the next call goes on there. Records that a live owner's writer put into the file meanwhile are
 * left out. */
bt_status bt_ring_reader_next(bt_ring_reader *reader, uint64_t *number, bt_event *event);

/* What is open in entry `index` (< BT_OPEN_SLOTS) of the ring: BT_OK, a BT_OPEN event with the start, the kind in on_code,
 * the ring's id, and duration 0 (the caller knows the time). BT_AGAIN: nothing, or it is changing right now. */
bt_status bt_ring_open_span(const bt_ring_head *ring, uint32_t index, bt_event *event);

/* Spans that the full ring refused since the last BT_DROPPED record: how many, from and to. 0: none. */
uint64_t bt_ring_dropped(const bt_ring_head *ring, int64_t *from, int64_t *to);

#endif
