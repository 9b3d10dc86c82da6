/* Two runs in one view: the same step at the same column, whatever is pressed. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/simulated_trace.h"
#include "tui/screen/pair.h"
#include "tui/screen/screen.h"

typedef struct shown {
  bt_trace *traces[2];
  bt_lod_set lods[2];
  bt_view views[2];
  bt_grid grid;
} shown;

static void take(shown *s, size_t i, bt_trace *trace) {
  bool done = false;
  s->traces[i] = trace;
  while (!done)
    assert_int_equal(bt_lod_set_update(&s->lods[i], trace, 0, &done), BT_OK);
  s->views[i].trace = trace;
  s->views[i].lods = &s->lods[i];
}

static void draw(shown *s) {
  assert_int_equal(bt_screen_draw(&s->views[0], &s->grid, 36, 120), BT_OK);
}

static void open_views(shown *s, bt_trace *a, bt_trace *b) {
  memset(s, 0, sizeof *s);
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  for (size_t i = 0; i < 2; i++)
    bt_view_init(&s->views[i], &theme);
  take(s, 0, a);
  take(s, 1, b);
  assert_int_equal(bt_pair_join(&s->views[0], &s->views[1]), BT_OK);
  draw(s);
}

static bt_trace *run_of(const char *schedule, int stages, int steps, double slower) {
  bt_simulation_params params = simulated_params(schedule, stages, 8);
  params.steps = steps;
  params.optimizer = 400000;
  params.slow_stages = (bt_disturbances){{{.where = 1, .factor = slower}}, 1};
  return settled_trace(&params);
}

static void close_views(shown *s) {
  for (size_t i = 0; i < 2; i++) {
    bt_view_free(&s->views[i]);
    bt_lod_set_free(&s->lods[i]);
    bt_trace_free(s->traces[i]);
  }
  bt_grid_free(&s->grid);
}

static void press(shown *s, const char *keys) {
  while (*keys != 0) {
    size_t length = strcspn(keys, " ");
    bt_key key = bt_key_from_name(keys, length);
    assert_int_not_equal(key, BT_KEY_NONE);
    bt_screen_key(&s->views[0], key);
    draw(s);
    keys += length;
    keys += strspn(keys, " ");
  }
}

static int64_t begin_of(const bt_view *view, int64_t id) {
  for (size_t i = 0; i < view->steps.count; i++) {
    if (view->steps.items[i].id == id) return view->steps.items[i].begin;
  }
  fail_msg("there is no step %lld", (long long)id);
  return 0;
}

/* The two pictures are one: equal scale, and the step begins equally far from the left edge. */
static void assert_aligned(const shown *s, int64_t a, int64_t b) {
  assert_int_equal(s->views[0].width, s->views[1].width);
  assert_int_equal(begin_of(&s->views[0], a) - s->views[0].origin, begin_of(&s->views[1], b) - s->views[1].origin);
}

static void test_aligned(void **state) {
  (void)state;
  shown s;
  open_views(&s, run_of("1f1b", 4, 4, 1.2), run_of("zb-h1", 4, 4, 1));
  assert_aligned(&s, 3, 3); /* the newest that both have */
  press(&s, "Right Right + + -");
  assert_aligned(&s, 3, 3); /* moves with both, changes nothing in that */
  press(&s, "{");
  assert_aligned(&s, 3, 3); /* its own start */
  press(&s, "{");
  assert_aligned(&s, 2, 2);
  press(&s, "W { s");
  assert_aligned(&s, 1, 1);
  press(&s, "+ + w w Left a");
  assert_aligned(&s, 0, 0);
  for (size_t i = 0; i < 2; i++) { /* both runs are seen whole */
    assert_true(s.views[i].origin <= s.views[i].first);
    assert_true(bt_view_end(&s.views[i]) >= s.views[i].last);
  }
  close_views(&s);
}

/* Both steps are seen whole at first, though one takes twice as long as the other. */
static void test_first_picture(void **state) {
  (void)state;
  for (int swapped = 0; swapped < 2; swapped++) {
    shown s;
    bt_trace *slow = run_of("gpipe", 4, 3, 3), *fast = run_of("zb-h1", 4, 6, 1);
    open_views(&s, swapped ? fast : slow, swapped ? slow : fast);
    assert_aligned(&s, 2, 2);
    for (size_t i = 0; i < 2; i++) {
      const bt_view *v = &s.views[i];
      const bt_step_window *w = bt_steps_window(&s.views[i].steps, 2, v->trace, v->lods, &v->rows);
      assert_true(v->origin <= w->from && bt_view_end(v) >= w->to);
    }
    close_views(&s);
  }
}

