/* The level-of-detail index against a brute-force painting of the same spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/analysis/lod_memo.h"

enum { HORIZON = 3000 };

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static const bt_code compute_kinds[] = {BT_F, BT_B, BT_W, BT_BW, BT_FB, BT_RECOMPUTE, BT_OPTIMIZER, BT_OTHER, BT_GATE};

static void add(bt_trace *trace, bt_code kind, int64_t start, int64_t duration) {
  bt_event event;
  bt_event_init(&event, kind);
  event.start = start;
  event.duration = duration;
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, 0), 0, 1, &event), BT_OK);
}

/* Spans that overlap, nest, touch and have no length, in no order. */
static void add_random(bt_trace *trace, uint64_t *seed, size_t count, int64_t from, int64_t to, bool gates) {
  for (size_t i = 0; i < count; i++) {
    int64_t start = from + next_random(seed) % (uint32_t)(to - from);
    uint32_t shape = next_random(seed) % 16;
    int64_t duration = shape == 0 ? 0 : shape < 14 ? next_random(seed) % 6 : next_random(seed) % 400;
    add(trace, compute_kinds[next_random(seed) % (gates ? 9 : 8)], start, duration);
  }
}

/* What is seen in each ns of [0, HORIZON): the span that began last; -1 idle. */
static void paint(const bt_track *track, int *seen) {
  for (int t = 0; t < HORIZON; t++)
    seen[t] = -1;
  for (size_t i = 0; i < track->count; i++) {
    for (int64_t t = track->spans[i].start; t < bt_span_end(track, &track->spans[i]); t++) {
      if (t >= 0 && t < HORIZON) seen[t] = (int)i;
    }
  }
}

static void check_range(const bt_lod *lod, const bt_track *track, const int *seen, int from, int to) {
  uint64_t expected[BT_LOD_SLOTS] = {0};
  for (int t = from; t < to; t++) {
    if (seen[t] >= 0) expected[bt_lod_slot(track->spans[seen[t]].kind)]++;
  }
  bt_lod_sum sum;
  bt_lod_range(lod, track, from, to, &sum);
  for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++)
    assert_int_equal(sum.busy[slot], expected[slot]);
}

static bool idle(const bt_track *track, const int *seen, int t) {
  return seen[t] < 0 || track->spans[seen[t]].kind == BT_GATE;
}

static void check_gap(const bt_lod *lod, const bt_track *track, const int *seen, int from, int to) {
  int best = 0, run = 0;
  for (int t = from; t < to; t++) {
    run = idle(track, seen, t) ? run + 1 : 0;
    if (run > best) best = run;
  }
  int64_t start, end;
  bool found = bt_lod_longest_gap(lod, track, from, to, &start, &end);
  assert_int_equal(found, best > 0);
  if (!found) return;
  assert_int_equal(end - start, best);
  for (int64_t t = start; t < end; t++)
    assert_true(idle(track, seen, (int)t));
}

static void check_columns(const bt_lod *lod, const bt_track *track, const int *seen, int origin, int width,
                          size_t columns) {
  bt_lod_sum *sums = calloc(columns, sizeof *sums);
  bt_lod_segments segments = {NULL, 0, 0};
  assert_int_equal(bt_lod_columns(lod, track, origin, width, columns, sums, &segments), BT_OK);
  uint64_t total = 0, from_segments = 0, sparse = 0, starts = 0;
  bt_lod_sum whole;
  bt_lod_range(lod, track, origin, origin + (int64_t)columns * width, &whole);
  for (size_t i = 0; i < columns; i++) {
    total += bt_lod_busy(&sums[i], BT_LANE_P2P);
    starts += sums[i].starts;
    if (sums[i].segments) sparse += bt_lod_busy(&sums[i], BT_LANE_P2P);
  }
  assert_int_equal(total, bt_lod_busy(&whole, BT_LANE_P2P));
  assert_int_equal(starts, whole.starts);
  int64_t previous = INT64_MIN;
  for (size_t i = 0; i < segments.count; i++) {
    const bt_lod_segment *segment = &segments.items[i];
    assert_true(segment->start >= previous && segment->end > segment->start);
    previous = segment->end;
    for (int64_t t = segment->start; t < segment->end; t++)
      assert_int_equal(seen[t], segment->span);
    from_segments += (uint64_t)(segment->end - segment->start);
  }
  assert_int_equal(from_segments, sparse);
  free(segments.items);
  free(sums);
}

