/* Every call that records, read back field by field; calls that make no sense are counted and harm nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/wire/ring.h"
#include "tests/capture/support.h"
#include "tests/wire/sample.h"

static void check(const stream_run *run, unsigned code, size_t n, const bt_event *expected) {
  const record *found = run_find(run, code, n);
  bt_event event = *expected;
  assert_true(found->event.start > 0);
  event.start = found->event.start;
  if (event.duration < 0) event.duration = found->event.duration;
  if (!sample_same(&found->event, &event)) fail_msg("record %zu of code %u differs", n, code);
}

static bt_event expect(bt_code code) {
  bt_event event;
  bt_event_init(&event, code);
  if (bt_code_is_span(code)) event.duration = -1; /* whatever it was */
  return event;
}

static const bubbletop_kind compute[] = {BUBBLETOP_F,         BUBBLETOP_B,         BUBBLETOP_W,     BUBBLETOP_BW,
                                         BUBBLETOP_RECOMPUTE, BUBBLETOP_OPTIMIZER, BUBBLETOP_OTHER, BUBBLETOP_HOST};
static const bubbletop_kind comm[] = {BUBBLETOP_SEND_F,     BUBBLETOP_RECV_F,     BUBBLETOP_SEND_B,
                                      BUBBLETOP_RECV_B,     BUBBLETOP_ALL_REDUCE, BUBBLETOP_REDUCE_SCATTER,
                                      BUBBLETOP_ALL_GATHER, BUBBLETOP_ALL_TO_ALL, BUBBLETOP_BROADCAST};

static void test_compute_spans(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  int64_t before = bubbletop_now();
  for (int i = 0; i < 8; i++) {
    bubbletop_span span;
    bubbletop_where where = {.microbatch = i * 1000003, .chunk = (int16_t)(i - 1), .lane = (int16_t)(7 - i * 1000)};
    bubbletop_begin(session, &span, compute[i], where);
    if (i % 2 == 0) bubbletop_tokens(&span, INT64_C(1) << (8 * i));
    bubbletop_end(&span);
  }
  bubbletop_span both;
  bubbletop_where where = {.microbatch = 5, .chunk = 2, .lane = 3, .microbatch_b = 4, .chunk_b = 1};
  bubbletop_begin(session, &both, BUBBLETOP_FB, where);
  bubbletop_end(&both);
  int64_t after = bubbletop_now();
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);

  stream_run *run = run_read(scratch, false);
  for (int i = 0; i < 8; i++) {
    bt_event event = expect((bt_code)compute[i]);
    event.microbatch = i * 1000003;
    event.chunk = (int16_t)(i - 1);
    event.lane = (int16_t)(7 - i * 1000);
    if (i % 2 == 0 && compute[i] != BUBBLETOP_HOST) event.tokens = INT64_C(1) << (8 * i);
    check(run, compute[i], 0, &event);
    const bt_event *found = &run_find(run, compute[i], 0)->event;
    assert_true(found->start >= before && bt_event_end(found) <= after);
  }
  bt_event event = expect(BT_FB);
  event.microbatch = 5;
  event.chunk = 2;
  event.lane = 3;
  event.microbatch_b = 4;
  event.chunk_b = 1;
  check(run, BT_FB, 0, &event);
  run_check_numbers(run);
  assert_string_equal(run_end(run, 0), "closed");
  run_free(run);
  scratch_remove(scratch);
}

