/* Traces of simulated runs, without files. */
#ifndef BT_TESTS_SIMULATED_TRACE_H
#define BT_TESTS_SIMULATED_TRACE_H

#include "tests/unit/account_trace.h"
#include "tui/analysis/simulate.h"

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
static inline bt_trace *simulated_trace(const bt_simulation_params *params) {
  bt_simulation *simulation = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_simulation_new(params, &simulation, &error) != BT_OK) fail_msg("%s", error.text);
  bt_trace *trace = new_trace(bt_simulation_ranks(simulation));
  for (int32_t r = 0; r < bt_simulation_ranks(simulation); r++) {
    bt_simulation_layout(simulation, r, &bt_trace_rank(trace, r)->layout);
    size_t count;
    const bt_event *groups = bt_simulation_groups(simulation, r, &count);
    for (size_t i = 0; i < count; i++)
      add_event(trace, r, &groups[i]);
  }
  while (bt_simulation_step(simulation)) {
    for (int32_t r = 0; r < bt_simulation_ranks(simulation); r++) {
      size_t count;
      const bt_event *events = bt_simulation_events(simulation, r, &count);
      assert_non_null(events);
      for (size_t i = 0; i < count; i++)
        add_event(trace, r, &events[i]);
    }
  }
  bt_simulation_free(simulation);
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
  return trace;
}

#endif
