#include "capture/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/bubbletop_tool.h"
#include "capture/clock.h"
#include "capture/cuda.h"
#include "capture/identity.h"
#include "capture/process.h"
#include "capture/signals.h"
#include "capture/threads.h"
#include "capture/writer.h"

enum { THREAD_STACK = 1024 * 1024, GRACE_NS = 50 * 1000000 };

static void remember_error(const bt_error *error) {
  char *buffer = bt_process_error_buffer(error != NULL);
  if (buffer != NULL) snprintf(buffer, BT_LAST_ERROR, "%s", error != NULL ? error->text : "");
}

const char *bubbletop_last_error(void) {
  const char *text = bt_process_error_buffer(false);
  return text != NULL ? text : "";
}

static bubbletop_session *new_session(void) {
  bubbletop_session *session = aligned_alloc(BT_CACHE_LINE, sizeof *session);
  if (session == NULL) return NULL;
  memset(session, 0, sizeof *session);
  session->rings.fd = -1;
  session->writer = bt_writer_new(session);
  if (session->writer == NULL) {
    free(session);
    return NULL;
  }
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&session->lock, NULL);
  pthread_cond_init(&session->wake, &attributes);
  pthread_cond_init(&session->done, &attributes);
  pthread_condattr_destroy(&attributes);
  bt_definitions_init(&session->definitions);
  return session;
}

/* The threads that still hold a producer free it when they next come by. */
void bt_session_free(bubbletop_session *session) {
  bt_process_lock();
  for (uint32_t i = 0; i < session->producer_count; i++) {
    bt_producer *producer = session->producers[i];
    bt_ring_unmap(producer->ring, session->rings.capacity);
    __atomic_store_n(&producer->token, BT_TOKEN_GONE, __ATOMIC_RELAXED);
    __atomic_store_n(&producer->session, BT_SESSION_GONE, __ATOMIC_RELAXED);
    if (!producer->owned) free(producer);
  }
  bt_process_unlock();
  bt_cuda_release(session);
  bt_definitions_free(&session->definitions);
  bt_writer_free(session->writer);
  pthread_cond_destroy(&session->done);
  pthread_cond_destroy(&session->wake);
  pthread_mutex_destroy(&session->lock);
  free(session);
}

/* The stream's first segment and the ring file name each other. */
static bubbletop_status open_files(bubbletop_session *session, bt_error *error) {
  bt_sink *sink = bt_writer_sink(session->writer);
  bt_header header;
  bt_identity(&header, &session->config);
  bubbletop_status status = bt_sink_open(sink, &session->config, &header, session->directory, error);
  if (status != BUBBLETOP_OK) return status;
  bt_ring_store_open(&session->rings, &session->config, &sink->header);
  snprintf(sink->header.ring_path, sizeof sink->header.ring_path, "%s", session->rings.path);
  sink->header.ring_inode = session->rings.inode;
  sink->header.recoverable = session->rings.fd >= 0;
  bt_status written = bt_sink_put_header(sink, error);
  if (written == BT_OK) {
    bt_ring_store_publish(&session->rings, &sink->header, session->directory, sink->out, sink->filled);
    written = bt_sink_send(sink);
    if (written != BT_OK)
      bt_fail(error, BT_ERR_IO, "cannot write to %s: %s", session->directory, strerror(sink->last_errno));
  }
  if (written == BT_OK) return BUBBLETOP_OK;
  bt_ring_store_close(&session->rings, true);
  bt_sink_undo(sink);
  return BUBBLETOP_ERR_IO;
}

/* What a reader should know of how the session records. */
static void say_settings(bubbletop_session *session) {
  const bt_config *config = &session->config;
  char number[24];
  if (config->steps[0] != '\0') bt_definitions_text(&session->definitions, "sampled_steps", config->steps);
  if (config->every != 1) {
    snprintf(number, sizeof number, "%u", config->every);
    bt_definitions_text(&session->definitions, "sampled_every", number);
  }
  if (config->cap_bytes != 0) {
    snprintf(number, sizeof number, "%llu", (unsigned long long)config->cap_bytes);
    bt_definitions_text(&session->definitions, "cap_bytes", number);
  }
}

