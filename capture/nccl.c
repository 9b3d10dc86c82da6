/* libnccl-profiler-bubbletop.so, the NCCL profiler plugin: every send, receive and collective with peer and bytes.
 *
 * Version 5 (NCCL 2.28): a KernelLaunch brackets the launch on a stream, and behind it come the Group and its tasks with
 * what they move. Two events round the launch give the time on the GPU, which all tasks of the launch share. Version 4
 * (2.27) tells no launch: its tasks have the host's times of being enqueued.
 *
 * With BUBBLETOP_NCCL_CHANNELS=1 the channels of each launch tell when they ran as well (KernelCh): then messages of a group
 * have times of their own (capture/nccl_flight.h). NCCL does more for it, into graphs too, so it is not the default.
 *
 * NCCL takes the plugin out when the last communicator goes, while our threads live: hence -z nodelete. Contexts are kept,
 * for events of a communicator may come after its end. No call waits: where two threads meet in a context, the second
 * records the host's times.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capture/bubbletop_cuda.h"
#include "capture/bubbletop_tool.h"
#include "capture/comm.h"
#include "capture/nccl_abi.h"
#include "capture/nccl_flight.h"

enum { PENDING = 64, MOST_CONTEXTS = 1 << 12 };
static const int wanted_events =
    BT_NCCL_GROUP_API | BT_NCCL_COLL_API | BT_NCCL_P2P_API | BT_NCCL_COLL | BT_NCCL_P2P | BT_NCCL_KERNEL_LAUNCH;
static const int wanted_events_4 = BT_NCCL_COLL | BT_NCCL_P2P;

/* A task of version 4 between start and stop. */
typedef struct task {
  uint32_t open; /* atomic */
  bubbletop_kind kind;
  bubbletop_comm comm;
  int64_t start;
  struct context *owner;
} task;

typedef struct context {
  struct context *older; /* all are kept, and can be reached */
  bubbletop_session *session;
  const bt_communicator *communicator; /* NULL: too many, or unknown */
  pthread_mutex_t lock; /* tried, never waited for */
  bool launching; /* `launch` waits for its tasks */
  bubbletop_cuda_span launch;
  uint32_t number; /* among the contexts whose channels are watched, from 1 */
  bt_flight *flight; /* instead of `launch` then */
  bt_flights *flights; /* NULL: they are not */
  uint32_t next_task; /* atomic */
  task tasks[PENDING]; /* version 4 */
} context;

/* What a handle points to: the kind of event in a context. Addresses stay valid for good. A message whose channels are
 * watched has a number instead: context, generation, flight and part; so have its channels. */
enum { HANDLE_LAUNCH = 1, HANDLE_GROUP = 2, HANDLE_TASK = 3, HANDLE_PART = 4, HANDLE_BITS = 7 };

static struct {
  bt_communicators communicators;
  int *mask; /* NCCL's, one for the process: atomic */
  int wanted; /* what it is set to while attached */
  int detached; /* atomic */
  context *newest; /* atomic */
  context *contexts[MOST_CONTEXTS]; /* atomic; whose channels are watched */
  uint32_t context_count; /* atomic */
} plugin = {.communicators = BT_COMMUNICATORS_INIT};

__attribute__((visibility("default"))) extern const bt_nccl_profiler ncclProfiler_v5, ncclProfiler_v6;
__attribute__((visibility("default"))) extern const bt_nccl_profiler_4 ncclProfiler_v4;
__attribute__((visibility("default"))) void bubbletop_nccl_attach(int on);

static void *handle_of(void *to, uintptr_t kind) {
  return (void *)((uintptr_t)to | kind);
}

static void *handle_of_part(const context *at, bt_flight_place place) {
  return (void *)((uintptr_t)at->number << 52 | (uintptr_t)place.generation << 20 | (uintptr_t)place.flight << 12 |
                  (uintptr_t)place.part << 4 | HANDLE_PART);
}

/* NULL: it is no such handle. */
static context *context_of_part(const void *handle, bt_flight_place *place) {
  uintptr_t bits = (uintptr_t)handle;
  uint32_t number = (uint32_t)(bits >> 52);
  if ((bits & HANDLE_BITS) != HANDLE_PART || number == 0) return NULL;
  *place = (bt_flight_place){(uint32_t)(bits >> 20), (uint8_t)(bits >> 12), (uint8_t)(bits >> 4)};
  return __atomic_load_n(&plugin.contexts[number], __ATOMIC_ACQUIRE);
}

