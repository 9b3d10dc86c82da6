/* The NCCL plugin with BUBBLETOP_NCCL_CHANNELS=1: channels of a launch tell when they ran, from another thread and after all
 * that NCCL has stopped, and messages of a group get times of their own. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "capture/bubbletop.h"
#include "tests/capture/nccl_harness.h"
#include "tests/capture/support.h"

enum { MICROSECOND = 1000, MILLISECOND = 1000000, MANY = 200, CHANNELS = 2 };
static const uint64_t timer = UINT64_C(0x7000000000000000); /* the GPU's own, of no matter what origin */

typedef struct process {
  const bt_nccl_profiler *nccl;
  const cuda_double *gpu;
  void *world, *stream;
} process;

/* Scenarios end by exit() in the midst of their callers, as training processes do: what those hold then is not lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "detect_leaks=0";
}

static void load(process *p) {
  int mask = 0;
  p->gpu = harness_gpu();
  p->nccl = dlsym(harness_plugin(), "ncclProfiler_v5");
  p->stream = p->gpu->stream(1);
  EXPECT(p->nccl != NULL && p->nccl->init(&p->world, 0xabc, &mask, NULL, 1, 4, 1, NULL) == BT_NCCL_SUCCESS);
  EXPECT((mask & BT_NCCL_KERNEL_CH) != 0);
}

static void *message(const process *p, const char *function, int peer) {
  bt_nccl_descriptor descriptor = {.type = BT_NCCL_P2P};
  descriptor.p2p =
      (bt_nccl_p2p){.function = function, .datatype = "ncclInt8", .count = 8, .peer = peer, .channels = CHANNELS};
  return harness_start(p->nccl, p->world, descriptor);
}

static void *begin_channel(const process *p, void *parent, uint64_t at) {
  bt_nccl_descriptor descriptor = {.type = BT_NCCL_KERNEL_CH, .parent = parent};
  descriptor.kernel_channel.timer = at;
  return harness_start(p->nccl, p->world, descriptor);
}

static void end_channel(const process *p, void *channel, uint64_t at) {
  bt_nccl_kernel_state state = {at};
  EXPECT(p->nccl->record_state(channel, BT_NCCL_KERNEL_CH_STOP, &state) == BT_NCCL_SUCCESS);
  harness_stop(p->nccl, channel);
}

/* A launch of a send and a receive, all of it stopped. */
static void launch(const process *p, int64_t ns, void **send, void **receive) {
  bt_nccl_descriptor launched = {.type = BT_NCCL_KERNEL_LAUNCH};
  launched.kernel_launch.stream = p->stream;
  void *kernel = harness_start(p->nccl, p->world, launched);
  p->gpu->kernel(p->stream, ns);
  harness_stop(p->nccl, kernel);
  void *group = harness_start(p->nccl, p->world, (bt_nccl_descriptor){.type = BT_NCCL_GROUP});
  *send = message(p, "Send", 2);
  *receive = message(p, "Recv", 0);
  EXPECT(*send != NULL && *receive != NULL && *send != *receive);
  harness_stop(p->nccl, *send);
  harness_stop(p->nccl, *receive);
  harness_stop(p->nccl, group);
}

/* Both channels of a message: from, to in us behind the launch's beginning, the second a little inside. */
static void run_channels(const process *p, void *of, uint64_t from, uint64_t to) {
  void *first = begin_channel(p, of, timer + from * MICROSECOND);
  void *second = begin_channel(p, of, timer + (from + 1) * MICROSECOND);
  EXPECT(first == of && second == of);
  end_channel(p, second, timer + (to - 1) * MICROSECOND);
  end_channel(p, first, timer + to * MICROSECOND);
}

static stream_run *recorded(const char *directory, void (*body)(void *)) {
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("BUBBLETOP_FLUSH_MS", "5", 1);
  setenv("BUBBLETOP_NCCL_CHANNELS", "1", 1);
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  assert_int_equal(in_child(body, NULL), 0);
  return run_read(directory, false);
}

static void run_parts(void *ignored) {
  process p;
  void *send, *receive, *late;
  (void)ignored;
  load(&p);
  launch(&p, 5 * MILLISECOND, &send, &receive); /* 0: the receive begins 1 ms later, and ends 2 ms later */
  run_channels(&p, receive, 1000, 5000);
  run_channels(&p, send, 0, 3000);
  launch(&p, MILLISECOND, &late, &receive); /* 1: nothing is told in time */
  launch(&p, 2 * MILLISECOND, &send, &receive); /* 2: only one of the two */
  run_channels(&p, send, 0, 2000);
  launch(&p, 2 * MILLISECOND, &send, &receive); /* 3: what is told cannot be */
  run_channels(&p, send, 0, 2000);
  run_channels(&p, receive, 1000, 900000);
  for (int i = 0; i < 20; i++) { /* 4 … 23: more than are waited for */
    launch(&p, MILLISECOND, &send, &receive);
    run_channels(&p, send, 0, 1000);
    run_channels(&p, receive, 500, 900);
  }
  run_channels(&p, late, 0, 1000); /* too late: it goes nowhere */
  run_channels(&p, send, 0, 1000); /* again */
  EXPECT(p.nccl->record_state(send, BT_NCCL_KERNEL_CH_STOP, NULL) == BT_NCCL_SUCCESS);
  EXPECT(p.nccl->record_state(send, 20, &send) == BT_NCCL_SUCCESS);
  EXPECT(begin_channel(&p, NULL, timer) == NULL);
  launch(&p, MILLISECOND, &send, &receive); /* 24: the process ends first */
  harness_nap(100 * MILLISECOND);
  exit(0);
}

