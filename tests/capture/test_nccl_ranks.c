/* Four ranks, each a process with NCCL's plugin, in communicators of different orders: a simulated run is played on doubles
 * of the GPU, and read back. The plugin tells places, no ranks, no direction and no microbatch; the report must be that of
 * the run. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "capture/bubbletop_cuda.h"
#include "capture/bubbletop_tool.h"
#include "formats/join.h"
#include "formats/run.h"
#include "tests/capture/nccl_harness.h"
#include "tests/capture/support.h"
#include "tests/unit/simulated_trace.h"

enum { RANKS = 4, MILLISECOND = 1000000, LAUNCH_STREAMS = 16 };
/* Events are 0.5 us apart, a base is known to within a try of the double: microseconds. */
static const int64_t slack = 20000;

typedef struct communicator {
  uint64_t identity;
  int count;
  int members[RANKS]; /* by place */
} communicator;

enum { FORWARD, WORLD, FIRST_PAIR, COMMUNICATORS = FIRST_PAIR + RANKS - 1 };
static const communicator communicators[COMMUNICATORS] = {
    [FORWARD] = {0xf00d, 4, {2, 0, 3, 1}},
    [WORLD] = {0xe0, 4, {3, 1, 0, 2}},
    [FIRST_PAIR] = {0xb0, 2, {1, 0}},
    [FIRST_PAIR + 1] = {0xb1, 2, {2, 1}},
    {0xb2, 2, {2, 3}},
};

static int place_in(const communicator *in, int rank) {
  int place = in->count - 1;
  while (place >= 0 && in->members[place] != rank)
    place--;
  return place;
}

static bt_simulation_params the_run(void) {
  bt_simulation_params params = simulated_params("zb-h1", RANKS, 6);
  params.schedule.forward = params.schedule.backward = params.schedule.weight = 2 * MILLISECOND;
  params.schedule.comm = 200000;
  params.message_bytes = 8192;
  params.steps = 2;
  params.sync = true;
  params.collective = MILLISECOND;
  params.slow_links = (bt_disturbances){{{.where = 1, .to = 2, .factor = 6}}, 1};
  return params;
}

typedef struct player { /* a rank's process */
  int rank;
  int64_t begin; /* CLOCK_MONOTONIC of the simulation's first moment */
  const bt_nccl_profiler *nccl;
  const cuda_double *gpu;
  bubbletop_session *session;
  void *contexts[COMMUNICATORS];
  void *compute, *sends[2], *receives[2], *collectives; /* streams; of both directions */
  bool batched; /* a send and a receive are a launch, as batch_isend_irecv makes them; channels tell their times */
  bt_event waiting[2]; /* a send, a receive that look for a partner */
  void *launches[LAUNCH_STREAMS];
  int launch_count;
  uint64_t all_reduces;
  int64_t end;
} player;

static void play_message(player *p, const bt_event *event, const harness_work *on) {
  bool send = bt_code_is_send(event->code), forward = event->code == BT_SEND_F || event->code == BT_RECV_F;
  int low = p->rank < event->peer ? p->rank : event->peer;
  int which = forward ? FORWARD : FIRST_PAIR + low;
  int place = place_in(&communicators[which], event->peer);
  harness_work work = *on;
  work.stream = send ? p->sends[forward] : p->receives[forward];
  size_t halves = (size_t)event->bytes / 2;
  harness_group(p->nccl, p->contexts[which], &work,
                &(harness_messages){.send_to = send ? place : -1,
                                    .receive_from = send ? -1 : place,
                                    .send_count = halves,
                                    .receive_count = halves});
}

/* What waits, as one launch: all in one communicator, each launch on a stream that is free. */
static void play_batch(player *p) {
  const bt_event *send = &p->waiting[0], *receive = &p->waiting[1];
  bool sends = send->code != BT_NONE, receives = receive->code != BT_NONE;
  if (!sends && !receives) return;
  harness_messages messages = {-1, -1, (size_t)send->bytes / 2, (size_t)receive->bytes / 2, true, {0}, {0}};
  harness_work work = {.gpu = p->gpu, .stream = p->launches[p->launch_count++ % LAUNCH_STREAMS], .from = INT64_MAX};
  for (int i = 0; i < 2; i++) {
    const bt_event *event = &p->waiting[i];
    int64_t *times = i == 0 ? messages.sent : messages.received;
    if (event->code == BT_NONE) continue;
    times[0] = p->begin + event->start;
    times[1] = p->begin + bt_event_end(event);
    if (times[0] < work.from) work.from = times[0];
    if (times[1] > work.until) work.until = times[1];
  }
  if (sends) messages.send_to = place_in(&communicators[FORWARD], send->peer);
  if (receives) messages.receive_from = place_in(&communicators[FORWARD], receive->peer);
  harness_group(p->nccl, p->contexts[FORWARD], &work, &messages);
  p->waiting[0].code = p->waiting[1].code = BT_NONE;
}

