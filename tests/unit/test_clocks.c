/* Clocks of hosts, from simulated runs whose truth is known and from messages made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/analysis/clocks.h"
#include "tui/analysis/simulate.h"

static bt_trace *new_trace(int32_t ranks, int32_t ranks_per_host) {
  bt_trace *trace = NULL;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  for (int32_t r = 0; r < ranks; r++) {
    char boot[32];
    snprintf(boot, sizeof boot, "boot-%d", r / ranks_per_host);
    uint32_t host = bt_trace_host(trace, boot, boot, 1);
    bt_rank *rank = bt_trace_rank(trace, r);
    assert_non_null(rank);
    rank->host = host;
  }
  return trace;
}

static void add(bt_trace *trace, int32_t rank, const bt_event *event) {
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, rank), 0, 1, event), BT_OK);
}

static void settle(bt_trace *trace) {
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
}

/* ---- simulated runs ---- */

static bt_simulation_params params_of(const char *schedule, int32_t stages, int64_t steps, uint64_t seed) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(schedule);
  assert_non_null(params.family);
  params.schedule.stages = stages;
  params.schedule.microbatches = 2 * stages;
  params.schedule.comm = 500000;
  params.steps = steps;
  params.jitter = 0.05;
  params.comm_jitter = 0.05;
  params.skew = 50000000;
  params.drift = 50e-6;
  params.seed = seed;
  return params;
}

/* The trace of a run; `strip` takes the sequences away, so that messages must be told by microbatch. */
static bt_trace *run(bt_simulation *simulation, int32_t ranks_per_host, bool strip) {
  int32_t ranks = bt_simulation_ranks(simulation);
  bt_trace *trace = new_trace(ranks, ranks_per_host);
  for (int32_t r = 0; r < ranks; r++) {
    bt_simulation_layout(simulation, r, &bt_trace_rank(trace, r)->layout);
    size_t count = 0;
    const bt_event *groups = bt_simulation_groups(simulation, r, &count);
    for (size_t i = 0; i < count; i++)
      add(trace, r, &groups[i]);
  }
  while (bt_simulation_step(simulation)) {
    for (int32_t r = 0; r < ranks; r++) {
      size_t count = 0;
      const bt_event *events = bt_simulation_events(simulation, r, &count);
      for (size_t i = 0; i < count; i++) {
        bt_event local = events[i];
        local.start = bt_simulation_reading(simulation, r, events[i].start);
        local.duration = bt_simulation_reading(simulation, r, bt_event_end(&events[i])) - local.start;
        if (strip) local.sequence = -1;
        add(trace, r, &local);
      }
    }
  }
  settle(trace);
  return trace;
}

typedef struct outcome {
  int64_t worst, likely, error;
  int ranks, within; /* how many were off by no more than their likely error, at the worst time */
} outcome;

/* What rank `rank` reads at true time t, corrected, against what rank 0 reads. */
static int64_t miss(const bt_simulation *simulation, const bt_clocks *clocks, const bt_trace *trace, int32_t rank,
                    int64_t t) {
  int64_t corrected = bt_clocks_time(clocks, trace->ranks[rank].host, bt_simulation_reading(simulation, rank, t));
  return llabs(corrected - bt_simulation_reading(simulation, 0, t));
}

