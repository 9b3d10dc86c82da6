/* Records through encoder and decoder: whatever goes in comes out, and only what is sound goes in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/wire/sample.h"

static const uint8_t marker[BT_MARKER_BYTES] = {0xb7, 1, 2, 3, 4, 5, 6, 7};

enum { BATCH = 4000 };

typedef struct fixture {
  bt_encoder encoder;
  uint8_t bytes[BT_BLOCK_MAX];
  sample samples[BATCH];
} fixture;

static int setup(void **state) {
  *state = malloc(sizeof(fixture));
  return *state == NULL;
}

static int teardown(void **state) {
  free(*state);
  return 0;
}

typedef struct expectation {
  const sample *samples;
  uint64_t first, seen;
  bool same;
} expectation;

static bt_status compare(void *context, uint64_t number, const bt_event *event) {
  expectation *expected = context;
  expected->same = expected->same && number == expected->first + expected->seen &&
                   sample_same(&expected->samples[expected->seen].event, event);
  expected->seen++;
  return BT_OK;
}

/* Encodes samples until the block is full or there are no more; decodes the block; returns how many went through. */
static size_t through(fixture *f, const sample *samples, size_t count, uint64_t first) {
  bt_encoder_begin(&f->encoder, 7, first);
  size_t added = 0;
  for (; added < count; added++) {
    bt_status status = bt_encoder_add(&f->encoder, &samples[added].event);
    if (status == BT_FULL) break;
    assert_int_equal(status, BT_OK);
  }
  size_t length = bt_encoder_finish(&f->encoder, marker, f->bytes), used = 0;
  assert_true(length > 0 && length <= BT_BLOCK_MAX);
  bt_block block;
  assert_int_equal(bt_block_decode(f->bytes, length, marker, &block, &used), BT_OK);
  assert_int_equal(used, length);
  assert_int_equal(block.ring, 7);
  assert_true(block.first == first);
  assert_int_equal(block.count, added);
  expectation expected = {.samples = samples, .first = first, .same = true};
  assert_int_equal(bt_block_records(&block, compare, &expected), BT_OK);
  assert_true(expected.same);
  assert_int_equal(expected.seen, added);
  return added;
}

static void round_trip(fixture *f, uint64_t seed, bool extreme) {
  sample_random random = {seed};
  int64_t clock = 1000000000;
  for (size_t i = 0; i < BATCH; i++) {
    bt_code code = (bt_code)sample_codes[sample_below(&random, SAMPLE_CODES)];
    sample_make(&f->samples[i], &random, code, &clock, extreme);
  }
  uint64_t first = extreme ? UINT64_MAX - BATCH : 0;
  for (size_t done = 0; done < BATCH;)
    done += through(f, f->samples + done, BATCH - done, first + done);
}

static void test_round_trip(void **state) {
  for (uint64_t seed = 1; seed <= 8; seed++)
    round_trip(*state, seed, false);
}

static void test_round_trip_extremes(void **state) {
  for (uint64_t seed = 1; seed <= 8; seed++)
    round_trip(*state, seed, true);
}

static void test_every_code_alone(void **state) {
  fixture *f = *state;
  for (size_t i = 0; i < SAMPLE_CODES; i++) {
    sample_random random = {i};
    for (int n = 0; n < 50; n++) {
      int64_t clock = (int64_t)sample_next(&random) / 4;
      sample_make(&f->samples[0], &random, (bt_code)sample_codes[i], &clock, n % 2 != 0);
      assert_int_equal(through(f, f->samples, 1, 0), 1);
    }
  }
}

static void test_defaults(void **state) {
  fixture *f = *state;
  for (size_t i = 0; i < SAMPLE_CODES; i++) {
    bt_event *event = &f->samples[i].event;
    bt_event_init(event, (bt_code)sample_codes[i]);
    if (event->code == BT_OPEN) event->on_code = BT_F;
    if (event->code == BT_META) {
      event->text = "\x80";
      event->text_length = 1;
    } else if (event->code == BT_INSTANT || event->code == BT_COUNTER || event->code == BT_END_OF_STREAM) {
      event->text = "";
    }
  }
  assert_int_equal(through(f, f->samples, SAMPLE_CODES, 0), SAMPLE_CODES);
}