static void check_points(const bt_lod *lod, const bt_track *track, const int *seen, uint64_t *seed) {
  for (int i = 0; i < 50; i++) {
    int t = (int)(next_random(seed) % HORIZON);
    size_t span;
    bool busy = bt_lod_at(lod, track, t, &span);
    assert_int_equal(busy, seen[t] >= 0);
    if (busy) assert_int_equal(span, seen[t]);
    int64_t start, end;
    assert_int_equal(bt_lod_gap_at(lod, track, t, &start, &end), idle(track, seen, t));
    if (!idle(track, seen, t)) continue;
    int from = t, to = t + 1;
    while (from > 0 && idle(track, seen, from - 1))
      from--;
    while (to < HORIZON && idle(track, seen, to))
      to++;
    if (from > 0) assert_int_equal(start, from);
    if (to < HORIZON) assert_int_equal(end, to);
  }
}

static void check_all(const bt_lod *lod, const bt_track *track, uint64_t *seed) {
  int *seen = malloc(HORIZON * sizeof *seen);
  paint(track, seen);
  for (int i = 0; i < 60; i++) {
    int a = (int)(next_random(seed) % HORIZON), b = (int)(next_random(seed) % HORIZON);
    check_range(lod, track, seen, a < b ? a : b, a < b ? b : a);
    check_gap(lod, track, seen, a < b ? a : b, a < b ? b : a);
  }
  check_range(lod, track, seen, 0, HORIZON);
  for (int width = 1; width <= HORIZON; width = width * 3 + 1) {
    int origin = (int)(next_random(seed) % 97);
    check_columns(lod, track, seen, origin, width, (size_t)((HORIZON - origin) / width));
  }
  check_points(lod, track, seen, seed);
  free(seen);
}

static bt_lod *index_of(bt_trace *trace, bt_lod_set *set, size_t budget) {
  bool done = false;
  while (!done)
    assert_int_equal(bt_lod_set_update(set, trace, budget, &done), BT_OK);
  return &set->ranks[0].lanes[BT_LANE_COMPUTE];
}

static void test_against_brute_force(void **unused) {
  (void)unused;
  static const size_t counts[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 128, 129, 200, 1000, 3000};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    for (uint64_t round = 0; round < 6; round++) {
      uint64_t seed = 17 * i + round;
      bt_trace *trace;
      bt_lod_set set = {0};
      assert_int_equal(bt_trace_new(&trace), BT_OK);
      (void)bt_trace_rank(trace, 0);
      add_random(trace, &seed, counts[i], 0, HORIZON - 450, round % 2 == 0);
      assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
      bt_lod *lod = index_of(trace, &set, round % 3 == 0 ? 0 : 100);
      check_all(lod, &trace->ranks[0].tracks[BT_LANE_COMPUTE], &seed);
      bt_lod_set_free(&set);
      bt_trace_free(trace);
    }
  }
}

