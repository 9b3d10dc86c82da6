#include <string.h>

#include "formats/wire/decode.h"
#include "formats/wire/encode.h"
#include "formats/wire/out.h"
#include "formats/wire/value.h"

/* The integer keys of a layout map. vstage and schedule have other types and are handled beside them. */
static const struct layout_key {
  const char *name;
  size_t offset;
} keys[] = {
    {"pp_rank", offsetof(bt_layout, pp_rank)},
    {"pp_size", offsetof(bt_layout, pp_size)},
    {"tp_rank", offsetof(bt_layout, tp_rank)},
    {"tp_size", offsetof(bt_layout, tp_size)},
    {"dp_rank", offsetof(bt_layout, dp_rank)},
    {"dp_size", offsetof(bt_layout, dp_size)},
    {"cp_rank", offsetof(bt_layout, cp_rank)},
    {"cp_size", offsetof(bt_layout, cp_size)},
    {"ep_rank", offsetof(bt_layout, ep_rank)},
    {"ep_size", offsetof(bt_layout, ep_size)},
    {"chunks", offsetof(bt_layout, chunks)},
    {"microbatches", offsetof(bt_layout, microbatches)},
    {"virtual_stages", offsetof(bt_layout, virtual_stages)},
    {"zero_stage", offsetof(bt_layout, zero_stage)},
    {"w_separable", offsetof(bt_layout, w_separable)},
};

enum { KEYS = sizeof keys / sizeof keys[0] };

static int32_t *field(bt_layout *layout, size_t key) {
  return (int32_t *)(void *)((char *)layout + keys[key].offset);
}

void bt_layout_init(bt_layout *layout) {
  memset(layout, 0, sizeof *layout);
  for (size_t i = 0; i < KEYS; i++)
    *field(layout, i) = -1;
  for (size_t i = 0; i < BT_MAX_CHUNKS; i++)
    layout->vstage[i] = -1;
}

/* Chunks up to the last one whose virtual stage is known. */
static size_t known_vstages(const bt_layout *layout) {
  size_t count = BT_MAX_CHUNKS;
  while (count > 0 && layout->vstage[count - 1] == -1)
    count--;
  return count;
}

bt_status bt_layout_encode(const bt_layout *layout, uint8_t *bytes, size_t room, size_t *used) {
  bt_layout known = *layout;
  size_t vstages = known_vstages(layout), count = (vstages > 0) + (layout->schedule[0] != '\0');
  for (size_t i = 0; i < KEYS; i++)
    count += *field(&known, i) != -1;

  bt_out out;
  bt_out_init(&out, bytes, 0, room);
  msgpack_pack_map(&out.packer, count);
  for (size_t i = 0; i < KEYS; i++) {
    if (*field(&known, i) == -1) continue;
    bt_out_text(&out, keys[i].name);
    msgpack_pack_int32(&out.packer, *field(&known, i));
  }
  if (vstages > 0) {
    bt_out_text(&out, "vstage");
    msgpack_pack_array(&out.packer, vstages);
    for (size_t i = 0; i < vstages; i++)
      msgpack_pack_int32(&out.packer, layout->vstage[i]);
  }
  if (layout->schedule[0] != '\0') {
    bt_out_text(&out, "schedule");
    msgpack_pack_str_with_body(&out.packer, layout->schedule, strnlen(layout->schedule, sizeof layout->schedule));
  }
  *used = out.length;
  return out.full ? BT_ERR_LIMIT : BT_OK;
}

static void decode_vstages(const bt_map_walk *walk, const bt_value *array, bt_layout *layout) {
  if (array->kind != BT_VALUE_ARRAY) return;
  size_t offset = (size_t)(array->data - walk->data);
  for (uint32_t i = 0; i < array->length && i < BT_MAX_CHUNKS; i++) {
    bt_value item;
    int64_t integer;
    if (bt_value_read(walk->data, walk->length, &offset, &item) != BT_OK) return;
    if (bt_value_integer(&item, -1, INT32_MAX, &integer)) layout->vstage[i] = (int32_t)integer;
  }
}

bt_status bt_layout_decode(const uint8_t *data, size_t length, bt_layout *layout) {
  bt_map_walk walk;
  bt_status status = bt_map_begin(&walk, data, length);
  if (status != BT_OK) return status;
  bt_value name, value;
  while (bt_map_next(&walk, &name, &value)) {
    int64_t integer;
    for (size_t i = 0; i < KEYS; i++) {
      if (bt_value_equals(&name, keys[i].name) && bt_value_integer(&value, -1, INT32_MAX, &integer))
        *field(layout, i) = (int32_t)integer;
    }
    if (bt_value_equals(&name, "vstage")) decode_vstages(&walk, &value, layout);
    if (bt_value_equals(&name, "schedule")) bt_value_copy_text(&value, layout->schedule, sizeof layout->schedule);
  }
  return BT_OK;
}
