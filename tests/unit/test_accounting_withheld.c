/* What the data cannot support is withheld and said; the rest is given. */
#include <math.h>

#include "tests/unit/account_simulated.h"

static bt_simulation_params params_of(const char *schedule, int64_t steps) {
  bt_simulation_params params;
  bt_simulation_params_init(&params);
  params.family = bt_schedule_find(schedule);
  assert_non_null(params.family);
  params.schedule.stages = 3;
  params.schedule.microbatches = 4;
  params.schedule.comm = 100000;
  params.steps = steps;
  return params;
}

typedef enum spoiled {
  SOUND,
  NO_RANK, /* rank 1 has no record */
  NO_OP, /* F of microbatch 2 of stage 1 is missing in step 2 */
  CUT_HEAD, /* the first third of step 0 of rank 1 is missing, its begin mark too */
  CUT_TAIL, /* rank 1 stops in the middle of the last step */
  NO_CHUNK, /* ops of rank 1 do not say their chunk */
  NO_MESSAGES, /* neither messages nor gates */
  HOST_COMM, /* compute timed on the GPU, messages by the host */
  HOST_COMPUTE, /* messages timed on the GPU, compute by the host */
  LOST_OPS, /* all is timed on the GPU, without gates; of rank 1's ops in step 2 only host times are left */
  LOST_COMM, /* the same of its messages */
  SLOW_FIRST /* step 0 takes twice as long everywhere */
} spoiled;

static bool is_kept(spoiled how, int64_t step, int32_t rank, const bt_event *event, int64_t step_begin,
                    int64_t step_end) {
  int64_t third = step_begin + (step_end - step_begin) / 3;
  switch (how) {
  case NO_RANK: return rank != 1;
  case NO_OP: return !(rank == 1 && step == 2 && event->code == BT_F && event->microbatch == 2);
  case CUT_HEAD: return !(rank == 1 && step == 0 && event->start < third);
  case CUT_TAIL: return !(rank == 1 && step == 3 && bt_event_end(event) > third);
  case NO_MESSAGES: return !bt_code_is_p2p(event->code) && event->code != BT_GATE;
  case HOST_COMM:
  case LOST_OPS:
  case LOST_COMM: return event->code != BT_GATE;
  default: return true;
  }
}

static bt_event changed(spoiled how, int64_t step, int32_t rank, const bt_event *from) {
  bt_event event = *from;
  bool compute = bt_code_is_compute(event.code);
  if (how == NO_CHUNK && rank == 1 && compute) event.chunk = -1;
  if (how == HOST_COMM && compute) event.flags |= BT_FLAG_GPU_TIMED;
  if (how == HOST_COMPUTE && bt_code_is_comm(event.code)) event.flags |= BT_FLAG_GPU_TIMED;
  if (how == LOST_OPS || how == LOST_COMM) {
    bool lost = step == 2 && rank == 1 && (how == LOST_OPS ? compute : bt_code_is_p2p(event.code));
    event.flags = lost ? BT_FLAG_GPU_UNKNOWN : BT_FLAG_GPU_TIMED;
  }
  if (how == SLOW_FIRST && step == 0) {
    event.start = BT_SIMULATE_BEGIN - 2 * (BT_SIMULATE_BEGIN + 200000000000 - event.start);
    event.duration *= 2;
  }
  return event;
}

static bt_trace *spoil(const bt_simulation_params *params, spoiled how) {
  bt_simulation *simulation = NULL;
  assert_int_equal(bt_simulation_new(params, &simulation, NULL), BT_OK);
  int32_t ranks = bt_simulation_ranks(simulation);
  bt_trace *trace = new_trace(how == NO_RANK ? 1 : ranks);
  trace->world_size = ranks;
  for (int32_t r = 0; r < ranks; r++) {
    if (how == NO_RANK && r == 1) continue;
    bt_rank *rank = bt_trace_rank(trace, r);
    rank->host = 0;
    bt_simulation_layout(simulation, r, &rank->layout);
  }
  for (int64_t step = 0; bt_simulation_step(simulation); step++) {
    for (int32_t r = 0; r < ranks; r++) {
      size_t count;
      const bt_event *events = bt_simulation_events(simulation, r, &count);
      int64_t begin = events[0].start;
      for (size_t i = 0; i < count; i++) {
        if (!is_kept(how, step, r, &events[i], begin, bt_simulation_step_end(simulation, r))) continue;
        bt_event event = changed(how, step, r, &events[i]);
        add_event(trace, r, &event);
      }
    }
  }
  bt_simulation_free(simulation);
  return trace;
}