/* What is kept between frames is what would be computed anew, wherever the picture moves. */
static void check_memo(bt_lod_memo *memo, const bt_lod_set *set, const bt_trace *trace, uint64_t *seed) {
  enum { COLUMNS = 40 };
  int64_t origin = 0, width = 3;
  for (int frame = 0; frame < 30; frame++) {
    uint32_t move = next_random(seed) % 8;
    if (move == 0) width = 1 + next_random(seed) % 40;
    if (move == 1) origin = next_random(seed) % HORIZON;
    if (move > 3) origin += ((int64_t)(next_random(seed) % 21) - 10) * width;
    size_t columns = COLUMNS - next_random(seed) % 3;
    bt_lod_sum sums[COLUMNS];
    bt_lod_segments anew = {NULL, 0, 0}, kept = {NULL, 0, 0};
    const bt_track *track = &trace->ranks[0].tracks[BT_LANE_COMPUTE];
    const bt_lod *lod = bt_lod_of(set, 0, BT_LANE_COMPUTE);
    assert_int_equal(bt_lod_columns(lod, track, origin, width, columns, sums, &anew), BT_OK);
    assert_int_equal(bt_lod_memo_columns(memo, set, trace, 0, BT_LANE_COMPUTE, origin, width, columns, &kept), BT_OK);
    for (size_t i = 0; i < columns; i++) {
      assert_memory_equal(memo->sums[i].busy, sums[i].busy, sizeof sums[i].busy);
      assert_int_equal(memo->sums[i].starts, sums[i].starts);
      assert_int_equal(memo->sums[i].segments, sums[i].segments);
    }
    assert_int_equal(kept.count, anew.count);
    for (size_t i = 0; i < anew.count; i++) {
      assert_int_equal(kept.items[i].start, anew.items[i].start);
      assert_int_equal(kept.items[i].end, anew.items[i].end);
      assert_int_equal(kept.items[i].span, anew.items[i].span);
    }
    free(anew.items);
    free(kept.items);
  }
}

/* Spans come in batches whose newest part moves again; the index follows. */
static void test_growing(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed < 5; seed++) {
    uint64_t random = seed;
    bt_trace *trace;
    bt_lod_set set = {0};
    assert_int_equal(bt_trace_new(&trace), BT_OK);
    bt_rank *rank = bt_trace_rank(trace, 0);
    bt_lod_memo memo = {.kept = 0};
    for (int batch = 0; batch < 20; batch++) {
      int64_t from = batch * 120;
      add_random(trace, &random, next_random(&random) % 300, from < 100 ? 0 : from - 100, from + 150, true);
      assert_int_equal(bt_trace_settle(trace, rank, from), BT_OK);
      bt_lod *lod = index_of(trace, &set, 50);
      check_all(lod, &rank->tracks[BT_LANE_COMPUTE], &random);
      check_memo(&memo, &set, trace, &random);
    }
    bt_lod_memo_free(&memo);
    bt_lod_set_free(&set);
    bt_trace_free(trace);
  }
}

static void check_equal(const bt_lod *lod, const bt_lod *fresh, const bt_track *track, uint64_t *random) {
  assert_int_equal(lod->leaf_count, fresh->leaf_count);
  int64_t last = track->spans[track->count - 1].start;
  for (int i = 0; i < 40; i++) {
    int64_t from = next_random(random) % (uint32_t)last, to = next_random(random) % (uint32_t)last;
    bt_lod_sum a, b;
    bt_lod_range(lod, track, from, to, &a);
    bt_lod_range(fresh, track, from, to, &b);
    assert_memory_equal(a.busy, b.busy, sizeof a.busy);
    assert_int_equal(a.starts, b.starts);
    int64_t start[2], end[2];
    bool found = bt_lod_longest_gap(lod, track, from, to, &start[0], &end[0]);
    assert_int_equal(bt_lod_longest_gap(fresh, track, from, to, &start[1], &end[1]), found);
    if (found) assert_int_equal(end[0] - start[0], end[1] - start[1]);
  }
}

/* Every batch brings spans that lie behind what was settled, some hundred spans back: the index is what a fresh one would be,
 * and work grows with the length of the run, not with its square. */
