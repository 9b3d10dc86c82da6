/* The timing engine against closed forms, hand-made cases, and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/analysis/replay.h"

enum { MOST = 16 };

/* GPipe (all forwards, then all backwards) or 1F1B on p ranks. */
static void fill_order(bt_op *ops, int stage, int p, int m, bool gpipe) {
  int warm = gpipe ? m : p - 1 - stage < m ? p - 1 - stage : m;
  int f = 0, b = 0, n = 0;
  while (f < warm)
    ops[n++] = bt_op_make(BT_F, 0, stage, f++);
  while (b < m) {
    if (f < m) ops[n++] = bt_op_make(BT_F, 0, stage, f++);
    ops[n++] = bt_op_make(BT_BW, 0, stage, b++);
  }
}

static bt_replay *build(int p, int m, bool gpipe) {
  bt_op *ops = calloc((size_t)(p * m * 2), sizeof *ops);
  bt_replay_lane lanes[MOST];
  for (int s = 0; s < p; s++) {
    fill_order(ops + s * m * 2, s, p, m, gpipe);
    bt_replay_lane lane = {ops + s * m * 2, NULL, (size_t)(m * 2), s, 0};
    lanes[s] = lane;
  }
  bt_replay *replay = NULL;
  bt_error error = {0};
  if (bt_replay_new(lanes, (size_t)p, &replay, &error) != BT_OK) fail_msg("%s", error.text);
  free(ops);
  return replay;
}

static int64_t makespan(bt_replay *replay, int64_t f, int64_t bw, int64_t c) {
  for (size_t i = 0; i < replay->op_count; i++) {
    replay->costs[i].duration = replay->ops[i].kind == BT_F ? f : bw;
    replay->costs[i].transfer = c;
  }
  bt_replay_run(replay);
  int64_t last = 0;
  for (size_t lane = 0; lane < replay->lane_count; lane++) {
    int64_t end = bt_replay_lane_end(replay, lane);
    if (end > last) last = end;
  }
  return last;
}

static void closed_forms(void **state) {
  (void)state;
  for (int p = 1; p <= 9; p++) {
    for (int m = 1; m <= 20; m++) {
      bt_replay *replay = build(p, m, true);
      assert_int_equal(makespan(replay, 10, 20, 0), (m + p - 1) * 30);
      assert_int_equal(makespan(replay, 10, 20, 3), (m + p - 1) * 30 + 2 * (p - 1) * 3);
      assert_int_equal(replay->missing, 0);
      bt_replay_free(replay);
      replay = build(p, m, false);
      assert_int_equal(makespan(replay, 10, 20, 0), (m + p - 1) * 30);
      int64_t c = 1000, f = 1000000; /* small beside the ops, as the formula asks */
      int waits = p == 1 ? 0 : m + p - 2 - (m - 1 + p - 1) / p;
      if (m >= p) assert_int_equal(makespan(replay, f, 2 * f, c), (m + p - 1) * 3 * f + 2 * c * waits);
      bt_replay_free(replay);
    }
  }
}

static void ready_times_and_bounds(void **state) {
  (void)state;
  bt_replay *replay = build(2, 2, false); /* rank 0: F0 F1 BW0 BW1; rank 1: F0 BW0 F1 BW1 */
  makespan(replay, 10, 20, 5);
  const bt_op_time *of_rank_1 = &replay->times[replay->first[1]];
  assert_int_equal(of_rank_1[0].start, 15);
  assert_int_equal(of_rank_1[0].arrival, 15);
  assert_int_equal(of_rank_1[0].bound, replay->first[0]);
  assert_int_equal(of_rank_1[1].bound, replay->first[1]); /* BW0 of the last stage: only its own F before it */
  assert_int_equal(of_rank_1[1].arrival, INT64_MIN);
  assert_int_equal(of_rank_1[2].arrival, 25); /* there long before the lane is free */
  assert_int_equal(of_rank_1[2].start, 45);
  replay->ready[0] = 100;
  bt_replay_run(replay);
  assert_int_equal(replay->times[replay->first[1]].start, 115);
  assert_int_equal(replay->times[0].bound, BT_NO_OP);
  bt_replay_free(replay);
}

