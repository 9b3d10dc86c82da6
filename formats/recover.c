#include "config.h"

#include "formats/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/ring_file.h"

/* A recovered file that is being written, under a temporary name. */
typedef struct salvage {
  int fd;
  bt_header header;
  bt_encoder encoder;
  bool block_open, failed;
  uint64_t records, own_records; /* from rings; told by the recoverer */
  int64_t newest; /* the last time that the rings tell of: about when the writer died */
  uint8_t out[BT_BLOCK_MAX];
} salvage;

static void write_out(salvage *file, size_t length) {
  const uint8_t *bytes = file->out;
  while (length > 0 && !file->failed) {
    ssize_t wrote = write(file->fd, bytes, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      file->failed = true;
      break;
    }
    bytes += wrote;
    length -= (size_t)wrote;
  }
}

static void close_block(salvage *file) {
  if (!file->block_open) return;
  file->block_open = false;
  write_out(file, bt_encoder_finish(&file->encoder, file->header.marker, file->out));
}

/* Records that the format cannot carry are left out: no writer makes them. */
static bool add_record(salvage *file, uint32_t ring, uint64_t number, const bt_event *event) {
  const bt_encoder *encoder = &file->encoder;
  if (file->block_open && (ring != encoder->ring || number != encoder->first + encoder->count)) close_block(file);
  for (int i = 0; i < 2; i++) {
    if (!file->block_open) {
      bt_encoder_begin(&file->encoder, ring, number);
      file->block_open = true;
    }
    bt_status status = bt_encoder_add(&file->encoder, event);
    if (status == BT_OK) return true;
    if (status != BT_FULL) return false;
    close_block(file);
  }
  return false;
}

static bt_status save_record(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  salvage *file = context;
  if (add_record(file, ring, number, event)) file->records++;
  if (bt_event_end(event) > file->newest) file->newest = bt_event_end(event);
  return file->failed ? BT_ERR_IO : BT_OK;
}

static bt_status note_newest_open(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  salvage *file = context;
  (void)ring;
  (void)number;
  if (event->start > file->newest) file->newest = event->start;
  return BT_OK;
}

static bt_status save_open(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  salvage *file = context;
  (void)ring;
  (void)number;
  if (add_record(file, BT_RECOVER_RING, file->own_records, event)) file->own_records++;
  return file->failed ? BT_ERR_IO : BT_OK;
}

static bt_status note_newest(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  salvage *file = context;
  (void)ring;
  (void)number;
  if (event->code != BT_OPEN && bt_event_end(event) > file->newest) file->newest = bt_event_end(event);
  return note_newest_open(context, ring, number, event);
}

static bt_status save_pending(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  salvage *file = context;
  if (event->code == BT_OPEN) return save_open(context, ring, number, event);
  if (add_record(file, BT_RECOVER_RING, file->own_records, event)) {
    file->own_records++;
    file->records++;
  }
  return file->failed ? BT_ERR_IO : BT_OK;
}

static void save_drops(salvage *file, const bt_ring_head *ring) {
  bt_event event;
  int64_t from, to;
  bt_event_init(&event, BT_DROPPED);
  event.number = bt_ring_dropped(ring, &from, &to);
  if (event.number == 0) return;
  event.ring = ring->id;
  event.start = from;
  event.duration = to > from && from > 0 ? to - from : 0;
  if (add_record(file, BT_RECOVER_RING, file->own_records, &event)) file->own_records++;
}

/* All rings: first the records, which also tell when the writer died, then what was open then, or waited for a GPU. */
static void save_rings(salvage *file, bt_ring_tap *tap) {
  for (uint32_t i = 0; i < tap->file.ring_count && !file->failed; i++) {
    uint64_t next = 0;
    (void)bt_ring_tap_read(tap, i, &next, save_record, file); /* of a damaged ring what came before */
    (void)bt_ring_tap_open_spans(tap, INT64_MAX, note_newest_open, file);
    (void)bt_ring_tap_pending(tap, i, INT64_MAX, note_newest, file);
  }
  for (uint32_t i = 0; i < tap->file.ring_count && !file->failed; i++) {
    if (bt_ring_tap_head(tap, i) != BT_OK) continue;
    save_drops(file, &tap->head);
    (void)bt_ring_tap_open_spans(tap, file->newest, save_open, file);
    (void)bt_ring_tap_pending(tap, i, file->newest, save_pending, file);
  }
  close_block(file);
}

/* The header of segment 0 as the ring keeps it, or what the ring's own page tells. */
static void make_header(salvage *file, const bt_ring_tap *tap) {
  size_t used;
  if (tap->file.header_length == 0 ||
      bt_header_decode(tap->file.header, tap->file.header_length, &file->header, &used, NULL) != BT_OK) {
    bt_header_init(&file->header);
    file->header.rank = tap->file.rank;
    file->header.pid = tap->file.pid;
  }
  memcpy(file->header.marker, tap->file.marker, BT_MARKER_BYTES);
  file->header.life = tap->file.life;
  file->header.segment = 0;
  file->header.recovered = 1;
}

