/* Fuzz target of the stream format. The first byte chooses what the rest is:
 * 's' a stream (header, blocks), 'p' a block's payload, 'm' a layout map, 'r' a ring file.
 * Beyond not crashing: whatever a decoder hands out, the encoder takes and gives back unchanged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/wire/decode.h"
#include "formats/wire/encode.h"
#include "formats/wire/ring.h"
#include "tests/wire/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t any_marker[BT_MARKER_BYTES] = {1};

static void require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "fuzz_wire: %s\n", what);
  abort();
}

static bt_status compare_again(void *context, uint64_t number, const bt_event *event) {
  require(number == 9 && sample_same(context, event), "an event changed on its way through the encoder");
  return BT_OK;
}

static void encode_again(const bt_event *event) {
  static bt_encoder encoder; /* 72 KB: one target runs at a time */
  uint8_t bytes[BT_MAX_META + 512];
  bt_encoder_begin(&encoder, 1, 9);
  require(bt_encoder_add(&encoder, event) == BT_OK, "the encoder refuses what was decoded");
  require(encoder.length + BT_BLOCK_OVERHEAD <= sizeof bytes, "a record is longer than any should be");
  size_t length = bt_encoder_finish(&encoder, any_marker, bytes), used = 0;
  bt_block block;
  bt_event copy = *event;
  require(bt_block_decode(bytes, length, any_marker, &block, &used) == BT_OK && used == length, "a block is lost");
  require(bt_block_records(&block, compare_again, &copy) == BT_OK, "a record is lost");
}

static bt_status check_event(void *context, uint64_t number, const bt_event *event) {
  (void)number;
  const bt_block *block = context;
  require(event->start >= block->min_start && bt_event_end(event) <= block->max_end, "a record outside its block");
  encode_again(event);
  return BT_OK;
}

static void try_stream(const uint8_t *data, size_t size) {
  bt_header header;
  bt_error error;
  size_t used = 0;
  bt_status status = bt_header_decode(data, size, &header, &used, &error);
  if (status != BT_OK) memcpy(header.marker, any_marker, BT_MARKER_BYTES);
  for (size_t at = bt_block_scan(data, size, used, header.marker); at < size;) {
    bt_block block;
    size_t length = 0;
    status = bt_block_decode(data + at, size - at, header.marker, &block, &length);
    if (status == BT_OK) bt_block_records(&block, check_event, &block);
    at = bt_block_scan(data, size, status == BT_OK ? at + length : at + 1, header.marker);
  }
}

/* Two bytes of count, then the records; extents wide open. */
static void try_payload(const uint8_t *data, size_t size) {
  if (size < 2) return;
  bt_block block = {.ring = 1,
                    .count = (uint32_t)(data[0] << 8 | data[1]),
                    .min_start = INT64_MIN,
                    .max_end = INT64_MAX,
                    .payload = data + 2,
                    .payload_length = size - 2};
  bt_block_records(&block, check_event, &block);
}

/* 64 bytes of the file's head, 128 of a ring's (from `head` on), then slots. */
static void try_ring(const uint8_t *data, size_t size) {
  enum { CAPACITY = 32, RING_BYTES = BT_RING_PAGE + CAPACITY * BT_SLOT_BYTES, FILE_PART = 64, RING_PART = 128 };
  static _Alignas(64) uint8_t bytes[BT_RING_PAGE + RING_BYTES];
  static bt_ring_reader reader;
  bt_ring_file file = {.magic = {'B', 'T', 'R', 'I', 'N', 'G', 0, 1},
                       .version = BT_RING_VERSION,
                       .page_bytes = BT_RING_PAGE,
                       .ring_bytes = RING_BYTES,
                       .ring_count = 1};
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes, &file, sizeof file);
  bt_ring_head *ring = (bt_ring_head *)(void *)(bytes + BT_RING_PAGE);
  ring->capacity = CAPACITY;
  for (size_t i = 0; i < FILE_PART && i < size; i++)
    bytes[i] ^= data[i];
  for (size_t i = FILE_PART; i < FILE_PART + RING_PART && i < size; i++)
    bytes[BT_RING_PAGE + i] = data[i];
  for (size_t i = FILE_PART + RING_PART; i < size && i - FILE_PART - RING_PART < CAPACITY * BT_SLOT_BYTES; i++)
    bytes[2 * BT_RING_PAGE + i - FILE_PART - RING_PART] = data[i];
  bt_ring_map map;
  bt_error error;
  if (bt_ring_map_check(&map, bytes, sizeof bytes, &error) != BT_OK || bt_ring_reader_begin(&reader, &map, 0) != BT_OK)
    return;
  uint64_t number;
  bt_event event;
  for (int i = 0; i < 2 * CAPACITY; i++) {
    bt_status status = bt_ring_reader_next(&reader, &number, &event);
    if (status == BT_OK && event.code != BT_META) encode_again(&event); /* a ring's meta may be no map */
    if (status == BT_AGAIN) return;
  }
  require(false, "a ring never ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  bt_layout layout;
  bt_layout_init(&layout);
  switch (data[0]) {
  case 's': try_stream(data + 1, size - 1); break;
  case 'p': try_payload(data + 1, size - 1); break;
  case 'm': bt_layout_decode(data + 1, size - 1, &layout); break;
  case 'r': try_ring(data + 1, size - 1); break;
  default: break;
  }
  return 0;
}
