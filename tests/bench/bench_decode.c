/* Decoding: events a second against msgpack-c's own unpacker on the same payload bytes, in one run.
 *
 * Prints the ratio of the decoder alone, and of the decoder with everything up to the trace model. Target: the latter at
 * least 1.5 times as fast as msgpack_unpack_next, which makes objects and knows nothing of events. */
#include <malloc.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "formats/trace.h"
#include "formats/wire/decode.h"
#include "formats/wire/encode.h"

enum { EVENTS = 2 * 1000 * 1000, REPEATS = 4, BLOCKS_MAX = 1024 };

static const uint8_t marker[BT_MARKER_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8};

typedef struct stream {
  uint8_t *bytes;
  size_t length;
} stream;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* single-threaded; others may be using the machine */
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* A 1F1B rank: F, B, and two messages each, GPU-timed. */
static void make_event(bt_event *event, uint32_t i, int64_t *clock) {
  static const uint8_t codes[] = {BT_RECV_F, BT_F, BT_SEND_F, BT_RECV_B, BT_B, BT_SEND_B};
  bt_event_init(event, (bt_code)codes[i % 6]);
  event->start = *clock + 1000 + i % 977 * 100;
  event->duration = 100000 + i % 6143 * 500;
  event->microbatch = (int32_t)(i / 6 % 128);
  event->chunk = 0;
  event->flags = BT_FLAG_GPU_TIMED;
  if (bt_code_is_comm(event->code)) {
    event->peer = 3;
    event->group = 1;
    event->bytes = 33554432;
    event->sequence = i / 6;
  }
  *clock = bt_event_end(event);
}

static void append(stream *out, bt_encoder *encoder) {
  out->length += bt_encoder_finish(encoder, marker, out->bytes + out->length);
  bt_encoder_begin(encoder, 1, encoder->first + encoder->count);
}

static int make_stream(stream *out) {
  bt_encoder *encoder = malloc(sizeof *encoder);
  out->bytes = malloc((size_t)BLOCKS_MAX * BT_BLOCK_MAX);
  if (encoder == NULL || out->bytes == NULL) {
    free(encoder);
    return -1;
  }
  bt_encoder_begin(encoder, 1, 0);
  int64_t clock = INT64_C(1000000000000);
  for (uint32_t i = 0; i < EVENTS; i++) {
    bt_event event;
    make_event(&event, i, &clock);
    if (bt_encoder_add(encoder, &event) == BT_FULL) {
      append(out, encoder);
      bt_encoder_add(encoder, &event);
    }
  }
  append(out, encoder);
  free(encoder);
  return 0;
}

static bt_status count_event(void *context, uint64_t number, const bt_event *event) {
  (void)number;
  *(int64_t *)context += event->duration;
  return BT_OK;
}

typedef struct adder {
  bt_trace *trace;
  bt_rank *rank;
} adder;

static bt_status add_event(void *context, uint64_t number, const bt_event *event) {
  (void)number;
  adder *to = context;
  return bt_trace_add(to->trace, to->rank, 0, 1, event);
}

/* Blocks checked and their records handed to `fn`; returns the events. */
static uint64_t decode(const stream *in, bt_record_fn *fn, void *context) {
  uint64_t events = 0;
  for (size_t at = 0, used = 0; at < in->length; at += used) {
    bt_block block;
    if (bt_block_decode(in->bytes + at, in->length - at, marker, &block, &used) != BT_OK ||
        bt_block_records(&block, fn, context) != BT_OK)
      return 0;
    events += block.count;
  }
  return events;
}

static double time_decoder(const stream *in) {
  double best = 1e18;
  for (int i = 0; i < REPEATS; i++) {
    int64_t sum = 0;
    double begin = now();
    if (decode(in, count_event, &sum) != EVENTS || sum == 0) return -1;
    double took = now() - begin;
    best = took < best ? took : best;
  }
  return best / EVENTS;
}

static double time_trace(const stream *in) {
  double best = 1e18;
  for (int i = 0; i < REPEATS; i++) {
    adder to;
    if (bt_trace_new(&to.trace) != BT_OK) return -1;
    to.rank = bt_trace_rank(to.trace, 0);
    double begin = now();
    bool good = to.rank != NULL && decode(in, add_event, &to) == EVENTS &&
                bt_trace_settle(to.trace, to.rank, INT64_MAX) == BT_OK && to.trace->span_count == EVENTS;
    double took = now() - begin;
    bt_trace_free(to.trace);
    if (!good) return -1;
    best = took < best ? took : best;
  }
  return best / EVENTS;
}

/* msgpack_unpack_next over the payloads alone: no checksum, no events. */
static double time_msgpack(const stream *in) {
  double best = 1e18;
  for (int i = 0; i < REPEATS; i++) {
    uint64_t objects = 0;
    double begin = now();
    msgpack_unpacked result;
    msgpack_unpacked_init(&result);
    for (size_t at = 0, used = 0; at < in->length; at += used) {
      bt_block block;
      if (bt_block_decode(in->bytes + at, in->length - at, marker, &block, &used) != BT_OK) return -1;
      size_t offset = 0;
      while (msgpack_unpack_next(&result, (const char *)block.payload, block.payload_length, &offset) ==
             MSGPACK_UNPACK_SUCCESS)
        objects++;
    }
    msgpack_unpacked_destroy(&result);
    double took = now() - begin;
    if (objects != EVENTS) return -1;
    best = took < best ? took : best;
  }
  return best / EVENTS;
}

int main(void) {
  mallopt(M_MMAP_THRESHOLD, 256 * 1024); /* as the program does */
  stream in = {.bytes = NULL};
  if (make_stream(&in) != 0) return 1;
  double decoder = time_decoder(&in), trace = time_trace(&in), msgpack = time_msgpack(&in);
  if (decoder < 0 || trace < 0 || msgpack < 0) {
    printf("decode: failed\n");
    return 1;
  }
  printf("decode: %.2f bytes an event; msgpack_unpack_next %.1f ns an event\n", (double)in.length / EVENTS, msgpack);
  printf("decode: into events %.1f ns, %.2f times as fast\n", decoder, msgpack / decoder);
  printf("decode: into the trace model %.1f ns, %.2f times as fast (target 1.50)\n", trace, msgpack / trace);
  free(in.bytes);
  return 0;
}
