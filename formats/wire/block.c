#include <string.h>

#include "formats/wire/crc32c.h"
#include "formats/wire/decode.h"
#include "formats/wire/frame.h"
#include "formats/wire/value.h"

enum { FIELDS = 8, PREFIX_BYTES = 3 + BT_MARKER_BYTES, HOLE_BYTES = 64 };

static size_t crc_place(size_t length, const bt_value *payload) {
  size_t head = payload->length < 256 ? 2 : payload->length < 65536 ? 3 : 5;
  return length - payload->length - head - sizeof(uint32_t);
}

static uint32_t crc_around(const uint8_t *bytes, size_t length, size_t crc_at) {
  size_t behind = crc_at + sizeof(uint32_t);
  return bt_crc32c(bt_crc32c(0, bytes, crc_at), bytes + behind, length - behind);
}

void bt_frame_seal(uint8_t *bytes, size_t length, size_t crc_at) {
  uint32_t crc = crc_around(bytes, length, crc_at);
  for (unsigned i = 0; i < 4; i++)
    bytes[crc_at + i] = (uint8_t)(crc >> (24 - 8 * i));
}

bool bt_frame_check(const uint8_t *bytes, size_t length, const bt_value *payload) {
  size_t crc_at = crc_place(length, payload);
  if (crc_at >= length || crc_at == 0 ||
      bytes[crc_at - 1] != 0xce) /* another form than ours: no crc where it must be */
    return false;
  uint32_t stored = (uint32_t)bytes[crc_at] << 24 | (uint32_t)bytes[crc_at + 1] << 16 |
                    (uint32_t)bytes[crc_at + 2] << 8 | bytes[crc_at + 3];
  return stored == crc_around(bytes, length, crc_at);
}

bool bt_frame_is_hole(const uint8_t *bytes, size_t length) {
  size_t run = 0;
  for (size_t i = 0; i < length; i++) {
    run = bytes[i] == 0 ? run + 1 : 0;
    if (run == HOLE_BYTES) return true;
  }
  return run > 0;
}

static void make_prefix(uint8_t prefix[PREFIX_BYTES], const uint8_t marker[BT_MARKER_BYTES]) {
  prefix[0] = 0x90 | FIELDS;
  prefix[1] = 0xc4; /* bin 8 */
  prefix[2] = BT_MARKER_BYTES;
  memcpy(prefix + 3, marker, BT_MARKER_BYTES);
}

/* Ring, first, count, min start, max end, crc, payload: what follows the prefix. */
static bt_status read_fields(const uint8_t *data, size_t length, bt_block *block, bt_value *payload, size_t *end) {
  size_t offset = PREFIX_BYTES;
  int64_t ring, count, crc;
  bt_value field[FIELDS - 1];
  for (size_t i = 0; i < FIELDS - 1; i++) {
    bt_status status = bt_value_read(data, length, &offset, &field[i]);
    if (status == BT_AGAIN && field[i].length > (i == FIELDS - 2 ? BT_PAYLOAD_MAX : 0)) return BT_DAMAGED;
    if (status != BT_OK) return status;
    if (i < FIELDS - 2 && field[i].kind != BT_VALUE_INT && !(i == 1 && field[i].kind == BT_VALUE_BIG))
      return BT_DAMAGED;
  }
  *payload = field[6];
  if (!bt_value_integer(&field[0], 0, UINT32_MAX, &ring) || !bt_value_integer(&field[2], 1, UINT32_MAX, &count) ||
      !bt_value_integer(&field[5], 0, UINT32_MAX, &crc) || (field[1].kind == BT_VALUE_INT && field[1].integer < 0) ||
      payload->kind != BT_VALUE_BIN || payload->length > BT_PAYLOAD_MAX)
    return BT_DAMAGED;
  *block = (bt_block){.ring = (uint32_t)ring,
                      .first = (uint64_t)field[1].integer,
                      .count = (uint32_t)count,
                      .min_start = field[3].integer,
                      .max_end = field[4].integer,
                      .payload = payload->data,
                      .payload_length = payload->length};
  *end = offset;
  return BT_OK;
}

bt_status bt_block_decode(const uint8_t *data, size_t length, const uint8_t marker[BT_MARKER_BYTES], bt_block *block,
                          size_t *used) {
  uint8_t prefix[PREFIX_BYTES];
  make_prefix(prefix, marker);
  size_t window = length < BT_BLOCK_MAX ? length : BT_BLOCK_MAX;
  *used = window < HOLE_BYTES ? window : HOLE_BYTES;
  if (memcmp(data, prefix, length < PREFIX_BYTES ? length : PREFIX_BYTES) != 0)
    return bt_frame_is_hole(data, *used) ? BT_AGAIN : BT_DAMAGED;
  bt_value payload;
  size_t end = 0;
  bt_status status = read_fields(data, length, block, &payload, &end);
  if (status == BT_OK && (!bt_frame_check(data, end, &payload) || block->min_start > block->max_end ||
                          block->count > block->payload_length || block->first > UINT64_MAX - block->count))
    status = BT_DAMAGED;
  if (status == BT_AGAIN) return status;
  *used = end > 0 ? end : window;
  if (status == BT_DAMAGED) return bt_frame_is_hole(data, *used) ? BT_AGAIN : BT_DAMAGED;
  return status;
}

size_t bt_block_scan(const uint8_t *data, size_t length, size_t from, const uint8_t marker[BT_MARKER_BYTES]) {
  uint8_t prefix[PREFIX_BYTES];
  make_prefix(prefix, marker);
  while (from < length) {
    const uint8_t *found = memchr(data + from, prefix[0], length - from);
    if (found == NULL) return length;
    size_t at = (size_t)(found - data), left = length - at;
    if (memcmp(found, prefix, left < PREFIX_BYTES ? left : PREFIX_BYTES) == 0) return at;
    from = at + 1;
  }
  return length;
}
