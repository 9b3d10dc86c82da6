/* The NCCL profiler plugin, loaded and driven as NCCL does it (order of events as NCCL 2.28 has it), with the double of
 * the CUDA driver. Each scenario runs in a child. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/capture/nccl_harness.h"
#include "tests/capture/support.h"

enum { MILLISECOND = 1000000 };

/* Scenarios end by exit() in the midst of their callers, as training processes do: what those hold then is not lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "detect_leaks=0";
}

static stream_run *recorded(const char *directory, void (*body)(void *)) {
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("BUBBLETOP_FLUSH_MS", "5", 1);
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  assert_int_equal(in_child(body, NULL), 0);
  return run_read(directory, false);
}

/* ---- version 5 ---- */

static void launch(const bt_nccl_profiler *nccl, const cuda_double *gpu, void *context, void *stream, int64_t ns,
                   int send_to, int receive_from) {
  harness_group(
      nccl, context, &(harness_work){.gpu = gpu, .stream = stream, .ns = ns},
      &(harness_messages){.send_to = send_to, .receive_from = receive_from, .send_count = 1000, .receive_count = 500});
}

static void run_5(void *ignored) {
  const cuda_double *gpu = harness_gpu();
  void *library = harness_plugin();
  const bt_nccl_profiler *nccl = dlsym(library, "ncclProfiler_v5");
  void (*attach)(int) = (void (*)(int))dlsym(library, "bubbletop_nccl_attach");
  (void)ignored;
  EXPECT(gpu != NULL && nccl != NULL && attach != NULL && strcmp(nccl->name, "bubbletop") == 0);
  int mask = -1;
  void *world = NULL;
  void *pair = NULL;
  char name[] = "pipeline";
  void *stream = gpu->stream(1);
  EXPECT(nccl->init(&world, 0xabc, &mask, NULL, 1, 4, 1, NULL) == BT_NCCL_SUCCESS && world != NULL);
  EXPECT(mask ==
         (BT_NCCL_GROUP_API | BT_NCCL_COLL_API | BT_NCCL_P2P_API | BT_NCCL_COLL | BT_NCCL_P2P | BT_NCCL_KERNEL_LAUNCH));
  EXPECT(nccl->init(&pair, 0xdef, &mask, name, 1, 2, 0, NULL) == BT_NCCL_SUCCESS);
  memset(name, 'x', sizeof name - 1); /* NCCL frees it */
  launch(nccl, gpu, world, stream, 3 * MILLISECOND, 2, 0);
  launch(nccl, gpu, pair, stream, 2 * MILLISECOND, 1, -1);
  gpu->kernel(stream, 10 * MILLISECOND);
  launch(nccl, gpu, world, stream, MILLISECOND, -1, -1); /* nothing is told of it */
  harness_collective(nccl, world, &(harness_work){.gpu = gpu, .stream = stream}, "AllReduce", 7, 41);
  bt_nccl_descriptor coll = {.type = BT_NCCL_COLL};
  /* what a plugin may be given */
  void *handle = &mask;
  EXPECT(nccl->start(NULL, &handle, &coll) == BT_NCCL_SUCCESS && handle == NULL);
  EXPECT(nccl->start(world, NULL, &coll) == BT_NCCL_SUCCESS);
  EXPECT(nccl->start(world, &handle, NULL) == BT_NCCL_SUCCESS && handle == NULL);
  EXPECT(nccl->stop(NULL) == BT_NCCL_SUCCESS && nccl->record_state(NULL, 23, NULL) == BT_NCCL_SUCCESS);
  harness_stop(nccl, harness_start(nccl, world, (bt_nccl_descriptor){.type = 1 << 14})); /* of a newer version */
  harness_stop(nccl, harness_p2p(nccl, world, NULL, 1, 2));
  bt_nccl_descriptor last = {.type = BT_NCCL_KERNEL_LAUNCH};
  last.kernel_launch.stream = stream;
  void *under_way = harness_start(nccl, world, last);
  attach(0);
  EXPECT(mask == 0);
  harness_stop(nccl, under_way); /* what has begun is stopped all the same */
  attach(1);
  EXPECT(mask == 0xf06);
  harness_nap(100 * MILLISECOND);
  EXPECT(nccl->finalize(world) == BT_NCCL_SUCCESS && nccl->finalize(pair) == BT_NCCL_SUCCESS);
  EXPECT(nccl->finalize(NULL) == BT_NCCL_SUCCESS);
  /* NCCL closes the plugin with its last communicator, and opens it with the next */
  EXPECT(dlclose(library) == 0);
  harness_nap(20 * MILLISECOND);
  nccl = dlsym(harness_plugin(), "ncclProfiler_v5");
  EXPECT(nccl->init(&world, 0xabc, &mask, NULL, 1, 4, 1, NULL) == BT_NCCL_SUCCESS);
  gpu->capture(stream, true);
  launch(nccl, gpu, world, stream, 0, 3, -1); /* into a graph */
  gpu->capture(stream, false);
  EXPECT(gpu->broken_captures() == 0);
  harness_p2p(nccl, world, "Recv", 9, 3); /* of a graph's replay: without a launch */
  exit(0);
}

