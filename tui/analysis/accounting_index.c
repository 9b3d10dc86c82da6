#include "tui/analysis/accounting_index.h"

#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

enum { LEAST_SIZE = 256, NEIGHBOURS = 16 };

static size_t slot_of(const bt_index *index, const bt_index_key *key) {
  uint64_t hash = (key->a ^ (key->a >> 29)) * 0x9E3779B97F4A7C15u + key->b;
  hash = (hash ^ (hash >> 32)) * 0xBF58476D1CE4E5B9u + key->c / NEIGHBOURS;
  hash = (hash ^ (hash >> 30)) * 0x94D049BB133111EBu;
  hash ^= hash >> 31;
  size_t slot = (size_t)(hash * NEIGHBOURS + key->c % NEIGHBOURS) & (index->size - 1);
  while (index->entries[slot].used && memcmp(&index->entries[slot].key, key, sizeof *key) != 0)
    slot = (slot + 1) & (index->size - 1);
  return slot;
}

static bool resize(bt_index *index, size_t size) {
  bt_index larger = {NULL, size, index->count};
  larger.entries = bt_array_new(larger.size, sizeof *larger.entries);
  if (larger.entries == NULL) return false;
  for (size_t i = 0; i < index->size; i++) {
    if (index->entries[i].used) larger.entries[slot_of(&larger, &index->entries[i].key)] = index->entries[i];
  }
  free(index->entries);
  *index = larger;
  return true;
}

bool bt_index_reserve(bt_index *index, size_t count) {
  size_t size = index->size == 0 ? LEAST_SIZE : index->size;
  while (size / 2 < count)
    size *= 2;
  return size == index->size || resize(index, size);
}

int32_t *bt_index_at(bt_index *index, bt_index_key key) {
  if (!bt_index_reserve(index, index->count + 1)) return NULL;
  bt_index_entry *entry = &index->entries[slot_of(index, &key)];
  if (!entry->used) {
    *entry = (bt_index_entry){key, -1, true};
    index->count++;
  }
  return &entry->value;
}

int32_t bt_index_find(const bt_index *index, bt_index_key key) {
  if (index->size == 0) return -1;
  const bt_index_entry *entry = &index->entries[slot_of(index, &key)];
  return entry->used ? entry->value : -1;
}

void bt_index_clear(bt_index *index) {
  if (index->count > 0) memset(index->entries, 0, index->size * sizeof *index->entries);
  index->count = 0;
}

void bt_index_free(bt_index *index) {
  free(index->entries);
  *index = (bt_index){NULL, 0, 0};
}
