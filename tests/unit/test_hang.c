/* What stands still in a live run, in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/screen/hang.h"
#include "tui/screen/screen.h"

enum { STAGES = 4 };
static const int64_t second = 1000000000, boot = 1700000000000000000; /* real time of the ranks' zero */

typedef struct fixture {
  bt_trace *trace;
  bt_lod_set lods;
  bt_view view;
  bt_grid grid;
} fixture;

static void add(fixture *f, int32_t rank, bt_event *event) {
  assert_int_equal(bt_trace_add(f->trace, bt_trace_rank(f->trace, rank), 0, 1, event), BT_OK);
}

static void heartbeat(fixture *f, int32_t rank, int64_t time) {
  bt_event event;
  bt_event_init(&event, BT_HEARTBEAT);
  event.start = time;
  add(f, rank, &event);
}

static void open_wait(fixture *f, int32_t rank, bt_code kind, int32_t peer, int32_t microbatch, int64_t start,
                      int64_t now) {
  bt_event event;
  bt_event_init(&event, BT_OPEN);
  event.start = start;
  event.duration = now - start;
  event.on_code = (uint8_t)kind;
  event.peer = peer;
  event.microbatch = microbatch;
  event.ring = 1;
  add(f, rank, &event);
}

/* Four stages that computed for ten seconds; it is `seconds` now. */
static void start(fixture *f, int64_t seconds) {
  memset(f, 0, sizeof *f);
  assert_int_equal(bt_trace_new(&f->trace), BT_OK);
  for (int32_t stage = 0; stage < STAGES; stage++)
    assert_non_null(bt_trace_rank(f->trace, stage));
  for (int32_t stage = 0; stage < STAGES; stage++) {
    bt_rank *rank = bt_trace_rank(f->trace, stage);
    rank->layout.pp_rank = stage;
    rank->layout.pp_size = STAGES;
    bt_event event;
    bt_event_init(&event, BT_CLOCK);
    event.real = boot;
    add(f, stage, &event);
    for (int i = 0; i < 10; i++) {
      bt_event_init(&event, BT_F);
      event.start = i * second;
      event.duration = second / 2;
      event.microbatch = i;
      add(f, stage, &event);
    }
    assert_int_equal(bt_trace_settle(f->trace, rank, INT64_MAX), BT_OK);
  }
  bt_theme theme = {.level = BT_LEVEL_MONO};
  bt_view_init(&f->view, &theme);
  f->view.feed.live = true;
  f->view.feed.now = boot + seconds * second;
}

static void draw(fixture *f) {
  bool done;
  assert_int_equal(bt_lod_set_update(&f->lods, f->trace, 0, &done), BT_OK);
  f->view.trace = f->trace;
  f->view.lods = &f->lods;
  assert_int_equal(bt_screen_draw(&f->view, &f->grid, 24, 100), BT_OK);
}

static void stop(fixture *f) {
  bt_view_free(&f->view);
  bt_grid_free(&f->grid);
  bt_lod_set_free(&f->lods);
  bt_trace_free(f->trace);
}

static bool screen_has(fixture *f, const char *text) {
  char line[512];
  for (int y = 0; y < f->grid.rows; y++) {
    for (int x = 0; x < f->grid.columns; x++)
      line[x] = (char)bt_grid_at(&f->grid, y, x)->glyph;
    line[f->grid.columns] = 0;
    if (strstr(line, text) != NULL) return true;
  }
  return false;
}

static void test_nobody(void **unused) {
  (void)unused;
  fixture f;
  char line[256];
  start(&f, 12);
  draw(&f);
  assert_false(bt_hang_line(&f.view, line, sizeof line));
  f.view.feed.now += 60 * second;
  f.view.feed.live = false; /* of a run that ended silence is no news */
  draw(&f);
  assert_false(bt_hang_line(&f.view, line, sizeof line));
  assert_false(screen_has(&f, "no news"));
  stop(&f);
}

static void test_waiting(void **unused) {
  (void)unused;
  fixture f;
  char line[256];
  start(&f, 51);
  for (int32_t rank = 0; rank < STAGES; rank++)
    heartbeat(&f, rank, 50 * second);
  open_wait(&f, 3, BT_RECV_F, 2, 3, 12 * second, 50 * second);
  open_wait(&f, 2, BT_RECV_F, 1, 3, 10 * second, 50 * second);
  open_wait(&f, 1, BT_F, -1, 4, 10 * second, 50 * second); /* it computes */
  open_wait(&f, 0, BT_RECV_B, 1, 0, 49 * second, 50 * second); /* it has just begun to */
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line));
  assert_string_equal(line, "stage 2: RECV_F mb 3 from stage 1, 41 s - stage 3: RECV_F mb 3 from stage 2, 39 s");
  assert_true(screen_has(&f, line));
  assert_false(screen_has(&f, "no news"));
  stop(&f);
}

