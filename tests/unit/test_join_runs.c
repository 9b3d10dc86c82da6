/* Communicators joined over ranks, and messages told apart by it: simulated runs whose records are made as NCCL tells them
 * (places in shuffled communicators, no direction, no microbatch) come out as they were. */
#include "formats/join.h"
#include "tests/unit/simulated_trace.h"
#include "tests/wire/sample.h"
#include "tui/analysis/accounting_model.h"

enum { MOST_RANKS = 64, MOST_COMMUNICATORS = 2 * MOST_RANKS * MOST_RANKS, RUNS = 150 };

typedef struct comm {
  int32_t members[MOST_RANKS], count;
  uint64_t identity;
  bt_domain domain;
} comm;

typedef struct half {
  int32_t rank, peer, comm;
  bt_event event;
  int64_t number;
} half;

/* How messages are spread over communicators. */
typedef enum spread { WORLD, PIPELINE, PAIRS, DIRECTED_PAIRS, SPREADS } spread;

typedef struct anonymous {
  sample_random *random;
  const bt_trace *truth;
  comm comms[MOST_COMMUNICATORS];
  int32_t comm_count;
  half *halves;
  size_t half_count, half_capacity;
  spread how;
} anonymous;

static void shuffle(sample_random *random, int32_t *items, int32_t count) {
  for (int32_t i = count - 1; i > 0; i--) {
    int32_t other = (int32_t)sample_below(random, (uint32_t)i + 1);
    int32_t kept = items[i];
    items[i] = items[other];
    items[other] = kept;
  }
}

static bool same_members(const comm *a, const int32_t *members, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    bool found = false;
    for (int32_t k = 0; k < a->count; k++)
      found |= a->members[k] == members[i];
    if (!found) return false;
  }
  return a->count == count;
}

/* The communicator of these ranks, with its members in an order of its own. `tag` tells some of equal members apart. */
static int32_t comm_of(anonymous *all, const int32_t *members, int32_t count, bt_domain domain, uint64_t tag) {
  for (int32_t i = 0; i < all->comm_count; i++) {
    const comm *known = &all->comms[i];
    if (known->identity >> 56 == tag && known->domain == domain && same_members(known, members, count)) return i;
  }
  assert_true(all->comm_count < MOST_COMMUNICATORS);
  comm *made = &all->comms[all->comm_count];
  *made = (comm){.count = count, .domain = domain, .identity = (sample_next(all->random) >> 8 | 1) | tag << 56};
  memcpy(made->members, members, (size_t)count * sizeof *members);
  shuffle(all->random, made->members, count);
  return all->comm_count++;
}

static int32_t comm_of_message(anonymous *all, int32_t rank, int32_t peer, bool send) {
  int32_t members[MOST_RANKS], count = 0;
  const bt_layout *own = &bt_trace_find(all->truth, rank)->layout;
  switch (all->how) {
  case WORLD:
  case PIPELINE:
    for (size_t i = 0; i < all->truth->rank_count; i++) {
      const bt_layout *layout = &all->truth->ranks[i].layout;
      if (all->how == WORLD || (layout->dp_rank == own->dp_rank && layout->tp_rank == own->tp_rank))
        members[count++] = all->truth->ranks[i].rank;
    }
    break;
  default: members[count++] = rank; members[count++] = peer;
  }
  uint64_t tag = all->how == DIRECTED_PAIRS ? 2 + ((rank < peer) == send) : 1;
  bool is_world = count == (int32_t)all->truth->rank_count;
  return comm_of(all, members, count, is_world ? BT_DOMAIN_WORLD : BT_DOMAIN_PP, tag);
}

static int32_t place_in(const comm *in, int32_t rank) {
  int32_t place = 0;
  while (in->members[place] != rank)
    place++;
  return place;
}

static half *add_half(anonymous *all, int32_t rank) {
  assert_true(bt_array_reserve(&all->halves, &all->half_capacity, all->half_count + 1, sizeof(half)));
  all->halves[all->half_count] = (half){.rank = rank, .peer = -1, .comm = -1};
  return &all->halves[all->half_count++];
}

static void add_group_members(const bt_group_info *group, int32_t *members, int32_t *count) {
  *count = 0;
  for (uint32_t r = 0; r < group->run_count; r++) {
    for (int32_t k = 0; k < group->runs[r].count; k++)
      members[(*count)++] = group->runs[r].first + k * group->runs[r].stride;
  }
}

