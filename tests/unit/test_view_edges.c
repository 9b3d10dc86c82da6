/* The view of runs that hardly are any: one span, spans without length, times at both ends of what 64 bits hold. Every key in
 * every page must come back, with a picture, and without overflow where a sanitizer looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/screen/screen.h"

typedef struct edge { /* `count` spans a rank, `apart` from start to start */
  int64_t start, duration, apart;
  int ranks, count;
} edge;

static const edge edges[] = {
    {1000, 500, 0, 1, 1},
    {1000, 0, 0, 1, 1},
    {1000, 0, 0, 2, 50},
    {-5, 1, 5, 1, 3},
    {INT64_MAX - 1000, 10, 50, 2, 20},
    {INT64_MIN + 1, 10, 50, 2, 20},
    {INT64_MIN + 1, INT64_MAX, INT64_MAX, 2, 2},
    {0, INT64_MAX, 0, 3, 1},
};

static void add(bt_trace *trace, int rank, bt_code code, int64_t start, int64_t duration, int number) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = start;
  event.duration = duration;
  event.microbatch = number;
  event.step = 0;
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, rank), 0, 1, &event), BT_OK);
}

/* With a second rank far away in time, where there are two. */
static bt_trace *make(const edge *e, bool torn) {
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  for (int rank = 0; rank < e->ranks; rank++) {
    int64_t start = torn && rank == 1 && e->apart < 1000 ? -(e->start / 2) : e->start;
    bt_rank *made = bt_trace_rank(trace, rank);
    made->layout.pp_rank = rank;
    made->layout.pp_size = e->ranks;
    add(trace, rank, BT_STEP_BEGIN, start, 0, -1);
    for (int i = 0; i < e->count; i++)
      add(trace, rank, i % 2 == 0 ? BT_F : BT_B, start + i * e->apart, e->duration, i);
    add(trace, rank, BT_STEP_END, start + (e->count - 1) * e->apart + e->duration, 0, -1);
    assert_int_equal(bt_trace_settle(trace, made, INT64_MAX), BT_OK);
  }
  return trace;
}

static void draw(bt_view *view, bt_grid *grid, const bt_trace *trace, const bt_lod_set *lods, int rows, int columns) {
  view->trace = trace;
  view->lods = lods;
  assert_int_equal(bt_screen_draw(view, grid, rows, columns), BT_OK);
  int shown = 0;
  for (int i = 0; i < rows * columns; i++)
    shown += grid->cells[i].glyph != ' ';
  assert_true(shown > 10);
}

static void use(const bt_trace *trace, int rows, int columns) {
  static const char *const scripts[] = {"lhLHjkw][B}{pmsa",
                                        "++++++++++++++++++++lLhHw]B",
                                        "a--------------------------lLhH",
                                        "0$GgixtcNnS",
                                        "vllljjkhvvv",
                                        "VjjllV",
                                        "t+l-a"};
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  bt_lod_set lods = {0};
  bool done;
  assert_int_equal(bt_lod_set_update(&lods, trace, 0, &done), BT_OK);
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    bt_view view;
    bt_grid grid = {0};
    bt_view_init(&view, &theme);
    draw(&view, &grid, trace, &lods, rows, columns);
    for (const char *key = scripts[i]; *key != 0; key++) {
      bt_screen_key(&view, (bt_key)*key);
      draw(&view, &grid, trace, &lods, rows, columns);
    }
    bt_view_free(&view);
    bt_grid_free(&grid);
  }
  bt_lod_set_free(&lods);
}

static void test_edges(void **unused) {
  (void)unused;
  static const int sizes[][2] = {{24, 80}, {10, 40}, {60, 50}, {50, 200}};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    for (int torn = 0; torn < (edges[i].ranks == 2 ? 2 : 1); torn++) {
      bt_trace *trace = make(&edges[i], torn == 1);
      for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        use(trace, sizes[k][0], sizes[k][1]);
      bt_trace_free(trace);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
