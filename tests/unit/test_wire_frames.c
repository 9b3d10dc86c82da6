/* Headers and blocks as bytes: every truncation, every flipped bit, holes, scanning, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/wire/crc32c.h"
#include "tests/wire/sample.h"

static const uint8_t marker[BT_MARKER_BYTES] = {0xb7, 0x98, 0xc4, 8, 4, 0, 0, 0x98};

enum { RECORDS = 12, BLOCKS = 3 };

typedef struct fixture {
  bt_encoder encoder;
  bt_header header;
  uint8_t header_bytes[BT_HEADER_MAX];
  size_t header_length;
  uint8_t blocks[BLOCKS * BT_BLOCK_MAX]; /* one after the other */
  size_t begin[BLOCKS + 1];
  sample samples[BLOCKS * RECORDS];
} fixture;

static void fill_header(bt_header *header) {
  bt_header_init(header);
  memcpy(header->marker, marker, sizeof marker);
  header->rank = 7;
  header->world_size = 1024;
  header->layout.pp_rank = 3;
  header->layout.pp_size = 8;
  header->layout.chunks = 2;
  header->layout.vstage[0] = 3;
  header->layout.vstage[1] = 12;
  header->layout.w_separable = 0;
  strcpy(header->layout.schedule, "zb-v");
  strcpy(header->host, "node17");
  strcpy(header->boot_id, "5c7bb3d0-95a6-4a41-a6d5-5f0b3cf5d9d1");
  header->time_namespace = 4026531834;
  header->pid = 4711;
  strcpy(header->run_id, "run");
  header->life = 2;
  header->segment = 1;
  header->mono_ns = 123456789;
  header->real_ns = INT64_C(1700000000123456789);
  strcpy(header->ring_path, "/dev/shm/bubbletop-0/7.2.ring");
  header->ring_inode = UINT64_MAX;
  header->recoverable = 1;
  strcpy(header->writer, "libbubbletop 0.1.0");
}

static int setup(void **state) {
  fixture *f = malloc(sizeof *f);
  *state = f;
  if (f == NULL) return 1;
  fill_header(&f->header);
  bt_error error;
  if (bt_header_encode(&f->header, f->header_bytes, sizeof f->header_bytes, &f->header_length, &error) != BT_OK)
    return 1;
  sample_random random = {42};
  int64_t clock = 1000000;
  f->begin[0] = 0;
  for (uint32_t b = 0; b < BLOCKS; b++) {
    bt_encoder_begin(&f->encoder, 1, (uint64_t)b * RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
      sample *one = &f->samples[b * RECORDS + i];
      bt_code code = (bt_code)sample_codes[sample_below(&random, SAMPLE_CODES)];
      sample_make(one, &random, code == BT_META ? BT_F : code, &clock, false);
      if (bt_encoder_add(&f->encoder, &one->event) != BT_OK) return 1;
    }
    f->begin[b + 1] = f->begin[b] + bt_encoder_finish(&f->encoder, marker, f->blocks + f->begin[b]);
  }
  return 0;
}

static int teardown(void **state) {
  free(*state);
  return 0;
}

/* ---- the header ---- */

static bool same_header(const bt_header *a, const bt_header *b) {
  return a->version == b->version && memcmp(a->marker, b->marker, sizeof a->marker) == 0 && a->rank == b->rank &&
         a->world_size == b->world_size && memcmp(&a->layout, &b->layout, sizeof a->layout) == 0 &&
         strcmp(a->host, b->host) == 0 && strcmp(a->boot_id, b->boot_id) == 0 &&
         a->time_namespace == b->time_namespace && a->pid == b->pid && strcmp(a->run_id, b->run_id) == 0 &&
         a->life == b->life && a->segment == b->segment && a->mono_ns == b->mono_ns && a->real_ns == b->real_ns &&
         strcmp(a->ring_path, b->ring_path) == 0 && a->ring_inode == b->ring_inode &&
         a->recoverable == b->recoverable && a->recovered == b->recovered && strcmp(a->writer, b->writer) == 0;
}

