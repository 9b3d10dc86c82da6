/* What a session is made of. Internal: everything here is hidden from the library's users.
 *
 * Who touches what:
 *   a thread's producer   that thread alone, but for the fields that say otherwise
 *   rings                 see formats/wire/ring.h
 *   the writer            the session's writer thread alone
 *   `lock`                guards the fields behind it: the talk between callers of flush/close and the writer
 *   process lock          guards the lists of sessions, producers and threads (capture/process.h); taken before `lock`
 * Fields marked atomic are accessed with __atomic builtins.
 */
#ifndef BT_CAPTURE_SESSION_H
#define BT_CAPTURE_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/bubbletop.h"
#include "capture/config.h"
#include "capture/definitions.h"
#include "capture/ring_file.h"
#include "formats/wire/ring.h"

enum { BT_CACHE_LINE = 64 };

#define bt_likely(condition) __builtin_expect(!!(condition), 1)
#define bt_unlikely(condition) __builtin_expect(!!(condition), 0)

/* A ring with what its thread needs to fill it. Owned by the session and, while a thread lives, by that thread as well:
 * the last one to let go frees it. A ring outlives its thread and is then given to the next new thread. */
typedef struct bt_producer {
  _Alignas(BT_CACHE_LINE) bubbletop_session *session; /* atomic; BT_SESSION_GONE once it is closed */
  uint64_t token; /* atomic; session serial << 16 | ring id, never reused; BT_TOKEN_GONE once it is closed */
  bt_ring_head *ring;
  uint64_t capacity; /* of the ring, in slots; private, for what lies in shared memory may be scribbled over */
  uint32_t free_open; /* bit set: entry of the ring's open table that is free */
  uint32_t open_state; /* of the entry taken last */
  struct bt_producer *next; /* of the same thread, in another session */

  _Alignas(BT_CACHE_LINE) uint32_t returned_open; /* atomic: entries freed by other threads */
  bool owned; /* by a living thread; process lock */
  bool recoverable; /* lies in the ring file */

  _Alignas(BT_CACHE_LINE) uint64_t taken; /* the writer's: slots that it has encoded, ahead of the ring's tail */
  uint64_t taken_records;
  uint64_t taken_dropped;
  int64_t open_seen[BT_OPEN_SLOTS]; /* start of the open span reported last */
  int64_t open_reported[BT_OPEN_SLOTS];
} bt_producer;

/* Not NULL: that is what a program passes when nothing is recorded. */
#define BT_SESSION_GONE ((bubbletop_session *)BT_CACHE_LINE)
/* Nor the 0 of a span that has not begun. */
#define BT_TOKEN_GONE (UINT64_MAX << 16)

typedef enum bt_session_state {
  BT_SESSION_OPEN,
  BT_SESSION_CLOSING,
  BT_SESSION_CLOSED, /* the writer has ended; memory is still there (exit without close) */
  BT_SESSION_ABANDONED /* close gave up waiting: the writer frees it all */
} bt_session_state;

typedef struct bt_writer bt_writer;

/* A point where a GPU's clock was compared with the host's. */
typedef struct bt_anchor {
  int64_t time, half_width;
  uint64_t base;
} bt_anchor;
enum { BT_SESSION_ANCHORS = 64 };

struct bubbletop_session {
  /* read by every call, hardly ever written */
  _Alignas(BT_CACHE_LINE) uint32_t quiet; /* atomic: between sampled steps */
  uint32_t deaf; /* atomic: takes no new threads: the process was forked, or the session has ended */
  uint64_t serial;

  /* counters of rare things; atomic */
  _Alignas(BT_CACHE_LINE) uint64_t double_ends;
  uint64_t unbegun_ends, misuse;
  uint64_t refused; /* records of threads that could not be given a ring */
  int64_t refused_from, refused_to;
  uint32_t ringless; /* no more rings are to be had */
  uint32_t sources[3]; /* by bubbletop_sight: the best bubbletop_source that has called */
  uint32_t shared; /* several may hold it: lasts until exit */

  struct bt_cuda *cuda; /* atomic; NULL until the first GPU-timed span */
  bt_anchor anchors[BT_SESSION_ANCHORS]; /* from the GPU's thread to the writer */
  uint32_t anchor_head, anchor_tail; /* atomic */

  bt_config config;
  char directory[BT_RING_PATH_MAX]; /* absolute */
  bt_ring_store rings;
  bt_definitions definitions; /* has its own lock */

  /* process lock */
  bubbletop_session *next;
  bt_producer *producers[BT_RING_MAX_RINGS];
  uint32_t producer_count; /* atomic; entries below it do not change */

  bt_writer *writer;
  pthread_t thread;

  pthread_mutex_t lock;
  pthread_cond_t wake; /* the writer: something to do */
  pthread_cond_t done; /* callers: flush_done or state changed */
  bt_session_state state;
  bool started, joined; /* the writer thread */
  bool exiting; /* closed by exit(), not by its owner */
  uint64_t flush_wanted, flush_done;
  int64_t close_deadline;
  bubbletop_status result; /* of the close */
};

/* Starts the writer thread unless it runs. Process lock held or not. False: the system gives no thread. */
bool bt_session_start(bubbletop_session *session);

/* A thread that takes none of the program's signals. */
bool bt_session_thread(pthread_t *thread, void *(*body)(void *), void *argument, const char *name);

/* Hands an anchor to the writer; left out when there are too many. One thread at a time. */
void bt_session_anchor(bubbletop_session *session, int64_t time, int64_t half_width, uint64_t base);

/* Ends the writer within limit_ms (0: as configured) and lets go of the ring file, but of no memory that other threads
 * may still write to. True: the writer has ended. */
bool bt_session_finish(bubbletop_session *session, uint32_t limit_ms, bool exiting);

/* Frees a session whose writer has ended or never began, with its rings. Not under the process lock. */
void bt_session_free(bubbletop_session *session);

static inline void bt_count(uint64_t *counter) {
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
