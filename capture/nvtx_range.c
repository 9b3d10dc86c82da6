#include "capture/nvtx_range.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capture/bubbletop_tool.h"
#include "capture/comm.h"

enum { MAX_DEPTH = 512, MAX_SPANS = 32, CACHE = 256, MAX_STARTED = 1024, MAX_STAGES = 64, KINDS = 64 };
enum { NO_SPAN = 255 };
/* Ids of started ranges: a mark that no other tool's ids have, then a generation and a place. */
#define ID_MARK UINT64_C(0xb0bb1e0000000000)
#define ID_MARK_MASK UINT64_C(0xffffff0000000000)

/* A range that is being recorded. */
typedef struct open_range {
  bubbletop_span span;
  bubbletop_session *session;
  int64_t step; /* BT_NVTX_STEP: its number, else -1 */
} open_range;

typedef struct entry {
  bt_nvtx_domain_handle domain;
  int level;
  uint8_t range; /* index into ranges, NO_SPAN */
} entry;

typedef struct cached {
  uint64_t hash; /* 0: free */
  bt_nvtx_match match;
} cached;

typedef struct thread_state {
  int depth, beyond; /* entries; pushes that found no room */
  uint32_t free_ranges; /* bits */
  entry entries[MAX_DEPTH];
  open_range ranges[MAX_SPANS];
  cached cache[CACHE];
} thread_state;

typedef struct started {
  uint32_t state; /* atomic: generation << 1 | in use */
  uint64_t chained;
  open_range range;
} started;