static bt_accounting *account_spoiled(const char *schedule, spoiled how) {
  bt_simulation_params params = params_of(schedule, 4);
  bt_trace *trace = spoil(&params, how);
  bt_accounting *a = account(trace);
  bt_trace_free(trace);
  return a;
}

static void missing_rank(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", NO_RANK);
  assert_true(warned(a, "missing_stages"));
  assert_true(warned(a, "missing_producers"));
  assert_true(isnan(a->rate_window) && isnan(a->rate_span) && isnan(a->ideal_rate_window));
  assert_int_equal(a->stage_count, 2);
  assert_class(a, 0, F, 4 * 4 * 10000000);
  assert_true(a->stages[0].ns[BT_CLASS_UNATTRIBUTED] > 0);
  assert_int_equal(a->stages[1].ns[BT_CLASS_STEADY_WAIT], 0); /* all of stage 2's waits are on stage 1 */
  bt_accounting_free(a);
}

static void missing_op(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", NO_OP);
  assert_true(warned(a, "incomplete_steps"));
  assert_int_equal(a->step_count, 4);
  assert_true(a->steps[0].rated && !a->steps[2].rated);
  assert_true(isnan(a->steps[2].rate_window) && !isnan(a->steps[0].rate_window));
  assert_false(isnan(a->rate_window)); /* of the other steps */
  assert_true(a->stages[0].window_ns < a->stages[0].interval_ns);
  bt_accounting_free(a);
}

static void cut_at_the_ends(void **state) {
  (void)state;
  for (int tail = 0; tail < 2; tail++) {
    bt_accounting *a = account_spoiled("1f1b", tail ? CUT_TAIL : CUT_HEAD);
    assert_true(warned(a, "incomplete_steps"));
    assert_int_equal(a->step_count, 3);
    assert_int_equal(a->steps[0].step, tail ? 0 : 1);
    assert_int_equal(a->steps_left_out, 1);
    assert_false(isnan(a->rate_window));
    bt_accounting_free(a);
  }
}

/* The steps around a loss of records that is known are not rated; one whose time is not known spoils all. */
static void lost_records(void **state) {
  (void)state;
  for (int dated = 0; dated < 2; dated++) {
    bt_simulation_params params = params_of("1f1b", 4);
    params.sync = true;
    bt_trace *trace = spoil(&params, SOUND);
    bt_rank *rank = bt_trace_rank(trace, 1);
    assert_int_equal(bt_trace_settle(trace, rank, INT64_MAX), BT_OK);
    bt_loss loss = {.from = INT64_MIN, .to = INT64_MAX, .records = 1};
    if (dated) loss.from = loss.to = (rank->steps[1].begin + rank->steps[1].end) / 2;
    assert_int_equal(bt_trace_loss(trace, rank, &loss), BT_OK);
    bt_accounting *a = account(trace);
    assert_true(warned(a, "lost_events"));
    assert_int_equal(a->steps_rated, dated ? 3 : 0);
    assert_int_equal(isnan(a->rate_window), dated ? 0 : 1);
    bt_accounting_free(a);
    bt_trace_free(trace);
  }
}

static void unknown_chunk(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("zb-v", NO_CHUNK);
  assert_true(warned(a, "unknown_chunk"));
  assert_true(a->stages[1].ns[BT_CLASS_UNATTRIBUTED] > 0);
  assert_false(isnan(a->stages[1].bubble_rate));
  bt_accounting_free(a);
}