static void test_header_round_trip(void **state) {
  fixture *f = *state;
  bt_header read;
  size_t used = 0;
  bt_error error;
  assert_int_equal(bt_header_decode(f->header_bytes, f->header_length + 0, &read, &used, &error), BT_OK);
  assert_int_equal(used, f->header_length);
  assert_true(same_header(&read, &f->header));
  assert_true(read.raw_length > 0);

  bt_header plain;
  bt_header_init(&plain);
  uint8_t bytes[BT_HEADER_MAX];
  size_t length = 0;
  assert_int_equal(bt_header_encode(&plain, bytes, sizeof bytes, &length, &error), BT_OK);
  assert_int_equal(bt_header_decode(bytes, length, &read, &used, &error), BT_OK);
  assert_true(same_header(&read, &plain));
}

static void test_largest_header_fits_a_ring_file(void **state) {
  (void)state;
  bt_header header;
  memset(&header, 0x7f, sizeof header);
  char *texts[] = {header.host, header.boot_id, header.run_id, header.ring_path, header.writer, header.layout.schedule};
  size_t rooms[] = {sizeof header.host,      sizeof header.boot_id, sizeof header.run_id,
                    sizeof header.ring_path, sizeof header.writer,  sizeof header.layout.schedule};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    texts[i][rooms[i] - 1] = '\0';
  uint8_t bytes[BT_HEADER_MAX];
  size_t length = 0, used = 0;
  bt_error error;
  assert_int_equal(bt_header_encode(&header, bytes, sizeof bytes, &length, &error), BT_OK);
  assert_true(length <= 1900);
  bt_header read;
  assert_int_equal(bt_header_decode(bytes, length, &read, &used, &error), BT_OK);
  header.version = BT_FORMAT_VERSION;
  header.recoverable = header.recovered = 1;
  assert_true(same_header(&read, &header));
  assert_int_equal(bt_header_encode(&header, bytes, length - 1, &length, &error), BT_ERR_LIMIT);
}

static void test_header_truncated_anywhere(void **state) {
  fixture *f = *state;
  for (size_t length = 0; length < f->header_length; length++) {
    uint8_t *copy = malloc(length + 1); /* exact, so that reading too far is seen */
    assert_non_null(copy);
    memcpy(copy, f->header_bytes, length);
    bt_header read;
    size_t used = 0;
    bt_error error;
    assert_int_equal(bt_header_decode(copy, length, &read, &used, &error), BT_AGAIN);
    free(copy);
  }
}

