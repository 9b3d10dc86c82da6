#include "formats/seen.h"

#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

bt_seen_ring *bt_seen_ring_of(bt_seen *seen, uint32_t ring) {
  if (seen->last < seen->count && seen->rings[seen->last].ring == ring) return &seen->rings[seen->last];
  size_t low = 0;
  size_t high = seen->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (seen->rings[middle].ring < ring) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == seen->count || seen->rings[low].ring != ring) {
    if (seen->count == BT_SEEN_RINGS) return NULL;
    if (!bt_array_reserve(&seen->rings, &seen->capacity, seen->count + 1, sizeof(bt_seen_ring))) return NULL;
    bt_seen_ring *fresh = &seen->rings[low];
    memmove(fresh + 1, fresh, (seen->count - low) * sizeof *fresh);
    *fresh = (bt_seen_ring){.ring = ring};
    seen->count++;
  }
  seen->last = low;
  return &seen->rings[low];
}

/* First interval that ends at or behind `number`. */
static size_t place_of(const bt_seen_ring *ring, uint64_t number) {
  size_t low = 0;
  size_t high = ring->count;
  if (high > 0 && ring->intervals[high - 1].to < number) return high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ring->intervals[middle].to < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool bt_seen_has(const bt_seen_ring *ring, uint64_t number) {
  return bt_seen_overlap(ring, number, number + 1) != 0;
}

int bt_seen_overlap(const bt_seen_ring *ring, uint64_t from, uint64_t to) {
  size_t at = place_of(ring, from);
  if (at < ring->count && ring->intervals[at].to == from) at++; /* it only touches */
  if (at == ring->count || ring->intervals[at].from >= to) return 0;
  return ring->intervals[at].from <= from && ring->intervals[at].to >= to ? 2 : 1;
}

/* The two oldest intervals become one. */
static void close_oldest_gap(bt_seen_ring *ring) {
  ring->missing += ring->intervals[1].from - ring->intervals[0].to;
  ring->intervals[1].from = ring->intervals[0].from;
  ring->count--;
  memmove(ring->intervals, ring->intervals + 1, ring->count * sizeof(bt_interval));
}

bool bt_seen_add(bt_seen_ring *ring, uint64_t from, uint64_t to) {
  size_t at = place_of(ring, from);
  if (at < ring->count && ring->intervals[at].from <= to) { /* touches or overlaps one, perhaps more */
    bt_interval *interval = &ring->intervals[at];
    if (from < interval->from) interval->from = from;
    if (to > interval->to) interval->to = to;
    size_t next = at + 1;
    while (next < ring->count && ring->intervals[next].from <= interval->to) {
      if (ring->intervals[next].to > interval->to) interval->to = ring->intervals[next].to;
      next++;
    }
    memmove(&ring->intervals[at + 1], &ring->intervals[next], (ring->count - next) * sizeof(bt_interval));
    ring->count -= next - at - 1;
    return true;
  }
  if (ring->count == BT_SEEN_INTERVALS) {
    if (at < 2) return false;
    close_oldest_gap(ring);
    at--;
  }
  if (!bt_array_reserve(&ring->intervals, &ring->capacity, ring->count + 1, sizeof(bt_interval))) return false;
  memmove(&ring->intervals[at + 1], &ring->intervals[at], (ring->count - at) * sizeof(bt_interval));
  ring->intervals[at] = (bt_interval){from, to};
  ring->count++;
  return true;
}

uint64_t bt_seen_missing(const bt_seen_ring *ring, bool from_zero) {
  uint64_t missing = ring->missing;
  uint64_t end = from_zero ? 0 : ring->count > 0 ? ring->intervals[0].from : 0;
  for (size_t i = 0; i < ring->count && ring->intervals[i].from < ring->file_end; i++) {
    missing += ring->intervals[i].from - end;
    end = ring->intervals[i].to;
  }
  return missing;
}

void bt_seen_free(bt_seen *seen) {
  for (size_t i = 0; i < seen->count; i++) {
    free(seen->rings[i].intervals);
  }
  free(seen->rings);
  *seen = (bt_seen){0};
}
