/* A GPU's clock on the host's: base events whose host time is known to within a half width.
 *
 * A base is made on a stream of its own: the host looks at its clock, records an event, asks for that event
 * until it is through (20 ms at most, so that a GPU that hangs takes no thread with it), looks again; of eight such the narrowest counts. Elapsed times come as float milliseconds, 0.5 us apart up to 8 s and worse
 * beyond, so there is a new base at most every 8 s; the first ones come sooner, for the rate between two bases corrects
 * the drift of the GPU's clock until the next.
 */
#ifndef BT_CAPTURE_CUDA_CLOCK_H
#define BT_CAPTURE_CUDA_CLOCK_H

#include <stdint.h>

#include "capture/cuda_driver.h"

enum { BT_CUDA_BASES = 8 };

typedef struct bt_cuda_base {
  bt_cu_event event;
  int64_t time, half_width; /* CLOCK_MONOTONIC ns */
  double rate; /* host ns per GPU ns from here on */
} bt_cuda_base;

/* Of one context; the polling thread's alone, which has the context current. */
typedef struct bt_cuda_clock {
  bt_cu_stream stream;
  bt_cuda_base bases[BT_CUDA_BASES]; /* number n lies at n % BT_CUDA_BASES */
  uint64_t count; /* made so far */
  int64_t next; /* when the next one is due */
} bt_cuda_clock;

/* Makes a base if one is due at `now`. The new base, NULL: none was due, or the driver refused. */
const bt_cuda_base *bt_cuda_clock_anchor(bt_cuda_clock *clock, const bt_cuda_driver *driver, int64_t now);

/* The host's time of an event that is through, recorded by the host not before `recorded`. False: it cannot be told. */
bool bt_cuda_clock_time(const bt_cuda_clock *clock, const bt_cuda_driver *driver, bt_cu_event event, int64_t recorded,
                        int64_t *time);

/* Gives back what it holds. */
void bt_cuda_clock_free(bt_cuda_clock *clock, const bt_cuda_driver *driver);

#endif
