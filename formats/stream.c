#include "config.h"

#include "formats/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  LOOKS = 8, /* bytes looked at in search of blocks, for each byte fetched */
  CREDIT = 8 << 20,
  NAME_BYTES = 3, /* of a header, that tell the format */
  HEADER_GUESS = 1024, /* most headers are shorter */
  SALVAGE_BYTES = 2 * BT_BLOCK_MAX, /* searched for a block when the header is damaged */
  HEAL_BYTES = 4 << 20, /* larger gaps are damage at once */
  HEAL_TRIES = 4, /* after 1, 4, 16 and 64 s */
  HOLE_RUN = 64, /* zeros in a row that no block holds */
  HOLE_TAIL = 8 /* zeros at the end */
};
static const int64_t second = 1000000000;

bool bt_io_init(bt_io *io) {
  *io = (bt_io){.capacity = BT_IO_BYTES + 2 * BT_BLOCK_MAX};
  io->bytes = malloc(io->capacity);
  return io->bytes != NULL;
}

void bt_io_free(bt_io *io) {
  free(io->bytes);
}

static bool io_reserve(bt_io *io, size_t need) {
  if (need <= io->capacity) return true;
  uint8_t *grown = realloc(io->bytes, need);
  if (grown == NULL) return false;
  io->bytes = grown;
  io->capacity = need;
  return true;
}

/* Appends up to `want` bytes of the file at `offset`. */
static bt_status append(bt_stream *stream, bt_io *io, uint64_t offset, size_t want, bt_error *error) {
  if (!io_reserve(io, io->length + want)) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  while (want > 0) {
    ssize_t got = pread(stream->fd, io->bytes + io->length, want, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return bt_fail(error, BT_ERR_IO, "%s: cannot read at %llu: %s", stream->path, (unsigned long long)offset,
                     strerror(errno));
    if (got == 0) break; /* shorter than its size said: a stale attribute */
    io->length += (size_t)got;
    stream->bytes_read += (uint64_t)got;
    offset += (uint64_t)got;
    want -= (size_t)got;
  }
  return BT_OK;
}

static bt_status keep_rest(bt_stream *stream, const uint8_t *bytes, size_t length) {
  if (length == 0) {
    free(stream->rest);
    stream->rest = NULL;
  } else {
    uint8_t *rest = realloc(stream->rest, length);
    if (rest == NULL) return BT_ERR_NOMEM;
    memcpy(rest, bytes, length);
    stream->rest = rest;
  }
  stream->rest_length = length;
  return BT_OK;
}

static bt_status open_file(bt_stream *stream, struct stat *status, bt_error *error) {
  int fd = open(stream->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return bt_fail(error, BT_ERR_IO, "%s: %s", stream->path, strerror(errno));
  if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode)) {
    close(fd);
    return bt_fail(error, BT_ERR_FORMAT, "%s: not a regular file", stream->path);
  }
  stream->fd = fd;
  return BT_OK;
}

/* The header is damaged: finds a good block, whose marker is the stream's. False: there is none. */
static bool salvage_marker(bt_stream *stream, const bt_io *io) {
  static const uint8_t prefix[] = {0x98, 0xc4, BT_MARKER_BYTES};
  size_t at = 0;
  while (at + sizeof prefix + BT_MARKER_BYTES <= io->length) {
    const uint8_t *found = memmem(io->bytes + at, io->length - at, prefix, sizeof prefix);
    if (found == NULL || found + sizeof prefix + BT_MARKER_BYTES > io->bytes + io->length) return false;
    const uint8_t *marker = found + sizeof prefix;
    bt_block block;
    size_t used;
    at = (size_t)(found - io->bytes);
    if (bt_block_decode(found, io->length - at, marker, &block, &used) == BT_OK) {
      bt_header_init(&stream->header);
      memcpy(stream->header.marker, marker, BT_MARKER_BYTES);
      stream->header_damaged = true;
      stream->damaged = at;
      return true;
    }
    at++;
  }
  return false;
}

