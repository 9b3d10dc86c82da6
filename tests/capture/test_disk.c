/* Disks that are full, slow, failing or stuck; rings that are full. This program's own pwrite stands before libc's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/capture/support.h"

static struct {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  int error; /* fail with it */
  bool shortly; /* write one byte in three calls, a third of it in the others */
  bool stuck; /* do not come back */
  unsigned calls, stuck_calls;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
  pthread_mutex_lock(&disk.lock);
  disk.calls++;
  disk.stuck_calls += disk.stuck;
  pthread_cond_broadcast(&disk.moved);
  while (disk.stuck)
    pthread_cond_wait(&disk.moved, &disk.lock);
  int error = disk.error;
  if (disk.shortly) length = disk.calls % 3 == 0 ? 1 : length / 3 + 1;
  pthread_mutex_unlock(&disk.lock);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

/* A network file system, as far as anybody asks. */
static struct {
  bool network;
  unsigned syncs; /* atomic */
} far;

int fstatfs(int fd, struct statfs *status) {
  long result = syscall(SYS_fstatfs, fd, status);
  if (result == 0 && far.network) status->f_type = NFS_SUPER_MAGIC;
  return (int)result;
}

int fdatasync(int fd) {
  __atomic_fetch_add(&far.syncs, 1, __ATOMIC_RELAXED);
  return (int)syscall(SYS_fdatasync, fd);
}

static void set_disk(int error, bool shortly, bool stuck) {
  pthread_mutex_lock(&disk.lock);
  disk.error = error;
  disk.shortly = shortly;
  disk.stuck = stuck;
  pthread_cond_broadcast(&disk.moved);
  pthread_mutex_unlock(&disk.lock);
}

static uint64_t dropped_in(const stream_run *run) {
  uint64_t dropped = 0;
  for (size_t i = 0; i < run_count(run, BT_DROPPED); i++)
    dropped += run_find(run, BT_DROPPED, i)->event.number;
  return dropped;
}

static void test_short_writes(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  set_disk(0, true, false);
  for (int i = 0; i < 20; i++) {
    record_spans(session, i * 200, 200);
    assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  }
  assert_int_equal(bubbletop_close(session, 10000), BUBBLETOP_OK);
  set_disk(0, false, false);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 4000);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

static bool has_failed(void *session) {
  return stats_of(session).write_errors > 1; /* and has tried again */
}

/* Full for a while: rings fill, the newest are dropped and counted; then it goes on where it stopped. */
static void test_full_for_a_while(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.ring_bytes = 64 * 1024; /* 1024 slots */
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  record_spans(session, 0, 100);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  set_disk(ENOSPC, false, false);
  int64_t from = bubbletop_now();
  record_spans(session, 100, 3000);
  int64_t to = bubbletop_now();
  assert_true(wait_until(has_failed, session));
  assert_int_equal(bubbletop_flush(session, 30), BUBBLETOP_ERR_IO);
  bubbletop_stats stats = stats_of(session);
  assert_int_equal(stats.last_errno, ENOSPC);
  assert_int_equal(stats.written, 100);
  assert_int_equal(stats.recorded + stats.dropped, 3100);
  assert_true(stats.dropped >= 3000 - 1024);
  set_disk(0, true, false); /* room again, but torn */
  assert_int_equal(bubbletop_flush(session, 20000), BUBBLETOP_OK);
  record_spans(session, 5000, 10);
  stats = stats_of(session);
  assert_int_equal(bubbletop_close(session, 10000), BUBBLETOP_OK);
  set_disk(0, false, false);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), stats.recorded);
  assert_int_equal(dropped_in(run), stats.dropped);
  const bt_event *drop = &run_find(run, BT_DROPPED, 0)->event;
  assert_int_equal(drop->ring, 1);
  assert_true(drop->start >= from && bt_event_end(drop) <= to && drop->duration > 0);
  assert_int_equal(run_find(run, BT_F, run_count(run, BT_F) - 1)->event.microbatch, 5009);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* The system's own limit, whose signal would kill the program. */
