#include "formats/wire/event.h"

#include <stddef.h>
#include <string.h>

static const char *const code_names[] = {
    [BT_F] = "F",
    [BT_B] = "B",
    [BT_W] = "W",
    [BT_BW] = "BW",
    [BT_FB] = "FB",
    [BT_RECOMPUTE] = "RECOMPUTE",
    [BT_OPTIMIZER] = "OPTIMIZER",
    [BT_OTHER] = "OTHER",
    [BT_SEND_F] = "SEND_F",
    [BT_RECV_F] = "RECV_F",
    [BT_SEND_B] = "SEND_B",
    [BT_RECV_B] = "RECV_B",
    [BT_SEND] = "SEND",
    [BT_RECV] = "RECV",
    [BT_ALL_REDUCE] = "ALL_REDUCE",
    [BT_REDUCE_SCATTER] = "REDUCE_SCATTER",
    [BT_ALL_GATHER] = "ALL_GATHER",
    [BT_ALL_TO_ALL] = "ALL_TO_ALL",
    [BT_BROADCAST] = "BROADCAST",
    [BT_GATE] = "GATE",
    [BT_HOST] = "HOST",
    [BT_STEP_BEGIN] = "step begin",
    [BT_STEP_END] = "step end",
    [BT_INSTANT] = "instant",
    [BT_COUNTER] = "counter",
    [BT_GROUP] = "group",
    [BT_META] = "meta",
    [BT_CLOCK] = "clock",
    [BT_ANCHOR] = "anchor",
    [BT_OPEN] = "open",
    [BT_DROPPED] = "dropped",
    [BT_HEARTBEAT] = "heartbeat",
    [BT_END_OF_STREAM] = "end",
};

enum { CODE_NAMES = sizeof code_names / sizeof code_names[0] };

const char *bt_code_name(unsigned code) {
  return bt_code_is_known(code) ? code_names[code] : "?";
}

bt_code bt_code_from_name(const char *name) {
  for (unsigned code = 0; code < CODE_NAMES; code++) {
    if (code_names[code] != NULL && strcmp(code_names[code], name) == 0) return (bt_code)code;
  }
  return BT_NONE;
}

const char *bt_domain_name(unsigned domain) {
  static const char *const names[] = {"?", "dp", "tp", "cp", "ep", "pp", "world"};
  return domain < sizeof names / sizeof names[0] ? names[domain] : "?";
}

const bt_event bt_event_blank = {
    .lane = -1,
    .chunk = -1,
    .chunk_b = -1,
    .microbatch = -1,
    .microbatch_b = -1,
    .tokens = -1,
    .peer = -1,
    .bytes = -1,
    .sequence = -1,
    .own_rank = -1,
};

bool bt_runs_are_sound(const bt_run_of_ranks *runs, uint32_t run_count, int32_t members) {
  if (run_count > BT_MAX_RUNS) return false;
  int64_t told = 0;
  for (uint32_t i = 0; i < run_count; i++) {
    if (runs[i].first < 0 || runs[i].count < 1) return false;
    int64_t last = runs[i].first + (int64_t)runs[i].stride * (runs[i].count - 1);
    if (last < 0 || last > INT32_MAX) return false;
    told += runs[i].count;
  }
  return told <= members;
}
