#include <string.h>

#include "formats/wire/crc32c.h"
#include "formats/wire/decode.h"
#include "formats/wire/encode.h"
#include "formats/wire/frame.h"
#include "formats/wire/out.h"
#include "formats/wire/value.h"

enum { MAGIC_BYTES = 11, HEADER_PAYLOAD_MAX = 64 * 1024 };

/* array(5), then the str "bubbletop" */
static const uint8_t magic[MAGIC_BYTES] = {0x95, 0xa9, 'b', 'u', 'b', 'b', 'l', 'e', 't', 'o', 'p'};

typedef enum key_type { KEY_INT32, KEY_UINT32, KEY_INT64, KEY_UINT64, KEY_FLAG, KEY_TEXT } key_type;

/* The keys of the payload map, besides "layout". A key whose value is the default (bt_header_init) is left out. */
static const struct header_key {
  const char *name;
  key_type type;
  size_t offset, room;
} keys[] = {
    {"rank", KEY_INT32, offsetof(bt_header, rank), 0},
    {"world_size", KEY_INT32, offsetof(bt_header, world_size), 0},
    {"host", KEY_TEXT, offsetof(bt_header, host), sizeof((bt_header *)0)->host},
    {"boot_id", KEY_TEXT, offsetof(bt_header, boot_id), sizeof((bt_header *)0)->boot_id},
    {"time_ns", KEY_UINT64, offsetof(bt_header, time_namespace), 0},
    {"pid", KEY_INT64, offsetof(bt_header, pid), 0},
    {"run_id", KEY_TEXT, offsetof(bt_header, run_id), sizeof((bt_header *)0)->run_id},
    {"life", KEY_UINT32, offsetof(bt_header, life), 0},
    {"segment", KEY_UINT32, offsetof(bt_header, segment), 0},
    {"mono", KEY_INT64, offsetof(bt_header, mono_ns), 0},
    {"real", KEY_INT64, offsetof(bt_header, real_ns), 0},
    {"ring_path", KEY_TEXT, offsetof(bt_header, ring_path), sizeof((bt_header *)0)->ring_path},
    {"ring_inode", KEY_UINT64, offsetof(bt_header, ring_inode), 0},
    {"recoverable", KEY_FLAG, offsetof(bt_header, recoverable), 0},
    {"recovered", KEY_FLAG, offsetof(bt_header, recovered), 0},
    {"writer", KEY_TEXT, offsetof(bt_header, writer), sizeof((bt_header *)0)->writer},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

void bt_header_init(bt_header *header) {
  memset(header, 0, sizeof *header);
  header->version = BT_FORMAT_VERSION;
  header->rank = header->world_size = -1;
  bt_layout_init(&header->layout);
}

static bool is_default(const bt_header *header, const struct header_key *key) {
  const char *field = (const char *)header + key->offset;
  switch (key->type) {
  case KEY_INT32: return *(const int32_t *)(const void *)field == -1;
  case KEY_UINT32: return false; /* life and segment are always told */
  case KEY_INT64:
  case KEY_UINT64: return *(const int64_t *)(const void *)field == 0;
  case KEY_FLAG: return *(const int *)(const void *)field == 0;
  case KEY_TEXT: return *field == '\0';
  }
  return true;
}

static void pack_field(bt_out *out, const bt_header *header, const struct header_key *key) {
  const char *field = (const char *)header + key->offset;
  switch (key->type) {
  case KEY_INT32: msgpack_pack_int32(&out->packer, *(const int32_t *)(const void *)field); break;
  case KEY_UINT32: msgpack_pack_uint32(&out->packer, *(const uint32_t *)(const void *)field); break;
  case KEY_INT64: msgpack_pack_int64(&out->packer, *(const int64_t *)(const void *)field); break;
  case KEY_UINT64: msgpack_pack_uint64(&out->packer, *(const uint64_t *)(const void *)field); break;
  case KEY_FLAG: msgpack_pack_int(&out->packer, *(const int *)(const void *)field != 0); break;
  case KEY_TEXT: msgpack_pack_str_with_body(&out->packer, field, strnlen(field, key->room)); break;
  }
}

bt_status bt_header_encode(const bt_header *header, uint8_t *bytes, size_t room, size_t *used, bt_error *error) {
  uint8_t payload[BT_HEADER_MAX];
  bt_out out;
  bt_out_init(&out, payload, 0, sizeof payload);
  size_t count = 1;
  for (size_t i = 0; i < KEYS; i++)
    count += !is_default(header, &keys[i]);
  msgpack_pack_map(&out.packer, count);
  for (size_t i = 0; i < KEYS; i++) {
    if (is_default(header, &keys[i])) continue;
    bt_out_text(&out, keys[i].name);
    pack_field(&out, header, &keys[i]);
  }
  bt_out_text(&out, "layout");
  size_t layout_length = 0;
  if (bt_layout_encode(&header->layout, payload + out.length, sizeof payload - out.length, &layout_length) != BT_OK)
    return bt_fail(error, BT_ERR_LIMIT, "the stream header does not fit into %d bytes", BT_HEADER_MAX);
  size_t payload_length = out.length + layout_length;

  bt_out_init(&out, bytes, 0, room);
  msgpack_pack_array(&out.packer, 5);
  bt_out_text(&out, "bubbletop");
  msgpack_pack_uint32(&out.packer, BT_FORMAT_VERSION);
  msgpack_pack_bin_with_body(&out.packer, header->marker, BT_MARKER_BYTES);
  size_t crc_at = out.length + 1;
  msgpack_pack_fix_uint32(&out.packer, 0);
  msgpack_pack_bin_with_body(&out.packer, payload, payload_length);
  if (out.full) return bt_fail(error, BT_ERR_LIMIT, "the stream header does not fit into %zu bytes", room);
  bt_frame_seal(bytes, out.length, crc_at);
  *used = out.length;
  return BT_OK;
}

static void take_field(bt_header *header, const struct header_key *key, const bt_value *value) {
  char *field = (char *)header + key->offset;
  int64_t integer;
  switch (key->type) {
  case KEY_INT32:
    if (bt_value_integer(value, -1, INT32_MAX, &integer)) *(int32_t *)(void *)field = (int32_t)integer;
    break;
  case KEY_UINT32:
    if (bt_value_integer(value, 0, UINT32_MAX, &integer)) *(uint32_t *)(void *)field = (uint32_t)integer;
    break;
  case KEY_INT64:
    if (bt_value_integer(value, INT64_MIN, INT64_MAX, &integer)) *(int64_t *)(void *)field = integer;
    break;
  case KEY_UINT64:
    if (value->kind == BT_VALUE_BIG || bt_value_integer(value, 0, INT64_MAX, &integer))
      *(uint64_t *)(void *)field = (uint64_t)value->integer;
    break;
  case KEY_FLAG:
    if (bt_value_integer(value, 0, 1, &integer)) *(int *)(void *)field = (int)integer;
    break;
  case KEY_TEXT: bt_value_copy_text(value, field, key->room); break;
  }
}

static bt_status decode_payload(const bt_value *payload, bt_header *header, bt_error *error) {
  bt_map_walk walk;
  if (bt_map_begin(&walk, payload->data, payload->length) != BT_OK)
    return bt_fail(error, BT_DAMAGED, "the stream header's payload is not a msgpack map");
  header->raw = payload->data;
  header->raw_length = payload->length;
  bt_value name, value;
  while (bt_map_next(&walk, &name, &value)) {
    for (size_t i = 0; i < KEYS; i++) {
      if (bt_value_equals(&name, keys[i].name)) take_field(header, &keys[i], &value);
    }
    if (bt_value_equals(&name, "layout")) bt_layout_decode(value.object, value.object_bytes, &header->layout);
  }
  return BT_OK;
}

/* The array's items: name, version, marker, crc, payload. */
static bt_status read_items(const uint8_t *data, size_t length, bt_value items[5], size_t *end) {
  static const bt_value_kind kinds[5] = {BT_VALUE_TEXT, BT_VALUE_INT, BT_VALUE_BIN, BT_VALUE_INT, BT_VALUE_BIN};
  size_t offset = 1;
  for (size_t i = 0; i < 5; i++) {
    bt_status status = bt_value_read(data, length, &offset, &items[i]);
    if (status == BT_AGAIN && items[i].length > (i == 4 ? HEADER_PAYLOAD_MAX : BT_MARKER_BYTES + 1)) return BT_DAMAGED;
    if (status != BT_OK) return status;
    if (items[i].kind != kinds[i]) return BT_DAMAGED;
  }
  *end = offset;
  return items[2].length == BT_MARKER_BYTES && items[4].length <= HEADER_PAYLOAD_MAX ? BT_OK : BT_DAMAGED;
}

static bt_status too_new(bt_error *error, int64_t version) {
  return bt_fail(error, BT_ERR_VERSION, "format version %lld is newer than this program's %d: update bubbletop",
                 (long long)version, BT_FORMAT_VERSION);
}

bt_status bt_header_decode(const uint8_t *data, size_t length, bt_header *header, size_t *used, bt_error *error) {
  bt_header_init(header);
  size_t known = length < MAGIC_BYTES ? length : MAGIC_BYTES;
  if (memcmp(data, magic, known) != 0) {
    return bt_frame_is_hole(data, length)
               ? BT_AGAIN
               : bt_fail(error, BT_ERR_FORMAT, "not a bubbletop stream (no header at its start)");
  }
  bt_value items[5] = {{.kind = BT_VALUE_NIL}};
  size_t end = 0;
  bt_status status = read_items(data, length, items, &end);
  if (items[1].kind == BT_VALUE_INT && items[1].integer != BT_FORMAT_VERSION && status == BT_DAMAGED)
    return too_new(error, items[1].integer);
  if (status == BT_OK && !bt_frame_check(data, end, &items[4])) status = BT_DAMAGED;
  if (status == BT_DAMAGED) {
    return bt_frame_is_hole(data, length < HEADER_PAYLOAD_MAX ? length : HEADER_PAYLOAD_MAX)
               ? BT_AGAIN
               : bt_fail(error, BT_DAMAGED, "the stream header is damaged");
  }
  if (status != BT_OK) return status;
  if (items[1].integer != BT_FORMAT_VERSION) return too_new(error, items[1].integer);
  header->version = (uint32_t)items[1].integer;
  memcpy(header->marker, items[2].data, BT_MARKER_BYTES);
  *used = end;
  return decode_payload(&items[4], header, error);
}