/* Messages and collectives of the truth, each with its communicator. */
static void collect(anonymous *all) {
  for (size_t r = 0; r < all->truth->rank_count; r++) {
    const bt_rank *rank = &all->truth->ranks[r];
    for (bt_lane lane = BT_LANE_P2P; lane <= BT_LANE_COLLECTIVE; lane++) {
      const bt_track *track = &rank->tracks[lane];
      for (size_t i = 0; i < track->count; i++) {
        const bt_span *span = &track->spans[i];
        const bt_span_more *more = bt_span_details(track, span);
        half *made = add_half(all, rank->rank);
        bt_event_init(&made->event, (bt_code)span->kind);
        made->event.start = span->start;
        made->event.duration = bt_span_duration(track, span);
        made->event.bytes = more->bytes;
        made->event.flags = span->flags;
        made->event.sequence = made->number = bt_span_sequence(track, span);
        made->peer = more->peer;
        if (lane == BT_LANE_P2P) {
          made->comm = comm_of_message(all, rank->rank, more->peer, bt_code_is_send(span->kind));
        } else {
          int32_t members[MOST_RANKS], count;
          const bt_group_info *group = &rank->groups[more->group - 1];
          add_group_members(group, members, &count);
          made->comm =
              comm_of(all, members, count,
                      count == (int32_t)all->truth->rank_count ? BT_DOMAIN_WORLD : (bt_domain)group->domain, 9);
        }
      }
    }
  }
}

static bool is_forward(unsigned kind) {
  return kind == BT_SEND_F || kind == BT_RECV_F;
}

/* NCCL's numbers: of all messages from one rank to another in a communicator, in the order of the sends. */
static void number_messages(anonymous *all) {
  for (size_t i = 0; i < all->half_count; i++) {
    half *send = &all->halves[i];
    if (!bt_code_is_send(send->event.code)) continue;
    send->number = 0;
    for (size_t k = 0; k < all->half_count; k++) {
      const half *other = &all->halves[k];
      bool like = k != i && other->event.code != BT_NONE && bt_code_is_send(other->event.code) &&
                  other->comm == send->comm && other->rank == send->rank && other->peer == send->peer;
      send->number +=
          like && (other->event.start < send->event.start || (other->event.start == send->event.start && k < i));
    }
  }
  for (size_t i = 0; i < all->half_count; i++) {
    half *receive = &all->halves[i];
    if (!bt_code_is_receive(receive->event.code)) continue;
    receive->number = -1;
    for (size_t k = 0; k < all->half_count && receive->number < 0; k++) {
      const half *send = &all->halves[k];
      if (bt_code_is_send(send->event.code) && send->rank == receive->peer && send->peer == receive->rank &&
          is_forward(send->event.code) == is_forward(receive->event.code) &&
          send->event.sequence == receive->event.sequence && send->comm == receive->comm)
        receive->number = send->number;
    }
    assert_true(receive->number >= 0);
  }
}

/* What a rank's stream has of it. */
static void add_anonymous_rank(const anonymous *all, bt_trace *trace, int32_t rank) {
  for (int32_t c = 0; c < all->comm_count; c++) {
    const comm *in = &all->comms[c];
    if (!same_members(in, &rank, 1) && in->count == 1) continue;
    bool member = false;
    for (int32_t k = 0; k < in->count; k++)
      member |= in->members[k] == rank;
    if (!member) continue;
    bt_event event;
    bt_event_init(&event, BT_GROUP);
    event.group = (uint32_t)c + 1;
    event.number = in->identity;
    event.own_rank = place_in(in, rank);
    event.count = in->count;
    add_event(trace, rank, &event);
  }
  for (size_t i = 0; i < all->half_count; i++) {
    const half *made = &all->halves[i];
    if (made->rank != rank) continue;
    bt_event event = made->event;
    event.group = (uint32_t)made->comm + 1;
    event.sequence = made->number;
    event.peer = made->peer >= 0 ? place_in(&all->comms[made->comm], made->peer) : -1;
    if (bt_code_is_send(event.code)) event.code = BT_SEND;
    if (bt_code_is_receive(event.code)) event.code = BT_RECV;
    add_event(trace, rank, &event);
  }
}

/* Compute and marks as they are; gates are dropped, for NCCL has none. All times are the GPU's. */
static void copy_compute(const bt_rank *from, bt_trace *to, bool all) {
  for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
    const bt_track *track = &from->tracks[lane];
    for (size_t i = 0; i < track->count; i++) {
      const bt_span *span = &track->spans[i];
      const bt_span_more *more = bt_span_details(track, span);
      if (span->kind == BT_GATE || (!all && lane != BT_LANE_COMPUTE && lane != BT_LANE_HOST)) continue;
      bt_event event = span_event((bt_code)span->kind, span->microbatch, span->start, bt_span_end(track, span));
      event.flags = BT_FLAG_GPU_TIMED;
      event.chunk = span->chunk;
      if (more != NULL) {
        event.microbatch_b = more->microbatch_b;
        event.chunk_b = more->chunk_b;
        event.bytes = more->bytes;
        event.sequence = bt_span_sequence(track, span);
        event.peer = more->peer;
        event.group = more->group > 0 ? from->groups[more->group - 1].id : 0;
      }
      add_event(to, from->rank, &event);
    }
  }
  for (size_t i = 0; i < from->step_count; i++)
    step(to, from->rank, from->steps[i].id, from->steps[i].begin, from->steps[i].end);
}

