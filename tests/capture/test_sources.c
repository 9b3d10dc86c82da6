/* One process with everything in it that sees ops and messages: an adapter (its calls are played here), the NVTX
 * injection and the NCCL plugin. Each thing is recorded once, by who sees it best. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/bubbletop_tool.h"
#include "capture/nccl_abi.h"
#include "tests/capture/nvtx_client.h"
#include "tests/capture/support.h"

/* Scenarios end by exit() in the midst of their callers, as training processes do: what those hold then is not lost. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "detect_leaks=0";
}

static void expect(bool condition, int line) {
  if (condition) return;
  fprintf(stderr, "%s:%d: not as expected\n", __FILE__, line);
  _exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

typedef struct process {
  nvtx_client nvtx;
  const bt_nccl_profiler *nccl;
  void *communicator;
} process;

static void load(process *out) {
  const char *build = getenv("top_builddir");
  void *library =
      dlopen(path_in(build != NULL ? build : ".", ".libs/libnccl-profiler-bubbletop.so"), RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL && nvtx_attach(&out->nvtx));
  out->nccl = dlsym(library, "ncclProfiler_v5");
  EXPECT(out->nccl != NULL);
}

static void make_communicator(process *all) {
  int mask = 0;
  EXPECT(all->nccl->init(&all->communicator, 0xabc, &mask, NULL, 1, 4, 1, NULL) == BT_NCCL_SUCCESS);
}

static void nccl_sees(const process *all, bt_nccl_descriptor *task) {
  void *handle = NULL;
  EXPECT(all->nccl->start(all->communicator, &handle, task) == BT_NCCL_SUCCESS);
  if (handle != NULL) EXPECT(all->nccl->stop(handle) == BT_NCCL_SUCCESS);
}

/* One microbatch as every source sees it: the adapter only where it is there. */
static void train(const process *all, bubbletop_session *adapter) {
  bubbletop_span op;
  bubbletop_span message;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.peer = 2;
  bt_nvtx_domain_handle domain = nvtx_domain(&all->nvtx, "NCCL");
  bt_nccl_descriptor send = {.type = BT_NCCL_P2P};
  send.p2p = (bt_nccl_p2p){.function = "Send", .datatype = "ncclFloat16", .count = 5, .peer = 2};
  bt_nccl_descriptor reduce = {.type = BT_NCCL_COLL};
  reduce.coll = (bt_nccl_coll){.function = "AllReduce", .datatype = "ncclFloat16", .count = 7};

  nvtx_push(&all->nvtx, "Forward 3");
  if (adapter != NULL) bubbletop_begin(adapter, &op, BUBBLETOP_F, bubbletop_at(3, 0));
  nvtx_push(&all->nvtx, "R3.0.1"); /* recomputation: no adapter sees it */
  nvtx_pop(&all->nvtx);
  if (adapter != NULL) bubbletop_end(&op);
  nvtx_pop(&all->nvtx);

  if (adapter != NULL) bubbletop_comm_begin(adapter, &message, BUBBLETOP_SEND_F, bubbletop_at(3, 0), &comm);
  nvtx_domain_push(&all->nvtx, domain, "ncclSend");
  nccl_sees(all, &send);
  nvtx_domain_pop(&all->nvtx, domain);
  if (adapter != NULL) bubbletop_end(&message);

  nvtx_domain_push(&all->nvtx, domain, "ncclAllReduce");
  nccl_sees(all, &reduce);
  nvtx_domain_pop(&all->nvtx, domain);
}

static void run_all(void *ignored) {
  process all;
  (void)ignored;
  load(&all);
  bubbletop_session *session = bubbletop_shared();
  EXPECT(session != NULL && bubbletop_seen_by(session, BUBBLETOP_SIGHT_OPS) == 0);
  EXPECT(bubbletop_see(session, BUBBLETOP_SOURCE_ADAPTER, BUBBLETOP_SIGHT_OPS) == BUBBLETOP_SOURCE_ADAPTER);
  EXPECT(bubbletop_see(session, BUBBLETOP_SOURCE_ADAPTER, BUBBLETOP_SIGHT_P2P) == BUBBLETOP_SOURCE_ADAPTER);
  make_communicator(&all);
  EXPECT(bubbletop_see(session, BUBBLETOP_SOURCE_ADAPTER, BUBBLETOP_SIGHT_COLLECTIVES) == BUBBLETOP_SOURCE_PLUGIN);
  train(&all, session);
  exit(0);
}

static void run_without_adapter(void *ignored) {
  process all;
  (void)ignored;
  load(&all);
  make_communicator(&all);
  train(&all, NULL);
  exit(0);
}

static stream_run *recorded(const char *directory, void (*body)(void *)) {
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("BUBBLETOP_FLUSH_MS", "5", 1);
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  assert_int_equal(in_child(body, NULL), 0);
  return run_read(directory, false);
}

static void check_once(void (*body)(void *), int microbatch_of_message) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, body);
  assert_int_equal(run->file_count, 1);
  assert_int_equal(run_count(run, BT_F), 1);
  assert_int_equal(run_count(run, BT_RECOMPUTE), 1);
  unsigned send = microbatch_of_message >= 0 ? BT_SEND_F : BT_SEND; /* NCCL does not know which */
  assert_int_equal(run_count(run, BT_SEND_F) + run_count(run, BT_SEND), 1);
  assert_int_equal(run_count(run, BT_ALL_REDUCE), 1);
  assert_int_equal(run_find(run, send, 0)->event.microbatch, microbatch_of_message);
  assert_int_equal(run_find(run, BT_ALL_REDUCE, 0)->event.bytes, 14);
  run_free(run);
  scratch_remove(directory);
}

static void test_an_adapter_is_best_for_ops_and_messages(void **state) {
  (void)state;
  check_once(run_all, 3);
}

static void test_the_plugin_is_better_than_ranges(void **state) {
  (void)state;
  check_once(run_without_adapter, -1);
}

static void test_nonsense(void **state) {
  (void)state;
  assert_int_equal(bubbletop_see(NULL, BUBBLETOP_SOURCE_NVTX, BUBBLETOP_SIGHT_P2P), BUBBLETOP_SOURCE_NVTX);
  assert_int_equal(bubbletop_seen_by(NULL, BUBBLETOP_SIGHT_P2P), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_adapter_is_best_for_ops_and_messages),
      cmocka_unit_test(test_the_plugin_is_better_than_ranges),
      cmocka_unit_test(test_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
