/* The one clock of the capture: CLOCK_MONOTONIC, ns. */
#ifndef BT_CAPTURE_CLOCK_H
#define BT_CAPTURE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t bt_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline struct timespec bt_timespec(int64_t ns) {
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

#endif
