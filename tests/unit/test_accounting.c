/* The accounting on traces worked out by hand; the figures are derived in the comments. */
#include "tests/unit/account_trace.h"

#include <math.h>

/* GPipe, 2 stages, 2 microbatches, F 10, BW 20, transfer 1:
 *   rank 0  F0 0-10  F1 10-20                       BW0 52-72 BW1 72-92
 *   rank 1           F0 11-21 F1 21-31 BW0 31-51 BW1 51-71
 * Receives are posted early; `base` moves everything. */
static void add_gpipe(bt_trace *trace, int64_t base) {
  op(trace, 0, BT_F, 0, base + 0, base + 10);
  op(trace, 0, BT_F, 1, base + 10, base + 20);
  op(trace, 0, BT_BW, 0, base + 52, base + 72);
  op(trace, 0, BT_BW, 1, base + 72, base + 92);
  op(trace, 1, BT_F, 0, base + 11, base + 21);
  op(trace, 1, BT_F, 1, base + 21, base + 31);
  op(trace, 1, BT_BW, 0, base + 31, base + 51);
  op(trace, 1, BT_BW, 1, base + 51, base + 71);
  message(trace, 0, 1, true, 0, base + 10, base + 11, base + 0, base + 11);
  message(trace, 0, 1, true, 1, base + 20, base + 21, base + 11, base + 21);
  message(trace, 1, 0, false, 0, base + 51, base + 52, base + 20, base + 52);
  message(trace, 1, 0, false, 1, base + 71, base + 72, base + 53, base + 72);
}