static void split_backward_and_overlap(void **state) {
  (void)state;
  /* Two virtual stages on two ranks; the middle op of rank 0 runs F1 and B0 at once, W after B on both. */
  bt_op zero[] = {bt_op_make(BT_F, 0, 0, 0), bt_op_make(BT_FB, 0, 0, 1), bt_op_make(BT_B, 0, 0, 1),
                  bt_op_make(BT_W, 0, 0, 0), bt_op_make(BT_W, 0, 0, 1)};
  zero[1].chunk_b = 0;
  zero[1].vstage_b = 0;
  zero[1].microbatch_b = 0;
  bt_op one[] = {bt_op_make(BT_F, 0, 1, 0), bt_op_make(BT_B, 0, 1, 0), bt_op_make(BT_W, 0, 1, 0),
                 bt_op_make(BT_F, 0, 1, 1), bt_op_make(BT_BW, 0, 1, 1)};
  bt_replay_lane lanes[] = {{zero, NULL, 5, 0, 0}, {one, NULL, 5, 1, 0}};
  bt_replay *replay = NULL;
  assert_int_equal(bt_replay_new(lanes, 2, &replay, NULL), BT_OK);
  int64_t duration[] = {10, 25, 12, 7, 7, 10, 12, 7, 10, 19};
  for (size_t i = 0; i < replay->op_count; i++) {
    replay->costs[i].duration = duration[i];
    replay->costs[i].transfer = 2;
    replay->costs[i].transfer_b = 3;
  }
  bt_replay_run(replay);
  assert_int_equal(replay->times[5].start, 12);
  assert_int_equal(replay->times[6].end, 34);
  assert_int_equal(replay->times[1].start, 37); /* the gradient's message, not the forward half, decides */
  assert_int_equal(replay->producer[2 * 1 + 1], 6);
  assert_int_equal(replay->producer[2 * 1], BT_NO_OP);
  assert_int_equal(replay->times[8].start, 64); /* F1 needs the FB's end + transfer */
  assert_int_equal(replay->times[2].start, 64 + 10 + 19 + 2);
  bt_replay_free(replay);
}

static void same_rank_needs_no_transfer(void **state) {
  (void)state;
  bt_op first[] = {bt_op_make(BT_F, 0, 0, 0)}, second[] = {bt_op_make(BT_F, 1, 1, 0)};
  bt_replay_lane lanes[] = {{first, NULL, 1, 4, 0}, {second, NULL, 1, 4, 0}};
  bt_replay *replay = NULL;
  assert_int_equal(bt_replay_new(lanes, 2, &replay, NULL), BT_OK);
  for (size_t i = 0; i < 2; i++) {
    replay->costs[i].duration = 10;
    replay->costs[i].transfer = 99;
  }
  bt_replay_run(replay);
  assert_int_equal(replay->times[1].start, 10);
  assert_int_equal(replay->times[1].arrival, INT64_MIN);
  bt_replay_free(replay);
}

static void collectives_and_links(void **state) {
  (void)state;
  /* Two replicas of one stage: each F, then an all-reduce of both on another lane, then an optimizer after it. */
  bt_op compute[] = {bt_op_make(BT_F, 0, 0, 0), bt_op_make(BT_OPTIMIZER, -1, -1, -1)};
  bt_op reduce[] = {bt_op_make(BT_ALL_REDUCE, -1, -1, -1)};
  bt_op_link after_reduce[2][2], after_f[2];
  bt_replay_lane lanes[4];
  for (uint32_t i = 0; i < 2; i++) {
    bt_op_link none = {BT_NO_OP, BT_NO_OP, 0}, reduced = {2 + i, 0, 0}, forward = {i, 0, 1};
    after_reduce[i][0] = none;
    after_reduce[i][1] = reduced;
    after_f[i] = forward;
    bt_replay_lane of_compute = {compute, after_reduce[i], 2, (int32_t)i, (int32_t)i};
    bt_replay_lane of_reduce = {reduce, &after_f[i], 1, (int32_t)i, (int32_t)i};
    lanes[i] = of_compute;
    lanes[2 + i] = of_reduce;
  }
  bt_replay *replay = NULL;
  assert_int_equal(bt_replay_new(lanes, 4, &replay, NULL), BT_OK);
  replay->costs[0].duration = 10;
  replay->costs[2].duration = 30; /* the slow replica */
  replay->costs[1].duration = replay->costs[3].duration = 5;
  replay->costs[4].sync_duration = replay->costs[5].sync_duration = 4;
  for (int again = 0; again < 2; again++) {
    bt_replay_run(replay);
    assert_int_equal(replay->times[4].start, 10);
    assert_int_equal(replay->times[4].own_end, 10);
    assert_int_equal(replay->times[4].end, 34);
    assert_int_equal(replay->times[5].start, 30);
    assert_int_equal(replay->times[5].end, 34);
    assert_int_equal(replay->times[1].start, 34);
    assert_int_equal(bt_replay_lane_end(replay, 0), 39);
  }
  bt_replay_free(replay);
}

