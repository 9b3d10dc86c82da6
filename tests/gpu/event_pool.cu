/* On a GPU: spans round kernels that spin a known time, the width of the anchors, and a capture into a graph meanwhile. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "capture/bubbletop_cuda.h"

static void check(cudaError_t status, int line) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(status));
  exit(1);
}
#define CUDA(call) check((call), __LINE__)

__global__ void spin(long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while ((long long)(now - begin) < ns);
}

int main() {
  bubbletop_session *session;
  bubbletop_stats stats = {sizeof stats};
  cudaStream_t stream, captured;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  if (bubbletop_open(nullptr, &session) != BUBBLETOP_OK) return 1;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  for (int i = 0; i < 100; i++) { /* microbatch i spins i + 1 tenths of a millisecond */
    bubbletop_cuda_span span;
    bubbletop_cuda_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0), stream);
    spin<<<1, 1, 0, stream>>>((i + 1) * 100000);
    bubbletop_cuda_end(&span);
  }
  CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 10; i++) {
    bubbletop_cuda_span span;
    bubbletop_cuda_begin(session, &span, BUBBLETOP_B, bubbletop_at(i, 0), captured);
    spin<<<1, 1, 0, captured>>>(1000);
    bubbletop_cuda_end(&span);
    usleep(5000); /* the poller asks for events meanwhile */
  }
  CUDA(cudaStreamEndCapture(captured, &graph));
  CUDA(cudaGraphInstantiate(&executable, graph, 0));
  CUDA(cudaGraphLaunch(executable, captured));
  CUDA(cudaStreamSynchronize(captured));
  CUDA(cudaStreamSynchronize(stream));
  usleep(100000);
  bubbletop_get_stats(session, &stats);
  printf("recorded %llu, host-timed %llu, captured %llu\n", (unsigned long long)stats.recorded,
         (unsigned long long)stats.gpu_unknown, (unsigned long long)stats.graph_captured);
  bool fine = stats.graph_captured == 10 && stats.gpu_unknown == 0;
  return bubbletop_close(session, 0) < 0 || !fine;
}
