/* Real writers: live rings, SIGKILL and recovery, damaged rings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/bubbletop.h"
#include "formats/recover.h"
#include "formats/run.h"
#include "tests/formats/maker.h"

/* A writing process that does as it is told over a pipe, one letter a command, and answers each with a letter. */
typedef struct writer {
  pid_t pid;
  int to, from;
  bool recoverable;
} writer;

static void serve(const char *directory, int in, int out) {
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.directory = directory;
  config.rank = 0;
  config.world_size = 1;
  config.flush_ms = 60000;
  bubbletop_session *session = NULL;
  bubbletop_stats stats = {.size = sizeof stats};
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) _exit(2);
  bubbletop_span open;
  int32_t microbatch = 0;
  char command;
  while (read(in, &command, 1) == 1) {
    char answer = command;
    switch (command) {
    case 's': /* ten spans */
      for (int i = 0; i < 10; i++) {
        bubbletop_span span;
        bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(microbatch++, 0));
        bubbletop_end(&span);
      }
      break;
    case 'o': bubbletop_begin(session, &open, BUBBLETOP_BW, bubbletop_at(77, 0)); break;
    case 'e': bubbletop_end(&open); break;
    case 'f': bubbletop_flush(session, 5000); break;
    case 'c': bubbletop_close(session, 5000); break;
    case 'r':
      bubbletop_get_stats(session, &stats);
      answer = stats.recoverable ? 'y' : 'n';
      break;
    default: _exit(3);
    }
    if (write(out, &answer, 1) != 1) _exit(4);
  }
  _exit(0);
}

static char tell(const writer *w, char command) {
  char answer = '\0';
  assert_int_equal(write(w->to, &command, 1), 1);
  assert_int_equal(read(w->from, &answer, 1), 1);
  return answer;
}

static writer start_writer(const char *directory) {
  int to[2], from[2];
  assert_int_equal(pipe2(to, O_CLOEXEC), 0);
  assert_int_equal(pipe2(from, O_CLOEXEC), 0);
  writer w = {.pid = fork()};
  assert_true(w.pid >= 0);
  if (w.pid == 0) {
    close(to[1]);
    serve(directory, to[0], from[1]);
  }
  close(to[0]);
  close(from[1]);
  w.to = to[1];
  w.from = from[0];
  w.recoverable = tell(&w, 's') == 's' && tell(&w, 'r') == 'y';
  return w;
}

static void stop_writer(writer *w, bool kill_it) {
  if (kill_it) kill(w->pid, SIGKILL);
  close(w->to);
  close(w->from);
  waitpid(w->pid, NULL, 0);
}

static const bt_run_options live = {.follow = true, .rings = true};
static const bt_run_options once = {.rings = true};

static bt_run *open_run(const char *path, const bt_run_options *options) {
  bt_run *run;
  bt_error error = {BT_OK, ""};
  if (bt_run_open(&path, 1, options, &run, &error) != BT_OK) fail_msg("%s", error.text);
  return run;
}

static bt_status drain(bt_run *run) {
  bt_status status;
  while ((status = bt_run_poll(run, 0, NULL)) == BT_OK) {
  }
  assert_true(status > 0);
  return status;
}

static size_t problems_of(bt_run *run, bt_problem_kind kind) {
  size_t count;
  size_t found = 0;
  const bt_problem *problems = bt_run_problems(run, &count);
  for (size_t i = 0; i < count; i++) {
    found += problems[i].kind == kind;
  }
  return found;
}

/* The forward spans are microbatches 0, 1, 2, …, each once. */
static void check_spans(bt_run *run, size_t forwards, size_t others) {
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  assert_int_equal(track->count, forwards + others);
  int32_t microbatch = 0;
  for (size_t i = 0; i < track->count; i++) {
    if (track->spans[i].kind == BT_F) assert_int_equal(track->spans[i].microbatch, microbatch++);
  }
  assert_int_equal(microbatch, forwards);
  assert_int_equal(problems_of(run, BT_PROBLEM_MISSING), 0);
  assert_int_equal(problems_of(run, BT_PROBLEM_DAMAGE), 0);
}

