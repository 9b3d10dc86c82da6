/* Growing arrays: doubling, so that appending costs O(1); realloc of large ones moves pages, not bytes (mremap), and
 * the unused half is never touched, so it costs address space only. */
#ifndef BT_FORMATS_ARRAY_H
#define BT_FORMATS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for `need` elements of `size` bytes in *array (a pointer to some object pointer). False: memory is short,
 * nothing changed. */
static inline bool bt_array_reserve(void *array, size_t *capacity, size_t need, size_t size) {
  if (need <= *capacity) return true;
  size_t wanted = *capacity < 8 ? 8 : *capacity;
  while (wanted < need) {
    if (wanted > SIZE_MAX / 2) return false;
    wanted *= 2;
  }
  if (wanted > SIZE_MAX / size) return false;
  void **place = array;
  void *grown = realloc(*place, wanted * size);
  if (grown == NULL) return false;
  *place = grown;
  *capacity = wanted;
  return true;
}

#endif
