/* Internal: what the header object and blocks share: a crc of everything but its own four bytes, right before the payload,
 * which is a bin in its shortest form and the last element. */
#ifndef BT_WIRE_FRAME_H
#define BT_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/value.h"

/* Puts the crc of `length` bytes into the four bytes at `crc_at`. */
void bt_frame_seal(uint8_t *bytes, size_t length, size_t crc_at);

/* True when the frame of `length` bytes that ends with `payload` carries the right crc. */
bool bt_frame_check(const uint8_t *bytes, size_t length, const bt_value *payload);

/* True when bytes that make no sense may be a hole that is not written yet: they end in a zero byte or have 64 in a row.
 * A file on a network file system shows such pages for a while. */
bool bt_frame_is_hole(const uint8_t *bytes, size_t length);

#endif
