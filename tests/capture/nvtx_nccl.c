/* Calls the real libnccl as a trainer does, as far as that goes without a GPU, for tests/capture/nvtx_real.sh:
 * nvtx_nccl [LIBRARY]. NCCL makes its NVTX ranges before it checks the communicator, which is no real one. 77: there is no
 * libnccl. With NVTX's own headers the program makes ranges, too. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

typedef int (*group_call)(void);
typedef int (*send_call)(const void *buffer, size_t count, int type, int peer, void *communicator, void *stream);
typedef int (*reduce_call)(const void *from, void *to, size_t count, int type, int op, void *communicator,
                           void *stream);
enum { FLOAT32 = 7, SUM = 0 };

static void *library;

static void *find(const char *name) {
  void *function = dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return function;
}

static void open_library(const char *given) {
  const char *const places[] = {given, "libnccl.so.2", "/usr/local/lib64/libnccl.so.2", "/usr/local/lib/libnccl.so.2",
                                "/usr/local/cuda/lib64/libnccl.so.2"};
  for (size_t i = 0; i < sizeof places / sizeof *places && library == NULL; i++)
    library = places[i] != NULL ? dlopen(places[i], RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void range_begin(const char *name) {
#ifdef HAVE_NVTX
  nvtxRangePushA(name);
#else
  (void)name;
#endif
}

static void range_end(void) {
#ifdef HAVE_NVTX
  nvtxRangePop();
#endif
}

int main(int argc, char **argv) {
  static char communicator[1 << 24]; /* as large as NCCL's, so that it may read its id; the check finds no magic */
  open_library(argc > 1 ? argv[1] : NULL);
  if (library == NULL) return 77;
  memset(communicator, 0xab, sizeof communicator);
  group_call start = (group_call)find("ncclGroupStart");
  group_call end = (group_call)find("ncclGroupEnd");
  send_call send = (send_call)find("ncclSend");
  send_call receive = (send_call)find("ncclRecv");
  reduce_call all_reduce = (reduce_call)find("ncclAllReduce");
  float data[16] = {0};
  for (int i = 0; i < 5; i++) {
    range_begin("F1.0.0");
    start();
    send(data, 16, FLOAT32, 3, communicator, NULL);
    receive(data, 8, FLOAT32, 2, communicator, NULL);
    end();
    range_end();
  }
  all_reduce(data, data, 16, FLOAT32, SUM, communicator, NULL);
  return 0;
}
