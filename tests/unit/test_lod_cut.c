/* What collectives on the ops' own stream take out of compute, against a painting of the same spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/analysis/lod_cut.h"

enum { HORIZON = 3000, TP = 1, DP = 2 };

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static void add(bt_trace *trace, bt_event *event) {
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, 0), 0, 1, event), BT_OK);
}

static bt_trace *new_trace(void) {
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  const bt_run_of_ranks both = {.first = 0, .stride = 1, .count = 2};
  for (uint32_t group = TP; group <= DP; group++) {
    bt_event event;
    bt_event_init(&event, BT_GROUP);
    event.group = group;
    event.domain = group == TP ? BT_DOMAIN_TP : BT_DOMAIN_DP;
    event.own_rank = 0;
    event.count = 2;
    event.runs = &both;
    event.run_count = 1;
    add(trace, &event);
  }
  return trace;
}

static void add_op(bt_trace *trace, uint64_t *seed, int64_t from, int64_t to) {
  static const bt_code kinds[] = {BT_F, BT_B, BT_W, BT_BW, BT_FB, BT_OPTIMIZER, BT_GATE};
  bt_event event;
  bt_event_init(&event, kinds[next_random(seed) % 7]);
  event.start = from + next_random(seed) % (uint32_t)(to - from);
  event.duration = next_random(seed) % 16 == 0 ? next_random(seed) % 300 : next_random(seed) % 20;
  event.lane = next_random(seed) % 4 == 0 ? (int16_t)(next_random(seed) % 2) : -1;
  event.flags = next_random(seed) % 8 == 0 ? BT_FLAG_GPU_TIMED : 0;
  add(trace, &event);
}

static void add_collective(bt_trace *trace, uint64_t *seed, int64_t from, int64_t to) {
  bt_event event;
  bt_event_init(&event, BT_ALL_REDUCE);
  event.start = from + next_random(seed) % (uint32_t)(to - from);
  event.duration = next_random(seed) % 32 == 0 ? next_random(seed) % 200 : next_random(seed) % 9;
  event.lane = next_random(seed) % 4 == 0 ? (int16_t)(next_random(seed) % 2) : -1;
  event.group = next_random(seed) % 4 == 0 ? DP : TP;
  event.flags = next_random(seed) % 8 == 0 ? BT_FLAG_GPU_TIMED : 0;
  add(trace, &event);
}

/* The op that is seen in each ns of [0, HORIZON): the one that began last; -1 idle. */
static void paint_ops(const bt_track *ops, int *seen) {
  for (int t = 0; t < HORIZON; t++)
    seen[t] = -1;
  for (size_t i = 0; i < ops->count; i++) {
    for (int64_t t = ops->spans[i].start; t < bt_span_end(ops, &ops->spans[i]); t++) {
      if (t < HORIZON) seen[t] = (int)i;
    }
  }
}

/* The rule of the header, spelled out. */
static bool counts(const bt_rank *rank, const int *seen, const bt_span *span) {
  const bt_track *collectives = &rank->tracks[BT_LANE_COLLECTIVE];
  int64_t end = bt_span_end(collectives, span);
  int op = seen[span->start] >= 0 ? seen[span->start] : seen[end - 1];
  if (op < 0) return false;
  const bt_span *inside = &rank->tracks[BT_LANE_COMPUTE].spans[op];
  bool tensor = rank->groups[bt_span_details(collectives, span)->group - 1].domain == BT_DOMAIN_TP;
  if ((inside->flags & BT_FLAG_GPU_TIMED) != (span->flags & BT_FLAG_GPU_TIMED)) return false;
  if (inside->stream >= 0 && span->stream >= 0) return inside->stream == span->stream;
  return tensor;
}