static bt_status add_one(fixture *f, const bt_event *event) {
  bt_encoder_begin(&f->encoder, 1, 0);
  return bt_encoder_add(&f->encoder, event);
}

static void test_unsound_events_are_refused(void **state) {
  fixture *f = *state;
  bt_event event;
  bt_event_init(&event, BT_F);
  event.duration = -1;
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  event.start = INT64_MAX;
  event.duration = 1;
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  event.duration = 0;
  assert_int_equal(add_one(f, &event), BT_OK);
  bt_event_init(&event, BT_NONE);
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  bt_event_init(&event, (bt_code)200);
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  bt_event_init(&event, BT_STEP_BEGIN);
  event.duration = 1;
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  bt_event_init(&event, BT_OPEN);
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  bt_event_init(&event, BT_GATE);
  event.on_code = 64;
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
}

static void test_unsound_texts_are_refused(void **state) {
  fixture *f = *state;
  char text[BT_MAX_META + 1] = {0};
  bt_event event;
  bt_event_init(&event, BT_INSTANT);
  event.text = text;
  event.text_length = BT_MAX_TEXT + 1;
  assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  bt_event_init(&event, BT_META);
  const struct {
    const char *bytes;
    uint32_t length;
  } maps[] = {{"", 0}, {"\x90", 1}, {"\x81\xa1x", 3}, {"\x80\x80", 2}, {"\xc1", 1}, {"\xdf\xff\xff\xff\xff", 5}};
  for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
    event.text = maps[i].bytes;
    event.text_length = maps[i].length;
    assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  }
}

static void test_unsound_groups_are_refused(void **state) {
  fixture *f = *state;
  static const bt_run_of_ranks bad[] = {{-1, 1, 1},        {0, 1, 0},         {0, -1, 2},
                                        {INT32_MAX, 1, 2}, {0, INT32_MAX, 3}, {0, 1, 9}};
  bt_event event;
  bt_event_init(&event, BT_GROUP);
  event.count = 8;
  event.run_count = 1;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    event.runs = &bad[i];
    assert_int_equal(add_one(f, &event), BT_ERR_ARG);
  }
  const bt_run_of_ranks good = {6, -2, 4};
  event.runs = &good;
  assert_int_equal(add_one(f, &event), BT_OK);
}

static void test_full_block_goes_on_in_the_next(void **state) {
  fixture *f = *state;
  bt_event event;
  bt_event_init(&event, BT_F);
  bt_encoder_begin(&f->encoder, 1, 0);
  uint32_t count = 0;
  for (;; count++) {
    event.start = (int64_t)count * 5000000;
    event.duration = 1000000;
    event.microbatch = (int32_t)count;
    bt_encoder before = f->encoder;
    bt_status status = bt_encoder_add(&f->encoder, &event);
    if (status == BT_FULL) { /* and nothing of the record is left behind */
      assert_int_equal(f->encoder.length, before.length);
      assert_int_equal(f->encoder.count, count);
      break;
    }
    assert_int_equal(status, BT_OK);
  }
  assert_true(f->encoder.length > BT_PAYLOAD_MAX - 64);
  assert_int_equal(bt_encoder_finish(&f->encoder, marker, f->bytes) > BT_PAYLOAD_MAX - 64, 1);
}

static void test_empty_block_is_nothing(void **state) {
  fixture *f = *state;
  bt_encoder_begin(&f->encoder, 1, 0);
  assert_int_equal(bt_encoder_finish(&f->encoder, marker, f->bytes), 0);
}

