/* The trace model against naive ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/trace.h"
#include "tests/wire/sample.h"

static uint64_t seed = 12345;
static uint64_t next_random(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

static void add_span(bt_trace *trace, bt_rank *rank, bt_code code, int64_t start, int64_t duration) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = start;
  event.duration = duration;
  assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
}

typedef struct plain {
  int64_t start, duration;
} plain;

static int compare_plain(const void *left, const void *right) {
  const plain *a = left;
  const plain *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  return a->duration == b->duration ? 0 : a->duration > b->duration ? -1 : 1;
}

/* Spans of several rings, in the order of their ends, settled now and then at odd places. */
static void merging_equals_sorting(void **state) {
  (void)state;
  enum { SPANS = 20000 };
  plain *all = malloc(SPANS * sizeof *all);
  for (int round = 0; round < 8; round++) {
    bt_trace *trace;
    assert_int_equal(bt_trace_new(&trace), BT_OK);
    bt_rank *rank = bt_trace_rank(trace, 3);
    int64_t clock[4] = {0};
    int64_t longest = 0;
    for (size_t i = 0; i < SPANS; i++) {
      uint64_t ring = round == 0 ? 0 : next_random() % 4;
      int64_t back = round % 2 == 1 && next_random() % 50 == 0 ? (int64_t)(next_random() % 100000) : 0;
      int64_t duration = next_random() % 200 == 0 ? (int64_t)UINT32_MAX + (int64_t)(next_random() % 3) - 1
                                                  : (int64_t)(next_random() % 40);
      clock[ring] += (int64_t)(next_random() % 30);
      all[i] = (plain){clock[ring] - back, duration};
      if (duration > longest) longest = duration;
      add_span(trace, rank, BT_F, all[i].start, duration);
      if (next_random() % 100 != 0) continue;
      assert_int_equal((round < 4 ? bt_trace_settle : bt_trace_settle_lazily)(trace, rank, clock[ring] - 500), BT_OK);
    }
    assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
    qsort(all, SPANS, sizeof *all, compare_plain);
    const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
    assert_int_equal(track->count, SPANS);
    assert_int_equal(track->settled, SPANS);
    assert_int_equal(track->longest, longest);
    assert_int_equal(trace->span_count, SPANS);
    for (size_t i = 0; i < SPANS; i++) {
      assert_int_equal(track->spans[i].start, all[i].start);
      assert_int_equal(bt_span_duration(track, &track->spans[i]), all[i].duration);
      size_t at = bt_track_lower_bound(track, all[i].start);
      assert_true(at <= i && track->spans[at].start == all[i].start &&
                  (at == 0 || track->spans[at - 1].start < all[i].start));
    }
    bt_trace_free(trace);
  }
  free(all);
}

/* A span before the settled part is told by `reordered`; behind it, nothing before `settled` moves. */
static void settled_spans_stay(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  for (int64_t i = 0; i < 100; i++)
    add_span(trace, rank, BT_F, i * 10, 5);
  assert_int_equal(bt_trace_settle(trace, rank, 500), BT_OK);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  assert_int_equal(track->settled, 50);
  add_span(trace, rank, BT_B, 505, 1);
  assert_int_equal(bt_trace_settle(trace, rank, 600), BT_OK);
  assert_int_equal(trace->reordered, 0);
  assert_int_equal(track->settled, 61);
  add_span(trace, rank, BT_B, 33, 1);
  assert_int_equal(bt_trace_settle(trace, rank, 600), BT_OK);
  assert_int_equal(trace->reordered, 1);
  assert_int_equal(track->spans[4].start, 33);
  assert_int_equal(track->settled, 62);
  bt_trace_free(trace);
}

/* What moved since when is told; of far too many moves, at least that. */
static void moves_are_told(void **state) {
  (void)state;
  enum { MOVES = 40 };
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  size_t places[MOVES], exact = 0;
  for (int64_t i = 0; i < 1000; i++)
    add_span(trace, rank, BT_F, i * 1000, 5);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  assert_int_equal(bt_track_moved(track, 0), SIZE_MAX);
  for (int move = 0; move < MOVES; move++) {
    int64_t start = (int64_t)(next_random() % 990000) / 1000 * 1000 + move + 1;
    places[move] = bt_track_lower_bound(track, start);
    add_span(trace, rank, BT_B, start, 1);
    assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
    assert_int_equal(track->moves, move + 1);
    assert_int_equal(bt_track_moved(track, track->moves), SIZE_MAX);
    assert_int_equal(bt_track_moved(track, track->moves - 1), places[move]);
    size_t lowest = SIZE_MAX;
    for (int since = move; since >= 0; since--) {
      if (places[since] < lowest) lowest = places[since];
      assert_true(bt_track_moved(track, (uint64_t)since) <= lowest);
      exact += bt_track_moved(track, (uint64_t)since) == lowest;
    }
    assert_int_equal(bt_track_moved(track, 0), lowest);
  }
  assert_in_range(exact, MOVES * MOVES / 4, MOVES * MOVES);
  bt_trace_free(trace);
}

