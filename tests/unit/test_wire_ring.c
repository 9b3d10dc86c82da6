/* Ring slots and the reader that trusts nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/wire/ring.h"
#include "tests/wire/sample.h"

enum { CAPACITY = 64, RINGS = 2, RING_BYTES = BT_RING_PAGE + CAPACITY * BT_SLOT_BYTES };

typedef struct fixture {
  _Alignas(64) uint8_t bytes[BT_RING_PAGE + RINGS * RING_BYTES];
} fixture;

static bt_ring_file *file_of(fixture *f) {
  return (bt_ring_file *)(void *)f->bytes;
}

static bt_ring_head *ring_of(fixture *f, uint32_t index) {
  return (bt_ring_head *)(void *)(f->bytes + BT_RING_PAGE + (size_t)index * RING_BYTES);
}

static int setup(void **state) {
  fixture *f = aligned_alloc(64, sizeof *f);
  *state = f;
  if (f == NULL) return 1;
  memset(f, 0, sizeof *f);
  bt_ring_file *file = file_of(f);
  memcpy(file->magic, "BTRING\0\1", 8);
  file->version = BT_RING_VERSION;
  file->page_bytes = BT_RING_PAGE;
  file->ring_bytes = RING_BYTES;
  file->ring_count = RINGS;
  file->rank = 3;
  strcpy(file->directory, "/run");
  for (uint32_t i = 0; i < RINGS; i++) {
    ring_of(f, i)->id = i + 1;
    ring_of(f, i)->capacity = CAPACITY;
  }
  return 0;
}

static int teardown(void **state) {
  free(*state);
  return 0;
}

/* What the capture library does: slot, raw bytes behind it (they may wrap), head. False: full. */
static bool push(bt_ring_head *ring, const bt_event *event) {
  bt_slot slot;
  bt_slot_from_event(&slot, event);
  slot.number = ring->number;
  uint32_t slots = bt_slot_count(slot.extra);
  if (ring->head + slots - ring->tail > CAPACITY) return false;
  bt_ring_slots(ring)[ring->head % CAPACITY] = slot;
  const uint8_t *extra = bt_event_extra_bytes(event);
  for (uint32_t i = 1; i < slots; i++) {
    uint32_t done = (i - 1) * BT_SLOT_BYTES, left = slot.extra - done;
    memcpy(&bt_ring_slots(ring)[(ring->head + i) % CAPACITY], extra + done,
           left < BT_SLOT_BYTES ? left : BT_SLOT_BYTES);
  }
  ring->head += slots;
  ring->number++;
  return true;
}

static bool in_rings(bt_code code) {
  return bt_code_is_span(code) || (code >= BT_STEP_BEGIN && code <= BT_META);
}

static void test_records_through_a_ring(void **state) {
  fixture *f = *state;
  bt_ring_map map;
  bt_error error;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_OK);
  assert_int_equal(map.rank, 3);
  assert_string_equal(map.directory, "/run");
  bt_ring_reader *reader = malloc(sizeof *reader);
  sample *samples = malloc(CAPACITY * sizeof *samples);
  assert_true(reader != NULL && samples != NULL);
  assert_int_equal(bt_ring_reader_begin(reader, &map, 1), BT_OK);
  assert_int_equal(reader->id, 2);
  bt_ring_head *ring = ring_of(f, 1);
  sample_random random = {11};
  int64_t clock = 5000;
  uint64_t read = 0, number;
  for (int round = 0; round < 400; round++) {
    uint32_t pushed = 0;
    do {
      bt_code code;
      do
        code = (bt_code)sample_codes[sample_below(&random, SAMPLE_CODES)];
      while (!in_rings(code));
      sample_make(&samples[pushed], &random, code, &clock, true);
      bt_event *event = &samples[pushed].event;
      if (event->bytes < -1 || event->bytes >= INT64_C(1) << 47) event->bytes = -1; /* a slot has 48 bits */
    } while (push(ring, &samples[pushed].event) && ++pushed < CAPACITY);
    bt_event event;
    for (uint32_t i = 0; i < pushed; i++) {
      assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_OK);
      assert_int_equal(number, read++);
      assert_true(sample_same(&event, &samples[i].event));
    }
    assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_AGAIN);
    ring->tail = reader->position;
  }
  assert_true(read > 1000);
  assert_int_equal(reader->skipped, 0);
  free(samples);
  free(reader);
}