/* Reads on until the header is whole; `used` gets its length, or where blocks begin behind a damaged one. */
static bt_status read_header(bt_stream *stream, bt_io *io, size_t *used, bt_error *error) {
  static const size_t tries[] = {HEADER_GUESS, BT_HEADER_MAX, SALVAGE_BYTES};
  bt_status status = BT_AGAIN;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    size_t want = tries[i] < stream->size ? tries[i] : (size_t)stream->size;
    if (want > io->length) {
      bt_status got = append(stream, io, io->length, want - io->length, error);
      if (got != BT_OK) return got;
    }
    status = io->length == 0 ? BT_AGAIN : bt_header_decode(io->bytes, io->length, &stream->header, used, error);
    if (status == BT_OK || status == BT_ERR_VERSION) return status;
  }
  if (!salvage_marker(stream, io)) {
    size_t some = io->length < NAME_BYTES ? io->length : NAME_BYTES; /* the format's name alone decides */
    if (status == BT_AGAIN && some > 0 &&
        bt_header_decode(io->bytes, some, &stream->header, used, error) == BT_ERR_FORMAT) {
      return BT_ERR_FORMAT;
    }
    if (status != BT_AGAIN || stream->follow) return status;
    if (io->length == 0) return bt_fail(error, BT_ERR_FORMAT, "the file is empty");
    return bt_fail(error, BT_ERR_FORMAT, "the file ends inside its header: it was cut, or its writer died at once");
  }
  *used = (size_t)stream->damaged;
  return BT_OK;
}

static bt_status take_header(bt_stream *stream, bt_io *io, size_t used) {
  if (stream->header.raw != NULL) {
    stream->raw = malloc(stream->header.raw_length);
    if (stream->raw == NULL) return BT_ERR_NOMEM;
    memcpy(stream->raw, stream->header.raw, stream->header.raw_length);
    stream->header.raw = stream->raw;
  }
  stream->offset = io->length;
  stream->unparsed = io->length > used;
  return keep_rest(stream, io->bytes + used, io->length - used);
}

bt_status bt_stream_open(bt_stream *stream, const char *path, bool follow, bt_io *io, int64_t now, bt_error *error) {
  *stream = (bt_stream){.fd = -1, .follow = follow, .credit = CREDIT};
  stream->path = strdup(path);
  if (stream->path == NULL) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  struct stat file;
  bt_status status = open_file(stream, &file, error);
  if (status == BT_OK) {
    stream->device = file.st_dev;
    stream->inode = file.st_ino;
    stream->size = (uint64_t)file.st_size;
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    int64_t age = (int64_t)real.tv_sec - (int64_t)file.st_mtim.tv_sec;
    stream->last_growth = now - (age > 0 && age < (INT64_MAX / second) / 2 ? age * second : 0);
    io->length = 0;
    size_t used = 0;
    bt_error detail = {BT_OK, ""};
    status = read_header(stream, io, &used, &detail);
    if (status == BT_OK) status = take_header(stream, io, used);
    if (status < 0 && status != BT_ERR_IO) (void)bt_fail(error, status, "%s: %s", path, detail.text);
    if (status == BT_ERR_IO && error != NULL) *error = detail;
  }
  if (status == BT_DAMAGED)
    status = bt_fail(error, BT_ERR_FORMAT, "%s: the header is damaged and no block is whole", path);
  if (status != BT_OK) bt_stream_close(stream);
  return status;
}

void bt_stream_rest_fd(bt_stream *stream) {
  if (stream->fd >= 0) close(stream->fd);
  stream->fd = -1;
}

void bt_stream_close(bt_stream *stream) {
  bt_stream_rest_fd(stream);
  free(stream->path);
  free(stream->raw);
  free(stream->rest);
  *stream = (bt_stream){.fd = -1};
}

