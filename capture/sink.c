#include "capture/sink.h"

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

void bt_sink_name(char *name, size_t room, int32_t rank, uint32_t life, uint32_t segment) {
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

static int create(const bt_sink *sink, uint32_t life, uint32_t segment) {
  char name[NAME_MAX_BYTES];
  bt_sink_name(name, sizeof name, sink->header.rank, life, segment);
  return openat(sink->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static void remember_file(bt_sink *sink) {
  struct stat status;
  if (fstat(sink->fd, &status) != 0) return;
  sink->inode = status.st_ino;
  sink->device = status.st_dev;
}

bubbletop_status bt_sink_open(bt_sink *sink, const bt_config *config, const bt_header *header, char *absolute,
                              bt_error *error) {
  sink->config = config;
  sink->header = *header;
  sink->fd = -1;
  sink->oldest = 1;
  sink->directory = open_directory(config->directory, absolute, error);
  if (sink->directory < 0) return BUBBLETOP_ERR_IO;
  uint32_t life = 0;
  while ((sink->fd = create(sink, life, 0)) < 0 && errno == EEXIST && life < UINT32_MAX)
    life++;
  if (sink->fd < 0) {
    bt_fail(error, BT_ERR_IO, "cannot create a stream in %s: %s", absolute, strerror(errno));
    bt_sink_close(sink);
    return BUBBLETOP_ERR_IO;
  }
  sink->header.life = life;
  sink->network = on_network(sink->fd);
  remember_file(sink);
  return BUBBLETOP_OK;
}

bt_status bt_sink_put_header(bt_sink *sink, bt_error *error) {
  size_t used = 0;
  bt_status status = bt_header_encode(&sink->header, sink->out, sizeof sink->out, &used, error);
  sink->filled = status == BT_OK ? used : 0;
  sink->sent = 0;
  return status;
}

static bt_status failed(bt_sink *sink, int error) {
  __atomic_store_n(&sink->last_errno, error, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sink->write_errors, 1, __ATOMIC_RELAXED);
  return BT_ERR_IO;
}

/* Does the descriptor still mean our file? Programs that become daemons close descriptors they do not know, and the
 * number may be another file by now. */
static bool still_ours(const bt_sink *sink) {
  struct stat status;
  return fstat(sink->fd, &status) == 0 && status.st_ino == sink->inode && status.st_dev == sink->device;
}

bt_status bt_sink_send(bt_sink *sink) {
  if (sink->sent == sink->filled) return BT_OK;
  if (!still_ours(sink)) return failed(sink, EBADF);
  while (sink->sent < sink->filled) {
    size_t length = sink->filled - sink->sent;
    if (length > sink->config->write_bytes) length = sink->config->write_bytes;
    /* at its offset, so that a retry after a half-done write on a network file system writes the same bytes again */
    ssize_t wrote = pwrite(sink->fd, sink->out + sink->sent, length, (off_t)sink->offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed(sink, wrote == 0 ? ENOSPC : errno);
    sink->sent += (size_t)wrote;
    sink->offset += (uint64_t)wrote;
    sink->dirty = true;
    __atomic_fetch_add(&sink->bytes_written, (uint64_t)wrote, __ATOMIC_RELAXED);
  }
  sink->filled = sink->sent = 0;
  return BT_OK;
}

bool bt_sink_segment_full(const bt_sink *sink, size_t more) {
  /* segment 0 of a capped stream is never deleted, so it holds the header and no records */
  if (sink->config->cap_bytes != 0 && sink->segment == 0) return true;
  return sink->has_records && sink->offset + sink->filled - sink->sent + more >= sink->config->segment_bytes;
}

bt_status bt_sink_next_segment(bt_sink *sink, int64_t now) {
  uint32_t segment = sink->segment + 1;
  int fd = create(sink, sink->header.life, segment);
  if (fd < 0) return failed(sink, errno);
  bt_sink_sync(sink, now, true);
  /* a fork must not see the number of a closed descriptor here: its child closes what this says */
  bt_process_lock();
  int old = sink->fd;
  sink->fd = fd;
  bt_process_unlock();
  close(old);
  remember_file(sink);
  if (sink->segment != 0) sink->kept += sink->offset;
  sink->header.segment = segment;
  sink->offset = 0;
  sink->has_records = false;
  __atomic_store_n(&sink->segment, segment, __ATOMIC_RELAXED);
  return bt_sink_put_header(sink, NULL);
}

void bt_sink_trim(bt_sink *sink) {
  uint64_t cap = sink->config->cap_bytes;
  while (cap != 0 && sink->oldest < sink->segment && sink->kept + sink->config->segment_bytes > cap) {
    char name[NAME_MAX_BYTES];
    struct stat status;
    bt_sink_name(name, sizeof name, sink->header.rank, sink->header.life, sink->oldest++);
    if (fstatat(sink->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    unlinkat(sink->directory, name, 0);
    sink->kept -= (uint64_t)status.st_size < sink->kept ? (uint64_t)status.st_size : sink->kept;
  }
}

void bt_sink_sync(bt_sink *sink, int64_t now, bool force) {
  if (!sink->network || !sink->dirty || (!force && now - sink->synced_at < 1000000000)) return;
  (void)fdatasync(sink->fd);
  sink->dirty = false;
  sink->synced_at = now;
}

void bt_sink_close(bt_sink *sink) {
  if (sink->fd >= 0) close(sink->fd);
  if (sink->directory >= 0) close(sink->directory);
  sink->fd = sink->directory = -1;
}

void bt_sink_undo(bt_sink *sink) {
  char name[NAME_MAX_BYTES];
  bt_sink_name(name, sizeof name, sink->header.rank, sink->header.life, 0);
  if (sink->fd >= 0) unlinkat(sink->directory, name, 0);
  bt_sink_close(sink);
}
