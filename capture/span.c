/* Spans: the hot path. See capture/producer.h for how a record gets into a ring. */
#include "capture/span.h"
#include "capture/bubbletop.h"
#include "capture/clock.h"
#include "capture/process.h"
#include "capture/producer.h"
#include "capture/threads.h"

/* What lies in bubbletop_span.opaque. The token is the producer's, or one of the two below; TOKEN_ENDED is set in it
 * once the span has ended. */
enum { SPAN_TOKEN, SPAN_PRODUCER, SPAN_OPEN, SPAN_START, SPAN_RECORD, SPAN_WORDS = SPAN_RECORD + 5 };
enum { TOKEN_NONE = 0, TOKEN_SILENT = 1, TOKEN_ENDED = 1 << 15 };

_Static_assert(SPAN_WORDS <= sizeof(bubbletop_span) / sizeof(uint64_t), "a span holds its record");
_Static_assert((int)BT_RING_MAX_RINGS < (int)TOKEN_ENDED, "ring ids leave a bit of the token free");

#define KIND(kind) (UINT64_C(1) << (kind))
static const uint64_t compute_kinds = KIND(BUBBLETOP_F) | KIND(BUBBLETOP_B) | KIND(BUBBLETOP_W) | KIND(BUBBLETOP_BW) |
                                      KIND(BUBBLETOP_FB) | KIND(BUBBLETOP_RECOMPUTE) | KIND(BUBBLETOP_OPTIMIZER) |
                                      KIND(BUBBLETOP_OTHER);
static const uint64_t comm_kinds = KIND(BUBBLETOP_SEND_F) | KIND(BUBBLETOP_RECV_F) | KIND(BUBBLETOP_SEND_B) |
                                   KIND(BUBBLETOP_RECV_B) | KIND(BUBBLETOP_SEND) | KIND(BUBBLETOP_RECV) |
                                   KIND(BUBBLETOP_ALL_REDUCE) | KIND(BUBBLETOP_REDUCE_SCATTER) |
                                   KIND(BUBBLETOP_ALL_GATHER) | KIND(BUBBLETOP_ALL_TO_ALL) | KIND(BUBBLETOP_BROADCAST);
static const uint64_t span_kinds = compute_kinds | comm_kinds | KIND(BUBBLETOP_HOST);

static inline bool is_one_of(uint64_t kinds, bubbletop_kind kind) {
  return (unsigned)kind < 64 && (kinds >> (unsigned)kind & 1) != 0;
}

/* The caller's producer if a record is wanted now. */
static inline bt_producer *wanted(bubbletop_session *session) {
  bt_producer *producer = bt_producer_of(session);
  if (bt_unlikely(producer == NULL || __atomic_load_n(&session->quiet, __ATOMIC_RELAXED))) return NULL;
  return producer;
}

static inline bt_record plain_record(bubbletop_kind kind, bubbletop_where where) {
  bool both = kind == BUBBLETOP_FB;
  return bt_record_at((unsigned)kind, where.lane, where.chunk, both ? where.chunk_b : -1, where.microbatch,
                      both ? where.microbatch_b : -1);
}

static inline bt_record comm_record(bubbletop_kind kind, bubbletop_where where, const bubbletop_comm *comm) {
  bt_record record = plain_record(kind, where);
  record.other = (uint32_t)comm->peer | (uint64_t)comm->group << 32;
  record.sequence = (uint64_t)comm->sequence;
  record.bytes = (uint64_t)comm->bytes & BT_NO_BYTES;
  return record;
}

static inline bt_record gate_record(bubbletop_where where, const bubbletop_gate_on *on) {
  bt_record record = bt_record_at(BT_GATE, where.lane, where.chunk, (int)on->kind, where.microbatch, on->count);
  record.other = (uint32_t)on->peer | (uint64_t)on->group << 32;
  record.sequence = (uint64_t)on->sequence;
  return record;
}

/* 48 bits of bytes; what is beyond cannot be meant. */
static inline bool good_comm(bubbletop_kind kind, const bubbletop_comm *comm) {
  return is_one_of(comm_kinds, kind) && comm != NULL && comm->size >= sizeof *comm && comm->peer >= -1 &&
         comm->bytes >= -1 && comm->bytes < INT64_C(1) << 47 && comm->sequence >= -1;
}