static void test_file_size_limit(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  struct rlimit before, low;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  record_spans(session, 0, 1000);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  low = (struct rlimit){.rlim_cur = stats_of(session).bytes_written + 100, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0); /* in the midst of the next block */
  record_spans(session, 1000, 1000);
  bool failed = wait_until(has_failed, session);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_true(failed);
  assert_int_equal(stats_of(session).last_errno, EFBIG);
  assert_int_equal(bubbletop_close(session, 10000), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 2000);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* Close gives up in time, and leaves what it could not write to recover. */
static void test_close_on_a_failing_disk(void **state) {
  (void)state;
  char *rings = NULL, *scratch = scratch_make(), path[512];
  rings = scratch_rings();
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  set_disk(EIO, false, false);
  record_spans(session, 100, 100);
  int64_t before = bubbletop_now();
  assert_int_equal(bubbletop_close(session, 100), BUBBLETOP_ERR_IO);
  assert_true(bubbletop_now() - before >= 100 * INT64_C(1000000));
  set_disk(0, false, false);
  assert_int_equal(ring_files(rings, path, sizeof path), 1);
  stream_run *run = run_read(scratch, true);
  assert_int_equal(run_count(run, BT_F), 100);
  assert_null(run_end(run, 0));
  run_free(run);
  scratch_remove(rings);
  scratch_remove(scratch);
}

static bool no_ring_file(void *rings) {
  char path[512];
  return ring_files(rings, path, sizeof path) == 0;
}

/* A write that does not come back: flush and close do, and when the write returns after all, all is put in order. */
static void test_a_stuck_disk(void **state) {
  (void)state;
  char *scratch = scratch_make();
  char *rings = scratch_rings();
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  set_disk(0, false, true);
  record_spans(session, 100, 100);
  pthread_mutex_lock(&disk.lock);
  while (disk.stuck_calls == 0)
    pthread_cond_wait(&disk.moved, &disk.lock);
  pthread_mutex_unlock(&disk.lock);
  assert_int_equal(bubbletop_flush(session, 20), BUBBLETOP_ERR_LIMIT);
  record_spans(session, 200, 100);
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT; /* nor do these wait for it */
  int32_t ranks[] = {0, 1};
  assert_int_equal(bubbletop_layout_set(session, &layout), BUBBLETOP_OK);
  assert_int_equal(bubbletop_group(session, BUBBLETOP_PP, ranks, 2), 1);
  assert_int_equal(bubbletop_close(session, 20), BUBBLETOP_ERR_LIMIT);
  char path[512];
  assert_int_equal(ring_files(rings, path, sizeof path), 1);
  set_disk(0, false, false);
  assert_true(wait_until(no_ring_file, rings));
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 300);
  assert_string_equal(run_end(run, 0), "closed");
  run_free(run);
  scratch_remove(rings);
  scratch_remove(scratch);
}

/* Programs that become daemons close descriptors they do not know; the numbers then mean other files. */
static void test_descriptors_closed_by_others(void **state) {
  (void)state;
  char *scratch = scratch_make();
  char *rings = scratch_rings();
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  char link[64], target[1024];
  int other = -1;
  for (int fd = 3; fd < 256 && other < 0; fd++) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    if (strstr(target, "rank-00000.0.0.msgpack") == NULL) continue;
    int mine = open(path_in(scratch, "mine"), O_CREAT | O_RDWR, 0600);
    other = dup2(mine, fd);
    close(mine);
  }
  assert_true(other >= 0);
  record_spans(session, 100, 100);
  assert_true(wait_until(has_failed, session));
  assert_int_equal(stats_of(session).last_errno, EBADF);
  assert_int_equal(bubbletop_close(session, 20), BUBBLETOP_ERR_IO);
  assert_int_equal(access(path_in(scratch, "mine"), F_OK), 0);
  FILE *mine = fopen(path_in(scratch, "mine"), "r");
  assert_non_null(mine);
  assert_int_equal(fgetc(mine), EOF); /* untouched */
  fclose(mine);
  scratch_remove(rings);
  scratch_remove(scratch);
}

/* A ring too small for what comes: accepted and dropped add up, and the time of the loss is told. */
static void test_full_rings(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.ring_bytes = 1024; /* 16 slots */
  config.flush_ms = 60000;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  for (int round = 0; round < 3; round++) {
    record_spans(session, 0, 200);
    bubbletop_instant(session, "dropped when there is no room for its text");
    assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  }
  char value[2000];
  memset(value, 'v', sizeof value - 1);
  value[sizeof value - 1] = '\0';
  assert_int_equal(bubbletop_meta(session, "longer than the ring", value), BUBBLETOP_OK);
  bubbletop_stats stats = stats_of(session);
  assert_int_equal(stats.recorded + stats.dropped, 603);
  assert_true(stats.dropped > 300);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(dropped_in(run), stats.dropped);
  assert_int_equal(run_count(run, BT_F) + run_count(run, BT_INSTANT), stats.recorded);
  assert_non_null(run_meta(run, "longer than the ring")); /* definitions are never dropped */
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* Other hosts see data only once it is synced; each sync costs a round trip, so at most one a second. */
static void test_network_file_systems(void **state) {
  (void)state;
  for (int network = 0; network < 2; network++) {
    char *scratch = scratch_make();
    far.network = network;
    far.syncs = 0;
    bubbletop_session *session = session_in(scratch);
    int64_t begin = bubbletop_now();
    for (int i = 0; i < (network ? 4000 : 20) && __atomic_load_n(&far.syncs, __ATOMIC_RELAXED) < 3; i++) {
      record_spans(session, 0, 10);
      assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
      usleep(5000);
    }
    assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
    uint64_t seconds = (uint64_t)(bubbletop_now() - begin) / 1000000000;
    if (network)
      assert_true(far.syncs >= 4 && far.syncs <= seconds + 2); /* one at once, and one at the close */
    else
      assert_int_equal(far.syncs, 0);
    scratch_remove(scratch);
  }
  far.network = false;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_short_writes),    cmocka_unit_test(test_full_for_a_while),
      cmocka_unit_test(test_file_size_limit), cmocka_unit_test(test_close_on_a_failing_disk),
      cmocka_unit_test(test_a_stuck_disk),    cmocka_unit_test(test_descriptors_closed_by_others),
      cmocka_unit_test(test_full_rings),      cmocka_unit_test(test_network_file_systems),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