static void batch(player *p, const bt_event *event) {
  bt_event *place = &p->waiting[bt_code_is_receive(event->code)];
  if (place->code != BT_NONE) play_batch(p);
  *place = *event;
}

static void play(player *p, const bt_event *event) {
  harness_work work = {.gpu = p->gpu, .from = p->begin + event->start, .until = p->begin + bt_event_end(event)};
  if (work.until > p->end) p->end = work.until;
  if (bt_code_is_compute(event->code)) {
    bubbletop_cuda_span span;
    p->gpu->hold(p->compute, work.from);
    bubbletop_cuda_begin(p->session, &span, (bubbletop_kind)event->code, bubbletop_at(event->microbatch, event->chunk),
                         p->compute);
    p->gpu->hold(p->compute, work.until);
    bubbletop_cuda_end(&span);
  } else if (bt_code_is_p2p(event->code) && p->batched) {
    batch(p, event);
  } else if (bt_code_is_p2p(event->code)) {
    play_message(p, event, &work);
  } else if (bt_code_is_collective(event->code)) {
    work.stream = p->collectives;
    harness_collective(p->nccl, p->contexts[WORLD], &work, "AllReduce", 1, p->all_reduces++);
  }
}

static void join_communicators(player *p) {
  for (int c = 0; c < COMMUNICATORS; c++) {
    int mask = 0;
    int place = place_in(&communicators[c], p->rank);
    if (place < 0) continue;
    EXPECT(p->nccl->init(&p->contexts[c], communicators[c].identity, &mask, NULL, 1, communicators[c].count, place,
                         NULL) == BT_NCCL_SUCCESS);
  }
}

static void set_layout(bubbletop_session *session, const bt_layout *from) {
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  layout.pp_rank = from->pp_rank;
  layout.pp_size = from->pp_size;
  layout.chunks = from->chunks;
  layout.microbatches = from->microbatches;
  EXPECT(bubbletop_layout_set(session, &layout) == BUBBLETOP_OK);
}

static void be_rank(const bt_simulation_params *params, player *p) {
  bt_simulation *simulation = NULL;
  EXPECT(bt_simulation_new(params, &simulation, NULL) == BT_OK);
  p->gpu = harness_gpu();
  p->nccl = dlsym(harness_plugin(), "ncclProfiler_v5");
  p->session = bubbletop_shared();
  EXPECT(p->nccl != NULL && p->session != NULL);
  join_communicators(p);
  void **streams[] = {&p->compute, &p->sends[0], &p->sends[1], &p->receives[0], &p->receives[1], &p->collectives};
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    *streams[i] = p->gpu->stream(1);
  for (int i = 0; i < LAUNCH_STREAMS; i++)
    p->launches[i] = p->gpu->stream(1);
  bt_layout layout;
  bt_simulation_layout(simulation, p->rank, &layout);
  set_layout(p->session, &layout);
  while (bt_simulation_step(simulation)) {
    size_t count;
    const bt_event *events = bt_simulation_events(simulation, p->rank, &count);
    for (size_t i = 0; i < count; i++)
      play(p, &events[i]);
  }
  play_batch(p);
  EXPECT(bubbletop_now() < p->begin + BT_SIMULATE_BEGIN); /* all was queued before it began */
  while (bubbletop_now() < p->end + 20 * MILLISECOND)
    harness_nap(5 * MILLISECOND);
  for (int c = 0; c < COMMUNICATORS; c++)
    EXPECT(p->nccl->finalize(p->contexts[c]) == BT_NCCL_SUCCESS);
  exit(0);
}

static void run_ranks(const bt_simulation_params *params, const char *directory, int64_t begin, bool batched) {
  pid_t children[RANKS];
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("WORLD_SIZE", "4", 1);
  for (int rank = 0; rank < RANKS; rank++) {
    children[rank] = fork();
    assert_true(children[rank] >= 0);
    if (children[rank] != 0) continue;
    char text[8];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    player p = {.rank = rank, .begin = begin, .batched = batched};
    be_rank(params, &p);
  }
  for (int rank = 0; rank < RANKS; rank++)
    assert_int_equal(status_of(children[rank]), 0);
}

/* What a perfect capture would have: without gates and marks, which NCCL does not have either. */
static bt_trace *truth_of(const bt_simulation_params *params, int64_t shift) {
  bt_trace *simulated = simulated_trace(params, 0);
  bt_trace *truth = new_trace(RANKS);
  group(truth, 1, BT_DOMAIN_WORLD, 0, RANKS);
  for (int32_t r = 0; r < RANKS; r++) {
    bt_rank *from = bt_trace_rank(simulated, r);
    assert_int_equal(bt_trace_settle(simulated, from, INT64_MAX), BT_OK);
    bt_trace_rank(truth, r)->layout = from->layout;
    for (bt_lane lane = 0; lane < BT_LANE_COUNT; lane++) {
      const bt_track *track = &from->tracks[lane];
      for (size_t i = 0; i < track->count; i++) {
        const bt_span_more *more = bt_span_details(track, &track->spans[i]);
        if (track->spans[i].kind == BT_GATE) continue;
        bt_event event = span_event((bt_code)track->spans[i].kind, track->spans[i].microbatch,
                                    track->spans[i].start + shift, bt_span_end(track, &track->spans[i]) + shift);
        event.flags = BT_FLAG_GPU_TIMED;
        event.chunk = track->spans[i].chunk;
        if (more != NULL) {
          event.peer = more->peer;
          event.bytes = more->bytes;
          event.sequence = bt_span_sequence(track, &track->spans[i]);
        }
        if (lane == BT_LANE_COLLECTIVE) event.group = 1;
        add_event(truth, r, &event);
      }
    }
  }
  bt_trace_free(simulated);
  return truth;
}

