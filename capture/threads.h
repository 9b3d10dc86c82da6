/* The calling thread's producers: one a session that it records into. The hot path finds the one of its session by one
 * thread-local pointer; everything else here is the slow path. */
#ifndef BT_CAPTURE_THREADS_H
#define BT_CAPTURE_THREADS_H

#include "capture/session.h"

/* The producer used last, the head of the thread's list. initial-exec: no call, also when the library was dlopened. */
extern __thread bt_producer *bt_thread_producer __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Finds or makes the thread's producer in `session` and puts it first; NULL: none (NULL session, ended, forked, no
 * ring to be had). The first one of a session starts the writer. errno is kept. */
bt_producer *bt_threads_attach(bubbletop_session *session);

/* The thread's producer in the session of that serial, put first; makes one if the session is open. */
bt_producer *bt_threads_attach_serial(uint64_t serial);

/* The calling thread ends: its rings may be given to others. */
void bt_threads_leave(void);

/* In a forked child: the list is the parent's. */
void bt_threads_forget(void);

static inline bt_producer *bt_producer_of(bubbletop_session *session) {
  bt_producer *producer = bt_thread_producer;
  if (bt_likely(producer != NULL && __atomic_load_n(&producer->session, __ATOMIC_RELAXED) == session)) return producer;
  return session == NULL ? NULL : bt_threads_attach(session);
}

#endif