static bubbletop_status open_session(const bubbletop_config *config, bubbletop_session **out, bt_error *error) {
  bt_config settings;
  bubbletop_status status = bt_config_resolve(&settings, config, error);
  if (status != BUBBLETOP_OK) return status;
  bt_process_lock();
  *out = bt_process_find_shared(settings.directory, settings.rank);
  bt_process_unlock();
  if (*out != NULL) return BUBBLETOP_OK;
  bubbletop_session *session = bt_process_prepare() ? new_session() : NULL;
  if (session == NULL) {
    bt_fail(error, BT_ERR_NOMEM, "not enough memory for a session");
    return BUBBLETOP_ERR_NOMEM;
  }
  session->config = settings;
  bt_signal_guard guard;
  bt_signals_hold(&guard);
  status = open_files(session, error);
  bt_signals_release(&guard);
  if (status != BUBBLETOP_OK) {
    bt_session_free(session);
    return status;
  }
  say_settings(session);
  session->quiet = !bt_config_samples_all(&session->config);
  bt_process_lock();
  bt_process_join(session);
  bt_process_unlock();
  *out = session;
  return BUBBLETOP_OK;
}

bubbletop_status bubbletop_open(const bubbletop_config *config, bubbletop_session **session) {
  bt_error error = {.text = "bubbletop_open: no place for the session is given"};
  bubbletop_status status = BUBBLETOP_ERR_ARG;
  if (session != NULL) {
    *session = NULL;
    status = open_session(config, session, &error);
  }
  remember_error(status < 0 ? &error : NULL);
  return status;
}

bool bt_session_thread(pthread_t *thread, void *(*body)(void *), void *argument, const char *name) {
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, THREAD_STACK);
  bool started = pthread_create(thread, &attributes, body, argument) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) pthread_setname_np(*thread, name);
  return started;
}

void bt_session_anchor(bubbletop_session *session, int64_t time, int64_t half_width, uint64_t base) {
  uint32_t head = session->anchor_head;
  if (head - __atomic_load_n(&session->anchor_tail, __ATOMIC_ACQUIRE) == BT_SESSION_ANCHORS) return;
  session->anchors[head % BT_SESSION_ANCHORS] = (bt_anchor){time, half_width, base};
  __atomic_store_n(&session->anchor_head, head + 1, __ATOMIC_RELEASE);
}

/* Session lock held. */
static bool start_locked(bubbletop_session *session) {
  if (!session->started) session->started = bt_session_thread(&session->thread, bt_writer_main, session, "bubbletop");
  return session->started;
}

bool bt_session_start(bubbletop_session *session) {
  pthread_mutex_lock(&session->lock);
  bool started = start_locked(session);
  pthread_mutex_unlock(&session->lock);
  return started;
}

static int64_t deadline_in(uint32_t limit_ms) {
  return bt_now() + (int64_t)limit_ms * 1000000;
}

bubbletop_status bubbletop_flush(bubbletop_session *session, uint32_t limit_ms) {
  if (session == NULL || __atomic_load_n(&session->deaf, __ATOMIC_RELAXED)) return BUBBLETOP_OK;
  const bt_sink *sink = bt_writer_sink(session->writer);
  uint64_t errors = __atomic_load_n(&sink->write_errors, __ATOMIC_RELAXED);
  struct timespec until = bt_timespec(deadline_in(limit_ms));
  bubbletop_status status = BUBBLETOP_OK;
  pthread_mutex_lock(&session->lock);
  if (session->started) {
    uint64_t wanted = ++session->flush_wanted;
    pthread_cond_signal(&session->wake);
    while (session->flush_done < wanted && pthread_cond_timedwait(&session->done, &session->lock, &until) == 0)
      continue;
    if (session->flush_done < wanted)
      status =
          __atomic_load_n(&sink->write_errors, __ATOMIC_RELAXED) != errors ? BUBBLETOP_ERR_IO : BUBBLETOP_ERR_LIMIT;
  }
  pthread_mutex_unlock(&session->lock);
  return status;
}

bool bt_session_finish(bubbletop_session *session, uint32_t limit_ms, bool exiting) {
  bt_cuda_stop(session);
  bt_process_lock();
  bt_process_leave(session, exiting);
  bt_process_unlock();
  __atomic_store_n(&session->deaf, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&session->lock);
  if (session->state == BT_SESSION_OPEN) {
    session->exiting = exiting;
    session->close_deadline = deadline_in(limit_ms != 0 ? limit_ms : session->config.close_ms);
    session->state = BT_SESSION_CLOSING;
    pthread_cond_signal(&session->wake);
  }
  if (!start_locked(session)) {
    pthread_mutex_unlock(&session->lock);
    bt_writer_main(session);
    pthread_mutex_lock(&session->lock);
  }
  /* the writer keeps to the deadline itself, unless a write call hangs */
  struct timespec until = bt_timespec(session->close_deadline + GRACE_NS);
  while (session->state == BT_SESSION_CLOSING && pthread_cond_timedwait(&session->done, &session->lock, &until) == 0)
    continue;
  bool closed = session->state == BT_SESSION_CLOSED;
  if (!closed && !session->exiting) {
    session->state = BT_SESSION_ABANDONED;
    pthread_detach(session->thread);
  }
  bool join = closed && session->started && !session->joined;
  session->joined |= join;
  pthread_mutex_unlock(&session->lock);
  if (join) pthread_join(session->thread, NULL);
  return closed;
}

