/* The bytes a terminal gets: curses writes into a file, so that regressions of redrawing show. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tui/screen/screen.h"
#include "tui/screen/terminal.h"

/* curses forgets one allocation of a terminal that it does not know. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:new_prescr\n";
}

enum { PERIOD = 10300000, FORWARD = 3000000, BACKWARD = 5000000 }; /* ns */

typedef struct fixture {
  FILE *out, *in;
  bt_terminal *terminal;
  bt_trace *trace;
  bt_lod_set lods;
  bt_view view;
  bt_grid grid;
  int stages, rows, columns;
} fixture;

/* Adds what ended in [from, to). */
static void add(fixture *f, bt_rank *rank, const bt_event *event, int64_t from, int64_t to) {
  int64_t end = event->start + event->duration;
  if (end >= from && end < to) assert_int_equal(bt_trace_add(f->trace, rank, 0, 1, event), BT_OK);
}

/* 1F1B-like: alternating F and B with bubbles, and the messages between stages. */
static void run_until(fixture *f, int64_t from, int64_t to) {
  for (int stage = 0; stage < f->stages; stage++) {
    bt_rank *rank = bt_trace_rank(f->trace, stage);
    rank->layout.pp_rank = stage;
    rank->layout.pp_size = f->stages;
    for (int64_t i = from > PERIOD ? from / PERIOD - 1 : 0; i <= to / PERIOD; i++) {
      bt_event event;
      if (i % 16 == 0) { /* a step is 16 pairs of F and B */
        bt_event_init(&event, BT_STEP_END);
        event.start = i * PERIOD;
        event.step = i / 16 - 1;
        if (i > 0) add(f, rank, &event, from, to);
        event.code = BT_STEP_BEGIN;
        event.step++;
        add(f, rank, &event, from, to);
      }
      bt_event_init(&event, BT_F);
      event.start = i * PERIOD + stage * 120000;
      event.duration = FORWARD;
      event.microbatch = (int32_t)(i % 16);
      add(f, rank, &event, from, to);
      event.code = BT_B;
      event.start += FORWARD + 700000;
      event.duration = BACKWARD;
      add(f, rank, &event, from, to);
      if (stage + 1 == f->stages) continue;
      event.code = BT_SEND_F;
      event.duration = 300000;
      event.peer = stage + 1;
      event.start -= 700000;
      add(f, rank, &event, from, to);
    }
    assert_int_equal(bt_trace_settle(f->trace, rank, to - 2 * PERIOD), BT_OK);
  }
}

static void start(fixture *f, int stages, int rows, int columns) {
  memset(f, 0, sizeof *f);
  f->stages = stages;
  f->rows = rows;
  f->columns = columns;
  f->out = tmpfile();
  f->in = fopen("/dev/null", "r");
  assert_non_null(f->out);
  assert_int_equal(bt_trace_new(&f->trace), BT_OK);
  for (int stage = 0; stage < stages; stage++)
    assert_non_null(bt_trace_rank(f->trace, stage));
  run_until(f, 0, 2000000000);
  bt_error error = {BT_OK, ""};
  bt_theme theme = {.utf8 = true};
  bt_terminal_options options = {
      .out = f->out, .in = f->in, .type = "xterm-256color", .rows = rows, .columns = columns};
  if (bt_terminal_open(&options, &f->terminal, &theme.level, &error) != BT_OK) {
    print_message("%s\n", error.text);
    skip();
  }
  assert_int_equal(theme.level, BT_LEVEL_256);
  bt_view_init(&f->view, &theme);
  f->view.feed.live = true;
}

static void stop(fixture *f) {
  bt_terminal_close(f->terminal, false);
  bt_view_free(&f->view);
  bt_grid_free(&f->grid);
  bt_lod_set_free(&f->lods);
  bt_trace_free(f->trace);
  fclose(f->out);
  fclose(f->in);
}

