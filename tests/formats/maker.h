/* Makes stream files for the tests of the reader, with the encoder that the capture library uses. */
#ifndef BT_TESTS_FORMATS_MAKER_H
#define BT_TESTS_FORMATS_MAKER_H

#include <stddef.h>
#include <stdint.h>

#include "formats/wire/encode.h"

/* A stream in memory. */
typedef struct made_stream {
  bt_header header;
  bt_encoder *encoder;
  uint8_t *bytes;
  size_t length, capacity;
  uint64_t next[8]; /* per ring, the next record's number */
} made_stream;

/* A stream of `rank` and `life`, on a host of its own, that began long ago, with its header written. */
void maker_init(made_stream *made, int32_t rank, uint32_t life, uint32_t segment);
void maker_free(made_stream *made);

/* Writes the header (again, for a new segment: the bytes so far are forgotten). */
void maker_header(made_stream *made);

/* Records are added to a block that maker_begin starts and maker_finish writes. */
void maker_begin(made_stream *made, uint32_t ring);
void maker_add(made_stream *made, const bt_event *event);
void maker_span(made_stream *made, bt_code code, int64_t start, int64_t duration, int32_t microbatch);
void maker_finish(made_stream *made);

/* A block of `count` F spans one after another from `start`, each `duration` long and as far apart. */
void maker_spans(made_stream *made, uint32_t ring, int64_t start, size_t count, int64_t duration);
/* A block with one record of the writer's own ring. */
void maker_writer(made_stream *made, bt_code code, int64_t time);

/* Puts the bytes into DIRECTORY/rank-RRRRR.L.S.msgpack (or .recovered.). `length` of them, the file is made or replaced. */
void maker_save(const made_stream *made, const char *directory, size_t length);
void maker_path(const made_stream *made, const char *directory, char *path, size_t room);

/* A fresh directory under TMPDIR; maker_remove deletes it and the files in it. */
void maker_directory(char *path, size_t room);
void maker_remove(const char *path);

#endif
