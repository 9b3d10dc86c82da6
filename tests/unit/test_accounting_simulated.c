/* The accounting on simulated runs of every schedule: what must hold whatever the order of ops. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/account_simulated.h"

typedef struct setup {
  const char *schedule;
  int stages, microbatches, steps;
  int64_t f, b, w, c;
  double jitter;
  int dp, tp, zero;
  bool sync;
  int64_t optimizer;
} setup;

static bt_simulation_params params_of(const setup *s) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(s->schedule);
  assert_non_null(params.family);
  params.schedule.stages = s->stages;
  params.schedule.microbatches = s->microbatches;
  params.schedule.forward = s->f;
  params.schedule.backward = s->b;
  params.schedule.weight = s->w;
  params.schedule.comm = s->c;
  params.steps = s->steps;
  params.jitter = s->jitter;
  params.comm_jitter = s->jitter;
  params.dp = s->dp > 0 ? s->dp : 1;
  params.tp = s->tp > 0 ? s->tp : 1;
  params.zero = s->zero;
  params.sync = s->sync;
  params.optimizer = s->optimizer;
  params.collective = s->dp > 1 || s->tp > 1 ? s->f / 5 : params.collective;
  params.seed = 7;
  return params;
}

static bt_trace *simulate(const setup *s, int64_t shift) {
  bt_simulation_params params = params_of(s);
  return simulated_trace(&params, shift);
}

static int64_t total(const bt_accounting *a, bt_class class) {
  int64_t sum = 0;
  for (size_t i = 0; i < a->stage_count; i++)
    sum += a->stages[i].ns[class];
  return sum;
}

static const setup setups[] = {
    {"1f1b", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 2, 1, 0, false, 5000},
    {"1f1b", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 2, 1, 1, true, 5000},
    {"1f1b", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 2, 1, 2, true, 5000},
    {"interleaved", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 2, 1, 3, true, 5000},
    {"zb-h1", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 1, 2, 0, true, 5000},
    {"dualpipe", 4, 8, 3, 10000, 12000, 8000, 300, 0.2, 2, 2, 1, true, 5000},
};

/* Nothing is left unexplained, nothing waits for the host, every message is matched, compute is what was put in. */
static void check_sound(const setup *s) {
  bt_trace *trace = simulate(s, 0);
  bt_accounting *a = account(trace);
  assert_int_equal(a->step_count, 3);
  assert_int_equal(a->steps_rated, 3);
  if (total(a, BT_CLASS_UNATTRIBUTED) != 0) fail_msg("%s: unattributed", s->schedule);
  if (total(a, BT_CLASS_HOST_GAP) != 0) fail_msg("%s: %ld of host gap", s->schedule, (long)total(a, BT_CLASS_HOST_GAP));
  assert_int_equal(total(a, BT_CLASS_LATE_RECEIVER), 0);
  assert_int_equal(a->warning_count, 0);
  int64_t compute = 0;
  for (int c = 0; c < BT_CLASS_OTHER; c++)
    compute += total(a, (bt_class)c);
  bool twice = params_of(s).family->placement == BT_PLACE_BOTH; /* each microbatch passes half of the chunks */
  int64_t ops = (int64_t)3 * a->ranks * s->microbatches * (twice ? 1 : a->chunks);
  if (s->jitter == 0) assert_int_equal(compute, ops * (s->f + s->b + s->w));
  for (size_t k = 0; k < a->stage_count; k++) {
    assert_true(a->stages[k].p2p_wait_ns >= 0);
    assert_true(a->stages[k].busy_ns <= a->stages[k].window_ns);
  }
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void every_schedule(void **state) {
  (void)state;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    for (int variant = 0; variant < 4; variant++) {
      setup s = {family->name, 4, 8, 3, 10000, 12000, 8000, 300, 0, 1, 1, 0, variant % 2 == 1, variant < 2 ? 0 : 5000};
      check_sound(&s);
    }
  }
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
    check_sound(&setups[i]);
}

