#include "capture/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/clock.h"

/* A fork of the process inherits nothing of this, so random bytes are asked for anew in each session. */
static void make_marker(uint8_t marker[BT_MARKER_BYTES]) {
  if (getrandom(marker, BT_MARKER_BYTES, GRND_NONBLOCK) == BT_MARKER_BYTES) return;
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  uint64_t mixed = (uint64_t)bt_now() * 0x9E3779B97F4A7C15u ^ (uint64_t)real.tv_nsec << 32 ^ (uint64_t)getpid();
  memcpy(marker, &mixed, BT_MARKER_BYTES);
}

static void read_line(const char *path, char *out, size_t room) {
  out[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t got = read(fd, out, room - 1);
  close(fd);
  out[got > 0 ? (size_t)got : 0] = '\0';
  out[strcspn(out, "\n")] = '\0';
}

void bt_clock_pair_now(int64_t *mono_ns, int64_t *real_ns) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < 4; i++) {
    struct timespec real;
    int64_t before = bt_now();
    clock_gettime(CLOCK_REALTIME, &real);
    int64_t width = bt_now() - before;
    if (width >= best) continue;
    best = width;
    *mono_ns = before + width / 2;
    *real_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
  }
}

void bt_identity(bt_header *header, const bt_config *config) {
  bt_header_init(header);
  make_marker(header->marker);
  header->rank = config->rank;
  header->world_size = config->world_size;
  if (gethostname(header->host, sizeof header->host - 1) != 0) header->host[0] = '\0';
  header->host[sizeof header->host - 1] = '\0';
  read_line("/proc/sys/kernel/random/boot_id", header->boot_id, sizeof header->boot_id);
  struct stat status;
  if (stat("/proc/self/ns/time", &status) == 0) header->time_namespace = status.st_ino;
  header->pid = getpid();
  snprintf(header->run_id, sizeof header->run_id, "%s", config->run_id);
  snprintf(header->writer, sizeof header->writer, "libbubbletop %s", bubbletop_version());
  bt_clock_pair_now(&header->mono_ns, &header->real_ns);
}
