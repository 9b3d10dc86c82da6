/* Processes with GPU-timed spans are killed (SIGKILL) at random instants, on a double of the driver. Every span whose end on
 * the host had returned is found exactly once after recover: with the GPU's times if its events were read, else with the
 * host's and the flag "GPU unknown". The test fails unless some of both were there. */
#include <dlfcn.h>
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

#include "capture/bubbletop_cuda.h"
#include "formats/recover.h"
#include "formats/run.h"
#include "tests/capture/nccl_harness.h"
#include "tests/capture/support.h"
#include "tests/wire/sample.h"

enum { KILLS = 40, MOST = 1 << 16, AHEAD = 300, LONG_KERNEL = 7 };

typedef struct progress { /* shared with the child */
  uint32_t ended; /* atomic: spans 0 … ended - 1 */
  int64_t begin[MOST], end[MOST]; /* the host's times round the calls */
} progress;

/* Span i; every third is two messages of one launch: i, and i + MOST. */
static void record_one(bubbletop_session *session, const cuda_double *gpu, void *stream, int32_t i) {
  bubbletop_cuda_span span;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.peer = 1;
  if (i % 3 != 0) {
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
  } else {
    bubbletop_cuda_launch_begin(session, &span, stream);
    bubbletop_cuda_launched(&span);
    bubbletop_cuda_add(&span, BUBBLETOP_SEND_F, bubbletop_at(i, 0), &comm);
    bubbletop_cuda_add(&span, BUBBLETOP_RECV_B, bubbletop_at(i + MOST, 0), &comm);
  }
  gpu->kernel(stream, i % 50 == LONG_KERNEL ? 3000000 : 10000);
  bubbletop_cuda_end(&span);
}

static void be_killed(const char *directory, progress *shared) {
  const cuda_double *gpu = harness_gpu();
  bubbletop_config config = config_in(directory);
  bubbletop_session *session = NULL;
  bubbletop_cuda_span open;
  config.flush_ms = 1;
  EXPECT(bubbletop_open(&config, &session) == BUBBLETOP_OK);
  void *streams[2] = {gpu->stream(1), gpu->stream(2)};
  bubbletop_cuda_begin(session, &open, BUBBLETOP_W, bubbletop_at(2 * MOST, 0), streams[0]); /* never ended */
  for (uint32_t i = 0; i < MOST; i++) {
    shared->begin[i] = bubbletop_now();
    record_one(session, gpu, streams[i % 2], (int32_t)i);
    shared->end[i] = bubbletop_now();
    __atomic_store_n(&shared->ended, i + 1, __ATOMIC_RELEASE);
    /* never so far ahead that the pool or a ring could be full */
    bubbletop_stats stats = {.size = sizeof stats};
    while (bubbletop_get_stats(session, &stats) == BUBBLETOP_OK && stats.recorded + AHEAD < i)
      harness_nap(50000);
  }
  while (true)
    pause();
}

static bool has_begun(void *context) {
  return __atomic_load_n(&((progress *)context)->ended, __ATOMIC_ACQUIRE) > 100;
}

typedef struct tally {
  size_t timed, unknown, open;
} tally;

static void look_at(const bt_rank *rank, bt_lane lane, const progress *shared, uint8_t *seen, tally *sum) {
  const bt_track *track = &rank->tracks[lane];
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    uint32_t which = (uint32_t)span->microbatch % MOST;
    assert_in_range(span->microbatch, 0, 2 * MOST - 1);
    if (seen[span->microbatch]++ > 0) fail_msg("span %d is there twice", (int)span->microbatch);
    bool unknown = (span->flags & BT_FLAG_GPU_UNKNOWN) != 0;
    assert_true(unknown != ((span->flags & BT_FLAG_GPU_TIMED) != 0));
    sum->unknown += unknown;
    sum->timed += !unknown;
    if (which >= shared->ended) continue; /* of the one that was being told, anything */
    assert_int_equal((span->flags & BT_FLAG_GROUPED) != 0, which % 3 == 0);
    if (!unknown) continue;
    assert_true(span->start >= shared->begin[which] && bt_span_end(track, span) <= shared->end[which]);
  }
}

static void check_run(const char *directory, progress *shared, tally *sum) {
  static uint8_t seen[2 * MOST];
  bt_run_options options = {.rings = false};
  bt_run *run = NULL;
  bt_error error = {.text = ""};
  bt_status status = bt_run_open(&directory, 1, &options, &run, &error);
  while (status == BT_OK)
    status = bt_run_poll(run, 0, &error);
  if (status < 0) fail_msg("%s", error.text);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  assert_non_null(rank);
  assert_int_equal(rank->dropped, 0);
  memset(seen, 0, sizeof seen);
  look_at(rank, BT_LANE_COMPUTE, shared, seen, sum);
  look_at(rank, BT_LANE_P2P, shared, seen, sum);
  for (uint32_t i = 0; i < shared->ended; i++) {
    if (seen[i] != 1 || seen[i + MOST] != (i % 3 == 0))
      fail_msg("span %u of %u: there %u and %u times", i, shared->ended, seen[i], seen[i + MOST]);
  }
  bool open = false;
  for (size_t i = 0; i < rank->open_count; i++)
    open |= rank->open[i].event.on_code == BT_W && (rank->open[i].event.flags & BT_FLAG_GPU_UNKNOWN) != 0;
  assert_true(open);
  sum->open++;
  bt_run_close(run);
}

static void test_kill(void **state) {
  sample_random random = {4711};
  tally sum = {0, 0, 0};
  progress *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  (void)state;
  assert_true(shared != MAP_FAILED);
  for (int i = 0; i < KILLS; i++) {
    char *directory = scratch_rings();
    shared->ended = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) be_killed(directory, shared);
    assert_true(wait_until(has_begun, shared));
    harness_nap((int64_t)sample_below(&random, 10000000));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(status_of(child), 128 + SIGKILL);
    bt_recover_report report;
    assert_int_equal(bt_recover(directory, &report, NULL), BT_OK);
    assert_int_equal(report.recovered, 1);
    check_run(directory, shared, &sum);
    scratch_remove(directory);
  }
  print_message("%zu spans timed by the GPU, %zu came back with the host's times\n", sum.timed, sum.unknown);
  assert_true(sum.unknown > 0);
  assert_true(sum.timed > 0);
  assert_int_equal(sum.open, KILLS);
  munmap(shared, sizeof *shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