static inline bool good_gate(const bubbletop_gate_on *on) {
  return on != NULL && on->size >= sizeof *on && is_one_of(comm_kinds, on->kind) && on->peer >= -1 &&
         on->sequence >= -1 && on->count >= 1;
}

static inline __attribute__((always_inline)) void keep(bubbletop_span *span, bt_producer *producer, bt_record record) {
  uint32_t entry = bt_open_take(producer);
  span->opaque[SPAN_TOKEN] = producer->token;
  span->opaque[SPAN_PRODUCER] = (uint64_t)(uintptr_t)producer;
  span->opaque[SPAN_OPEN] = entry;
  span->opaque[SPAN_RECORD + 0] = record.code;
  span->opaque[SPAN_RECORD + 1] = record.where;
  span->opaque[SPAN_RECORD + 2] = record.other;
  span->opaque[SPAN_RECORD + 3] = record.sequence;
  span->opaque[SPAN_RECORD + 4] = record.bytes;
  int64_t start = bt_now();
  span->opaque[SPAN_START] = (uint64_t)start;
  if (bt_likely(entry != BT_NOT_OPEN)) bt_open_fill(producer, entry, start, record);
}

static inline bt_record record_of(const bubbletop_span *span) {
  return (bt_record){span->opaque[SPAN_RECORD + 0], span->opaque[SPAN_RECORD + 1], span->opaque[SPAN_RECORD + 2],
                     span->opaque[SPAN_RECORD + 3], span->opaque[SPAN_RECORD + 4]};
}

static void misused(bubbletop_session *session, bubbletop_span *span) {
  if (span != NULL) span->opaque[SPAN_TOKEN] = TOKEN_SILENT;
  bt_count(&session->misuse);
}

void bubbletop_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_kind kind, bubbletop_where where) {
  bt_producer *producer = wanted(session);
  if (bt_unlikely(producer == NULL))
    span->opaque[SPAN_TOKEN] = TOKEN_SILENT;
  else if (bt_likely(is_one_of(span_kinds, kind)))
    keep(span, producer, plain_record(kind, where));
  else
    misused(session, span);
}

void bubbletop_comm_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_kind kind, bubbletop_where where,
                          const bubbletop_comm *comm) {
  bt_producer *producer = wanted(session);
  if (bt_unlikely(producer == NULL))
    span->opaque[SPAN_TOKEN] = TOKEN_SILENT;
  else if (bt_likely(good_comm(kind, comm)))
    keep(span, producer, comm_record(kind, where, comm));
  else
    misused(session, span);
}

void bubbletop_gate_begin(bubbletop_session *session, bubbletop_span *span, bubbletop_where where,
                          const bubbletop_gate_on *on) {
  bt_producer *producer = wanted(session);
  if (bt_unlikely(producer == NULL))
    span->opaque[SPAN_TOKEN] = TOKEN_SILENT;
  else if (bt_likely(good_gate(on)))
    keep(span, producer, gate_record(where, on));
  else
    misused(session, span);
}

/* Counts what was wrong with the end, at the session that the span was of, or any if it was of none. */
static void ended_wrongly(uint64_t serial) {
  bt_process_lock();
  bubbletop_session *session = bt_process_find(serial);
  if (session != NULL) bt_count(serial != 0 ? &session->double_ends : &session->unbegun_ends);
  bt_process_unlock();
}

/* The end of a span that another thread began, or that this thread began in another session than it used last, or that
 * has nothing to end. */
static __attribute__((noinline)) void end_elsewhere(bubbletop_span *span) {
  uint64_t token = span->opaque[SPAN_TOKEN];
  if (token == TOKEN_SILENT) return;
  int64_t now = bt_now();
  if (token == TOKEN_NONE || (token & TOKEN_ENDED) != 0) {
    ended_wrongly(token >> 16);
    return;
  }
  span->opaque[SPAN_TOKEN] = token | TOKEN_ENDED;
  bt_producer *producer = bt_threads_attach_serial(token >> 16);
  if (producer == NULL) return;
  /* the session is open, so what the span points to is still there */
  bt_producer *origin = (bt_producer *)(uintptr_t)span->opaque[SPAN_PRODUCER];
  uint64_t entry = span->opaque[SPAN_OPEN];
  if (entry != BT_NOT_OPEN) {
    bt_open_clear(origin->ring, entry);
    if (origin == producer)
      producer->free_open |= 1u << entry;
    else
      __atomic_fetch_or(&origin->returned_open, 1u << entry, __ATOMIC_RELEASE);
  }
  int64_t start = (int64_t)span->opaque[SPAN_START];
  bt_producer_push(producer, start, now - start, record_of(span));
}

