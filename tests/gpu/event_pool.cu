/* On a GPU: spans round kernels that spin a known time and say themselves when and how long, by the GPU's timer.
 *   event_pool pool TRUTH            100 kernels, and a capture into a graph that the library must not disturb
 *   event_pool drift TRUTH SECONDS   a kernel about every half second, between two looks at the host's clock
 * The truth is for tests/gpu/check_spans. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "capture/bubbletop_cuda.h"

static void check(bool fine, const char *what, int line) {
  if (fine) return;
  fprintf(stderr, "event_pool: line %d: %s\n", line, what);
  exit(1);
}
#define CUDA(call)                                                                                                     \
  do {                                                                                                                 \
    cudaError_t status_ = (call);                                                                                      \
    check(status_ == cudaSuccess, cudaGetErrorString(status_), __LINE__);                                              \
  } while (0)
#define EXPECT(condition) check((condition), #condition, __LINE__)

enum { KERNELS = 100, CAPTURED = 10, MILLISECOND = 1000000 };

struct measured {
  unsigned long long start, end, cycles;
};

__device__ unsigned long long timer() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin(measured *out, long long ns) {
  long long cycles = clock64();
  unsigned long long begin = timer(), now = begin;
  while ((long long)(now - begin) < ns)
    now = timer();
  *out = {begin, now, (unsigned long long)(clock64() - cycles)};
}

__global__ void count(int *counter) {
  atomicAdd(counter, 1);
}

static measured *device_results(int count) {
  measured *made;
  CUDA(cudaMalloc(&made, sizeof *made * (size_t)count));
  return made;
}

/* Spans in a stream that is being captured are left out and counted; the graph does what it would have done. */
static void capture_a_graph(bubbletop_session *session, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  int *counter, counted = 0;
  CUDA(cudaMalloc(&counter, sizeof *counter));
  CUDA(cudaMemset(counter, 0, sizeof *counter));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < CAPTURED; i++) {
    bubbletop_cuda_span span;
    bubbletop_cuda_begin(session, &span, BUBBLETOP_B, bubbletop_at(i, 0), stream);
    count<<<1, 1, 0, stream>>>(counter);
    bubbletop_cuda_end(&span);
    usleep(5000); /* the library asks for other events meanwhile */
  }
  CUDA(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == CAPTURED); /* nothing was put into it */
  CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CUDA(cudaGraphLaunch(executable, stream));
  CUDA(cudaGraphLaunch(executable, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemcpy(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost));
  EXPECT(counted == 2 * CAPTURED);
}

static int rank_of_process() {
  const char *text = getenv("RANK");
  return text != nullptr ? atoi(text) : 0;
}

static void run_pool(bubbletop_session *session, FILE *truth) {
  static measured results[KERNELS];
  cudaStream_t streams[2], captured;
  measured *out = device_results(KERNELS);
  for (cudaStream_t &stream : streams)
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  for (int i = 0; i < KERNELS; i++) { /* microbatch i spins i + 1 tenths of a millisecond */
    bubbletop_cuda_span span;
    cudaStream_t stream = streams[i % 2];
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    spin<<<1, 1, 0, stream>>>(out + i, (long long)(i + 1) * MILLISECOND / 10);
    bubbletop_cuda_end(&span);
  }
  capture_a_graph(session, captured);
  CUDA(cudaStreamSynchronize(streams[0]));
  CUDA(cudaStreamSynchronize(streams[1]));
  CUDA(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
  for (int i = 0; i < KERNELS; i++)
    fprintf(truth, "%d %d %llu %llu\n", rank_of_process(), i, results[i].start, results[i].end - results[i].start);
  const measured &last = results[KERNELS - 1];
  printf("GPU clock %.0f MHz\n", (double)last.cycles * 1e3 / (double)(last.end - last.start));
}

static void run_drift(bubbletop_session *session, FILE *truth, int seconds) {
  cudaStream_t stream;
  measured *out = device_results(1);
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 2 * seconds; i++) {
    bubbletop_cuda_span span;
    int64_t before = bubbletop_now();
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    spin<<<1, 1, 0, stream>>>(out, MILLISECOND);
    bubbletop_cuda_end(&span);
    CUDA(cudaStreamSynchronize(stream));
    fprintf(truth, "%d %lld %lld\n", i, (long long)before, (long long)bubbletop_now());
    usleep(498000);
  }
}

/* What a first launch loads must not lie in a span. */
static void warm_up() {
  int *counter;
  CUDA(cudaMalloc(&counter, sizeof *counter));
  spin<<<1, 1>>>(device_results(1), 1000);
  count<<<1, 1>>>(counter);
  CUDA(cudaDeviceSynchronize());
}

int main(int argc, char **argv) {
  EXPECT(argc >= 3);
  bubbletop_session *session;
  bubbletop_stats stats = {sizeof stats};
  FILE *truth = fopen(argv[2], "w");
  EXPECT(truth != nullptr);
  warm_up();
  EXPECT(bubbletop_open(nullptr, &session) == BUBBLETOP_OK);
  bool pool = strcmp(argv[1], "pool") == 0;
  if (pool)
    run_pool(session, truth);
  else
    run_drift(session, truth, argc > 3 ? atoi(argv[3]) : 60);
  EXPECT(fclose(truth) == 0);
  usleep(100000);
  bubbletop_get_stats(session, &stats);
  printf("recorded %llu, host-timed %llu, captured %llu\n", (unsigned long long)stats.recorded,
         (unsigned long long)stats.gpu_unknown, (unsigned long long)stats.graph_captured);
  EXPECT(stats.gpu_unknown == 0 && stats.graph_captured == (pool ? CAPTURED : 0));
  EXPECT(bubbletop_close(session, 0) == BUBBLETOP_OK);
  return 0;
}