static void test_header_with_any_bit_flipped(void **state) {
  fixture *f = *state;
  for (size_t bit = 0; bit < f->header_length * 8; bit++) {
    f->header_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    bt_header read;
    size_t used = 0;
    bt_error error;
    assert_int_not_equal(bt_header_decode(f->header_bytes, f->header_length, &read, &used, &error), BT_OK);
    f->header_bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

static void test_header_of_something_else(void **state) {
  fixture *f = *state;
  bt_header read;
  size_t used = 0;
  bt_error error;
  assert_int_equal(bt_header_decode((const uint8_t *)"{\"traceEvents\": [", 17, &read, &used, &error), BT_ERR_FORMAT);
  assert_non_null(strstr(error.text, "not a bubbletop stream"));
  uint8_t zeros[100] = {0};
  assert_int_equal(bt_header_decode(zeros, sizeof zeros, &read, &used, &error), BT_AGAIN);
  assert_int_equal(f->header_bytes[11], BT_FORMAT_VERSION);
  f->header_bytes[11] = BT_FORMAT_VERSION + 1; /* wrong crc: a flipped bit, no newer version */
  assert_int_equal(bt_header_decode(f->header_bytes, f->header_length, &read, &used, &error), BT_DAMAGED);
  f->header_bytes[11] = BT_FORMAT_VERSION;
}

/* array(5), name, version, marker, crc, payload: made by hand, with a good crc */
static size_t make_header(uint8_t *out, uint8_t version, const uint8_t *map, uint8_t map_length) {
  static const uint8_t head[] = {0x95, 0xa9, 'b', 'u', 'b', 'b', 'l', 'e', 't', 'o', 'p'};
  memcpy(out, head, sizeof head);
  out[11] = version;
  out[12] = 0xc4;
  out[13] = BT_MARKER_BYTES;
  memcpy(out + 14, marker, BT_MARKER_BYTES);
  out[22] = 0xce;
  out[27] = 0xc4;
  out[28] = map_length;
  memcpy(out + 29, map, map_length);
  uint32_t crc = bt_crc32c(bt_crc32c(0, out, 23), out + 27, 2u + map_length);
  for (int i = 0; i < 4; i++)
    out[23 + i] = (uint8_t)(crc >> (24 - 8 * i));
  return 29u + map_length;
}

static void test_header_keys_of_others(void **state) {
  (void)state;
  uint8_t bytes[128];
  bt_header read;
  size_t used = 0;
  bt_error error;
  const uint8_t map[] = {0x86, 0xa4, 'r', 'a', 'n',  'k', 5,    0xa3, 'n', 'e', 'w', 0x81,
                         0xa4, 'r',  'a', 'n', 'k',  9, /* a map with such a key of its own */
                         7,    7, /* a key that is no str */
                         0xa4, 'h',  'o', 's', 't',  1, /* values of wrong types */
                         0xa3, 'p',  'i', 'd', 0xa1, 'x', 0xa4, 'l',  'i', 'f', 'e', 2};
  size_t length = make_header(bytes, 1, map, sizeof map);
  assert_int_equal(bt_header_decode(bytes, length, &read, &used, &error), BT_OK);
  assert_int_equal(read.rank, 5);
  assert_int_equal(read.life, 2);
  assert_int_equal(read.pid, 0);
  assert_string_equal(read.host, "");
  assert_int_equal(read.raw_length, sizeof map);
  assert_memory_equal(read.raw, map, sizeof map);

  assert_int_equal(bt_header_decode(bytes, make_header(bytes, 2, map, sizeof map), &read, &used, &error),
                   BT_ERR_VERSION);
  assert_non_null(strstr(error.text, "version 2"));
  assert_int_equal(bt_header_decode(bytes, make_header(bytes, 1, map, 5), &read, &used, &error), BT_DAMAGED);
  assert_int_equal(bt_header_decode(bytes, make_header(bytes, 1, (const uint8_t *)"\x90", 1), &read, &used, &error),
                   BT_DAMAGED);
}

static void test_layout_maps(void **state) {
  (void)state;
  bt_layout layout, read;
  bt_layout_init(&layout);
  bt_layout_init(&read);
  uint8_t bytes[2048];
  size_t length = 0;
  layout.dp_rank = 5;
  layout.vstage[BT_MAX_CHUNKS - 1] = 9;
  strcpy(layout.schedule, "1f1b");
  assert_int_equal(bt_layout_encode(&layout, bytes, sizeof bytes, &length), BT_OK);
  read.tp_size = 4; /* keys that the map does not have stay */
  assert_int_equal(bt_layout_decode(bytes, length, &read), BT_OK);
  layout.tp_size = 4;
  assert_memory_equal(&layout, &read, sizeof layout);
  for (size_t room = 0; room < length; room++) {
    size_t used = 0;
    assert_int_equal(bt_layout_encode(&layout, bytes, room, &used), BT_ERR_LIMIT);
  }
  assert_int_equal(bt_layout_decode((const uint8_t *)"\x90", 1, &read), BT_ERR_FORMAT);
  assert_int_equal(bt_layout_decode((const uint8_t *)"\x81", 1, &read), BT_ERR_FORMAT);
  assert_int_equal(bt_layout_decode((const uint8_t *)"", 0, &read), BT_ERR_FORMAT);
}

/* ---- blocks ---- */

typedef struct expectation {
  const sample *samples;
  size_t seen;
  bool same;
} expectation;

static bt_status compare(void *context, uint64_t number, const bt_event *event) {
  expectation *expected = context;
  expected->same =
      expected->same && number < (uint64_t)BLOCKS * RECORDS && sample_same(&expected->samples[number].event, event);
  expected->seen++;
  return BT_OK;
}

/* Reads as a reader does after damage: every block there is. Returns the records; each must be one that was written. */
static size_t read_all(const fixture *f, const uint8_t *bytes, size_t length) {
  expectation expected = {.samples = f->samples, .same = true};
  size_t at = bt_block_scan(bytes, length, 0, marker);
  while (at < length) {
    bt_block block;
    size_t used = 0;
    if (bt_block_decode(bytes + at, length - at, marker, &block, &used) != BT_OK) {
      at = bt_block_scan(bytes, length, at + 1, marker);
      continue;
    }
    assert_int_equal(bt_block_records(&block, compare, &expected), BT_OK);
    at = bt_block_scan(bytes, length, at + used, marker);
  }
  assert_true(expected.same);
  return expected.seen;
}

static void test_blocks_truncated_anywhere(void **state) {
  fixture *f = *state;
  for (size_t length = 0; length < f->begin[1]; length++) {
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, f->blocks, length);
    bt_block block;
    size_t used = 0;
    assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_AGAIN);
    free(copy);
  }
  assert_int_equal(read_all(f, f->blocks, f->begin[BLOCKS]), BLOCKS * RECORDS);
  assert_int_equal(read_all(f, f->blocks, f->begin[BLOCKS] - 1), (BLOCKS - 1) * RECORDS);
}