static outcome check(bt_simulation_params params, bool strip) {
  bt_simulation *simulation = NULL;
  bt_error error;
  if (bt_simulation_new(&params, &simulation, &error) != BT_OK) fail_msg("%s", error.text);
  bt_trace *trace = run(simulation, params.ranks_per_host, strip);
  bt_clocks *clocks = NULL;
  assert_int_equal(bt_clocks_solve(trace, &clocks, &error), BT_OK);
  const bt_clocks_summary *summary = bt_clocks_summary_of(clocks);
  assert_true(summary->aligned);
  assert_false(summary->bent);
  size_t count = 0;
  const bt_clock_host *hosts = bt_clocks_hosts(clocks, &count);
  outcome out = {.likely = summary->likely_error_ns, .error = summary->max_error_ns};
  int64_t last = BT_SIMULATE_BEGIN + (summary->to - summary->from);
  bt_clocks_apply(clocks, trace);
  for (int32_t r = 0; r < bt_simulation_ranks(simulation); r++) {
    const bt_clock_host *host = &hosts[trace->ranks[r].host];
    int64_t worst = 0;
    for (int part = 0; part <= 4; part++) {
      int64_t t = BT_SIMULATE_BEGIN + (last - BT_SIMULATE_BEGIN) / 4 * part;
      int64_t own = miss(simulation, clocks, trace, r, t);
      if (own > host->error_ns)
        fail_msg("seed %d, rank %d: %lld ns off, bound %lld", (int)params.seed, r, (long long)own,
                 (long long)host->error_ns);
      if (own > worst) worst = own;
      int64_t reading = bt_simulation_reading(simulation, r, t);
      int64_t same = bt_rank_time(&trace->ranks[r], reading) - bt_clocks_time(clocks, trace->ranks[r].host, reading);
      assert_true(same >= -2 && same <= 2);
    }
    if (worst > out.worst) out.worst = worst;
    out.ranks++;
    out.within += worst <= host->likely_error_ns;
    int64_t truth = bt_simulation_reading(simulation, r, BT_SIMULATE_BEGIN) -
                    bt_simulation_reading(simulation, 0, BT_SIMULATE_BEGIN);
    assert_true(llabs(host->offset_ns - truth) <= host->error_ns);
  }
  assert_true(summary->likely_error_ns <= summary->max_error_ns);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
  bt_simulation_free(simulation);
  return out;
}

static void test_64_hosts(void **state) {
  (void)state;
  static const struct {
    const char *schedule;
    int64_t steps;
    bool strip;
  } grid[] = {{"1f1b", 1, false}, {"1f1b", 4, false}, {"1f1b", 4, true}, {"gpipe", 3, false}, {"zb-h1", 3, false}};
  int ranks = 0;
  int within = 0;
  for (size_t i = 0; i < sizeof grid / sizeof grid[0]; i++) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
      outcome out = check(params_of(grid[i].schedule, 64, grid[i].steps, seed), grid[i].strip);
      print_message("%s x %d%s, seed %d: off by %.1f us at most, likely %.1f us, bound %.1f us\n", grid[i].schedule,
                    (int)grid[i].steps, grid[i].strip ? " without sequences" : "", (int)seed, (double)out.worst / 1e3,
                    (double)out.likely / 1e3, (double)out.error / 1e3);

      assert_true(out.likely < 30000);
      within += out.within;
      ranks += out.ranks;
    }
  }
  print_message("%d of %d ranks within their likely error at the worst time\n", within, ranks);
  assert_true(within * 10 >= ranks * 8);
}

/* ---- messages by hand ---- */

static bt_event message(bt_code code, int32_t peer, int64_t sequence, int64_t start, int64_t end) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = start;
  event.duration = end - start;
  event.microbatch = (int32_t)sequence;
  event.peer = peer;
  event.sequence = sequence;
  event.chunk = 0;
  return event;
}

static void add_pair(bt_trace *trace, bool forward, int32_t from, int32_t to, int64_t sequence, int64_t sent,
                     int64_t got) {
  bt_event send = message(forward ? BT_SEND_F : BT_SEND_B, to, sequence, sent, sent + 50000);
  bt_event receive = message(forward ? BT_RECV_F : BT_RECV_B, from, sequence, got - 60000, got);
  add(trace, from, &send);
  add(trace, to, &receive);
}

static bt_clocks *solve(bt_trace *trace) {
  bt_clocks *clocks = NULL;
  bt_error error;
  settle(trace);
  assert_int_equal(bt_clocks_solve(trace, &clocks, &error), BT_OK);
  return clocks;
}

