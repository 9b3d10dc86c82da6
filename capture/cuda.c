#include "capture/cuda.h"

#include <stdlib.h>
#include <string.h>

#include "capture/bubbletop_cuda.h"
#include "capture/clock.h"
#include "capture/cuda_pending.h"
#include "capture/span.h"
#include "capture/threads.h"

/* What lies in bubbletop_cuda_span.opaque. Without an item it is a host-timed span from HOST_SPAN on. */
enum { CUDA_STATE, CUDA_ITEM, CUDA_CONTEXT, CUDA_GENERATION, CUDA_OWNER, CUDA_HOST_SPAN = 4 };
enum { STATE_SILENT = 0, STATE_GPU = 1, STATE_HOST = 2, STATE_ENDED = 3, STATE_HOST_LAUNCH = 4 };
/* Of a launch that has no item: its times, and its session. */
enum { LAUNCH_BEGIN = CUDA_HOST_SPAN, LAUNCH_END, LAUNCH_SESSION };
_Static_assert(sizeof(bubbletop_span) + CUDA_HOST_SPAN * sizeof(uint64_t) <= sizeof(bubbletop_cuda_span),
               "a host-timed span fits");

static const uint64_t gpu_unknown = (uint64_t)BT_FLAG_GPU_UNKNOWN << 8; /* in a record's code word */
static const uint64_t grouped = (uint64_t)BT_FLAG_GROUPED << 8;

/* ---- lists ---- */

