#include "tests/wire/sample.h"

#include <msgpack/pack.h>
#include <string.h>

const uint8_t sample_codes[] = {BT_F,
                                BT_B,
                                BT_W,
                                BT_BW,
                                BT_FB,
                                BT_RECOMPUTE,
                                BT_OPTIMIZER,
                                BT_OTHER,
                                BT_SEND_F,
                                BT_RECV_F,
                                BT_SEND_B,
                                BT_RECV_B,
                                BT_SEND,
                                BT_RECV,
                                BT_ALL_REDUCE,
                                BT_REDUCE_SCATTER,
                                BT_ALL_GATHER,
                                BT_ALL_TO_ALL,
                                BT_BROADCAST,
                                BT_GATE,
                                BT_HOST,
                                BT_STEP_BEGIN,
                                BT_STEP_END,
                                BT_INSTANT,
                                BT_COUNTER,
                                BT_GROUP,
                                BT_META,
                                BT_CLOCK,
                                BT_ANCHOR,
                                BT_OPEN,
                                BT_DROPPED,
                                BT_HEARTBEAT,
                                BT_END_OF_STREAM,
                                BT_NONE};
_Static_assert(sizeof sample_codes == SAMPLE_CODES + 1, "each code once");

uint64_t sample_next(sample_random *random) { /* splitmix64 */
  uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint32_t sample_below(sample_random *random, uint32_t limit) {
  return (uint32_t)(sample_next(random) >> 32) % limit;
}

/* Of `bits` bits at most (the sign included), small ones more often; the ends of the range when `extreme`. */
static int64_t number(sample_random *random, unsigned bits, int64_t low, bool extreme) {
  int64_t high = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  uint32_t dice = sample_below(random, 16);
  if (extreme && dice == 0) return high;
  if (extreme && dice == 1) return low;
  uint64_t value = (sample_next(random) & (uint64_t)high) >> sample_below(random, bits - 1);
  return dice < 4 && low < -1 ? -(int64_t)value : (int64_t)value;
}

static int32_t number32(sample_random *random, bool extreme) {
  return (int32_t)number(random, 32, extreme ? INT32_MIN : -1, extreme);
}

static int16_t number16(sample_random *random, bool extreme) {
  return (int16_t)number(random, 16, extreme ? INT16_MIN : -1, extreme);
}

/* A start near the clock, or anywhere. */
static int64_t make_start(sample_random *random, int64_t *clock, bool extreme) {
  uint32_t dice = sample_below(random, 24);
  if (extreme && dice == 0) return INT64_MIN;
  if (extreme && dice == 1) return INT64_MAX;
  int64_t start = *clock + (int64_t)sample_below(random, 100000) - 2000;
  *clock = start;
  return start;
}

static int64_t make_duration(sample_random *random, int64_t start, int64_t *clock, bool extreme) {
  int64_t longest = start > 0 ? INT64_MAX - start : INT64_MAX;
  if (extreme && sample_below(random, 16) == 0) return longest;
  int64_t duration = number(random, 24, 0, false);
  if (start == *clock) *clock += duration;
  return duration < longest ? duration : longest;
}

static void make_text(sample *out, sample_random *random) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
  uint32_t length = sample_below(random, 8) == 0 ? sample_below(random, BT_MAX_TEXT + 1) : sample_below(random, 12);
  for (uint32_t i = 0; i < length; i++)
    out->text[i] = letters[sample_below(random, sizeof letters - 1)];
  out->event.text = out->text;
  out->event.text_length = length;
}

typedef struct map_out {
  sample *sample;
  uint32_t length;
} map_out;

static int map_write(void *context, const char *bytes, size_t length) {
  map_out *out = context;
  memcpy(out->sample->text + out->length, bytes, length);
  out->length += (uint32_t)length;
  return 0;
}

static void make_map(sample *out, sample_random *random) {
  map_out bytes = {.sample = out};
  msgpack_packer packer;
  msgpack_packer_init(&packer, &bytes, map_write);
  uint32_t pairs = sample_below(random, 20);
  msgpack_pack_map(&packer, pairs);
  for (uint32_t i = 0; i < pairs; i++) {
    char key[2] = {'k', (char)('a' + i)};
    msgpack_pack_str_with_body(&packer, key, sizeof key);
    msgpack_pack_int64(&packer, (int64_t)(sample_next(random) >> sample_below(random, 60)));
  }
  out->event.text = out->text;
  out->event.text_length = bytes.length;
}

static void make_group(sample *out, sample_random *random) {
  bt_event *event = &out->event;
  event->group = (uint32_t)number(random, 33, 0, true);
  event->domain = (uint8_t)sample_below(random, 7);
  event->own_rank = (int32_t)number(random, 32, -1, true);
  event->run_count = sample_below(random, 8) == 0 ? sample_below(random, BT_MAX_RUNS + 1) : sample_below(random, 3);
  for (uint32_t i = 0; i < event->run_count; i++) {
    out->runs[i] = (bt_run_of_ranks){.first = (int32_t)sample_below(random, 100000),
                                     .stride = (int32_t)sample_below(random, 64),
                                     .count = 1 + (int32_t)sample_below(random, 2000)};
    event->count += out->runs[i].count;
  }
  event->count += (int32_t)sample_below(random, 2);
  event->runs = event->run_count > 0 ? out->runs : NULL;
  if (sample_below(random, 4) == 0) event->number = sample_next(random) >> 1;
}

