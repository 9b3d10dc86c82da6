/* bubbletop: capture library.
 *
 * A training process opens a session and marks spans; one msgpack stream per process appears in the run directory, for
 * `bubbletop RUN`. The library never harms the run: the calls on the hot path (begin, comm_begin, gate, complete, end,
 * step, instant, counter) do not allocate, call the system, print, wait or fail, except that a thread's first call gives
 * it a ring. When a thread's ring is full the newest record is dropped and counted, and the viewer shows the count.
 *
 * A NULL session is valid everywhere and does nothing. All functions may be called from any thread, but not from a
 * signal handler; a span may be ended by another thread than the one that began it. Nothing but bubbletop_close may be
 * called with a session once its close has begun, except that ending its spans afterwards is harmless.
 *
 * What happens when …
 *   the process is killed (SIGKILL, OOM)   every span that had ended is in the stream or in the ring file, which stays:
 *       `bubbletop recover` (also run by `record` for its children), or a viewer on the same host, reads it.
 *   it ends by exit() or return from main without close   the library writes what has ended, within close_ms, and the
 *       end record, after the program's own exit handlers have run; threads may still be running and recording. _exit,
 *       quick_exit and abort are like a kill.
 *   it forks   the child is silent: its calls with the parent's session do nothing, spans that were open at the fork are
 *       the parent's, and its exit writes nothing. It may open a session of its own, with a file (life) of its own. A
 *       process made by vfork, posix_spawn or a bare clone must not call the library before exec.
 *   it calls exec   like a kill: descriptors are closed, the ring file stays.
 *   a thread ends   what it recorded is written in due course, its open spans may be ended by others, and its ring goes
 *       to the next new thread. At most 1024 threads can record at a time; records of more are dropped and counted.
 *   a process has two sessions   each has its file, rings and writer thread; threads may record into both. Of one rank
 *       they are two lives, which readers report as two writers.
 *   a tool is in the process, too (bubbletop_tool.h)   it records into the program's session; close then writes all out
 *       and leaves the session open for the tool until exit, and open for the same directory and rank returns it.
 *   the run directory is missing   it is made if its parent exists; otherwise, or when it cannot be written to (read-only,
 *       no permission, already full), open fails with BUBBLETOP_ERR_IO and a text.
 *   the disk fills up, or writing fails, later   the writer tries again (soon, then at least each second) where it
 *       stopped; meanwhile rings fill up, then records are dropped and counted, with the time from and to in the stream
 *       once it can be written again. Close gives up after its limit, returns BUBBLETOP_ERR_IO and leaves the ring file
 *       for `bubbletop recover`.
 *   there is no tmpfs, or too little room on it   rings become smaller, or else ordinary memory: recording goes on, but
 *       a kill loses what is not written yet (`recoverable` is 0 in stats and in the stream).
 *   ring_directory is shared by users   ring files are 0600, named by user and 8 random bytes, never opened through a
 *       symbolic link and never over an existing file. So are streams; both obey the umask.
 *   the library is unloaded   it stays loaded (-z nodelete), for its threads and exit handler.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Ranks are global ranks. -1 means none or unknown everywhere.
 * Structs begin with `size` so that later versions can grow them: set it to sizeof, or use the _INIT macros.
 * Valid as C11 and C++11. Symbols of this header are all that the library exports.
 */
#ifndef BUBBLETOP_H
#define BUBBLETOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BUBBLETOP_API __attribute__((visibility("default")))
#else
#define BUBBLETOP_API
#endif

#define BUBBLETOP_VERSION_MAJOR 0
#define BUBBLETOP_VERSION_MINOR 1
#define BUBBLETOP_VERSION_PATCH 0