static void test_comm_spans_and_gates(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  static const int64_t sizes[] = {-1, 0, 1, 65536, INT64_C(1) << 32, (INT64_C(1) << 47) - 1, 5, 6, 7};
  for (int i = 0; i < 9; i++) {
    bubbletop_span span;
    bubbletop_comm message = BUBBLETOP_COMM_INIT;
    message.peer = i - 1;
    message.group = (uint32_t)i;
    message.bytes = sizes[i];
    message.sequence = i == 0 ? -1 : INT64_C(1) << (6 * i);
    bubbletop_comm_begin(session, &span, comm[i], bubbletop_at(i, 0), &message);
    bubbletop_end(&span);
    bubbletop_comm_complete(session, comm[i], bubbletop_at(i, 0), &message, 1000, 1500);
  }
  bubbletop_gate_on on = {
      .size = sizeof on, .kind = BUBBLETOP_RECV_B, .peer = 3, .group = 9, .sequence = 12, .count = 2};
  bubbletop_span gate;
  bubbletop_gate_begin(session, &gate, bubbletop_at(4, 1), &on);
  bubbletop_end(&gate);
  bubbletop_gate_complete(session, bubbletop_at(4, 1), &on, 10, 10);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);

  stream_run *run = run_read(scratch, false);
  for (int i = 0; i < 9; i++) {
    bt_event event = expect((bt_code)comm[i]);
    event.microbatch = i;
    event.chunk = 0;
    event.peer = i - 1;
    event.group = (uint32_t)i;
    event.bytes = sizes[i];
    event.sequence = i == 0 ? -1 : INT64_C(1) << (6 * i);
    check(run, comm[i], 0, &event);
    event.duration = 500;
    check(run, comm[i], 1, &event);
    assert_int_equal(run_find(run, comm[i], 1)->event.start, 1000);
  }
  bt_event event = expect(BT_GATE);
  event.microbatch = 4;
  event.chunk = 1;
  event.on_code = BT_RECV_B;
  event.peer = 3;
  event.group = 9;
  event.sequence = 12;
  event.count = 2;
  check(run, BT_GATE, 0, &event);
  event.duration = 0;
  check(run, BT_GATE, 1, &event);
  run_free(run);
  scratch_remove(scratch);
}

static void test_marks(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  char name[300];
  memset(name, 'a', sizeof name);
  memcpy(name + 253, "\xe2\x82\xac", 3); /* would be cut in its middle */
  name[299] = '\0';
  bubbletop_step_begin(session, INT64_C(1) << 40);
  bubbletop_instant(session, "checkpoint");
  bubbletop_instant(session, "");
  bubbletop_instant(session, name);
  bubbletop_counter(session, "memory", -1.5e300);
  bubbletop_step_end(session, INT64_C(1) << 40);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);

  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_find(run, BT_STEP_BEGIN, 0)->event.step, INT64_C(1) << 40);
  assert_int_equal(run_find(run, BT_STEP_END, 0)->event.step, INT64_C(1) << 40);
  assert_string_equal(run_find(run, BT_INSTANT, 0)->text, "checkpoint");
  assert_string_equal(run_find(run, BT_INSTANT, 1)->text, "");
  assert_int_equal(strlen(run_find(run, BT_INSTANT, 2)->text), 253);
  assert_string_equal(run_find(run, BT_COUNTER, 0)->text, "memory");
  assert_true(run_find(run, BT_COUNTER, 0)->event.value == -1.5e300);
  run_free(run);
  scratch_remove(scratch);
}

static void test_groups(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  enum { WORLD = 4096 };
  int32_t *all = malloc(WORLD * sizeof *all);
  for (int i = 0; i < WORLD; i++)
    all[i] = i;
  int32_t column[] = {8, 0, 16, 24};
  int32_t scattered[200];
  for (int i = 0; i < 200; i++)
    scattered[i] = i * i;
  uint32_t world = bubbletop_group(session, BUBBLETOP_WORLD, all, WORLD);
  uint32_t dp = bubbletop_group(session, BUBBLETOP_DP, column, 4);
  assert_true(world > 0 && dp > 0 && world != dp);
  assert_int_equal(bubbletop_group(session, BUBBLETOP_DP, column, 4), dp);
  assert_true(bubbletop_group(session, BUBBLETOP_TP, column, 4) != dp);
  uint32_t odd = bubbletop_group(session, BUBBLETOP_EP, scattered, 200);
  assert_int_equal(bubbletop_group(session, BUBBLETOP_DP, column, 0), 0);
  assert_int_equal(bubbletop_group(session, BUBBLETOP_DP, NULL, 3), 0);
  assert_int_equal(bubbletop_group(session, (bubbletop_domain)77, column, 4), 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  free(all);

  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_GROUP), 4);
  const bt_event *event = &run_find(run, BT_GROUP, 0)->event;
  assert_int_equal(event->group, world);
  assert_int_equal(event->domain, BT_DOMAIN_WORLD);
  assert_int_equal(event->own_rank, 0);
  assert_int_equal(event->count, WORLD);
  assert_int_equal(event->run_count, 1);
  event = &run_find(run, BT_GROUP, 1)->event;
  assert_int_equal(event->own_rank, 1);
  assert_int_equal(event->count, 4);
  int32_t members[4], n = 0;
  for (uint32_t i = 0; i < event->run_count; i++) {
    for (int32_t k = 0; k < event->runs[i].count; k++)
      members[n++] = event->runs[i].first + k * event->runs[i].stride;
  }
  assert_int_equal(n, 4);
  assert_memory_equal(members, column, sizeof column);
  event = &run_find(run, BT_GROUP, 3)->event;
  assert_int_equal(event->group, odd);
  assert_int_equal(event->count, 200);
  assert_int_equal(event->run_count, BT_MAX_RUNS);
  run_free(run);
  scratch_remove(scratch);
}