/* Draws a frame; the bytes that it took. */
static long frame(fixture *f) {
  bool done;
  fflush(f->out);
  off_t before = lseek(fileno(f->out), 0, SEEK_END);
  assert_int_equal(bt_lod_set_update(&f->lods, f->trace, 0, &done), BT_OK);
  f->view.trace = f->trace;
  f->view.lods = &f->lods;
  assert_int_equal(bt_screen_draw(&f->view, &f->grid, f->rows, f->columns), BT_OK);
  assert_int_equal(bt_terminal_draw(f->terminal, &f->grid, &f->view.theme), BT_OK);
  fflush(f->out);
  return (long)(lseek(fileno(f->out), 0, SEEK_END) - before);
}

/* A live view, drawn whenever so many cells' time has passed: the most bytes of frames that moved by up to six cells. */
static long live_frame(int stages, int rows, int columns, int cells) {
  fixture f;
  start(&f, stages, rows, columns);
  (void)frame(&f);
  f.view.width = 2000000; /* five cells a pair of F and B */
  f.view.placed = true;
  (void)frame(&f);
  long most = 0;
  int moved = 0;
  int64_t now = 2000000000;
  for (int i = 0; i < 60; i++) {
    run_until(&f, now, now + cells * f.view.width);
    now += cells * f.view.width;
    long bytes = frame(&f);
    if (f.grid.shift.columns > 6) continue;
    if (f.grid.shift.columns > moved) moved = f.grid.shift.columns;
    if (bytes > most) most = bytes;
  }
  stop(&f);
  print_message("live frame at %dx%d, %d rows, up to %d cells: %ld bytes\n", columns, rows, stages, moved, most);
  return most;
}

static void test_nothing_when_nothing_changed(void **unused) {
  (void)unused;
  fixture f;
  start(&f, 8, 24, 80);
  assert_true(frame(&f) > 1000);
  (void)frame(&f);
  assert_int_equal(frame(&f), 0);
  assert_int_equal(frame(&f), 0);
  stop(&f);
}

static void test_live_frames(void **unused) {
  (void)unused;
  for (int cells = 1; cells <= 6; cells += cells < 5 ? 4 : 1) {
    assert_true(live_frame(8, 24, 80, cells) <= 1024);
    assert_true(live_frame(20, 24, 80, cells) <= 2048);
  }
}

static void test_panning(void **unused) {
  (void)unused;
  fixture f;
  start(&f, 8, 24, 80);
  (void)frame(&f);
  f.view.width = 2000000;
  f.view.placed = true;
  f.view.follow = false;
  f.view.origin = 400000000;
  bt_terminal_redraw(f.terminal);
  long full = frame(&f);
  f.view.origin += f.view.width;
  long one = frame(&f);
  f.view.origin += 8 * f.view.width;
  long eight = frame(&f);
  f.view.origin -= f.view.width;
  long back = frame(&f);
  f.view.origin -= 8 * f.view.width;
  long far_back = frame(&f);
  print_message("scroll by 1 cell %ld bytes, by 8 %ld, back by 1 %ld, by 8 %ld, a full repaint %ld\n", one, eight, back,
                far_back, full);
  assert_true(one * 8 < full && eight * 4 < full);
  assert_true(back * 8 < full && far_back * 4 < full);
  stop(&f);
}

static void test_unknown_type(void **unused) {
  (void)unused;
  bt_terminal *terminal = NULL;
  bt_color_level level;
  bt_error error = {BT_OK, ""};
  bt_terminal_options options = {.out = stdout, .in = stdin, .type = "no-such-terminal"};
  assert_int_equal(bt_terminal_open(&options, &terminal, &level, &error), BT_ERR_ARG);
  assert_non_null(strstr(error.text, "no-such-terminal"));
  options.type = "";
  assert_int_equal(bt_terminal_open(&options, &terminal, &level, &error), BT_ERR_ARG);
  assert_non_null(strstr(error.text, "TERM"));
}

int main(void) {
  if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
    setlocale(LC_CTYPE, "en_US.UTF-8"); /* else glyphs are blanks: fewer bytes */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_when_nothing_changed),
      cmocka_unit_test(test_live_frames),
      cmocka_unit_test(test_panning),
      cmocka_unit_test(test_unknown_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
