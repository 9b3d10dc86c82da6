/* The memory in which ended spans wait for the writer: a ring file on tmpfs, or anonymous memory.
 *
 * Not thread-safe: the caller holds the process lock (capture/process.h).
 */
#ifndef BT_CAPTURE_RING_FILE_H
#define BT_CAPTURE_RING_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/config.h"
#include "formats/wire/encode.h"
#include "formats/wire/ring.h"

typedef struct bt_ring_store {
  int fd; /* -1: no ring file */
  bt_ring_file *file;
  char path[256];
  uint64_t inode;
  uint32_t capacity; /* slots of each ring */
  uint32_t count; /* rings made so far */
  uint32_t file_count; /* of which lie in the file, one behind the other */
} bt_ring_store;

/* Makes the ring file and room for its first ring, and locks it (a POSIX record lock is the owner's sign of life). A
 * directory that is no tmpfs, or has no room even for a small ring, gives a store of anonymous memory: never fails.
 * The store owns what it opens. */
void bt_ring_store_open(bt_ring_store *store, const bt_config *config, const bt_header *header);

/* Completes the file with the run directory and the header of segment 0, as encoded; from here on it can be recovered.
 * Without this call the file does not count as a ring file. */
void bt_ring_store_publish(bt_ring_store *store, const bt_header *header, const char *directory, const uint8_t *encoded,
                           size_t length);

/* A new ring, its id set; NULL: no memory, or BT_RING_MAX_RINGS are made. `recoverable` tells whether it lies in the
 * file. Unmapped by bt_ring_unmap. */
bt_ring_head *bt_ring_store_add(bt_ring_store *store, bool *recoverable);
void bt_ring_unmap(bt_ring_head *ring, uint32_t capacity);

/* Gives the ring's memory back and leaves its addresses: what is written there goes nowhere. */
void bt_ring_blank(bt_ring_head *ring, uint32_t capacity);

/* Lets go of the file, which ends the lock. `clean`: all is written, so the file is marked and removed. */
void bt_ring_store_close(bt_ring_store *store, bool clean);

#endif