static void no_messages(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", NO_MESSAGES);
  assert_true(warned(a, "missing_messages"));
  assert_int_equal(a->stages[1].ns[BT_CLASS_EXPOSED_P2P], 0);
  assert_true(a->stages[1].ns[BT_CLASS_UNATTRIBUTED] > 0); /* messages or the host: nobody knows */
  assert_true(a->stages[1].ns[BT_CLASS_FILL] > 0); /* producers are known */
  assert_int_equal(a->link_count, 0);
  bt_accounting_free(a);
}

static void host_timed(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", HOST_COMM);
  assert_true(warned(a, "p2p_host_timed"));
  assert_int_equal(a->stages[1].ns[BT_CLASS_EXPOSED_P2P], 0);
  assert_true(a->stages[1].ns[BT_CLASS_UNATTRIBUTED] > 0);
  assert_int_equal(a->stages[1].p2p_wait_ns, BT_UNKNOWN);
  assert_false(isnan(a->rate_window));
  assert_int_equal(a->links[0].messages, 16);
  assert_int_equal(a->links[0].transfer_ns, BT_UNKNOWN);
  bt_accounting_free(a);
  a = account_spoiled("1f1b", HOST_COMPUTE);
  assert_true(warned(a, "compute_host_timed"));
  assert_true(isnan(a->rate_window) && isnan(a->rate_span));
  assert_int_equal(a->steps_rated, 0);
  bt_accounting_free(a);
}

