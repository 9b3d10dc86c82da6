/* The accounting of 8 ranks: time for 1,000 steps, and how it grows with the number of steps.
 *
 * Theory, causes and recognition included; reading the files is not (bench_load has that). Target: 1,000 steps in well under a
 * second of processor time, and twice the steps in little more than twice the time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tui/analysis/accounting.h"
#include "tui/analysis/simulate.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* others may be using the machine */
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bt_trace *make_trace(int64_t steps) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find("1f1b");
  params.schedule.stages = 8;
  params.schedule.microbatches = 24;
  params.schedule.comm = 300000;
  params.steps = steps;
  params.jitter = 0.05;
  bt_simulation *simulation = NULL;
  bt_trace *trace = NULL;
  if (bt_simulation_new(&params, &simulation, NULL) != BT_OK || bt_trace_new(&trace) != BT_OK) exit(1);
  uint32_t host = bt_trace_host(trace, "node", "boot", 1);
  for (int32_t r = 0; r < 8; r++) {
    bt_rank *rank = bt_trace_rank(trace, r);
    rank->host = host;
    bt_simulation_layout(simulation, r, &rank->layout);
  }
  while (bt_simulation_step(simulation)) {
    for (int32_t r = 0; r < 8; r++) {
      size_t count;
      const bt_event *events = bt_simulation_events(simulation, r, &count);
      for (size_t i = 0; i < count; i++)
        (void)bt_trace_add(trace, &trace->ranks[r], 0, 1, &events[i]);
    }
  }
  for (int32_t r = 0; r < 8; r++)
    (void)bt_trace_settle(trace, &trace->ranks[r], INT64_MAX);
  bt_simulation_free(simulation);
  return trace;
}

static double best_of_three(const bt_trace *trace) {
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    bt_accounting *accounting = NULL;
    double begin = now();
    if (bt_accounting_run(trace, NULL, &accounting, NULL) != BT_OK) exit(1);
    double took = now() - begin;
    if (took < best) best = took;
    bt_accounting_free(accounting);
  }
  return best;
}

int main(void) {
  double last = 0;
  for (int64_t steps = 250; steps <= 1000; steps *= 2) {
    bt_trace *trace = make_trace(steps);
    double seconds = best_of_three(trace);
    printf("report of 8 ranks x %4lld steps, %7llu spans: %.3f s of processor time", (long long)steps,
           (unsigned long long)trace->span_count, seconds);
    if (last > 0) printf(", %.2f x the time for half as many (target: about 2)", seconds / last);
    printf("\n");
    last = seconds;
    bt_trace_free(trace);
  }
  return 0;
}