typedef enum bubbletop_status {
  BUBBLETOP_OK = 0,
  BUBBLETOP_ERR_NOMEM = -1,
  BUBBLETOP_ERR_IO = -2, /* directory missing, read-only, full, no permission */
  BUBBLETOP_ERR_ARG = -5,
  BUBBLETOP_ERR_LIMIT = -7, /* a time limit passed before all was written */
  BUBBLETOP_DISABLED = 1 /* not configured (BUBBLETOP_DIR unset): *session is NULL, all calls do nothing */
} bubbletop_status;

/* Compute, p2p and collective kinds. B is the input-gradient backward (PyTorch's "I"), BW the fused backward. */
typedef enum bubbletop_kind {
  BUBBLETOP_F = 1,
  BUBBLETOP_B = 2,
  BUBBLETOP_W = 3,
  BUBBLETOP_BW = 4,
  BUBBLETOP_FB = 5,
  BUBBLETOP_RECOMPUTE = 6,
  BUBBLETOP_OPTIMIZER = 7,
  BUBBLETOP_OTHER = 8,
  BUBBLETOP_SEND_F = 16,
  BUBBLETOP_RECV_F = 17,
  BUBBLETOP_SEND_B = 18,
  BUBBLETOP_RECV_B = 19,
  BUBBLETOP_SEND = 20, /* whether forward or backward is not known: readers find out where they can */
  BUBBLETOP_RECV = 21,
  BUBBLETOP_ALL_REDUCE = 24,
  BUBBLETOP_REDUCE_SCATTER = 25,
  BUBBLETOP_ALL_GATHER = 26,
  BUBBLETOP_ALL_TO_ALL = 27,
  BUBBLETOP_BROADCAST = 28,
  BUBBLETOP_HOST = 40
} bubbletop_kind;

typedef enum bubbletop_domain {
  BUBBLETOP_DOMAIN_UNKNOWN = 0,
  BUBBLETOP_DP = 1,
  BUBBLETOP_TP = 2,
  BUBBLETOP_CP = 3,
  BUBBLETOP_EP = 4,
  BUBBLETOP_PP = 5,
  BUBBLETOP_WORLD = 6
} bubbletop_domain;

typedef struct bubbletop_session bubbletop_session;

/* Session settings. NULL or a zero/NULL field takes the environment variable named beside it, then the default. */
typedef struct bubbletop_config {
  size_t size;
  const char *directory; /* BUBBLETOP_DIR: the run directory; made if its parent exists. Unset: BUBBLETOP_DISABLED */
  int32_t rank; /* BUBBLETOP_RANK, RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK; -1: look there, else 0 */
  int32_t world_size; /* WORLD_SIZE and its like; -1: look there */
  const char *run_id; /* BUBBLETOP_RUN_ID, TORCHELASTIC_RUN_ID, SLURM_JOB_ID */
  uint32_t flush_ms; /* BUBBLETOP_FLUSH_MS, default 100: how often the writer looks at the rings */
  uint32_t ring_bytes; /* BUBBLETOP_RING_BYTES, default 256 KiB, at most 1 MiB: of one thread */
  const char *ring_directory; /* BUBBLETOP_RING_DIR, default /dev/shm; tmpfs only, else anonymous memory */
  uint64_t segment_bytes; /* BUBBLETOP_SEGMENT_BYTES, default 256 MiB: a new segment begins after this many bytes */
  uint64_t cap_bytes; /* BUBBLETOP_CAP_BYTES, default 0 (none): keep only the newest segments, this much in all */
  const char *steps; /* BUBBLETOP_STEPS: "A..B[,C..D]" inclusive step ranges to record, default all */
  uint32_t every; /* BUBBLETOP_EVERY: record each N-th step of those, default 1 */
  uint32_t close_ms; /* BUBBLETOP_CLOSE_MS, default 2000: time limit of the flush at exit */
  uint32_t write_bytes; /* BUBBLETOP_WRITE_BYTES, default no limit: most bytes of one write call */
} bubbletop_config;
#define BUBBLETOP_CONFIG_INIT                                                                                          \
  { sizeof(bubbletop_config), NULL, -1, -1, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, 0 }