static void a_live_ring_is_read(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  writer w = start_writer(directory);
  if (!w.recoverable) {
    stop_writer(&w, true);
    maker_remove(directory);
    skip();
  }
  bt_run *run = open_run(directory, &live);
  assert_int_equal(drain(run), BT_AGAIN);
  check_spans(run, 10, 0);
  tell(&w, 'o');
  tell(&w, 's');
  assert_int_equal(drain(run), BT_AGAIN);
  check_spans(run, 20, 0);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  assert_int_equal(rank->open_count, 1);
  assert_int_equal(rank->open[0].event.on_code, BT_BW);
  assert_int_equal(rank->open[0].event.microbatch, 77);
  tell(&w, 'f'); /* now the file has them too */
  assert_int_equal(drain(run), BT_AGAIN);
  check_spans(run, 20, 0);
  tell(&w, 'e');
  tell(&w, 's');
  assert_int_equal(drain(run), BT_AGAIN);
  check_spans(run, 30, 1);
  assert_int_equal(bt_trace_find(bt_run_trace(run), 0)->open_count, 0);
  size_t count;
  (void)bt_run_problems(run, &count);
  assert_int_equal(count, 0); /* it lives: nothing is wrong */
  tell(&w, 'c');
  stop_writer(&w, false);
  assert_int_equal(drain(run), BT_END);
  check_spans(run, 30, 1);
  (void)bt_run_problems(run, &count);
  assert_int_equal(count, 0);
  bt_run_close(run);
  maker_remove(directory);
}

/* A run whose writer was killed: 30 spans, some of them in the file, one open. False: no ring was to be had. */
static bool make_killed(char *directory, size_t room) {
  maker_directory(directory, room);
  writer w = start_writer(directory);
  tell(&w, 'f');
  tell(&w, 's');
  tell(&w, 'o');
  tell(&w, 's');
  stop_writer(&w, true);
  if (!w.recoverable) maker_remove(directory);
  return w.recoverable;
}

static void killed_writers_lose_nothing(void **state) {
  (void)state;
  char directory[256];
  if (!make_killed(directory, sizeof directory)) skip();
  bt_run *run = open_run(directory, &once);
  assert_int_equal(drain(run), BT_END);
  check_spans(run, 30, 0);
  assert_int_equal(problems_of(run, BT_PROBLEM_RING_DEAD), 1);
  assert_int_equal(problems_of(run, BT_PROBLEM_NO_END), 1);
  bt_run_close(run);
  bt_run *following = open_run(directory, &live);
  assert_int_equal(drain(following), BT_AGAIN);
  check_spans(following, 30, 0);

  bt_recover_report report;
  bt_error error = {BT_OK, ""};
  if (bt_recover(directory, &report, &error) != BT_OK) fail_msg("%s", error.text);
  assert_int_equal(report.recovered, 1);
  assert_true(report.records >= 20);
  assert_int_equal(bt_recover(directory, &report, &error), BT_OK);
  assert_int_equal(report.rings_found, 0);

  run = open_run(directory, &once);
  assert_int_equal(drain(run), BT_END);
  check_spans(run, 30, 0);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  assert_true(rank->lives[0].recovered);
  assert_int_equal(rank->open_count, 1);
  assert_int_equal(rank->open[0].event.microbatch, 77);
  assert_int_equal(problems_of(run, BT_PROBLEM_RING_DEAD), 0);
  bt_run_close(run);
  for (int i = 0; i < 500 && drain(following) != BT_END; i++) { /* it finds the recovered file */
    usleep(10000);
  }
  check_spans(following, 30, 0);
  assert_int_equal(problems_of(following, BT_PROBLEM_RING_DEAD), 0);
  bt_run_close(following);
  maker_remove(directory);
}

