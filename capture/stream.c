#include "capture/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "capture/process.h"

enum { NAME_MAX_BYTES = 64 };

static const uint32_t network_file_systems[] = {
    0x6969 /* NFS */,        0x517b /* SMB */,       0xff534d42 /* CIFS */, 0xfe534d42 /* SMB2 */,
    0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */,  0x65735546 /* FUSE */, 0x00c36400 /* Ceph */,
    0x19830326 /* BeeGFS */, 0x01021997 /* 9p */,    0x5346414f /* AFS */,  0x20030528 /* OrangeFS */,
    0xaad7aaea /* PanFS */,  0x7461636f /* OCFS2 */, 0x01161970 /* GFS2 */,
};

void bt_stream_name(char *name, size_t room, int32_t rank, uint32_t life, uint32_t segment) {
  snprintf(name, room, "rank-%05d.%u.%u.msgpack", rank, life, segment);
}

static bool on_network(int fd) {
  struct statfs status;
  if (fstatfs(fd, &status) != 0) return false;
  for (size_t i = 0; i < sizeof network_file_systems / sizeof network_file_systems[0]; i++) {
    if ((uint32_t)status.f_type == network_file_systems[i]) return true;
  }
  return false;
}

/* The directory's own umask and group rules are the user's; files in it are 0600. */
static int open_directory(const char *path, char *absolute, bt_error *error) {
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    bt_fail(error, BT_ERR_IO, "cannot make the run directory %s: %s%s", path, strerror(errno),
            errno == ENOENT ? " (its parent must exist)" : "");
    return -1;
  }
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char *real = fd >= 0 ? realpath(path, NULL) : NULL;
  if (real == NULL) {
    bt_fail(error, BT_ERR_IO, "cannot open the run directory %s: %s", path, strerror(errno));
  } else if (strlen(real) >= BT_RING_PATH_MAX) {
    bt_fail(error, BT_ERR_IO, "the path of the run directory %s is too long", path);
    free(real);
    real = NULL;
  }
  if (real == NULL) {
    if (fd >= 0) close(fd);
    return -1;
  }
  memcpy(absolute, real, strlen(real) + 1);
  free(real);
  return fd;
}

