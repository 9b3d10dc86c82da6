/* GPU-timed spans against a double of the driver (tests/capture/cuda_double.c): the logic of the library, not a GPU. Each
 * scenario runs in a child, for the driver is loaded once a process. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/bubbletop_cuda.h"
#include "tests/capture/cuda_double.h"
#include "tests/capture/support.h"

enum { MILLISECOND = 1000000 };

static void expect(bool condition, int line) {
  if (condition) return;
  fprintf(stderr, "%s:%d: not as expected\n", __FILE__, line);
  _exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

static const cuda_double *load_double(void) {
  const char *build = getenv("top_builddir");
  void *library = dlopen(path_in(build != NULL ? build : ".", "tests/capture/double/libcuda.so.1"), RTLD_NOW);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  EXPECT(library != NULL);
  const cuda_double *gpu = dlsym(library, "cuda_double_control");
  EXPECT(gpu != NULL);
  gpu->clock(INT64_C(-77777777777), 100e-6);
  return gpu;
}

static bubbletop_session *open_in(const char *directory) {
  bubbletop_config config = config_in(directory);
  bubbletop_session *session = NULL;
  EXPECT(bubbletop_open(&config, &session) == BUBBLETOP_OK);
  return session;
}

static stream_run *recorded(const char *directory, void (*body)(void *)) {
  assert_int_equal(in_child(body, (void *)(uintptr_t)directory), 0);
  return run_read(directory, false);
}

static void wait_for(int64_t time) {
  while (bubbletop_now() < time + 5 * MILLISECOND)
    nanosleep(&(struct timespec){.tv_nsec = MILLISECOND}, NULL);
}

static const bt_event *with_microbatch(const stream_run *run, int microbatch) {
  for (size_t i = 0; i < run->record_count; i++) {
    const bt_event *event = &run->records[i].event;
    if (bt_code_is_span(event->code) && event->microbatch == microbatch) return event;
  }
  fail_msg("there is no microbatch %d", microbatch);
  return NULL;
}

static bool near(int64_t a, int64_t b, int64_t by) {
  return a - b <= by && b - a <= by;
}

/* ---- times ---- */

enum { KERNELS = 50 };

static void run_kernels(void *directory) {
  const cuda_double *gpu = load_double();
  bubbletop_session *session = open_in(directory);
  void *streams[3] = {gpu->stream(1), gpu->stream(1), gpu->stream(2)};
  int64_t done = 0;
  FILE *truth = fopen(path_in(directory, "truth"), "w");
  EXPECT(truth != NULL);
  gpu->kernel(streams[0], 400 * MILLISECOND); /* this stream is far behind the host */
  for (int i = 0; i < KERNELS; i++) {
    bubbletop_cuda_span span;
    void *stream = streams[i % 3];
    int64_t begin = gpu->kernel(stream, 0);
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    int64_t end = gpu->kernel(stream, (i + 1) * 100000);
    bubbletop_cuda_end(&span);
    bubbletop_cuda_end(&span);
    if (end > done) done = end;
    fprintf(truth, "%lld %lld\n", (long long)begin, (long long)end);
    nanosleep(&(struct timespec){.tv_nsec = 10 * MILLISECOND}, NULL);
  }
  fclose(truth);
  wait_for(done);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  EXPECT(gpu->broken_captures() == 0);
  exit(0);
}

static void test_times(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_kernels);
  FILE *truth = fopen(path_in(directory, "truth"), "r");
  (void)state;
  assert_non_null(truth);
  assert_int_equal(run_count(run, BT_F), KERNELS);
  assert_true(run_count(run, BT_ANCHOR) >= 2 * 2); /* of two contexts */
  int64_t widest = 0;
  for (size_t i = 0; i < run->record_count; i++) {
    const bt_event *event = &run->records[i].event;
    if (event->code == BT_ANCHOR && event->real > widest) widest = event->real;
  }
  /* the float has 0.03 us at 0.5 s, the clock 32 ns; the drift before the second anchor 25 us */
  int64_t slack = widest + 60000;
  for (int i = 0; i < KERNELS; i++) {
    long long begin = 0;
    long long end = 0;
    assert_int_equal(fscanf(truth, "%lld %lld", &begin, &end), 2);
    const bt_event *event = with_microbatch(run, i);
    assert_int_equal(event->flags, BT_FLAG_GPU_TIMED);
    /* the event was recorded some time after the kernel was asked for, if the stream was free */
    if (event->start < begin - slack || event->start > begin + slack + 20 * MILLISECOND ||
        !near(bt_event_end(event), end, slack + 20 * MILLISECOND))
      fail_msg("kernel %d: %lld..%lld became %lld..%lld", i, begin, end, (long long)event->start,
               (long long)bt_event_end(event));
    if (i % 3 == 0 && i < 30) { /* queued behind others: exact */
      assert_true(near(event->start, begin, slack));
      assert_true(near(bt_event_end(event), end, slack));
    }
  }
  fclose(truth);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(directory);
}

