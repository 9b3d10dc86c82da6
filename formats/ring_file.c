#include "config.h"

#include "formats/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_at(int fd, void *to, size_t length, uint64_t offset) {
  uint8_t *bytes = to;
  while (length > 0) {
    ssize_t got = pread(fd, bytes, length, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    offset += (uint64_t)got;
    length -= (size_t)got;
  }
  return true;
}

/* O_PATH first: opening a device or a FIFO that somebody planted could do harm. */
static int open_regular(const char *path, uint64_t inode, struct stat *status) {
  int handle = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (handle < 0) return -1;
  int fd = -1;
  if (fstat(handle, status) == 0 && S_ISREG(status->st_mode) && (inode == 0 || status->st_ino == inode)) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", handle);
    fd = open(self, O_RDWR | O_CLOEXEC); /* a write lock needs a descriptor for writing */
    if (fd < 0) fd = open(self, O_RDONLY | O_CLOEXEC);
  } else {
    errno = ENOENT;
  }
  int saved = errno;
  close(handle);
  errno = saved;
  return fd;
}

bt_status bt_ring_tap_open(bt_ring_tap *tap, const char *path, uint64_t inode, bt_error *error) {
  struct stat status;
  *tap = (bt_ring_tap){.fd = open_regular(path, inode, &status)};
  if (tap->fd < 0) return bt_fail(error, BT_ERR_IO, "%s: %s", path, strerror(errno));
  bt_error detail = {BT_OK, ""};
  bt_status refreshed = bt_ring_tap_refresh(tap, &detail);
  if (refreshed != BT_OK) {
    bt_ring_tap_close(tap);
    return bt_fail(error, refreshed, "%s: %s", path, detail.text);
  }
  return BT_OK;
}

void bt_ring_tap_close(bt_ring_tap *tap) {
  if (tap->fd >= 0) close(tap->fd);
  free(tap->slots);
  *tap = (bt_ring_tap){.fd = -1};
}

bt_status bt_ring_tap_refresh(bt_ring_tap *tap, bt_error *error) {
  struct stat status;
  if (fstat(tap->fd, &status) != 0) return bt_fail(error, BT_ERR_IO, "%s", strerror(errno));
  if ((uint64_t)status.st_size < BT_RING_PAGE || !read_at(tap->fd, &tap->page, sizeof tap->page, 0)) {
    return bt_fail(error, BT_ERR_FORMAT, "too short for a ring file");
  }
  return bt_ring_map_check(&tap->file, &tap->page, (size_t)status.st_size, error);
}

bool bt_ring_tap_owned(const bt_ring_tap *tap) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  /* as another owner than this process, so that a session in this very process counts as alive */
  if (fcntl(tap->fd, F_OFD_GETLK, &lock) != 0) {
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(tap->fd, F_GETLK, &lock) != 0) return false;
  }
  return lock.l_type != F_UNLCK && lock.l_pid != -1; /* -1: a recoverer's */
}

/* Copies slots [from, to) in order, over the end of the ring where they wrap. */
static bool copy_slots(bt_ring_tap *tap, uint64_t base, uint32_t capacity, uint64_t from, uint64_t to) {
  size_t count = (size_t)(to - from);
  if (count > tap->slot_capacity) {
    bt_slot *grown = aligned_alloc(BT_SLOT_BYTES, count * sizeof(bt_slot));
    if (grown == NULL) return false;
    free(tap->slots);
    tap->slots = grown;
    tap->slot_capacity = count;
  }
  size_t begin = (size_t)(from & (capacity - 1));
  size_t first = count < capacity - begin ? count : capacity - begin;
  uint64_t slots = base + BT_RING_PAGE;
  return read_at(tap->fd, tap->slots, first * sizeof(bt_slot), slots + begin * sizeof(bt_slot)) &&
         read_at(tap->fd, tap->slots + first, (count - first) * sizeof(bt_slot), slots);
}

static bool sound(const bt_ring_tap *tap, const bt_ring_head *head) {
  return head->id != BT_WRITER_RING && head->capacity != 0 && (head->capacity & (head->capacity - 1)) == 0 &&
         BT_RING_PAGE + (uint64_t)head->capacity * sizeof(bt_slot) <= tap->file.ring_bytes &&
         head->head - head->tail <= head->capacity && head->head >= head->tail;
}