static void forget(void) {
  bt_communicators_forget(&plugin.communicators);
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, forget);
}

static void set_mask(int *mask, int wanted) {
  plugin.wanted = wanted;
  __atomic_store_n(&plugin.mask, mask, __ATOMIC_RELEASE);
  __atomic_store_n(mask, __atomic_load_n(&plugin.detached, __ATOMIC_RELAXED) ? 0 : wanted, __ATOMIC_RELAXED);
}

/* Turns all events on or off while the program runs. */
void bubbletop_nccl_attach(int on) {
  __atomic_store_n(&plugin.detached, !on, __ATOMIC_RELAXED);
  if (!on) bt_communicators_stop_counting(&plugin.communicators);
  int *mask = __atomic_load_n(&plugin.mask, __ATOMIC_ACQUIRE);
  if (mask != NULL) __atomic_store_n(mask, on ? plugin.wanted : 0, __ATOMIC_RELAXED);
}

static void keep(context *made) {
  made->older = __atomic_load_n(&plugin.newest, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&plugin.newest, &made->older, made, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    continue;
}

static void watch_channels(context *at) {
  uint32_t number = __atomic_add_fetch(&plugin.context_count, 1, __ATOMIC_RELAXED);
  bt_flights *flights = number < MOST_CONTEXTS ? calloc(1, sizeof *flights) : NULL;
  if (flights == NULL) return;
  at->flights = flights;
  at->number = number;
  __atomic_store_n(&plugin.contexts[number], at, __ATOMIC_RELEASE);
}

static int init(void **out, uint64_t id, int *mask, const char *name, int ranks, int rank, int wanted) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  *out = NULL;
  bubbletop_session *session = bubbletop_shared();
  context *made = session != NULL ? calloc(1, sizeof *made) : NULL;
  if (made == NULL) { /* not recorded: NCCL goes on without us */
    *mask = 0;
    return BT_NCCL_SUCCESS;
  }
  made->session = session;
  pthread_mutex_init(&made->lock, NULL);
  made->communicator = bt_communicators_add(&plugin.communicators, session, id, rank, ranks, name);
  if (__atomic_load_n(&plugin.detached, __ATOMIC_RELAXED)) bt_communicators_stop_counting(&plugin.communicators);
  bubbletop_see(session, BUBBLETOP_SOURCE_PLUGIN, BUBBLETOP_SIGHT_P2P);
  bubbletop_see(session, BUBBLETOP_SOURCE_PLUGIN, BUBBLETOP_SIGHT_COLLECTIVES);
  bubbletop_meta(session, "source.nccl", wanted != wanted_events_4 ? "5" : "4");
  if ((wanted & BT_NCCL_KERNEL_CH) != 0) watch_channels(made);
  keep(made);
  set_mask(mask, wanted);
  *out = made;
  return BT_NCCL_SUCCESS;
}

static int init_5(void **out, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                  bt_nccl_log log) {
  (void)nodes, (void)log;
  const char *channels = getenv("BUBBLETOP_NCCL_CHANNELS");
  bool watched = channels != NULL && strcmp(channels, "1") == 0;
  return init(out, id, mask, name, ranks, rank, watched ? wanted_events | BT_NCCL_KERNEL_CH : wanted_events);
}

static int init_4(void **out, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
                  bt_nccl_log log) {
  (void)nodes, (void)log;
  return init(out, id, mask, name, ranks, rank, wanted_events_4);
}

/* ---- what is moved ---- */

/* "ncclFloat16", "ncclFloat8e4m3": the first number is the bits. */
static int64_t size_of(const char *datatype) {
  size_t at = datatype != NULL ? strcspn(datatype, "0123456789") : 0;
  int bits = datatype != NULL ? atoi(datatype + at) : 0;
  return bits >= 8 ? bits / 8 : 1;
}

typedef struct moved {
  bubbletop_kind kind;
  int64_t bytes; /* -1 unknown */
  bubbletop_comm comm;
} moved;

