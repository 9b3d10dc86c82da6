/* 200 writers are killed (SIGKILL) at random instants. Every span whose end had returned is then found exactly once: by
 * a reader that looks into the dead ring, and again after recover.
 *
 * Each child records from two threads and tells in shared memory, after each bubbletop_end, how far it is. It flushes
 * all the time, and with write_bytes = 8: SIGKILL takes effect when a system call returns, so a block that needs many
 * small writes is often cut between two of them, as a crash or a quota cuts one large write. The test fails unless at
 * least 20 kills left records in the ring that are not in the file, and at least 20 left a torn block.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/recover.h"
#include "formats/run.h"
#include "tests/capture/support.h"
#include "tests/wire/sample.h"

enum { KILLS = 200, THREADS = 2, MOST = 1 << 20, RING_SLOTS = 4096 };

/* Shared with the child: how many spans of each thread have ended. Thread t numbers its spans t, t + THREADS, … */
typedef struct progress {
  uint32_t ended[THREADS][16]; /* atomic; a cache line each */
} progress;

typedef struct worker {
  bubbletop_session *session;
  progress *shared;
  uint32_t thread;
} worker;

static void *work(void *context) {
  const worker *with = context;
  for (uint32_t i = 0; i * THREADS < MOST; i++) {
    bubbletop_span span;
    int32_t microbatch = (int32_t)(i * THREADS + with->thread);
    bubbletop_begin(with->session, &span, i % 2 == 0 ? BUBBLETOP_F : BUBBLETOP_B, bubbletop_at(microbatch, 0));
    bubbletop_end(&span);
    __atomic_store_n(&with->shared->ended[with->thread][0], i + 1, __ATOMIC_RELEASE);
    if (i % 64 != 0) continue;
    /* never so far ahead that a ring could be full: a dropped span is no lost one */
    bubbletop_stats stats = {.size = sizeof stats};
    do {
      bubbletop_get_stats(with->session, &stats);
      if (stats.recorded - stats.written < RING_SLOTS / 2) break;
      nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    } while (true);
  }
  return NULL;
}

static void be_killed(const char *directory, progress *shared) {
  bubbletop_config config = config_in(directory);
  bubbletop_session *session = NULL;
  pthread_t threads[THREADS];
  worker with[THREADS];
  config.flush_ms = 1;
  config.write_bytes = 8;
  config.ring_bytes = RING_SLOTS * 64;
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) _exit(1);
  for (uint32_t i = 0; i < THREADS; i++) {
    with[i] = (worker){session, shared, i};
    if (pthread_create(&threads[i], NULL, work, &with[i]) != 0) _exit(2);
  }
  while (true)
    bubbletop_flush(session, 1000);
}

static uint32_t ended_in(progress *shared, uint32_t thread) {
  return __atomic_load_n(&shared->ended[thread][0], __ATOMIC_ACQUIRE);
}

static bool both_run(void *context) {
  return ended_in(context, 0) > 0 && ended_in(context, 1) > 0;
}

static void kill_one(const char *directory, progress *shared, sample_random *random) {
  memset(shared, 0, sizeof *shared);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) be_killed(directory, shared);
  assert_true(wait_until(both_run, shared));
  nanosleep(&(struct timespec){.tv_nsec = sample_below(random, 8000000)}, NULL);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(status_of(child), 128 + SIGKILL);
}

typedef struct tally {
  bool torn, in_ring_alone;
} tally;

static bt_status count_record(void *context, uint64_t number, const bt_event *event) {
  (void)number;
  *(size_t *)context += bt_code_is_span(event->code);
  return BT_OK;
}

/* The stream file by itself: its whole blocks, and whether something is left behind the last. */
static size_t spans_in_file(const char *directory, bool *torn) {
  static uint8_t bytes[64 << 20];
  FILE *file = fopen(path_in(directory, "rank-00000.0.0.msgpack"), "r");
  assert_non_null(file);
  size_t length = fread(bytes, 1, sizeof bytes, file), used = 0, spans = 0;
  fclose(file);
  bt_header header;
  bt_block block;
  assert_int_equal(bt_header_decode(bytes, length, &header, &used, NULL), BT_OK);
  size_t at = used;
  while (at < length && bt_block_decode(bytes + at, length - at, header.marker, &block, &used) == BT_OK) {
    assert_int_equal(bt_block_records(&block, count_record, &spans), BT_OK);
    at += used;
  }
  *torn = at < length;
  return spans;
}

static size_t check_run(const char *directory, bool rings, progress *shared, uint8_t *seen) {
  bt_run_options options = {.rings = rings};
  bt_run *run = NULL;
  bt_error error = {.text = ""};
  if (bt_run_open(&directory, 1, &options, &run, &error) != BT_OK) fail_msg("open: %s", error.text);
  bt_status status = BT_OK;
  while (status == BT_OK)
    status = bt_run_poll(run, 0, &error);
  if (status < 0) fail_msg("poll: %s", error.text);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  assert_non_null(rank);
  assert_int_equal(rank->dropped, 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  memset(seen, 0, MOST);
  for (size_t i = 0; i < track->count; i++) {
    int32_t microbatch = track->spans[i].microbatch;
    assert_true(microbatch >= 0 && microbatch < MOST);
    if (seen[microbatch]++ != 0) fail_msg("span %d is there twice", microbatch);
  }
  size_t count = track->count;
  bt_run_close(run);
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    uint32_t ended = ended_in(shared, thread);
    for (uint32_t i = 0; i < ended; i++) {
      if (seen[i * THREADS + thread] == 0) fail_msg("span %u of %u of thread %u is lost", i, ended, thread);
    }
    /* one more may have ended without having been told; none that was not begun */
    for (size_t i = (size_t)ended + 1; i * THREADS + thread < MOST; i++)
      assert_int_equal(seen[i * THREADS + thread], 0);
  }
  return count;
}

static tally check_kill(const char *directory, progress *shared, uint8_t *seen) {
  tally result = {.torn = false};
  size_t in_file = spans_in_file(directory, &result.torn);
  size_t all = check_run(directory, true, shared, seen);
  result.in_ring_alone = all > in_file;
  bt_recover_report report;
  bt_error error = {.text = ""};
  if (bt_recover(directory, &report, &error) != BT_OK) fail_msg("recover: %s", error.text);
  assert_int_equal(report.rings_found, 1);
  assert_int_equal(report.alive, 0);
  assert_int_equal(report.recovered + report.clean, 1);
  assert_int_equal(check_run(directory, false, shared, seen), all);
  return result;
}

static void test_kills(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  progress *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint8_t *seen = malloc(MOST);
  sample_random random = {.state = 20240229};
  unsigned torn = 0, in_ring_alone = 0;
  assert_true(shared != MAP_FAILED && seen != NULL);
  for (int i = 0; i < KILLS; i++) {
    char name[32];
    snprintf(name, sizeof name, "%d", i);
    const char *directory = path_in(scratch, name);
    char *own = strdup(directory);
    kill_one(own, shared, &random);
    tally result = check_kill(own, shared, seen);
    torn += result.torn;
    in_ring_alone += result.in_ring_alone;
    scratch_remove(own);
    assert_int_equal(ring_files(rings, path, sizeof path), 0);
  }
  print_message("%d kills: %u left records in the ring alone, %u a torn block\n", KILLS, in_ring_alone, torn);
  assert_true(in_ring_alone >= 20);
  assert_true(torn >= 20);
  free(seen);
  munmap(shared, sizeof *shared);
  scratch_remove(rings);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