static void expect_near(const char *what, int64_t is, int64_t was, int64_t by) {
  if (is - was > by || was - is > by) fail_msg("%s: %lld became %lld", what, (long long)was, (long long)is);
}

static void compare(const bt_accounting *truth, const bt_accounting *read, int64_t boundaries) {
  assert_int_equal(read->stage_count, truth->stage_count);
  for (size_t s = 0; s < truth->stage_count; s++) {
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      expect_near(bt_class_key((bt_class)c), read->stages[s].ns[c], truth->stages[s].ns[c], boundaries * slack);
  }
  assert_int_equal(read->link_count, truth->link_count);
  for (size_t i = 0; i < truth->link_count; i++) {
    assert_int_equal(read->links[i].from, truth->links[i].from);
    assert_int_equal(read->links[i].to, truth->links[i].to);
    assert_int_equal(read->links[i].messages, truth->links[i].messages);
    assert_int_equal(read->links[i].bytes, truth->links[i].bytes);
    expect_near("transfer", read->links[i].transfer_ns, truth->links[i].transfer_ns, boundaries * slack);
  }
  assert_true(truth->cause_count > 0 && read->cause_count > 0);
  assert_int_equal(truth->causes[0].kind, BT_CAUSE_LINK);
  assert_int_equal(read->causes[0].kind, BT_CAUSE_LINK);
  assert_int_equal(read->causes[0].stage, 1);
  assert_int_equal(read->causes[0].to_stage, 2);
  static const char *const unwanted[] = {"unknown_messages",  "unmatched_messages",     "missing_messages",
                                         "missing_producers", "compute_host_timed",     "p2p_host_timed",
                                         "order_violations",  "collectives_host_timed", "missing_ranks"};
  for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
    assert_false(warned(read, unwanted[i]));
}

static bt_run *read_run(const char *directory) {
  bt_run_options options = {.rings = false};
  bt_run *run = NULL;
  bt_error error = {BT_OK, ""};
  bt_status status = bt_run_open(&directory, 1, &options, &run, &error);
  while (status == BT_OK)
    status = bt_run_poll(run, 0, &error);
  if (status < 0) fail_msg("%s", error.text);
  return run;
}

static void check_ranks(bool batched) {
  char *directory = scratch_make();
  bt_simulation_params params = the_run();
  int64_t shift = bubbletop_now() + 2000 * (int64_t)MILLISECOND - BT_SIMULATE_BEGIN;
  if (batched) setenv("BUBBLETOP_NCCL_CHANNELS", "1", 1);
  run_ranks(&params, directory, shift, batched);
  bt_run *run = read_run(directory);
  const bt_trace *trace = bt_run_trace(run);
  assert_int_equal(bt_join_count(trace, BT_JOINED), COMMUNICATORS);
  assert_int_equal(trace->joined_count, COMMUNICATORS);
  for (size_t i = 0; i < trace->joined_count; i++) {
    const bt_joined *joined = &trace->joined[i];
    assert_int_equal(joined->domain, joined->count == RANKS ? BT_DOMAIN_WORLD : BT_DOMAIN_PP);
    for (int c = 0; c < COMMUNICATORS; c++) {
      for (int k = 0; communicators[c].identity == joined->identity && k < joined->count; k++)
        assert_int_equal(bt_joined_member(joined, k), communicators[c].members[k]);
    }
  }
  size_t problems;
  (void)bt_run_problems(run, &problems);
  assert_int_equal(problems, 0);
  bt_trace *truth = truth_of(&params, shift);
  bt_accounting *expected = account(truth), *read = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_accounting_run(trace, NULL, &read, &error) != BT_OK) fail_msg("%s", error.text);
  compare(expected, read, 2 * (int64_t)trace->ranks[0].tracks[BT_LANE_COMPUTE].count);
  bt_accounting_free(expected);
  bt_accounting_free(read);
  bt_trace_free(truth);
  bt_run_close(run);
  scratch_remove(directory);
}

static void test_four_ranks(void **state) {
  (void)state;
  check_ranks(false);
}

static void test_batched(void **state) {
  (void)state;
  check_ranks(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_four_ranks), cmocka_unit_test(test_batched)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
