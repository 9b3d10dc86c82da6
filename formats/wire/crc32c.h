/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, as in RFC 3720), in software or by SSE4.2 where the CPU has it. */
#ifndef BT_WIRE_CRC32C_H
#define BT_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over `length` bytes. Pure; safe from any thread. */
uint32_t bt_crc32c(uint32_t crc, const void *data, size_t length);

/* The same by table, on every CPU: what bt_crc32c falls back to. */
uint32_t bt_crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
