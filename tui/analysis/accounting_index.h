/* Inside the accounting: a table from keys to numbers, for joining records that name each other.
 *
 * Runs number their messages and microbatches upwards, so keys whose `c` are neighbours lie next to each other in memory.
 */
#ifndef BT_ANALYSIS_ACCOUNTING_INDEX_H
#define BT_ANALYSIS_ACCOUNTING_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bt_index_key {
  uint64_t a, b, c;
} bt_index_key;

typedef struct bt_index_entry {
  bt_index_key key;
  int32_t value;
  bool used;
} bt_index_entry;

typedef struct bt_index {
  bt_index_entry *entries; /* a power of two */
  size_t size, count;
} bt_index;

static inline bt_index_key bt_index_pair(int32_t first, int32_t second, uint64_t b, uint64_t c) {
  return (bt_index_key){(uint64_t)(uint32_t)first << 32 | (uint32_t)second, b, c};
}

/* Makes room for `count` keys at once. False: no memory. */
bool bt_index_reserve(bt_index *index, size_t count);
/* The value of a key; one that is not there yet is put in with -1. Valid until the next call; NULL: no memory. */
int32_t *bt_index_at(bt_index *index, bt_index_key key);
/* -1: not there. */
int32_t bt_index_find(const bt_index *index, bt_index_key key);
void bt_index_clear(bt_index *index); /* keeps its memory */
void bt_index_free(bt_index *index);

#endif
