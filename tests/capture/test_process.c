/* What becomes of a session when its process forks, calls exec, or ends in one way or another. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/capture/support.h"

/* ThreadSanitizer cannot follow a thread that the child of a process with threads starts. AddressSanitizer does not take
 * its own locks round a fork: a child of a process with threads may wait for ever in malloc or in the check for leaks. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
enum { UNDER_TSAN = 1 };
#else
enum { UNDER_TSAN = 0 };
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
enum { UNDER_ASAN = 1 };
#else
enum { UNDER_ASAN = 0 };
#endif

/* ---- fork ---- */

typedef struct forking {
  const char *directory;
  bubbletop_session *session;
  bubbletop_span *open;
} forking;

static void use_parents_session(const forking *with) {
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  int32_t ranks[] = {0, 1};
  layout.pp_rank = 99;
  bubbletop_end(with->open);
  record_spans(with->session, 1000, 100);
  bubbletop_complete(with->session, BUBBLETOP_F, bubbletop_at(1000, 0), 1, 2);
  bubbletop_step_begin(with->session, 7);
  bubbletop_instant(with->session, "child");
  bubbletop_step_end(with->session, 7);
  bubbletop_layout_set(with->session, &layout);
  bubbletop_meta(with->session, "child", "yes");
  bubbletop_group(with->session, BUBBLETOP_DP, ranks, 2);
  if (bubbletop_flush(with->session, 1000) != BUBBLETOP_OK) _exit(2);
}

static void *use_it_in_a_thread(void *context) {
  use_parents_session(context);
  return NULL;
}

static void child_is_silent(void *context) {
  const forking *with = context;
  pthread_t thread;
  use_parents_session(with);
  if (pthread_create(&thread, NULL, use_it_in_a_thread, context) != 0) _exit(3);
  pthread_join(thread, NULL);
  bubbletop_session *own = NULL;
  bubbletop_config config = config_in(with->directory);
  if (bubbletop_open(&config, &own) != BUBBLETOP_OK) _exit(4);
  record_spans(own, 50, 5);
  use_parents_session(with);
  record_spans(own, 55, 5);
  if (bubbletop_close(with->session, 100) != BUBBLETOP_OK) _exit(5);
  exit(0); /* without closing its own */
}

static void test_fork(void **state) {
  (void)state;
  if (UNDER_TSAN || UNDER_ASAN) skip();
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  bubbletop_span open;
  record_spans(session, 0, 10);
  bubbletop_begin(session, &open, BUBBLETOP_W, bubbletop_at(0, 0));
  forking with = {scratch, session, &open};
  assert_int_equal(in_child(child_is_silent, &with), 0);
  bubbletop_end(&open);
  record_spans(session, 10, 10);
  assert_int_equal(stats_of(session).recorded, 21);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run->file_count, 2);
  assert_int_equal(run_count(run, BT_F), 30);
  assert_int_equal(run_count(run, BT_W), 1);
  assert_int_equal(run_count(run, BT_META) + run_count(run, BT_GROUP) + run_count(run, BT_STEP_BEGIN), 0);
  assert_string_equal(run_end(run, 0), "closed");
  assert_string_equal(run_end(run, 1), "exit");
  assert_true(run->files[0].header.pid != run->files[1].header.pid);
  assert_memory_not_equal(run->files[0].header.marker, run->files[1].header.marker, BT_MARKER_BYTES);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

typedef struct storm {
  bubbletop_session *session;
  int thread;
  bool *over; /* atomic */
  int recorded;
} storm;

static void *record_until_over(void *context) {
  storm *with = context;
  while (!__atomic_load_n(with->over, __ATOMIC_RELAXED)) {
    record_spans(with->session, 0, 20);
    with->recorded += 20;
    bubbletop_flush(with->session, 10000);
    /* under a sanitizer the children take long: not a hundred thousand segments meanwhile */
    if (with->recorded > 20000) usleep(2000);
  }
  return NULL;
}

static void use_it_and_exit(void *session) {
  record_spans(session, 0, 10);
  exit(0);
}

/* Forks at any moment of the writer's and of other threads' calls. */
static void test_fork_storm(void **state) {
  (void)state;
  if (UNDER_ASAN) skip();
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  bool over = false;
  storm with[3];
  pthread_t threads[3];
  config.segment_bytes = 4096; /* files change often as well */
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  for (int i = 0; i < 3; i++) {
    with[i] = (storm){session, i, &over, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, record_until_over, &with[i]), 0);
  }
  for (int i = 0; i < 40; i++)
    assert_int_equal(in_child(use_it_and_exit, session), 0);
  __atomic_store_n(&over, true, __ATOMIC_RELAXED);
  int recorded = 0;
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    recorded += with[i].recorded;
  }
  assert_int_equal(bubbletop_close(session, 10000), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), recorded);
  assert_true(run->file_count > 2);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* ---- the ends of a process ---- */