static void refusals(void **state) {
  (void)state;
  bt_replay *replay = NULL;
  bt_error error = {0};
  bt_op zero[] = {bt_op_make(BT_F, 0, 0, 0), bt_op_make(BT_BW, 0, 0, 0), bt_op_make(BT_F, 0, 0, 1)};
  bt_op one[] = {bt_op_make(BT_F, 0, 1, 1), bt_op_make(BT_F, 0, 1, 0), bt_op_make(BT_BW, 0, 1, 0)};
  bt_replay_lane lanes[] = {{zero, NULL, 3, 0, 0}, {one, NULL, 3, 1, 0}};
  assert_int_equal(bt_replay_new(lanes, 2, &replay, &error), BT_ERR_FORMAT);
  assert_null(replay);
  assert_non_null(strstr(error.text, "deadlock"));
  assert_true(strstr(error.text, "rank 0") != NULL && strstr(error.text, "rank 1") != NULL);
  one[1] = one[0];
  assert_int_equal(bt_replay_new(lanes, 2, &replay, &error), BT_ERR_ARG);
  assert_non_null(strstr(error.text, "twice"));
  bt_op backward_first[] = {bt_op_make(BT_BW, 0, 0, 0), bt_op_make(BT_F, 0, 0, 0)};
  bt_replay_lane wrong = {backward_first, NULL, 2, 0, 0};
  assert_int_equal(bt_replay_new(&wrong, 1, &replay, &error), BT_ERR_FORMAT);
  bt_op_link nowhere[] = {{0, 7, 0}, {BT_NO_OP, BT_NO_OP, 0}};
  bt_replay_lane linked = {zero, nowhere, 2, 0, 0};
  assert_int_equal(bt_replay_new(&linked, 1, &replay, &error), BT_ERR_ARG);
  /* A collective that one member reaches only after the other has left it. */
  bt_op_link crossed[2][2] = {{{BT_NO_OP, 0, 1}, {BT_NO_OP, 0, 2}}, {{BT_NO_OP, 0, 2}, {BT_NO_OP, 0, 1}}};
  bt_op reduce[] = {bt_op_make(BT_ALL_REDUCE, -1, -1, 0), bt_op_make(BT_ALL_REDUCE, -1, -1, 1)};
  bt_replay_lane across[] = {{reduce, crossed[0], 2, 0, 0}, {reduce, crossed[1], 2, 1, 0}};
  assert_int_equal(bt_replay_new(across, 2, &replay, &error), BT_ERR_FORMAT);
}

static void missing_messages_are_counted(void **state) {
  (void)state;
  bt_op zero[] = {bt_op_make(BT_F, 0, 0, 0)}, two[] = {bt_op_make(BT_F, 0, 2, 0), bt_op_make(BT_BW, 0, 2, 0)};
  bt_replay_lane lanes[] = {{zero, NULL, 1, 0, 0}, {two, NULL, 2, 2, 0}};
  bt_replay *replay = NULL;
  assert_int_equal(bt_replay_new(lanes, 2, &replay, NULL), BT_OK);
  assert_int_equal(replay->missing, 1);
  bt_replay_free(replay);
  assert_int_equal(bt_replay_new(NULL, 0, &replay, NULL), BT_OK);
  bt_replay_run(replay);
  bt_replay_free(replay);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closed_forms),
      cmocka_unit_test(ready_times_and_bounds),
      cmocka_unit_test(split_backward_and_overlap),
      cmocka_unit_test(same_rank_needs_no_transfer),
      cmocka_unit_test(collectives_and_links),
      cmocka_unit_test(refusals),
      cmocka_unit_test(missing_messages_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
