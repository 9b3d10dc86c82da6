/* Simulated runs as traces, without files between. */
#ifndef BT_TESTS_ACCOUNT_SIMULATED_H
#define BT_TESTS_ACCOUNT_SIMULATED_H

#include "tests/unit/account_trace.h"
#include "tui/analysis/simulate.h"

/* All ranks on one clock; `shift` is added to it. */
static inline bt_trace *simulated_trace(const bt_simulation_params *params, int64_t shift) {
  bt_simulation *simulation = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_simulation_new(params, &simulation, &error) != BT_OK) fail_msg("%s: %s", params->family->name, error.text);
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
      for (size_t i = 0; i < count; i++) {
        bt_event moved = events[i];
        moved.start += shift;
        add_event(trace, r, &moved);
      }
    }
  }
  bt_simulation_free(simulation);
  return trace;
}

#endif