static void test_layout_learnt_late(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 3);
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  layout.pp_rank = 1;
  layout.pp_size = 4;
  assert_int_equal(bubbletop_layout_set(session, &layout), BUBBLETOP_OK);
  record_spans(session, 3, 3);
  bubbletop_layout more = BUBBLETOP_LAYOUT_INIT;
  int32_t vstages[] = {1, 6};
  more.pp_size = 8;
  more.chunks = 2;
  more.vstages = vstages;
  more.schedule = "a schedule whose name is far too long for the header";
  assert_int_equal(bubbletop_layout_set(session, &more), BUBBLETOP_OK);
  assert_int_equal(bubbletop_meta(session, "model", "a"), BUBBLETOP_OK);
  assert_int_equal(bubbletop_meta(session, "model", "7b"), BUBBLETOP_OK);
  assert_int_equal(bubbletop_meta(session, NULL, "7b"), BUBBLETOP_ERR_ARG);
  more.chunks = 1000;
  assert_int_equal(bubbletop_layout_set(session, &more), BUBBLETOP_ERR_ARG);
  char *huge = calloc(1, 100000);
  memset(huge, 'x', 99999);
  assert_int_equal(bubbletop_meta(session, "k", huge), BUBBLETOP_ERR_ARG);
  free(huge);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);

  stream_run *run = run_read(scratch, false);
  bt_layout read;
  bt_layout_init(&read);
  for (size_t i = 0; i < run->record_count; i++) {
    const record *each = &run->records[i];
    if (each->event.code == BT_META)
      assert_int_equal(bt_layout_decode((const uint8_t *)each->text, each->event.text_length, &read), BT_OK);
  }
  assert_int_equal(read.pp_rank, 1);
  assert_int_equal(read.pp_size, 8);
  assert_int_equal(read.chunks, 2);
  assert_int_equal(read.vstage[0], 1);
  assert_int_equal(read.vstage[1], 6);
  assert_int_equal(read.tp_size, -1);
  assert_string_equal(read.schedule, "a schedule whose name is far to");
  assert_memory_equal(run_meta(run, "model"), "7b", 2);
  run_free(run);
  scratch_remove(scratch);
}

static void test_a_null_session_does_nothing(void **state) {
  (void)state;
  bubbletop_span span;
  bubbletop_comm message = BUBBLETOP_COMM_INIT;
  bubbletop_gate_on on = {.size = sizeof on, .kind = BUBBLETOP_RECV_F, .count = 1};
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  int32_t ranks[] = {0};
  memset(&span, 0xa5, sizeof span);
  bubbletop_begin(NULL, &span, BUBBLETOP_F, bubbletop_at(0, 0));
  bubbletop_tokens(&span, 3);
  bubbletop_end(&span);
  bubbletop_end(&span);
  memset(&span, 0xa5, sizeof span);
  bubbletop_comm_begin(NULL, &span, BUBBLETOP_SEND_F, bubbletop_at(0, 0), &message);
  bubbletop_end(&span);
  memset(&span, 0xa5, sizeof span);
  bubbletop_gate_begin(NULL, &span, bubbletop_at(0, 0), &on);
  bubbletop_end(&span);
  bubbletop_complete(NULL, BUBBLETOP_F, bubbletop_at(0, 0), 1, 2);
  bubbletop_comm_complete(NULL, BUBBLETOP_SEND_F, bubbletop_at(0, 0), &message, 1, 2);
  bubbletop_gate_complete(NULL, bubbletop_at(0, 0), &on, 1, 2);
  bubbletop_step_begin(NULL, 1);
  bubbletop_step_end(NULL, 1);
  bubbletop_instant(NULL, "x");
  bubbletop_counter(NULL, "x", 1);
  assert_int_equal(bubbletop_layout_set(NULL, &layout), BUBBLETOP_OK);
  assert_int_equal(bubbletop_meta(NULL, "a", "b"), BUBBLETOP_OK);
  assert_int_equal(bubbletop_group(NULL, BUBBLETOP_DP, ranks, 1), 0);
  assert_int_equal(bubbletop_flush(NULL, 10), BUBBLETOP_OK);
  assert_int_equal(bubbletop_close(NULL, 10), BUBBLETOP_OK);
  assert_int_equal(stats_of(NULL).recorded, 0);
}