/* False: it is no send, receive or collective that we know, or somebody sees it better. */
static bool describe(const context *at, const char *function, const char *datatype, size_t count, moved *out) {
  bt_comm_function what = function != NULL ? bt_comm_function_of(function, &out->kind) : BT_COMM_OTHER;
  if (what == BT_COMM_OTHER) return false;
  bubbletop_sight sight = what == BT_COMM_COLLECTIVE ? BUBBLETOP_SIGHT_COLLECTIVES : BUBBLETOP_SIGHT_P2P;
  if (bubbletop_see(at->session, BUBBLETOP_SOURCE_PLUGIN, sight) != BUBBLETOP_SOURCE_PLUGIN) return false;
  out->bytes = count < (size_t)1 << 46 ? (int64_t)count * size_of(datatype) : -1;
  return true;
}

static bool describe_p2p(const context *at, const char *function, const char *datatype, size_t count, int peer,
                         moved *out) {
  if (!describe(at, function, datatype, count, out)) return false;
  out->comm = bt_comm_message(at->communicator, out->kind == BUBBLETOP_SEND, peer, out->bytes);
  return true;
}

/* NCCL itself counts the collectives of a communicator, each function apart. */
static bool describe_coll(const context *at, const char *function, const char *datatype, size_t count,
                          uint64_t sequence, moved *out) {
  if (!describe(at, function, datatype, count, out)) return false;
  out->comm = bt_comm_of(at->communicator, -1, out->bytes);
  if (sequence <= INT64_MAX) out->comm.sequence = (int64_t)sequence;
  return true;
}

/* ---- version 5 ---- */

/* Context locked. */
static bubbletop_cuda_span *launch_of(context *at) {
  return at->flight != NULL ? &at->flight->launch : &at->launch;
}

/* Context locked. */
static void hand_over(context *at) {
  if (at->launching && at->flight != NULL)
    bt_flight_close(at->flight);
  else if (at->launching)
    bubbletop_cuda_end(&at->launch);
  at->launching = false;
}

static void *start_launch(context *at, void *stream) {
  if (pthread_mutex_trylock(&at->lock) != 0) return NULL;
  hand_over(at); /* one whose tasks never came */
  at->flight = at->flights != NULL ? bt_flight_begin(at->flights) : NULL;
  bubbletop_cuda_launch_begin(at->session, launch_of(at), stream);
  at->launching = true;
  pthread_mutex_unlock(&at->lock);
  return handle_of(at, HANDLE_LAUNCH);
}

static void stop_launch(context *at) {
  if (pthread_mutex_trylock(&at->lock) != 0) return;
  if (at->launching) bubbletop_cuda_launched(launch_of(at));
  pthread_mutex_unlock(&at->lock);
}

static void stop_group(context *at) {
  if (pthread_mutex_trylock(&at->lock) != 0) return;
  hand_over(at);
  pthread_mutex_unlock(&at->lock);
}

/* A task belongs to the communicator's last launch; without one (a graph is replayed) it has the host's time. */
static void *add_task(context *at, const moved *what, uint32_t channels) {
  bool locked = pthread_mutex_trylock(&at->lock) == 0;
  void *handle = NULL;
  if (locked && at->launching) {
    bt_flight_place place;
    bubbletop_cuda_add(launch_of(at), what->kind, bubbletop_at(-1, -1), &what->comm);
    if (at->flight != NULL && bt_flight_add(at->flights, at->flight, channels, &place))
      handle = handle_of_part(at, place);
  } else {
    int64_t now = bubbletop_now();
    bubbletop_comm_complete(at->session, what->kind, bubbletop_at(-1, -1), &what->comm, now, now);
  }
  if (locked) pthread_mutex_unlock(&at->lock);
  return handle;
}

/* A channel of a message begins; its handle is the message's. */
static void *start_channel(void *message, uint64_t timer) {
  bt_flight_place place;
  context *at = context_of_part(message, &place);
  if (at == NULL) return NULL;
  bt_flight_channel_begin(at->flights, place, timer);
  return message;
}

