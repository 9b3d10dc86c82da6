/* A double of the CUDA driver: no GPU, but streams that take time, events, captures, a clock of its own that is off and
 * drifts, and failures on demand. Built as a library named libcuda.so.1; the tests load it by path and find these by name.
 */
#ifndef BT_TESTS_CUDA_DOUBLE_H
#define BT_TESTS_CUDA_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cuda_double { /* grows at the end: Python reads it, too */
  /* A stream of context 1 or 2. */
  void *(*stream)(int context);
  /* Work on it: until the stream is free, then `ns` more. Returns when it will be done (CLOCK_MONOTONIC). */
  int64_t (*kernel)(void *stream, int64_t ns);
  void (*capture)(void *stream, bool on);
  /* The caller's next `count` calls of a function ("cuEventRecord") return `error`; of cuEventElapsedTime any thread's. */
  void (*refuse)(const char *function, int error, int count);
  /* The GPU's clock: host's + offset, growing by drift. */
  void (*clock)(int64_t offset, double drift);
  /* Events asked for while a stream was being captured by a thread whose mode forbids that. */
  int (*broken_captures)(void);
  int (*live_events)(void);
  /* Work until a time (CLOCK_MONOTONIC). */
  void (*hold)(void *stream, int64_t until);
} cuda_double;

#endif
