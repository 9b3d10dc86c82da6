/* Two accountings side by side. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/simulated_trace.h"
#include "tui/analysis/compare.h"

static bt_accounting *run(const bt_simulation_params *params) {
  bt_trace *trace = settled_trace(params);
  bt_accounting *accounting = account(trace);
  bt_trace_free(trace);
  return accounting;
}

static bt_comparison *compare(const bt_accounting *a, const bt_accounting *b) {
  bt_comparison *comparison = NULL;
  assert_int_equal(bt_compare(a, b, &comparison, NULL), BT_OK);
  return comparison;
}

/* --- what holds for any two runs ------------------------------------------------------------------------------------- */

static void opposite(const bt_change *x, const bt_change *y) {
  assert_true(x->a == y->b && x->b == y->a);
  if (x->change == BT_UNKNOWN) {
    assert_true(y->change == BT_UNKNOWN && (x->a == BT_UNKNOWN || x->b == BT_UNKNOWN));
  } else {
    assert_true(x->change == x->b - x->a && x->change == -y->change);
  }
}

static void opposite_rates(const bt_rate_change *x, const bt_rate_change *y) {
  if (!isnan(x->change)) assert_true(x->change == -y->change);
  assert_int_equal(isnan(x->change), isnan(y->change));
  assert_int_equal(isnan(x->a), isnan(y->b));
}

static void adds_up(const bt_change *classes, const bt_change *step) {
  int64_t a = 0;
  int64_t b = 0;
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    if (step->a != BT_UNKNOWN) a += classes[c].a;
    if (step->b != BT_UNKNOWN) b += classes[c].b;
  }
  if (step->a != BT_UNKNOWN) assert_int_equal(a, step->a);
  if (step->b != BT_UNKNOWN) assert_int_equal(b, step->b);
}

static void check(const bt_accounting *a, const bt_accounting *b) {
  bt_comparison *x = compare(a, b);
  bt_comparison *y = compare(b, a);
  opposite(&x->step, &y->step);
  opposite(&x->theory_step, &y->theory_step);
  opposite(&x->microbatch, &y->microbatch);
  opposite_rates(&x->rate_window, &y->rate_window);
  opposite_rates(&x->rate_span, &y->rate_span);
  opposite_rates(&x->ideal_rate_window, &y->ideal_rate_window);
  adds_up(x->classes, &x->step);
  int64_t step = (a->interval_ns + (int64_t)a->step_count / 2) / (int64_t)a->step_count;
  assert_in_range(x->step.a, step - 1, step + 1);
  assert_int_equal(x->stage_count, y->stage_count);
  for (size_t i = 0; i < x->stage_count; i++) {
    assert_int_equal(x->stages[i].stage, y->stages[i].stage);
    opposite(&x->stages[i].step, &y->stages[i].step);
    opposite(&x->stages[i].compute, &y->stages[i].compute);
    for (int c = 0; c < BT_CLASS_COUNT; c++) {
      opposite(&x->stages[i].ns[c], &y->stages[i].ns[c]);
      opposite(&x->stages[i].theory[c], &y->stages[i].theory[c]);
    }
    adds_up(x->stages[i].ns, &x->stages[i].step);
    if (x->stages[i].step.a != BT_UNKNOWN) assert_int_equal(x->stages[i].step.a, x->step.a); /* the interval is one */
  }
  assert_int_equal(x->link_count, y->link_count);
  for (size_t i = 0; i < x->link_count; i++) {
    assert_true(x->links[i].from == y->links[i].from && x->links[i].to == y->links[i].to);
    opposite(&x->links[i].wait, &y->links[i].wait);
    opposite(&x->links[i].transfer, &y->links[i].transfer);
    opposite(&x->links[i].messages, &y->links[i].messages);
    opposite(&x->links[i].message, &y->links[i].message);
  }
  assert_true(strlen(x->verdict) > 0 && strlen(x->verdict) < sizeof x->verdict - 1);
  bt_comparison_free(x);
  bt_comparison_free(y);
}

static void check_same(const bt_accounting *a) {
  bt_comparison *same = compare(a, a);
  assert_int_equal(same->step.change, 0);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    assert_int_equal(same->classes[c].change, 0);
  for (size_t i = 0; i < same->stage_count; i++) {
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      assert_int_equal(same->stages[i].ns[c].change, 0);
  }
  for (size_t i = 0; i < same->link_count; i++) {
    assert_int_equal(same->links[i].wait.change, 0);
    assert_int_equal(same->links[i].transfer.change, 0);
  }
  if (!isnan(same->rate_window.a)) assert_true(same->rate_window.change == 0);
  assert_int_equal(strncmp(same->verdict, "a step of B takes as long as one of A", 37), 0);
  bt_comparison_free(same);
}

