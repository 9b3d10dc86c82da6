/* The thread that asks for events: in the order of each stream, so that one that is not through stops its stream alone. */
#include <stdio.h>
#include <string.h>

#include "capture/bubbletop.h"
#include "capture/clock.h"
#include "capture/cuda.h"
#include "capture/cuda_pending.h"
#include "capture/threads.h"

enum { BUSY_NAP_NS = 1000000, IDLE_NAP_NS = 10000000, BLOCKED = 32, REPORT_NS = 1000000000 };
/* How long the close waits for events that are under way. */
static const int64_t close_wait_ns = INT64_C(200000000);
/* How long a span waits for the first base of its clock. */
static const int64_t base_wait_ns = INT64_C(2000000000);

static const int64_t part_slack_ns = 100000; /* two clocks of a GPU, and the launch itself */
static const uint64_t grouped = (uint64_t)BT_FLAG_GROUPED << 8;
static const uint64_t gpu_timed = (uint64_t)BT_FLAG_GPU_TIMED << 8;
static const uint64_t gpu_unknown = (uint64_t)BT_FLAG_GPU_UNKNOWN << 8;

/* Streams whose oldest item is not through; beyond the room for them items are looked at one by one. */
typedef struct blocked {
  bt_cu_stream streams[BLOCKED];
  unsigned count;
} blocked;

static bool is_blocked(const blocked *all, bt_cu_stream stream) {
  for (unsigned i = 0; i < all->count; i++) {
    if (all->streams[i] == stream) return true;
  }
  return false;
}

/* Moves what callers have ended behind the queue, oldest first. */
static void take_ended(bt_cuda_context *context) {
  uint32_t newest = bt_cuda_take_ended(context);
  uint32_t oldest = 0;
  uint32_t last = newest;
  while (newest != 0) { /* turns the list round */
    bt_cuda_item *item = &context->items[newest - 1];
    uint32_t next = bt_cuda_next(item);
    bt_cuda_set_next(item, oldest);
    oldest = newest;
    newest = next;
  }
  if (oldest == 0) return;
  if (context->last != 0)
    bt_cuda_set_next(&context->items[context->last - 1], oldest);
  else
    context->first = oldest;
  context->last = last;
}

/* A part that does not lie in its launch is none. */
static bool has_part(const bt_cuda_item *item, int64_t launch) {
  return item->part_to >= 0 && item->part_from <= launch && item->part_to <= launch + part_slack_ns;
}

static void record(bt_cuda *cuda, bt_cuda_context *context, bt_cuda_item *item, int64_t begin, int64_t end,
                   uint64_t flags) {
  bt_producer *producer = bt_producer_of(cuda->session);
  for (bt_cuda_item *each = item; each != NULL;) {
    bt_record made = each->record;
    int64_t from = begin, to = end;
    made.code |= flags;
    if (flags == gpu_timed && has_part(each, end - begin)) {
      made.code &= ~grouped;
      from = begin + each->part_from;
      to = begin + each->part_to < end ? begin + each->part_to : end;
      if (to < from) to = from;
    }
    if (producer != NULL && each->record.code != 0) {
      bt_cuda_pending_take(context, each, producer);
      bt_producer_push(producer, from, to - from, made);
    }
    bt_cuda_pending_forget(context, each);
    bt_cuda_item *next = each->more != 0 ? &context->items[each->more - 1] : NULL;
    bt_cuda_give_back(context, each);
    each = next;
  }
}

static void record_unknown(bt_cuda *cuda, bt_cuda_context *context, bt_cuda_item *item) {
  bt_count(&cuda->unknown);
  int64_t end = item->host_end > item->host_begin ? item->host_end : item->host_begin;
  record(cuda, context, item, item->host_begin, end, gpu_unknown);
}

static void record_timed(bt_cuda *cuda, bt_cuda_context *context, bt_cuda_item *item) {
  int64_t begin = 0;
  int64_t end = 0;
  if (!bt_cuda_clock_time(&context->clock, cuda->driver, item->begin, item->host_begin, &begin) ||
      !bt_cuda_clock_time(&context->clock, cuda->driver, item->end, item->host_end, &end)) {
    record_unknown(cuda, context, item);
    return;
  }
  record(cuda, context, item, begin, end > begin ? end : begin, gpu_timed);
}

/* True: the item is done and given back. */
static bool look_at(bt_cuda *cuda, bt_cuda_context *context, bt_cuda_item *item, bool last_look) {
  int status = item->failed ? BT_CU_OK : cuda->driver->event_query(item->end);
  if (status == BT_CU_NOT_READY && !last_look) return false;
  if (status == BT_CU_OK && context->clock.count == 0 && !last_look && bt_now() - item->host_end < base_wait_ns)
    return false;
  if (status == BT_CU_OK && !item->failed)
    record_timed(cuda, context, item);
  else
    record_unknown(cuda, context, item);
  return true;
}

