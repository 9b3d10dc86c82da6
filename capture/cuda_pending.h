/* GPU-timed spans whose events were not read yet, where a kill leaves them: with the host's times, in the ring file.
 *
 * An item of a context's pool has the slot of its index in a table of its own (formats/wire/ring.h). Whoever holds the item
 * writes the slot: the caller at begin and end, the polling thread when it has put the span into its ring. Without a ring
 * file, and for items beyond the table's room, nothing is kept.
 */
#ifndef BT_CAPTURE_CUDA_PENDING_H
#define BT_CAPTURE_CUDA_PENDING_H

#include "capture/cuda.h"

/* Makes the context's table, before anybody uses the context. Takes the process lock. */
void bt_cuda_pending_open(bubbletop_session *session, bt_cuda_context *context);
/* The session's memory goes. The mapping stays, empty: a span's end may still come. */
void bt_cuda_pending_close(bubbletop_session *session, bt_cuda_context *context);

/* Notes an item that has begun on the host (of a launch that is over there: has ended); `times` is the item whose times it
 * shares, mostly itself. */
void bt_cuda_pending_begin(const bt_cuda_context *context, const bt_cuda_item *item, const bt_cuda_item *times);
/* It has ended, and so has what shares its times. */
void bt_cuda_pending_end(const bt_cuda_context *context, const bt_cuda_item *item);

/* The polling thread pushes the item's record into `producer` now: told before, and forgotten after. */
void bt_cuda_pending_take(const bt_cuda_context *context, const bt_cuda_item *item, const bt_producer *producer);
void bt_cuda_pending_forget(const bt_cuda_context *context, const bt_cuda_item *item);

#endif
