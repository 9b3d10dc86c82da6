#include "capture/cuda_clock.h"

#include <stddef.h>
#include <string.h>

#include "capture/clock.h"

enum { TRIES = 8 };
static const int64_t first_interval = INT64_C(250000000);
static const int64_t retry_interval = 10000000; /* while there is no base at all, which spans wait for */
static const int64_t last_interval = INT64_C(7500000000); /* below 8 s by more than a poll may be late */
static const int64_t longest_try = 20000000;
static const double largest_drift = 1e-3; /* more is no drift but a wrong measurement */

static bt_cuda_base *base_at(const bt_cuda_clock *clock, uint64_t number) {
  return (bt_cuda_base *)&clock->bases[number % BT_CUDA_BASES];
}

/* One try: `half_width` and `time` of the event. */
static bool measure(const bt_cuda_clock *clock, const bt_cuda_driver *driver, bt_cuda_base *base) {
  int64_t before = bt_now();
  int64_t after = before;
  int status = driver->event_record(base->event, clock->stream);
  if (status == BT_CU_OK) status = BT_CU_NOT_READY;
  while (status == BT_CU_NOT_READY && after - before < longest_try) {
    status = driver->event_query(base->event);
    after = bt_now();
  }
  if (status != BT_CU_OK) return false;
  base->half_width = (after - before + 1) / 2;
  base->time = before + base->half_width;
  return true;
}

static void swap(bt_cuda_base *a, bt_cuda_base *b) {
  bt_cuda_base kept = *a;
  *a = *b;
  *b = kept;
}

/* The narrowest of some tries. */
static bool make_base(const bt_cuda_clock *clock, const bt_cuda_driver *driver, bt_cuda_base *best) {
  bt_cuda_base other = {0};
  bool fine = driver->event_create(&other.event, BT_CU_EVENT_DEFAULT) == BT_CU_OK && measure(clock, driver, best);
  for (int i = 1; fine && i < TRIES && measure(clock, driver, &other); i++) {
    if (other.half_width < best->half_width) swap(best, &other);
  }
  if (other.event != NULL) driver->event_destroy(other.event);
  return fine;
}

/* Host ns per GPU ns between two bases; 1 when they do not tell. */
static double rate_between(const bt_cuda_driver *driver, const bt_cuda_base *from, const bt_cuda_base *to) {
  float ms = 0;
  if (driver->event_elapsed(&ms, from->event, to->event) != BT_CU_OK || !(ms > 0)) return 1;
  double rate = (double)(to->time - from->time) / ((double)ms * 1e6);
  return rate > 1 - largest_drift && rate < 1 + largest_drift ? rate : from->rate;
}

/* Until the next base is due, `count` being there before this one. */
static int64_t interval_behind(uint64_t count) {
  int64_t interval = count < 6 ? first_interval << count : last_interval;
  return interval < last_interval ? interval : last_interval;
}

const bt_cuda_base *bt_cuda_clock_anchor(bt_cuda_clock *clock, const bt_cuda_driver *driver, int64_t now) {
  if (now < clock->next) return NULL;
  clock->next = now + (clock->count == 0 ? retry_interval : interval_behind(clock->count));
  if (clock->stream == NULL && driver->stream_create(&clock->stream, BT_CU_STREAM_NON_BLOCKING) != BT_CU_OK)
    return NULL;
  bt_cuda_base made = {0};
  bt_cuda_base *oldest = base_at(clock, clock->count);
  made.event = oldest->event; /* used again */
  oldest->event = NULL;
  bool fine = made.event != NULL || driver->event_create(&made.event, BT_CU_EVENT_DEFAULT) == BT_CU_OK;
  if (!fine || !make_base(clock, driver, &made)) {
    oldest->event = made.event;
    oldest->half_width = -1; /* no base any more */
    return NULL;
  }
  made.rate = 1;
  if (clock->count > 0) {
    const bt_cuda_base *last = base_at(clock, clock->count - 1);
    made.rate = last->half_width >= 0 ? rate_between(driver, last, &made) : 1;
  }
  *oldest = made;
  clock->next = now + interval_behind(clock->count++);
  return oldest;
}

/* The newest base at or before `time`, else the oldest there is; NULL: none. */
static const bt_cuda_base *base_before(const bt_cuda_clock *clock, int64_t time) {
  const bt_cuda_base *found = NULL;
  for (uint64_t i = 0; i < BT_CUDA_BASES && i < clock->count; i++) {
    const bt_cuda_base *base = base_at(clock, clock->count - 1 - i);
    if (base->event == NULL || base->half_width < 0) continue;
    found = base;
    if (base->time <= time) break;
  }
  return found;
}

static bool time_from(const bt_cuda_base *base, const bt_cuda_driver *driver, bt_cu_event event, int64_t *time) {
  float ms = 0;
  if (base == NULL || driver->event_elapsed(&ms, base->event, event) != BT_CU_OK) return false;
  *time = base->time + (int64_t)((double)ms * 1e6 * base->rate);
  return true;
}

bool bt_cuda_clock_time(const bt_cuda_clock *clock, const bt_cuda_driver *driver, bt_cu_event event, int64_t recorded,
                        int64_t *time) {
  const bt_cuda_base *base = base_before(clock, recorded);
  if (!time_from(base, driver, event, time)) return false;
  /* the GPU may be seconds behind the host: then a newer base is nearer */
  const bt_cuda_base *nearer = base_before(clock, *time);
  return nearer == base || time_from(nearer, driver, event, time);
}

void bt_cuda_clock_free(bt_cuda_clock *clock, const bt_cuda_driver *driver) {
  for (size_t i = 0; i < BT_CUDA_BASES; i++) {
    if (clock->bases[i].event != NULL) driver->event_destroy(clock->bases[i].event);
  }
  if (clock->stream != NULL) driver->stream_destroy(clock->stream);
  memset(clock, 0, sizeof *clock);
}