static void test_properties(void **state) {
  (void)state;
  static const struct {
    const char *schedule;
    int32_t stages, microbatches, dp;
    int64_t steps;
  } runs[] = {{"1f1b", 4, 8, 1, 3},        {"1f1b", 4, 12, 2, 2},     {"zb-h1", 4, 8, 1, 4}, {"gpipe", 2, 7, 1, 3},
              {"interleaved", 4, 8, 1, 1}, {"dualpipev", 4, 8, 1, 2}, {"zb-h2", 8, 16, 1, 3}};
  enum { COUNT = sizeof runs / sizeof *runs };
  bt_accounting *accounts[COUNT];
  for (int i = 0; i < COUNT; i++) {
    bt_simulation_params params = simulated_params(runs[i].schedule, runs[i].stages, runs[i].microbatches);
    params.steps = runs[i].steps;
    params.dp = runs[i].dp;
    params.jitter = params.comm_jitter = 0.1;
    params.optimizer = 777777;
    params.seed = (uint64_t)i + 1;
    accounts[i] = run(&params);
  }
  for (int i = 0; i < COUNT; i++) {
    check_same(accounts[i]);
    for (int k = 0; k < i; k++)
      check(accounts[i], accounts[k]);
  }
  for (int i = 0; i < COUNT; i++)
    bt_accounting_free(accounts[i]);
}

/* --- verdicts -------------------------------------------------------------------------------------------------------- */

static void says(const bt_accounting *a, const bt_accounting *b, const char *words) {
  bt_comparison *comparison = compare(a, b);
  if (strstr(comparison->verdict, words) == NULL) fail_msg("'%s' does not say '%s'", comparison->verdict, words);
  bt_comparison_free(comparison);
}

static bt_simulation_params usual(void) {
  bt_simulation_params params = simulated_params("1f1b", 8, 16);
  params.steps = 3;
  params.jitter = 0.02;
  return params;
}

static void test_slow_stage(void **state) {
  (void)state;
  bt_simulation_params params = usual();
  bt_accounting *a = run(&params);
  params.seed = 9;
  bt_accounting *again = run(&params);
  params = usual();
  for (int32_t slow = 0; slow < 8; slow++) {
    params.slow_stages = (bt_disturbances){{{.where = slow, .factor = 1.3}}, 1};
    bt_accounting *b = run(&params);
    char words[64];
    (void)snprintf(words, sizeof words, "stage %d's compute is 30 %% slower", slow);
    says(a, b, "slower; ");
    says(a, b, words);
    (void)snprintf(words, sizeof words, "stage %d's compute is 23 %% faster", slow);
    says(b, a, words);
    bt_accounting_free(b);
  }
  bt_comparison *none = compare(a, again); /* noise names nobody */
  assert_null(strstr(none->verdict, "stage "));
  assert_null(strstr(none->verdict, "compute"));
  assert_null(strstr(none->verdict, "message"));
  bt_comparison_free(none);
  bt_accounting_free(again);
  bt_accounting_free(a);
}

static void test_other_changes(void **state) {
  (void)state;
  bt_simulation_params params = usual();
  bt_accounting *a = run(&params);
  params.slow_links = (bt_disturbances){{{.where = 5, .to = 6, .factor = 8}}, 1};
  bt_accounting *link = run(&params);
  says(a, link, "a message 5 > 6 takes 8.0 times as long");
  params = usual();
  params.schedule.forward = 1200000;
  bt_accounting *forward = run(&params);
  says(a, forward, "on most stages");
  params = usual();
  params.schedule.microbatches = 32;
  bt_accounting *more = run(&params);
  says(a, more, "A has 16 microbatches a step, B 32");
  params = usual();
  params.schedule.stages = 4;
  bt_accounting *fewer = run(&params);
  says(a, fewer, "A has 8 stages, B 4");
  bt_comparison *comparison = compare(a, fewer);
  assert_int_equal(comparison->stage_count, 8);
  assert_true(comparison->stages[3].step.change != BT_UNKNOWN);
  assert_true(comparison->stages[4].step.b == BT_UNKNOWN && comparison->stages[4].step.change == BT_UNKNOWN);
  assert_true(comparison->stages[4].ns[BT_CLASS_F].a != BT_UNKNOWN);
  bt_comparison_free(comparison);
  params = usual();
  params.family = bt_schedule_find("zb-h1");
  bt_accounting *split = run(&params); /* B and W against BW: nobody's compute changed */
  comparison = compare(a, split);
  assert_null(strstr(comparison->verdict, "compute"));
  assert_null(strstr(comparison->verdict, "BW"));
  assert_non_null(strstr(comparison->verdict, "faster"));
  bt_comparison_free(comparison);
  bt_accounting_free(a);
  bt_accounting_free(link);
  bt_accounting_free(forward);
  bt_accounting_free(more);
  bt_accounting_free(fewer);
  bt_accounting_free(split);
}

/* Steps of 91 ns in 3 steps of 2 ranks: thirds and halves that must still add up. */
static void test_rounding(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  for (int32_t s = 0; s < 3; s++) {
    int64_t t = 100 * s + s;
    op(trace, 0, BT_F, 0, t, t + 10 + s);
    op(trace, 1, BT_F, 0, t + 13, t + 24);
    op(trace, 1, BT_BW, 0, t + 25, t + 46);
    op(trace, 0, BT_BW, 0, t + 50, t + 71 + s);
    step(trace, 0, s, t, t + 80);
    step(trace, 1, s, t, t + 80);
  }
  bt_accounting *a = account(trace);
  bt_comparison *same = compare(a, a);
  adds_up(same->classes, &same->step);
  for (size_t i = 0; i < same->stage_count; i++)
    adds_up(same->stages[i].ns, &same->stages[i].step);
  assert_int_equal(same->step.a, (a->interval_ns * 2 + 3) / 6);
  bt_comparison_free(same);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_properties),
      cmocka_unit_test(test_slow_stage),
      cmocka_unit_test(test_other_changes),
      cmocka_unit_test(test_rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