/* Spans that lie far back wait until there are many, whatever is asked of them at last. */
static void far_spans_wait(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  for (int64_t i = 0; i < 10000; i++)
    add_span(trace, rank, BT_F, i * 10, 5);
  assert_int_equal(bt_trace_settle_lazily(trace, rank, 50000), BT_OK);
  assert_int_equal(track->count, 10000);
  add_span(trace, rank, BT_F, 99985, 5); /* near */
  assert_int_equal(bt_trace_settle_lazily(trace, rank, 50000), BT_OK);
  assert_int_equal(track->count, 10001);
  size_t merged = 0;
  for (int64_t i = 0; i < 2000; i++) {
    add_span(trace, rank, BT_F, 20005 - i * 10, 3);
    assert_int_equal(bt_trace_settle_lazily(trace, rank, 90000), BT_OK);
    if (track->count == 10002 + (size_t)i) merged++;
    if (track->pending > 0) assert_int_equal(track->settled, bt_track_lower_bound(track, merged > 0 ? 90000 : 50000));
  }
  assert_in_range(merged, 1, 5);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  assert_int_equal(track->count, 12001);
  assert_int_equal(track->settled, 12001);
  for (size_t i = 1; i < track->count; i++)
    assert_true(track->spans[i - 1].start <= track->spans[i].start);
  bt_trace_free(trace);
}

static void extremes_fit(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, BT_MAX_RANK);
  assert_null(bt_trace_rank(trace, BT_MAX_RANK + 1));
  assert_null(bt_trace_rank(trace, -1));
  rank = bt_trace_rank(trace, BT_MAX_RANK);
  add_span(trace, rank, BT_F, INT64_MIN + 1, INT64_MAX);
  add_span(trace, rank, BT_F, INT64_MAX, 0);
  add_span(trace, rank, BT_F, 0, INT64_MAX);
  bt_event event;
  bt_event_init(&event, BT_F);
  event.start = 1;
  event.duration = INT64_MAX;
  assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_ERR_ARG);
  event.duration = -1;
  assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_ERR_ARG);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  assert_int_equal(track->count, 3);
  assert_int_equal(bt_span_end(track, &track->spans[0]), 0);
  assert_int_equal(bt_span_duration(track, &track->spans[1]), INT64_MAX);
  assert_int_equal(sizeof(bt_span), 24);
  bt_trace_free(trace);
}

static void mark(bt_trace *trace, bt_rank *rank, bt_code code, int64_t time, int64_t step) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = time;
  event.step = step;
  assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
}

static void steps_find_their_ends(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  mark(trace, rank, BT_STEP_END, 15, 6); /* its begin was lost */
  mark(trace, rank, BT_STEP_END, 40, 8); /* comes before its begin */
  mark(trace, rank, BT_STEP_BEGIN, 30, 8);
  mark(trace, rank, BT_STEP_BEGIN, 20, 7);
  mark(trace, rank, BT_STEP_END, 30, 7);
  mark(trace, rank, BT_STEP_BEGIN, 50, 7); /* again, after a restart */
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  const bt_step expected[] = {{6, INT64_MIN, 15}, {7, 20, 30}, {8, 30, 40}, {7, 50, INT64_MIN}};
  assert_int_equal(rank->step_count, 4);
  assert_memory_equal(rank->steps, expected, sizeof expected);
  bt_trace_free(trace);
}