static bubbletop_session *at_exit_session;

static void record_at_exit(void) {
  record_spans(at_exit_session, 100, 10);
}

static void *record_for_ever(void *session) {
  for (;;)
    record_spans(session, 120, 1);
  return NULL;
}

static void leave_by_exit(void *directory) {
  atexit(record_at_exit); /* before the session is opened, so it runs late */
  at_exit_session = session_in(directory);
  record_spans(at_exit_session, 0, 100);
  exit(0);
}

static void leave_while_threads_record(void *directory) {
  pthread_t thread;
  bubbletop_session *session = session_in(directory);
  record_spans(session, 0, 100);
  for (int i = 0; i < 2; i++) {
    if (pthread_create(&thread, NULL, record_for_ever, session) != 0) _exit(1);
  }
  exit(0);
}

static void close_at_exit(void) {
  bubbletop_close(at_exit_session, 0);
}

static void leave_by_exit_that_closes(void *directory) {
  at_exit_session = session_in(directory);
  record_spans(at_exit_session, 0, 100);
  atexit(close_at_exit);
  exit(0);
}

static void expect_all(const char *directory, const char *end, size_t spans) {
  uint8_t seen[128] = {0};
  stream_run *run = run_read(directory, false);
  mark_run(run, 0, seen, sizeof seen);
  for (size_t i = 0; i < spans; i++)
    assert_int_equal(seen[i], 1);
  assert_string_equal(run_end(run, 0), end);
  run_check_numbers(run);
  run_free(run);
}

static void test_exit_without_close(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  static const char *const names[] = {"plain", "threads", "closing"};
  static void (*const ways[])(void *) = {leave_by_exit, leave_while_threads_record, leave_by_exit_that_closes};
  static const size_t spans[] = {110, 100, 100};
  for (int i = 0; i < 3; i++) {
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/%s", scratch, names[i]);
    assert_int_equal(in_child(ways[i], directory), 0);
    expect_all(directory, i == 2 ? "closed" : "exit", spans[i]);
    assert_int_equal(ring_files(rings, path, sizeof path), 0);
  }
  scratch_remove(rings);
  scratch_remove(scratch);
}

static bubbletop_session *idle_session_in(const char *directory) {
  bubbletop_config config = config_in(directory);
  bubbletop_session *session = NULL;
  config.flush_ms = 60000;
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) _exit(9);
  record_spans(session, 0, 1);
  bubbletop_flush(session, 10000);
  return session;
}

static void leave_by_underscore_exit(void *directory) {
  record_spans(idle_session_in(directory), 1, 99);
  _exit(0);
}

static void leave_by_kill(void *directory) {
  record_spans(idle_session_in(directory), 1, 99);
  raise(SIGKILL);
}

static void leave_by_exec(void *directory) {
  record_spans(idle_session_in(directory), 1, 99);
  /* nothing of the session is open behind exec */
  execl("/bin/sh", "sh", "-c", "! ls -l /proc/$$/fd | grep -e msgpack -e 'ring$' -e bubbletop-test", (char *)NULL);
  _exit(1);
}

static void leave_by_quick_exit(void *directory) {
  record_spans(idle_session_in(directory), 1, 99);
  quick_exit(0);
}

static bool is_locked(const char *path) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(fcntl(fd, F_GETLK, &whole), 0);
  close(fd);
  return whole.l_type != F_UNLCK;
}

/* No end record, and a ring file that nobody holds any more; what is in neither file nor ring is lost: nothing. */
static void test_ends_that_leave_the_ring(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  static const char *const names[] = {"exit", "kill", "exec", "quick"};
  static void (*const ways[])(void *) = {leave_by_underscore_exit, leave_by_kill, leave_by_exec, leave_by_quick_exit};
  for (int i = 0; i < 4; i++) {
    char directory[1024];
    uint8_t seen[128] = {0};
    snprintf(directory, sizeof directory, "%s/%s", scratch, names[i]);
    assert_int_equal(in_child(ways[i], directory), i == 1 ? 128 + SIGKILL : 0);
    assert_int_equal(ring_files(rings, path, sizeof path), 1);
    assert_false(is_locked(path));
    stream_run *run = run_read(directory, true);
    mark_run(run, 0, seen, sizeof seen);
    assert_int_equal(seen[0], 1);
    assert_null(run_end(run, 0));
    mark_ring(path, seen, sizeof seen);
    for (int k = 0; k < 100; k++)
      assert_int_equal(seen[k], 1);
    run_free(run);
    assert_int_equal(unlink(path), 0);
  }
  scratch_remove(rings);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fork),
      cmocka_unit_test(test_fork_storm),
      cmocka_unit_test(test_exit_without_close),
      cmocka_unit_test(test_ends_that_leave_the_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