static struct {
  const bt_nvtx_rules *rules;
  const char *rules_error;
  pthread_key_t key;
  started started[MAX_STARTED];
  uint32_t next_started; /* atomic: where to look first */
  uint32_t counts[KINDS]; /* atomic: ranges of a kind since the step began */
  int64_t steps; /* atomic: steps counted in order */
  bt_communicators communicators;
  pthread_mutex_t lock; /* for new stages, and the first session */
  uint32_t stage_count; /* atomic */
  int32_t stages[MAX_STAGES]; /* virtual stages of this rank, in the order in which they came up */
  uint32_t introduced; /* atomic: the session knows what it is told once */
} nvtx = {.communicators = BT_COMMUNICATORS_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static __thread thread_state *mine __attribute__((tls_model("initial-exec")));

static void thread_ends(void *state) {
  mine = NULL;
  free(state);
}

/* The parent's session is not the child's, and what was open at the fork is the parent's. */
static void forget(void) {
  pthread_mutex_init(&nvtx.lock, NULL);
  bt_communicators_forget(&nvtx.communicators);
  nvtx.stage_count = 0;
  nvtx.introduced = 0;
}

bool bt_nvtx_ranges_prepare(const bt_nvtx_rules *rules, const char *rules_error) {
  nvtx.rules = rules;
  nvtx.rules_error = rules_error;
  return pthread_key_create(&nvtx.key, thread_ends) == 0 && pthread_atfork(NULL, NULL, forget) == 0;
}

/* NULL: no memory. */
static thread_state *state_of_thread(void) {
  if (mine != NULL) return mine;
  thread_state *state = calloc(1, sizeof *state);
  if (state == NULL) return NULL;
  state->free_ranges = UINT32_MAX;
  if (pthread_setspecific(nvtx.key, state) != 0) {
    free(state);
    return NULL;
  }
  mine = state;
  return state;
}

/* The session, at the first range that matters. */
static bubbletop_session *session_of_process(void) {
  bubbletop_session *session = bubbletop_shared();
  if (session == NULL || __atomic_load_n(&nvtx.introduced, __ATOMIC_RELAXED)) return session;
  if (__atomic_exchange_n(&nvtx.introduced, 1, __ATOMIC_RELAXED) == 0) {
    bubbletop_meta(session, "source.nvtx", "1");
    if (nvtx.rules_error[0] != '\0') bubbletop_meta(session, "nvtx_rules_error", nvtx.rules_error);
  }
  return session;
}

/* ---- where ---- */

static int16_t find_stage(int32_t stage) {
  uint32_t count = __atomic_load_n(&nvtx.stage_count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    if (nvtx.stages[i] == stage) return (int16_t)i;
  }
  return -1;
}

/* The chunk of this rank that is the virtual stage; a new one is told to the session. */
static int16_t chunk_of_stage(bubbletop_session *session, int32_t stage) {
  int16_t chunk = find_stage(stage);
  if (chunk >= 0) return chunk;
  pthread_mutex_lock(&nvtx.lock);
  chunk = find_stage(stage);
  uint32_t count = nvtx.stage_count;
  if (chunk < 0 && count < MAX_STAGES) {
    nvtx.stages[count] = stage;
    __atomic_store_n(&nvtx.stage_count, count + 1, __ATOMIC_RELEASE);
    bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
    layout.chunks = (int32_t)count + 1;
    layout.vstages = nvtx.stages;
    bubbletop_layout_set(session, &layout);
    chunk = (int16_t)count;
  }
  pthread_mutex_unlock(&nvtx.lock);
  return chunk;
}

static bubbletop_where where_of(bubbletop_session *session, const bt_nvtx_match *match) {
  bubbletop_where where = bubbletop_at(match->microbatch, match->chunk);
  if (match->stage >= 0) where.chunk = chunk_of_stage(session, match->stage);
  if (match->microbatch == BT_NVTX_IN_ORDER)
    where.microbatch = (int32_t)__atomic_fetch_add(&nvtx.counts[match->kind % KINDS], 1, __ATOMIC_RELAXED);
  if (match->kind == BUBBLETOP_FB) {
    where.microbatch_b = match->microbatch_b;
    where.chunk_b = match->stage_b >= 0 ? chunk_of_stage(session, match->stage_b) : match->chunk_b;
  }
  return where;
}

/* ---- begin and end ---- */

/* Nobody sees such things better than ranges do. */
static bool is_ours(bubbletop_session *session, bubbletop_sight sight) {
  return bubbletop_see(session, BUBBLETOP_SOURCE_NVTX, sight) == BUBBLETOP_SOURCE_NVTX;
}

/* Recomputation, data loading and the like are not what adapters see. */
static bool is_seen_op(int kind) {
  return kind == BUBBLETOP_F || kind == BUBBLETOP_B || kind == BUBBLETOP_W || kind == BUBBLETOP_BW ||
         kind == BUBBLETOP_FB || kind == BUBBLETOP_OPTIMIZER;
}

static bool is_message(int kind) {
  return kind >= BUBBLETOP_SEND_F && kind <= BUBBLETOP_RECV;
}

static int64_t begin_step(bubbletop_session *session, const bt_nvtx_match *match) {
  int64_t step = match->step;
  if (step == BT_NVTX_IN_ORDER) step = __atomic_fetch_add(&nvtx.steps, 1, __ATOMIC_RELAXED);
  for (size_t i = 0; i < KINDS; i++)
    __atomic_store_n(&nvtx.counts[i], 0, __ATOMIC_RELAXED);
  bubbletop_step_begin(session, step);
  return step;
}

static bool begin_nccl(open_range *range, bt_nvtx_domain_handle domain, const bt_nvtx_match *match,
                       const bt_nvtx_payload *payload) {
  if (match->kind == BT_COMM_OTHER || payload == NULL) return false;
  if (!is_ours(range->session, match->kind == BT_COMM_COLLECTIVE ? BUBBLETOP_SIGHT_COLLECTIVES : BUBBLETOP_SIGHT_P2P))
    return false;
  int64_t values[BT_NVTX_FIELDS] = {0, -1, -1, -1, -1};
  bt_nvtx_payload_read(domain, payload, values);
  uint64_t identity = (uint64_t)values[BT_NVTX_COMMUNICATOR];
  const bt_communicator *communicator = bt_communicators_find(&nvtx.communicators, identity);
  if (communicator == NULL) /* made before we listened, or by a version that does not tell */
    communicator = bt_communicators_add(&nvtx.communicators, range->session, identity, -1, 0, NULL);
  bubbletop_comm comm = match->kind == BT_COMM_COLLECTIVE
                            ? bt_comm_of(communicator, -1, values[BT_NVTX_BYTES])
                            : bt_comm_message(communicator, match->kind == BT_COMM_SEND, (int32_t)values[BT_NVTX_PEER],
                                              values[BT_NVTX_BYTES]);
  bubbletop_comm_begin(range->session, &range->span, (bubbletop_kind)match->comm, bubbletop_at(-1, -1), &comm);
  return true;
}

/* False: nothing is recorded, and nothing is to be ended. */
static bool begin(open_range *range, bt_nvtx_domain_handle domain, const bt_nvtx_match *match,
                  const bt_nvtx_payload *payload) {
  range->step = -1;
  range->session = session_of_process();
  if (range->session == NULL) return false;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  switch (match->what) {
  case BT_NVTX_SPAN:
    if (is_seen_op(match->kind) && !is_ours(range->session, BUBBLETOP_SIGHT_OPS)) return false;
    bubbletop_begin(range->session, &range->span, (bubbletop_kind)match->kind, where_of(range->session, match));
    return true;
  case BT_NVTX_COMM:
    if (!is_ours(range->session, is_message(match->kind) ? BUBBLETOP_SIGHT_P2P : BUBBLETOP_SIGHT_COLLECTIVES))
      return false;
    comm.peer = match->peer;
    bubbletop_comm_begin(range->session, &range->span, (bubbletop_kind)match->kind, where_of(range->session, match),
                         &comm);
    return true;
  case BT_NVTX_STEP:
    if (!is_ours(range->session, BUBBLETOP_SIGHT_OPS)) return false;
    range->step = begin_step(range->session, match);
    return true;
  case BT_NVTX_NCCL: return begin_nccl(range, domain, match, payload);
  default: return false;
  }
}

static void finish(open_range *range) {
  if (range->step >= 0)
    bubbletop_step_end(range->session, range->step);
  else
    bubbletop_end(&range->span);
}

/* A payload may tell a communicator's id, size and place: those of ncclCommInitRank and its like do. */
static void note_communicator(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload) {
  int64_t values[BT_NVTX_FIELDS] = {0, -1, -1, -1, -1};
  bt_nvtx_payload_read(domain, payload, values);
  if (values[BT_NVTX_COMMUNICATOR] == 0 || values[BT_NVTX_RANKS] <= 0 || values[BT_NVTX_RANK] < 0) return;
  bubbletop_session *session = session_of_process();
  if (session == NULL) return;
  bt_communicators_add(&nvtx.communicators, session, (uint64_t)values[BT_NVTX_COMMUNICATOR],
                       (int32_t)values[BT_NVTX_RANK], (int32_t)values[BT_NVTX_RANKS], NULL);
}

/* ---- push and pop ---- */

static int next_level(const thread_state *state, bt_nvtx_domain_handle domain) {
  for (int i = state->depth - 1; i >= 0; i--) {
    if (state->entries[i].domain == domain) return state->entries[i].level + 1;
  }
  return 0;
}

int bt_nvtx_push(bt_nvtx_domain_handle domain, const bt_nvtx_match *match, const bt_nvtx_payload *payload) {
  thread_state *state = state_of_thread();
  if (state == NULL) return BT_NVTX_NO_PUSH_POP;
  if (state->depth == MAX_DEPTH) return MAX_DEPTH + state->beyond++;
  entry *top = &state->entries[state->depth];
  *top = (entry){.domain = domain, .level = next_level(state, domain), .range = NO_SPAN};
  state->depth++;
  if (match->what == BT_NVTX_NOTHING || state->free_ranges == 0) return top->level;
  if (payload != NULL && domain->is_nccl) note_communicator(domain, payload);
  int free_range = __builtin_ctz(state->free_ranges);
  if (begin(&state->ranges[free_range], domain, match, payload)) {
    state->free_ranges &= ~(1u << free_range);
    top->range = (uint8_t)free_range;
  }
  return top->level;
}

int bt_nvtx_pop(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload) {
  thread_state *state = mine;
  if (payload != NULL && domain->is_nccl) note_communicator(domain, payload);
  if (state == NULL) return BT_NVTX_NO_PUSH_POP;
  if (state->beyond > 0) return MAX_DEPTH + --state->beyond;
  int at = state->depth - 1;
  while (at >= 0 && state->entries[at].domain != domain)
    at--;
  if (at < 0) return BT_NVTX_NO_PUSH_POP;
  entry ended = state->entries[at];
  state->depth--;
  if (at < state->depth)
    memmove(&state->entries[at], &state->entries[at + 1], (size_t)(state->depth - at) * sizeof ended);
  if (ended.range != NO_SPAN) {
    finish(&state->ranges[ended.range]);
    state->free_ranges |= 1u << ended.range;
  }
  return ended.level;
}

/* ---- start and end ---- */

/* A free place, taken; NULL: there is none. */
static started *take_started(uint32_t *index) {
  uint32_t from = __atomic_fetch_add(&nvtx.next_started, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < MAX_STARTED; i++) {
    *index = (from + i) % MAX_STARTED;
    started *place = &nvtx.started[*index];
    uint32_t seen = __atomic_load_n(&place->state, __ATOMIC_RELAXED);
    if ((seen & 1) == 0 &&
        __atomic_compare_exchange_n(&place->state, &seen, (seen + 2) | 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return place;
  }
  return NULL;
}

uint64_t bt_nvtx_start(bt_nvtx_domain_handle domain, const bt_nvtx_match *match, const bt_nvtx_payload *payload,
                       uint64_t chained) {
  uint32_t index = 0;
  started *place = match->what != BT_NVTX_NOTHING ? take_started(&index) : NULL;
  if (place == NULL) return chained;
  place->chained = chained;
  if (!begin(&place->range, domain, match, payload)) {
    __atomic_fetch_and(&place->state, ~1u, __ATOMIC_RELEASE);
    return chained;
  }
  uint64_t generation = __atomic_load_n(&place->state, __ATOMIC_RELAXED) >> 1;
  return ID_MARK | (generation * MAX_STARTED + index) % (UINT64_C(1) << 40);
}

uint64_t bt_nvtx_end(uint64_t id) {
  if ((id & ID_MARK_MASK) != ID_MARK) return id;
  uint64_t rest = id & ~ID_MARK_MASK;
  started *place = &nvtx.started[rest % MAX_STARTED];
  uint32_t state = __atomic_load_n(&place->state, __ATOMIC_ACQUIRE);
  uint64_t generation = state >> 1;
  bool same = (generation * MAX_STARTED + rest % MAX_STARTED) % (UINT64_C(1) << 40) == rest;
  /* whoever clears the bit ends it: a second end finds it cleared */
  if (!same || (state & 1) == 0) return id;
  open_range range = place->range;
  uint64_t chained = place->chained;
  if (!__atomic_compare_exchange_n(&place->state, &state, state & ~1u, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    return id;
  finish(&range);
  return chained;
}

void bt_nvtx_mark(const bt_nvtx_match *match) {
  if (match->what != BT_NVTX_STEP) return;
  bubbletop_session *session = session_of_process();
  if (session != NULL) begin_step(session, match);
}

/* ---- texts ---- */

static uint64_t hash_of(const char *text, bt_nvtx_domain_handle domain) {
  const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
  uint64_t hash = (uint64_t)(uintptr_t)domain * odd;
  size_t length = strlen(text);
  uint64_t part = 0;
  for (; length >= sizeof part; length -= sizeof part, text += sizeof part) {
    memcpy(&part, text, sizeof part);
    hash = (hash ^ part) * odd;
    hash ^= hash >> 29;
  }
  part = length;
  memcpy((char *)&part + 1, text, length);
  hash = (hash ^ part) * odd;
  hash ^= hash >> 32;
  return hash | 1;
}

const bt_nvtx_match *bt_nvtx_match_cached(bt_nvtx_domain_handle domain, const char *text) {
  static const bt_nvtx_match nothing;
  thread_state *state = state_of_thread();
  if (state == NULL || text == NULL) return &nothing;
  uint64_t hash = hash_of(text, domain);
  cached *place = &state->cache[hash >> 1 & (CACHE - 1)];
  if (place->hash != hash) {
    bt_nvtx_match_in(nvtx.rules, domain, text, &place->match);
    place->hash = hash;
  }
  return &place->match;
}
