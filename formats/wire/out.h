/* Internal: a bounded output buffer behind msgpack-c's inline packers. `full` sticks, so that callers pack without looking
 * at every return value and check once at the end. Header-only: nothing of libmsgpack is linked. */
#ifndef BT_WIRE_OUT_H
#define BT_WIRE_OUT_H

#include <msgpack/pack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct bt_out {
  uint8_t *data;
  size_t length, room;
  bool full;
  msgpack_packer packer;
} bt_out;

static inline int bt_out_write(void *out_, const char *bytes, size_t length) {
  bt_out *out = out_;
  if (out->full || length > out->room - out->length) {
    out->full = true;
    return -1;
  }
  if (length > 0) memcpy(out->data + out->length, bytes, length); /* an empty string may be NULL */
  out->length += length;
  return 0;
}

static inline void bt_out_init(bt_out *out, uint8_t *data, size_t length, size_t room) {
  *out = (bt_out){.data = data, .length = length, .room = room};
  msgpack_packer_init(&out->packer, out, bt_out_write);
}

static inline void bt_out_text(bt_out *out, const char *text) {
  msgpack_pack_str_with_body(&out->packer, text, strlen(text));
}

#endif
