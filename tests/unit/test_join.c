/* Communicators joined over ranks: what is known when, contradictions, lives, lost messages. */
#include "formats/join.h"
#include "tests/unit/account_trace.h"
#include "tui/analysis/accounting_model.h"

static void settle(bt_trace *trace) {
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
}

static void claim_in_life(bt_trace *trace, uint32_t life, int32_t rank, uint64_t identity, int32_t place,
                          int32_t count) {
  bt_event event;
  bt_event_init(&event, BT_GROUP);
  event.group = 1;
  event.number = identity;
  event.own_rank = place;
  event.count = count;
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, rank), life, 1, &event), BT_OK);
}

static void claims(bt_trace *trace, int32_t rank, uint64_t identity, int32_t place, int32_t count) {
  claim_in_life(trace, 0, rank, identity, place, count);
}

static void sends(bt_trace *trace, int32_t rank, int32_t peer, bt_code kind, int64_t start) {
  bt_event event = span_event(kind, -1, start, start + 10);
  event.group = 1;
  event.peer = peer;
  add_event(trace, rank, &event);
}

static const bt_joined *joined_one(bt_trace *trace) {
  settle(trace);
  assert_int_equal(bt_join(trace), BT_OK);
  assert_int_equal(trace->joined_count, 1);
  return &trace->joined[0];
}

static void test_completion(void **state) {
  bt_trace *trace = new_trace(4);
  (void)state;
  claims(trace, 3, 77, 0, 3);
  claims(trace, 1, 77, 2, 3);
  sends(trace, 3, 2, BT_SEND, 100);
  sends(trace, 3, 1, BT_SEND, 200);
  const bt_joined *joined = joined_one(trace);
  assert_int_equal(joined->state, BT_JOINED_IN_PART);
  assert_int_equal(joined->known, 2);
  assert_int_equal(joined->domain, BT_DOMAIN_UNKNOWN);
  assert_int_equal(bt_trace_peer(&trace->ranks[3], 1, 2), 1);
  assert_int_equal(bt_trace_peer(&trace->ranks[3], 1, 1), -1);
  assert_int_equal(bt_trace_peer(&trace->ranks[3], 1, 3), -1);
  assert_int_equal(bt_trace_peer(&trace->ranks[3], 1, -1), -1);
  assert_int_equal(trace->ranks[3].tracks[BT_LANE_P2P].spans[1].kind, BT_SEND);
  claims(trace, 2, 77, 1, 3); /* a rank comes late */
  joined = joined_one(trace);
  assert_int_equal(joined->state, BT_JOINED);
  assert_int_equal(joined->domain, BT_DOMAIN_PP);
  assert_int_equal(bt_trace_peer(&trace->ranks[3], 1, 1), 2);
  assert_int_equal(trace->ranks[3].tracks[BT_LANE_P2P].spans[0].kind,
                   BT_SEND); /* two stages away: no pipeline message */
  assert_int_equal(trace->ranks[3].tracks[BT_LANE_P2P].spans[1].kind, BT_SEND_B);
  uint64_t generation = trace->generation, reordered = trace->reordered;
  assert_int_equal(bt_join(trace), BT_OK); /* nothing new */
  assert_int_equal(trace->generation, generation);
  assert_int_equal(trace->reordered, reordered);
  bt_event layout; /* told later: stages are numbered from the other end */
  static const uint8_t map[] = "\x82\xa7pp_rank\x00\xa7pp_size\x04";
  bt_event_init(&layout, BT_META);
  layout.text = (const char *)map;
  layout.text_length = sizeof map - 1;
  add_event(trace, 3, &layout);
  trace->ranks[2].layout.pp_rank = 1;
  (void)joined_one(trace);
  assert_int_equal(trace->ranks[3].tracks[BT_LANE_P2P].spans[1].kind, BT_SEND_F);
  assert_int_equal(trace->reordered, reordered + 1);
  bt_trace_free(trace);
}

static void test_contradictions(void **state) {
  static const struct {
    int32_t rank, life, place, count;
  } wrong[] = {{1, 0, 0, 2} /* a place twice */,
               {1, 0, 1, 3} /* another size */,
               {0, 1, 1, 2} /* a rank at two places */,
               {1, 0, 2, 2} /* beyond */,
               {1, 0, 1 << 30, 2} /* far beyond */};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    bt_trace *trace = new_trace(2);
    claims(trace, 0, 5, 0, 2);
    claim_in_life(trace, (uint32_t)wrong[i].life, wrong[i].rank, 5, wrong[i].place, wrong[i].count);
    sends(trace, 0, 1, BT_RECV, 100);
    const bt_joined *joined = joined_one(trace);
    assert_int_equal(joined->state, BT_JOINED_NOT);
    assert_int_equal(joined->known, 0);
    assert_int_equal(bt_trace_peer(&trace->ranks[0], 1, 1), -1);
    assert_int_equal(bt_trace_peer(&trace->ranks[0], 1, 0), -1);
    assert_int_equal(trace->ranks[0].tracks[BT_LANE_P2P].spans[0].kind, BT_RECV);
    assert_int_equal(bt_join_count(trace, BT_JOINED_NOT), 1);
    bt_trace_free(trace);
  }
}

