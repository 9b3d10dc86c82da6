/* Which records of a process life have been read: interval sets of record numbers, one a ring. Files, recovered files
 * and live rings are merged by it, so that nothing is doubled and gaps are known. Private to formats. */
#ifndef BT_FORMATS_SEEN_H
#define BT_FORMATS_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  BT_SEEN_RINGS = 4096, /* rings of one life; more are refused */
  BT_SEEN_INTERVALS = 4096 /* of one ring; when there are more, the oldest gaps are closed and counted */
};

typedef struct bt_interval {
  uint64_t from, to; /* [from, to) */
} bt_interval;

typedef struct bt_seen_ring {
  uint32_t ring;
  bt_interval *intervals; /* sorted, apart */
  size_t count, capacity;
  uint64_t file_end; /* behind the highest number that a file held: what lies above may still come */
  uint64_t missing; /* numbers in gaps that were closed */
} bt_seen_ring;

typedef struct bt_seen {
  bt_seen_ring *rings; /* sorted by ring */
  size_t count, capacity, last;
} bt_seen;

/* Finds or makes a ring's set; NULL when memory is short or there are too many. Moves when rings are added. */
bt_seen_ring *bt_seen_ring_of(bt_seen *seen, uint32_t ring);

bool bt_seen_has(const bt_seen_ring *ring, uint64_t number);

/* How much of [from, to) is known: 0 nothing, 1 some, 2 all. */
int bt_seen_overlap(const bt_seen_ring *ring, uint64_t from, uint64_t to);

/* Adds [from, to). False: memory is short, or it lies in a gap that was closed already. */
bool bt_seen_add(bt_seen_ring *ring, uint64_t from, uint64_t to);

/* Numbers below file_end that never came. `from_zero`: those before the first one count too. */
uint64_t bt_seen_missing(const bt_seen_ring *ring, bool from_zero);

void bt_seen_free(bt_seen *seen);

#endif