/* With neither jitter nor a slow part the replay is the run: excess is 0 in every class of every stage. */
static void check_no_excess(const setup *s) {
  bt_trace *trace = simulate(s, 0);
  bt_accounting *a = account(trace);
  for (size_t k = 0; k < a->stage_count; k++) {
    for (int c = 0; c < BT_CLASS_COUNT; c++) {
      if (a->stages[k].theory_ns[c] == a->stages[k].ns[c]) continue;
      fail_msg("%s dp %d tp %d zero %d sync %d: stage %zu %s %ld, in theory %ld", s->schedule, s->dp, s->tp, s->zero,
               s->sync, k, bt_class_key((bt_class)c), (long)a->stages[k].ns[c], (long)a->stages[k].theory_ns[c]);
    }
  }
  assert_true(a->ideal_rate_window == a->rate_window);
  assert_true(a->ideal_rate_span == a->rate_span);
  assert_true(a->jitterless_rate_window == a->rate_window);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void no_excess(void **state) {
  (void)state;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    for (int variant = 0; variant < 24; variant++) {
      bool sync = variant % 2 == 1;
      int dp = 1 + variant / 2 % 2;
      int tp = 1 + variant / 4 % 2;
      int zero = dp == 1 ? 0 : variant / 8 + 1;
      setup s = {family->name, 4, 8, 3, 10000, 12000, 8000, 300, 0, dp, tp, zero, sync, 5000};
      check_no_excess(&s);
    }
  }
}

static bt_accounting *account_steps(bt_trace *trace, int64_t first, int64_t last, int32_t context, uint64_t *spans) {
  bt_accounting_options options = {
      .bounded = true, .first_step = first, .last_step = last, .warmup = true, .context = context};
  bt_accounting *a = account_with(trace, &options);
  *spans = bt_accounting_spans(trace, &options);
  return a;
}

/* The accounting of some steps needs no more than their neighbours: it is the same when it looks at those alone. */
static void check_neighbours(const char *schedule, int64_t first, int64_t last, bt_trace *trace) {
  uint64_t few, all;
  bt_accounting *near = account_steps(trace, first, last, 3, &few);
  bt_accounting *whole = account_steps(trace, first, last, 0, &all);
  if (few >= all) fail_msg("%s: looks at %lu of %lu spans", schedule, (unsigned long)few, (unsigned long)all);
  assert_int_equal(near->interval_ns, whole->interval_ns);
  assert_int_equal(near->bubble_ns, whole->bubble_ns);
  assert_int_equal(near->step_count, whole->step_count);
  assert_true(near->rate_window == whole->rate_window && near->rate_span == whole->rate_span);
  assert_true(near->ideal_rate_window == whole->ideal_rate_window);
  assert_int_equal(near->cause_count, whole->cause_count);
  assert_int_equal(near->stage_count, whole->stage_count);
  for (size_t k = 0; k < near->stage_count; k++) {
    assert_memory_equal(near->stages[k].ns, whole->stages[k].ns, sizeof near->stages[k].ns);
    assert_memory_equal(near->stages[k].theory_ns, whole->stages[k].theory_ns, sizeof near->stages[k].theory_ns);
  }
  bt_accounting_free(near);
  bt_accounting_free(whole);
}

static void neighbours(void **state) {
  (void)state;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    for (int variant = 0; variant < 2; variant++) {
      int more = 1 + variant;
      setup s = {family->name, 4, 8, 14, 10000, 12000, 8000, 300, 0.2, more, more, variant, variant == 1, 5000};
      bt_simulation_params params = params_of(&s);
      params.comm_jitter = 0; /* the fastest message of a link is the same everywhere */
      bt_trace *trace = simulated_trace(&params, 0);
      check_neighbours(family->name, 0, 0, trace);
      check_neighbours(family->name, 7, 7, trace);
      check_neighbours(family->name, 5, 8, trace);
      check_neighbours(family->name, 13, 13, trace);
      bt_trace_free(trace);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_schedule),
      cmocka_unit_test(no_excess),
      cmocka_unit_test(neighbours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
