/* The writer: takes records out of the rings, encodes them into blocks and sees them into the file; adds what only it
 * knows (heartbeats, clock pairs, open spans, drops, the end). One a session, with a thread of its own.
 */
#ifndef BT_CAPTURE_WRITER_H
#define BT_CAPTURE_WRITER_H

#include "capture/session.h"
#include "capture/sink.h"

/* NULL: no memory. */
bt_writer *bt_writer_new(bubbletop_session *session);
void bt_writer_free(bt_writer *writer);

bt_sink *bt_writer_sink(bt_writer *writer);
/* Records that are in the file. Any thread. */
uint64_t bt_writer_written(const bt_writer *writer);

/* The thread: runs until the session is closed (argument: the session). */
void *bt_writer_main(void *argument);

/* In a forked child: closes its copies of the descriptors. */
void bt_writer_forget(bt_writer *writer);

#endif
