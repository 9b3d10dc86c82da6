#include "capture/writer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/clock.h"
#include "capture/identity.h"
#include "capture/producer.h"

enum {
  SECOND = 1000000000,
  MILLISECOND = 1000000,
  HEARTBEAT_NS = 1500 * MILLISECOND, /* readers call a writer silent after 2 s */
  SHORTEST_NAP_MS = 1,
  FIRST_BACKOFF_MS = 10,
  LAST_BACKOFF_MS = 1000
};
static const int64_t clock_pair_ns = INT64_C(10) * SECOND;
static const int64_t open_check_ns = INT64_C(250) * MILLISECOND;

struct bt_writer {
  bubbletop_session *session;
  bool block_open;
  bool segment_begun; /* the definitions stand at its head; segment 0 begins without any */
  bool ended; /* the end record is encoded */
  bool busy; /* a ring was over a quarter full */
  uint64_t own_number; /* of the next record of ring 0 */
  uint64_t refused_taken;
  int64_t next_heartbeat, next_clock, next_open, next_segment;
  uint64_t written; /* atomic */
  bt_encoder encoder;
  bt_ring_reader reader;
  bt_sink sink;
};

bt_writer *bt_writer_new(bubbletop_session *session) {
  bt_writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL) return NULL;
  writer->session = session;
  writer->sink.fd = writer->sink.directory = -1;
  writer->segment_begun = true;
  return writer;
}

void bt_writer_free(bt_writer *writer) {
  if (writer == NULL) return;
  bt_sink_close(&writer->sink);
  free(writer);
}

void bt_writer_forget(bt_writer *writer) {
  bt_sink_close(&writer->sink);
}

bt_sink *bt_writer_sink(bt_writer *writer) {
  return &writer->sink;
}

uint64_t bt_writer_written(const bt_writer *writer) {
  return __atomic_load_n(&writer->written, __ATOMIC_RELAXED);
}

static uint32_t producer_count(const bubbletop_session *session) {
  return __atomic_load_n(&session->producer_count, __ATOMIC_ACQUIRE);
}

