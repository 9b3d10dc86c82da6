/* Status values and the one error type of bubbletop.
 *
 * Every function that can fail returns a bt_status. Negative values are errors; zero and positive values are answers
 * (BT_AGAIN: nothing to read now, ask later; BT_END: there will never be more; BT_DAMAGED: bytes were skipped and
 * reading can go on). A function that takes a `bt_error *` fills it on a negative status, for a person to read; NULL is
 * allowed. Nothing here allocates; all of it is safe to call from any thread on distinct objects.
 */
#ifndef BT_WIRE_STATUS_H
#define BT_WIRE_STATUS_H

#include <stdarg.h>
#include <stdint.h>

typedef enum bt_status {
  BT_OK = 0,
  BT_AGAIN = 1,
  BT_END = 2,
  BT_DAMAGED = 3,
  BT_FULL = 4, /* an output buffer has no room for this record: finish the block and add it to the next */
  BT_ERR_NOMEM = -1,
  BT_ERR_IO = -2, /* errno-like trouble; the text names the file */
  BT_ERR_FORMAT = -3, /* not a bubbletop stream, or one that contradicts itself */
  BT_ERR_VERSION = -4, /* written by a newer major version */
  BT_ERR_ARG = -5, /* the caller's arguments make no sense */
  BT_ERR_EMPTY = -6, /* nothing readable was found */
  BT_ERR_LIMIT = -7 /* a stated limit would be exceeded */
} bt_status;

/* What went wrong, for a person: names the file, the offset where there is one, and what to do. */
typedef struct bt_error {
  bt_status code;
  char text[480];
} bt_error;

/* Fills `error` (which may be NULL) and returns `code`, so that callers can write `return bt_fail(error, ...)`. */
__attribute__((format(printf, 3, 4))) bt_status bt_fail(bt_error *error, bt_status code, const char *format, ...);

#endif
