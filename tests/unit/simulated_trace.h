/* Simulated runs with usual parameters. */
#ifndef BT_TESTS_SIMULATED_TRACE_H
#define BT_TESTS_SIMULATED_TRACE_H

#include "tests/unit/account_simulated.h"

/* Defaults for a schedule of p stages and m microbatches, with messages that take time. */
static inline bt_simulation_params simulated_params(const char *schedule, int32_t stages, int32_t microbatches) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(schedule);
  assert_non_null(params.family);
  params.schedule.stages = stages;
  params.schedule.microbatches = microbatches;
  params.schedule.forward = 1000000;
  params.schedule.backward = 1100000;
  params.schedule.weight = 900000;
  params.schedule.comm = 50000;
  return params;
}

/* All ranks on one clock; settled. */
static inline bt_trace *settled_trace(const bt_simulation_params *params) {
  bt_trace *trace = simulated_trace(params, 0);
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
  return trace;
}

#endif