/* Returns how much was taken in all. */
static uint64_t check_all(const bt_lod_set *set, const bt_trace *trace, uint64_t *seed) {
  const bt_rank *rank = &trace->ranks[0];
  const bt_track *ops = &rank->tracks[BT_LANE_COMPUTE], *collectives = &rank->tracks[BT_LANE_COLLECTIVE];
  int *seen = malloc(HORIZON * sizeof *seen);
  bool *taken = calloc(HORIZON, sizeof *taken);
  assert_non_null(seen);
  assert_non_null(taken);
  paint_ops(ops, seen);
  for (size_t i = 0; i < collectives->count; i++) {
    const bt_span *span = &collectives->spans[i];
    int64_t end = bt_span_end(collectives, span);
    if (end == span->start || !counts(rank, seen, span)) continue;
    for (int64_t t = span->start; t < end; t++)
      taken[t] = true;
  }
  uint64_t all = 0;
  for (int round = 0; round < 80; round++) {
    int a = (int)(next_random(seed) % HORIZON), b = (int)(next_random(seed) % HORIZON);
    int from = round == 0 ? 0 : a < b ? a : b, to = round == 0 ? HORIZON : a < b ? b : a;
    uint64_t expected[BT_LOD_SLOTS] = {0};
    for (int t = from; t < to; t++) {
      if (seen[t] < 0) continue;
      unsigned kind = ops->spans[seen[t]].kind;
      bool cut = taken[t] && kind != BT_FB && kind != BT_GATE;
      if (!cut) expected[bt_lod_slot(kind)]++;
      if (cut && round == 0) all++;
    }
    bt_lod_sum sum;
    bt_lod_compute(set, trace, 0, from, to, &sum);
    for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++)
      assert_int_equal(sum.busy[slot], expected[slot]);
  }
  free(seen);
  free(taken);
  return all;
}

static void index_all(bt_lod_set *set, const bt_trace *trace, size_t budget) {
  bool done = false;
  while (!done)
    assert_int_equal(bt_lod_set_update(set, trace, budget, &done), BT_OK);
}

static void test_against_painting(void **unused) {
  (void)unused;
  static const size_t counts_of[] = {0, 1, 15, 16, 17, 40, 300, 1500};
  for (size_t i = 0; i < sizeof counts_of / sizeof counts_of[0]; i++) {
    for (uint64_t round = 0; round < 6; round++) {
      uint64_t seed = 31 * i + round + 1;
      bt_trace *trace = new_trace();
      bt_lod_set set = {0};
      for (size_t k = 0; k < 400; k++)
        add_op(trace, &seed, 0, HORIZON - 350);
      for (size_t k = 0; k < counts_of[i]; k++)
        add_collective(trace, &seed, 0, HORIZON - 350);
      assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
      index_all(&set, trace, round % 2 == 0 ? 0 : 40);
      uint64_t taken = check_all(&set, trace, &seed);
      if (counts_of[i] >= 300) assert_true(taken > 0);
      bt_lod_set_free(&set);
      bt_trace_free(trace);
    }
  }
}

/* Both lanes grow, the newest part moves again, and what was settled is not looked at anew; or spans come late, and what lies
 * behind them is. */
static void test_growing(void **unused) {
  (void)unused;
  for (uint64_t round = 1; round < 11; round++) {
    uint64_t seed = round;
    int64_t back = round < 6 ? 100 : 500;
    bt_trace *trace = new_trace();
    bt_lod_set set = {0};
    for (int batch = 0; batch < 20; batch++) {
      int64_t from = batch * 120;
      for (uint32_t k = next_random(&seed) % 60; k > 0; k--)
        add_op(trace, &seed, from < back ? 0 : from - back, from + 150);
      for (uint32_t k = next_random(&seed) % 90; k > 0; k--)
        add_collective(trace, &seed, from < back ? 0 : from - back, from + 150);
      assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), from), BT_OK);
      size_t before = set.count > 0 ? set.ranks[0].cut.count : 0;
      index_all(&set, trace, 30);
      assert_true(set.ranks[0].cut.count >= before || trace->reordered > 0);
      assert_int_equal(trace->reordered > 0, back == 500 && batch > 1);
      (void)check_all(&set, trace, &seed);
    }
    assert_true(set.ranks[0].cut.count > 10);
    bt_lod_set_free(&set);
    bt_trace_free(trace);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_painting),
      cmocka_unit_test(test_growing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