/* ---- what goes wrong ---- */

static void span_on(bubbletop_session *session, const cuda_double *gpu, void *stream, int microbatch) {
  bubbletop_cuda_span span;
  bubbletop_cuda_begin(session, &span, BUBBLETOP_B, bubbletop_at(microbatch, 0), stream);
  gpu->kernel(stream, MILLISECOND);
  bubbletop_cuda_end(&span);
}

/* Until so many spans are in rings. */
static void wait_recorded(bubbletop_session *session, uint64_t wanted) {
  bubbletop_stats stats = {.size = sizeof stats};
  for (int i = 0; i < 20000 && stats.recorded < wanted; i++) {
    nanosleep(&(struct timespec){.tv_nsec = MILLISECOND}, NULL);
    bubbletop_get_stats(session, &stats);
  }
}

static void run_failures(void *directory) {
  const cuda_double *gpu = load_double();
  bubbletop_session *session = open_in(directory);
  void *stream = gpu->stream(1);
  gpu->refuse("cuEventCreate", 2, 1);
  span_on(session, gpu, stream, 0);
  gpu->refuse("cuEventRecord", 700, 1);
  span_on(session, gpu, stream, 1);
  gpu->refuse("cuStreamGetCtx", 201, 1);
  span_on(session, gpu, stream, 2);
  span_on(session, gpu, stream, 3);
  wait_recorded(session, 4);
  gpu->refuse("cuEventElapsedTime", 700, 1000);
  span_on(session, gpu, stream, 4);
  wait_recorded(session, 5);
  gpu->refuse("", 0, 0);
  /* more than there is room for, behind a kernel that does not end before the close */
  gpu->kernel(stream, INT64_C(3600000000000));
  for (int i = 0; i < 4200; i++)
    span_on(session, gpu, stream, 1000 + i);
  bubbletop_cuda_span open;
  bubbletop_cuda_begin(session, &open, BUBBLETOP_W, bubbletop_at(9999, 0),
                       stream); /* no room either: the host's times */
  bubbletop_cuda_end(&open);
  bubbletop_stats stats = {.size = sizeof stats};
  bubbletop_get_stats(session, &stats);
  EXPECT(stats.gpu_unknown >= 4 + 104);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  bubbletop_cuda_end(&open);
  exit(0);
}

static void test_failures(void **state) {
  char *directory = scratch_make();
  setenv("BUBBLETOP_RING_BYTES", "1048576", 1);
  stream_run *run = recorded(directory, run_failures);
  (void)state;
  for (int i = 0; i < 5; i++) {
    const bt_event *event = with_microbatch(run, i);
    assert_int_equal(event->flags, i == 3 ? BT_FLAG_GPU_TIMED : BT_FLAG_GPU_UNKNOWN);
  }
  assert_int_equal(run_count(run, BT_B), 5 + 4200); /* none is lost */
  assert_int_equal(with_microbatch(run, 1000)->flags, BT_FLAG_GPU_UNKNOWN);
  assert_int_equal(with_microbatch(run, 9999)->flags, BT_FLAG_GPU_UNKNOWN);
  run_free(run);
  scratch_remove(directory);
}

/* ---- captures, groups, close ---- */

static void run_captures(void *directory) {
  const cuda_double *gpu = load_double();
  bubbletop_session *session = open_in(directory);
  void *stream = gpu->stream(1);
  void *other = gpu->stream(1);
  span_on(session, gpu, other, 0);
  gpu->capture(stream, true);
  span_on(session, gpu, stream, 1); /* being captured */
  span_on(session, gpu, NULL, 2); /* forbidden by that */
  span_on(session, gpu, other, 3);
  wait_for(bubbletop_now() + 30 * MILLISECOND); /* asked for during the capture */
  gpu->capture(stream, false);
  span_on(session, gpu, stream, 4);
  wait_for(bubbletop_now() + 10 * MILLISECOND);
  bubbletop_stats stats = {.size = sizeof stats};
  bubbletop_get_stats(session, &stats);
  EXPECT(stats.graph_captured == 2);
  EXPECT(gpu->broken_captures() == 0);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  exit(0);
}

static void test_captures(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_captures);
  (void)state;
  assert_int_equal(run_count(run, BT_B), 3);
  assert_memory_equal(run_meta(run, "graph_captured"), "2", 1);
  run_free(run);
  scratch_remove(directory);
}

