/* GPU-timed spans of a session: what is under way, and the thread that asks for it.
 *
 * An item is one record with a pair of events, in a pool of its context. It goes: free list -> the caller (begin, end) ->
 * `ended` list (pushed by callers, taken whole by the poller) -> the poller's queue, in order -> free list. Callers take
 * no lock; the lists are stacks of indices with a tag against reuse.
 *
 * What a session had stays in memory for the next one, so that a span that ends after the close finds an item whose
 * generation tells it that it is too late.
 */
#ifndef BT_CAPTURE_CUDA_H
#define BT_CAPTURE_CUDA_H

#include <pthread.h>

#include "capture/cuda_clock.h"
#include "capture/producer.h"

enum { BT_CUDA_ITEMS = 4096, BT_CUDA_CONTEXTS = 16, BT_CUDA_ANCHORS = 64 };

typedef struct bt_cuda_item {
  uint32_t generation; /* atomic; odd while a caller has it between begin and end */
  uint32_t next; /* atomic; in a list: index + 1; 0 ends it */
  bt_cu_event begin, end; /* kept for the item's life; NULL: not made yet */
  bt_cu_stream stream;
  bt_record record;
  int64_t host_begin, host_end;
  uint32_t more; /* index + 1 of an item that shares the times; 0 none */
  uint32_t nth; /* in its launch */
  int64_t part_from, part_to; /* its part of the launch, ns from the beginning; part_to -1: all of it */
  bool failed; /* an event could not be recorded */
  bool launched; /* the end is recorded already */
} bt_cuda_item;

typedef struct bt_cuda_context {
  bt_cu_context context; /* atomic, NULL: this entry is free */
  uint64_t free, ended; /* atomic: tag << 32 | index + 1 */
  uint32_t used; /* atomic: items beyond were never taken */
  bt_cuda_item items[BT_CUDA_ITEMS];
  bt_ring_head *pending; /* what a kill leaves of them (capture/cuda_pending.h); NULL: nothing */
  uint32_t pending_room; /* items that have a slot there */
  /* the poller's */
  bt_cuda_clock clock;
  uint32_t first, last; /* its queue: index + 1, through `next` */
} bt_cuda_context;

typedef struct bt_cuda {
  bubbletop_session *session;
  const bt_cuda_driver *driver;
  uint64_t graph_captured; /* atomic */
  uint64_t unknown; /* atomic: spans that got the host's times */
  bt_cuda_context *contexts[BT_CUDA_CONTEXTS]; /* atomic */
  uint32_t context_count; /* atomic */
  pthread_mutex_t lock; /* for adding contexts, starting and stopping */
  pthread_cond_t wake;
  pthread_t thread;
  bool started, stopping;
  uint64_t said_captured; /* the poller's: what the stream was told last */
  struct bt_cuda *next; /* of those that no session has now */
} bt_cuda;

/* The thread that polls; argument: a bt_cuda. */
void *bt_cuda_poll(void *argument);

/* A free item with its events; NULL: there is no room, or the driver gives no events. */
bt_cuda_item *bt_cuda_take(bt_cuda *cuda, bt_cuda_context *context);
void bt_cuda_give_back(bt_cuda_context *context, bt_cuda_item *item);

static inline uint32_t bt_cuda_index(const bt_cuda_context *context, const bt_cuda_item *item) {
  return (uint32_t)(item - context->items);
}

static inline uint32_t bt_cuda_next(const bt_cuda_item *item) {
  return __atomic_load_n(&item->next, __ATOMIC_RELAXED);
}
static inline void bt_cuda_set_next(bt_cuda_item *item, uint32_t next) {
  __atomic_store_n(&item->next, next, __ATOMIC_RELAXED);
}

/* All that was pushed since the last time, newest first: index + 1. */
uint32_t bt_cuda_take_ended(bt_cuda_context *context);

/* Session closes: what is under way is written, with the host's times if need be. */
void bt_cuda_stop(bubbletop_session *session);
/* Behind that, when the session's memory goes. */
void bt_cuda_release(bubbletop_session *session);

void bt_cuda_count(const bubbletop_session *session, uint64_t *captured, uint64_t *unknown);

#endif