/* What was taken is in the file now: its slots may be used again. */
static void commit(bt_writer *writer) {
  bubbletop_session *session = writer->session;
  uint64_t written = 0;
  for (uint32_t i = 0; i < producer_count(session); i++) {
    bt_producer *producer = session->producers[i];
    bt_ring_head *ring = producer->ring;
    written += producer->taken_records;
    if (ring->tail != producer->taken) __atomic_store_n(&ring->tail, producer->taken, __ATOMIC_RELEASE);
    if (ring->dropped_reported != producer->taken_dropped)
      __atomic_store_n(&ring->dropped_reported, producer->taken_dropped, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&writer->written, written, __ATOMIC_RELAXED);
}

/* No block is open. */
static bt_status send_out(bt_writer *writer) {
  bt_status status = bt_sink_send(&writer->sink);
  if (status == BT_OK) commit(writer);
  return status;
}

static bt_status make_room(bt_writer *writer) {
  return bt_sink_room(&writer->sink) < BT_BLOCK_MAX ? send_out(writer) : BT_OK;
}

static void close_block(bt_writer *writer) {
  if (!writer->block_open) return;
  bt_sink *sink = &writer->sink;
  writer->block_open = false;
  sink->filled += bt_encoder_finish(&writer->encoder, sink->header.marker, sink->out + sink->filled);
}

static bt_status add_definition(void *context, const bt_event *event) {
  bt_writer *writer = context;
  bt_status status = bt_encoder_add(&writer->encoder, event);
  if (status == BT_FULL) return status;
  if (status == BT_OK) writer->own_number++;
  return BT_OK; /* one that cannot be encoded is left out */
}

/* Groups, layout and meta: all of them (at the head of a segment), or those that found no room in a ring. The file is
 * written between the calls, not within: others must not wait for it to make a definition. */
static bt_status put_definitions(bt_writer *writer, bool all, int64_t now) {
  size_t from = 0;
  bt_status status = BT_FULL;
  while (status == BT_FULL) {
    status = make_room(writer);
    if (status != BT_OK) return status;
    bt_encoder_begin(&writer->encoder, BT_WRITER_RING, writer->own_number);
    status = bt_definitions_each(&writer->session->definitions, all, &from, add_definition, writer, now);
    writer->block_open = true;
    close_block(writer);
  }
  return status;
}

static bt_status begin_segment(bt_writer *writer, int64_t now) {
  bt_sink *sink = &writer->sink;
  bt_status status = send_out(writer);
  if (status != BT_OK) return status;
  pthread_mutex_lock(&writer->session->definitions.lock);
  sink->header.layout = writer->session->definitions.layout;
  pthread_mutex_unlock(&writer->session->definitions.lock);
  if (bt_sink_next_segment(sink, now) == BT_OK) {
    bt_sink_trim(sink);
    writer->segment_begun = false;
  } else {
    writer->next_segment = now + SECOND; /* the old one goes on meanwhile */
  }
  return BT_OK;
}

/* Leaves an open block whose next record is number `first` of `ring`, in a segment with room. */
static bt_status open_block(bt_writer *writer, uint32_t ring, uint64_t first) {
  bt_status status = make_room(writer);
  int64_t now = 0;
  if (status == BT_OK && bt_sink_segment_full(&writer->sink, 0) && (now = bt_now()) >= writer->next_segment)
    status = begin_segment(writer, now);
  if (status == BT_OK && !writer->segment_begun) {
    status = put_definitions(writer, true, bt_now());
    writer->segment_begun = status == BT_OK;
    if (status == BT_OK) status = make_room(writer);
  }
  if (status != BT_OK) return status;
  bt_encoder_begin(&writer->encoder, ring, ring == BT_WRITER_RING ? writer->own_number : first);
  writer->block_open = true;
  writer->sink.has_records = true;
  return BT_OK;
}

/* A record of the writer's own, into its open block if there is one. */
static bt_status add_own(bt_writer *writer, const bt_event *event) {
  bt_status status = BT_FULL;
  if (writer->block_open) status = bt_encoder_add(&writer->encoder, event);
  if (status == BT_FULL) {
    close_block(writer);
    status = open_block(writer, BT_WRITER_RING, 0);
    if (status == BT_OK) status = bt_encoder_add(&writer->encoder, event);
  }
  if (status == BT_OK) writer->own_number++;
  return status == BT_ERR_IO ? status : BT_OK;
}

static bt_status add_times(bt_writer *writer, int64_t now) {
  bt_status status = BT_OK;
  bt_event event;
  if (now >= writer->next_clock) {
    bt_event_init(&event, BT_CLOCK);
    bt_clock_pair_now(&event.start, &event.real);
    status = add_own(writer, &event);
    if (status == BT_OK) writer->next_clock = now + clock_pair_ns;
  }
  if (status == BT_OK && now >= writer->next_heartbeat) {
    bt_event_init(&event, BT_HEARTBEAT);
    event.start = now;
    for (uint32_t i = 0; i < producer_count(writer->session); i++)
      event.number += __atomic_load_n(&writer->session->producers[i]->ring->number, __ATOMIC_RELAXED);
    status = add_own(writer, &event);
    if (status == BT_OK) writer->next_heartbeat = now + HEARTBEAT_NS;
  }
  return status;
}

static bt_status add_anchors(bt_writer *writer) {
  bubbletop_session *session = writer->session;
  bt_status status = BT_OK;
  uint32_t tail = session->anchor_tail;
  while (status == BT_OK && tail != __atomic_load_n(&session->anchor_head, __ATOMIC_ACQUIRE)) {
    const bt_anchor *anchor = &session->anchors[tail % BT_SESSION_ANCHORS];
    bt_event event;
    bt_event_init(&event, BT_ANCHOR);
    event.start = anchor->time;
    event.real = anchor->half_width;
    event.number = anchor->base;
    status = add_own(writer, &event);
    if (status == BT_OK) __atomic_store_n(&session->anchor_tail, ++tail, __ATOMIC_RELEASE);
  }
  return status;
}

static bt_status add_dropped(bt_writer *writer, uint32_t ring, uint64_t number, int64_t from, int64_t to) {
  bt_event event;
  bt_event_init(&event, BT_DROPPED);
  event.ring = ring;
  event.number = number;
  event.start = from;
  event.duration = to > from ? to - from : 0;
  return add_own(writer, &event);
}

static bt_status add_drops(bt_writer *writer) {
  bubbletop_session *session = writer->session;
  bt_status status = BT_OK;
  for (uint32_t i = 0; status == BT_OK && i < producer_count(session); i++) {
    bt_producer *producer = session->producers[i];
    bt_ring_head *ring = producer->ring;
    uint64_t dropped = __atomic_load_n(&ring->dropped, __ATOMIC_ACQUIRE);
    if (dropped == producer->taken_dropped) continue;
    status = add_dropped(writer, ring->id, dropped - producer->taken_dropped,
                         __atomic_load_n(&ring->dropped_from, __ATOMIC_RELAXED),
                         __atomic_load_n(&ring->dropped_to, __ATOMIC_RELAXED));
    if (status == BT_OK) producer->taken_dropped = dropped;
  }
  uint64_t refused = __atomic_load_n(&session->refused, __ATOMIC_ACQUIRE);
  if (status != BT_OK || refused == writer->refused_taken) return status;
  status = add_dropped(writer, BT_WRITER_RING, refused - writer->refused_taken,
                       __atomic_load_n(&session->refused_from, __ATOMIC_RELAXED),
                       __atomic_load_n(&session->refused_to, __ATOMIC_RELAXED));
  if (status == BT_OK) writer->refused_taken = refused;
  return status;
}

/* Spans open for over a second, again each second; at the close all of them. */
static bt_status add_open(bt_writer *writer, int64_t now, bool all, unsigned *count) {
  bt_status status = BT_OK;
  for (uint32_t i = 0; status == BT_OK && i < producer_count(writer->session); i++) {
    bt_producer *producer = writer->session->producers[i];
    for (uint32_t entry = 0; status == BT_OK && entry < BT_OPEN_SLOTS; entry++) {
      bt_event event;
      if (bt_ring_open_span(producer->ring, entry, &event) != BT_OK || event.start > now) continue;
      event.duration = now - event.start;
      bool again = producer->open_seen[entry] == event.start && now - producer->open_reported[entry] < SECOND;
      if (!all && (event.duration < SECOND || again)) continue;
      status = add_own(writer, &event);
      if (status != BT_OK) break;
      producer->open_seen[entry] = event.start;
      producer->open_reported[entry] = now;
      (*count)++;
    }
  }
  return status;
}

/* All but the spans: what the writer knows. */
static bt_status add_own_records(bt_writer *writer, int64_t now) {
  unsigned open = 0;
  bt_status status = put_definitions(writer, !writer->segment_begun, now);
  if (status == BT_OK) writer->segment_begun = true;
  if (status == BT_OK) status = add_times(writer, now);
  if (status == BT_OK) status = add_anchors(writer);
  if (status == BT_OK) status = add_drops(writer);
  if (status == BT_OK && now >= writer->next_open) {
    status = add_open(writer, now, false, &open);
    writer->next_open = now + open_check_ns;
  }
  close_block(writer);
  return status;
}

/* Record `number` of `ring`, into the open block if it goes on there. */
static bt_status add_record(bt_writer *writer, uint32_t ring, uint64_t number, const bt_event *event) {
  const bt_encoder *encoder = &writer->encoder;
  if (writer->block_open &&
      (number != encoder->first + encoder->count || bt_sink_segment_full(&writer->sink, encoder->length)))
    close_block(writer);
  bt_status status = BT_FULL;
  while (status == BT_FULL) {
    if (!writer->block_open && (status = open_block(writer, ring, number)) != BT_OK) return status;
    bool fresh = encoder->count == 0;
    status = bt_encoder_add(&writer->encoder, event);
    if (status == BT_OK) return status;
    close_block(writer);
    if (fresh) break;
  }
  return BT_OK; /* one that cannot be encoded is left out; the next begins a block */
}

/* Up to where the head is now: a thread that records faster than this must not keep the writer here. */
static bt_status drain(bt_writer *writer, bt_producer *producer) {
  bt_ring_reader *reader = &writer->reader;
  uint64_t head = __atomic_load_n(&producer->ring->head, __ATOMIC_ACQUIRE);
  bt_status status = BT_OK;
  if (head - producer->taken > producer->capacity / 4) writer->busy = true;
  bt_ring_reader_own(reader, producer->ring, (uint32_t)producer->capacity);
  reader->position = reader->end = producer->taken;
  while (status == BT_OK && (int64_t)(head - reader->position) > 0) {
    bt_event event;
    uint64_t number = 0;
    bt_status got = bt_ring_reader_next(reader, &number, &event);
    if (got == BT_AGAIN) break;
    if (got == BT_OK) status = add_record(writer, producer->ring->id, number, &event);
    if (status != BT_OK) break;
    producer->taken = reader->position;
    producer->taken_records += got == BT_OK;
  }
  close_block(writer);
  return status;
}

static bt_status drain_all(bt_writer *writer) {
  bt_status status = BT_OK;
  for (uint32_t i = 0; status == BT_OK && i < producer_count(writer->session); i++)
    status = drain(writer, writer->session->producers[i]);
  return status;
}

static bt_status add_end(bt_writer *writer, int64_t now) {
  bt_event event;
  unsigned open = 0;
  bt_status status = add_open(writer, now, true, &open);
  if (status == BT_OK) status = add_drops(writer);
  bt_event_init(&event, BT_END_OF_STREAM);
  event.start = now;
  event.text = writer->session->exiting ? "exit" : "closed";
  event.text_length = (uint32_t)strlen(event.text);
  if (status == BT_OK) status = add_own(writer, &event);
  close_block(writer);
  if (status == BT_OK) writer->ended = true;
  return status;
}

/* Writes out all that is in the rings, and at the close the end. BT_ERR_IO: go on later. */
static bt_status pass(bt_writer *writer, bool closing) {
  bt_status status = send_out(writer);
  int64_t now = bt_now();
  writer->busy = false;
  if (status == BT_OK && !writer->ended) status = add_own_records(writer, now);
  if (status == BT_OK && !writer->ended) status = drain_all(writer);
  if (status == BT_OK && closing && !writer->ended) status = add_end(writer, bt_now());
  if (status == BT_OK) status = send_out(writer);
  if (status == BT_OK) bt_sink_sync(&writer->sink, now, closing);
  return status;
}

/* Session lock held. The flushes asked for so far are done, or have failed. */
static void answer(bubbletop_session *session, bt_status status, uint64_t wanted) {
  if (status == BT_OK) session->flush_done = wanted;
  pthread_cond_broadcast(&session->done);
}

/* Session lock held. Until `due`, or until somebody wants something that was not wanted yet. */
static void nap(bubbletop_session *session, int64_t due, uint64_t wanted, bool closing) {
  struct timespec until = bt_timespec(due);
  while (session->flush_wanted == wanted && (closing || session->state == BT_SESSION_OPEN)) {
    if (pthread_cond_timedwait(&session->wake, &session->lock, &until) != 0) break;
  }
}

static int64_t until_next(const bt_writer *writer, bt_status status, uint32_t *nap_ms, uint32_t *backoff_ms) {
  const bt_config *config = &writer->session->config;
  int64_t now = bt_now();
  if (status != BT_OK) {
    int64_t due = now + (int64_t)*backoff_ms * MILLISECOND;
    *backoff_ms = *backoff_ms * 2 < LAST_BACKOFF_MS ? *backoff_ms * 2 : LAST_BACKOFF_MS;
    return due;
  }
  *backoff_ms = FIRST_BACKOFF_MS;
  if (writer->busy)
    *nap_ms = *nap_ms / 2 > SHORTEST_NAP_MS ? *nap_ms / 2 : SHORTEST_NAP_MS;
  else
    *nap_ms = *nap_ms * 2 < config->flush_ms ? *nap_ms * 2 : config->flush_ms;
  int64_t due = now + (int64_t)*nap_ms * MILLISECOND;
  return due < writer->next_heartbeat ? due : writer->next_heartbeat;
}

/* Session lock held, and given up. Whoever is left frees the session. */
static void leave(bubbletop_session *session, bt_status status) {
  bool clean = status == BT_OK;
  session->result = clean ? BUBBLETOP_OK : BUBBLETOP_ERR_IO;
  bool abandoned = session->state == BT_SESSION_ABANDONED;
  session->state = BT_SESSION_CLOSED;
  bt_sink_close(&session->writer->sink);
  bt_ring_store_close(&session->rings, clean);
  pthread_cond_broadcast(&session->done);
  pthread_mutex_unlock(&session->lock);
  if (abandoned) bt_session_free(session);
}

void *bt_writer_main(void *argument) {
  bubbletop_session *session = argument;
  bt_writer *writer = session->writer;
  uint32_t nap_ms = session->config.flush_ms;
  uint32_t backoff_ms = FIRST_BACKOFF_MS;
  pthread_mutex_lock(&session->lock);
  while (true) {
    uint64_t wanted = session->flush_wanted;
    bool closing = session->state != BT_SESSION_OPEN;
    pthread_mutex_unlock(&session->lock);
    bt_status status = pass(writer, closing);
    int64_t due = until_next(writer, status, &nap_ms, &backoff_ms);
    pthread_mutex_lock(&session->lock);
    answer(session, status, wanted);
    if (closing && (status == BT_OK || bt_now() >= session->close_deadline)) {
      leave(session, status);
      return NULL;
    }
    if (closing && due > session->close_deadline) due = session->close_deadline;
    nap(session, due, wanted, closing);
  }
}