/* The n-th launch's messages, by their numbers. */
static const bt_event *of_launch(const stream_run *run, unsigned kind, int64_t n) {
  for (size_t i = 0; i < run_count(run, kind); i++) {
    const bt_event *event = &run_find(run, kind, i)->event;
    if (event->sequence == n) return event;
  }
  fail_msg("launch %d has no %s", (int)n, bt_code_name(kind));
  return NULL;
}

static void check_shared(const stream_run *run, int64_t n) {
  const bt_event *send = of_launch(run, BT_SEND, n), *receive = of_launch(run, BT_RECV, n);
  assert_int_equal(send->flags, BT_FLAG_GPU_TIMED | BT_FLAG_GROUPED);
  assert_int_equal(receive->flags, send->flags);
  assert_int_equal(receive->start, send->start);
  assert_int_equal(receive->duration, send->duration);
}

static void test_parts(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_parts);
  (void)state;
  const bt_event *send = of_launch(run, BT_SEND, 0), *receive = of_launch(run, BT_RECV, 0);
  assert_int_equal(send->flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(receive->flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(send->duration, 3 * MILLISECOND);
  assert_int_equal(receive->start - send->start, MILLISECOND);
  assert_true(receive->duration > 4 * MILLISECOND - 200 * MICROSECOND && receive->duration <= 4 * MILLISECOND);
  check_shared(run, 1);
  check_shared(run, 2);
  assert_int_equal(of_launch(run, BT_SEND, 3)->flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(of_launch(run, BT_RECV, 3)->flags, BT_FLAG_GPU_TIMED | BT_FLAG_GROUPED);
  for (int n = 4; n < 24; n++) {
    assert_int_equal(of_launch(run, BT_RECV, n)->flags, BT_FLAG_GPU_TIMED);
    assert_int_equal(of_launch(run, BT_RECV, n)->duration, 400 * MICROSECOND);
  }
  check_shared(run, 24);
  assert_int_equal(run_count(run, BT_SEND), 25);
  assert_int_equal(run_count(run, BT_RECV), 25);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(directory);
}

/* ---- another thread ---- */

typedef struct mailbox { /* launches for the thread that tells their channels */
  process p;
  void *send[MANY], *receive[MANY];
  uint32_t made, told; /* atomic */
} mailbox;

static void *tell(void *context) {
  mailbox *box = context;
  for (uint32_t i = 0; i < MANY; i++) {
    while (__atomic_load_n(&box->made, __ATOMIC_ACQUIRE) <= i)
      harness_nap(10 * MICROSECOND);
    run_channels(&box->p, box->send[i], 0, 100);
    run_channels(&box->p, box->receive[i], 20, 90);
    __atomic_store_n(&box->told, i + 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void run_threads(void *ignored) {
  static mailbox box;
  pthread_t thread;
  (void)ignored;
  load(&box.p);
  EXPECT(pthread_create(&thread, NULL, tell, &box) == 0);
  for (uint32_t i = 0; i < MANY; i++) {
    launch(&box.p, 100 * MICROSECOND, &box.send[i], &box.receive[i]);
    __atomic_store_n(&box.made, i + 1, __ATOMIC_RELEASE);
    while (i - __atomic_load_n(&box.told, __ATOMIC_ACQUIRE) + 1 > 8) /* as far behind as it may be */
      harness_nap(10 * MICROSECOND);
  }
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(box.p.nccl->finalize(box.p.world) == BT_NCCL_SUCCESS);
  harness_nap(100 * MILLISECOND);
  exit(0);
}

static void test_threads(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_threads);
  (void)state;
  assert_int_equal(run_count(run, BT_SEND), MANY);
  for (int n = 0; n < MANY; n++) {
    const bt_event *send = of_launch(run, BT_SEND, n), *receive = of_launch(run, BT_RECV, n);
    assert_int_equal(send->flags, BT_FLAG_GPU_TIMED);
    assert_int_equal(receive->flags, BT_FLAG_GPU_TIMED);
    assert_int_equal(receive->start - send->start, 20 * MICROSECOND);
    assert_int_equal(receive->duration, 70 * MICROSECOND);
  }
  run_free(run);
  scratch_remove(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