static void test_lives(void **state) {
  bt_trace *trace = new_trace(2);
  (void)state;
  claims(trace, 0, 5, 1, 2); /* two lives of each rank say the same */
  claim_in_life(trace, 1, 0, 5, 1, 2);
  claims(trace, 1, 5, 0, 2);
  claim_in_life(trace, 1, 1, 5, -1, 0); /* and one does not know its place */
  assert_int_equal(joined_one(trace)->state, BT_JOINED);
  assert_int_equal(bt_trace_peer(&trace->ranks[1], 2, 1), 0);
  bt_trace_free(trace);
}

/* A message that was lost takes its step's messages of that link with it, no others; one that is too many, too. */
static void test_lost_message(void **state) {
  (void)state;
  for (int lost = 0; lost < 2; lost++) {
    bt_trace *trace = new_trace(2);
    claims(trace, 0, 9, 1, 2);
    claims(trace, 1, 9, 0, 2);
    for (int s = 0; s < 3; s++) {
      int64_t at = 10000000 * s + 1000000;
      for (int32_t rank = 0; rank < 2; rank++)
        step(trace, rank, s, at - 1000, at + 8000000);
      for (int m = 0; m < 3; m++, at += 1000000) {
        bt_event f = span_event(BT_F, m, at, at + 400000), b = span_event(BT_BW, m, at + 4000000, at + 4400000);
        f.flags = b.flags = BT_FLAG_GPU_TIMED;
        add_event(trace, 0, &f);
        add_event(trace, 0, &b);
        f.start += 500000;
        b.start -= 500000;
        add_event(trace, 1, &f);
        add_event(trace, 1, &b);
        bt_event send = span_event(BT_SEND, -1, at + 410000, at + 480000);
        send.group = 1;
        send.peer = 0;
        send.flags = BT_FLAG_GPU_TIMED;
        bt_event receive = send;
        receive.code = BT_RECV;
        receive.peer = 1;
        if (lost == 0 || s != 1 || m != 1) add_event(trace, 0, &send);
        add_event(trace, 1, &receive);
      }
    }
    settle(trace);
    assert_int_equal(bt_join(trace), BT_OK);
    bt_model model;
    assert_int_equal(bt_model_build(&model, trace, NULL, NULL), BT_OK);
    for (size_t i = 0; i < model.p2p_count; i++) {
      const bt_model_p2p *p2p = &model.p2p[i];
      bool hit = lost != 0 && p2p->rank == 0 && p2p->start > 10000000 && p2p->start < 20000000;
      assert_int_equal(p2p->microbatch, hit ? -1 : (p2p->start - 1000000) / 1000000 % 10);
      assert_int_equal(p2p->kind, p2p->rank == 0 ? BT_SEND_F : BT_RECV_F);
    }
    assert_int_equal(warned(model.out, "unknown_messages"), lost != 0);
    bt_accounting_free(model.out);
    bt_model_free(&model);
    bt_trace_free(trace);
  }
}

/* What ranks of one stage send each other, ring attention for one, is no message of the pipeline. */
static void test_within_a_stage(void **state) {
  bt_trace *trace = new_trace(2);
  (void)state;
  for (int32_t rank = 0; rank < 2; rank++) {
    bt_trace_rank(trace, rank)->layout.pp_rank = 0;
    bt_trace_rank(trace, rank)->layout.pp_size = 1;
    bt_trace_rank(trace, rank)->layout.cp_rank = rank;
    bt_trace_rank(trace, rank)->layout.cp_size = 2;
    claims(trace, rank, 9, rank, 2);
    bt_event f = span_event(BT_F, 0, 100, 200);
    f.flags = BT_FLAG_GPU_TIMED;
    add_event(trace, rank, &f);
    sends(trace, rank, 1 - rank, BT_SEND, 110);
    sends(trace, rank, 1 - rank, BT_RECV, 130);
  }
  settle(trace);
  assert_int_equal(bt_join(trace), BT_OK);
  bt_accounting *a = account(trace);
  assert_int_equal(a->link_count, 0);
  assert_int_equal(a->stages[0].p2p_bytes, 0);
  assert_false(warned(a, "unknown_messages"));
  assert_false(warned(a, "unmatched_messages"));
  bt_accounting_free(a);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_completion),   cmocka_unit_test(test_contradictions), cmocka_unit_test(test_lives),
      cmocka_unit_test(test_lost_message), cmocka_unit_test(test_within_a_stage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
