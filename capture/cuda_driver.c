#include "capture/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static struct {
  pthread_once_t once;
  bool complete;
  bt_cuda_driver driver;
} process = {.once = PTHREAD_ONCE_INIT};

static void load(void) {
  static const struct {
    size_t at;
    const char *names[2]; /* the newer one first */
  } functions[] = {
      {offsetof(bt_cuda_driver, event_create), {"cuEventCreate"}},
      {offsetof(bt_cuda_driver, event_destroy), {"cuEventDestroy_v2", "cuEventDestroy"}},
      {offsetof(bt_cuda_driver, event_record), {"cuEventRecord"}},
      {offsetof(bt_cuda_driver, event_query), {"cuEventQuery"}},
      {offsetof(bt_cuda_driver, event_elapsed), {"cuEventElapsedTime_v2", "cuEventElapsedTime"}},
      {offsetof(bt_cuda_driver, stream_create), {"cuStreamCreate"}},
      {offsetof(bt_cuda_driver, stream_destroy), {"cuStreamDestroy_v2", "cuStreamDestroy"}},
      {offsetof(bt_cuda_driver, stream_is_capturing), {"cuStreamIsCapturing"}},
      {offsetof(bt_cuda_driver, stream_context), {"cuStreamGetCtx"}},
      {offsetof(bt_cuda_driver, context_push), {"cuCtxPushCurrent_v2", "cuCtxPushCurrent"}},
      {offsetof(bt_cuda_driver, context_pop), {"cuCtxPopCurrent_v2", "cuCtxPopCurrent"}},
      {offsetof(bt_cuda_driver, exchange_capture_mode), {"cuThreadExchangeStreamCaptureMode"}},
  };
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) return;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *function = dlsym(library, functions[i].names[0]);
    if (function == NULL && functions[i].names[1] != NULL) function = dlsym(library, functions[i].names[1]);
    if (function == NULL) return;
    memcpy((char *)&process.driver + functions[i].at, &function, sizeof function);
  }
  process.complete = true;
}

const bt_cuda_driver *bt_cuda_driver_get(void) {
  pthread_once(&process.once, load);
  return process.complete ? &process.driver : NULL;
}
