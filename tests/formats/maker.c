#include "tests/formats/maker.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Unlike assert, not compiled away. */
static void need(int condition, const char *what) {
  if (!condition) {
    perror(what);
    abort();
  }
}

void maker_init(made_stream *made, int32_t rank, uint32_t life, uint32_t segment) {
  memset(made, 0, sizeof *made);
  made->encoder = malloc(sizeof *made->encoder);
  need(made->encoder != NULL, "malloc");
  bt_header_init(&made->header);
  made->header.rank = rank;
  made->header.life = life;
  made->header.segment = segment;
  made->header.world_size = 1;
  made->header.pid = getpid();
  made->header.mono_ns = 1000;
  made->header.real_ns = 1700000000000000000; /* long ago: the writer is not thought to live */
  snprintf(made->header.host, sizeof made->header.host, "here");
  snprintf(made->header.boot_id, sizeof made->header.boot_id, "test-boot");
  for (size_t i = 0; i < BT_MARKER_BYTES; i++) {
    made->header.marker[i] = (uint8_t)(0xa1 + 16 * (unsigned)rank + 7 * life + i);
  }
  maker_header(made);
}

void maker_free(made_stream *made) {
  free(made->encoder);
  free(made->bytes);
}

static uint8_t *room_for(made_stream *made, size_t more) {
  if (made->length + more > made->capacity) {
    made->capacity = 2 * (made->length + more);
    made->bytes = realloc(made->bytes, made->capacity);
    need(made->bytes != NULL, "realloc");
  }
  return made->bytes + made->length;
}

void maker_header(made_stream *made) {
  made->length = 0;
  size_t used = 0;
  need(bt_header_encode(&made->header, room_for(made, BT_HEADER_MAX), BT_HEADER_MAX, &used, NULL) == BT_OK, "header");
  made->length = used;
}

void maker_begin(made_stream *made, uint32_t ring) {
  bt_encoder_begin(made->encoder, ring, made->next[ring]);
}

void maker_add(made_stream *made, const bt_event *event) {
  need(bt_encoder_add(made->encoder, event) == BT_OK, "add");
  made->next[made->encoder->ring]++;
}

void maker_span(made_stream *made, bt_code code, int64_t start, int64_t duration, int32_t microbatch) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = start;
  event.duration = duration;
  event.microbatch = microbatch;
  event.chunk = 0;
  maker_add(made, &event);
}

void maker_finish(made_stream *made) {
  uint8_t *out = room_for(made, BT_BLOCK_MAX);
  made->length += bt_encoder_finish(made->encoder, made->header.marker, out);
}

void maker_spans(made_stream *made, uint32_t ring, int64_t start, size_t count, int64_t duration) {
  maker_begin(made, ring);
  for (size_t i = 0; i < count; i++) {
    maker_span(made, BT_F, start + 2 * (int64_t)i * duration, duration, (int32_t)i);
  }
  maker_finish(made);
}

void maker_writer(made_stream *made, bt_code code, int64_t time) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = time;
  maker_begin(made, BT_WRITER_RING);
  maker_add(made, &event);
  maker_finish(made);
}

void maker_path(const made_stream *made, const char *directory, char *path, size_t room) {
  if (made->header.recovered != 0) {
    snprintf(path, room, "%s/rank-%05d.%u.recovered.msgpack", directory, made->header.rank, made->header.life);
  } else {
    snprintf(path, room, "%s/rank-%05d.%u.%u.msgpack", directory, made->header.rank, made->header.life,
             made->header.segment);
  }
}

void maker_save(const made_stream *made, const char *directory, size_t length) {
  char path[512];
  maker_path(made, directory, path, sizeof path);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  need(fd >= 0, path);
  need(write(fd, made->bytes, length) == (ssize_t)length, path);
  close(fd);
}

void maker_directory(char *path, size_t room) {
  const char *base = getenv("TMPDIR");
  snprintf(path, room, "%s/bubbletop-test-XXXXXX", base != NULL ? base : "/tmp");
  need(mkdtemp(path) != NULL, path);
}

void maker_remove(const char *path) {
  DIR *directory = opendir(path);
  const struct dirent *entry;
  while (directory != NULL && (entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] != '.') unlinkat(dirfd(directory), entry->d_name, 0);
  }
  if (directory != NULL) closedir(directory);
  rmdir(path);
}
