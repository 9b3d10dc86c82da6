#include "capture/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/clock.h"
#include "capture/process.h"
#include "capture/signals.h"

__thread bt_producer *bt_thread_producer
    __attribute__((tls_model("initial-exec"))); /* gcc does not take it from the header */

static bubbletop_session *session_of(const bt_producer *producer) {
  return __atomic_load_n(&producer->session, __ATOMIC_RELAXED);
}

/* Puts the thread's producer of `session` first, if there is one. */
static bt_producer *find(const bubbletop_session *session) {
  for (bt_producer **at = &bt_thread_producer; *at != NULL; at = &(*at)->next) {
    bt_producer *producer = *at;
    if (session_of(producer) != session) continue;
    *at = producer->next;
    producer->next = bt_thread_producer;
    bt_thread_producer = producer;
    return producer;
  }
  return NULL;
}

/* Lock held. Producers whose session is gone are the thread's alone by now. */
static void prune(void) {
  bt_producer **at = &bt_thread_producer;
  while (*at != NULL) {
    bt_producer *producer = *at;
    if (session_of(producer) != BT_SESSION_GONE) {
      at = &producer->next;
    } else {
      *at = producer->next;
      free(producer);
    }
  }
}

/* Lock held. A ring that a finished thread left. */
static bt_producer *reuse(bubbletop_session *session) {
  for (uint32_t i = 0; i < session->producer_count; i++) {
    if (!session->producers[i]->owned) return session->producers[i];
  }
  return NULL;
}

/* Lock held. */
static bt_producer *make(bubbletop_session *session) {
  bt_producer *producer = aligned_alloc(BT_CACHE_LINE, sizeof *producer);
  if (producer == NULL) return NULL;
  memset(producer, 0, sizeof *producer);
  producer->ring = bt_ring_store_add(&session->rings, &producer->recoverable);
  if (producer->ring == NULL) {
    free(producer);
    return NULL;
  }
  producer->capacity = session->rings.capacity;
  producer->free_open = UINT32_MAX;
  producer->open_state = 2;
  producer->token = session->serial << 16 | producer->ring->id;
  producer->session = session;
  session->producers[session->producer_count] = producer;
  __atomic_store_n(&session->producer_count, session->producer_count + 1, __ATOMIC_RELEASE);
  if (!producer->recoverable && session->rings.fd >= 0)
    bt_definitions_text(&session->definitions, "ring_anonymous", "1");
  return producer;
}

/* Lock held. */
static bt_producer *attach(bubbletop_session *session) {
  if (__atomic_load_n(&session->deaf, __ATOMIC_RELAXED)) return NULL;
  prune();
  bt_producer *producer = reuse(session);
  if (producer == NULL) producer = make(session);
  if (producer == NULL) {
    __atomic_store_n(&session->ringless, 1, __ATOMIC_RELAXED);
    return NULL;
  }
  producer->owned = true;
  __atomic_store_n(&producer->ring->in_use, 1, __ATOMIC_RELAXED);
  producer->next = bt_thread_producer;
  bt_thread_producer = producer;
  bt_process_watch_thread();
  bt_session_start(session);
  return producer;
}

static void count_refused(bubbletop_session *session) {
  int64_t now = bt_now();
  int64_t none = 0;
  __atomic_compare_exchange_n(&session->refused_from, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  __atomic_store_n(&session->refused_to, now, __ATOMIC_RELAXED);
  __atomic_fetch_add(&session->refused, 1, __ATOMIC_RELEASE);
}

bt_producer *bt_threads_attach(bubbletop_session *session) {
  bt_producer *producer = find(session);
  if (producer != NULL || __atomic_load_n(&session->deaf, __ATOMIC_RELAXED)) return producer;
  if (!__atomic_load_n(&session->ringless, __ATOMIC_RELAXED)) {
    int kept = errno;
    bt_signal_guard guard;
    bt_signals_hold(&guard);
    bt_process_lock();
    producer = attach(session);
    bt_process_unlock();
    bt_signals_release(&guard);
    errno = kept;
  }
  if (producer == NULL) count_refused(session);
  return producer;
}

bt_producer *bt_threads_attach_serial(uint64_t serial) {
  for (bt_producer *producer = bt_thread_producer; producer != NULL; producer = producer->next) {
    if (__atomic_load_n(&producer->token, __ATOMIC_RELAXED) >> 16 == serial) return find(session_of(producer));
  }
  bt_process_lock();
  bubbletop_session *session = bt_process_find(serial);
  bt_process_unlock();
  return session != NULL ? bt_threads_attach(session) : NULL;
}

void bt_threads_leave(void) {
  bt_process_lock();
  prune();
  for (bt_producer *producer = bt_thread_producer; producer != NULL;) {
    bt_producer *next = producer->next;
    bubbletop_session *session = session_of(producer);
    producer->next = NULL;
    producer->owned = false;
    __atomic_store_n(&producer->ring->in_use, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&session->ringless, 0, __ATOMIC_RELAXED);
    producer = next;
  }
  bt_thread_producer = NULL;
  bt_process_unlock();
}

void bt_threads_forget(void) {
  prune();
  bt_thread_producer = NULL;
}
