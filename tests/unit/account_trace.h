/* Traces written by hand for the tests of the accounting. Times are plain numbers of ns. */
#ifndef BT_TESTS_ACCOUNT_TRACE_H
#define BT_TESTS_ACCOUNT_TRACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "formats/trace.h"
#include "tui/analysis/accounting.h"

static inline bt_trace *new_trace(int32_t ranks) {
  bt_trace *trace = NULL;
  assert_int_equal(bt_trace_new(&trace), BT_OK);
  uint32_t host = bt_trace_host(trace, "node", "boot", 1);
  trace->world_size = ranks;
  for (int32_t i = 0; i < ranks; i++) {
    bt_rank *rank = bt_trace_rank(trace, i);
    assert_non_null(rank);
    rank->host = host;
    rank->layout.pp_rank = i;
    rank->layout.pp_size = ranks;
  }
  return trace;
}

static inline void add_event(bt_trace *trace, int32_t rank, const bt_event *event) {
  assert_int_equal(bt_trace_add(trace, bt_trace_rank(trace, rank), 0, 1, event), BT_OK);
}

static inline bt_event span_event(bt_code kind, int32_t microbatch, int64_t start, int64_t end) {
  bt_event event;
  bt_event_init(&event, kind);
  event.microbatch = microbatch;
  event.start = start;
  event.duration = end - start;
  return event;
}

static inline void op(bt_trace *trace, int32_t rank, bt_code kind, int32_t microbatch, int64_t start, int64_t end) {
  bt_event event = span_event(kind, microbatch, start, end);
  add_event(trace, rank, &event);
}

static inline void chunk_op(bt_trace *trace, int32_t rank, bt_code kind, int16_t chunk, int32_t microbatch,
                            int64_t start, int64_t end) {
  bt_event event = span_event(kind, microbatch, start, end);
  event.chunk = chunk;
  add_event(trace, rank, &event);
}

/* A message of 100 bytes: both of its spans. */
static inline void message(bt_trace *trace, int32_t from, int32_t to, bool forward, int32_t microbatch, int64_t send,
                           int64_t send_end, int64_t receive, int64_t receive_end) {
  bt_event out = span_event(forward ? BT_SEND_F : BT_SEND_B, microbatch, send, send_end);
  bt_event in = span_event(forward ? BT_RECV_F : BT_RECV_B, microbatch, receive, receive_end);
  out.peer = to;
  in.peer = from;
  out.bytes = in.bytes = 100;
  add_event(trace, from, &out);
  add_event(trace, to, &in);
}

static inline void gate(bt_trace *trace, int32_t rank, bt_code on, int32_t microbatch, int64_t start, int64_t end) {
  bt_event event = span_event(BT_GATE, microbatch, start, end);
  event.on_code = (uint8_t)on;
  event.count = 1;
  add_event(trace, rank, &event);
}

static inline void step(bt_trace *trace, int32_t rank, int64_t id, int64_t begin, int64_t end) {
  bt_event event;
  bt_event_init(&event, BT_STEP_BEGIN);
  event.step = id;
  event.start = begin;
  add_event(trace, rank, &event);
  bt_event_init(&event, BT_STEP_END);
  event.step = id;
  event.start = end;
  add_event(trace, rank, &event);
}

/* Group `id` of all ranks first..first + count - 1, known to each of them. */
static inline void group(bt_trace *trace, uint32_t id, bt_domain domain, int32_t first, int32_t count) {
  bt_run_of_ranks members = {first, 1, count};
  for (int32_t i = 0; i < count; i++) {
    bt_event event;
    bt_event_init(&event, BT_GROUP);
    event.group = id;
    event.domain = (uint8_t)domain;
    event.own_rank = i;
    event.count = count;
    event.run_count = 1;
    event.runs = &members;
    add_event(trace, first + i, &event);
  }
}

static inline void collective(bt_trace *trace, int32_t rank, uint32_t group_id, int64_t sequence, int64_t start,
                              int64_t end) {
  bt_event event = span_event(BT_ALL_REDUCE, -1, start, end);
  event.group = group_id;
  event.sequence = sequence;
  add_event(trace, rank, &event);
}

static inline bt_accounting *account_with(bt_trace *trace, const bt_accounting_options *options) {
  for (size_t i = 0; i < trace->rank_count; i++)
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[i], INT64_MAX), BT_OK);
  bt_accounting *accounting = NULL;
  bt_error error = {BT_OK, ""};
  bt_status status = bt_accounting_run(trace, options, &accounting, &error);
  if (status != BT_OK) fail_msg("%s", error.text);
  for (size_t i = 0; i < accounting->stage_count; i++) { /* whatever the trace: the classes add up */
    const bt_account_stage *stage = &accounting->stages[i];
    int64_t sum = 0;
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      sum += stage->ns[c];
    assert_int_equal(sum, stage->interval_ns);
    assert_int_equal(stage->interval_ns, stage->ranks * accounting->interval_ns);
  }
  return accounting;
}

static inline bt_accounting *account(bt_trace *trace) {
  return account_with(trace, NULL);
}

static inline bool warned(const bt_accounting *accounting, const char *code) {
  for (size_t i = 0; i < accounting->warning_count; i++) {
    if (strcmp(accounting->warnings[i].code, code) == 0) return true;
  }
  return false;
}

#define assert_class(accounting, stage, class, expected)                                                               \
  assert_int_equal((accounting)->stages[stage].ns[BT_CLASS_##class], expected)

#endif
