/* The decoder of the capture stream: header, blocks, and the records of a block.
 *
 * Every function takes bytes that may be hostile: lengths are checked before they are believed, nothing allocates,
 * nothing is read outside [data, data + length). Safe from any thread on distinct objects.
 */
#ifndef BT_WIRE_DECODE_H
#define BT_WIRE_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/wire/encode.h"
#include "formats/wire/event.h"
#include "formats/wire/status.h"

/* Reads the header object at `data`. BT_OK: `used` bytes were it. BT_AGAIN: the bytes end inside it.
 * BT_ERR_FORMAT: not a bubbletop stream. BT_ERR_VERSION: a newer one. BT_DAMAGED: ours, but its crc is wrong. */
bt_status bt_header_decode(const uint8_t *data, size_t length, bt_header *header, size_t *used, bt_error *error);

/* Applies the keys of a msgpack map (a BT_META record's text) to `layout`; keys it does not know are ignored.
 * BT_ERR_FORMAT when it is no map. */
bt_status bt_layout_decode(const uint8_t *data, size_t length, bt_layout *layout);

/* The fields of one block; payload is borrowed from the input. */
typedef struct bt_block {
  uint32_t ring;
  uint64_t first;
  uint32_t count;
  int64_t min_start, max_end;
  const uint8_t *payload;
  size_t payload_length;
} bt_block;

/* Reads the block at `data` and checks its crc. BT_OK: `used` bytes were it. BT_AGAIN: the bytes end inside what looks
 * like one (or are all zero: a hole that is not written yet). BT_DAMAGED: no block of this stream here.
 * Without BT_OK `used` is how many bytes were looked at: what a caller pays who tries many places. */
bt_status bt_block_decode(const uint8_t *data, size_t length, const uint8_t marker[BT_MARKER_BYTES], bt_block *block,
                          size_t *used);

/* After damage: offset of the next place in [from, length) where a block of this stream may begin (its array byte and
 * marker stand there), or `length` minus what could be the beginning of one. Pure search; check with bt_block_decode. */
size_t bt_block_scan(const uint8_t *data, size_t length, size_t from, const uint8_t marker[BT_MARKER_BYTES]);

/* Called for each record of a block in order, with its number. Return BT_OK to go on, anything else to stop. */
typedef bt_status bt_record_fn(void *context, uint64_t number, const bt_event *event);

/* Decodes the records of a block. Records with an unknown code are counted and skipped (they keep their number).
 * BT_OK, the callback's own status, or BT_DAMAGED when the payload contradicts itself (records before that place have
 * been delivered). Pointers in the event are valid during the callback. */
bt_status bt_block_records(const bt_block *block, bt_record_fn *fn, void *context);

#endif