bubbletop_status bubbletop_close(bubbletop_session *session, uint32_t limit_ms) {
  if (session == NULL) return BUBBLETOP_OK;
  /* A forked child gives up its parent's session: its locks may be in any state there, so it is left alone. */
  if (bt_writer_sink(session->writer)->header.pid != getpid()) return BUBBLETOP_OK;
  bt_process_lock();
  bool shared = session->shared;
  if (!shared) bt_process_leave(session, false); /* from here on it cannot become shared */
  bt_process_unlock();
  if (shared) return bubbletop_flush(session, limit_ms != 0 ? limit_ms : session->config.close_ms);
  bool closed = bt_session_finish(session, limit_ms, false);
  if (!closed) return BUBBLETOP_ERR_LIMIT; /* the session may be gone already */
  if (session->exiting) return BUBBLETOP_OK;
  bubbletop_status status = session->result;
  bt_session_free(session);
  return status;
}

int32_t bubbletop_rank(const bubbletop_session *session, int32_t *world_size) {
  if (world_size != NULL) *world_size = session != NULL ? session->config.world_size : -1;
  return session != NULL ? session->config.rank : -1;
}

/* Of two sources that see the same, the better one. */
static uint32_t better(uint32_t a, uint32_t b, bubbletop_sight sight) {
  bool plugin = a == BUBBLETOP_SOURCE_PLUGIN || b == BUBBLETOP_SOURCE_PLUGIN;
  if (sight == BUBBLETOP_SIGHT_COLLECTIVES && plugin) return BUBBLETOP_SOURCE_PLUGIN;
  return a > b ? a : b;
}

bubbletop_source bubbletop_see(bubbletop_session *session, bubbletop_source source, bubbletop_sight sight) {
  if (session == NULL || (unsigned)sight > BUBBLETOP_SIGHT_COLLECTIVES) return source;
  uint32_t *place = &session->sources[sight];
  uint32_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
  uint32_t best = better(seen, source, sight);
  while (best != seen && !__atomic_compare_exchange_n(place, &seen, best, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    best = better(seen, source, sight);
  return (bubbletop_source)best;
}

bubbletop_source bubbletop_seen_by(const bubbletop_session *session, bubbletop_sight sight) {
  if (session == NULL || (unsigned)sight > BUBBLETOP_SIGHT_COLLECTIVES) return (bubbletop_source)0;
  return (bubbletop_source)__atomic_load_n(&session->sources[sight], __ATOMIC_RELAXED);
}

bubbletop_status bubbletop_get_stats(bubbletop_session *session, bubbletop_stats *stats) {
  if (stats == NULL || stats->size < sizeof stats->size) return BUBBLETOP_ERR_ARG;
  bubbletop_stats all = {.size = stats->size};
  if (session != NULL) {
    const bt_sink *sink = bt_writer_sink(session->writer);
    uint32_t count = __atomic_load_n(&session->producer_count, __ATOMIC_ACQUIRE);
    all.recoverable = session->rings.inode != 0;
    for (uint32_t i = 0; i < count; i++) {
      const bt_producer *producer = session->producers[i];
      all.recorded += __atomic_load_n(&producer->ring->number, __ATOMIC_RELAXED);
      all.dropped += __atomic_load_n(&producer->ring->dropped, __ATOMIC_RELAXED);
      all.recoverable &= producer->recoverable;
    }
    all.dropped += __atomic_load_n(&session->refused, __ATOMIC_RELAXED);
    all.written = bt_writer_written(session->writer);
    all.double_ends = __atomic_load_n(&session->double_ends, __ATOMIC_RELAXED);
    all.unbegun_ends = __atomic_load_n(&session->unbegun_ends, __ATOMIC_RELAXED);
    all.misuse = __atomic_load_n(&session->misuse, __ATOMIC_RELAXED);
    all.bytes_written = __atomic_load_n(&sink->bytes_written, __ATOMIC_RELAXED);
    all.write_errors = __atomic_load_n(&sink->write_errors, __ATOMIC_RELAXED);
    all.last_errno = __atomic_load_n(&sink->last_errno, __ATOMIC_RELAXED);
    bt_cuda_count(session, &all.graph_captured, &all.gpu_unknown);
    char name[64];
    bt_sink_name(name, sizeof name, session->config.rank, sink->header.life,
                 __atomic_load_n(&sink->segment, __ATOMIC_RELAXED));
    if (snprintf(all.path, sizeof all.path, "%s/%s", session->directory, name) >= (int)sizeof all.path)
      all.path[0] = '\0';
  }
  memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
  return BUBBLETOP_OK;
}