void bubbletop_end(bubbletop_span *span) {
  bt_producer *producer = bt_thread_producer;
  uint64_t token = span->opaque[SPAN_TOKEN];
  if (bt_unlikely(producer == NULL || __atomic_load_n(&producer->token, __ATOMIC_RELAXED) != token)) {
    end_elsewhere(span);
    return;
  }
  int64_t now = bt_now();
  uint64_t entry = span->opaque[SPAN_OPEN];
  if (bt_likely(entry != BT_NOT_OPEN)) {
    bt_open_clear(producer->ring, entry);
    producer->free_open |= 1u << entry;
  }
  int64_t start = (int64_t)span->opaque[SPAN_START];
  bt_producer_push(producer, start, now - start, record_of(span));
  span->opaque[SPAN_TOKEN] = token | TOKEN_ENDED;
}

void bubbletop_tokens(bubbletop_span *span, int64_t tokens) {
  uint64_t token = span->opaque[SPAN_TOKEN];
  if (token == TOKEN_SILENT) return;
  bool compute = is_one_of(compute_kinds, (bubbletop_kind)(span->opaque[SPAN_RECORD] & 0xff));
  if (token != TOKEN_NONE && (token & TOKEN_ENDED) == 0 && compute && tokens >= -1) {
    span->opaque[SPAN_RECORD + 3] = (uint64_t)tokens;
    return;
  }
  bt_process_lock();
  bubbletop_session *session = bt_process_find(token >> 16);
  if (session != NULL) bt_count(&session->misuse);
  bt_process_unlock();
}

void bubbletop_complete(bubbletop_session *session, bubbletop_kind kind, bubbletop_where where, int64_t start,
                        int64_t end) {
  bt_producer *producer = wanted(session);
  if (producer == NULL) return;
  if (end >= start && is_one_of(span_kinds, kind))
    bt_producer_push(producer, start, end - start, plain_record(kind, where));
  else
    misused(session, NULL);
}

void bubbletop_comm_complete(bubbletop_session *session, bubbletop_kind kind, bubbletop_where where,
                             const bubbletop_comm *comm, int64_t start, int64_t end) {
  bt_producer *producer = wanted(session);
  if (producer == NULL) return;
  if (end >= start && good_comm(kind, comm))
    bt_producer_push(producer, start, end - start, comm_record(kind, where, comm));
  else
    misused(session, NULL);
}

void bubbletop_gate_complete(bubbletop_session *session, bubbletop_where where, const bubbletop_gate_on *on,
                             int64_t start, int64_t end) {
  bt_producer *producer = wanted(session);
  if (producer == NULL) return;
  if (end >= start && good_gate(on))
    bt_producer_push(producer, start, end - start, gate_record(where, on));
  else
    misused(session, NULL);
}

/* True if `good`, which is counted otherwise. */
static bool checked(bubbletop_session *session, bool good) {
  if (!good) bt_count(&session->misuse);
  return good;
}

bool bt_span_is_wanted(bubbletop_session *session) {
  return wanted(session) != NULL;
}

bool bt_span_record(bubbletop_session *session, bt_record *record, bubbletop_kind kind, bubbletop_where where) {
  if (wanted(session) == NULL || !checked(session, is_one_of(span_kinds, kind))) return false;
  *record = plain_record(kind, where);
  return true;
}

bool bt_span_record_comm(bubbletop_session *session, bt_record *record, bubbletop_kind kind, bubbletop_where where,
                         const bubbletop_comm *comm) {
  if (wanted(session) == NULL || !checked(session, good_comm(kind, comm))) return false;
  *record = comm_record(kind, where, comm);
  return true;
}

bool bt_span_record_gate(bubbletop_session *session, bt_record *record, bubbletop_where where,
                         const bubbletop_gate_on *on) {
  if (wanted(session) == NULL || !checked(session, good_gate(on))) return false;
  *record = gate_record(where, on);
  return true;
}

void bt_span_begin(bubbletop_session *session, bubbletop_span *span, bt_record record) {
  bt_producer *producer = wanted(session);
  if (producer != NULL)
    keep(span, producer, record);
  else
    span->opaque[SPAN_TOKEN] = TOKEN_SILENT;
}

int64_t bubbletop_now(void) {
  return bt_now();
}