/* Opens again by need, and looks at the size. */
static bt_status look(bt_stream *stream, int64_t now, bt_error *error) {
  struct stat file;
  if (stream->fd < 0) {
    bt_status status = open_file(stream, &file, error);
    if (status != BT_OK) return status;
    if (file.st_dev != stream->device || file.st_ino != stream->inode) {
      bt_stream_rest_fd(stream);
      stream->unlinked = true;
      return bt_fail(error, BT_ERR_IO, "%s: another file has taken its place", stream->path);
    }
  } else if (fstat(stream->fd, &file) != 0) {
    return bt_fail(error, BT_ERR_IO, "%s: %s", stream->path, strerror(errno));
  }
  stream->unlinked = file.st_nlink == 0;
  if ((uint64_t)file.st_size > stream->size) { /* a smaller size is a stale attribute: streams only grow */
    stream->size = (uint64_t)file.st_size;
    stream->last_growth = now;
    stream->hole_retry = now;
  }
  return BT_OK;
}

bt_status bt_stream_fetch(bt_stream *stream, bt_io *io, uint64_t want, int64_t now, bt_error *error) {
  bt_status status = look(stream, now, error);
  if (status != BT_OK) return status;
  uint64_t available = stream->size - stream->offset;
  if (stream->hole) {
    if (now < stream->hole_retry) return BT_AGAIN;
    stream->hole_retry = now + second;
  }
  if (available == 0 && !stream->unparsed) return BT_AGAIN;
  if (want > available) want = available;
  if (want > BT_IO_BYTES) want = BT_IO_BYTES;
  if (!io_reserve(io, stream->rest_length + (size_t)want)) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  if (stream->rest_length > 0) memcpy(io->bytes, stream->rest, stream->rest_length);
  io->length = stream->rest_length;
  io->offset = stream->offset - stream->rest_length;
  status = append(stream, io, stream->offset, (size_t)want, error);
  if (status != BT_OK) return status;
  bool news = io->length > stream->rest_length || stream->unparsed;
  stream->credit += LOOKS * (int64_t)(io->length - stream->rest_length);
  if (stream->credit > CREDIT) stream->credit = CREDIT;
  stream->offset = io->offset + io->length;
  stream->hole = false;
  return news ? BT_OK : BT_AGAIN;
}

static void count_damage(bt_stream *stream, uint64_t from, uint64_t to) {
  if (stream->damaged == 0 || from < stream->first_damage) stream->first_damage = from;
  stream->damaged += to - from;
}

static void note_gap(bt_stream *stream, uint64_t from, uint64_t to, int64_t now) {
  if (!stream->follow || stream->gap_count == BT_STREAM_GAPS || to - from > HEAL_BYTES) {
    count_damage(stream, from, to);
    return;
  }
  stream->gaps[stream->gap_count++] = (bt_gap){from, to, now + second, 0};
}

/* A hostile file may be full of beginnings of blocks, each of which claims much of what follows: then only so many bytes
 * are looked at for each byte of the file (`credit`), and what a false beginning claims is skipped. Blocks that real damage
 * has left are not missed. The next whole block in (from, length), or `length`; `torn` gets the first place where one may have begun. */
static size_t next_block(bt_stream *stream, const bt_io *io, size_t from, size_t *torn) {
  *torn = io->length;
  for (size_t at = from; at < io->length;) {
    at = bt_block_scan(io->bytes, io->length, at, stream->header.marker);
    if (at >= io->length) break;
    bt_block block;
    size_t used;
    bt_status status = bt_block_decode(io->bytes + at, io->length - at, stream->header.marker, &block, &used);
    if (status == BT_OK) return at;
    if (status == BT_AGAIN && *torn == io->length) *torn = at;
    stream->credit -= (int64_t)used;
    at += stream->credit > 0 || used == 0 ? 1 : used;
  }
  return io->length;
}

/* True when the bytes may be pages that were not written when they were read. */
static bool looks_unwritten(const uint8_t *bytes, size_t length) {
  size_t zeros = 0;
  for (size_t i = 0; i < length; i++) {
    zeros = bytes[i] == 0 ? zeros + 1 : 0;
    if (zeros == HOLE_RUN) return true;
  }
  return zeros >= HOLE_TAIL;
}