static void test_5(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_5);
  (void)state;
  assert_int_equal(run->file_count, 1);
  const bt_event *send = &run_find(run, BT_SEND, 0)->event;
  const bt_event *receive = &run_find(run, BT_RECV, 0)->event;
  assert_int_equal(send->flags, BT_FLAG_GPU_TIMED | BT_FLAG_GROUPED);
  assert_int_equal(send->peer, 2);
  assert_int_equal(send->bytes, 2000);
  assert_true(send->duration >= 3 * MILLISECOND - 100000 && send->duration < 1000 * MILLISECOND);
  assert_int_equal(receive->start, send->start);
  assert_int_equal(receive->duration, send->duration);
  assert_int_equal(receive->peer, 0);
  assert_int_equal(receive->bytes, 1000);
  const bt_event *paired = &run_find(run, BT_SEND, 1)->event;
  assert_int_equal(paired->flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(paired->peer, 1);
  assert_int_equal(paired->group, run_find(run, BT_GROUP, 1)->event.group);
  assert_int_equal(run_find(run, BT_GROUP, 1)->event.number, 0xdef);
  assert_int_equal(run_find(run, BT_GROUP, 0)->event.number, 0xabc);
  assert_int_equal(send->sequence, 0);
  const bt_event *coll = &run_find(run, BT_ALL_REDUCE, 0)->event;
  assert_int_equal(coll->bytes, 14);
  assert_int_equal(coll->peer, -1);
  assert_int_equal(coll->sequence, 41);
  assert_int_equal(coll->flags, BT_FLAG_GPU_TIMED);
  assert_int_equal(run_count(run, BT_SEND) + run_count(run, BT_RECV) + run_count(run, BT_ALL_REDUCE), 2 + 1 + 1 + 1);
  assert_int_equal(run_find(run, BT_RECV, 1)->event.bytes, 18);
  assert_int_equal(run_find(run, BT_RECV, 1)->event.sequence, -1); /* some were not seen, so it is not known which */
  assert_memory_equal(run_meta(run, "group_name.2"), "pipeline", 8);
  assert_memory_equal(run_meta(run, "source.nccl"), "5", 1);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(directory);
}

static void run_without_gpu(void *ignored) {
  const bt_nccl_profiler *nccl = dlsym(harness_plugin(), "ncclProfiler_v6");
  void *world = NULL;
  int mask = 0;
  (void)ignored;
  EXPECT(nccl->init(&world, 0xabc, &mask, NULL, 1, 4, 1, NULL) == BT_NCCL_SUCCESS);
  launch(nccl, NULL, world, NULL, 0, 2, 0);
  exit(0);
}

static void test_host_times(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_without_gpu);
  (void)state;
  assert_int_equal(run_find(run, BT_SEND, 0)->event.flags, BT_FLAG_GPU_UNKNOWN);
  assert_int_equal(run_count(run, BT_RECV), 1);
  run_free(run);
  scratch_remove(directory);
}

/* ---- version 4 ---- */

static void run_4(void *ignored) {
  const bt_nccl_profiler_4 *nccl = dlsym(harness_plugin(), "ncclProfiler_v4");
  void *world = NULL;
  void *handles[3];
  int mask = 0;
  (void)ignored;
  EXPECT(nccl->init(&world, &mask, "world", 0xabc, 1, 4, 1, NULL) == BT_NCCL_SUCCESS);
  EXPECT(mask == (BT_NCCL_COLL | BT_NCCL_P2P));
  bt_nccl_descriptor_4 p2p = {.type = BT_NCCL_P2P};
  for (int i = 0; i < 3; i++) {
    p2p.p2p.function = "Send";
    p2p.p2p.datatype = "ncclInt8";
    p2p.p2p.count = 100;
    p2p.p2p.peer = 2;
    EXPECT(nccl->start(world, &handles[i], &p2p) == BT_NCCL_SUCCESS && handles[i] != NULL);
  }
  bt_nccl_descriptor_4 group = {.type = BT_NCCL_GROUP};
  void *other = &mask;
  EXPECT(nccl->start(world, &other, &group) == BT_NCCL_SUCCESS && other == NULL);
  harness_nap(5 * MILLISECOND);
  for (int i = 0; i < 3; i++)
    EXPECT(nccl->stop(handles[i]) == BT_NCCL_SUCCESS);
  EXPECT(nccl->stop(handles[0]) == BT_NCCL_SUCCESS); /* again */
  for (int i = 0; i < 200; i++) /* more than are kept, none stopped: the oldest give way */
    EXPECT(nccl->start(world, &handles[0], &p2p) == BT_NCCL_SUCCESS);
  EXPECT(nccl->finalize(world) == BT_NCCL_SUCCESS);
  EXPECT(nccl->stop(handles[0]) == BT_NCCL_SUCCESS); /* after the end */
  exit(0);
}

static void test_4(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, run_4);
  (void)state;
  assert_int_equal(run_count(run, BT_SEND), 3 + 200 - 64 + 1);
  const bt_event *send = &run_find(run, BT_SEND, 0)->event;
  assert_int_equal(send->peer, 2);
  assert_int_equal(send->bytes, 100);
  assert_int_equal(send->flags, 0);
  assert_true(send->duration >= 5 * MILLISECOND);
  run_free(run);
  scratch_remove(directory);
}

static void run_unconfigured(void *ignored) {
  const bt_nccl_profiler *nccl = dlsym(harness_plugin(), "ncclProfiler_v5");
  void *world = &world;
  int mask = 3;
  (void)ignored;
  EXPECT(nccl->init(&world, 1, &mask, NULL, 1, 2, 0, NULL) == BT_NCCL_SUCCESS);
  EXPECT(world == NULL && mask == 0);
  launch(nccl, NULL, world, NULL, 0, 1, 1);
  exit(0);
}

static void test_unconfigured(void **state) {
  (void)state;
  unsetenv("BUBBLETOP_DIR");
  assert_int_equal(in_child(run_unconfigured, NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_5),
      cmocka_unit_test(test_host_times),
      cmocka_unit_test(test_4),
      cmocka_unit_test(test_unconfigured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