/* A step that the other run has not: its nearest. */
static void test_steps_of_one_only(void **state) {
  (void)state;
  shown s;
  open_views(&s, run_of("1f1b", 4, 6, 1), run_of("1f1b", 2, 2, 1));
  press(&s, "G { {");
  assert_aligned(&s, 4, 1);
  press(&s, "{ { { {");
  assert_aligned(&s, 0, 0);
  close_views(&s);
}

static const bt_view *focus(shown *s) {
  return bt_pair_focus(&s->views[0]);
}

static void test_rows(void **state) {
  (void)state;
  shown s;
  size_t count, rows = 0;
  open_views(&s, run_of("1f1b", 4, 2, 1), run_of("gpipe", 2, 2, 1));
  const bt_slot *slots = bt_pair_slots(&s.views[0], &count);
  for (size_t i = 0; i < count; i++)
    rows += slots[i].row != NULL;
  assert_int_equal(rows, 6);
  assert_ptr_equal(focus(&s), &s.views[0]);
  press(&s, "j j j");
  assert_ptr_equal(focus(&s), &s.views[0]);
  assert_int_equal(s.views[0].cursor.stage, 3);
  press(&s, "j");
  assert_ptr_equal(focus(&s), &s.views[1]);
  assert_int_equal(s.views[1].cursor.stage, 0);
  press(&s, "9 j");
  assert_int_equal(s.views[1].cursor.stage, 1);
  press(&s, "j");
  assert_string_equal(s.views[0].message, "this is the last row");
  press(&s, "S g g k"); /* stage by stage: A 0, B 0, A 1, B 1, A 2, A 3 */
  assert_ptr_equal(focus(&s), &s.views[0]);
  assert_int_equal(s.views[0].cursor.stage, 1);
  press(&s, "k");
  assert_ptr_equal(focus(&s), &s.views[1]);
  assert_int_equal(s.views[1].cursor.stage, 0);
  press(&s, "k k");
  assert_string_equal(s.views[0].message, "this is the first row");
  for (size_t i = 0; i < 8; i++) { /* every row comes into sight where few lines are */
    assert_int_equal(bt_screen_draw(&s.views[0], &s.grid, 12, 60), BT_OK);
    assert_true(s.grid.cursor_row >= s.views[0].area_top);
    assert_true(s.grid.cursor_row < s.views[0].area_top + s.views[0].area_rows);
    bt_screen_key(&s.views[0], 'j');
  }
  close_views(&s);
}

/* The op under the cursor is found in the other run, and only there. */
static void test_twin(void **state) {
  (void)state;
  shown s;
  open_views(&s, run_of("1f1b", 4, 4, 1.2), run_of("zb-h1", 4, 4, 1));
  press(&s, "j w");
  assert_true(s.views[1].twinned && !s.views[0].twinned);
  for (int i = 0; i < 12; i++) {
    press(&s, "w");
    const bt_track *own = &s.traces[0]->ranks[1].tracks[BT_LANE_COMPUTE];
    const bt_span *span = NULL;
    for (size_t k = 0; k < own->count; k++) {
      if (own->spans[k].start == s.views[0].cursor.time) span = &own->spans[k];
    }
    assert_non_null(span);
    if (span->microbatch < 0) continue;
    assert_int_equal(s.views[1].twin_rank, 1);
    const bt_span *twin = &s.traces[1]->ranks[1].tracks[BT_LANE_COMPUTE].spans[s.views[1].twin_span];
    assert_int_equal(twin->microbatch, span->microbatch);
    assert_int_equal(twin->kind == BT_F, span->kind == BT_F);
    assert_true(twin->start >= begin_of(&s.views[1], 3));
  }
  for (int i = 0; i < 12 && !s.views[1].twinned; i++)
    press(&s, "b");
  bt_span twin = s.traces[1]->ranks[1].tracks[BT_LANE_COMPUTE].spans[s.views[1].twin_span];
  press(&s, "W"); /* there, from where this one is the same */
  assert_true(s.views[0].twinned && !s.views[1].twinned);
  assert_int_equal(s.views[1].cursor.time, twin.start);
  close_views(&s);
}