static bt_status deliver_slots(const bt_ring_tap *tap, uint32_t ring, uint64_t from, uint64_t to, uint64_t valid,
                               bt_ring_fn *fn, void *context) {
  for (uint64_t at = from; at < to;) {
    const bt_slot *slot = &tap->slots[at - from];
    uint32_t length = bt_slot_count(slot->extra);
    if (length > to - at) return BT_ERR_FORMAT;
    if (at >= valid) {
      bt_event event;
      bt_status status = bt_event_from_slot(&event, slot, slot->extra > 0 ? (const void *)(slot + 1) : NULL);
      if (status == BT_OK) status = fn(context, ring, slot->number, &event);
      if (status != BT_OK) return status;
    }
    at += length;
  }
  return BT_OK;
}

bt_status bt_ring_tap_open_spans(const bt_ring_tap *tap, int64_t now, bt_ring_fn *fn, void *context) {
  for (uint32_t i = 0; i < BT_OPEN_SLOTS; i++) {
    bt_event event;
    if (tap->before.open[i].state != tap->head.open[i].state) continue; /* it changed while it was copied, perhaps */
    if (bt_ring_open_span(&tap->head, i, &event) != BT_OK || event.start > now || event.start <= 0) continue;
    event.duration = now - event.start;
    event.flags |= BT_FLAG_OPEN;
    bt_status status = fn(context, tap->head.id, 0, &event);
    if (status != BT_OK) return status;
  }
  return BT_OK;
}

bt_status bt_ring_tap_head(bt_ring_tap *tap, uint32_t index) {
  uint64_t base = BT_RING_PAGE + index * tap->file.ring_bytes;
  if (index >= tap->file.ring_count) return BT_ERR_FORMAT;
  if (!read_at(tap->fd, &tap->before, sizeof tap->before, base)) return BT_ERR_IO;
  tap->head = tap->before;
  return sound(tap, &tap->before) ? BT_OK : BT_ERR_FORMAT;
}

bt_status bt_ring_tap_read(bt_ring_tap *tap, uint32_t index, uint64_t *next, bt_ring_fn *fn, void *context) {
  uint64_t base = BT_RING_PAGE + index * tap->file.ring_bytes;
  bt_ring_head *before = &tap->before;
  bt_ring_head *head = &tap->head;
  bt_status status = bt_ring_tap_head(tap, index);
  if (status != BT_OK) return status;
  uint64_t from = *next > before->tail && *next <= before->head ? *next : before->tail;
  if (!copy_slots(tap, base, before->capacity, from, before->head)) return BT_ERR_IO;
  if (!read_at(tap->fd, head, sizeof *head, base)) return BT_ERR_IO;
  if (!sound(tap, head) || head->id != before->id || head->capacity != before->capacity) return BT_ERR_FORMAT;
  *next = before->head;
  /* slots below the tail as it is now may have been written over while they were copied; they are in the file */
  return deliver_slots(tap, head->id, from, before->head, head->tail, fn, context);
}

/* How far the ring of that id had been filled; 0: it does not lie in the file. */
static uint64_t head_of(bt_ring_tap *tap, uint32_t id) {
  for (uint32_t i = 0; i < tap->file.ring_count; i++) {
    if (bt_ring_tap_head(tap, i) == BT_OK && tap->head.id == id) return tap->head.head;
  }
  return 0;
}

static bt_status deliver_pending(const bt_slot *slot, uint32_t id, uint64_t head, int64_t now, bt_ring_fn *fn,
                                 void *context) {
  bt_event event;
  unsigned state = slot->number & ((1 << BT_PENDING_BITS) - 1);
  bool taken = state == BT_PENDING_TAKEN && slot->number >> BT_PENDING_BITS < head;
  if (state == BT_PENDING_NONE || taken || slot->extra != 0 || !bt_code_is_span(slot->code)) return BT_OK;
  if (bt_event_from_slot(&event, slot, NULL) != BT_OK) return BT_OK;
  if (state != BT_PENDING_BEGUN) return fn(context, id, 0, &event);
  if (event.start <= 0 || event.start > now) return BT_OK;
  event.on_code = event.code;
  event.code = BT_OPEN;
  event.flags |= BT_FLAG_OPEN;
  event.ring = id;
  event.duration = now - event.start;
  return fn(context, id, 0, &event);
}

bt_status bt_ring_tap_pending(bt_ring_tap *tap, uint32_t index, int64_t now, bt_ring_fn *fn, void *context) {
  bt_status status = bt_ring_tap_head(tap, index);
  uint32_t id = tap->head.pending_of, capacity = tap->head.capacity;
  if (status != BT_OK || id == 0) return status;
  uint64_t head = head_of(tap, id);
  if (!copy_slots(tap, BT_RING_PAGE + index * tap->file.ring_bytes, capacity, 0, capacity)) return BT_ERR_IO;
  for (uint32_t i = 0; i < capacity && status == BT_OK; i++)
    status = deliver_pending(&tap->slots[i], id, head, now, fn, context);
  return status;
}