static bt_event span_at(int64_t start) {
  bt_event event;
  bt_event_init(&event, BT_F);
  event.start = start;
  event.chunk = 0;
  return event;
}

/* A live reader that was overtaken goes on at the tail: what it missed is in the file. */
static void test_overtaken_reader_skips(void **state) {
  fixture *f = *state;
  bt_ring_head *ring = ring_of(f, 0);
  bt_ring_reader *reader = malloc(sizeof *reader);
  assert_non_null(reader);
  bt_ring_reader_own(reader, ring, CAPACITY);
  bt_event event;
  uint64_t number = 0;
  for (int i = 0; i < CAPACITY; i++) {
    event = span_at(i);
    assert_true(push(ring, &event));
  }
  assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_OK);
  assert_int_equal(number, 0);
  ring->tail = 40;
  for (int i = 0; i < 40; i++) {
    event = span_at(CAPACITY + i);
    assert_true(push(ring, &event));
  }
  assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_OK);
  assert_int_equal(number, 40);
  assert_int_equal(reader->skipped, 39);
  uint64_t count = 1;
  while (bt_ring_reader_next(reader, &number, &event) == BT_OK)
    assert_int_equal(event.start, 40 + count++);
  assert_int_equal(count, CAPACITY);
  free(reader);
}

static void test_hostile_files(void **state) {
  fixture *f = *state;
  bt_ring_file *file = file_of(f), good = *file;
  bt_ring_map map;
  bt_error error;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, BT_RING_PAGE - 1, &error), BT_ERR_FORMAT);
  assert_int_equal(bt_ring_map_check(&map, f->bytes, BT_RING_PAGE + RING_BYTES + 5, &error), BT_OK);
  assert_int_equal(map.ring_count, 1); /* cut off: one ring is whole */
  file->ring_count = UINT32_MAX;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_FORMAT);
  *file = good;
  file->ring_bytes = BT_RING_PAGE;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_FORMAT);
  *file = good;
  file->ring_bytes = UINT64_MAX - 63;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_FORMAT);
  *file = good;
  file->header_bytes = sizeof file->header + 1;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_FORMAT);
  *file = good;
  memset(file->directory, 'x', sizeof file->directory);
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_OK);
  assert_int_equal(strlen(map.directory), BT_RING_PATH_MAX - 1);
  file->version = 99;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_VERSION);
  memset(file, 0, sizeof *file);
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_ERR_FORMAT);
}

static void test_hostile_rings(void **state) {
  fixture *f = *state;
  bt_ring_map map;
  bt_error error;
  assert_int_equal(bt_ring_map_check(&map, f->bytes, sizeof f->bytes, &error), BT_OK);
  bt_ring_reader *reader = malloc(sizeof *reader);
  assert_non_null(reader);
  assert_int_equal(bt_ring_reader_begin(reader, &map, RINGS), BT_ERR_FORMAT);
  const uint32_t capacities[] = {0, 3, CAPACITY * 2, 1u << 31, UINT32_MAX};
  bt_ring_head *ring = ring_of(f, 0);
  for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
    ring->capacity = capacities[i];
    assert_int_equal(bt_ring_reader_begin(reader, &map, 0), BT_ERR_FORMAT);
  }
  ring->capacity = CAPACITY;
  uint64_t number;
  bt_event event;
  const uint64_t ends[][2] = {
      {5, 4}, {0, CAPACITY + 1}, {UINT64_MAX, 0}, {UINT64_MAX - 3, UINT64_MAX}, {0, UINT64_MAX}};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) { /* garbage in the slots as well: code 0 */
    ring->tail = ends[i][0];
    ring->head = ends[i][1];
    assert_int_equal(bt_ring_reader_begin(reader, &map, 0), BT_OK);
    assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_DAMAGED);
    assert_int_equal(bt_ring_reader_next(reader, &number, &event), BT_AGAIN);
  }
  free(reader);
}