static void recoverers_do_not_race(void **state) {
  (void)state;
  char directory[256];
  if (!make_killed(directory, sizeof directory)) skip();
  pid_t pids[4];
  for (size_t i = 0; i < 4; i++) {
    pids[i] = fork();
    if (pids[i] != 0) continue;
    bt_recover_report report;
    bt_status status = bt_recover(directory, &report, NULL);
    _exit(status != BT_OK ? 100 : (int)report.recovered);
  }
  int recovered = 0;
  for (size_t i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFEXITED(status));
    recovered += WEXITSTATUS(status);
  }
  assert_int_equal(recovered, 1);
  bt_run *run = open_run(directory, &once);
  assert_int_equal(drain(run), BT_END);
  check_spans(run, 30, 0);
  bt_run_close(run);
  maker_remove(directory);
}

static void living_writers_are_left_alone(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  writer w = start_writer(directory);
  bt_recover_report report;
  bt_error error = {BT_OK, ""};
  assert_int_equal(bt_recover(directory, &report, &error), BT_OK);
  assert_int_equal(report.alive, w.recoverable);
  assert_int_equal(report.recovered, 0);
  tell(&w, 's');
  tell(&w, 'c');
  stop_writer(&w, false);
  bt_run *run = open_run(directory, &once);
  assert_int_equal(drain(run), BT_END);
  check_spans(run, 20, 0);
  bt_run_close(run);
  maker_remove(directory);
}

/* Bytes of a ring file changed at random: whatever comes out, nothing crashes, hangs or asks for much memory. */
static void damaged_rings_do_no_harm(void **state) {
  (void)state;
  char directory[256];
  char rings[256];
  char path[512];
  if (!make_killed(directory, sizeof directory)) skip();
  maker_directory(rings, sizeof rings);
  /* the dead ring, in memory */
  bt_run *run = open_run(directory, &once);
  size_t count;
  char ring_path[256];
  snprintf(ring_path, sizeof ring_path, "%s", bt_run_files(run, &count)[0].header.ring_path);
  bt_run_close(run);
  int fd = open(ring_path, O_RDONLY);
  assert_true(fd >= 0);
  struct stat status;
  assert_int_equal(fstat(fd, &status), 0);
  size_t length = (size_t)status.st_size;
  uint8_t *bytes = malloc(length);
  uint8_t *copy = malloc(length);
  assert_int_equal(read(fd, bytes, length), (ssize_t)length);
  close(fd);
  assert_int_equal(setenv("BUBBLETOP_RING_DIR", rings, 1), 0);
  snprintf(path, sizeof path, "%s/bubbletop-1-0123456789abcdef.ring", rings);
  uint64_t random = 5;
  for (int round = 0; round < 300; round++) {
    memcpy(copy, bytes, length);
    for (int i = 0; i < 1 + round % 8; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      /* page, ring head, first slots, by turns */
      static const size_t from[] = {0, 4096, 4096 + 64, 8192};
      static const size_t span[] = {64, 200, 128, 4096};
      size_t at = from[round % 4] + (size_t)(random >> 40) % span[round % 4];
      copy[at] = round % 3 == 0 ? 0xff : (uint8_t)(random >> 32);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, copy, round % 5 == 0 ? length / 2 : length), round % 5 == 0 ? length / 2 : length);
    close(fd);
    bt_recover_report report;
    bt_status result = bt_recover(NULL, &report, NULL);
    assert_true(result <= BT_OK);
    unlink(path);
  }
  assert_int_equal(unsetenv("BUBBLETOP_RING_DIR"), 0);
  unlink(ring_path);
  free(bytes);
  free(copy);
  maker_remove(rings);
  maker_remove(directory);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_live_ring_is_read),      cmocka_unit_test(killed_writers_lose_nothing),
      cmocka_unit_test(recoverers_do_not_race),   cmocka_unit_test(living_writers_are_left_alone),
      cmocka_unit_test(damaged_rings_do_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
