/* The bytes a terminal gets: curses writes into a file, so that regressions of redrawing show. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/screen/watch.h"

/* curses forgets one allocation of a terminal that it does not know. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:new_prescr\n";
}

/* A live view, drawn whenever so many cells' time has passed: the most bytes of frames that moved by up to six cells. */
static long live_frame(int stages, int rows, int columns, int cells, uint32_t seed) {
  watch f;
  if (!watch_start_varied(&f, stages, rows, columns, seed)) skip();
  (void)watch_frame(&f);
  f.view.width = 2000000; /* five cells a pair of F and B */
  f.view.placed = true;
  (void)watch_frame(&f);
  long most = 0;
  int moved = 0;
  int64_t now = WATCH_START;
  for (int i = 0; i < 100; i++) {
    watch_run_until(&f, now, now + cells * f.view.width);
    now += cells * f.view.width;
    long bytes = watch_frame(&f);
    if (f.grid.shift.columns > 6) continue;
    if (f.grid.shift.columns > moved) moved = f.grid.shift.columns;
    if (bytes > most) most = bytes;
  }
  watch_stop(&f);
  assert_in_range(moved, 1, 6);
  print_message("live frame at %dx%d, %d rows, run %u, up to %d cells: %ld bytes\n", columns, rows, stages, seed, moved,
                most);
  return most;
}

static void test_nothing_when_nothing_changed(void **unused) {
  (void)unused;
  watch f;
  if (!watch_start(&f, 8, 24, 80)) skip();
  assert_true(watch_frame(&f) > 1000);
  (void)watch_frame(&f);
  assert_int_equal(watch_frame(&f), 0);
  assert_int_equal(watch_frame(&f), 0);
  watch_stop(&f);
}

static void test_live_frames(void **unused) {
  (void)unused;
  for (uint32_t seed = 0; seed < 4; seed++) {
    for (int cells = 1; cells <= 6; cells += cells < 5 ? 2 : 1) {
      assert_in_range(live_frame(8, 24, 80, cells, seed), 1, 1024);
      assert_in_range(live_frame(20, 24, 80, cells, seed), 1, 2048);
    }
  }
}

static void test_panning(void **unused) {
  (void)unused;
  watch f;
  if (!watch_start(&f, 8, 24, 80)) skip();
  (void)watch_frame(&f);
  f.view.width = 2000000;
  f.view.placed = true;
  f.view.follow = false;
  f.view.origin = 400000000;
  bt_terminal_redraw(f.terminal);
  long full = watch_frame(&f);
  f.view.origin += f.view.width;
  long one = watch_frame(&f);
  f.view.origin += 8 * f.view.width;
  long eight = watch_frame(&f);
  f.view.origin -= f.view.width;
  long back = watch_frame(&f);
  f.view.origin -= 8 * f.view.width;
  long far_back = watch_frame(&f);
  print_message("scroll by 1 cell %ld bytes, by 8 %ld, back by 1 %ld, by 8 %ld, a full repaint %ld\n", one, eight, back,
                far_back, full);
  assert_true(one * 8 < full && eight * 4 < full);
  assert_true(back * 8 < full && far_back * 4 < full);
  watch_stop(&f);
}

/* What is reckoned is what is written, more or less. */
static void test_reckoning(void **unused) {
  (void)unused;
  watch f;
  if (!watch_start(&f, 8, 24, 80)) skip();
  for (int i = 0; i < 20; i++) {
    f.view.follow = false;
    f.view.placed = true;
    if (i == 10) bt_terminal_redraw(f.terminal);
    uint64_t before = bt_terminal_written(f.terminal);
    long bytes = watch_frame(&f), reckoned = (long)(bt_terminal_written(f.terminal) - before);
    f.view.origin += (i % 5) * f.view.width * 7;
    if (bytes < 300) continue;
    assert_true(reckoned > bytes / 2 && reckoned < bytes * 2);
  }
  watch_stop(&f);
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
      cmocka_unit_test(test_reckoning),
      cmocka_unit_test(test_unknown_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