static void test_misuse_is_counted(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  bubbletop_span span = {{0}};
  bubbletop_comm message = BUBBLETOP_COMM_INIT;
  bubbletop_gate_on on = {.size = sizeof on, .kind = BUBBLETOP_F, .peer = -1, .sequence = -1, .count = 1};
  bubbletop_end(&span);
  assert_int_equal(stats_of(session).unbegun_ends, 1);
  record_spans(session, 0, 1);
  bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(0, 0));
  bubbletop_end(&span);
  bubbletop_end(&span);
  bubbletop_end(&span);
  assert_int_equal(stats_of(session).double_ends, 2);
  assert_int_equal(stats_of(session).misuse, 0);
  bubbletop_tokens(&span, 5); /* 1: it has ended */
  bubbletop_begin(session, &span, (bubbletop_kind)9, bubbletop_at(0, 0)); /* 2: no such kind */
  bubbletop_end(&span); /* of it: nothing */
  bubbletop_begin(session, &span, (bubbletop_kind)32, bubbletop_at(0, 0)); /* 3: a gate */
  bubbletop_begin(session, &span, (bubbletop_kind)-5, bubbletop_at(0, 0)); /* 4 */
  bubbletop_begin(session, &span, (bubbletop_kind)1000, bubbletop_at(0, 0)); /* 5 */
  bubbletop_comm_begin(session, &span, BUBBLETOP_F, bubbletop_at(0, 0), &message); /* 6: no message */
  bubbletop_comm_begin(session, &span, BUBBLETOP_SEND_F, bubbletop_at(0, 0), NULL); /* 7 */
  message.bytes = INT64_MAX;
  bubbletop_comm_begin(session, &span, BUBBLETOP_SEND_F, bubbletop_at(0, 0), &message); /* 8 */
  bubbletop_gate_begin(session, &span, bubbletop_at(0, 0), &on); /* 9: waits for compute */
  bubbletop_complete(session, BUBBLETOP_F, bubbletop_at(0, 0), 10, 9); /* 10: ends before it begins */
  bubbletop_instant(session, NULL); /* 11 */
  bubbletop_end(&span);
  assert_int_equal(stats_of(session).misuse, 11);
  assert_int_equal(stats_of(session).recorded, 2);
  assert_int_equal(stats_of(session).double_ends, 2);
  assert_int_equal(stats_of(session).unbegun_ends, 1);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  bubbletop_end(&span);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 2);
  run_free(run);
  scratch_remove(scratch);
}

/* Records of different lengths wrap round the ring's end at every place. */
static void test_long_records_wrap(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  enum { NAMES = 700 };
  char name[256];
  config.ring_bytes = 1024; /* 16 slots */
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  for (int i = 0; i < NAMES; i++) {
    memset(name, 'a' + i % 26, sizeof name);
    name[i * 7 % 256] = '\0';
    name[255] = '\0';
    bubbletop_instant(session, name);
    assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  }
  assert_int_equal(stats_of(session).dropped, 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_INSTANT), NAMES);
  for (int i = 0; i < NAMES; i++) {
    const char *text = run_find(run, BT_INSTANT, (size_t)i)->text;
    int length = i * 7 % 256;
    assert_int_equal(strlen(text), length < 255 ? length : 255);
    for (int k = 0; text[k] != '\0'; k++)
      assert_int_equal(text[k], 'a' + i % 26);
  }
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* More spans open at once than the open table holds. */
static void test_many_open_spans(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  enum { OPEN = 3 * BT_OPEN_SLOTS };
  bubbletop_span *spans = malloc(OPEN * sizeof *spans);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < OPEN; i++)
      bubbletop_begin(session, &spans[i], BUBBLETOP_F, bubbletop_at(i, 0));
    for (int i = 0; i < OPEN; i++)
      bubbletop_end(&spans[round == 1 ? OPEN - 1 - i : i]);
  }
  free(spans);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 3 * OPEN);
  assert_int_equal(run_count(run, BT_OPEN), 0);
  run_free(run);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_compute_spans),
      cmocka_unit_test(test_comm_spans_and_gates),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_layout_learnt_late),
      cmocka_unit_test(test_a_null_session_does_nothing),
      cmocka_unit_test(test_misuse_is_counted),
      cmocka_unit_test(test_long_records_wrap),
      cmocka_unit_test(test_many_open_spans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
