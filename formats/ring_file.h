/* Reading a ring file (formats/wire/ring.h) that somebody else writes, or has left behind. By pread, never by mapping:
 * a ring that is cut short while it is read is then an error, not a signal. All of it is hostile input.
 * Private to formats. */
#ifndef BT_FORMATS_RING_FILE_H
#define BT_FORMATS_RING_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/decode.h"
#include "formats/wire/ring.h"

typedef struct bt_ring_tap {
  int fd;
  bt_ring_file page; /* the first page, as of the last refresh */
  bt_ring_map file; /* what it says, checked; its pointers lead into `page` */
  bt_slot *slots; /* scratch */
  size_t slot_capacity;
  bt_ring_head before, head; /* of the ring read last: before and after its slots were copied */
} bt_ring_tap;

/* A record in a ring, or (code BT_OPEN, number 0) a span that has not ended. */
typedef bt_status bt_ring_fn(void *context, uint32_t ring, uint64_t number, const bt_event *event);

/* Opens a ring file for reading (and, if the user may write it, for locking): a regular file, no symbolic link, with a sound first page. `inode` 0: any. */
bt_status bt_ring_tap_open(bt_ring_tap *tap, const char *path, uint64_t inode, bt_error *error);
void bt_ring_tap_close(bt_ring_tap *tap);

/* Looks at the first page again: how many rings there are, whether it was closed in good order. */
bt_status bt_ring_tap_refresh(bt_ring_tap *tap, bt_error *error);

/* True while a process holds the owner's record lock. */
bool bt_ring_tap_owned(const bt_ring_tap *tap);

/* Reads the records of ring `index` in slots [max(*next, tail), head) and sets *next behind them; tap->head is then
 * the ring's first page. BT_OK, the callback's status, BT_ERR_FORMAT for a ring that makes no sense (what was sound came
 * before), BT_ERR_IO. */
bt_status bt_ring_tap_read(bt_ring_tap *tap, uint32_t index, uint64_t *next, bt_ring_fn *fn, void *context);

/* Only the first page of ring `index`, into tap->head (and tap->before). BT_OK, BT_ERR_FORMAT, BT_ERR_IO. */
bt_status bt_ring_tap_head(bt_ring_tap *tap, uint32_t index);

/* What a dead writer left in ring `index`, if that is a table of pending spans: GPU-timed ones that did not reach a ring, with
 * the host's times; those that had not ended as BT_OPEN events that lasted until `now`. */
bt_status bt_ring_tap_pending(bt_ring_tap *tap, uint32_t index, int64_t now, bt_ring_fn *fn, void *context);

/* The open spans of the ring read last, as BT_OPEN events that lasted until `now`. */
bt_status bt_ring_tap_open_spans(const bt_ring_tap *tap, int64_t now, bt_ring_fn *fn, void *context);

#endif