/* Blocks of a rank that makes 1,000 spans/s and is flushed every 100 ms: bytes a span, the block's own included. */
static double bytes_a_span(fixture *f, bool comm) {
  sample_random random = {5};
  bt_encoder_begin(&f->encoder, 1, 1000000);
  int64_t clock = INT64_C(900000000000);
  int sequence = 100000;
  for (int i = 0; i < 100; i++) {
    bt_event event;
    bt_event_init(&event, comm ? (i % 2 != 0 ? BT_RECV_F : BT_SEND_B) : (i % 2 != 0 ? BT_F : BT_B));
    event.start = clock + 70000 + sample_below(&random, 200000);
    event.duration = 500000 + sample_below(&random, 300000);
    event.microbatch = i / 2 % 128;
    event.chunk = 0;
    event.flags = BT_FLAG_GPU_TIMED;
    if (comm) {
      event.peer = 1000;
      event.group = 12;
      event.bytes = 33554432;
      event.sequence = sequence + i / 2;
    }
    assert_int_equal(bt_encoder_add(&f->encoder, &event), BT_OK);
    clock = bt_event_end(&event);
  }
  return (double)bt_encoder_finish(&f->encoder, marker, f->bytes) / 100;
}

static void test_sizes(void **state) {
  double compute = bytes_a_span(*state, false), comm = bytes_a_span(*state, true);
  print_message(
      "bytes a span at 1,000 spans/s flushed every 100 ms: compute %.2f (at most 14), comm %.2f (at most 22)\n",
      compute, comm);
  assert_true(compute <= 14);
  assert_true(comm <= 22);
}

/* ---- payloads that this encoder does not write ---- */

static bt_status decode_payload(const uint8_t *payload, size_t length, uint32_t count, expectation *expected) {
  bt_block block = {
      .ring = 1, .count = count, .min_start = 0, .max_end = 1000, .payload = payload, .payload_length = length};
  return bt_block_records(&block, compare, expected);
}

#define DECODE(count, expected, ...)                                                                                   \
  decode_payload((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), count, expected)

static void test_foreign_forms(void **state) {
  fixture *f = *state;
  bt_event_init(&f->samples[0].event, BT_F);
  f->samples[0].event.start = 5;
  f->samples[0].event.duration = 7;
  f->samples[0].event.chunk = 0;
  f->samples[0].event.microbatch = 3;
  expectation expected = {.samples = f->samples, .same = true};
  /* wide integers, an array of 16 bits, nil for a default, elements that a newer writer added */
  assert_int_equal(DECODE(1, &expected, 0xdc, 0, 10, 0xcc, 1, 0xce, 0, 0, 0, 5, 0xd3, 0, 0, 0, 0, 0, 0, 0, 7, 3, 0xc0,
                          0xc0, 0xc0, 0xc0, 0x92, 1, 0x91, 2, 0x81, 1, 2),
                   BT_OK);
  assert_true(expected.same);
  assert_int_equal(expected.seen, 1);
}

static void test_unknown_codes_are_skipped(void **state) {
  fixture *f = *state;
  bt_event_init(&f->samples[1].event, BT_STEP_BEGIN);
  f->samples[1].event.start = 18;
  f->samples[1].event.step = 2;
  /* an unknown span (63) from 10 to 16, an unknown mark (127) at 17, which has no duration, then a mark 1 later */
  expectation expected = {.samples = f->samples + 1, .first = 2, .same = true};
  assert_int_equal(DECODE(3, &expected, 0x93, 63, 10, 6, 0x93, 127, 1, 100, 0x93, 64, 1, 2), BT_OK);
  assert_int_equal(expected.seen, 1);
  assert_true(expected.same);
}