static void copy_groups(const bt_rank *from, bt_trace *to) {
  for (size_t i = 0; i < from->group_count; i++) {
    const bt_group_info *group = &from->groups[i];
    bt_event event;
    bt_event_init(&event, BT_GROUP);
    event.group = group->id;
    event.domain = group->domain;
    event.own_rank = group->own_rank;
    event.count = group->count;
    event.run_count = group->run_count;
    event.runs = group->runs;
    add_event(to, from->rank, &event);
  }
}

static bt_trace *bare_trace(const bt_trace *like) {
  bt_trace *trace = new_trace((int32_t)like->rank_count);
  for (size_t i = 0; i < like->rank_count; i++)
    trace->ranks[i].layout = like->ranks[i].layout;
  return trace;
}

static void settle(bt_trace *trace) {
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
}

/* ---- random runs ---- */

typedef struct choice {
  const char *schedule;
  int32_t chunks; /* 0: as the schedule has it */
  bool mixed; /* a rank may get both activations and gradients from another */
  bool told; /* the order tells all messages */
} choice;

static const choice choices[] = {
    {"1f1b", 0, false, true},       {"gpipe", 0, false, true},
    {"zb-h1", 0, false, true},      {"zb-h2", 0, false, true},
    {"interleaved", 2, true, true}, {"looped-bfs", 2, true, true},
    {"zb-v", 0, true, false},       {"v-half", 0, true, false},
    {"dualpipev", 0, true, false},  {"dualpipe", 0, true, false} /* every block on two stages: none is known */,
    {"chimera", 0, true, false}};

static bt_simulation_params random_params(sample_random *random, const choice *what) {
  int32_t stages = 2 * (1 + (int32_t)sample_below(random, 3));
  bt_simulation_params params = simulated_params(what->schedule, stages, 2 * stages);
  if (what->chunks > 0) params.schedule.chunks = what->chunks;
  params.dp = 1 + (int32_t)sample_below(random, 2);
  params.tp = 1 + (int32_t)sample_below(random, 2);
  params.zero = params.dp > 1 ? (int32_t)sample_below(random, 2) : 0;
  params.steps = 2;
  params.collective = 300000;
  params.optimizer = 200000;
  params.message_bytes = 1 << 20;
  params.chunk_bytes = 1 << 22;
  params.sync = sample_below(random, 2) == 0;
  params.comm_jitter = 0.1;
  params.jitter = 0.05;
  params.seed = sample_next(random);
  return params;
}

static const bt_span *span_at(const bt_trace *trace, size_t rank, bt_lane lane, size_t i, int32_t *peer,
                              uint8_t *domain) {
  const bt_rank *at = &trace->ranks[rank];
  const bt_span *span = &at->tracks[lane].spans[i];
  const bt_span_more *more = bt_span_details(&at->tracks[lane], span);
  *peer = bt_trace_peer(at, more->group, more->peer);
  *domain = at->groups[more->group - 1].domain;
  return span;
}

static void compare_spans(const bt_trace *truth, const bt_trace *joined, bool mixed) {
  int32_t world = (int32_t)truth->rank_count;
  for (size_t r = 0; r < truth->rank_count; r++) {
    for (bt_lane lane = BT_LANE_P2P; lane <= BT_LANE_COLLECTIVE; lane++) {
      assert_int_equal(joined->ranks[r].tracks[lane].count, truth->ranks[r].tracks[lane].count);
      for (size_t i = 0; i < truth->ranks[r].tracks[lane].count; i++) {
        int32_t was = -1, is = -1;
        uint8_t domain_was = 0, domain_is = 0;
        const bt_span *a = span_at(truth, r, lane, i, &was, &domain_was);
        const bt_span *b = span_at(joined, r, lane, i, &is, &domain_is);
        assert_int_equal(is, was);
        bool plain = b->kind == BT_SEND || b->kind == BT_RECV;
        assert_false(plain && !mixed);
        if (!plain) assert_int_equal(b->kind, a->kind);
        if (lane == BT_LANE_COLLECTIVE && joined->ranks[r].groups[0].joined->count != world)
          assert_true(domain_is == domain_was || domain_is == BT_DOMAIN_WORLD);
      }
    }
  }
}