/* Where in the model and schedule an op belongs. */
typedef struct bubbletop_where {
  int32_t microbatch; /* -1 none */
  int16_t chunk; /* model chunk of this rank, 0 when there is one; -1 none */
  int16_t lane; /* the program's own stream or thread number, -1: the usual one of the kind */
  int32_t microbatch_b; /* BUBBLETOP_FB: the backward half */
  int16_t chunk_b;
  int16_t reserved; /* 0 */
} bubbletop_where;

static inline bubbletop_where bubbletop_at(int32_t microbatch, int16_t chunk) {
  bubbletop_where where = {microbatch, chunk, -1, -1, 0, 0};
  return where;
}

/* A message or a collective. */
typedef struct bubbletop_comm {
  size_t size;
  int32_t peer; /* global rank of the other side, -1: a collective */
  uint32_t group; /* from bubbletop_group, 0 none */
  int64_t bytes; /* -1 unknown */
  int64_t sequence; /* counted by the caller per group, peer and direction; -1: counted by order in the stream */
} bubbletop_comm;
#define BUBBLETOP_COMM_INIT                                                                                            \
  { sizeof(bubbletop_comm), -1, 0, -1, -1 }

/* What a compute lane was blocked on. */
typedef struct bubbletop_gate_on {
  size_t size;
  bubbletop_kind kind; /* the comm kind waited for */
  int32_t peer;
  uint32_t group;
  int64_t sequence; /* first sequence waited for */
  int32_t count; /* consecutive ones, usually 1 */
} bubbletop_gate_on;

/* Lives on the caller's stack between begin and end; its content is the library's. Zero-initialise it only if it may be
 * ended without having begun (which is then counted, not an error). */
typedef struct bubbletop_span {
  uint64_t opaque[12];
} bubbletop_span;

/* Opens a session and its stream file. On success *session is owned by the caller and ended by bubbletop_close.
 * On failure *session is NULL, the reason is in bubbletop_last_error for this thread, and training should go on. */
BUBBLETOP_API bubbletop_status bubbletop_open(const bubbletop_config *config, bubbletop_session **session);

/* Writes out all that ended before the call, within `limit_ms`. BUBBLETOP_ERR_LIMIT, BUBBLETOP_ERR_IO: not all is out. */
BUBBLETOP_API bubbletop_status bubbletop_flush(bubbletop_session *session, uint32_t limit_ms);

/* Flushes within `limit_ms` (0: the configured limit), writes the end record, frees the session. Calls from other
 * threads must have ended. Spans still open are written as open ones. BUBBLETOP_ERR_LIMIT, BUBBLETOP_ERR_IO: not all is
 * out, the ring file is left for `bubbletop recover`; the session is freed all the same. */
BUBBLETOP_API bubbletop_status bubbletop_close(bubbletop_session *session, uint32_t limit_ms);

/* Begins a span now. */
BUBBLETOP_API void bubbletop_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_kind kind,
                                   bubbletop_where where);
BUBBLETOP_API void bubbletop_comm_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_kind kind,
                                        bubbletop_where where, const bubbletop_comm *comm);
/* The compute lane begins to be blocked on a message; the end of the span is when it may go on. */
BUBBLETOP_API void bubbletop_gate_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_where where,
                                        const bubbletop_gate_on *on);
/* Ends a span now. Ending twice is counted and otherwise ignored. */
BUBBLETOP_API void bubbletop_end(bubbletop_span *span);

/* Records a span whose times (CLOCK_MONOTONIC ns) the caller took. end < start is counted as misuse and ignored. */
BUBBLETOP_API void bubbletop_complete(bubbletop_session *session, bubbletop_kind kind, bubbletop_where where,
                                      int64_t start, int64_t end);
BUBBLETOP_API void bubbletop_comm_complete(bubbletop_session *session, bubbletop_kind kind, bubbletop_where where,
                                           const bubbletop_comm *comm, int64_t start, int64_t end);