/* No whole block begins at or behind `at`: decides what of the bytes there is damage; returns where the rest begins. */
static size_t leave_tail(bt_stream *stream, const bt_io *io, size_t at, bt_status status, size_t torn, int64_t now) {
  bool more = stream->offset < stream->size;
  bool unwritten = !more && stream->follow && looks_unwritten(io->bytes + at, io->length - at);
  if (status == BT_AGAIN && io->length - at < BT_BLOCK_MAX && !unwritten) return at;
  if (status == BT_AGAIN && !more) { /* read again, not kept */
    stream->hole = true;
    stream->hole_retry = now + second;
    stream->offset = io->offset + at;
    return io->length;
  }
  if (torn < io->length && io->length - torn >= BT_BLOCK_MAX) torn = io->length - BT_BLOCK_MAX + 1;
  note_gap(stream, io->offset + at, io->offset + torn, now);
  return torn;
}

bt_status bt_stream_parse(bt_stream *stream, bt_io *io, int64_t now, bt_block_fn *fn, void *context) {
  size_t at = 0;
  bt_status result = BT_OK;
  stream->unparsed = false;
  while (at < io->length) {
    bt_block block;
    size_t used = 0;
    bt_status status = bt_block_decode(io->bytes + at, io->length - at, stream->header.marker, &block, &used);
    if (status == BT_OK) {
      result = fn(context, &block, io->offset + at);
      if (result != BT_OK) {
        stream->unparsed = true;
        break;
      }
      stream->blocks++;
      at += used;
      continue;
    }
    size_t torn;
    size_t next = next_block(stream, io, at + 1, &torn);
    if (next == io->length) {
      at = leave_tail(stream, io, at, status, torn, now);
      break;
    }
    note_gap(stream, io->offset + at, io->offset + next, now);
    at = next;
  }
  bt_status kept = keep_rest(stream, io->bytes + at, io->length - at);
  return result != BT_OK ? result : kept;
}

bool bt_stream_wants_heal(const bt_stream *stream, int64_t now) {
  for (size_t i = 0; i < stream->gap_count; i++) {
    if (stream->gaps[i].next_try <= now) return true;
  }
  return false;
}

/* Reads one gap again. What is still no block stays (or, after the last try, counts as damage). */
static bt_status heal_gap(bt_stream *stream, bt_io *io, bt_gap gap, int64_t now, bt_block_fn *fn, void *context) {
  io->length = 0;
  io->offset = gap.from;
  bt_status status = append(stream, io, gap.from, (size_t)(gap.to - gap.from), NULL);
  size_t at = 0;
  size_t bad = 0;
  while (status == BT_OK && at < io->length) {
    bt_block block;
    size_t used = 0;
    if (bt_block_decode(io->bytes + at, io->length - at, stream->header.marker, &block, &used) == BT_OK) {
      status = fn(context, &block, io->offset + at);
      if (status != BT_OK) break;
      stream->blocks++;
      at += used;
      continue;
    }
    size_t torn;
    size_t next = next_block(stream, io, at + 1, &torn);
    bad += next - at;
    at = next;
  }
  if (status != BT_OK || bad == 0) return status;
  gap.tries++;
  gap.next_try = now + (second << (2 * gap.tries));
  if (gap.tries == HEAL_TRIES) {
    count_damage(stream, gap.from, gap.from + bad);
  } else {
    stream->gaps[stream->gap_count++] = gap;
  }
  return BT_OK;
}

bt_status bt_stream_heal(bt_stream *stream, bt_io *io, int64_t now, bt_block_fn *fn, void *context) {
  for (size_t i = 0; i < stream->gap_count; i++) {
    if (stream->gaps[i].next_try > now) continue;
    bt_status status = look(stream, now, NULL);
    if (status != BT_OK) return status;
    bt_gap gap = stream->gaps[i];
    stream->gaps[i] = stream->gaps[--stream->gap_count];
    status = heal_gap(stream, io, gap, now, fn, context);
    if (status != BT_OK) return status;
    i = (size_t)-1; /* the array changed; every gap that was tried lies in the future now */
  }
  return BT_OK;
}

void bt_stream_finish(bt_stream *stream) {
  for (size_t i = 0; i < stream->gap_count; i++) {
    count_damage(stream, stream->gaps[i].from, stream->gaps[i].to);
  }
  stream->gap_count = 0;
}

uint64_t bt_stream_torn(const bt_stream *stream) {
  return stream->rest_length + (stream->hole ? stream->size - stream->offset : 0);
}