static void test_blocks_with_any_bit_flipped(void **state) {
  fixture *f = *state;
  for (size_t bit = f->begin[1] * 8; bit < f->begin[2] * 8; bit++) { /* in the middle one */
    f->blocks[bit / 8] ^= (uint8_t)(1u << bit % 8);
    bt_block block;
    size_t used = 0;
    assert_int_not_equal(
        bt_block_decode(f->blocks + f->begin[1], f->begin[BLOCKS] - f->begin[1], marker, &block, &used), BT_OK);
    assert_int_equal(read_all(f, f->blocks, f->begin[BLOCKS]), (BLOCKS - 1) * RECORDS);
    f->blocks[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

/* Pages of a network file that are not there yet read as zeros: that is no damage. */
static void test_holes_are_waited_for(void **state) {
  fixture *f = *state;
  size_t length = f->begin[1];
  uint8_t *copy = malloc(length + 200);
  assert_non_null(copy);
  bt_block block;
  size_t used = 0;
  for (size_t from = 0; from < length; from++) { /* zeros from somewhere in the block to the end of the file */
    memcpy(copy, f->blocks, length);
    memset(copy + from, 0, length + 200 - from);
    assert_int_equal(bt_block_decode(copy, length + 200, marker, &block, &used), BT_AGAIN);
    assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_AGAIN);
  }
  memcpy(copy, f->blocks, length); /* and in its middle */
  memset(copy + length / 2 - 40, 0, 80);
  assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_AGAIN);
  memcpy(copy, f->blocks, length);
  memset(copy + length / 2, 0xaa, 8);
  assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_DAMAGED);
  memset(copy, 0x55, length);
  assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_DAMAGED);
  copy[0] = 0;
  assert_int_equal(bt_block_decode(copy, length, marker, &block, &used), BT_DAMAGED);
  free(copy);
}