static void push(uint64_t *list, bt_cuda_context *context, uint32_t index) {
  uint64_t head = __atomic_load_n(list, __ATOMIC_RELAXED);
  uint64_t next;
  do {
    bt_cuda_set_next(&context->items[index], (uint32_t)head);
    next = ((head >> 32) + 1) << 32 | (index + 1);
  } while (!__atomic_compare_exchange_n(list, &head, next, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static bool pop(uint64_t *list, bt_cuda_context *context, uint32_t *index) {
  uint64_t head = __atomic_load_n(list, __ATOMIC_ACQUIRE);
  uint64_t next;
  do {
    if ((uint32_t)head == 0) return false;
    *index = (uint32_t)head - 1;
    next = ((head >> 32) + 1) << 32 | bt_cuda_next(&context->items[*index]);
  } while (!__atomic_compare_exchange_n(list, &head, next, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
  return true;
}

uint32_t bt_cuda_take_ended(bt_cuda_context *context) {
  uint64_t head = __atomic_load_n(&context->ended, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&context->ended, &head, ((head >> 32) + 1) << 32, true, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED))
    continue;
  return (uint32_t)head;
}

bt_cuda_item *bt_cuda_take(bt_cuda *cuda, bt_cuda_context *context) {
  uint32_t index = 0;
  if (!pop(&context->free, context, &index)) {
    index = __atomic_fetch_add(&context->used, 1, __ATOMIC_RELAXED);
    if (index >= BT_CUDA_ITEMS) {
      __atomic_store_n(&context->used, BT_CUDA_ITEMS, __ATOMIC_RELAXED);
      return NULL;
    }
  }
  bt_cuda_item *item = &context->items[index];
  if ((item->begin == NULL && cuda->driver->event_create(&item->begin, BT_CU_EVENT_DEFAULT) != BT_CU_OK) ||
      (item->end == NULL && cuda->driver->event_create(&item->end, BT_CU_EVENT_DEFAULT) != BT_CU_OK)) {
    push(&context->free, context, index);
    return NULL;
  }
  item->more = item->nth = 0;
  item->part_to = -1;
  item->failed = item->launched = false;
  return item;
}

void bt_cuda_give_back(bt_cuda_context *context, bt_cuda_item *item) {
  push(&context->free, context, bt_cuda_index(context, item));
}

/* ---- the session's part ---- */

static struct {
  pthread_mutex_t lock;
  bt_cuda *spare; /* of sessions that are closed */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bt_cuda *new_cuda(const bt_cuda_driver *driver) {
  pthread_mutex_lock(&process.lock);
  bt_cuda *cuda = process.spare;
  if (cuda != NULL) process.spare = cuda->next;
  pthread_mutex_unlock(&process.lock);
  if (cuda != NULL) return cuda;
  cuda = calloc(1, sizeof *cuda);
  if (cuda == NULL) return NULL;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&cuda->lock, NULL);
  pthread_cond_init(&cuda->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  cuda->driver = driver;
  return cuda;
}

static void keep_spare(bt_cuda *cuda) {
  pthread_mutex_lock(&process.lock);
  cuda->next = process.spare;
  process.spare = cuda;
  pthread_mutex_unlock(&process.lock);
}

/* NULL: there is no driver, or no memory. */
static bt_cuda *cuda_of(bubbletop_session *session) {
  bt_cuda *cuda = __atomic_load_n(&session->cuda, __ATOMIC_ACQUIRE);
  if (cuda != NULL) return cuda;
  const bt_cuda_driver *driver = bt_cuda_driver_get();
  cuda = driver != NULL ? new_cuda(driver) : NULL;
  if (cuda == NULL) return NULL;
  cuda->session = session;
  bt_cuda *other = NULL;
  if (__atomic_compare_exchange_n(&session->cuda, &other, cuda, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return cuda;
  keep_spare(cuda);
  return other;
}

static bt_cuda_context *find_context(bt_cuda *cuda, bt_cu_context wanted) {
  uint32_t count = __atomic_load_n(&cuda->context_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    if (cuda->contexts[i]->context == wanted) return cuda->contexts[i];
  }
  return NULL;
}

static bt_cuda_context *add_context(bt_cuda *cuda, bt_cu_context wanted) {
  pthread_mutex_lock(&cuda->lock);
  bt_cuda_context *context = find_context(cuda, wanted);
  uint32_t count = cuda->context_count;
  if (context == NULL && count < BT_CUDA_CONTEXTS && !cuda->stopping) {
    context = calloc(1, sizeof *context);
    if (context != NULL) {
      context->context = wanted;
      bt_cuda_pending_open(cuda->session, context);
      cuda->contexts[count] = context;
      __atomic_store_n(&cuda->context_count, count + 1, __ATOMIC_RELEASE);
    }
  }
  if (context != NULL && !cuda->started && !cuda->stopping) {
    for (uint32_t i = 0; i < count; i++) /* of a session before */
      bt_cuda_pending_open(cuda->session, cuda->contexts[i]);
    __atomic_store_n(&cuda->started, bt_session_thread(&cuda->thread, bt_cuda_poll, cuda, "bubbletop-gpu"),
                     __ATOMIC_RELEASE);
  }
  bool usable = cuda->started;
  pthread_mutex_unlock(&cuda->lock);
  return usable ? context : NULL;
}

/* The context's pool, NULL: none; *captured: because the stream is being captured. */
static bt_cuda_context *context_of(bt_cuda *cuda, bt_cu_stream stream, bool *captured) {
  int status = BT_CU_CAPTURE_NONE;
  bt_cu_context current = NULL;
  int error = cuda->driver->stream_is_capturing(stream, &status);
  /* an error of captures: that of another stream forbids the default stream */
  *captured = error == BT_CU_OK ? status != BT_CU_CAPTURE_NONE
                                : error >= BT_CU_FIRST_CAPTURE_ERROR && error <= BT_CU_LAST_CAPTURE_ERROR;
  if (error != BT_CU_OK || *captured || cuda->driver->stream_context(stream, &current) != BT_CU_OK || current == NULL)
    return NULL;
  bt_cuda_context *context = find_context(cuda, current);
  return context != NULL && __atomic_load_n(&cuda->started, __ATOMIC_ACQUIRE) ? context : add_context(cuda, current);
}

/* ---- begin and end ---- */

static void begin_on_host(bubbletop_session *session, bubbletop_cuda_span *span, bt_record record) {
  record.code |= gpu_unknown;
  span->opaque[CUDA_STATE] = STATE_HOST;
  bt_span_begin(session, (bubbletop_span *)&span->opaque[CUDA_HOST_SPAN], record);
}

static void begin_launch_on_host(bubbletop_session *session, bubbletop_cuda_span *span) {
  span->opaque[CUDA_STATE] = STATE_HOST_LAUNCH;
  span->opaque[LAUNCH_BEGIN] = span->opaque[LAUNCH_END] = (uint64_t)bt_now();
  span->opaque[LAUNCH_SESSION] = (uint64_t)(uintptr_t)session;
}

/* A record of code 0 is none yet. */
static void begin(bubbletop_session *session, bubbletop_cuda_span *span, bt_record record, void *stream) {
  bt_cuda *cuda = cuda_of(session);
  bool captured = false;
  bt_cuda_context *context = cuda != NULL ? context_of(cuda, stream, &captured) : NULL;
  bt_cuda_item *item = context != NULL ? bt_cuda_take(cuda, context) : NULL;
  if (captured) {
    bt_count(&cuda->graph_captured);
    return;
  }
  if (item == NULL) {
    if (cuda != NULL) bt_count(&cuda->unknown);
    if (record.code != 0)
      begin_on_host(session, span, record);
    else
      begin_launch_on_host(session, span);
    return;
  }
  item->stream = stream;
  item->record = record;
  item->host_begin = item->host_end = bt_now();
  item->failed = cuda->driver->event_record(item->begin, stream) != BT_CU_OK;
  bt_cuda_pending_begin(context, item, item);
  uint32_t generation = __atomic_add_fetch(&item->generation, 1, __ATOMIC_RELEASE);
  span->opaque[CUDA_STATE] = STATE_GPU;
  span->opaque[CUDA_ITEM] = (uint64_t)(uintptr_t)item;
  span->opaque[CUDA_CONTEXT] = (uint64_t)(uintptr_t)context;
  span->opaque[CUDA_GENERATION] = generation;
  span->opaque[CUDA_OWNER] = (uint64_t)(uintptr_t)cuda;
}

void bubbletop_cuda_begin(bubbletop_session *session, bubbletop_cuda_span *span, bubbletop_kind kind,
                          bubbletop_where where, void *stream) {
  bt_record record;
  span->opaque[CUDA_STATE] = STATE_SILENT;
  if (bt_span_record(session, &record, kind, where)) begin(session, span, record, stream);
}

void bubbletop_cuda_comm_begin(bubbletop_session *session, bubbletop_cuda_span *span, bubbletop_kind kind,
                               bubbletop_where where, const bubbletop_comm *comm, void *stream) {
  bt_record record;
  span->opaque[CUDA_STATE] = STATE_SILENT;
  if (bt_span_record_comm(session, &record, kind, where, comm)) begin(session, span, record, stream);
}

void bubbletop_cuda_gate_begin(bubbletop_session *session, bubbletop_cuda_span *span, bubbletop_where where,
                               const bubbletop_gate_on *on, void *stream) {
  bt_record record;
  span->opaque[CUDA_STATE] = STATE_SILENT;
  if (bt_span_record_gate(session, &record, where, on)) begin(session, span, record, stream);
}

static bt_cuda_item *item_of(const bubbletop_cuda_span *span) {
  bt_cuda_item *item = (bt_cuda_item *)(uintptr_t)span->opaque[CUDA_ITEM];
  bool mine = __atomic_load_n(&item->generation, __ATOMIC_ACQUIRE) == (uint32_t)span->opaque[CUDA_GENERATION];
  return mine ? item : NULL;
}

void bubbletop_cuda_launch_begin(bubbletop_session *session, bubbletop_cuda_span *span, void *stream) {
  span->opaque[CUDA_STATE] = STATE_SILENT;
  if (bt_span_is_wanted(session)) begin(session, span, (bt_record){0}, stream);
}

static void record_end(const bt_cuda *cuda, bt_cuda_item *item) {
  if (!item->failed) item->failed = cuda->driver->event_record(item->end, item->stream) != BT_CU_OK;
  item->host_end = bt_now();
}

void bubbletop_cuda_launched(bubbletop_cuda_span *span) {
  uint64_t state = span->opaque[CUDA_STATE];
  if (state == STATE_HOST_LAUNCH) span->opaque[LAUNCH_END] = (uint64_t)bt_now();
  bt_cuda_item *item = state == STATE_GPU ? item_of(span) : NULL;
  if (item == NULL) return;
  bt_cuda *cuda = (bt_cuda *)(uintptr_t)span->opaque[CUDA_OWNER];
  record_end(cuda, item);
  item->launched = true;
}

static void add_on_host(const bubbletop_cuda_span *span, bubbletop_kind kind, bubbletop_where where,
                        const bubbletop_comm *comm) {
  bubbletop_session *session = (bubbletop_session *)(uintptr_t)span->opaque[LAUNCH_SESSION];
  int64_t start = (int64_t)span->opaque[LAUNCH_BEGIN];
  bt_record record;
  if (!bt_span_record_comm(session, &record, kind, where, comm)) return;
  record.code |= gpu_unknown;
  bt_producer_push(bt_producer_of(session), start, (int64_t)span->opaque[LAUNCH_END] - start, record);
}

void bubbletop_cuda_add(bubbletop_cuda_span *span, bubbletop_kind kind, bubbletop_where where,
                        const bubbletop_comm *comm) {
  if (span->opaque[CUDA_STATE] == STATE_HOST_LAUNCH) add_on_host(span, kind, where, comm);
  if (span->opaque[CUDA_STATE] != STATE_GPU) return;
  bt_cuda *cuda = (bt_cuda *)(uintptr_t)span->opaque[CUDA_OWNER];
  bt_cuda_context *context = (bt_cuda_context *)(uintptr_t)span->opaque[CUDA_CONTEXT];
  bt_cuda_item *item = item_of(span);
  bt_record record;
  if (item == NULL || !bt_span_record_comm(cuda->session, &record, kind, where, comm)) return;
  if (item->record.code == 0) {
    item->record = record;
    bt_cuda_pending_begin(context, item, item);
    return;
  }
  bt_cuda_item *more = bt_cuda_take(cuda, context);
  if (more == NULL) {
    bt_count(&cuda->unknown);
    return;
  }
  item->record.code |= grouped;
  record.code |= grouped;
  more->nth = item->more != 0 ? context->items[item->more - 1].nth + 1 : 1;
  more->record = record;
  more->more = item->more;
  item->more = bt_cuda_index(context, more) + 1;
  bt_cuda_pending_begin(context, more, item);
}

void bubbletop_cuda_part(bubbletop_cuda_span *span, uint32_t nth, int64_t from, int64_t to) {
  bt_cuda_item *item = span->opaque[CUDA_STATE] == STATE_GPU ? item_of(span) : NULL;
  const bt_cuda_context *context = (const bt_cuda_context *)(uintptr_t)span->opaque[CUDA_CONTEXT];
  while (item != NULL && item->nth != nth)
    item = item->more != 0 ? (bt_cuda_item *)&context->items[item->more - 1] : NULL;
  if (item == NULL || from < 0 || to < from) return;
  item->part_from = from;
  item->part_to = to;
}

void bubbletop_cuda_end(bubbletop_cuda_span *span) {
  uint64_t state = span->opaque[CUDA_STATE];
  if (state == STATE_HOST) bubbletop_end((bubbletop_span *)&span->opaque[CUDA_HOST_SPAN]);
  if (state != STATE_GPU) return;
  span->opaque[CUDA_STATE] = STATE_ENDED;
  bt_cuda *cuda = (bt_cuda *)(uintptr_t)span->opaque[CUDA_OWNER];
  bt_cuda_context *context = (bt_cuda_context *)(uintptr_t)span->opaque[CUDA_CONTEXT];
  bt_cuda_item *item = item_of(span);
  uint32_t generation = (uint32_t)span->opaque[CUDA_GENERATION];
  if (item == NULL) return;
  if (!item->launched) record_end(cuda, item);
  /* the close takes items that have not ended, so only one of both gets it */
  if (__atomic_compare_exchange_n(&item->generation, &generation, generation + 1, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED)) {
    bt_cuda_pending_end(context, item);
    push(&context->ended, context, bt_cuda_index(context, item));
  }
}

void bubbletop_cuda_end_after(bubbletop_cuda_span *span, void *stream) {
  bt_cuda_item *item = span->opaque[CUDA_STATE] == STATE_GPU ? item_of(span) : NULL;
  if (item != NULL) {
    item->stream = stream;
    item->record.code |= item->record.code != 0 ? grouped : 0;
  }
  bubbletop_cuda_end(span);
}

void bt_cuda_stop(bubbletop_session *session) {
  bt_cuda *cuda = __atomic_load_n(&session->cuda, __ATOMIC_ACQUIRE);
  if (cuda == NULL) return;
  pthread_mutex_lock(&cuda->lock);
  bool started = cuda->started;
  cuda->stopping = true;
  pthread_cond_signal(&cuda->wake);
  pthread_mutex_unlock(&cuda->lock);
  if (started) pthread_join(cuda->thread, NULL);
  pthread_mutex_lock(&cuda->lock);
  __atomic_store_n(&cuda->started, false, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&cuda->lock);
}

void bt_cuda_release(bubbletop_session *session) {
  bt_cuda *cuda = session->cuda;
  if (cuda == NULL) return;
  for (uint32_t i = 0; i < cuda->context_count; i++)
    bt_cuda_pending_close(session, cuda->contexts[i]);
  cuda->session = NULL;
  cuda->stopping = false;
  cuda->graph_captured = cuda->unknown = cuda->said_captured = 0;
  keep_spare(cuda);
}

void bt_cuda_count(const bubbletop_session *session, uint64_t *captured, uint64_t *unknown) {
  const bt_cuda *cuda = __atomic_load_n(&session->cuda, __ATOMIC_ACQUIRE);
  if (cuda == NULL) return;
  *captured = __atomic_load_n(&cuda->graph_captured, __ATOMIC_RELAXED);
  *unknown = __atomic_load_n(&cuda->unknown, __ATOMIC_RELAXED);
}
