/* Gaps, piece by piece, add up to what the accounting says of each stage and class; they lie in order and never overlap. */
#include "tests/unit/account_simulated.h"
#include "tui/analysis/gaps.h"

static void check(const char *schedule, int chunks, bool sync) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(schedule);
  assert_non_null(params.family);
  params.schedule.stages = 4;
  params.schedule.chunks = chunks;
  params.schedule.microbatches = 8;
  params.schedule.comm = 300000;
  params.steps = 3;
  params.dp = 2;
  params.jitter = 0.05;
  params.sync = sync;
  params.optimizer = 4000000;
  params.seed = 3;
  bt_trace *trace = simulated_trace(&params, 0);
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
  const bt_account_clock clock = {.aligned = true};
  const bt_accounting_options options = {
      .bounded = true, .first_step = 1, .last_step = 2, .warmup = true, .clock = &clock};
  bt_accounting *account;
  bt_gaps *gaps;
  bt_error error = {BT_OK, ""};
  if (bt_accounting_run(trace, &options, &account, &error) != BT_OK) fail_msg("%s: %s", schedule, error.text);
  assert_int_equal(bt_gaps_find(trace, &options, &gaps, NULL), BT_OK);
  assert_int_equal(gaps->rank_count, trace->rank_count);
  for (size_t s = 0; s < account->stage_count; s++) {
    int64_t sums[BT_CLASS_COUNT] = {0};
    for (size_t r = 0; r < trace->rank_count; r++) {
      if (bt_rank_stage(&trace->ranks[r]) != account->stages[s].stage) continue;
      size_t count;
      const bt_gap *gap = bt_gaps_from(gaps, trace->ranks[r].rank, INT64_MIN, &count);
      for (size_t i = 0; i < count; i++) {
        assert_true(gap[i].start < gap[i].end);
        if (i > 0) assert_true(gap[i - 1].end <= gap[i].start);
        sums[gap[i].class] += gap[i].end - gap[i].start;
      }
      /* what ends by a time is left out */
      size_t rest;
      if (count > 1) assert_ptr_equal(bt_gaps_from(gaps, trace->ranks[r].rank, gap[0].end, &rest), gap + 1);
    }
    for (unsigned class = 0; class < BT_CLASS_COUNT; class ++)
      assert_int_equal(sums[class], class < BT_CLASS_COMPUTE_LIMIT ? 0 : account->stages[s].ns[class]);
  }
  size_t none;
  (void)bt_gaps_from(gaps, 1000, INT64_MIN, &none);
  assert_int_equal(none, 0);
  bt_gaps_free(gaps);
  bt_accounting_free(account);
  bt_trace_free(trace);
}

static void add_up(void **state) {
  (void)state;
  check("1f1b", 1, false);
  check("zb-h1", 1, false);
  check("interleaved", 2, true);
}

static void nothing_there(void **state) {
  (void)state;
  bt_trace *trace;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  const bt_accounting_options options = {.bounded = false};
  bt_gaps *gaps;
  bt_error error;
  assert_int_equal(bt_gaps_find(trace, &options, &gaps, &error), BT_ERR_EMPTY);
  assert_null(gaps);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(add_up), cmocka_unit_test(nothing_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