static int start_5(void *to, void **handle, bt_nccl_descriptor *descriptor) {
  context *at = to;
  moved what;
  if (handle != NULL) *handle = NULL;
  if (at == NULL || handle == NULL || descriptor == NULL) return BT_NCCL_SUCCESS;
  switch (descriptor->type) {
  case BT_NCCL_KERNEL_LAUNCH: *handle = start_launch(at, descriptor->kernel_launch.stream); break;
  case BT_NCCL_GROUP: *handle = handle_of(at, HANDLE_GROUP); break;
  case BT_NCCL_P2P: {
    const bt_nccl_p2p *p2p = &descriptor->p2p;
    if (describe_p2p(at, p2p->function, p2p->datatype, p2p->count, p2p->peer, &what))
      *handle = add_task(at, &what, p2p->channels);
    break;
  }
  case BT_NCCL_COLL: {
    const bt_nccl_coll *coll = &descriptor->coll;
    if (describe_coll(at, coll->function, coll->datatype, coll->count, coll->sequence, &what))
      *handle = add_task(at, &what, coll->channels);
    break;
  }
  case BT_NCCL_KERNEL_CH: *handle = start_channel(descriptor->parent, descriptor->kernel_channel.timer); break;
  default: break; /* API calls tell no peer, and what proxies do is not asked for */
  }
  return BT_NCCL_SUCCESS;
}

static void stop_task(task *ended);

static int stop(void *handle) {
  uintptr_t kind = (uintptr_t)handle & HANDLE_BITS;
  void *to = (void *)((uintptr_t)handle & ~(uintptr_t)HANDLE_BITS);
  if (to == NULL || kind == HANDLE_PART) return BT_NCCL_SUCCESS; /* a stopped message is one that is enqueued */
  if (kind == HANDLE_LAUNCH) stop_launch(to);
  if (kind == HANDLE_GROUP) stop_group(to);
  if (kind == HANDLE_TASK) stop_task(to);
  return BT_NCCL_SUCCESS;
}

static int record_state(void *handle, int state, void *arguments) {
  bt_flight_place place;
  context *at = context_of_part(handle, &place);
  if (at != NULL && state == BT_NCCL_KERNEL_CH_STOP && arguments != NULL)
    bt_flight_channel_end(at->flights, place, ((const bt_nccl_kernel_state *)arguments)->timer);
  return BT_NCCL_SUCCESS;
}

static int finalize(void *to) {
  context *at = to;
  if (at == NULL) return BT_NCCL_SUCCESS;
  stop_group(at);
  if (at->flights != NULL) bt_flights_give_up(at->flights);
  return BT_NCCL_SUCCESS;
}

/* ---- version 4 ---- */

static int start_4(void *to, void **handle, bt_nccl_descriptor_4 *descriptor) {
  context *at = to;
  moved what;
  if (handle != NULL) *handle = NULL;
  if (at == NULL || handle == NULL || descriptor == NULL) return BT_NCCL_SUCCESS;
  bool is_p2p = descriptor->type == BT_NCCL_P2P;
  if (!is_p2p && descriptor->type != BT_NCCL_COLL) return BT_NCCL_SUCCESS;
  bool known = is_p2p ? describe_p2p(at, descriptor->p2p.function, descriptor->p2p.datatype, descriptor->p2p.count,
                                     descriptor->p2p.peer, &what)
                      : describe_coll(at, descriptor->coll.function, descriptor->coll.datatype, descriptor->coll.count,
                                      descriptor->coll.sequence, &what);
  if (!known) return BT_NCCL_SUCCESS;
  task *begun = &at->tasks[__atomic_fetch_add(&at->next_task, 1, __ATOMIC_RELAXED) % PENDING];
  stop_task(begun); /* one that was never stopped gives way */
  *begun = (task){.kind = what.kind, .comm = what.comm, .start = bubbletop_now(), .owner = at};
  __atomic_store_n(&begun->open, 1, __ATOMIC_RELEASE);
  *handle = handle_of(begun, HANDLE_TASK);
  return BT_NCCL_SUCCESS;
}

static void stop_task(task *ended) {
  if (__atomic_exchange_n(&ended->open, 0, __ATOMIC_ACQ_REL) == 0) return;
  bubbletop_comm_complete(ended->owner->session, ended->kind, bubbletop_at(-1, -1), &ended->comm, ended->start,
                          bubbletop_now());
}

const bt_nccl_profiler ncclProfiler_v5 = {"bubbletop", init_5, start_5, stop, record_state, finalize};
const bt_nccl_profiler ncclProfiler_v6 = {"bubbletop", init_5, start_5, stop, record_state, finalize};
const bt_nccl_profiler_4 ncclProfiler_v4 = {"bubbletop", init_4, start_4, stop, record_state, finalize};