/* One run grows and is followed, the other has ended. */
static void test_live(void **state) {
  (void)state;
  shown s;
  bt_trace *grown[] = {run_of("1f1b", 4, 2, 1.2), run_of("1f1b", 4, 3, 1.2), run_of("1f1b", 4, 6, 1.2)};
  memset(&s, 0, sizeof s);
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  for (size_t i = 0; i < 2; i++)
    bt_view_init(&s.views[i], &theme);
  take(&s, 0, run_of("zb-h1", 4, 4, 1));
  take(&s, 1, grown[0]);
  s.views[1].feed.live = true;
  assert_int_equal(bt_pair_join(&s.views[0], &s.views[1]), BT_OK);
  draw(&s);
  for (size_t i = 1; i < 3; i++) {
    bt_lod_set_free(&s.lods[1]);
    memset(&s.lods[1], 0, sizeof s.lods[1]);
    bt_trace_free(s.traces[1]);
    take(&s, 1, grown[i]);
    draw(&s);
    assert_true(s.views[1].last < bt_view_end(&s.views[1])); /* the newest is in sight, by the keys of either run */
    assert_aligned(&s, i == 1 ? 2 : 3, i == 1 ? 2 : 5);
  }
  assert_ptr_equal(focus(&s), &s.views[0]); /* the cursor is in the run that has ended, and moves there */
  for (int i = 0; i < 3; i++) {
    int64_t from = s.views[0].cursor.time;
    press(&s, "w");
    assert_true(s.views[0].cursor.time > from);
    assert_true(s.views[1].follow);
  }
  press(&s, "f"); /* is for the one that grows */
  assert_false(s.views[1].follow);
  press(&s, "Left f");
  assert_true(s.views[1].follow);
  draw(&s);
  assert_true(s.views[1].last < bt_view_end(&s.views[1]));
  press(&s, "{ {");
  assert_false(s.views[1].follow);
  size_t at; /* from here on by hand: at the step of the cursor, which both have */
  assert_true(bt_steps_at(&focus(&s)->steps, focus(&s)->cursor.time, &at));
  assert_in_range(focus(&s)->steps.items[at].id, 0, 3);
  assert_aligned(&s, focus(&s)->steps.items[at].id, focus(&s)->steps.items[at].id);
  close_views(&s);
}

/* Runs of which nothing is to be seen. */
static void test_nothing(void **state) {
  (void)state;
  static const char *const keys = "w b ] [ } { s a g G z p m M ' O Enter W S i v v v v W j k + - Right Left c c c n B";
  for (int empty = 0; empty < 3; empty++) {
    bt_trace *none[2];
    for (size_t i = 0; i < 2; i++)
      assert_int_equal(bt_trace_new(&none[i]), BT_OK);
    shown s;
    open_views(&s, empty == 0 ? run_of("1f1b", 2, 2, 1) : none[0], empty == 1 ? run_of("1f1b", 2, 2, 1) : none[1]);
    press(&s, keys);
    press(&s, "W");
    press(&s, keys);
    close_views(&s);
    if (empty == 0) bt_trace_free(none[0]);
    if (empty == 1) bt_trace_free(none[1]);
  }
}

/* The table of keys has each key once, and one that its name gives. */
static void test_keys(void **state) {
  (void)state;
  for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
    for (const bt_binding *b = group->bindings; b->action != BT_ACTION_NONE; b++) {
      for (const char *name = b->keys; *name != 0; name += strcspn(name, " "), name += strspn(name, " ")) {
        bt_key key = bt_key_from_name(name, strcspn(name, " "));
        assert_int_not_equal(key, BT_KEY_NONE);
        if (bt_binding_of_key(key) != b) fail_msg("'%s' means two things", name);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_aligned), cmocka_unit_test(test_first_picture), cmocka_unit_test(test_steps_of_one_only),
      cmocka_unit_test(test_rows),    cmocka_unit_test(test_twin),          cmocka_unit_test(test_live),
      cmocka_unit_test(test_nothing), cmocka_unit_test(test_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
