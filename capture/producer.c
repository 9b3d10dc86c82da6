#include "capture/producer.h"

#include <string.h>

#include "capture/clock.h"

void bt_producer_drop(bt_ring_head *ring) {
  int64_t now = bt_now();
  uint64_t dropped = ring->dropped;
  /* nothing is unreported: a new run of drops begins */
  if (dropped == __atomic_load_n(&ring->dropped_reported, __ATOMIC_ACQUIRE))
    __atomic_store_n(&ring->dropped_from, now, __ATOMIC_RELAXED);
  __atomic_store_n(&ring->dropped_to, now, __ATOMIC_RELAXED);
  __atomic_store_n(&ring->dropped, dropped + 1, __ATOMIC_RELEASE);
}

/* The bytes go into the slots behind the record's own, round the ring's end where they must. */
static void copy_extra(const bt_producer *producer, uint64_t at, const uint8_t *extra, size_t length) {
  while (length > 0) {
    size_t part = length < BT_SLOT_BYTES ? length : BT_SLOT_BYTES;
    memcpy(bt_slot_words(producer, at++), extra, part);
    extra += part;
    length -= part;
  }
}

bool bt_producer_push_long(const bt_producer *producer, int64_t start, bt_record record, const void *extra,
                           size_t length) {
  bt_ring_head *ring = producer->ring;
  uint64_t head = ring->head;
  uint64_t slots = bt_slot_count((uint32_t)length);
  if (!bt_producer_room(producer, head, slots)) return false;
  uint64_t number = ring->number;
  record.bytes = (record.bytes & BT_NO_BYTES) | (uint64_t)length << 48;
  bt_producer_fill(bt_slot_words(producer, head), number, start, 0, record);
  copy_extra(producer, head + 1, extra, length);
  __atomic_store_n(&ring->number, number + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&ring->head, head + slots, __ATOMIC_RELEASE);
  return true;
}
