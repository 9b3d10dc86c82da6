/* Causes: what is put into simulated runs is named first, wherever it sits; nothing is named where nothing was put in. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/account_simulated.h"

static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1",
                                        "zb-h2", "zb-v", "dualpipe",    "pytorch-zb"};
enum { SCHEDULES = sizeof schedules / sizeof *schedules, STAGES = 4, MICROBATCHES = 8 };

static bt_simulation_params base(const char *schedule, double jitter, uint64_t seed) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(schedule);
  assert_non_null(params.family);
  params.schedule.stages = STAGES;
  params.schedule.microbatches = MICROBATCHES;
  params.schedule.forward = 10000000;
  params.schedule.backward = 12000000;
  params.schedule.weight = 8000000;
  params.schedule.comm = 500000;
  params.steps = 6;
  params.jitter = jitter;
  params.comm_jitter = jitter;
  params.seed = seed;
  return params;
}

static void disturb(bt_disturbances *list, int32_t where, int32_t to, double factor, int64_t time) {
  list->items[list->count++] = (bt_disturbance){.where = where, .to = to, .factor = factor, .time = time};
}

static void expect(const bt_simulation_params *params, const bt_account_cause *wanted) {
  bt_trace *trace = simulated_trace(params, 0);
  bt_accounting *a = account(trace);
  const bt_account_cause *got = a->causes;
  bool right = a->cause_count > 0 && got->kind == wanted->kind && got->stage == wanted->stage &&
               got->to_stage == wanted->to_stage && got->rank == wanted->rank &&
               (wanted->microbatch == -2 || got->microbatch == wanted->microbatch);
  if (!right) {
    fail_msg("%s: %s of stage %d > %d, rank %d, microbatch %d expected; first of %zu is %s, %d > %d, %d, %d",
             params->family->name, bt_cause_name(wanted->kind), wanted->stage, wanted->to_stage, wanted->rank,
             wanted->microbatch, a->cause_count, a->cause_count > 0 ? bt_cause_name(got->kind) : "none",
             a->cause_count > 0 ? got->stage : -1, a->cause_count > 0 ? got->to_stage : -1,
             a->cause_count > 0 ? got->rank : -1, a->cause_count > 0 ? got->microbatch : -1);
  }
  assert_true(got->excess_ns > 0);
  assert_true(got->share > 0 && got->share <= 1);
  for (size_t i = 1; i < a->cause_count; i++)
    assert_true(a->causes[i].excess_ns <= a->causes[i - 1].excess_ns);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void slow_stage(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (int32_t stage = 0; stage < STAGES; stage++) {
      bt_simulation_params params = base(schedules[i], 0.05, (uint64_t)(i * 10 + stage));
      disturb(&params.slow_stages, stage, 0, 1.2, 0);
      expect(&params,
             &(bt_account_cause){.kind = BT_CAUSE_STAGE, .stage = stage, .to_stage = -1, .rank = -1, .microbatch = -1});
    }
  }
}

/* The loop's closing link of chunked schedules counts too. */
static void slow_link(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (int32_t stage = 0; stage + 1 < STAGES; stage++) {
      for (int back = 0; back < 2; back++) {
        int32_t from = stage + back;
        int32_t to = stage + 1 - back;
        bt_simulation_params params = base(schedules[i], 0.05, (uint64_t)(i * 10 + stage));
        disturb(&params.slow_links, from, to, 12, 0);
        expect(&params,
               &(bt_account_cause){.kind = BT_CAUSE_LINK, .stage = from, .to_stage = to, .rank = -1, .microbatch = -1});
      }
    }
  }
}

static void slow_microbatch(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (int32_t microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
      bt_simulation_params params = base(schedules[i], 0.05, (uint64_t)(i * 10 + microbatch));
      disturb(&params.slow_microbatches, microbatch, 0, 1.6, 0);
      expect(&params,
             &(bt_account_cause){
                 .kind = BT_CAUSE_MICROBATCH, .stage = -1, .to_stage = -1, .rank = -1, .microbatch = microbatch});
    }
  }
}

static void slow_rank(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (int32_t rank = 0; rank < STAGES * 2; rank++) {
      bt_simulation_params params = base(schedules[i], 0.05, (uint64_t)(i * 10 + rank));
      if (rank % 2 == 0) {
        params.dp = 2;
      } else {
        params.tp = 2;
      }
      params.sync = true;
      disturb(&params.slow_ranks, rank, 0, 1.25, 0);
      expect(&params, &(bt_account_cause){
                          .kind = BT_CAUSE_RANK, .stage = rank / 2, .to_stage = -1, .rank = rank, .microbatch = -1});
    }
  }
}

static void pause_of_a_stage(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (int32_t stage = 0; stage < STAGES; stage++) {
      bt_simulation_params params = base(schedules[i], 0.05, (uint64_t)(i * 10 + stage));
      disturb(&params.pauses, stage, 0, 1, 200000000);
      expect(&params, &(bt_account_cause){
                          .kind = BT_CAUSE_PAUSE, .stage = stage, .to_stage = -1, .rank = stage, .microbatch = -2});
    }
  }
}

static void nobody(void **state) {
  (void)state;
  for (int i = 0; i < SCHEDULES; i++) {
    for (uint64_t seed = 0; seed < 8; seed++) {
      bt_simulation_params params = base(schedules[i], 0.1, seed);
      if (seed % 3 == 1) params.dp = 2;
      if (seed % 3 == 2) params.tp = 2;
      params.steps = seed % 2 == 0 ? 1 : 6;
      bt_trace *trace = simulated_trace(&params, 0);
      bt_accounting *a = account(trace);
      if (a->cause_count > 0) {
        fail_msg("%s seed %d: nobody expected; %s, stage %d, rank %d, microbatch %d, share %g", schedules[i], (int)seed,
                 bt_cause_name(a->causes->kind), a->causes->stage, a->causes->rank, a->causes->microbatch,
                 a->causes->share);
      }
      bt_accounting_free(a);
      bt_trace_free(trace);
    }
  }
}

/* Launch-bound: 2 ms before every F of stage 0, where the host was not ready. */
static void slow_host(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  int64_t t = 0;
  for (int mb = 0; mb < 8; mb++) {
    op(trace, 0, BT_F, mb, t, t + 10);
    op(trace, 1, BT_F, mb, t + 10, t + 20);
    op(trace, 1, BT_BW, mb, t + 20, t + 30);
    op(trace, 0, BT_BW, mb, t + 30, t + 40);
    message(trace, 0, 1, true, mb, t + 10, t + 10, t + 10, t + 10);
    message(trace, 1, 0, false, mb, t + 30, t + 30, t + 30, t + 30);
    t += 42;
  }
  bt_accounting *a = account(trace);
  assert_int_equal(a->cause_count, 1);
  assert_int_equal(a->causes->kind, BT_CAUSE_HOST);
  assert_int_equal(a->causes->stage, 0);
  assert_int_equal(a->causes->excess_ns, 2 * 7 * 2); /* seven times 2, on both ranks */
  assert_true(a->causes->share == 1);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slow_stage), cmocka_unit_test(slow_link),        cmocka_unit_test(slow_microbatch),
      cmocka_unit_test(slow_rank),  cmocka_unit_test(pause_of_a_stage), cmocka_unit_test(nobody),
      cmocka_unit_test(slow_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