static void open_spans_give_way(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 0);
  bt_event open;
  bt_event_init(&open, BT_OPEN);
  open.on_code = BT_RECV_F;
  open.ring = 2;
  open.start = 100;
  for (int64_t i = 1; i < 5; i++) {
    open.duration = i * 1000;
    assert_int_equal(bt_trace_add(trace, rank, 0, 0, &open), BT_OK);
  }
  open.start = 200;
  assert_int_equal(bt_trace_add(trace, rank, 0, 0, &open), BT_OK);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MIN), BT_OK);
  assert_int_equal(rank->open_count, 2);
  assert_int_equal(rank->open[0].event.duration, 4000);
  add_span(trace, rank, BT_RECV_F, 100, 9000);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MIN), BT_OK);
  assert_int_equal(rank->open_count, 1);
  assert_int_equal(rank->open[0].event.start, 200);
  bt_trace_forget_open(rank, 0, 2);
  assert_int_equal(rank->open_count, 0);
  bt_trace_free(trace);
}

static void names_are_found_again(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  char name[16];
  for (uint32_t i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(bt_trace_name(trace, name, strlen(name)), i);
  }
  assert_int_equal(bt_trace_name(trace, "n77xyz", 3), 77);
  assert_int_equal(bt_trace_name(trace, "n77xyz", 6), 1000);
  bt_rank *rank = bt_trace_rank(trace, 0);
  bt_event event;
  bt_event_init(&event, BT_COUNTER);
  event.text = "n5";
  event.text_length = 2;
  for (int64_t time = 5; time > 0; time--) {
    event.start = time;
    event.value = (double)time;
    assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
  }
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(rank->marks[i].time, i + 1);
    assert_int_equal(rank->marks[i].name, 5);
  }
  bt_trace_free(trace);
}

static void groups_and_layout(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 5);
  bt_event event;
  bt_event_init(&event, BT_ALL_REDUCE);
  event.start = 10;
  event.group = 7; /* named before it is described */
  event.bytes = 99;
  assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
  bt_run_of_ranks runs = {1, 4, 2};
  bt_event_init(&event, BT_GROUP);
  event.group = 7;
  event.domain = BT_DOMAIN_DP;
  event.count = 2;
  event.own_rank = 1;
  event.runs = &runs;
  event.run_count = 1;
  assert_int_equal(bt_trace_add(trace, rank, 0, 2, &event), BT_OK);
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  const bt_track *track = &rank->tracks[BT_LANE_COLLECTIVE];
  const bt_span_more *more = bt_span_details(track, &track->spans[0]);
  assert_int_equal(more->bytes, 99);
  assert_int_equal(rank->group_count, 1);
  assert_int_equal(rank->groups[more->group - 1].domain, BT_DOMAIN_DP);
  assert_int_equal(rank->groups[more->group - 1].runs[0].stride, 4);

  assert_int_equal(bt_rank_stage(rank), 5); /* nothing is known */
  bt_layout layout;
  bt_layout_init(&layout);
  layout.pp_rank = 1;
  layout.pp_size = 4;
  layout.dp_rank = 2;
  uint8_t bytes[512];
  size_t length;
  assert_int_equal(bt_layout_encode(&layout, bytes, sizeof bytes, &length), BT_OK);
  bt_event_init(&event, BT_META);
  event.text = (const char *)bytes;
  event.text_length = (uint32_t)length;
  assert_int_equal(bt_trace_add(trace, rank, 0, 2, &event), BT_OK);
  assert_int_equal(bt_rank_stage(rank), 1);
  assert_int_equal(bt_rank_replica(rank), 2);
  assert_int_equal(bt_rank_vstage(rank, 2), 9);
  bt_trace_free(trace);
}

/* A comm span, all of whose numbers follow from `i`. */
static void make_comm(bt_event *event, int i, bool varied) {
  static const int64_t odd[] = {-1, 0, 65535, 65536, INT64_MAX, INT64_MIN, -65537};
  bt_event_init(event, i % 3 == 0 ? BT_SEND_F : i % 3 == 1 ? BT_RECV_B : BT_SEND_B);
  event->start = i;
  event->duration = i % 1000 == 7 ? (int64_t)UINT32_MAX + i : i % 50;
  event->peer = i % 4;
  event->group = (uint32_t)(i % 5);
  event->bytes = varied ? i : 4096;
  event->sequence = i % 11 == 0 ? odd[i / 11 % 7] : i * 5;
  event->tokens = i % 13 == 0 ? i % 3 : -1;
}

static void check_comm(const bt_rank *rank, const bt_track *track, const bt_span *span, bool varied) {
  bt_event event;
  make_comm(&event, (int)span->start, varied);
  const bt_span_more *more = bt_span_details(track, span);
  assert_non_null(more);
  assert_int_equal(bt_span_duration(track, span), event.duration);
  assert_int_equal(bt_span_sequence(track, span), event.sequence);
  assert_int_equal(more->peer, event.peer);
  assert_int_equal(more->bytes, event.bytes);
  assert_int_equal(more->tokens, event.tokens);
  assert_int_equal(more->group == 0 ? 0 : rank->groups[more->group - 1].id, event.group);
}