static void test_hostile_slots(void **state) {
  fixture *f = *state;
  bt_ring_head *ring = ring_of(f, 0);
  bt_ring_reader *reader = malloc(sizeof *reader);
  assert_non_null(reader);
  sample_random random = {17};
  bt_encoder *encoder = malloc(sizeof *encoder);
  assert_non_null(encoder);
  for (int round = 0; round < 3000; round++) {
    ring->tail = sample_next(&random);
    ring->head = ring->tail + sample_below(&random, CAPACITY + 1);
    for (uint32_t i = 0; i < CAPACITY; i++) {
      uint64_t *words = (uint64_t *)(void *)&bt_ring_slots(ring)[i];
      for (size_t w = 0; w < BT_SLOT_BYTES / 8; w++)
        words[w] = sample_next(&random);
      bt_ring_slots(ring)[i].code = sample_codes[sample_below(&random, SAMPLE_CODES)];
      bt_ring_slots(ring)[i].extra = (uint16_t)(sample_below(&random, 2) * sample_below(&random, 200));
    }
    bt_ring_reader_own(reader, ring, CAPACITY);
    uint64_t number;
    bt_event event;
    bt_status status;
    bt_encoder_begin(encoder, 1, 0);
    while ((status = bt_ring_reader_next(reader, &number, &event)) != BT_AGAIN) {
      if (status == BT_OK) { /* the encoder may refuse a map that is none, and takes all else */
        status = bt_encoder_add(encoder, &event);
        assert_true(status == BT_OK || (event.code == BT_META && status == BT_ERR_ARG));
      }
    }
  }
  free(encoder);
  free(reader);
}

static void test_open_spans(void **state) {
  fixture *f = *state;
  bt_ring_head *ring = ring_of(f, 1);
  bt_open_slot *open = &ring->open[5];
  *open = (bt_open_slot){.state = 8,
                         .code = BT_RECV_F,
                         .flags = BT_FLAG_GPU_TIMED,
                         .lane = -1,
                         .start = 77,
                         .chunk = 1,
                         .microbatch = 3,
                         .peer = 2,
                         .group = 9,
                         .sequence = 40,
                         .bytes = 1 << 20};
  bt_event event;
  assert_int_equal(bt_ring_open_span(ring, 5, &event), BT_OK);
  assert_int_equal(event.code, BT_OPEN);
  assert_int_equal(event.on_code, BT_RECV_F);
  assert_int_equal(event.ring, 2);
  assert_int_equal(event.start, 77);
  assert_int_equal(event.microbatch, 3);
  assert_int_equal(event.bytes, 1 << 20);
  assert_int_equal(bt_ring_open_span(ring, 4, &event), BT_AGAIN);
  open->state = 9; /* changing */
  assert_int_equal(bt_ring_open_span(ring, 5, &event), BT_AGAIN);
  open->state = 10;
  open->code = BT_META;
  assert_int_equal(bt_ring_open_span(ring, 5, &event), BT_AGAIN);
}

static void test_dropped(void **state) {
  fixture *f = *state;
  bt_ring_head *ring = ring_of(f, 0);
  int64_t from = 0, to = 0;
  assert_int_equal(bt_ring_dropped(ring, &from, &to), 0);
  ring->dropped = 12;
  ring->dropped_reported = 5;
  ring->dropped_from = 100;
  ring->dropped_to = 200;
  assert_int_equal(bt_ring_dropped(ring, &from, &to), 7);
  assert_int_equal(from, 100);
  assert_int_equal(to, 200);
  ring->dropped_reported = 13;
  assert_int_equal(bt_ring_dropped(ring, &from, &to), 0);
}

static void test_bytes_beyond_a_slot_are_unknown(void **state) {
  (void)state;
  bt_event event = span_at(0), back;
  event.code = BT_SEND_F;
  const int64_t bytes[][2] = {{0, 0},
                              {-1, -1},
                              {-5, -1},
                              {(INT64_C(1) << 48) - 2, (INT64_C(1) << 48) - 2},
                              {(INT64_C(1) << 48) - 1, -1},
                              {INT64_MAX, -1}};
  for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
    bt_slot slot;
    event.bytes = bytes[i][0];
    bt_slot_from_event(&slot, &event);
    assert_int_equal(bt_event_from_slot(&back, &slot, NULL), BT_OK);
    assert_true(back.bytes == bytes[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_records_through_a_ring, setup, teardown),
      cmocka_unit_test_setup_teardown(test_overtaken_reader_skips, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hostile_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hostile_rings, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hostile_slots, setup, teardown),
      cmocka_unit_test_setup_teardown(test_open_spans, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dropped, setup, teardown),
      cmocka_unit_test(test_bytes_beyond_a_slot_are_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
