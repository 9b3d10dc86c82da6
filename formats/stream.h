/* One stream file: bytes -> blocks. Fetching (I/O) and parsing are apart, so that a caller can hold a lock round the
 * second alone. Every byte is fetched once, except parts that looked damaged while the file was growing: on a network
 * file system they may be pages that had not arrived, so they are looked at again before they count as damage.
 * Private to formats. Not thread-safe. */
#ifndef BT_FORMATS_STREAM_H
#define BT_FORMATS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/wire/decode.h"

enum {
  BT_IO_BYTES = 256 * 1024, /* fetched at a time; stays in the cache */
  BT_STREAM_GAPS = 16 /* damaged parts of a file that are looked at again */
};

/* The buffer that streams share. */
typedef struct bt_io {
  uint8_t *bytes;
  size_t length, capacity;
  uint64_t offset; /* of bytes[0] in the file */
} bt_io;

typedef struct bt_gap {
  uint64_t from, to;
  int64_t next_try;
  int tries;
} bt_gap;

typedef struct bt_stream {
  char *path;
  int fd; /* -1: closed, reopened by need */
  dev_t device;
  ino_t inode;
  bt_header header;
  uint8_t *raw; /* owned copy of the header's payload; header.raw points to it */
  bool header_damaged; /* the marker was found in the blocks; the rest of the header is not known */
  bool follow; /* the file may grow, damage may heal */
  uint64_t offset, size; /* fetched up to; size as last seen */
  uint8_t *rest; /* fetched, not consumed */
  size_t rest_length;
  int64_t credit; /* bytes that may be looked at in search of blocks */
  bool unparsed; /* rest has not been looked at */
  bool hole; /* the file ends in what looks like unwritten pages, from `offset` on */
  bool unlinked; /* no name leads to it any more */
  int64_t hole_retry, last_growth; /* CLOCK_MONOTONIC of this host */
  uint64_t bytes_read, blocks, records;
  uint64_t damaged, first_damage; /* bytes skipped for good, and where the first ones are */
  bt_gap gaps[BT_STREAM_GAPS];
  size_t gap_count;
} bt_stream;

/* Called for each good block; anything but BT_OK stops the parsing, which begins with that block next time. */
typedef bt_status bt_block_fn(void *context, const bt_block *block, uint64_t offset);

bool bt_io_init(bt_io *io);
void bt_io_free(bt_io *io);

/* Opens `path` and reads its header. BT_OK; BT_AGAIN: it ends inside its header; otherwise an error, and nothing is left
 * open. A stream whose header alone is damaged is BT_OK with header_damaged. */
bt_status bt_stream_open(bt_stream *stream, const char *path, bool follow, bt_io *io, int64_t now, bt_error *error);
void bt_stream_close(bt_stream *stream);

/* Closes the descriptor; the stream goes on when it is fetched from again. */
void bt_stream_rest_fd(bt_stream *stream);

/* Fetches at most about `want` bytes. BT_OK: parse them. BT_AGAIN: nothing new. BT_ERR_IO. */
bt_status bt_stream_fetch(bt_stream *stream, bt_io *io, uint64_t want, int64_t now, bt_error *error);
bt_status bt_stream_parse(bt_stream *stream, bt_io *io, int64_t now, bt_block_fn *fn, void *context);

/* True when one of the gaps is to be looked at again. bt_stream_heal reads it: fetch and parse in one. */
bool bt_stream_wants_heal(const bt_stream *stream, int64_t now);
bt_status bt_stream_heal(bt_stream *stream, bt_io *io, int64_t now, bt_block_fn *fn, void *context);

/* Nothing more will come: gaps count as damage now. */
void bt_stream_finish(bt_stream *stream);

/* Bytes at the end that are no whole block (yet). */
uint64_t bt_stream_torn(const bt_stream *stream);

#endif
