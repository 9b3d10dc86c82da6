#include "formats/wire/value.h"

#include <msgpack/unpack.h>
#include <msgpack/unpack_define.h>
#include <string.h>

/* msgpack-c's unpack template: it drives these callbacks, one a value; only the outermost value matters here. */
typedef struct value_user {
  char nothing;
} value_user;

#define msgpack_unpack_struct(name) struct value##name
#define msgpack_unpack_func(type, name) static type value##name
#define msgpack_unpack_callback(name) value_on##name
#define msgpack_unpack_object bt_value
#define msgpack_unpack_user value_user

struct value_context;

static bt_value value_on_root(value_user *user) {
  (void)user;
  return (bt_value){.kind = BT_VALUE_NIL};
}

static int set_integer(bt_value *value, int64_t integer) {
  *value = (bt_value){.kind = BT_VALUE_INT, .integer = integer};
  return 0;
}

static int set_bytes(bt_value *value, bt_value_kind kind, const char *bytes, unsigned length) {
  *value =
      (bt_value){.kind = kind, .data = length > 0 ? (const uint8_t *)bytes : (const uint8_t *)"", .length = length};
  return 0;
}

/* clang-format off */
#define VALUE_INTEGER(name, type) \
  static int value_on##name(value_user *user, type d, bt_value *value) { (void)user; return set_integer(value, d); }
VALUE_INTEGER(_uint8, uint8_t)
VALUE_INTEGER(_uint16, uint16_t)
VALUE_INTEGER(_uint32, uint32_t)
VALUE_INTEGER(_int8, int8_t)
VALUE_INTEGER(_int16, int16_t)
VALUE_INTEGER(_int32, int32_t)
VALUE_INTEGER(_int64, int64_t)
#undef VALUE_INTEGER
/* clang-format on */

static int value_on_uint64(value_user *user, uint64_t d, bt_value *value) {
  (void)user;
  set_integer(value, (int64_t)d);
  if (d > INT64_MAX) value->kind = BT_VALUE_BIG;
  return 0;
}

static int value_on_double(value_user *user, double d, bt_value *value) {
  (void)user;
  *value = (bt_value){.kind = BT_VALUE_REAL, .real = d};
  return 0;
}

static int value_on_float(value_user *user, float d, bt_value *value) {
  return value_on_double(user, (double)d, value);
}

static int value_on_nil(value_user *user, bt_value *value) {
  (void)user;
  *value = (bt_value){.kind = BT_VALUE_NIL};
  return 0;
}

static int set_other(bt_value *value) {
  *value = (bt_value){.kind = BT_VALUE_OTHER};
  return 0;
}

static int value_on_true(value_user *user, bt_value *value) {
  (void)user;
  return set_other(value);
}

static int value_on_false(value_user *user, bt_value *value) {
  (void)user;
  return set_other(value);
}

static int value_on_str(value_user *user, const char *base, const char *bytes, unsigned length, bt_value *value) {
  (void)user, (void)base;
  return set_bytes(value, BT_VALUE_TEXT, bytes, length);
}

static int value_on_bin(value_user *user, const char *base, const char *bytes, unsigned length, bt_value *value) {
  (void)user, (void)base;
  return set_bytes(value, BT_VALUE_BIN, bytes, length);
}

static int value_on_ext(value_user *user, const char *base, const char *bytes, unsigned length, bt_value *value) {
  (void)user, (void)base, (void)bytes, (void)length;
  return set_other(value);
}

static int value_on_array(value_user *user, unsigned items, bt_value *value) {
  (void)user;
  *value = (bt_value){.kind = BT_VALUE_ARRAY, .length = items};
  return 0;
}

static int value_on_map(value_user *user, unsigned pairs, bt_value *value) {
  (void)user;
  *value = (bt_value){.kind = BT_VALUE_MAP, .length = pairs};
  return 0;
}

static int value_on_array_item(value_user *user, bt_value *array, bt_value item) {
  (void)user, (void)array, (void)item;
  return 0;
}

static int value_on_map_item(value_user *user, bt_value *map, bt_value key, bt_value item) {
  (void)user, (void)map, (void)key, (void)item;
  return 0;
}

#include <msgpack/unpack_template.h>

/* Bytes of a container's head, by its first byte. */
static size_t container_head(uint8_t first) {
  switch (first) {
  case 0xdc:
  case 0xde: return 3;
  case 0xdd:
  case 0xdf: return 5;
  default: return 1;
  }
}

bt_status bt_value_read(const uint8_t *data, size_t length, size_t *offset, bt_value *value) {
  *value = (bt_value){.kind = BT_VALUE_NIL};
  if (*offset >= length) return BT_AGAIN;
  struct value_context context;
  value_init(&context);
  size_t end = *offset;
  int result = value_execute(&context, (const char *)data, length, &end);
  if (result < 0) return BT_DAMAGED;
  if (result == 0) {
    if (context.cs >= MSGPACK_ACS_STR_VALUE) value->length = context.trail;
    return BT_AGAIN;
  }
  *value = value_data(&context);
  if (value->kind == BT_VALUE_ARRAY || value->kind == BT_VALUE_MAP)
    value->data = data + *offset + container_head(data[*offset]);
  value->object = data + *offset;
  value->object_bytes = end - *offset;
  *offset = end;
  return BT_OK;
}

bt_status bt_map_begin(bt_map_walk *walk, const uint8_t *data, size_t length) {
  size_t offset = 0;
  bt_value map;
  if (bt_value_read(data, length, &offset, &map) != BT_OK || map.kind != BT_VALUE_MAP || offset != length)
    return BT_ERR_FORMAT;
  *walk = (bt_map_walk){.data = data, .length = length, .offset = (size_t)(map.data - data), .left = map.length};
  return BT_OK;
}

bool bt_value_is_map(const uint8_t *data, size_t length) {
  bt_map_walk walk;
  return bt_map_begin(&walk, data, length) == BT_OK;
}

bool bt_map_next(bt_map_walk *walk, bt_value *key, bt_value *value) {
  if (walk->left == 0) return false;
  walk->left--;
  return bt_value_read(walk->data, walk->length, &walk->offset, key) == BT_OK &&
         bt_value_read(walk->data, walk->length, &walk->offset, value) == BT_OK;
}

bool bt_value_equals(const bt_value *value, const char *text) {
  return value->kind == BT_VALUE_TEXT && value->length == strlen(text) && memcmp(value->data, text, value->length) == 0;
}

bool bt_value_integer(const bt_value *value, int64_t low, int64_t high, int64_t *integer) {
  if (value->kind != BT_VALUE_INT || value->integer < low || value->integer > high) return false;
  *integer = value->integer;
  return true;
}

bool bt_value_copy_text(const bt_value *value, char *out, size_t room) {
  if (value->kind != BT_VALUE_TEXT) return false;
  size_t length = value->length < room ? value->length : room - 1;
  while (length < value->length && length > 0 && (value->data[length] & 0xc0) == 0x80)
    length--; /* do not cut inside a character */
  memcpy(out, value->data, length);
  out[length] = '\0';
  return true;
}
