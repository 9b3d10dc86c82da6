/* The hot path's inner part: a record as five words, put into a ring and into its open table.
 *
 * Whole 64-bit words are written and read everywhere, so that a span that ends at once is forwarded from the store
 * buffer, and a slot is eight stores into one cache line. tests/unit/test_producer.c checks the words against
 * bt_slot_from_event.
 */
#ifndef BT_CAPTURE_PRODUCER_H
#define BT_CAPTURE_PRODUCER_H

#include <stddef.h>

#include "capture/session.h"
#include "formats/wire/ring.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "slots are built from little-endian words");

typedef uint64_t bt_word __attribute__((may_alias));

/* Words 3 to 7 of a bt_slot. */
typedef struct bt_record {
  uint64_t code; /* code, flags, lane, chunk, chunk_b */
  uint64_t where; /* microbatch, microbatch_b */
  uint64_t other; /* peer, group */
  uint64_t sequence; /* or tokens, step, … */
  uint64_t bytes; /* 48 bits of bytes, 16 of extra */
} bt_record;

#define BT_NO_BYTES UINT64_C(0x0000ffffffffffff)
#define BT_NO_PEER UINT64_C(0x00000000ffffffff)

_Static_assert(offsetof(bt_slot, start) == 8 && offsetof(bt_slot, duration) == 16, "words 1, 2");
_Static_assert(offsetof(bt_slot, code) == 24 && offsetof(bt_slot, lane) == 26 && offsetof(bt_slot, chunk) == 28 &&
                   offsetof(bt_slot, chunk_b) == 30,
               "word 3");
_Static_assert(offsetof(bt_slot, microbatch) == 32 && offsetof(bt_slot, microbatch_b) == 36, "word 4");
_Static_assert(offsetof(bt_slot, peer) == 40 && offsetof(bt_slot, group) == 44, "word 5");
_Static_assert(offsetof(bt_slot, sequence) == 48 && offsetof(bt_slot, bytes_low) == 56 &&
                   offsetof(bt_slot, extra) == 62 && sizeof(bt_slot) == BT_SLOT_BYTES,
               "words 6, 7");
_Static_assert(offsetof(bt_open_slot, code) == 4 && offsetof(bt_open_slot, start) == 8 &&
                   offsetof(bt_open_slot, chunk) == 16 && offsetof(bt_open_slot, microbatch_b) == 24 &&
                   offsetof(bt_open_slot, group) == 32 && offsetof(bt_open_slot, sequence) == 40 &&
                   offsetof(bt_open_slot, bytes) == 48 && sizeof(bt_open_slot) == 64,
               "open slots");

static inline bt_record bt_record_at(unsigned code, int lane, int chunk, int chunk_b, int32_t microbatch,
                                     int32_t microbatch_b) {
  return (bt_record){
      .code =
          code | (uint64_t)(uint16_t)lane << 16 | (uint64_t)(uint16_t)chunk << 32 | (uint64_t)(uint16_t)chunk_b << 48,
      .where = (uint32_t)microbatch | (uint64_t)(uint32_t)microbatch_b << 32,
      .other = BT_NO_PEER,
      .sequence = UINT64_MAX,
      .bytes = BT_NO_BYTES,
  };
}

static inline bt_word *bt_slot_words(const bt_producer *producer, uint64_t index) {
  return (bt_word *)(bt_ring_slots(producer->ring) + (index & (producer->capacity - 1)));
}

/* The ring has no room for `slots`: count the record as dropped. */
void bt_producer_drop(bt_ring_head *ring);

/* Room for `slots` more? The writer's tail is looked at only when the last look says no. */
static inline bool bt_producer_room(const bt_producer *producer, uint64_t head, uint64_t slots) {
  bt_ring_head *ring = producer->ring;
  if (bt_likely(head + slots - ring->cached_tail <= producer->capacity)) return true;
  ring->cached_tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
  return head + slots - ring->cached_tail <= producer->capacity;
}

static inline void bt_producer_fill(bt_word *slot, uint64_t number, int64_t start, int64_t duration, bt_record record) {
  __atomic_store_n(&slot[0], number, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[1], (uint64_t)start, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[2], (uint64_t)duration, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[3], record.code, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[4], record.where, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[5], record.other, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[6], record.sequence, __ATOMIC_RELAXED);
  __atomic_store_n(&slot[7], record.bytes, __ATOMIC_RELAXED);
}

/* Records of one slot. */
static inline void bt_producer_push(const bt_producer *producer, int64_t start, int64_t duration, bt_record record) {
  bt_ring_head *ring = producer->ring;
  uint64_t head = ring->head;
  if (bt_unlikely(!bt_producer_room(producer, head, 1))) {
    bt_producer_drop(ring);
    return;
  }
  uint64_t number = ring->number;
  bt_producer_fill(bt_slot_words(producer, head), number, start, duration, record);
  __atomic_store_n(&ring->number, number + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
}

/* Records with text or members behind them; their length is put into the record. False: no room, and not counted. */
bool bt_producer_push_long(const bt_producer *producer, int64_t start, bt_record record, const void *extra,
                           size_t length);

/* Open table. A reader copies an entry and then looks whether its state is still the one that it saw first; state is 0
 * before and while it is filled. Each field is stored with release: a reader that sees a new field sees the 0, too. */
enum { BT_NOT_OPEN = BT_OPEN_SLOTS };

static inline uint32_t bt_open_take(bt_producer *producer) {
  if (bt_unlikely(producer->free_open == 0)) {
    producer->free_open = __atomic_exchange_n(&producer->returned_open, 0, __ATOMIC_ACQUIRE);
    if (producer->free_open == 0) return BT_NOT_OPEN;
  }
  uint32_t entry = (uint32_t)__builtin_ctz(producer->free_open);
  producer->free_open &= producer->free_open - 1;
  return entry;
}

static inline void bt_open_fill(bt_producer *producer, uint32_t entry, int64_t start, bt_record record) {
  bt_word *words = (bt_word *)&producer->ring->open[entry];
  uint64_t bytes = (uint64_t)((int64_t)(record.bytes << 16) >> 16);
  __atomic_store_n(&words[1], (uint64_t)start, __ATOMIC_RELEASE);
  __atomic_store_n(&words[2], record.code >> 32 | record.where << 32, __ATOMIC_RELEASE);
  __atomic_store_n(&words[3], record.where >> 32 | record.other << 32, __ATOMIC_RELEASE);
  __atomic_store_n(&words[4], record.other >> 32, __ATOMIC_RELEASE);
  __atomic_store_n(&words[5], record.sequence, __ATOMIC_RELEASE);
  __atomic_store_n(&words[6], bytes, __ATOMIC_RELEASE);
  producer->open_state += 4; /* so it is never 0 */
  __atomic_store_n(&words[0], producer->open_state | record.code << 32, __ATOMIC_RELEASE);
}

static inline void bt_open_clear(bt_ring_head *ring, uint64_t entry) {
  __atomic_store_n(&ring->open[entry].state, 0, __ATOMIC_RELEASE);
}

#endif
