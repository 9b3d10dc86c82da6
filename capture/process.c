#include "capture/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/bubbletop_tool.h"
#include "capture/clock.h"
#include "capture/threads.h"
#include "capture/writer.h"

static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  bool ready;
  pthread_key_t thread_key, error_key;
  bubbletop_session *sessions;
  bubbletop_session *finished; /* by exit(), or the parent's in a forked child: never freed */
  uint64_t serials;
  pthread_mutex_t opening; /* held while bubbletop_shared makes up its mind; before `lock` */
  bubbletop_session *shared; /* atomic */
  bool refused; /* bubbletop_shared must not open one (again) */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .opening = PTHREAD_MUTEX_INITIALIZER};

void bt_process_lock(void) {
  pthread_mutex_lock(&process.lock);
}

void bt_process_unlock(void) {
  pthread_mutex_unlock(&process.lock);
}

/* The child has one thread and copies of everything, and must not touch the rings that it shares with the parent. Its
 * sessions stay in memory, for the program holds pointers to them, but take no calls any more. The descriptors are the
 * child's own; closing them does not release the parent's lock. */
static void forget_all(void) {
  pthread_mutex_init(&process.opening, NULL);
  if (process.sessions != NULL) process.refused = true; /* a worker of a process that is recorded */
  __atomic_store_n(&process.shared, NULL, __ATOMIC_RELAXED);
  bt_threads_forget();
  if (process.ready) pthread_setspecific(process.thread_key, NULL);
  while (process.sessions != NULL) {
    bubbletop_session *session = process.sessions;
    __atomic_store_n(&session->deaf, 1, __ATOMIC_RELAXED);
    bt_writer_forget(session->writer);
    if (session->rings.fd >= 0) close(session->rings.fd);
    session->rings.fd = -1;
    bt_process_leave(session, true);
  }
  bt_process_unlock(); /* as the parent does: it was locked before the fork */
}

static void thread_ends(void *ignored) {
  (void)ignored;
  bt_threads_leave();
}

static void prepare(void) {
  if (pthread_key_create(&process.thread_key, thread_ends) != 0) return;
  if (pthread_key_create(&process.error_key, free) != 0) return;
  process.ready = pthread_atfork(bt_process_lock, bt_process_unlock, forget_all) == 0;
}

bool bt_process_prepare(void) {
  pthread_once(&process.once, prepare);
  return process.ready;
}

void bt_process_join(bubbletop_session *session) {
  session->serial = ++process.serials;
  session->next = process.sessions;
  process.sessions = session;
}

void bt_process_leave(bubbletop_session *session, bool keep) {
  bubbletop_session **at = &process.sessions;
  while (*at != NULL && *at != session)
    at = &(*at)->next;
  if (*at == NULL) return;
  *at = session->next;
  if (!keep) return;
  session->next = process.finished;
  process.finished = session;
}

bubbletop_session *bt_process_find(uint64_t serial) {
  bubbletop_session *session = process.sessions;
  while (session != NULL && serial != 0 && session->serial != serial)
    session = session->next;
  return session;
}

/* Lock held. The oldest session. */
static bubbletop_session *oldest(void) {
  bubbletop_session *session = process.sessions;
  while (session != NULL && session->next != NULL)
    session = session->next;
  return session;
}

static bubbletop_session *adopt(void) {
  bt_process_lock();
  bubbletop_session *session = oldest();
  if (session != NULL) {
    session->shared = 1;
    __atomic_store_n(&process.shared, session, __ATOMIC_RELEASE);
  }
  bt_process_unlock();
  return session;
}

bubbletop_session *bubbletop_shared(void) {
  bubbletop_session *session = __atomic_load_n(&process.shared, __ATOMIC_ACQUIRE);
  if (session != NULL) return session;
  pthread_mutex_lock(&process.opening);
  session = adopt();
  if (session == NULL && !process.refused) {
    process.refused = true;
    if (bubbletop_open(NULL, &session) == BUBBLETOP_OK) session = adopt();
  }
  pthread_mutex_unlock(&process.opening);
  return session;
}

bubbletop_session *bt_process_find_shared(const char *directory, int32_t rank) {
  bubbletop_session *session = process.sessions;
  while (session != NULL &&
         (!session->shared || session->config.rank != rank || strcmp(session->config.directory, directory) != 0))
    session = session->next;
  return session;
}

void bt_process_watch_thread(void) {
  pthread_setspecific(process.thread_key, &process);
}

char *bt_process_error_buffer(bool make) {
  if (!bt_process_prepare()) return NULL;
  char *buffer = pthread_getspecific(process.error_key);
  if (buffer == NULL && make) {
    buffer = calloc(1, BT_LAST_ERROR);
    if (buffer != NULL && pthread_setspecific(process.error_key, buffer) != 0) {
      free(buffer);
      buffer = NULL;
    }
  }
  return buffer;
}

/* exit() or return from main without close: what ended until now goes out. Other threads may still be running, so
 * nothing that they write to is freed. A library destructor runs behind the program's own exit handlers, which may
 * still record or close. */
__attribute__((destructor)) static void finish_all(void) {
  bubbletop_session *session = NULL;
  do {
    bt_process_lock();
    session = process.sessions;
    bt_process_unlock();
    if (session != NULL) bt_session_finish(session, 0, true);
  } while (session != NULL);
}
