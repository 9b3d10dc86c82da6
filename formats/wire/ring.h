/* The ring file: where spans live between the moment they end and the moment they are in the stream file.
 *
 * One file a session (life), on tmpfs, mapped shared: a page-sized file header, then one ring a thread, all of equal
 * size. A ring is single producer (its thread), single consumer (the session's writer thread; after the owner's death
 * `recover`; a live reader on the same host only looks). The producer fills slots and then stores `head` with release;
 * the writer stores `tail` with release only after the block that holds the records is in the file. So whatever lies in
 * [tail, head) may or may not be in the file, and readers merge by record number.
 *
 * Plain fixed layout, native byte order: a ring file never leaves its host. Readers must treat it as hostile input:
 * bt_ring_map checks every length before it is believed.
 */
#ifndef BT_WIRE_RING_H
#define BT_WIRE_RING_H

#include <stddef.h>
#include <stdint.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif

#include "formats/wire/event.h"
#include "formats/wire/status.h"

enum {
  BT_RING_VERSION = 1,
  BT_RING_PAGE = 4096,
  BT_SLOT_BYTES = 64,
  BT_OPEN_SLOTS = 32,        /* spans that one thread may have open and visible at a time */
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
  int16_t chunk_b;     /* BT_GATE: on_code */
  int32_t microbatch;  
  int32_t microbatch_b;/* BT_GATE, BT_GROUP: count */
  int32_t peer;        /* BT_GROUP: own_rank */
  uint32_t group;      /* BT_GROUP: id, with the domain in chunk_b */
  int64_t sequence;    /* BT_STEP_*: step; compute spans: tokens; BT_COUNTER: the bits of value */
  uint32_t bytes_low;  /* comm: bytes, split so that a slot is one cache line; both words all ones: unknown */
  uint16_t bytes_high; /* 48 bits: 256 TiB */
  uint16_t extra;      /* bytes of text or runs that follow in the next slots */
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

/* First page(s) of a ring; the slots follow at BT_RING_PAGE from its start. */
typedef struct bt_ring_head {
  uint32_t id;       /* ring number in the stream, from 1 */
  uint32_t capacity; /* slots, a power of two */
  uint32_t in_use;   /* atomic: 1 while a live thread owns it */
  uint32_t reserved0;
  uint8_t pad0[48];
  /* producer's line */
  uint64_t head;   /* atomic: slots written, never wraps */
  uint64_t number; /* next record number; written by the producer alone */
  uint64_t dropped;      /* atomic: records refused because the ring was full */
  int64_t dropped_from;  /* ns; first refusal since the writer last reported */
  int64_t dropped_to;
  uint64_t cached_tail;  /* the producer's last look at tail */
  uint8_t pad1[16];
  /* writer's line */
  uint64_t tail;             /* atomic: slots that are in the file */
  uint64_t dropped_reported; /* of dropped, how many a BT_DROPPED record in the file covers */
  uint8_t pad2[48];
  bt_open_slot open[BT_OPEN_SLOTS];
} bt_ring_head;

/* The first page of a ring file. */
typedef struct bt_ring_file {
  char magic[8]; /* "BTRING\0\1" */
  uint32_t version;
  uint32_t page_bytes;   /* BT_RING_PAGE */
  uint64_t ring_bytes;   /* of one ring: page + capacity * 64 */
  uint32_t ring_count;   /* atomic: rings made so far */
  int32_t rank;
  int32_t pid;
  uint32_t life;
  uint8_t marker[8];     /* the stream's marker */
  uint64_t created_ns;   /* CLOCK_MONOTONIC */
  uint32_t clean;        /* atomic: 1 once closed in good order (then nothing is to be recovered) */
  uint32_t header_bytes; /* of the stream header copied behind the path, for a recovered file */
  char directory[BT_RING_PATH_MAX]; /* the run directory, absolute */
  uint8_t header[1900];  /* the stream header object, encoded (same bytes as segment 0 begins with) */
} bt_ring_file;

/* Turns a record into slots and back. `extra` bytes (text, or bt_run_of_ranks entries) follow as raw bytes.
 * bt_slot_from_event fills one slot, extra included, and leaves `number` to the caller.
 * bt_event_from_slot: `extra` points to slot->extra contiguous bytes (the caller un-wraps them), NULL when 0; the event
 * borrows them. Returns BT_ERR_FORMAT for a slot that no writer makes. */
void bt_slot_from_event(bt_slot *slot, const bt_event *event);
bt_status bt_event_from_slot(bt_event *event, const bt_slot *slot, const void *extra);

/* Slots that a record with `extra` bytes takes. */
static inline uint32_t bt_slot_count(uint32_t extra) {
  return 1 + (extra + BT_SLOT_BYTES - 1) / BT_SLOT_BYTES;
}

static inline bt_slot *bt_ring_slots(bt_ring_head *ring) { return (bt_slot *)((uint8_t *)ring + BT_RING_PAGE); }

#endif