static void run_group(void *directory) {
  const cuda_double *gpu = load_double();
  bubbletop_session *session = open_in(directory);
  void *stream = gpu->stream(1);
  bubbletop_cuda_span span;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.peer = 1;
  bubbletop_cuda_comm_begin(session, &span, BUBBLETOP_SEND_F, bubbletop_at(7, 0), &comm, stream);
  comm.peer = 2;
  bubbletop_cuda_add(&span, BUBBLETOP_RECV_B, bubbletop_at(8, 0), &comm);
  bubbletop_cuda_add(&span, BUBBLETOP_SEND_B, bubbletop_at(9, 0), &comm);
  bubbletop_cuda_add(&span, BUBBLETOP_F, bubbletop_at(9, 0), &comm); /* no message */
  int64_t done = gpu->kernel(stream, 3 * MILLISECOND);
  bubbletop_cuda_end(&span);
  bubbletop_gate_on on = {sizeof on, BUBBLETOP_RECV_B, 2, 0, 0, 1};
  bubbletop_cuda_gate_begin(session, &span, bubbletop_at(8, 0), &on, stream);
  bubbletop_cuda_end(&span);
  wait_for(done);
  bubbletop_cuda_begin(session, &span, BUBBLETOP_W, bubbletop_at(10, 0), stream); /* not ended before the close */
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  bubbletop_cuda_end(&span);
  /* the next session of the process */
  session = open_in(directory);
  span_on(session, gpu, stream, 11);
  bubbletop_cuda_end(&span);
  wait_recorded(session, 1);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  exit(0);
}

static void test_groups_and_close(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_group);
  (void)state;
  const bt_event *first = &run_find(run, BT_SEND_F, 0)->event;
  assert_true(first->duration >= 3 * MILLISECOND - 1000);
  assert_int_equal(first->flags, BT_FLAG_GPU_TIMED | BT_FLAG_GROUPED);
  const bt_event *second = &run_find(run, BT_RECV_B, 0)->event;
  assert_int_equal(second->start, first->start);
  assert_int_equal(second->duration, first->duration);
  assert_int_equal(second->flags, first->flags);
  assert_int_equal(second->peer, 2);
  assert_int_equal(run_count(run, BT_SEND_B), 1);
  assert_int_equal(run_find(run, BT_GATE, 0)->event.flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(run_find(run, BT_W, 0)->event.flags, BT_FLAG_GPU_UNKNOWN);
  assert_int_equal(run_find(run, BT_B, 0)->event.flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(run_find(run, BT_B, 0)->life, 1);
  run_free(run);
  scratch_remove(directory);
}

/* A message that a second stream waits for. */
static void run_waited(void *directory) {
  const cuda_double *gpu = load_double();
  bubbletop_session *session = open_in(directory);
  void *stream = gpu->stream(1);
  void *other = gpu->stream(1);
  bubbletop_cuda_span span;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.peer = 1;
  bubbletop_cuda_comm_begin(session, &span, BUBBLETOP_RECV_F, bubbletop_at(7, 0), &comm, stream);
  int64_t done = gpu->kernel(other, 8 * MILLISECOND);
  bubbletop_cuda_end_after(&span, other);
  bubbletop_cuda_launch_begin(session, &span, stream); /* of which somebody else tells */
  bubbletop_cuda_end_after(&span, stream);
  bubbletop_cuda_begin(NULL, &span, BUBBLETOP_F, bubbletop_at(1, 0), stream);
  bubbletop_cuda_end_after(&span, stream);
  wait_for(done);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  exit(0);
}

static void test_waited(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_waited);
  (void)state;
  const bt_event *message = &run_find(run, BT_RECV_F, 0)->event;
  assert_int_equal(message->flags, BT_FLAG_GPU_TIMED | BT_FLAG_GROUPED);
  assert_true(message->duration >= 8 * MILLISECOND - 100000);
  assert_int_equal(run_count(run, BT_RECV_F), 1);
  assert_int_equal(run_count(run, BT_F), 0);
  run_free(run);
  scratch_remove(directory);
}

static void run_without_driver(void *directory) {
  bubbletop_session *session = open_in(directory);
  bubbletop_cuda_span span;
  bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(0, 0), NULL);
  bubbletop_cuda_end(&span);
  bubbletop_cuda_begin(NULL, &span, BUBBLETOP_F, bubbletop_at(0, 0), NULL);
  bubbletop_cuda_end(&span);
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  exit(0);
}

static void test_without_driver(void **state) {
  char *directory = scratch_make();
  (void)state;
  /* with a real driver, but no context, it is the same */
  stream_run *run = recorded(directory, run_without_driver);
  assert_int_equal(run_count(run, BT_F), 1);
  assert_int_equal(with_microbatch(run, 0)->flags, BT_FLAG_GPU_UNKNOWN);
  run_free(run);
  scratch_remove(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_times),    cmocka_unit_test(test_failures),
      cmocka_unit_test(test_captures), cmocka_unit_test(test_groups_and_close),
      cmocka_unit_test(test_waited),   cmocka_unit_test(test_without_driver),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
