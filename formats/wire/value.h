/* Internal: one msgpack value read from bytes that may be hostile, for the header, block fields and maps, where a few
 * nanoseconds do not matter. Records have a faster path (records.c). Both are msgpack-c's own unpack template. */
#ifndef BT_WIRE_VALUE_H
#define BT_WIRE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/status.h"

typedef enum bt_value_kind {
  BT_VALUE_NIL,
  BT_VALUE_INT, /* fits int64 */
  BT_VALUE_BIG, /* an unsigned integer above INT64_MAX, its bits in `integer` */
  BT_VALUE_REAL,
  BT_VALUE_TEXT, /* str */
  BT_VALUE_BIN,
  BT_VALUE_ARRAY,
  BT_VALUE_MAP,
  BT_VALUE_OTHER /* bool, ext */
} bt_value_kind;

typedef struct bt_value {
  bt_value_kind kind;
  int64_t integer;
  double real;
  const uint8_t *data; /* text, bin: their bytes; array, map: where the first item begins */
  uint32_t length; /* text, bin: bytes; array: items; map: pairs */
  const uint8_t *object; /* the value as it stands in the input, */
  size_t object_bytes; /* with everything in it */
} bt_value;

/* Reads the value at `*offset`, with everything in it, and moves `*offset` behind it. BT_OK; BT_AGAIN: the bytes end inside
 * it (when that is inside a str, bin or ext, `value->length` says how long it claims to be, else it is 0); BT_DAMAGED: no
 * msgpack, or nested deeper than 32. */
bt_status bt_value_read(const uint8_t *data, size_t length, size_t *offset, bt_value *value);

/* True when the bytes are exactly one msgpack map. */
bool bt_value_is_map(const uint8_t *data, size_t length);

/* Walks the pairs of a map. */
typedef struct bt_map_walk {
  const uint8_t *data;
  size_t length, offset;
  uint32_t left;
} bt_map_walk;

/* BT_ERR_FORMAT: the bytes are not exactly one map. */
bt_status bt_map_begin(bt_map_walk *walk, const uint8_t *data, size_t length);
bool bt_map_next(bt_map_walk *walk, bt_value *key, bt_value *value);

bool bt_value_equals(const bt_value *value, const char *text);

/* The integer, if it is one within [low, high]. */
bool bt_value_integer(const bt_value *value, int64_t low, int64_t high, int64_t *integer);
/* Copies text, cut at a UTF-8 boundary where it does not fit; false when it is no str. */
bool bt_value_copy_text(const bt_value *value, char *out, size_t room);

#endif
