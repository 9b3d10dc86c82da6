/* What the programs of tests/gpu make on a GPU, made on the double of the driver: so that the checks of tests/gpu/run can be
 * tried without one. Arguments as those of event_pool, or `messages`; FACTOR makes the truth wrong by that. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/bubbletop_cuda.h"
#include "tests/capture/nccl_harness.h"

enum { KERNELS = 60, MILLISECOND = 1000000 };

static int rank_of_process(void) {
  const char *text = getenv("RANK");
  return text != NULL ? atoi(text) : 0;
}

static void wait_for(int64_t time) {
  while (bubbletop_now() < time + 20 * MILLISECOND)
    harness_nap(5 * MILLISECOND);
}

static void pool(bubbletop_session *session, const cuda_double *gpu, FILE *truth, double factor) {
  void *stream = gpu->stream(1);
  int64_t done =
      gpu->kernel(stream, 1000 * MILLISECOND); /* the host is ahead: events wait for kernels, not for calls */
  int64_t first = done;
  for (int i = 0; i < KERNELS; i++) {
    bubbletop_cuda_span span;
    int64_t ns = (i + 1) * MILLISECOND / 50;
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    int64_t begin = done;
    done = gpu->kernel(stream, ns);
    bubbletop_cuda_end(&span);
    fprintf(truth, "%d %d %lld %lld\n", rank_of_process(), i, (long long)begin, (long long)((double)ns * factor));
  }
  EXPECT(bubbletop_now() < first);
  wait_for(done);
}

static void drift(bubbletop_session *session, const cuda_double *gpu, FILE *truth, double factor) {
  void *stream = gpu->stream(1);
  for (int i = 0; i < 5; i++) {
    bubbletop_cuda_span span;
    int64_t before = bubbletop_now();
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    int64_t done = gpu->kernel(stream, MILLISECOND);
    bubbletop_cuda_end(&span);
    wait_for(done);
    fprintf(truth, "%d %lld %lld\n", i, (long long)before,
            (long long)(bubbletop_now() - (int64_t)(factor * 1e9) + 1000000000));
  }
}

static void messages(const cuda_double *gpu) {
  const bt_nccl_profiler *nccl = dlsym(harness_plugin(), "ncclProfiler_v5");
  void *world = NULL;
  int mask = 0;
  EXPECT(nccl != NULL && nccl->init(&world, 0xabc, &mask, NULL, 1, 1, 0, NULL) == BT_NCCL_SUCCESS);
  harness_work work = {.gpu = gpu, .stream = gpu->stream(1), .ns = MILLISECOND};
  for (int i = 0; i < 20; i++)
    harness_group(nccl, world, &work, &(harness_messages){.send_count = 2 << 20, .receive_count = 2 << 20});
  harness_nap(60 * MILLISECOND);
  EXPECT(nccl->finalize(world) == BT_NCCL_SUCCESS);
}

int main(int argc, char **argv) {
  EXPECT(argc >= 2);
  const cuda_double *gpu = harness_gpu();
  if (strcmp(argv[1], "messages") == 0) {
    messages(gpu);
    return 0;
  }
  bubbletop_session *session = NULL;
  FILE *truth = argc > 2 ? fopen(argv[2], "w") : NULL;
  EXPECT(truth != NULL && bubbletop_open(NULL, &session) == BUBBLETOP_OK && session != NULL);
  double factor = argc > 3 ? atof(argv[3]) : 1;
  if (strcmp(argv[1], "pool") == 0)
    pool(session, gpu, truth, factor);
  else
    drift(session, gpu, truth, factor);
  EXPECT(fclose(truth) == 0 && bubbletop_close(session, 0) == BUBBLETOP_OK);
  return 0;
}