BUBBLETOP_API void bubbletop_gate_complete(bubbletop_session *session, bubbletop_where where,
                                           const bubbletop_gate_on *on, int64_t start, int64_t end);

/* Tokens processed by the span, before it ends. */
BUBBLETOP_API void bubbletop_tokens(bubbletop_span *span, int64_t tokens);

/* A training iteration. With step sampling, spans, instants and counters that begin outside sampled steps are not
 * recorded, nor are the marks of the other steps; layout, meta and groups always are. */
BUBBLETOP_API void bubbletop_step_begin(bubbletop_session *session, int64_t step);
BUBBLETOP_API void bubbletop_step_end(bubbletop_session *session, int64_t step);

BUBBLETOP_API void bubbletop_instant(bubbletop_session *session, const char *name);
BUBBLETOP_API void bubbletop_counter(bubbletop_session *session, const char *name, double value);

/* Layout keys, at any time, as often as wished; the last wins. Only fields that are not -1 (or NULL) are recorded. This
 * and the two below may allocate and take a lock, but never wait for a file. */
typedef struct bubbletop_layout {
  size_t size;
  int32_t pp_rank, pp_size, tp_rank, tp_size, dp_rank, dp_size, cp_rank, cp_size, ep_rank, ep_size;
  int32_t chunks, microbatches, virtual_stages;
  const int32_t
      *vstages; /* `chunks` entries: the virtual stage of each chunk of this rank; NULL: chunk * pp + pp rank */
  int32_t zero_stage, w_separable;
  const char *schedule; /* as declared by the framework */
} bubbletop_layout;
#define BUBBLETOP_LAYOUT_INIT                                                                                          \
  { sizeof(bubbletop_layout), -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, NULL, -1, -1, NULL }

BUBBLETOP_API bubbletop_status bubbletop_layout_set(bubbletop_session *session, const bubbletop_layout *layout);

/* Any other key and text worth showing (model name, framework version). */
BUBBLETOP_API bubbletop_status bubbletop_meta(bubbletop_session *session, const char *key, const char *value);

/* Names a communicator: its global ranks, in group order. The same list in the same domain has the same id. Returns an
 * id > 0, or 0 for a NULL session or bad arguments. Of a list that is more than 64 arithmetic sequences the first 64 and
 * the number of members are recorded. */
BUBBLETOP_API uint32_t bubbletop_group(bubbletop_session *session, bubbletop_domain domain, const int32_t *ranks,
                                       size_t count);

typedef struct bubbletop_stats {
  size_t size;
  uint64_t recorded; /* records accepted into rings */
  uint64_t written; /* of which are in the file */
  uint64_t dropped; /* refused: ring full, or no ring to be had */
  uint64_t double_ends, unbegun_ends, misuse;
  uint64_t bytes_written;
  uint64_t write_errors; /* failed writes so far (they are tried again) */
  int32_t last_errno;
  int32_t recoverable; /* 1: rings survive SIGKILL */
  char path[512]; /* of the current segment */
  uint64_t graph_captured; /* GPU-timed spans left out because their stream was being captured */
  uint64_t gpu_unknown; /* spans meant to be GPU-timed that got the host's times */
} bubbletop_stats;

BUBBLETOP_API bubbletop_status bubbletop_get_stats(bubbletop_session *session, bubbletop_stats *stats);

/* Why the last bubbletop_open of this thread failed; "" if it did not. Valid until the thread's next bubbletop_open. */
BUBBLETOP_API const char *bubbletop_last_error(void);

/* "0.1.0" */
BUBBLETOP_API const char *bubbletop_version(void);

/* CLOCK_MONOTONIC now, in ns: for bubbletop_complete. */
BUBBLETOP_API int64_t bubbletop_now(void);

#ifdef __cplusplus
}
#endif

#endif