static void test_silent(void **unused) {
  (void)unused;
  fixture f;
  char line[256];
  start(&f, 22);
  for (int32_t rank = 0; rank < STAGES; rank++)
    heartbeat(&f, rank, (rank == 1 ? 10 : 21) * second);
  open_wait(&f, 2, BT_RECV_F, 1, 3, 10 * second, 21 * second);
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line));
  assert_string_equal(line, "stage 1: no news, 12 s - stage 2: RECV_F mb 3 from stage 1, 12 s");
  assert_true(screen_has(&f, "no news 12 s"));
  assert_true(screen_has(&f, "  1!"));
  bt_event event;
  bt_event_init(&event, BT_END_OF_STREAM);
  event.start = 10 * second;
  add(&f, 1, &event); /* it ended: no wonder */
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line));
  assert_string_equal(line, "stage 2: RECV_F mb 3 from stage 1, 12 s");
  assert_false(screen_has(&f, "no news"));
  stop(&f);
}

static void test_many(void **unused) {
  (void)unused;
  fixture f;
  char line[512];
  start(&f, 51);
  for (int32_t rank = 4; rank < 7; rank++) { /* of other replicas' layout: more ranks of stage 3 */
    assert_non_null(bt_trace_rank(f.trace, rank));
    bt_rank *more = bt_trace_rank(f.trace, rank);
    more->layout = bt_trace_find(f.trace, 3)->layout;
    bt_event event;
    bt_event_init(&event, BT_CLOCK);
    event.real = boot;
    add(&f, rank, &event);
  }
  for (int32_t rank = 0; rank < 7; rank++) {
    heartbeat(&f, rank, 50 * second);
    open_wait(&f, rank, BT_ALL_REDUCE, -1, -1, (20 - rank) * second, 50 * second);
  }
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line));
  assert_string_equal(line, "stage 3 rank 6: ALL_REDUCE, 37 s - stage 3 rank 5: ALL_REDUCE, 36 s - "
                            "stage 3 rank 4: ALL_REDUCE, 35 s - stage 3 rank 3: ALL_REDUCE, 34 s, 3 more");
  stop(&f);
}

static void test_gone(void **unused) {
  (void)unused;
  fixture f;
  start(&f, 300);
  strcpy(f.view.feed.newest, "14:03:22");
  draw(&f);
  assert_true(screen_has(&f, "no news since 14:03:22"));
  f.view.feed.live = false;
  f.view.feed.gone = true;
  draw(&f);
  assert_true(screen_has(&f, "died, no end mark, 14:03:22"));
  stop(&f);
}

static void set_clock(fixture *f, int32_t rank, const char *boot_id, int64_t behind) {
  bt_header header;
  bt_header_init(&header);
  header.rank = rank;
  strcpy(header.boot_id, boot_id);
  header.real_ns = boot - behind;
  assert_int_equal(bt_trace_header(f->trace, bt_trace_rank(f->trace, rank), &header), BT_OK);
  bt_event event;
  bt_event_init(&event, BT_CLOCK);
  event.start = 1;
  event.real = boot - behind + 1;
  add(f, rank, &event);
}

/* The wall clock of a host is a minute late, another's an hour early: its ranks are silent only when nothing comes. */
static void test_wrong_clocks(void **unused) {
  (void)unused;
  fixture f;
  char line[256];
  start(&f, 12);
  set_clock(&f, 0, "right", 0);
  set_clock(&f, 1, "early", -3600 * second);
  set_clock(&f, 2, "late", 60 * second);
  set_clock(&f, 3, "late", 60 * second);
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line)); /* nothing has come yet: the clocks are believed */
  assert_string_equal(line, "stage 2: no news, 62 s - stage 3: no news, 62 s");
  f.view.feed.now = boot + 13 * second;
  for (int32_t rank = 0; rank < STAGES; rank++)
    heartbeat(&f, rank, 13 * second - second / 10);
  draw(&f);
  assert_false(bt_hang_line(&f.view, line, sizeof line));
  assert_true(screen_has(&f, "live 0.0 s"));
  f.view.feed.now = boot + 30 * second;
  heartbeat(&f, 0, 30 * second - second / 10);
  heartbeat(&f, 2, 30 * second - second / 10);
  draw(&f);
  assert_true(bt_hang_line(&f.view, line, sizeof line));
  assert_string_equal(line, "stage 1: no news, 17 s - stage 3: no news, 17 s");
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nobody), cmocka_unit_test(test_waiting), cmocka_unit_test(test_silent),
      cmocka_unit_test(test_many),   cmocka_unit_test(test_gone),    cmocka_unit_test(test_wrong_clocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