typedef struct found {
  size_t messages, known;
} found;

/* What the accounting makes of each message is right, or it is said not to be known. */
static found compare_messages(const bt_trace *truth, const bt_trace *joined) {
  bt_model a, b;
  found sum = {0, 0};
  assert_int_equal(bt_model_build(&a, truth, NULL, NULL), BT_OK);
  assert_int_equal(bt_model_build(&b, joined, NULL, NULL), BT_OK);
  assert_int_equal(a.p2p_count, b.p2p_count);
  for (size_t i = 0; i < a.p2p_count; i++) {
    const bt_model_p2p *was = &a.p2p[i], *is = &b.p2p[i];
    sum.messages++;
    assert_int_equal(is->peer, was->peer);
    if (is->microbatch < 0) continue;
    sum.known++;
    if (is->microbatch != was->microbatch || is->kind != was->kind || is->vstage != was->vstage)
      fail_msg("%s mb %d of virtual stage %d became %s mb %d of %d", bt_code_name(was->kind), was->microbatch,
               was->vstage, bt_code_name(is->kind), is->microbatch, is->vstage);
    if (is->match != BT_NO_INDEX) assert_int_equal(is->match, was->match);
  }
  assert_int_equal(sum.known < sum.messages, warned(b.out, "unknown_messages"));
  bt_accounting_free(a.out);
  bt_accounting_free(b.out);
  bt_model_free(&a);
  bt_model_free(&b);
  return sum;
}

static void compare_accounts(bt_trace *truth, bt_trace *joined) {
  bt_accounting *a = account(truth), *b = account(joined);
  assert_int_equal(a->stage_count, b->stage_count);
  for (size_t s = 0; s < a->stage_count; s++) {
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      assert_int_equal(b->stages[s].ns[c], a->stages[s].ns[c]);
    assert_int_equal(b->stages[s].p2p_transfer_ns, a->stages[s].p2p_transfer_ns);
  }
  assert_int_equal(a->link_count, b->link_count);
  for (size_t i = 0; i < a->link_count; i++)
    assert_memory_equal(&b->links[i], &a->links[i], sizeof *a->links);
  assert_int_equal(a->cause_count, b->cause_count);
  assert_true(b->rate_window == a->rate_window);
  bt_accounting_free(a);
  bt_accounting_free(b);
}

static found check_run(sample_random *random, const choice *what) {
  anonymous *all = calloc(1, sizeof *all);
  assert_non_null(all);
  bt_simulation_params params = random_params(random, what);
  bt_trace *simulated = settled_trace(&params);
  bt_trace *truth = bare_trace(simulated), *joined = bare_trace(simulated);
  for (size_t i = 0; i < simulated->rank_count; i++) {
    copy_groups(&simulated->ranks[i], truth);
    copy_compute(&simulated->ranks[i], truth, true);
  }
  settle(truth);
  all->random = random;
  all->truth = truth;
  all->how = (spread)sample_below(random, SPREADS);
  collect(all);
  number_messages(all);
  /* the ranks come in any order, and what is there is joined in between */
  int32_t order[MOST_RANKS], count = (int32_t)truth->rank_count;
  for (int32_t i = 0; i < count; i++)
    order[i] = i;
  shuffle(random, order, count);
  for (int32_t i = 0; i < count; i++) {
    add_anonymous_rank(all, joined, order[i]);
    copy_compute(&simulated->ranks[order[i]], joined, false);
    settle(joined);
    if (sample_below(random, 4) == 0) assert_int_equal(bt_join(joined), BT_OK);
  }
  assert_int_equal(bt_join(joined), BT_OK);
  assert_int_equal(bt_join_count(joined, BT_JOINED), (size_t)all->comm_count);
  compare_spans(truth, joined, what->mixed || params.schedule.stages == 2);
  found sum = compare_messages(truth, joined);
  if (what->told) compare_accounts(truth, joined);
  bt_trace_free(simulated);
  bt_trace_free(truth);
  bt_trace_free(joined);
  free(all->halves);
  free(all);
  return sum;
}

static void test_random_runs(void **state) {
  sample_random random = {20261130};
  found sums[sizeof choices / sizeof *choices] = {{0, 0}};
  (void)state;
  for (int run = 0; run < RUNS; run++) {
    size_t which = (size_t)run % (sizeof choices / sizeof *choices);
    found one = check_run(&random, &choices[which]);
    sums[which].messages += one.messages;
    sums[which].known += one.known;
  }
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    print_message("%s: %zu of %zu messages known\n", choices[i].schedule, sums[i].known, sums[i].messages);
    if (choices[i].told) assert_int_equal(sums[i].known, sums[i].messages);
    assert_true(sums[i].messages > 1000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
