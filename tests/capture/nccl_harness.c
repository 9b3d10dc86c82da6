#include "tests/capture/nccl_harness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "tests/capture/support.h"

void *harness_load(const char *name) {
  const char *build = getenv("top_builddir");
  void *library = dlopen(path_in(build != NULL ? build : ".", name), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  EXPECT(library != NULL);
  return library;
}

void *harness_plugin(void) {
  return harness_load(".libs/libnccl-profiler-bubbletop.so");
}

const cuda_double *harness_gpu(void) {
  const cuda_double *gpu = dlsym(harness_load("tests/capture/double/libcuda.so.1"), "cuda_double_control");
  EXPECT(gpu != NULL);
  return gpu;
}

void harness_nap(int64_t ns) {
  nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

void *harness_start(const bt_nccl_profiler *nccl, void *context, bt_nccl_descriptor descriptor) {
  void *handle = &descriptor;
  EXPECT(nccl->start(context, &handle, &descriptor) == BT_NCCL_SUCCESS);
  EXPECT(handle != &descriptor);
  return handle;
}

void harness_stop(const bt_nccl_profiler *nccl, void *handle) {
  if (handle != NULL) EXPECT(nccl->stop(handle) == BT_NCCL_SUCCESS);
}

static void *p2p(const bt_nccl_profiler *nccl, void *context, const char *function, size_t count, int peer,
                 uint8_t channels) {
  bt_nccl_descriptor descriptor = {.type = BT_NCCL_P2P};
  descriptor.p2p = (bt_nccl_p2p){
      .function = function, .datatype = "ncclFloat16", .count = count, .peer = peer, .channels = channels};
  return harness_start(nccl, context, descriptor);
}

void *harness_p2p(const bt_nccl_profiler *nccl, void *context, const char *function, size_t count, int peer) {
  return p2p(nccl, context, function, count, peer, 0);
}

static void tell(const bt_nccl_profiler *nccl, void *context, void *message, const int64_t times[2]) {
  bt_nccl_descriptor channel = {.type = BT_NCCL_KERNEL_CH, .parent = message};
  bt_nccl_kernel_state end = {(uint64_t)times[1]};
  channel.kernel_channel.timer = (uint64_t)times[0];
  void *handle = harness_start(nccl, context, channel);
  EXPECT(handle != NULL && nccl->record_state(handle, BT_NCCL_KERNEL_CH_STOP, &end) == BT_NCCL_SUCCESS);
  harness_stop(nccl, handle);
}

static void launch(const bt_nccl_profiler *nccl, void *context, void *parent, const harness_work *work) {
  bt_nccl_descriptor launched = {.type = BT_NCCL_KERNEL_LAUNCH, .parent = parent};
  launched.kernel_launch.stream = work->stream;
  if (work->gpu != NULL && work->until != 0) work->gpu->hold(work->stream, work->from);
  void *kernel = harness_start(nccl, context, launched);
  if (work->gpu != NULL && work->until != 0) work->gpu->hold(work->stream, work->until);
  if (work->gpu != NULL && work->until == 0) work->gpu->kernel(work->stream, work->ns);
  harness_stop(nccl, kernel);
}

void harness_group(const bt_nccl_profiler *nccl, void *context, const harness_work *work,
                   const harness_messages *messages) {
  void *api = harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_GROUP_API});
  harness_stop(nccl, harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_P2P_API, .parent = api}));
  launch(nccl, context, api, work);
  void *group = harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_GROUP});
  void *send = NULL, *receive = NULL;
  bool told = messages->told;
  if (messages->send_to >= 0) send = p2p(nccl, context, "Send", messages->send_count, messages->send_to, told);
  if (messages->receive_from >= 0)
    receive = p2p(nccl, context, "Recv", messages->receive_count, messages->receive_from, told);
  harness_stop(nccl, send);
  harness_stop(nccl, receive);
  harness_stop(nccl, group);
  harness_stop(nccl, api);
  /* stopped means enqueued: what is below it may come afterwards */
  if (told && send != NULL) tell(nccl, context, send, messages->sent);
  if (told && receive != NULL) tell(nccl, context, receive, messages->received);
  void *late = harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_KERNEL_CH, .parent = send});
  EXPECT(nccl->record_state(late, 22, NULL) == BT_NCCL_SUCCESS);
  harness_stop(nccl, late);
}

void harness_collective(const bt_nccl_profiler *nccl, void *context, const harness_work *work, const char *function,
                        size_t count, uint64_t sequence) {
  void *api = harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_GROUP_API});
  launch(nccl, context, api, work);
  void *group = harness_start(nccl, context, (bt_nccl_descriptor){.type = BT_NCCL_GROUP});
  bt_nccl_descriptor coll = {.type = BT_NCCL_COLL};
  coll.coll = (bt_nccl_coll){.sequence = sequence, .function = function, .datatype = "ncclBfloat16", .count = count};
  harness_stop(nccl, harness_start(nccl, context, coll));
  harness_stop(nccl, group);
  harness_stop(nccl, api);
}