/* Writes the recovered file into the run directory `at`. BT_OK also when there was nothing to write (no records). */
static bt_status write_recovered(int at, bt_ring_tap *tap, salvage *file, char *name, size_t room, bt_error *error) {
  char temporary[128];
  size_t length = 0;
  make_header(file, tap);
  if (file->header.rank < 0) return bt_fail(error, BT_ERR_FORMAT, "it tells no rank");
  snprintf(name, room, "rank-%05d.%u.recovered.msgpack", file->header.rank, file->header.life);
  snprintf(temporary, sizeof temporary, ".%s.%d", name, (int)getpid());
  (void)unlinkat(at, temporary, 0); /* of a recoverer that died; ours alone, the ring is locked */
  file->fd = openat(at, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file->fd < 0) return bt_fail(error, BT_ERR_IO, "no file can be made in its run directory: %s", strerror(errno));
  bt_status status = bt_header_encode(&file->header, file->out, sizeof file->out, &length, error);
  if (status == BT_OK) {
    write_out(file, length);
    save_rings(file, tap);
    if (file->failed || fsync(file->fd) != 0) status = bt_fail(error, BT_ERR_IO, "writing failed: %s", strerror(errno));
  }
  close(file->fd);
  bool empty = file->records + file->own_records == 0;
  if (status == BT_OK && !empty && renameat(at, temporary, at, name) != 0) {
    status = bt_fail(error, BT_ERR_IO, "renaming failed: %s", strerror(errno));
  }
  if (status != BT_OK || empty) (void)unlinkat(at, temporary, 0);
  if (status == BT_OK && !empty) (void)fsync(at);
  return status;
}

/* Takes the record lock that the owner would hold. BT_AGAIN: somebody has it. */
static bt_status take_lock(int fd, bool *owner) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return BT_OK;
  lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
  *owner = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid != -1;
  return BT_AGAIN;
}

static bool same_directory(const char *one, const char *other) {
  struct stat a, b;
  return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bt_status save(const char *ring_path, bt_ring_tap *tap, bt_recover_report *report, bt_error *error) {
  if (tap->file.clean) {
    report->clean++;
    return BT_OK;
  }
  const char *directory = tap->file.directory;
  int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) {
    return bt_fail(error, BT_ERR_IO, "%s: its run directory %s cannot be opened: %s", ring_path, directory,
                   strerror(errno));
  }
  salvage *file = calloc(1, sizeof *file);
  bt_error detail = {BT_ERR_NOMEM, "memory is short"};
  char name[64];
  bt_status status = file == NULL ? BT_ERR_NOMEM : write_recovered(at, tap, file, name, sizeof name, &detail);
  if (status != BT_OK) {
    (void)bt_fail(error, status, "%s: %s", ring_path, detail.text);
  } else if (file->records + file->own_records == 0) {
    report->clean++;
  } else {
    report->recovered++;
    report->records += file->records;
    snprintf(report->last_file, sizeof report->last_file, "%s/%s", directory, name);
  }
  free(file);
  close(at);
  return status;
}

/* One file of the ring directory. */
static bt_status recover_one(int rings, const char *path, const char *name, const char *run_directory,
                             bt_recover_report *report, bt_error *error) {
  bt_ring_tap *tap = malloc(sizeof *tap);
  if (tap == NULL) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  struct stat status, named;
  bt_status result = BT_OK;
  bool owner = false;
  if (bt_ring_tap_open(tap, path, 0, NULL) != BT_OK) { /* not a ring, being made, or gone */
    free(tap);
    return BT_OK;
  }
  if (fstat(tap->fd, &status) != 0 || status.st_uid != geteuid()) goto done;
  if (run_directory != NULL && !same_directory(run_directory, tap->file.directory)) goto done;
  report->rings_found++;
  if (take_lock(tap->fd, &owner) != BT_OK) {
    report->alive += owner;
    goto done;
  }
  /* another recoverer may have been here before the lock was ours */
  if (fstatat(rings, name, &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != status.st_ino ||
      bt_ring_tap_refresh(tap, NULL) != BT_OK) {
    goto done;
  }
  result = save(path, tap, report, error);
  if (result == BT_OK) (void)unlinkat(rings, name, 0);
done:
  bt_ring_tap_close(tap);
  free(tap);
  return result;
}

static bool is_ring_name(const char *name) {
  size_t length = strlen(name);
  return length > 15 && strncmp(name, "bubbletop-", 10) == 0 && strcmp(name + length - 5, ".ring") == 0;
}

bt_status bt_recover(const char *run_directory, bt_recover_report *report, bt_error *error) {
  *report = (bt_recover_report){0};
  const char *directory = getenv("BUBBLETOP_RING_DIR");
  if (directory == NULL || *directory == '\0') directory = "/dev/shm";
  struct stat status;
  if (run_directory != NULL && stat(run_directory, &status) != 0) {
    return bt_fail(error, BT_ERR_IO, "%s: %s", run_directory, strerror(errno));
  }
  DIR *rings = opendir(directory);
  if (rings == NULL) return bt_fail(error, BT_ERR_IO, "%s: %s", directory, strerror(errno));
  bt_status first = BT_OK;
  const struct dirent *entry;
  while ((entry = readdir(rings)) != NULL) {
    char path[4096];
    if (!is_ring_name(entry->d_name)) continue;
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    bt_error detail = {BT_OK, ""};
    bt_status result = recover_one(dirfd(rings), path, entry->d_name, run_directory, report, &detail);
    if (result == BT_OK) continue;
    report->failed++;
    if (first == BT_OK && error != NULL) *error = detail;
    if (first == BT_OK) first = result;
  }
  closedir(rings);
  return first;
}