static void go_through(bt_cuda *cuda, bt_cuda_context *context, bool last_look) {
  blocked waiting = {.count = 0};
  uint32_t before = 0;
  for (uint32_t at = context->first; at != 0;) {
    bt_cuda_item *item = &context->items[at - 1];
    uint32_t next = bt_cuda_next(item);
    if (is_blocked(&waiting, item->stream) || !look_at(cuda, context, item, last_look)) {
      if (!is_blocked(&waiting, item->stream) && waiting.count < BLOCKED)
        waiting.streams[waiting.count++] = item->stream;
      before = at;
    } else {
      if (before != 0)
        bt_cuda_set_next(&context->items[before - 1], next);
      else
        context->first = next;
      if (context->last == at) context->last = before;
    }
    at = next;
  }
}

static void anchor(bt_cuda *cuda, bt_cuda_context *context, uint32_t index, int64_t now) {
  const bt_cuda_base *base = bt_cuda_clock_anchor(&context->clock, cuda->driver, now);
  if (base == NULL) return;
  bt_session_anchor(cuda->session, base->time, base->half_width, (uint64_t)index << 32 | (context->clock.count - 1));
}

static void poll_context(bt_cuda *cuda, uint32_t index, bool last_look) {
  bt_cuda_context *context = cuda->contexts[index];
  bt_cu_context ignored = NULL;
  bool current = cuda->driver->context_push(context->context) == BT_CU_OK;
  if (current && !last_look) anchor(cuda, context, index, bt_now());
  take_ended(context);
  go_through(cuda, context, last_look);
  if (current) cuda->driver->context_pop(&ignored);
}

static void report_captured(bt_cuda *cuda) {
  char text[24];
  uint64_t captured = __atomic_load_n(&cuda->graph_captured, __ATOMIC_RELAXED);
  if (captured == cuda->said_captured) return;
  cuda->said_captured = captured;
  snprintf(text, sizeof text, "%llu", (unsigned long long)captured);
  bubbletop_meta(cuda->session, "graph_captured", text);
}

/* One look at everything. True: nothing is under way. */
static bool pass(bt_cuda *cuda, bool last_look) {
  bool idle = true;
  uint32_t count = __atomic_load_n(&cuda->context_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    poll_context(cuda, i, last_look);
    idle = idle && cuda->contexts[i]->first == 0;
  }
  return idle;
}

/* A span that has not ended, by the session's close; of a launch all may be known but its messages. */
static void record_left(bt_cuda *cuda, bt_cuda_context *context, bt_cuda_item *item) {
  bool through = item->launched && !item->failed && cuda->driver->event_query(item->end) == BT_CU_OK;
  if (through)
    record_timed(cuda, context, item);
  else
    record_unknown(cuda, context, item);
}

/* Gives up what it holds of the driver and the items that are still with callers: they find a later generation. */
static void leave_contexts(bt_cuda *cuda) {
  for (uint32_t i = 0; i < cuda->context_count; i++) {
    bt_cuda_context *context = cuda->contexts[i];
    bt_cu_context ignored = NULL;
    bool current = cuda->driver->context_push(context->context) == BT_CU_OK;
    for (uint32_t k = 0; k < BT_CUDA_ITEMS && k < context->used; k++) {
      uint32_t generation = __atomic_load_n(&context->items[k].generation, __ATOMIC_ACQUIRE);
      if ((generation & 1) != 0 &&
          __atomic_compare_exchange_n(&context->items[k].generation, &generation, generation + 1, false,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        record_left(cuda, context, &context->items[k]);
    }
    if (current) bt_cuda_clock_free(&context->clock, cuda->driver);
    if (current) cuda->driver->context_pop(&ignored);
  }
}

/* True: the session closes. */
static bool nap(bt_cuda *cuda, bool idle) {
  struct timespec until = bt_timespec(bt_now() + (idle ? IDLE_NAP_NS : BUSY_NAP_NS));
  pthread_mutex_lock(&cuda->lock);
  if (!cuda->stopping) pthread_cond_timedwait(&cuda->wake, &cuda->lock, &until);
  bool stopping = cuda->stopping;
  pthread_mutex_unlock(&cuda->lock);
  return stopping;
}

void *bt_cuda_poll(void *argument) {
  bt_cuda *cuda = argument;
  int mode = BT_CU_CAPTURE_RELAXED; /* else asking for an event would break a capture of another thread */
  cuda->driver->exchange_capture_mode(&mode);
  int64_t report = bt_now();
  bool idle = false;
  while (!nap(cuda, idle)) {
    idle = pass(cuda, false);
    if (bt_now() < report) continue;
    report_captured(cuda);
    report = bt_now() + REPORT_NS;
  }
  int64_t until = bt_now() + close_wait_ns;
  while (!pass(cuda, false) && bt_now() < until) {
    struct timespec wait = {.tv_nsec = BUSY_NAP_NS};
    nanosleep(&wait, NULL);
  }
  pass(cuda, true);
  report_captured(cuda);
  leave_contexts(cuda);
  return NULL;
}
