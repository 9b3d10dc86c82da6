/* A range of time: how it is chosen, and where the time in it went. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/simulated_trace.h"
#include "tui/screen/range.h"
#include "tui/screen/screen.h"
#include "tui/screen/text.h"

typedef struct shown {
  bt_trace *trace;
  bt_lod_set lods;
  bt_view view;
  bt_grid grid;
} shown;

static void draw(shown *s) {
  assert_int_equal(bt_screen_draw(&s->view, &s->grid, 36, 120), BT_OK);
}

static void open_view(shown *s, bt_trace *trace) {
  bool done = false;
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  memset(s, 0, sizeof *s);
  bt_view_init(&s->view, &theme);
  s->trace = trace;
  while (!done)
    assert_int_equal(bt_lod_set_update(&s->lods, trace, 0, &done), BT_OK);
  s->view.trace = trace;
  s->view.lods = &s->lods;
  draw(s);
}

static void close_view(shown *s) {
  bt_view_free(&s->view);
  bt_lod_set_free(&s->lods);
  bt_grid_free(&s->grid);
  bt_trace_free(s->trace);
}

static void press(shown *s, bt_key key) {
  bt_screen_key(&s->view, key);
  draw(s);
}

static void mouse(shown *s, int row, int column, bool moved, bool released) {
  bt_mouse event = {.row = row, .column = column, .moved = moved, .released = released};
  bt_screen_mouse(&s->view, &event);
  draw(s);
}

static bt_trace *run_of(const char *schedule, double jitter) {
  bt_simulation_params params = simulated_params(schedule, 4, 8);
  params.steps = 3;
  params.optimizer = 700000;
  params.jitter = jitter;
  params.sync = true;
  params.tp = strcmp(schedule, "interleaved") == 0 ? 2 : 1;
  return settled_trace(&params);
}

/* Over the interval of the accounting the classes are the accounting's, to the nanosecond; so are those of its parts
 * together, however it is cut. */
static void test_classes(void **state) {
  (void)state;
  static const char *const schedules[] = {"1f1b", "zb-h1", "interleaved", "dualpipev"};
  for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++) {
    shown s;
    open_view(&s, run_of(schedules[k], 0.1));
    bt_accounting_options options = {.warmup = true};
    bt_accounting *account = NULL;
    bt_gaps *gaps = NULL;
    assert_int_equal(bt_accounting_run(s.trace, &options, &account, NULL), BT_OK);
    assert_int_equal(bt_gaps_find(s.trace, &options, &gaps, NULL), BT_OK);
    for (size_t i = 0; i < account->stage_count; i++) {
      const bt_account_stage *stage = &account->stages[i];
      int64_t whole[BT_CLASS_COUNT] = {0}, parts[BT_CLASS_COUNT] = {0}, sum = 0;
      size_t members;
      const bt_stage_member *first = bt_rows_members(&s.view.rows, stage->stage, &members);
      assert_int_equal(members, stage->ranks);
      for (size_t m = 0; m < members; m++) {
        bt_range_classes(s.trace, &s.lods, gaps, first[m].rank_index, account->start, account->end, whole);
        for (int64_t from = account->start, step = 777777; from < account->end; from += step) {
          int64_t to = from + step < account->end ? from + step : account->end;
          bt_range_classes(s.trace, &s.lods, gaps, first[m].rank_index, from, to, parts);
        }
      }
      for (unsigned class = 0; class < BT_CLASS_COUNT; class ++) {
        if (whole[class] != stage->ns[class])
          fail_msg("%s stage %d %s: %lld, accounting %lld", schedules[k], (int)stage->stage,
                   bt_class_key((bt_class) class), (long long)whole[class], (long long)stage->ns[class]);
        assert_int_equal(parts[class], whole[class]);
        sum += whole[class];
      }
      assert_int_equal(sum, stage->interval_ns);
    }
    int64_t unknown[BT_CLASS_COUNT] = {0}; /* without the gaps, idle time is unattributed */
    bt_range_classes(s.trace, &s.lods, NULL, 0, account->start, account->end, unknown);
    int64_t busy = 0;
    for (unsigned class = 0; class < BT_CLASS_COMPUTE_LIMIT; class ++)
      busy += unknown[class];
    assert_int_equal(unknown[BT_CLASS_UNATTRIBUTED], account->end - account->start - busy);
    bt_accounting_free(account);
    bt_gaps_free(gaps);
    close_view(&s);
  }
}