/* Spans get back the details they came with, whether these repeat themselves or there are more than can be shared; what
 * repeats itself takes no memory. */
static void details_are_shared(void **state) {
  (void)state;
  enum { SPANS = 100000 };
  for (int varied = 0; varied < 2; varied++) {
    bt_trace *trace;
    assert_int_equal(bt_trace_new(&trace), BT_OK);
    bt_rank *rank = bt_trace_rank(trace, 1);
    for (int i = 0; i < SPANS; i++) {
      bt_event event;
      make_comm(&event, i, varied != 0);
      assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
    }
    assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
    const bt_track *track = &rank->tracks[BT_LANE_P2P];
    assert_int_equal(track->count, SPANS);
    for (size_t i = 0; i < SPANS; i++) {
      assert_int_equal(track->spans[i].start, i);
      check_comm(rank, track, &track->spans[i], varied != 0);
    }
    assert_true(varied ? track->own_count > SPANS / 2 : track->own_count == SPANS / 1000);
    assert_true(track->shared_count <= (varied ? BT_MORE_SHARED : 4000));
    bt_trace_free(trace);
  }
}

/* Ids of steps fall back where a restart repeats some: then, and only then, the rank says so. */
static void steps_that_fall_back_are_told(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  for (int32_t number = 0; number < 3; number++) {
    bt_rank *rank = bt_trace_rank(trace, number);
    for (int i = 0; i < 40; i++) {
      int at = number == 1 ? i ^ 1 : i; /* rank 1: marks come in another order */
      bt_event event;
      bt_event_init(&event, BT_STEP_BEGIN);
      event.start = at * 100;
      event.step = number == 2 && at > 20 ? at - 5 : at;
      assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
      event.code = BT_STEP_END;
      event.start += 90;
      assert_int_equal(bt_trace_add(trace, rank, 0, 1, &event), BT_OK);
      if (i % 4 == 3) assert_int_equal(bt_trace_settle(trace, rank, INT64_MIN), BT_OK);
    }
    assert_int_equal(rank->steps_fell_back, number == 2);
  }
  bt_trace_free(trace);
}

/* Everything the format can say, extremes included: added or refused, and in order. */
static void anything_can_be_added(void **state) {
  (void)state;
  enum { EVENTS = 60000 };
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  bt_rank *rank = bt_trace_rank(trace, 1);
  sample_random random = {77};
  sample *made = malloc(sizeof *made);
  assert_non_null(made);
  int64_t clock = 1000;
  size_t spans = 0;
  for (size_t i = 0; i < EVENTS; i++) {
    bt_code code = (bt_code)sample_codes[sample_below(&random, SAMPLE_CODES)];
    sample_make(made, &random, code, &clock, true);
    bt_status status = bt_trace_add(trace, rank, sample_below(&random, 5), sample_below(&random, 4), &made->event);
    assert_true(status == BT_OK || status == BT_ERR_ARG || status == BT_ERR_LIMIT);
    spans += status == BT_OK && bt_code_is_span(code);
    if (sample_below(&random, 500) == 0) assert_int_equal(bt_trace_settle(trace, rank, clock), BT_OK);
  }
  assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
  assert_int_equal(trace->span_count, spans);
  assert_in_range(spans, EVENTS / 4, EVENTS);
  for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
    const bt_track *track = &rank->tracks[lane];
    for (size_t i = 1; i < track->count; i++) {
      assert_true(track->spans[i - 1].start <= track->spans[i].start);
    }
  }
  for (size_t i = 1; i < rank->mark_count; i++) {
    assert_true(rank->marks[i - 1].time <= rank->marks[i].time);
  }
  free(made);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(merging_equals_sorting),
      cmocka_unit_test(settled_spans_stay),
      cmocka_unit_test(moves_are_told),
      cmocka_unit_test(far_spans_wait),
      cmocka_unit_test(extremes_fit),
      cmocka_unit_test(steps_find_their_ends),
      cmocka_unit_test(open_spans_give_way),
      cmocka_unit_test(names_are_found_again),
      cmocka_unit_test(groups_and_layout),
      cmocka_unit_test(details_are_shared),
      cmocka_unit_test(steps_that_fall_back_are_told),
      cmocka_unit_test(anything_can_be_added),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
