#include "capture/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { SMALLEST_CAPACITY = 256 };

typedef uint64_t bt_magic __attribute__((may_alias));

static size_t ring_bytes(uint32_t capacity) {
  return BT_RING_PAGE + (size_t)capacity * BT_SLOT_BYTES;
}

/* The largest power of two whose slots fit in `bytes`; with its head page a ring stays within BT_RING_MAX_BYTES. */
static uint32_t capacity_for(uint32_t bytes) {
  uint32_t capacity = 1;
  while (capacity * 2 * BT_SLOT_BYTES <= bytes && ring_bytes(capacity * 2) <= BT_RING_MAX_BYTES)
    capacity *= 2;
  return capacity;
}

/* Maps part of the file. Its pages are smaller than the system's on some machines, so the start is rounded down. */
static void *map(int fd, uint64_t offset, size_t length) {
  uint64_t before = offset % (uint64_t)sysconf(_SC_PAGESIZE);
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  /* populated here, so that the traced program never waits for a page fault */
  uint8_t *at = mmap(NULL, length + before, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, (off_t)(offset - before));
  return at == MAP_FAILED ? NULL : at + before;
}

static void unmap(void *at, size_t length) {
  uintptr_t before = (uintptr_t)at % (uintptr_t)sysconf(_SC_PAGESIZE);
  munmap((uint8_t *)at - before, length + before);
}

/* Room on the file system is taken before it is mapped: a full one would be a SIGBUS in the traced program. */
static int reserve(int fd, uint64_t offset, size_t length) {
  int result = 0;
  do
    result = posix_fallocate(fd, (off_t)offset, (off_t)length);
  while (result == EINTR);
  return result;
}

static bool on_tmpfs(const char *directory) {
  struct statfs status;
  return statfs(directory, &status) == 0 && (uint32_t)status.f_type == TMPFS_MAGIC;
}

static bool lock(int fd) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(fd, F_SETLK, &whole) == 0;
}

static void give_up(bt_ring_store *store) {
  if (store->fd >= 0) {
    unlink(store->path);
    close(store->fd);
  }
  store->fd = -1;
  store->file = NULL;
  store->inode = 0;
  store->path[0] = '\0';
}

static void ring_path(char *path, size_t room, const char *directory, const uint8_t marker[BT_MARKER_BYTES]) {
  int length = snprintf(path, room, "%s/bubbletop-%u-", directory, (unsigned)geteuid());
  for (int i = 0; i < BT_MARKER_BYTES; i++)
    length += snprintf(path + length, room - (size_t)length, "%02x", marker[i]);
  snprintf(path + length, room - (size_t)length, ".ring");
}

void bt_ring_store_open(bt_ring_store *store, const bt_config *config, const bt_header *header) {
  *store = (bt_ring_store){.fd = -1, .capacity = capacity_for(config->ring_bytes)};
  if (!on_tmpfs(config->ring_directory)) return;
  ring_path(store->path, sizeof store->path, config->ring_directory, header->marker);
  store->fd = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (store->fd < 0 || !lock(store->fd)) {
    give_up(store);
    return;
  }
  uint32_t wanted = store->capacity;
  while (reserve(store->fd, 0, BT_RING_PAGE + ring_bytes(store->capacity)) != 0) {
    store->capacity /= 2;
    if (store->capacity < SMALLEST_CAPACITY) {
      store->capacity = wanted;
      give_up(store);
      return;
    }
  }
  struct stat status;
  store->file = map(store->fd, 0, BT_RING_PAGE);
  if (store->file == NULL || fstat(store->fd, &status) != 0)
    give_up(store);
  else
    store->inode = status.st_ino;
}

void bt_ring_store_publish(bt_ring_store *store, const bt_header *header, const char *directory, const uint8_t *encoded,
                           size_t length) {
  bt_ring_file *file = store->file;
  if (file == NULL) return;
  file->version = BT_RING_VERSION;
  file->page_bytes = BT_RING_PAGE;
  file->ring_bytes = ring_bytes(store->capacity);
  file->rank = header->rank;
  file->pid = (int32_t)header->pid;
  file->life = header->life;
  memcpy(file->marker, header->marker, sizeof file->marker);
  file->created_ns = (uint64_t)header->mono_ns;
  snprintf(file->directory, sizeof file->directory, "%s", directory);
  if (length <= sizeof file->header) {
    memcpy(file->header, encoded, length);
    file->header_bytes = (uint32_t)length;
  }
  /* last: a file without the magic is nobody's yet */
  uint64_t magic = 0;
  memcpy(&magic, "BTRING\0\1", sizeof magic);
  __atomic_store_n((bt_magic *)file->magic, magic, __ATOMIC_RELEASE);
}

bt_ring_head *bt_ring_store_add(bt_ring_store *store, bool *recoverable) {
  if (store->count == BT_RING_MAX_RINGS) return NULL;
  size_t length = ring_bytes(store->capacity);
  uint64_t offset = BT_RING_PAGE + (uint64_t)store->file_count * length;
  bt_ring_head *ring = NULL;
  if (store->fd >= 0 && reserve(store->fd, offset, length) == 0) ring = map(store->fd, offset, length);
  *recoverable = ring != NULL;
  if (ring == NULL) ring = map(-1, 0, length);
  if (ring == NULL) return NULL;
  ring->id = ++store->count;
  ring->capacity = store->capacity;
  if (*recoverable) __atomic_store_n(&store->file->ring_count, ++store->file_count, __ATOMIC_RELEASE);
  return ring;
}

void bt_ring_unmap(bt_ring_head *ring, uint32_t capacity) {
  unmap(ring, ring_bytes(capacity));
}

void bt_ring_blank(bt_ring_head *ring, uint32_t capacity) {
  uintptr_t before = (uintptr_t)ring % (uintptr_t)sysconf(_SC_PAGESIZE);
  (void)mmap((uint8_t *)ring - before, ring_bytes(capacity) + before, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void bt_ring_store_close(bt_ring_store *store, bool clean) {
  if (store->fd < 0) return;
  if (clean) {
    __atomic_store_n(&store->file->clean, 1, __ATOMIC_RELEASE);
    unlink(store->path);
  }
  unmap(store->file, BT_RING_PAGE);
  close(store->fd);
  store->fd = -1;
  store->file = NULL;
}