/* Of columns that are both whole, to either side; a click alone chooses nothing and takes away what was chosen. */
static void test_mouse(void **state) {
  (void)state;
  shown s;
  int64_t from, to;
  open_view(&s, run_of("1f1b", 0));
  int y = s.view.area_top, x = s.view.left;
  for (int back = 0; back < 2; back++) {
    mouse(&s, y, x + (back ? 50 : 30), false, false);
    assert_false(bt_view_range(&s.view, &from, &to));
    mouse(&s, y + 3, x + 40, true, false);
    mouse(&s, y + 3, x + (back ? 30 : 50), true, false);
    mouse(&s, y + 3, x + (back ? 30 : 50), false, true);
    assert_true(bt_view_range(&s.view, &from, &to));
    assert_int_equal(from, s.view.origin + 30 * s.view.width);
    assert_int_equal(to, s.view.origin + 51 * s.view.width);
    for (int column = 0; column < s.view.columns; column++) { /* so it is shown */
      bool marked = (bt_grid_at(&s.grid, 1, x + column)->attributes & BT_ATTR_REVERSE) != 0;
      assert_int_equal(marked, column >= 30 && column <= 50);
    }
    press(&s, BT_KEY_RIGHT); /* it is of time, not of the screen */
    press(&s, '}');
    int64_t from_then, to_then;
    assert_true(bt_view_range(&s.view, &from_then, &to_then));
    assert_true(from_then == from && to_then == to);
    bt_rate rate;
    assert_true(bt_view_rate(&s.view, 2, &rate));
    assert_int_equal(rate.total, to - from);
    assert_string_equal(bt_view_scope_label(&s.view), "range");
    mouse(&s, y, x + 5, false, false);
    mouse(&s, y, x + 5, false, true);
    assert_false(bt_view_range(&s.view, &from, &to));
    press(&s, 's');
  }
  mouse(&s, y, x + 10, true, false); /* the press was lost: it begins with the first motion */
  mouse(&s, y, x + 14, true, false);
  mouse(&s, y, x + 14, false, true);
  assert_true(bt_view_range(&s.view, &from, &to));
  assert_int_equal(to - from, 5 * s.view.width);
  mouse(&s, 1, x + 10, false, false); /* on the axis, and beyond the edge */
  mouse(&s, 1, x + 4000, true, false);
  assert_true(bt_view_range(&s.view, &from, &to));
  press(&s, BT_KEY_ESCAPE);
  assert_false(bt_view_range(&s.view, &from, &to));
  close_view(&s);
}

static void test_keys(void **state) {
  (void)state;
  shown s;
  int64_t from, to;
  open_view(&s, run_of("zb-h1", 0));
  press(&s, 'Z');
  assert_non_null(strstr(s.view.message, "no range"));
  press(&s, 'w');
  press(&s, 'M');
  assert_false(bt_view_range(&s.view, &from, &to)); /* empty so far */
  press(&s, BT_KEY_ENTER); /* so it opens the row */
  assert_int_equal(s.view.open_count, s.view.message[0] == 0 ? 1 : 0);
  press(&s, 'w');
  press(&s, 'w');
  assert_true(bt_view_range(&s.view, &from, &to));
  assert_int_equal(from, s.view.mark);
  assert_int_equal(to, s.view.cursor.time);
  press(&s, '\'');
  assert_true(bt_view_range(&s.view, &from, &to)); /* the other way round: the same */
  assert_int_equal(to, s.view.mark);
  int64_t length = to - from, origin = s.view.origin, width = s.view.width;
  press(&s, BT_KEY_ENTER);
  assert_true(s.view.origin <= from && bt_view_end(&s.view) >= to);
  assert_true(bt_view_end(&s.view) - s.view.origin < 2 * length);
  assert_false(s.view.marked);
  press(&s, BT_KEY_BACKSPACE);
  assert_int_equal(s.view.origin, origin);
  assert_int_equal(s.view.width, width);
  press(&s, 'e'); /* what to write is asked for; anything else than an answer is none */
  assert_true(s.view.choosing);
  press(&s, 'q');
  assert_false(s.view.choosing || s.view.quit || s.view.save_picture || s.view.save_json || s.view.save_text);
  press(&s, 'e');
  press(&s, 'j');
  assert_true(s.view.save_json && !s.view.save_picture && !s.view.choosing);
  close_view(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_mouse),
      cmocka_unit_test(test_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