static void test_lengths_are_not_believed(void **state) {
  (void)state;
  uint8_t bytes[64] = {0x98, 0xc4, 8};
  memcpy(bytes + 3, marker, sizeof marker);
  const uint8_t fields[] = {1, 0, 1, 0, 1, 0xce, 1, 2, 3, 4};
  memcpy(bytes + 11, fields, sizeof fields);
  bt_block block;
  size_t used = 0;
  const struct {
    uint8_t bin[5];
    bt_status status;
  } payloads[] = {
      {{0xc6, 0, 1, 0, 0}, BT_AGAIN}, /* 64 KiB: may come */
      {{0xc6, 0, 1, 0, 1}, BT_DAMAGED}, /* one more never does */
      {{0xc6, 0xff, 0xff, 0xff, 0xff}, BT_DAMAGED},
      {{0xdb, 0, 0, 0, 9}, BT_AGAIN}, /* a str: known to be wrong when it is there */
      {{0xdd, 0xff, 0xff, 0xff, 0xff}, BT_AGAIN},
      {{0xc1, 1, 1, 1, 1}, BT_DAMAGED},
  };
  for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
    memcpy(bytes + 21, payloads[i].bin, 5);
    assert_int_equal(bt_block_decode(bytes, 26, marker, &block, &used), payloads[i].status);
  }
  bytes[11] = 0xdb; /* a long text where the ring's number stands */
  memset(bytes + 12, 0x11, 4);
  assert_int_equal(bt_block_decode(bytes, 26, marker, &block, &used), BT_DAMAGED);
}

static void test_scan_finds_what_may_begin_at_the_end(void **state) {
  fixture *f = *state;
  uint8_t bytes[40];
  memset(bytes, 0x98, sizeof bytes);
  memcpy(bytes + 20, f->blocks, 11);
  assert_int_equal(bt_block_scan(bytes, 31, 0, marker), 20);
  assert_int_equal(bt_block_scan(bytes, 40, 0, marker), 20);
  assert_int_equal(bt_block_scan(bytes, 40, 21, marker), 39);
  bytes[39] = 0;
  assert_int_equal(bt_block_scan(bytes, 40, 21, marker), 40);
  for (size_t length = 21; length < 31; length++) /* cut inside the marker */
    assert_int_equal(bt_block_scan(bytes, length, 0, marker), 20);
  assert_int_equal(bt_block_scan(bytes, 10, 10, marker), 10);
}

/* ---- crc ---- */

static void test_crc(void **state) {
  (void)state;
  assert_int_equal(bt_crc32c(0, "123456789", 9), 0xe3069283); /* RFC 3720's check value */
  uint8_t bytes[300];
  sample_random random = {3};
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)sample_next(&random);
  for (size_t length = 0; length < 260; length++) {
    uint32_t whole = bt_crc32c(0, bytes + length % 9, length);
    assert_int_equal(whole, bt_crc32c_portable(0, bytes + length % 9, length));
    size_t half = length / 3;
    assert_int_equal(whole,
                     bt_crc32c(bt_crc32c(0, bytes + length % 9, half), bytes + length % 9 + half, length - half));
  }
}

/* ---- names ---- */

static void test_names(void **state) {
  (void)state;
  unsigned known = 0;
  for (unsigned code = 0; code < 300; code++)
    known += bt_code_is_known(code);
  assert_int_equal(known, SAMPLE_CODES);
  for (size_t i = 0; i < SAMPLE_CODES; i++)
    assert_true(bt_code_is_known(sample_codes[i]));
  for (unsigned code = 0; code < 300; code++) {
    if (bt_code_is_known(code))
      assert_int_equal(bt_code_from_name(bt_code_name(code)), code);
    else
      assert_string_equal(bt_code_name(code), "?");
  }
  assert_int_equal(bt_code_from_name("?"), BT_NONE);
  assert_string_equal(bt_domain_name(BT_DOMAIN_EP), "ep");
  assert_string_equal(bt_domain_name(77), "?");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header_round_trip),
      cmocka_unit_test(test_largest_header_fits_a_ring_file),
      cmocka_unit_test(test_header_truncated_anywhere),
      cmocka_unit_test(test_header_with_any_bit_flipped),
      cmocka_unit_test(test_header_of_something_else),
      cmocka_unit_test(test_header_keys_of_others),
      cmocka_unit_test(test_layout_maps),
      cmocka_unit_test(test_blocks_truncated_anywhere),
      cmocka_unit_test(test_blocks_with_any_bit_flipped),
      cmocka_unit_test(test_holes_are_waited_for),
      cmocka_unit_test(test_lengths_are_not_believed),
      cmocka_unit_test(test_scan_finds_what_may_begin_at_the_end),
      cmocka_unit_test(test_crc),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