/* Of a step that lost GPU times the rates are withheld, or what waited for its messages is unattributed; not of others. */
static void lost_gpu_times(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", LOST_OPS);
  assert_true(warned(a, "compute_host_timed"));
  assert_int_equal(a->steps_rated, 3);
  assert_true(isnan(a->steps[2].rate_window) && !isnan(a->steps[1].rate_window) && !isnan(a->steps[3].rate_window));
  assert_false(isnan(a->rate_window));
  bt_accounting_free(a);
  bt_simulation_params params = params_of("1f1b", 4);
  bt_trace *trace = spoil(&params, LOST_COMM);
  a = account(trace);
  assert_true(warned(a, "gpu_unknown"));
  assert_false(warned(a, "p2p_host_timed"));
  assert_int_equal(a->steps_rated, 4);
  assert_true(a->stages[1].ns[BT_CLASS_UNATTRIBUTED] > 0);
  assert_int_equal(a->stages[1].p2p_ns, BT_UNKNOWN);
  assert_class(a, 2, UNATTRIBUTED, 0);
  bt_accounting_free(a);
  a = account_with(trace, &(bt_accounting_options){.bounded = true, .first_step = 0, .last_step = 0});
  assert_class(a, 1, UNATTRIBUTED, 0);
  assert_true(a->stages[1].p2p_ns > 0);
  assert_true(a->stages[1].ns[BT_CLASS_EXPOSED_P2P] > 0);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void warm_up(void **state) {
  (void)state;
  bt_accounting *a = account_spoiled("1f1b", SLOW_FIRST);
  assert_true(warned(a, "warmup_steps"));
  assert_int_equal(a->step_count, 3);
  assert_int_equal(a->steps[0].step, 1);
  bt_accounting_free(a);
  bt_simulation_params params = params_of("1f1b", 4);
  bt_trace *trace = spoil(&params, SLOW_FIRST);
  a = account_with(trace, &(bt_accounting_options){.bounded = true, .first_step = 0, .last_step = 1});
  assert_int_equal(a->step_count, 2); /* asked for by name, it counts */
  assert_false(warned(a, "warmup_steps"));
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void chosen_steps(void **state) {
  (void)state;
  bt_simulation_params params = params_of("1f1b", 4);
  bt_trace *trace = spoil(&params, SOUND);
  bt_accounting *a = account_with(trace, &(bt_accounting_options){.bounded = true, .first_step = 1, .last_step = 2});
  assert_int_equal(a->step_count, 2);
  assert_int_equal(a->steps[0].step, 1);
  assert_true(a->start > trace->ranks[0].steps[0].end - 1);
  bt_accounting_free(a);
  bt_accounting *none = NULL;
  bt_error error = {BT_OK, ""};
  bt_accounting_options far = {.bounded = true, .first_step = 10, .last_step = 20};
  assert_int_equal(bt_accounting_run(trace, &far, &none, &error), BT_ERR_EMPTY);
  assert_null(none);
  assert_non_null(strstr(error.text, "chosen steps"));
  bt_trace_free(trace);
}

/* A rank that started again counts its steps anew: they are other steps. */
static void restart(void **state) {
  (void)state;
  bt_trace *trace = new_trace(1);
  for (int i = 0; i < 4; i++) {
    int64_t t = 100 * i;
    op(trace, 0, BT_F, 0, t, t + 10);
    op(trace, 0, BT_BW, 0, t + 10, t + 30);
    step(trace, 0, i % 2, t, t + 40);
  }
  bt_accounting *a = account(trace);
  assert_int_equal(a->step_count, 4);
  assert_int_equal(a->stages[0].window_ns, 4 * 30);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* Two replicas of which one cuts the model differently: each is looked at by its own layout. */
static void different_layouts(void **state) {
  (void)state;
  bt_trace *trace = new_trace(3);
  for (int32_t r = 0; r < 3; r++) {
    bt_layout *layout = &trace->ranks[r].layout;
    layout->dp_rank = r == 2;
    layout->pp_rank = r == 2 ? 0 : r;
    layout->pp_size = r == 2 ? 1 : 2;
  }
  op(trace, 0, BT_F, 0, 0, 10);
  op(trace, 1, BT_F, 0, 10, 20);
  op(trace, 1, BT_BW, 0, 20, 40);
  op(trace, 0, BT_BW, 0, 40, 60);
  op(trace, 2, BT_F, 0, 0, 20);
  op(trace, 2, BT_BW, 0, 20, 60);
  bt_accounting *a = account(trace);
  assert_int_equal(a->replicas, 2);
  assert_int_equal(a->stages[0].ranks, 2);
  assert_true(warned(a, "missing_stages"));
  assert_true(isnan(a->rate_window));
  assert_class(a, 0, F, 30);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void unaligned_clocks(void **state) {
  (void)state;
  bt_simulation_params params = params_of("1f1b", 2);
  bt_trace *trace = spoil(&params, SOUND);
  trace->ranks[1].host = bt_trace_host(trace, "other", "other", 1);
  bt_accounting *a = account(trace);
  assert_true(warned(a, "clocks_unaligned"));
  assert_true(isnan(a->rate_window));
  assert_false(isnan(a->rate_span)); /* needs every rank's own times only */
  assert_class(a, 1, F, 2 * 4 * 10000000);
  for (int c = BT_CLASS_FILL; c < BT_CLASS_UNATTRIBUTED; c++)
    assert_int_equal(a->stages[1].ns[c], 0);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

static void nothing(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  bt_accounting *a = NULL;
  bt_error error = {BT_OK, ""};
  assert_int_equal(bt_accounting_run(trace, NULL, &a, &error), BT_ERR_EMPTY);
  assert_null(a);
  op(trace, 0, BT_OPTIMIZER, -1, 0, 10);
  assert_int_equal(bt_trace_settle(trace, &trace->ranks[0], INT64_MAX), BT_OK);
  assert_int_equal(bt_accounting_run(trace, NULL, &a, &error), BT_ERR_EMPTY);
  bt_trace_free(trace);
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int64_t any_number(uint64_t *state) {
  static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, -1, 0, 1, 1 << 20, INT64_MAX / 2, INT64_MIN / 2};
  uint64_t r = next_random(state);
  if (r % 8 == 0) return odd[(r >> 8) % (sizeof odd / sizeof *odd)];
  if (r % 8 == 1) return (int64_t)next_random(state);
  return (int64_t)((r >> 8) % 1000);
}

static bt_event any_event(uint64_t *state) {
  bt_event event;
  uint64_t r = next_random(state);
  bt_event_init(&event, (bt_code)(r % 8 < 6 ? 1 + (r >> 8) % 40 : 64 + (r >> 8) % 22));
  event.start = any_number(state);
  event.duration = any_number(state) & INT64_MAX;
  event.microbatch = (int32_t)(any_number(state) % 5);
  event.chunk = (int16_t)(any_number(state) % 70);
  event.microbatch_b = (int32_t)any_number(state);
  event.chunk_b = (int16_t)any_number(state);
  event.peer = (int32_t)(any_number(state) % 6);
  event.group = (uint32_t)(next_random(state) % 3);
  event.bytes = any_number(state);
  event.sequence = any_number(state) % 10;
  event.flags = (uint8_t)(next_random(state) % 3 == 0);
  event.on_code = (uint8_t)(16 + next_random(state) % 16);
  event.step = any_number(state) % 4;
  event.count = (int32_t)(any_number(state) % 4);
  return event;
}

/* Whatever the records say: no crash, no overflow, and the classes add up (account checks it). */
static void anything(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    uint64_t random = seed * 0x9E3779B97F4A7C15u;
    bt_trace *trace = new_trace(1 + (int32_t)(seed % 4));
    bt_run_of_ranks members = {0, (int32_t)any_number(&random), INT32_MAX};
    for (int i = 0; i < 200; i++) {
      bt_event event = any_event(&random);
      if (event.code == BT_GROUP) {
        event.runs = &members;
        event.run_count = 1;
      }
      int32_t rank = (int32_t)(next_random(&random) % trace->rank_count);
      (void)bt_trace_add(trace, bt_trace_rank(trace, rank), 0, 1, &event);
    }
    bt_rank *first = bt_trace_rank(trace, 0);
    first->layout.pp_size = (int32_t)any_number(&random);
    first->layout.vstage[1] = (int32_t)any_number(&random);
    first->layout.virtual_stages = (int32_t)any_number(&random);
    op(trace, 0, BT_F, 0, 0, 10); /* something to account for */
    if (seed % 3 == 0) trace->ranks[trace->rank_count - 1].host = bt_trace_host(trace, "b", "b", 2);
    bt_loss loss = {.from = any_number(&random), .to = any_number(&random)};
    assert_int_equal(bt_trace_loss(trace, first, &loss), BT_OK);
    for (size_t i = 0; i < trace->rank_count; i++)
      assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
    bt_accounting *a = NULL;
    bt_status status = bt_accounting_run(trace, NULL, &a, NULL);
    assert_true(status == BT_OK || status == BT_ERR_EMPTY);
    for (size_t k = 0; status == BT_OK && k < a->stage_count; k++) {
      int64_t sum = 0;
      for (int c = 0; c < BT_CLASS_COUNT; c++)
        sum += a->stages[k].ns[c];
      assert_int_equal(sum, a->stages[k].interval_ns);
    }
    bt_accounting_free(a);
    bt_trace_free(trace);
  }
}

/* One span at an impossible time does not stretch the run. */
static void impossible_time(void **state) {
  (void)state;
  bt_trace *trace = new_trace(1);
  for (int i = 0; i < 3; i++)
    op(trace, 0, i == 0 ? BT_F : BT_BW, i / 2, 100 * i, 100 * i + 50);
  op(trace, 0, BT_OTHER, -1, INT64_MAX / 2, INT64_MAX / 2 + 10);
  bt_accounting *a = account(trace);
  assert_true(warned(a, "impossible_times"));
  assert_int_equal(a->interval_ns, 250);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(missing_rank),     cmocka_unit_test(missing_op),    cmocka_unit_test(cut_at_the_ends),
      cmocka_unit_test(lost_records),     cmocka_unit_test(unknown_chunk), cmocka_unit_test(no_messages),
      cmocka_unit_test(lost_gpu_times),   cmocka_unit_test(host_timed),    cmocka_unit_test(warm_up),
      cmocka_unit_test(chosen_steps),     cmocka_unit_test(restart),       cmocka_unit_test(different_layouts),
      cmocka_unit_test(unaligned_clocks), cmocka_unit_test(nothing),       cmocka_unit_test(anything),
      cmocka_unit_test(impossible_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
