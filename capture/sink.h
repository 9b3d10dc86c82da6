/* Where a stream goes: its files of one life, segment by segment, and bytes on their way into them.
 *
 * Used by the thread that opens the session, and then by its writer thread alone, except where said.
 * What is appended goes out with bt_sink_send, which may be called again after a failure and goes on where it
 * stopped: a stream is never torn by an error, and never truncated.
 */
#ifndef BT_CAPTURE_SINK_H
#define BT_CAPTURE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/config.h"
#include "formats/wire/encode.h"

enum { BT_SINK_BUFFER = 4 * BT_BLOCK_MAX };

typedef struct bt_sink {
  const bt_config *config;
  bt_header header; /* of the current segment */
  int directory, fd; /* -1: none */
  uint64_t inode, device; /* of the current segment */
  bool network; /* a network file system: data is synced now and then, so that other hosts see it */
  bool dirty; /* something is not synced */
  bool has_records; /* the current segment holds more than what every segment begins with */
  int64_t synced_at;
  uint32_t oldest; /* segment that a cap has not deleted, besides segment 0 */
  uint64_t kept; /* bytes of the closed segments from `oldest` on */
  uint64_t offset; /* bytes of the current segment that are in the file */
  size_t filled, sent; /* of `out` */
  /* atomic: read by stats */
  uint64_t bytes_written, write_errors;
  int32_t last_errno;
  uint32_t segment;
  uint8_t out[BT_SINK_BUFFER];
} bt_sink;

/* Opens the run directory (made if its parent exists) and takes a life number with its first segment, whose header is
 * left in `out`, not yet sent: ring_path and the like may still change it. `absolute` (BT_RING_PATH_MAX bytes) gets the
 * directory's path. On failure nothing stays open or behind. */
bubbletop_status bt_sink_open(bt_sink *sink, const bt_config *config, const bt_header *header, char *absolute,
                              bt_error *error);

/* Encodes the header for the current segment into `out`, which must be empty. */
bt_status bt_sink_put_header(bt_sink *sink, bt_error *error);

static inline size_t bt_sink_room(const bt_sink *sink) {
  return BT_SINK_BUFFER - sink->filled;
}

/* BT_OK: all of `out` is in the file. BT_ERR_IO: not all, see last_errno. */
bt_status bt_sink_send(bt_sink *sink);

/* Is the current segment full, with what is on its way and `more` bytes? */
bool bt_sink_segment_full(const bt_sink *sink, size_t more);
/* Begins the next segment, whose header is left in `out`, which must be empty. BT_ERR_IO: the old one goes on. */
bt_status bt_sink_next_segment(bt_sink *sink, int64_t now);
/* Deletes the oldest segments beyond the cap. Segment 0 stays: its name holds the life number. */
void bt_sink_trim(bt_sink *sink);

/* On network file systems, once a second or when `force`d. */
void bt_sink_sync(bt_sink *sink, int64_t now, bool force);

void bt_sink_close(bt_sink *sink);

/* Takes back what bt_sink_open did, file included, and closes. */
void bt_sink_undo(bt_sink *sink);

/* "rank-00007.0.1.msgpack" */
void bt_sink_name(char *name, size_t room, int32_t rank, uint32_t life, uint32_t segment);

#endif