static int create(const bt_stream *stream, uint32_t life, uint32_t segment) {
  char name[NAME_MAX_BYTES];
  bt_stream_name(name, sizeof name, stream->header.rank, life, segment);
  return openat(stream->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void remember_file(bt_stream *stream) {
  struct stat status;
  if (fstat(stream->fd, &status) != 0) return;
  stream->inode = status.st_ino;
  stream->device = status.st_dev;
}

bubbletop_status bt_stream_open(bt_stream *stream, const bt_config *config, const bt_header *header, char *absolute,
                                bt_error *error) {
  stream->config = config;
  stream->header = *header;
  stream->fd = -1;
  stream->oldest = 1;
  stream->directory = open_directory(config->directory, absolute, error);
  if (stream->directory < 0) return BUBBLETOP_ERR_IO;
  uint32_t life = 0;
  while ((stream->fd = create(stream, life, 0)) < 0 && errno == EEXIST && life < UINT32_MAX)
    life++;
  if (stream->fd < 0) {
    bt_fail(error, BT_ERR_IO, "cannot create a stream in %s: %s", absolute, strerror(errno));
    bt_stream_close(stream);
    return BUBBLETOP_ERR_IO;
  }
  stream->header.life = life;
  stream->network = on_network(stream->fd);
  remember_file(stream);
  return BUBBLETOP_OK;
}

bt_status bt_stream_put_header(bt_stream *stream, bt_error *error) {
  size_t used = 0;
  bt_status status = bt_header_encode(&stream->header, stream->out, sizeof stream->out, &used, error);
  stream->filled = status == BT_OK ? used : 0;
  stream->sent = 0;
  return status;
}

static bt_status failed(bt_stream *stream, int error) {
  __atomic_store_n(&stream->last_errno, error, __ATOMIC_RELAXED);
  __atomic_fetch_add(&stream->write_errors, 1, __ATOMIC_RELAXED);
  return BT_ERR_IO;
}

/* Does the descriptor still mean our file? Programs that become daemons close descriptors they do not know, and the
 * number may be another file by now. */
static bool still_ours(const bt_stream *stream) {
  struct stat status;
  return fstat(stream->fd, &status) == 0 && status.st_ino == stream->inode && status.st_dev == stream->device;
}

bt_status bt_stream_send(bt_stream *stream) {
  if (stream->sent == stream->filled) return BT_OK;
  if (!still_ours(stream)) return failed(stream, EBADF);
  while (stream->sent < stream->filled) {
    size_t length = stream->filled - stream->sent;
    if (length > stream->config->write_bytes) length = stream->config->write_bytes;
    /* at its offset, so that a retry after a half-done write on a network file system writes the same bytes again */
    ssize_t wrote = pwrite(stream->fd, stream->out + stream->sent, length, (off_t)stream->offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed(stream, wrote == 0 ? ENOSPC : errno);
    stream->sent += (size_t)wrote;
    stream->offset += (uint64_t)wrote;
    stream->dirty = true;
    __atomic_fetch_add(&stream->bytes_written, (uint64_t)wrote, __ATOMIC_RELAXED);
  }
  stream->filled = stream->sent = 0;
  return BT_OK;
}

bool bt_stream_segment_full(const bt_stream *stream, size_t more) {
  /* segment 0 of a capped stream is never deleted, so it holds the header and no records */
  if (stream->config->cap_bytes != 0 && stream->segment == 0) return true;
  return stream->has_records && stream->offset + stream->filled - stream->sent + more >= stream->config->segment_bytes;
}

bt_status bt_stream_next_segment(bt_stream *stream, int64_t now) {
  uint32_t segment = stream->segment + 1;
  int fd = create(stream, stream->header.life, segment);
  if (fd < 0) return failed(stream, errno);
  bt_stream_sync(stream, now, true);
  /* a fork must not see the number of a closed descriptor here: its child closes what this says */
  bt_process_lock();
  int old = stream->fd;
  stream->fd = fd;
  bt_process_unlock();
  close(old);
  remember_file(stream);
  if (stream->segment != 0) stream->kept += stream->offset;
  stream->header.segment = segment;
  stream->offset = 0;
  stream->has_records = false;
  __atomic_store_n(&stream->segment, segment, __ATOMIC_RELAXED);
  return bt_stream_put_header(stream, NULL);
}

void bt_stream_trim(bt_stream *stream) {
  uint64_t cap = stream->config->cap_bytes;
  while (cap != 0 && stream->oldest < stream->segment && stream->kept + stream->config->segment_bytes > cap) {
    char name[NAME_MAX_BYTES];
    struct stat status;
    bt_stream_name(name, sizeof name, stream->header.rank, stream->header.life, stream->oldest++);
    if (fstatat(stream->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    unlinkat(stream->directory, name, 0);
    stream->kept -= (uint64_t)status.st_size < stream->kept ? (uint64_t)status.st_size : stream->kept;
  }
}

void bt_stream_sync(bt_stream *stream, int64_t now, bool force) {
  if (!stream->network || !stream->dirty || (!force && now - stream->synced_at < 1000000000)) return;
  (void)fdatasync(stream->fd);
  stream->dirty = false;
  stream->synced_at = now;
}

void bt_stream_close(bt_stream *stream) {
  if (stream->fd >= 0) close(stream->fd);
  if (stream->directory >= 0) close(stream->directory);
  stream->fd = stream->directory = -1;
}

void bt_stream_undo(bt_stream *stream) {
  char name[NAME_MAX_BYTES];
  bt_stream_name(name, sizeof name, stream->header.rank, stream->header.life, 0);
  if (stream->fd >= 0) unlinkat(stream->directory, name, 0);
  bt_stream_close(stream);
}
