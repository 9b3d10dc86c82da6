/* What the process as a whole needs: the list of sessions, fork, exit, and the last error of a thread. This is the
 * library's only global state.
 *
 * The process lock is held for short work without file I/O on the run directory, so that neither a fork nor a thread's
 * first call waits for a slow file system.
 */
#ifndef BT_CAPTURE_PROCESS_H
#define BT_CAPTURE_PROCESS_H

#include <stdbool.h>

#include "capture/session.h"

/* Once: fork handlers and keys. False: the system has no key left. Any thread. */
bool bt_process_prepare(void);

void bt_process_lock(void);
void bt_process_unlock(void);

/* Lock held. Joining gives the session its serial. Leaving twice is harmless; `keep`: what leaves at exit stays reachable
 * for threads that still run. */
void bt_process_join(bubbletop_session *session);
void bt_process_leave(bubbletop_session *session, bool keep);
/* Lock held. The session of that serial, NULL when it is gone; `any` one for serial 0. */
bubbletop_session *bt_process_find(uint64_t serial);

/* Lock held. The session of that directory (as given) and rank if it is shared. */
bubbletop_session *bt_process_find_shared(const char *directory, int32_t rank);

/* Has the calling thread's destructor run when it ends. */
void bt_process_watch_thread(void);

/* The calling thread's buffer for bubbletop_last_error (BT_LAST_ERROR bytes), NULL when memory is short. */
enum { BT_LAST_ERROR = 512 };
char *bt_process_error_buffer(bool make);

#endif
