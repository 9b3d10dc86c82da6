/* Details that spans share. */
#include <string.h>

#include "formats/array.h"
#include "formats/track.h"

_Static_assert(sizeof(bt_span_more) == 56, "details are compared as bytes: no padding");

enum { LAST = sizeof((bt_track *)NULL)->shared_last / sizeof(uint16_t) };

static uint32_t hash_details(const bt_span_more *details) {
  uint64_t words[sizeof *details / sizeof(uint64_t)], hash = 0;
  memcpy(words, details, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    hash = (hash ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
  }
  return (uint32_t)hash;
}

static bool is_same(const bt_span_more *a, const bt_span_more *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* Where the details stand in the table, or where there is room for them. */
static size_t table_place(const bt_track *track, const bt_span_more *details) {
  size_t mask = track->shared_table_size - 1;
  size_t at = hash_details(details) & mask;
  while (track->shared_table[at] != 0 && !is_same(&track->shared[track->shared_table[at]], details))
    at = (at + 1) & mask;
  return at;
}

/* At most half of the places are taken. */
static bool grow_table(bt_track *track) {
  if (track->shared_count * 2 < track->shared_table_size) return true;
  size_t size = track->shared_table_size == 0 ? 16 : track->shared_table_size * 2;
  uint16_t *table = calloc(size, sizeof *table);
  if (table == NULL) return false;
  free(track->shared_table);
  track->shared_table = table;
  track->shared_table_size = size;
  for (size_t i = 1; i < track->shared_count; i++) {
    table[table_place(track, &track->shared[i])] = (uint16_t)i;
  }
  return true;
}

/* 0: there is no room. */
static uint16_t share(bt_track *track, const bt_span_more *details) {
  if (!grow_table(track)) return 0;
  size_t at = table_place(track, details);
  if (track->shared_table[at] != 0) return track->shared_table[at];
  size_t place = track->shared_count == 0 ? 1 : track->shared_count;
  if (place == BT_MORE_SHARED) return 0;
  if (!bt_array_reserve(&track->shared, &track->shared_capacity, place + 1, sizeof *details)) return 0;
  track->shared[place] = *details;
  track->shared_count = place + 1;
  track->shared_table[at] = (uint16_t)place;
  return (uint16_t)place;
}

static uint32_t keep_own(bt_track *track, const bt_span_more *details) {
  if (track->own_count == BT_MORE_OWN ||
      !bt_array_reserve(&track->own, &track->own_capacity, track->own_count + 1, sizeof *details))
    return 0;
  track->own[track->own_count] = *details;
  return BT_MORE_OWN | (uint32_t)track->own_count++;
}

uint32_t bt_track_details(bt_track *track, unsigned kind, const bt_span_more *details) {
  if (details->duration != 0) return keep_own(track, details);
  uint32_t low = (uint32_t)(details->sequence_base & 0xFFFF);
  bt_span_more shared = *details;
  shared.sequence_base -= low;
  uint16_t place = track->shared_last[kind % LAST];
  if (place == 0 || !is_same(&track->shared[place], &shared)) place = share(track, &shared);
  if (place == 0) return keep_own(track, details);
  track->shared_last[kind % LAST] = place;
  return (uint32_t)place << 16 | low;
}
