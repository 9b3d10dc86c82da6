/* Loads the NCCL profiler plugin and drives it as NCCL does (order of events as NCCL 2.28 has it), with the double of the
 * CUDA driver. For child processes: what is not as expected ends them with status 1 and a line. */
#ifndef BT_TESTS_NCCL_HARNESS_H
#define BT_TESTS_NCCL_HARNESS_H

#include <stdio.h>
#include <unistd.h>

#include "capture/nccl_abi.h"
#include "tests/capture/cuda_double.h"

static inline void harness_expect(bool condition, const char *file, int line) {
  if (condition) return;
  fprintf(stderr, "%s:%d: not as expected\n", file, line);
  _exit(1);
}
#define EXPECT(condition) harness_expect((condition), __FILE__, __LINE__)

/* A library of the build directory. */
void *harness_load(const char *name);
void *harness_plugin(void);
const cuda_double *harness_gpu(void);
void harness_nap(int64_t ns);

/* One event of version 5 or later. The handle must be written. */
void *harness_start(const bt_nccl_profiler *nccl, void *context, bt_nccl_descriptor descriptor);
void harness_stop(const bt_nccl_profiler *nccl, void *handle);
void *harness_p2p(const bt_nccl_profiler *nccl, void *context, const char *function, size_t count, int peer);

/* What is between start and stop of a launch on a stream: `ns` of work, or until a time (CLOCK_MONOTONIC). */
typedef struct harness_work {
  const cuda_double *gpu; /* NULL: none */
  void *stream;
  int64_t ns, from, until;
} harness_work;

/* One ncclGroupEnd: a launch with up to two messages, of `send_count` and `receive_count` halves; a peer below 0: none. */
typedef struct harness_messages {
  int send_to, receive_from;
  size_t send_count, receive_count;
  /* of a channel, if both are told by one: from, to on the GPU's timer */
  bool told;
  int64_t sent[2], received[2];
} harness_messages;
void harness_group(const bt_nccl_profiler *nccl, void *context, const harness_work *work,
                   const harness_messages *messages);
void harness_collective(const bt_nccl_profiler *nccl, void *context, const harness_work *work, const char *function,
                        size_t count, uint64_t sequence);

#endif
