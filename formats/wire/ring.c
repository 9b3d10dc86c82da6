#include "formats/wire/ring.h"

#include <string.h>

_Static_assert(sizeof(bt_slot) == BT_SLOT_BYTES, "a slot is one cache line");
_Static_assert(sizeof(bt_open_slot) == 64, "an open slot is one cache line");
_Static_assert(sizeof(bt_ring_head) <= BT_RING_PAGE, "slots follow the first page");
_Static_assert(sizeof(bt_ring_file) <= BT_RING_PAGE, "rings follow the first page");
_Static_assert(offsetof(bt_ring_head, head) == 64 && offsetof(bt_ring_head, tail) == 128,
               "producer and writer have a line each");
_Static_assert(BT_MAX_RUNS * sizeof(bt_run_of_ranks) <= BT_MAX_META, "extra bytes fit the reader's buffer");
_Static_assert(BT_MAX_META % BT_SLOT_BYTES == 0, "which holds whole slots");

static const uint64_t bytes_unknown = (UINT64_C(1) << 48) - 1;

static uint64_t load64(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
static uint32_t load32(const uint32_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- slot <-> event ---- */

void bt_slot_from_event(bt_slot *slot, const bt_event *event) {
  uint64_t bytes = event->bytes < 0 || (uint64_t)event->bytes >= bytes_unknown ? bytes_unknown : (uint64_t)event->bytes;
  *slot = (bt_slot){.start = event->start,
                    .duration = event->duration,
                    .code = event->code,
                    .flags = event->flags,
                    .lane = event->lane,
                    .chunk = event->chunk,
                    .chunk_b = event->chunk_b,
                    .microbatch = event->microbatch,
                    .microbatch_b = event->microbatch_b,
                    .peer = event->peer,
                    .group = event->group,
                    .sequence = event->sequence,
                    .bytes_low = (uint32_t)bytes,
                    .bytes_high = (uint16_t)(bytes >> 32),
                    .extra = (uint16_t)bt_event_extra(event)};
  switch (event->code) {
  case BT_GATE:
    slot->chunk_b = event->on_code;
    slot->microbatch_b = event->count;
    break;
  case BT_STEP_BEGIN:
  case BT_STEP_END: slot->sequence = event->step; break;
  case BT_COUNTER: memcpy(&slot->sequence, &event->value, sizeof slot->sequence); break;
  case BT_GROUP:
    slot->chunk_b = event->domain;
    slot->microbatch_b = event->count;
    slot->peer = event->own_rank;
    slot->sequence = event->number != 0 ? (int64_t)event->number : -1;
    break;
  default:
    if (!bt_code_is_comm(event->code)) slot->sequence = event->tokens;
    break;
  }
}

static bt_status comm_from_slot(bt_event *event, const bt_slot *slot) {
  uint64_t bytes = (uint64_t)slot->bytes_high << 32 | slot->bytes_low;
  event->peer = slot->peer;
  event->group = slot->group;
  event->sequence = slot->sequence;
  if (slot->code != BT_GATE) {
    event->bytes = bytes == bytes_unknown ? -1 : (int64_t)bytes;
    return BT_OK;
  }
  event->on_code = (uint8_t)slot->chunk_b;
  event->count = slot->microbatch_b;
  return slot->chunk_b >= 0 && slot->chunk_b < BT_CODE_SPAN_LIMIT && slot->microbatch_b >= 0 ? BT_OK : BT_ERR_FORMAT;
}

static bt_status span_from_slot(bt_event *event, const bt_slot *slot) {
  if (slot->extra != 0 || slot->duration < 0 || (slot->start > 0 && slot->duration > INT64_MAX - slot->start))
    return BT_ERR_FORMAT;
  event->flags = slot->flags;
  event->lane = slot->lane;
  event->chunk = slot->chunk;
  event->microbatch = slot->microbatch;
  event->duration = slot->duration;
  if (slot->code == BT_GATE || bt_code_is_comm(slot->code)) return comm_from_slot(event, slot);
  event->tokens = slot->sequence;
  if (slot->code == BT_FB) {
    event->microbatch_b = slot->microbatch_b;
    event->chunk_b = slot->chunk_b;
  }
  return BT_OK;
}

static bt_status group_from_slot(bt_event *event, const bt_slot *slot, const void *extra) {
  if (slot->extra % sizeof(bt_run_of_ranks) != 0 || slot->chunk_b < 0 || slot->chunk_b > UINT8_MAX ||
      slot->microbatch_b < 0)
    return BT_ERR_FORMAT;
  event->group = slot->group;
  event->domain = (uint8_t)slot->chunk_b;
  event->own_rank = slot->peer;
  event->number = slot->sequence == -1 ? 0 : (uint64_t)slot->sequence;
  event->count = slot->microbatch_b;
  event->run_count = slot->extra / (uint32_t)sizeof(bt_run_of_ranks);
  event->runs = event->run_count > 0 ? extra : NULL;
  return bt_runs_are_sound(event->runs, event->run_count, event->count) ? BT_OK : BT_ERR_FORMAT;
}

static bt_status text_from_slot(bt_event *event, const bt_slot *slot, const void *extra, uint32_t limit) {
  event->text = slot->extra > 0 ? extra : "";
  event->text_length = slot->extra;
  return slot->extra <= limit ? BT_OK : BT_ERR_FORMAT;
}

bt_status bt_event_from_slot(bt_event *event, const bt_slot *slot, const void *extra) {
  bt_event_init(event, (bt_code)slot->code);
  event->start = slot->start;
  if (bt_code_is_span(slot->code) && bt_code_is_known(slot->code)) return span_from_slot(event, slot);
  switch (slot->code) {
  case BT_STEP_BEGIN:
  case BT_STEP_END: event->step = slot->sequence; return slot->extra == 0 ? BT_OK : BT_ERR_FORMAT;
  case BT_INSTANT:
    event->microbatch = slot->microbatch;
    event->chunk = slot->chunk;
    return text_from_slot(event, slot, extra, BT_MAX_TEXT);
  case BT_COUNTER:
    memcpy(&event->value, &slot->sequence, sizeof event->value);
    return text_from_slot(event, slot, extra, BT_MAX_TEXT);
  case BT_GROUP: return group_from_slot(event, slot, extra);
  case BT_META: return text_from_slot(event, slot, extra, BT_MAX_META);
  default: return BT_ERR_FORMAT;
  }
}

/* ---- the file ---- */

static const char magic[8] = {'B', 'T', 'R', 'I', 'N', 'G', '\0', '\1'};

bt_status bt_ring_map_check(bt_ring_map *map, const void *bytes, size_t length, bt_error *error) {
  const bt_ring_file *file = bytes;
  if (length < BT_RING_PAGE || memcmp(file->magic, magic, sizeof magic) != 0)
    return bt_fail(error, BT_ERR_FORMAT, "not a ring file of bubbletop");
  if (file->version != BT_RING_VERSION)
    return bt_fail(error, BT_ERR_VERSION, "ring file of version %u, this program knows %d", file->version,
                   BT_RING_VERSION);
  *map = (bt_ring_map){.bytes = bytes, .length = length, .rank = file->rank, .pid = file->pid, .life = file->life};
  map->ring_bytes = file->ring_bytes;
  map->ring_count = load32(&file->ring_count);
  map->clean = load32(&file->clean) != 0;
  map->header = file->header;
  map->header_length = file->header_bytes;
  memcpy(map->marker, file->marker, sizeof map->marker);
  memcpy(map->directory, file->directory, sizeof map->directory);
  map->directory[sizeof map->directory - 1] = '\0';
  if (file->page_bytes != BT_RING_PAGE || map->ring_bytes < BT_RING_PAGE + BT_SLOT_BYTES ||
      map->ring_bytes > BT_RING_PAGE + BT_RING_MAX_BYTES || map->ring_bytes % BT_SLOT_BYTES != 0 ||
      map->ring_count > BT_RING_MAX_RINGS || map->header_length > sizeof file->header)
    return bt_fail(error, BT_ERR_FORMAT, "the ring file's first page contradicts itself");
  uint64_t whole = (length - BT_RING_PAGE) / map->ring_bytes;
  if (map->ring_count > whole) map->ring_count = (uint32_t)whole; /* cut off, or growing: what is there can be read */
  return BT_OK;
}

/* ---- one ring ---- */

void bt_ring_reader_own(bt_ring_reader *reader, const bt_ring_head *ring, uint32_t capacity) {
  reader->ring = ring;
  reader->id = ring->id;
  reader->capacity = capacity;
  reader->position = load64(&ring->tail);
  reader->end = reader->position;
  reader->skipped = 0;
}

bt_status bt_ring_reader_begin(bt_ring_reader *reader, const bt_ring_map *map, uint32_t index) {
  if (index >= map->ring_count) return BT_ERR_FORMAT;
  const bt_ring_head *ring = (const void *)(map->bytes + BT_RING_PAGE + index * map->ring_bytes);
  uint32_t capacity = load32(&ring->capacity);
  if (capacity == 0 || (capacity & (capacity - 1)) != 0 ||
      (uint64_t)capacity * BT_SLOT_BYTES > map->ring_bytes - BT_RING_PAGE)
    return BT_ERR_FORMAT;
  bt_ring_reader_own(reader, ring, capacity);
  return BT_OK;
}

typedef uint64_t bt_word __attribute__((may_alias));

/* Copies a slot that its owner may be changing, word by word with acquire: whoever sees a changed word here sees, in the
 * load that follows, the change of tail or state that went before it. */
static void copy_slot(void *out, const void *slot) {
  bt_word *to = out;
  const bt_word *from = slot;
  for (unsigned i = 0; i < BT_SLOT_BYTES / sizeof *to; i++)
    to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
}

static const bt_slot *slot_at(const bt_ring_reader *reader, uint64_t position) {
  const uint8_t *slots = (const uint8_t *)reader->ring + BT_RING_PAGE;
  return (const void *)(slots + (position & (reader->capacity - 1)) * BT_SLOT_BYTES);
}

static bt_status give_up(bt_ring_reader *reader) {
  uint64_t left = reader->end - reader->position;
  reader->skipped += left < reader->capacity ? left : reader->capacity;
  reader->position = reader->end;
  return BT_DAMAGED;
}

/* The owner may be writing records into the file and then reuse the slots: a copy counts only if they were not given back
 * before it was made. */
static bool given_back(bt_ring_reader *reader) {
  uint64_t tail = load64(&reader->ring->tail);
  if (tail - reader->position == 0 || tail - reader->position > reader->capacity)
    return false; /* not passed by the tail */
  reader->skipped += tail - reader->position;
  reader->position = reader->end = tail; /* look at the head again */
  return true;
}

bt_status bt_ring_reader_next(bt_ring_reader *reader, uint64_t *number, bt_event *event) {
  for (;;) {
    if (reader->position == reader->end) {
      reader->end = load64(&reader->ring->head);
      if (reader->position == reader->end) return BT_AGAIN;
    }
    bt_slot slot;
    copy_slot(&slot, slot_at(reader, reader->position));
    uint32_t slots = bt_slot_count(slot.extra);
    bool possible = reader->end - reader->position <= reader->capacity && slot.extra <= sizeof reader->extra &&
                    slots <= reader->end - reader->position;
    for (uint32_t i = 1; possible && i < slots; i++)
      copy_slot(reader->extra + (i - 1) * BT_SLOT_BYTES, slot_at(reader, reader->position + i));
    if (given_back(reader)) continue;
    if (!possible || bt_event_from_slot(event, &slot, reader->extra) != BT_OK) return give_up(reader);
    *number = slot.number;
    reader->position += slots;
    return BT_OK;
  }
}

bt_status bt_ring_open_span(const bt_ring_head *ring, uint32_t index, bt_event *event) {
  const bt_open_slot *entry = &ring->open[index];
  uint32_t before = load32(&entry->state);
  if (before == 0 || before % 2 != 0) return BT_AGAIN;
  bt_open_slot open;
  copy_slot(&open, entry);
  if (load32(&entry->state) != before || !bt_code_is_span(open.code)) return BT_AGAIN;
  bt_event_init(event, BT_OPEN);
  event->start = open.start;
  event->on_code = open.code;
  event->flags = open.flags;
  event->lane = open.lane;
  event->chunk = open.chunk;
  event->microbatch = open.microbatch;
  event->peer = open.peer;
  event->group = open.group;
  event->sequence = open.sequence;
  event->bytes = open.bytes;
  event->ring = ring->id;
  return BT_OK;
}

uint64_t bt_ring_dropped(const bt_ring_head *ring, int64_t *from, int64_t *to) {
  uint64_t dropped = load64(&ring->dropped), reported = load64(&ring->dropped_reported);
  *from = __atomic_load_n(&ring->dropped_from, __ATOMIC_RELAXED);
  *to = __atomic_load_n(&ring->dropped_to, __ATOMIC_RELAXED);
  return dropped > reported ? dropped - reported : 0;
}
