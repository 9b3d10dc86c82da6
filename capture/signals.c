#include "capture/signals.h"

#include <time.h>

static sigset_t size_limit(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

static bool is_pending(void) {
  sigset_t set;
  return sigpending(&set) == 0 && sigismember(&set, SIGXFSZ) == 1;
}

void bt_signals_hold(bt_signal_guard *guard) {
  sigset_t set = size_limit();
  guard->was_pending = is_pending();
  pthread_sigmask(SIG_BLOCK, &set, &guard->before);
}

void bt_signals_release(const bt_signal_guard *guard) {
  sigset_t set = size_limit();
  struct timespec now = {0, 0};
  if (!guard->was_pending && is_pending()) (void)sigtimedwait(&set, NULL, &now);
  pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}
