#include "capture/cuda_pending.h"

#include "capture/process.h"
#include "capture/signals.h"

void bt_cuda_pending_open(bubbletop_session *session, bt_cuda_context *context) {
  bool recoverable = false;
  bt_signal_guard guard;
  bt_signals_hold(&guard);
  bt_process_lock();
  bt_ring_head *table = session->rings.fd >= 0 ? bt_ring_store_add(&session->rings, &recoverable) : NULL;
  bt_process_unlock();
  bt_signals_release(&guard);
  context->pending_room = session->rings.capacity < BT_CUDA_ITEMS ? session->rings.capacity : BT_CUDA_ITEMS;
  if (table != NULL) __atomic_store_n(&table->pending_of, UINT32_MAX, __ATOMIC_RELAXED); /* of no ring yet */
  context->pending = table;
}

void bt_cuda_pending_close(bubbletop_session *session, bt_cuda_context *context) {
  if (context->pending != NULL) bt_ring_blank(context->pending, session->rings.capacity);
  context->pending = NULL;
}

/* NULL: nothing is kept of the item. */
static bt_word *words_of(const bt_cuda_context *context, const bt_cuda_item *item) {
  uint32_t index = bt_cuda_index(context, item);
  if (context->pending == NULL || index >= context->pending_room) return NULL;
  return (bt_word *)(bt_ring_slots(context->pending) + index);
}

static void note(const bt_cuda_context *context, const bt_cuda_item *item, const bt_cuda_item *times, uint64_t state) {
  bt_word *words = words_of(context, item);
  if (words == NULL || item->record.code == 0) return;
  bt_record record = item->record;
  int64_t duration = times->host_end > times->host_begin ? times->host_end - times->host_begin : 0;
  record.code |= (uint64_t)BT_FLAG_GPU_UNKNOWN << 8;
  __atomic_store_n(&words[0], BT_PENDING_NONE, __ATOMIC_RELAXED);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  bt_producer_fill(words, BT_PENDING_NONE, times->host_begin, duration, record);
  __atomic_store_n(&words[0], state, __ATOMIC_RELEASE);
}

void bt_cuda_pending_begin(const bt_cuda_context *context, const bt_cuda_item *item, const bt_cuda_item *times) {
  note(context, item, times, times->launched ? BT_PENDING_ENDED : BT_PENDING_BEGUN);
}

void bt_cuda_pending_end(const bt_cuda_context *context, const bt_cuda_item *item) {
  note(context, item, item, BT_PENDING_ENDED);
  for (uint32_t more = item->more; more != 0; more = context->items[more - 1].more)
    note(context, &context->items[more - 1], item, BT_PENDING_ENDED);
}

void bt_cuda_pending_take(const bt_cuda_context *context, const bt_cuda_item *item, const bt_producer *producer) {
  bt_word *words = words_of(context, item);
  if (words == NULL) return;
  __atomic_store_n(&context->pending->pending_of, producer->ring->id, __ATOMIC_RELAXED);
  __atomic_store_n(&words[0], producer->ring->head << BT_PENDING_BITS | BT_PENDING_TAKEN, __ATOMIC_RELEASE);
}

void bt_cuda_pending_forget(const bt_cuda_context *context, const bt_cuda_item *item) {
  bt_word *words = words_of(context, item);
  if (words != NULL) __atomic_store_n(&words[0], BT_PENDING_NONE, __ATOMIC_RELEASE);
}
