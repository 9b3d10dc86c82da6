/* On a GPU: a communicator of one rank, grouped messages to itself; a collective of one rank launches nothing.
 *   self_send COUNT   so many groups of a send and a receive of 4 MiB */
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

static void check(bool fine, int line) {
  if (fine) return;
  fprintf(stderr, "self_send: line %d failed\n", line);
  exit(1);
}
#define CUDA(call) check((call) == cudaSuccess, __LINE__)
#define NCCL(call) check((call) == ncclSuccess, __LINE__)

int main(int argc, char **argv) {
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t stream;
  float *from, *to;
  size_t count = 1 << 20;
  int groups = argc > 1 ? atoi(argv[1]) : 20;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc(&from, count * sizeof *from));
  CUDA(cudaMalloc(&to, count * sizeof *to));
  CUDA(cudaMemset(from, 0x3f, count * sizeof *from));
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  for (int i = 0; i < groups; i++) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(from, count, ncclFloat, 0, comm, stream));
    NCCL(ncclRecv(to, count, ncclFloat, 0, comm, stream));
    NCCL(ncclGroupEnd());
  }
  NCCL(ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream));
  CUDA(cudaStreamSynchronize(stream));
  usleep(100000);
  NCCL(ncclCommDestroy(comm));
  return 0;
}
