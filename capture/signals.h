/* A file size limit (ulimit -f) answers a write or an allocation with SIGXFSZ, which kills. While a guard is held by the
 * calling thread the answer is an error code alone. The writer thread has all signals blocked anyway.
 */
#ifndef BT_CAPTURE_SIGNALS_H
#define BT_CAPTURE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct bt_signal_guard {
  sigset_t before;
  bool was_pending;
} bt_signal_guard;

void bt_signals_hold(bt_signal_guard *guard);
/* Takes back the signal if one came meanwhile. */
void bt_signals_release(const bt_signal_guard *guard);

#endif