static void test_contradictions_are_damage(void **state) {
  fixture *f = *state;
  expectation expected = {.samples = f->samples};
  assert_int_equal(DECODE(1, &expected, 0x05), BT_DAMAGED); /* no array */
  assert_int_equal(DECODE(1, &expected, 0x80), BT_DAMAGED); /* a map */
  assert_int_equal(DECODE(1, &expected, 0x90), BT_DAMAGED); /* no code */
  assert_int_equal(DECODE(1, &expected, 0x93, 0xa1, 'F', 1, 1), BT_DAMAGED); /* a name as code */
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1, 0xff), BT_DAMAGED); /* negative duration */
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 0xff, 1), BT_DAMAGED); /* before min_start */
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1, 0xcd, 0x04, 0), BT_DAMAGED); /* behind max_end */
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1, 0xcf, 255, 255, 255, 255, 255, 255, 255, 255), BT_DAMAGED);
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1, 0xca, 0, 0, 0, 0), BT_DAMAGED); /* a real duration */
  assert_int_equal(DECODE(1, &expected, 0x94, 1, 1, 1, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0), BT_DAMAGED); /* microbatch 2^32 */
  assert_int_equal(DECODE(1, &expected, 0x93, 66, 1, 5), BT_DAMAGED); /* a number as name */
  assert_int_equal(DECODE(1, &expected, 0x93, 69, 1, 0x90), BT_DAMAGED); /* meta is no map */
  assert_int_equal(DECODE(1, &expected, 0x92, 69, 1), BT_DAMAGED); /* or is missing */
  assert_int_equal(DECODE(1, &expected, 0x97, 68, 1, 1, 1, 0, 2, 0x92, 0, 1), BT_DAMAGED); /* two thirds of a run */
  assert_int_equal(DECODE(1, &expected, 0x97, 68, 1, 1, 1, 0, 2, 0x93, 0, 1, 9),
                   BT_DAMAGED); /* more than all members */
  assert_int_equal(DECODE(1, &expected, 0x97, 68, 1, 1, 1, 0, 2, 0x93, 0, 1, 0x90), BT_DAMAGED);
  assert_int_equal(DECODE(1, &expected, 0x97, 68, 1, 1, 1, 0, 2, 7), BT_DAMAGED);
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1), BT_DAMAGED); /* cut off */
  assert_int_equal(DECODE(1, &expected, 0xc1), BT_DAMAGED); /* no msgpack */
  assert_int_equal(expected.seen, 0);
  assert_int_equal(DECODE(2, &expected, 0x93, 1, 1, 1),
                   BT_DAMAGED); /* fewer than counted: the first one is delivered */
  assert_int_equal(expected.seen, 1);
  assert_int_equal(DECODE(1, &expected, 0x93, 1, 1, 1, 0x93, 1, 1, 1), BT_DAMAGED); /* more than counted */
  assert_int_equal(expected.seen, 2);
}

static void test_deep_nesting_is_damage(void **state) {
  (void)state;
  uint8_t payload[1000];
  memset(payload, 0x91, sizeof payload);
  expectation expected = {.samples = NULL};
  assert_int_equal(decode_payload(payload, sizeof payload, 1, &expected), BT_DAMAGED);
  memset(payload, 0xdd, sizeof payload);
  assert_int_equal(decode_payload(payload, sizeof payload, 1, &expected), BT_DAMAGED);
}

static bt_status stop(void *context, uint64_t number, const bt_event *event) {
  (void)number, (void)event;
  ++*(int *)context;
  return BT_ERR_NOMEM;
}

static void test_callback_stops(void **state) {
  (void)state;
  const uint8_t payload[] = {0x92, 64, 1, 0x92, 64, 1};
  bt_block block = {.count = 2, .max_end = 10, .payload = payload, .payload_length = sizeof payload};
  int calls = 0;
  assert_int_equal(bt_block_records(&block, stop, &calls), BT_ERR_NOMEM);
  assert_int_equal(calls, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_round_trip_extremes),
      cmocka_unit_test(test_every_code_alone),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_unsound_events_are_refused),
      cmocka_unit_test(test_unsound_texts_are_refused),
      cmocka_unit_test(test_unsound_groups_are_refused),
      cmocka_unit_test(test_full_block_goes_on_in_the_next),
      cmocka_unit_test(test_empty_block_is_nothing),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_foreign_forms),
      cmocka_unit_test(test_unknown_codes_are_skipped),
      cmocka_unit_test(test_contradictions_are_damage),
      cmocka_unit_test(test_deep_nesting_is_damage),
      cmocka_unit_test(test_callback_stops),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