static void gpipe(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  add_gpipe(trace, 1000);
  bt_accounting *a = account(trace);
  assert_int_equal(a->interval_ns, 92);
  assert_int_equal(a->step_count, 1);
  assert_class(a, 0, F, 20);
  assert_class(a, 0, BW, 40);
  assert_class(a, 0, FILL, 31); /* 20-51, until BW0 of stage 1 ended */
  assert_class(a, 0, EXPOSED_P2P, 1); /* 51-52 */
  assert_class(a, 1, FILL, 10);
  assert_class(a, 1, EXPOSED_P2P, 1);
  assert_class(a, 1, DRAIN, 21); /* 71-92 */
  for (int s = 0; s < 2; s++) {
    assert_class(a, s, UNATTRIBUTED, 0);
    assert_class(a, s, HOST_GAP, 0);
    assert_int_equal(a->stages[s].window_ns, 92);
    assert_int_equal(a->stages[s].busy_ns, 60);
    assert_int_equal(a->stages[s].step_ns, BT_UNKNOWN);
    assert_int_equal(a->stages[s].p2p_bytes, 400);
    assert_int_equal(a->stages[s].p2p_transfer_ns, 4); /* four messages of 1 */
  }
  /* rank 0: sends 10-11, 20-21, receives 20-52, 53-72 */
  assert_int_equal(a->stages[0].p2p_ns, 1 + 32 + 19);
  assert_int_equal(a->stages[0].p2p_wait_ns, 52 - 4);
  assert_true(fabs(a->rate_window - (1 - 120.0 / 184)) < 1e-12);
  assert_true(fabs(a->rate_span - (1 - 60.0 / 92)) < 1e-12);
  assert_true(fabs(a->over_ideal - 64.0 / 120) < 1e-12);
  assert_int_equal(a->link_count, 2);
  assert_int_equal(a->links[0].from, 0);
  assert_int_equal(a->links[0].to, 1);
  assert_int_equal(a->links[0].messages, 2);
  assert_int_equal(a->links[0].bytes, 200);
  assert_int_equal(a->links[0].transfer_ns, 2);
  assert_int_equal(a->links[0].wait_ns, 10 + 9);
  assert_true(warned(a, "no_step_marks"));
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* 1F1B, 4 stages, 8 microbatches, F 10, BW 20, transfer 0.3 (here x 1000): every row sums to 334.8, stage 0 = fill 61.5 +
 * drain 30.6 + wait .6 + p2p 2.1 + compute 240 (notes on schedules, section 4). The times follow from the order alone. */
enum { P = 4, M = 8, F_NS = 10000, BW_NS = 20000, C_NS = 300 };

typedef struct timed_op {
  bt_code kind;
  int microbatch;
  int64_t start;
} timed_op;

static int order_1f1b(timed_op *ops, int stage) {
  int warm = P - 1 - stage;
  int f = 0;
  int n = 0;
  while (f < warm)
    ops[n++] = (timed_op){BT_F, f++, -1};
  for (int b = 0; b < M; b++) {
    if (f < M) ops[n++] = (timed_op){BT_F, f++, -1};
    ops[n++] = (timed_op){BT_BW, b, -1};
  }
  return n;
}

/* Runs the ops of each rank in order, each as soon as its producer's data is there. */
static void time_1f1b(timed_op ops[P][2 * M], int64_t f_end[P][M], int64_t b_end[P][M]) {
  int next[P] = {0};
  int64_t clock[P] = {0};
  for (int done = 0; done < P * 2 * M;) {
    for (int s = 0; s < P; s++) {
      if (next[s] == 2 * M) continue;
      timed_op *o = &ops[s][next[s]];
      bool forward = o->kind == BT_F;
      int64_t ready = 0;
      if (forward && s > 0) ready = f_end[s - 1][o->microbatch] < 0 ? -1 : f_end[s - 1][o->microbatch] + C_NS;
      if (!forward && s < P - 1) ready = b_end[s + 1][o->microbatch] < 0 ? -1 : b_end[s + 1][o->microbatch] + C_NS;
      if (ready < 0) continue;
      o->start = ready > clock[s] ? ready : clock[s];
      clock[s] = o->start + (forward ? F_NS : BW_NS);
      (forward ? f_end : b_end)[s][o->microbatch] = clock[s];
      next[s]++;
      done++;
    }
  }
}

static void add_1f1b(bt_trace *trace, int64_t base) {
  timed_op ops[P][2 * M];
  int64_t f_end[P][M];
  int64_t b_end[P][M];
  memset(f_end, -1, sizeof f_end);
  memset(b_end, -1, sizeof b_end);
  for (int s = 0; s < P; s++)
    assert_int_equal(order_1f1b(ops[s], s), 2 * M);
  time_1f1b(ops, f_end, b_end);
  for (int s = 0; s < P; s++) {
    for (int i = 0; i < 2 * M; i++) {
      const timed_op *o = &ops[s][i];
      op(trace, s, o->kind, o->microbatch, base + o->start, base + o->start + (o->kind == BT_F ? F_NS : BW_NS));
    }
    for (int mb = 0; mb < M; mb++) {
      int64_t f = base + f_end[s][mb];
      int64_t b = base + b_end[s][mb];
      if (s < P - 1) message(trace, s, s + 1, true, mb, f, f + C_NS, f, f + C_NS);
      if (s > 0) message(trace, s, s - 1, false, mb, b, b + C_NS, b, b + C_NS);
    }
  }
}

static void one_f_one_b(void **state) {
  (void)state;
  bt_trace *trace = new_trace(P);
  add_1f1b(trace, 0);
  bt_accounting *a = account(trace);
  assert_int_equal(a->interval_ns, 334800);
  assert_class(a, 0, FILL, 61500);
  assert_class(a, 0, DRAIN, 30600);
  assert_class(a, 0, STEADY_WAIT, 600);
  assert_class(a, 0, EXPOSED_P2P, 2100);
  for (int s = 0; s < P; s++) {
    assert_class(a, s, F, 80000);
    assert_class(a, s, BW, 160000);
    assert_class(a, s, HOST_GAP, 0);
    assert_class(a, s, UNATTRIBUTED, 0);
  }
  assert_true(fabs(a->rate_window - (1 - 240.0 / 334.8)) < 1e-12);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* A constant added to all clocks changes nothing; neither does the order in which records come. */
static void clocks_and_order(void **state) {
  (void)state;
  bt_trace *one = new_trace(2);
  bt_trace *two = new_trace(2);
  add_gpipe(one, 5);
  add_gpipe(one, 205);
  add_gpipe(two, 900000205); /* the later step first, far away */
  add_gpipe(two, 900000005);
  bt_accounting *a = account(one);
  bt_accounting *b = account(two);
  assert_int_equal(a->step_count, 2);
  assert_int_equal(b->step_count, 2);
  for (int s = 0; s < 2; s++) {
    assert_memory_equal(a->stages[s].ns, b->stages[s].ns, sizeof a->stages[s].ns);
    assert_int_equal(a->stages[s].ns[BT_CLASS_BETWEEN_STEPS], 200 - 92);
    assert_int_equal(a->stages[s].window_ns, 2 * 92);
  }
  assert_true(a->rate_window == b->rate_window);
  bt_accounting_free(a);
  bt_accounting_free(b);
  bt_trace_free(one);
  bt_trace_free(two);
}

/* ZB-H1 with two stages and two microbatches, F 10, B 10, W 6, transfer 0, no barrier, two steps of period 60:
 *   rank 0  F0 0-10 F1 10-20            B0 30-40 W0 40-46 B1 46-56   W1 56-62 | F0 62-72 …
 *   rank 1          F0 10-20 B0 20-30 F1 30-40 B1 40-50 W0 50-56 W1 56-62 | 62: idle until F0 ends at 72
 * Step 1 is step 0 moved by 62. */
static void add_zb(bt_trace *trace, int64_t base, int64_t id) {
  static const struct {
    int rank;
    bt_code kind;
    int microbatch, start, end;
  } ops[] = {{0, BT_F, 0, 0, 10},  {0, BT_F, 1, 10, 20}, {0, BT_B, 0, 30, 40}, {0, BT_W, 0, 40, 46},
             {0, BT_B, 1, 50, 60}, {0, BT_W, 1, 60, 66}, {1, BT_F, 0, 10, 20}, {1, BT_B, 0, 20, 30},
             {1, BT_F, 1, 30, 40}, {1, BT_B, 1, 40, 50}, {1, BT_W, 0, 50, 56}, {1, BT_W, 1, 56, 62}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    op(trace, ops[i].rank, ops[i].kind, ops[i].microbatch, base + ops[i].start, base + ops[i].end);
  message(trace, 0, 1, true, 0, base + 10, base + 10, base + 10, base + 10);
  message(trace, 0, 1, true, 1, base + 20, base + 20, base + 20, base + 20);
  message(trace, 1, 0, false, 0, base + 30, base + 30, base + 30, base + 30);
  message(trace, 1, 0, false, 1, base + 50, base + 50, base + 50, base + 50);
  step(trace, 0, id, base, base + 66);
  step(trace, 1, id, base, base + 66);
}

static void zero_bubble(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  add_zb(trace, 0, 7);
  bt_accounting *a = account(trace);
  assert_class(a, 0, FILL, 10); /* 20-30 */
  assert_class(a, 0, DRAIN, 4); /* 46-50: after its last F, B1 of stage 1 */
  assert_class(a, 1, FILL, 10); /* 0-10 */
  assert_class(a, 1, DRAIN, 4); /* 62-66 */
  assert_class(a, 1, W, 12);
  assert_int_equal(a->steps[0].step, 7);
  assert_int_equal(a->steps[0].step_ns, 66);
  assert_int_equal(a->stages[0].step_ns, 66);
  /* span: rank 0 0-66, rank 1 10-62; busy 52 each */
  assert_true(fabs(a->rate_span - (1 - 52.0 / 66)) < 1e-12);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* The same without a barrier: the second step's first stage starts while the last still works. Windows 0-62 and 52-114
 * overlap by 10, which counts once.
 *   rank 0  F 0-10 W 42-52 | F 52-62 W 94-104     rank 1  F 10-20 W 52-62 | F 62-72 W 104-114 */
static void overlapping_steps(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  for (int k = 0; k < 2; k++) {
    int64_t t = 52 * k;
    op(trace, 0, BT_F, 0, t, t + 10);
    op(trace, 1, BT_F, 0, t + 10, t + 20);
    op(trace, 1, BT_B, 0, t + 20, t + 30);
    op(trace, 0, BT_B, 0, t + 30, t + 40);
    op(trace, 0, BT_W, 0, t + 42, t + 52);
    op(trace, 1, BT_W, 0, t + 52, t + 62);
    message(trace, 0, 1, true, 0, t + 10, t + 10, t + 10, t + 10);
    message(trace, 1, 0, false, 0, t + 30, t + 30, t + 30, t + 30);
    step(trace, 0, k, t, t + 52);
    step(trace, 1, k, t + 10, t + 62);
  }
  bt_accounting *a = account(trace);
  assert_int_equal(a->interval_ns, 114);
  assert_int_equal(a->stages[0].window_ns, 114);
  assert_int_equal(a->steps[0].window_ns, 62);
  assert_class(a, 0, HOST_GAP, 4); /* 40-42 and 92-94, before W */
  assert_class(a, 0, DRAIN, 10); /* 104-114; 52-62 is the next step's F */
  assert_class(a, 0, FILL, 40);
  assert_class(a, 1, FILL, 10); /* 0-10 only: 62 begins at once with the next step */
  assert_class(a, 1, HOST_GAP, 44); /* 30-52, 82-104, before W */
  assert_class(a, 1, BETWEEN_STEPS, 0);
  assert_true(fabs(a->rate_window - (1 - 120.0 / 228)) < 1e-12);
  /* step 0: rank 0 computes F 0-10 B 30-40 W 42-52 and the next F 52-62 within 0-62, rank 1 30 */
  assert_true(fabs(a->steps[0].rate_window - (1 - 70.0 / 124)) < 1e-12);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* Gates say when data was there and whether a send blocked: rank 1 waits for F0 (sent at 10) until 14, though the receive
 * span of the comm library only ends at 30 (a grouped launch); after F0 its send of nothing known blocks it 24-27. */
static void gates(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  op(trace, 0, BT_F, 0, 0, 10);
  op(trace, 1, BT_F, 0, 17, 24);
  op(trace, 1, BT_BW, 0, 27, 37);
  op(trace, 0, BT_BW, 0, 40, 50);
  message(trace, 0, 1, true, 0, 10, 30, 0, 30);
  message(trace, 1, 0, false, 0, 37, 38, 10, 38);
  gate(trace, 1, BT_RECV_F, 0, 0, 14);
  gate(trace, 1, BT_SEND_B, 0, 24, 26);
  gate(trace, 0, BT_RECV_B, 0, 10, 38);
  bt_accounting *a = account(trace);
  assert_class(a, 1, FILL, 10);
  assert_class(a, 1, EXPOSED_P2P, 4);
  assert_class(a, 1, HOST_GAP, 3 + 1); /* 14-17 and 26-27 */
  assert_class(a, 1, LATE_RECEIVER, 2);
  assert_class(a, 1, DRAIN, 13);
  assert_class(a, 0, FILL, 27);
  assert_class(a, 0, EXPOSED_P2P, 1);
  assert_class(a, 0, HOST_GAP, 2);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* A gate inside an op is that op's inner idle time, outside the sum. */
static void gate_inside(void **state) {
  (void)state;
  bt_trace *trace = new_trace(1);
  op(trace, 0, BT_F, 0, 0, 100);
  gate(trace, 0, BT_RECV_F, 0, 20, 50);
  gate(trace, 0, BT_RECV_F, 0, 40, 60);
  bt_accounting *a = account(trace);
  assert_class(a, 0, F, 100);
  assert_int_equal(a->stages[0].inner_idle_ns, 40);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* A late sender: F0 of stage 0 ends at 10, its send starts at 18 only; transfer 2 (known from the second message). A
 * blocking send: rank 0 sends F1 40-52 because rank 1 takes it at 50, and computes F2 right after. */
static void late_sides(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  op(trace, 0, BT_F, 0, 0, 10);
  op(trace, 0, BT_F, 1, 30, 40);
  op(trace, 0, BT_F, 2, 52, 60);
  op(trace, 1, BT_F, 0, 20, 30);
  op(trace, 1, BT_F, 1, 52, 60);
  op(trace, 1, BT_F, 2, 62, 70);
  message(trace, 0, 1, true, 0, 18, 20, 0, 20);
  message(trace, 0, 1, true, 1, 40, 52, 50, 52);
  message(trace, 0, 1, true, 2, 60, 62, 60, 62);
  bt_accounting *a = account(trace);
  /* rank 1: 0-10 dependency, 10-20 p2p (8 of it the sender's), 30-40 dependency, 40-52 p2p, 60-62 p2p */
  assert_class(a, 1, FILL, 10); /* forward only: fill is before its first op */
  assert_class(a, 1, STEADY_WAIT, 10);
  assert_class(a, 1, EXPOSED_P2P, 10 + 12 + 2);
  /* rank 0: 10-18 host, 18-20 in the send of F0, 20-30 host, 40-52 in the send of F1 */
  assert_class(a, 0, LATE_RECEIVER, 2 + 12);
  assert_class(a, 0, HOST_GAP, 8 + 10);
  assert_class(a, 0, DRAIN, 10);
  assert_int_equal(a->links[0].transfer_ns, 6);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* Collectives: one inside an op on its own stream (cut out), one that a gap waits for, one hidden in the drain, a barrier,
 * and one in the tail. Two ranks, one stage each; group 1 tensor parallel, 2 data parallel, 3 world. */
static void collectives(void **state) {
  (void)state;
  bt_trace *trace = new_trace(2);
  group(trace, 1, BT_DOMAIN_TP, 0, 2);
  group(trace, 2, BT_DOMAIN_DP, 0, 2);
  group(trace, 3, BT_DOMAIN_WORLD, 0, 2);
  op(trace, 0, BT_F, 0, 0, 30);
  op(trace, 0, BT_BW, 0, 61, 80);
  op(trace, 1, BT_F, 0, 30, 40);
  op(trace, 1, BT_BW, 0, 50, 60);
  message(trace, 0, 1, true, 0, 30, 30, 30, 30);
  message(trace, 1, 0, false, 0, 60, 61, 60, 61);
  collective(trace, 0, 1, 0, 10, 20); /* inside F0; its other member arrives at 14 */
  collective(trace, 1, 1, 0, 14, 20);
  collective(trace, 0, 2, 0, 35, 48); /* rank 0 joins while it waits for BW0 */
  collective(trace, 1, 2, 0, 42, 48); /* rank 1 waits for it before BW0 */
  collective(trace, 1, 3, 0, 65, 90); /* the barrier: rank 1 is early */
  collective(trace, 0, 3, 0, 80, 90);
  step(trace, 0, 0, 0, 95);
  step(trace, 1, 0, 0, 95);
  op(trace, 0, BT_OPTIMIZER, -1, 90, 93);
  bt_accounting *a = account(trace);
  assert_class(a, 0, F, 20);
  assert_class(a, 0, COLLECTIVE_WAIT, 4); /* 10-14 */
  assert_class(a, 0, EXPOSED_COLLECTIVE, 6 + 10); /* 14-20, 80-90 of the barrier in the tail */
  assert_class(a, 0, FILL, 30);
  assert_class(a, 0, EXPOSED_P2P, 1);
  assert_int_equal(a->stages[0].hidden_in_bubble_ns, 13); /* 35-48 */
  assert_class(a, 0, OPTIMIZER, 3);
  assert_class(a, 0, BETWEEN_STEPS, 2);
  assert_class(a, 1, FILL, 30);
  assert_int_equal(a->stages[1].hidden_in_bubble_ns, 6); /* 14-20 of the first, in the fill */
  assert_class(a, 1, EXPOSED_COLLECTIVE, 6 + 10); /* 42-48 before BW0; 80-90 of the barrier */
  assert_class(a, 1, HOST_GAP, 2 + 2); /* 40-42, 48-50 */
  assert_class(a, 1, DRAIN, 5); /* 60-65 */
  assert_class(a, 1, TAIL_SYNC, 15); /* 65-80 */
  assert_class(a, 1, BETWEEN_STEPS, 5);
  assert_int_equal(a->stages[0].busy_ns, 39);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

/* Innermost first, overlaps united: B 0-20 with a recomputation 0-8 and other work 15-25 that outlasts it. */
static void nested_ops(void **state) {
  (void)state;
  bt_trace *trace = new_trace(1);
  op(trace, 0, BT_F, 0, 0, 5);
  op(trace, 0, BT_B, 0, 5, 25);
  op(trace, 0, BT_RECOMPUTE, 0, 5, 13);
  op(trace, 0, BT_OTHER, -1, 20, 30);
  op(trace, 0, BT_W, 0, 40, 50);
  op(trace, 0, BT_W, 0, 40, 50); /* the same twice */
  bt_accounting *a = account(trace);
  assert_class(a, 0, B, 7);
  assert_class(a, 0, RECOMPUTE, 8);
  assert_class(a, 0, OTHER, 10);
  assert_class(a, 0, W, 10);
  assert_class(a, 0, HOST_GAP, 10);
  assert_int_equal(a->stages[0].busy_ns, 40);
  bt_accounting_free(a);
  bt_trace_free(trace);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpipe),       cmocka_unit_test(one_f_one_b),       cmocka_unit_test(clocks_and_order),
      cmocka_unit_test(zero_bubble), cmocka_unit_test(overlapping_steps), cmocka_unit_test(gates),
      cmocka_unit_test(gate_inside), cmocka_unit_test(late_sides),        cmocka_unit_test(collectives),
      cmocka_unit_test(nested_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
