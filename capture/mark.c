/* Everything that is recorded and is no span: steps, instants, counters, layout, meta, groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/bubbletop.h"
#include "capture/bubbletop_tool.h"
#include "capture/clock.h"
#include "capture/producer.h"
#include "capture/threads.h"

static bt_record mark_record(bt_code code) {
  return bt_record_at(code, -1, -1, -1, -1, -1);
}

static void push_step(bubbletop_session *session, bt_code code, int64_t step) {
  bt_producer *producer = bt_producer_of(session);
  if (producer == NULL) return;
  bt_record record = mark_record(code);
  record.sequence = (uint64_t)step;
  bt_producer_push(producer, bt_now(), 0, record);
}

void bubbletop_step_begin(bubbletop_session *session, int64_t step) {
  if (session == NULL) return;
  if (!bt_config_samples_all(&session->config)) {
    bool sampled = bt_config_samples(&session->config, step);
    __atomic_store_n(&session->quiet, !sampled, __ATOMIC_RELAXED);
    if (!sampled) return;
  }
  push_step(session, BT_STEP_BEGIN, step);
}

void bubbletop_step_end(bubbletop_session *session, int64_t step) {
  if (session == NULL || !bt_config_samples(&session->config, step)) return;
  push_step(session, BT_STEP_END, step);
  if (!bt_config_samples_all(&session->config)) __atomic_store_n(&session->quiet, 1, __ATOMIC_RELAXED);
}

/* At most `most` bytes, cut where a character ends. */
static size_t cut(const char *text, size_t most) {
  size_t length = strnlen(text, most + 1);
  if (length <= most) return length;
  length = most;
  while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
    length--;
  return length;
}

static void push_named(bubbletop_session *session, const char *name, bt_record record) {
  bt_producer *producer = bt_producer_of(session);
  if (producer == NULL || __atomic_load_n(&session->quiet, __ATOMIC_RELAXED)) return;
  if (name == NULL) {
    bt_count(&session->misuse);
    return;
  }
  if (!bt_producer_push_long(producer, bt_now(), record, name, cut(name, BT_MAX_TEXT)))
    bt_producer_drop(producer->ring);
}

void bubbletop_instant(bubbletop_session *session, const char *name) {
  push_named(session, name, mark_record(BT_INSTANT));
}

void bubbletop_counter(bubbletop_session *session, const char *name, double value) {
  bt_record record = mark_record(BT_COUNTER);
  memcpy(&record.sequence, &value, sizeof value);
  push_named(session, name, record);
}

/* A definition goes through the thread's ring, so that it survives a kill; if there is no room the writer writes it. */
static void push_definition(bubbletop_session *session, bt_record record, const void *extra, size_t length,
                            size_t index) {
  bt_producer *producer = bt_producer_of(session);
  if (producer == NULL || !bt_producer_push_long(producer, bt_now(), record, extra, length))
    bt_definitions_later(&session->definitions, index);
}

static bool is_deaf(const bubbletop_session *session) {
  return session == NULL || __atomic_load_n(&session->deaf, __ATOMIC_RELAXED);
}

static bubbletop_status public_status(bt_status status) {
  return status == BT_OK ? BUBBLETOP_OK : status == BT_ERR_NOMEM ? BUBBLETOP_ERR_NOMEM : BUBBLETOP_ERR_ARG;
}

bubbletop_status bubbletop_meta(bubbletop_session *session, const char *key, const char *value) {
  if (is_deaf(session)) return BUBBLETOP_OK;
  if (key == NULL || value == NULL) return BUBBLETOP_ERR_ARG;
  uint8_t map[BT_MAX_META];
  size_t key_length = 0;
  size_t index = 0;
  size_t length = bt_meta_encode(map, key, value, &key_length);
  if (length == 0) return BUBBLETOP_ERR_ARG;
  bt_status status = bt_definitions_meta(&session->definitions, map, length, key_length, &index);
  if (status == BT_OK) push_definition(session, mark_record(BT_META), map, length, index);
  return public_status(status);
}

static void layout_from(bt_layout *out, const bubbletop_layout *in) {
  bt_layout_init(out);
  out->pp_rank = in->pp_rank;
  out->pp_size = in->pp_size;
  out->tp_rank = in->tp_rank;
  out->tp_size = in->tp_size;
  out->dp_rank = in->dp_rank;
  out->dp_size = in->dp_size;
  out->cp_rank = in->cp_rank;
  out->cp_size = in->cp_size;
  out->ep_rank = in->ep_rank;
  out->ep_size = in->ep_size;
  out->chunks = in->chunks;
  out->microbatches = in->microbatches;
  out->virtual_stages = in->virtual_stages;
  out->zero_stage = in->zero_stage;
  out->w_separable = in->w_separable;
  for (int32_t i = 0; in->vstages != NULL && i < in->chunks; i++)
    out->vstage[i] = in->vstages[i];
  if (in->schedule != NULL) memcpy(out->schedule, in->schedule, cut(in->schedule, sizeof out->schedule - 1));
}