/* Rank 1's clock is 5 ms behind, and days apart as monotonic clocks are. */
static void test_two_messages(void **state) {
  (void)state;
  const int64_t boot = INT64_C(-300000000000000);
  bt_trace *trace = new_trace(2, 1);
  add_pair(trace, true, 0, 1, 0, 11400000, boot + 6470000);
  add_pair(trace, false, 1, 0, 0, boot + 7670000, 12740000);
  bt_clocks *clocks = solve(trace);
  const bt_clocks_summary *summary = bt_clocks_summary_of(clocks);
  size_t count = 0;
  const bt_clock_host *hosts = bt_clocks_hosts(clocks, &count);
  assert_true(summary->aligned);
  assert_int_equal(summary->messages, 2);
  assert_int_equal(summary->violations, 0);
  assert_int_equal(count, 2);
  assert_true(llabs(hosts[1].offset_ns - (boot - 5000000)) < 1000);
  assert_true(hosts[1].error_ns >= 70000 && hosts[1].error_ns < 71500); /* -5070 .. -4930 us */
  assert_int_equal(hosts[0].offset_ns, 0);
  assert_int_equal(hosts[0].error_ns, 0);
  int64_t error = 0;
  int64_t likely = 0;
  bt_clocks_pair(clocks, 1, 0, &error, &likely);
  assert_int_equal(error, hosts[1].error_ns);
  bt_clocks_pair(clocks, 1, 1, &error, &likely);
  assert_int_equal(error, 0);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

static void test_one_direction_aligns_nothing(void **state) {
  (void)state;
  bt_trace *trace = new_trace(3, 1);
  for (int i = 0; i < 10; i++)
    add_pair(trace, true, 0, 1, i, i * 1000000, 700000 + i * 1000000);
  bt_clocks *clocks = solve(trace);
  size_t count = 0;
  assert_false(bt_clocks_summary_of(clocks)->aligned);
  assert_false(bt_clocks_hosts(clocks, &count)[1].known);
  assert_true(bt_clocks_hosts(clocks, &count)[1].present);
  assert_false(bt_clocks_hosts(clocks, &count)[2].present); /* nothing of it was recorded */
  bt_clocks_apply(clocks, trace);
  assert_true(bt_rank_time(&trace->ranks[1], 123) == 123);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

/* Numbers that came a different number of times on both sides cannot be told apart. */
static void test_doubtful_matches_are_left_out(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2, 1);
  add_pair(trace, true, 0, 1, 0, 0, 1000000);
  add_pair(trace, false, 1, 0, 0, 1000000, 2000000);
  bt_event again = message(BT_SEND_F, 1, 0, 500000000, 500100000); /* after a restart; the receive was not recorded */
  add(trace, 0, &again);
  bt_clocks *clocks = solve(trace);
  assert_int_equal(bt_clocks_summary_of(clocks)->messages, 1);
  assert_false(bt_clocks_summary_of(clocks)->aligned);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

/* A receive with host times on a GPU run ends when it was queued: it may seem to come before the send. */
static void test_host_times_of_a_gpu_run_are_left_out(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2, 1);
  for (int32_t r = 0; r < 2; r++) {
    bt_event op;
    bt_event_init(&op, BT_F);
    op.flags = BT_FLAG_GPU_TIMED;
    add(trace, r, &op);
  }
  add_pair(trace, true, 0, 1, 0, 5000000, 1000000);
  add_pair(trace, false, 1, 0, 0, 6000000, 1000000);
  bt_clocks *clocks = solve(trace);
  assert_int_equal(bt_clocks_summary_of(clocks)->messages, 0);
  assert_int_equal(bt_clocks_summary_of(clocks)->violations, 0);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

/* No offset makes both of these possible. */
static void test_contradictions_are_violations(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2, 1);
  add_pair(trace, true, 0, 1, 0, 3000000, 1000000);
  add_pair(trace, false, 1, 0, 0, 3000000, 1000000);
  for (int i = 1; i < 20; i++) {
    add_pair(trace, true, 0, 1, i, i * 10000000, 2000000 + i * 10000000);
    add_pair(trace, false, 1, 0, i, i * 10000000, 2000000 + i * 10000000);
  }
  bt_clocks *clocks = solve(trace);
  const bt_clocks_summary *summary = bt_clocks_summary_of(clocks);
  assert_true(summary->bent);
  assert_true(summary->violations >= 1 && summary->violations <= 2);
  assert_true(summary->worst[0].by_ns > 0 && summary->worst[0].by_ns >= 1900000);
  assert_true(summary->worst[0].time == 3000000);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

static void add_collective(bt_trace *trace, int32_t rank, int64_t sequence, int64_t start, int64_t end) {
  bt_event event = message(BT_ALL_REDUCE, -1, sequence, start, end);
  event.group = 1;
  add(trace, rank, &event);
}

/* Collectives alone align hosts: nobody leaves before the last has come. */
static void test_collectives(void **state) {
  (void)state;
  enum { RANKS = 6 };
  bt_trace *trace = new_trace(RANKS, 2);
  const int64_t skew[3] = {0, 7000000, -3000000};
  const bt_run_of_ranks all = {0, 1, RANKS};
  for (int32_t r = 0; r < RANKS; r++) {
    bt_event group;
    bt_event_init(&group, BT_GROUP);
    group.group = 1;
    group.domain = BT_DOMAIN_DP;
    group.count = RANKS;
    group.run_count = 1;
    group.runs = &all;
    add(trace, r, &group);
    for (int i = 0; i < 50; i++) {
      int64_t last = (int64_t)i * 10000000 + 400000;
      int64_t start = (r + i) % RANKS == 0 ? last : last - 1000 * ((r * 7 + i * 3) % 100);
      add_collective(trace, r, i, start + skew[r / 2], last + 20000 + skew[r / 2]);
    }
  }
  bt_clocks *clocks = solve(trace);
  size_t count = 0;
  const bt_clock_host *hosts = bt_clocks_hosts(clocks, &count);
  assert_true(bt_clocks_summary_of(clocks)->aligned);
  for (size_t i = 0; i < count; i++) {
    assert_true(llabs(hosts[i].offset_ns - skew[i]) <= hosts[i].error_ns);
    assert_true(hosts[i].error_ns <= 30000);
  }
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

static void test_one_host(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2, 2);
  add_pair(trace, true, 0, 1, 0, 0, 1000000);
  bt_clocks *clocks = solve(trace);
  assert_true(bt_clocks_summary_of(clocks)->aligned);
  assert_int_equal(bt_clocks_summary_of(clocks)->max_error_ns, 0);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  clocks = solve(trace); /* and none at all */
  assert_true(bt_clocks_summary_of(clocks)->aligned);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

/* Damaged times at both ends of int64 are no ground for anything, and nothing overflows (UBSan would say so). */
static void test_ends_of_time(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2, 1);
  add_pair(trace, true, 0, 1, 0, INT64_MIN + 10, INT64_MIN + 100000);
  add_pair(trace, true, 0, 1, 1, INT64_MAX - 100000, INT64_MAX - 5);
  add_pair(trace, false, 1, 0, 0, -5000, INT64_MAX - 7);
  bt_clocks *clocks = solve(trace);
  const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    for (uint32_t host = 0; host < 2; host++)
      (void)bt_clocks_time(clocks, host, times[i]);
  }
  bt_clocks_apply(clocks, trace);
  bt_clocks_free(clocks);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_messages),
      cmocka_unit_test(test_one_direction_aligns_nothing),
      cmocka_unit_test(test_doubtful_matches_are_left_out),
      cmocka_unit_test(test_host_times_of_a_gpu_run_are_left_out),
      cmocka_unit_test(test_contradictions_are_violations),
      cmocka_unit_test(test_collectives),
      cmocka_unit_test(test_one_host),
      cmocka_unit_test(test_ends_of_time),
      cmocka_unit_test(test_64_hosts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
