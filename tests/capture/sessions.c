#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/capture/support.h"

bubbletop_session *session_in(const char *directory) {
  bubbletop_config config = config_in(directory);
  bubbletop_session *session = NULL;
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) fail_msg("open: %s", bubbletop_last_error());
  return session;
}

bubbletop_stats stats_of(bubbletop_session *session) {
  bubbletop_stats stats = {.size = sizeof stats};
  assert_int_equal(bubbletop_get_stats(session, &stats), BUBBLETOP_OK);
  return stats;
}

void record_spans(bubbletop_session *session, int32_t first, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    bubbletop_span span;
    bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(first + i, 0));
    bubbletop_end(&span);
  }
}
