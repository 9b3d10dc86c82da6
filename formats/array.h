/* Growing arrays: doubling, so that appending costs O(1); realloc of large ones moves pages, not bytes (mremap), and
 * the unused half is never touched, so it costs address space only. */
#ifndef BT_FORMATS_ARRAY_H
#define BT_FORMATS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BT_ADVISE_FROM = 1 << 20, BT_SMALL_PAGE = 4096 };

/* Asks for huge pages where there are some: the first touch of each small page costs more than decoding the events that
 * fill it (45 ns an event of 75 in all). Whole pages, outward: a mapping that is advised in part is two mappings, which
 * realloc cannot move any more. Refused advice changes nothing. */
static inline void bt_array_advise(void *array, size_t bytes) {
#ifdef MADV_HUGEPAGE
  uintptr_t begin = (uintptr_t)array & ~(uintptr_t)(BT_SMALL_PAGE - 1);
  uintptr_t end = ((uintptr_t)array + bytes + BT_SMALL_PAGE - 1) & ~(uintptr_t)(BT_SMALL_PAGE - 1);
  madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
  (void)array, (void)bytes;
#endif
}

/* `count` zeroed elements of `size` bytes for the caller to free, or NULL. */
static inline void *bt_array_new(size_t count, size_t size) {
  void *array = calloc(count, size);
  if (array != NULL && count >= BT_ADVISE_FROM / size) bt_array_advise(array, count * size);
  return array;
}

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
  if (wanted * size >= BT_ADVISE_FROM) bt_array_advise(grown, wanted * size);
  *place = grown;
  *capacity = wanted;
  return true;
}

#endif