bubbletop_status bubbletop_layout_set(bubbletop_session *session, const bubbletop_layout *layout) {
  if (is_deaf(session)) return BUBBLETOP_OK;
  if (layout == NULL || layout->size < sizeof *layout || layout->chunks > BT_MAX_CHUNKS) return BUBBLETOP_ERR_ARG;
  bt_layout own;
  uint8_t map[BT_MAX_META];
  size_t length = 0;
  layout_from(&own, layout);
  bt_status status = bt_layout_encode(&own, map, sizeof map, &length);
  if (status != BT_OK) return public_status(status);
  bt_definitions_layout(&session->definitions, &own);
  push_definition(session, mark_record(BT_META), map, length, SIZE_MAX);
  return BUBBLETOP_OK;
}

/* Describes the list as arithmetic runs, as many as a record may have; the record tells the number of members too. */
static uint32_t find_runs(const int32_t *ranks, size_t count, bt_run_of_ranks runs[BT_MAX_RUNS]) {
  uint32_t found = 0;
  for (size_t i = 0; i < count && found < BT_MAX_RUNS;) {
    bt_run_of_ranks *run = &runs[found++];
    *run = (bt_run_of_ranks){.first = ranks[i], .stride = 1, .count = 1};
    if (i + 1 < count) run->stride = ranks[i + 1] - ranks[i];
    while (i + (size_t)run->count < count && ranks[i + (size_t)run->count] == ranks[i] + run->stride * run->count)
      run->count++;
    if (run->count == 1) run->stride = 1;
    i += (size_t)run->count;
  }
  return found;
}

static bool good_ranks(const int32_t *ranks, size_t count) {
  if (ranks == NULL || count == 0 || count > INT32_MAX) return false;
  for (size_t i = 0; i < count; i++) {
    if (ranks[i] < 0) return false;
  }
  return true;
}

/* The id of the group, which is recorded unless it was known. */
static uint32_t define_group(bubbletop_session *session, const bt_event *group) {
  size_t index = 0;
  bool known = false;
  uint32_t id = bt_definitions_group(&session->definitions, group, &index, &known);
  if (id == 0 || known) return id;
  bt_record record = bt_record_at(BT_GROUP, -1, -1, group->domain, -1, group->count);
  record.other = (uint32_t)group->own_rank | (uint64_t)id << 32;
  if (group->number != 0) record.sequence = group->number;
  push_definition(session, record, group->runs, group->run_count * sizeof *group->runs, index);
  return id;
}

uint32_t bubbletop_group(bubbletop_session *session, bubbletop_domain domain, const int32_t *ranks, size_t count) {
  if (is_deaf(session)) return 0;
  if ((unsigned)domain > BUBBLETOP_WORLD || !good_ranks(ranks, count)) {
    bt_count(&session->misuse);
    return 0;
  }
  bt_run_of_ranks runs[BT_MAX_RUNS];
  bt_event group;
  bt_event_init(&group, BT_GROUP);
  group.domain = (uint8_t)domain;
  group.count = (int32_t)count;
  group.runs = runs;
  group.run_count = find_runs(ranks, count, runs);
  for (size_t i = 0; i < count; i++) {
    if (ranks[i] == session->config.rank) group.own_rank = (int32_t)i;
  }
  return define_group(session, &group);
}

uint32_t bubbletop_group_join(bubbletop_session *session, bubbletop_domain domain,
                              const bubbletop_communicator *communicator) {
  if (is_deaf(session)) return 0;
  const bubbletop_communicator *c = communicator;
  if ((unsigned)domain > BUBBLETOP_WORLD || c == NULL || c->size < sizeof *c || c->identity == 0 ||
      c->identity == UINT64_MAX || c->own_rank < -1 || c->count < 0 || (c->own_rank >= c->count && c->own_rank != -1)) {
    bt_count(&session->misuse);
    return 0;
  }
  static const bt_run_of_ranks none;
  bt_event group;
  bt_event_init(&group, BT_GROUP);
  group.domain = (uint8_t)domain;
  group.own_rank = c->own_rank;
  group.count = c->count;
  group.runs = &none;
  group.number = c->identity;
  uint32_t id = define_group(session, &group);
  if (id != 0 && c->name != NULL) {
    char key[32];
    snprintf(key, sizeof key, "group_name.%u", id);
    bubbletop_meta(session, key, c->name);
  }
  return id;
}