static void make_span(bt_event *event, sample_random *random, bool extreme) {
  event->flags = (uint8_t)(sample_below(random, 8) == 0 ? sample_below(random, 256) : BT_FLAG_GPU_TIMED);
  event->lane = sample_below(random, 4) == 0 ? number16(random, extreme) : -1;
  event->chunk = sample_below(random, 2) == 0 ? number16(random, extreme) : 0;
  event->microbatch = sample_below(random, 8) != 0 ? number32(random, extreme) : -1;
  if (bt_code_is_comm(event->code) || event->code == BT_GATE) {
    event->peer = number32(random, extreme);
    event->group = (uint32_t)number(random, 33, 0, extreme);
    event->sequence = number(random, 64, extreme ? INT64_MIN : -1, extreme);
    if (event->code == BT_GATE) {
      event->on_code = (uint8_t)sample_below(random, BT_CODE_SPAN_LIMIT);
      event->count = sample_below(random, 2) == 0 ? 1 : (int32_t)number(random, 32, 0, extreme);
    } else {
      event->bytes = number(random, 64, extreme ? INT64_MIN : -1, extreme);
    }
    return;
  }
  event->tokens = sample_below(random, 2) == 0 ? -1 : number(random, 64, extreme ? INT64_MIN : -1, extreme);
  if (event->code == BT_FB) {
    event->microbatch_b = number32(random, extreme);
    event->chunk_b = number16(random, extreme);
  }
}

static void make_open(bt_event *event, sample_random *random, bool extreme) {
  event->on_code = (uint8_t)(1 + sample_below(random, BT_CODE_SPAN_LIMIT - 1));
  event->ring = (uint32_t)number(random, 33, 0, extreme);
  event->microbatch = number32(random, extreme);
  event->chunk = number16(random, extreme);
  event->peer = number32(random, extreme);
  event->sequence = number(random, 64, extreme ? INT64_MIN : -1, extreme);
  event->group = (uint32_t)number(random, 33, 0, extreme);
  event->lane = number16(random, extreme);
  event->flags = (uint8_t)sample_below(random, 256);
  event->bytes = number(random, 64, extreme ? INT64_MIN : -1, extreme);
}

void sample_make(sample *out, sample_random *random, bt_code code, int64_t *clock, bool extreme) {
  bt_event *event = &out->event;
  bt_event_init(event, code);
  event->start = make_start(random, clock, extreme);
  if (bt_code_is_span(code) || code == BT_OPEN || code == BT_DROPPED)
    event->duration = make_duration(random, event->start, clock, extreme);
  if (bt_code_is_span(code)) {
    make_span(event, random, extreme);
    return;
  }
  switch (code) {
  case BT_STEP_BEGIN:
  case BT_STEP_END: event->step = number(random, 64, extreme ? INT64_MIN : 0, extreme); break;
  case BT_INSTANT:
    make_text(out, random);
    event->microbatch = number32(random, extreme);
    event->chunk = sample_below(random, 2) == 0 ? -1 : number16(random, extreme);
    break;
  case BT_COUNTER:
    make_text(out, random);
    event->value = (double)number(random, 64, INT64_MIN, extreme) / 3.0;
    break;
  case BT_GROUP: make_group(out, random); break;
  case BT_META: make_map(out, random); break;
  case BT_CLOCK: event->real = number(random, 64, extreme ? INT64_MIN : 0, extreme); break;
  case BT_ANCHOR:
    event->real = number(random, 64, 0, extreme);
    event->number = sample_next(random);
    break;
  case BT_OPEN: make_open(event, random, extreme); break;
  case BT_DROPPED:
    event->number = extreme ? sample_next(random) : sample_below(random, 1000);
    event->ring = (uint32_t)number(random, 33, 0, extreme);
    break;
  case BT_HEARTBEAT: event->number = extreme ? UINT64_MAX : sample_below(random, 100000); break;
  case BT_END_OF_STREAM: make_text(out, random); break;
  default: break;
  }
}

bool sample_same(const bt_event *a, const bt_event *b) {
  bool same = a->code == b->code && a->flags == b->flags && a->lane == b->lane && a->chunk == b->chunk &&
              a->chunk_b == b->chunk_b && a->microbatch == b->microbatch && a->microbatch_b == b->microbatch_b &&
              a->start == b->start && a->duration == b->duration && a->tokens == b->tokens && a->peer == b->peer &&
              a->group == b->group && a->bytes == b->bytes && a->sequence == b->sequence && a->on_code == b->on_code &&
              a->count == b->count && a->step == b->step && a->real == b->real && a->number == b->number &&
              a->ring == b->ring && a->domain == b->domain && a->own_rank == b->own_rank &&
              a->run_count == b->run_count && a->text_length == b->text_length &&
              memcmp(&a->value, &b->value, sizeof a->value) == 0;
  return same && (a->text_length == 0 || memcmp(a->text, b->text, a->text_length) == 0) &&
         (a->run_count == 0 || memcmp(a->runs, b->runs, a->run_count * sizeof *a->runs) == 0);
}