static void test_disordered(void **unused) {
  (void)unused;
  enum { BATCHES = 400, BATCH = 100, BACK = 300 };
  uint64_t random = 3;
  bt_trace *trace;
  bt_lod_set set = {0};
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  for (int64_t i = 0; i < BATCHES * BATCH; i++) {
    int64_t back = i % BATCH < 3 && i >= BACK ? BACK * 10 + 3 : 0;
    add(trace, compute_kinds[next_random(&random) % 9], i * 10 - back, 1 + next_random(&random) % 30);
    if (i % BATCH != BATCH - 1) continue;
    assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
    const bt_lod *lod = index_of(trace, &set, 1000);
    if (i / BATCH % 40 != 0) continue;
    bt_lod fresh = {0};
    bool done;
    assert_int_equal(bt_lod_update(&fresh, track, 0, &done), BT_OK);
    check_equal(lod, &fresh, track, &random);
    bt_lod_free(&fresh);
  }
  assert_int_equal(trace->reordered, BATCHES - BACK / BATCH);
  assert_in_range(set.ranks[0].lanes[BT_LANE_COMPUTE].built, 1, BATCHES * ((BATCH + BACK) / BT_LOD_LEAF + 6));
  bt_lod_set_free(&set);
  bt_trace_free(trace);
}

static void test_deep_nest(void **unused) {
  (void)unused;
  bt_trace *trace;
  bt_lod_set set = {0};
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  for (int i = 0; i < 1400; i++)
    add(trace, compute_kinds[i % 8], i, HORIZON - 2 * i);
  assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
  bt_lod *lod = index_of(trace, &set, 0);
  uint64_t seed = 5;
  check_all(lod, &trace->ranks[0].tracks[BT_LANE_COMPUTE], &seed);
  bt_lod_set_free(&set);
  bt_trace_free(trace);
}

static void test_memory(void **unused) {
  (void)unused;
  bt_trace *trace;
  bt_lod_set set = {0};
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  enum { COUNT = 100000 };
  for (int i = 0; i < COUNT; i++)
    add(trace, BT_F, (int64_t)i * 10, 7);
  assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
  bt_lod *lod = index_of(trace, &set, 0);
  assert_true(bt_lod_bytes(lod) <= 4 * COUNT);
  bt_lod_sum sum;
  bt_lod_range(lod, &trace->ranks[0].tracks[BT_LANE_COMPUTE], INT64_MIN, INT64_MAX, &sum);
  assert_int_equal(sum.busy[0], 7 * COUNT);
  bt_lod_set_free(&set);
  bt_trace_free(trace);
}

/* Times at the ends of int64, and ranks that come in between. */
static void test_edges(void **unused) {
  (void)unused;
  bt_trace *trace;
  bt_lod_set set = {0};
  bool done;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  assert_non_null(bt_trace_rank(trace, 5));
  assert_int_equal(bt_lod_set_update(&set, trace, 0, &done), BT_OK);
  add(trace, BT_F, INT64_MAX - 10, 10);
  assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
  bt_lod *lod = index_of(trace, &set, 0);
  assert_int_equal(set.count, 2);
  assert_int_equal(set.ranks[1].rank, 5);
  const bt_track *track = &trace->ranks[0].tracks[BT_LANE_COMPUTE];
  bt_lod_sum sums[4];
  assert_int_equal(bt_lod_columns(lod, track, INT64_MAX - 20, 10, 4, sums, NULL), BT_OK);
  assert_int_equal(sums[1].busy[0], 10);
  assert_int_equal(sums[2].busy[0], 0);
  int64_t start, end;
  assert_true(bt_lod_longest_gap(lod, track, INT64_MIN, INT64_MAX, &start, &end));
  assert_int_equal(end, INT64_MAX - 10);
  bt_lod_set_free(&set);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_brute_force), cmocka_unit_test(test_growing), cmocka_unit_test(test_disordered),
      cmocka_unit_test(test_deep_nest),           cmocka_unit_test(test_memory),  cmocka_unit_test(test_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
