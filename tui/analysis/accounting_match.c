/* Which receive belongs to which send, which collectives are one, and how fast a link can be. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

/* Both halves of a message have an equal key; among equal keys the n-th send belongs to the n-th receive. */
typedef struct message_key {
  int32_t from, to;
  int32_t receive; /* 0: the send */
  int32_t index;
  uint64_t a, b; /* group and sequence, or kind, virtual stage and microbatch */
  int64_t start;
} message_key;

static int compare_place(const message_key *x, const message_key *y) {
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  if (x->a != y->a) return x->a < y->a ? -1 : 1;
  return x->b == y->b ? 0 : x->b < y->b ? -1 : 1;
}

static int compare_message(const void *a, const void *b) {
  const message_key *x = a;
  const message_key *y = b;
  int order = compare_place(x, y);
  if (order != 0) return order;
  if (x->receive != y->receive) return x->receive - y->receive;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static bool is_receive(unsigned kind) {
  return kind == BT_RECV_F || kind == BT_RECV_B;
}
static bool is_forward(unsigned kind) {
  return kind == BT_SEND_F || kind == BT_RECV_F;
}

static message_key key_of(const bt_model *model, int32_t index, bool by_sequence) {
  const bt_model_p2p *half = &model->p2p[index];
  bool receive = is_receive(half->kind);
  message_key key = {.from = receive ? half->peer : half->rank,
                     .to = receive ? half->rank : half->peer,
                     .receive = receive,
                     .index = index,
                     .start = half->start};
  if (by_sequence) {
    key.a = half->group;
    key.b = (uint64_t)half->sequence;
    return key;
  }
  int32_t target = half->vstage; /* the virtual stage that gets it */
  if (!receive && target >= 0) target += is_forward(half->kind) ? 1 : -1;
  key.a = is_forward(half->kind);
  key.b = ((uint64_t)(uint32_t)target << 32) | (uint32_t)half->microbatch;
  return key;
}

static void join(bt_model *model, int32_t send, int32_t receive) {
  if (is_forward(model->p2p[send].kind) != is_forward(model->p2p[receive].kind)) return;
  model->p2p[send].match = receive;
  model->p2p[receive].match = send;
}

/* Joins sends keys[0..sends) with the receives behind them. Where one side has more (records lost, a run cut off), a half
 * is passed over when the next one still fits: a message is never received before it is sent. */
static void join_equal(bt_model *model, const message_key *keys, size_t sends, size_t receives) {
  const message_key *receive = keys + sends;
  size_t s = 0;
  size_t r = 0;
  while (s < sends && r < receives) {
    const bt_model_p2p *into = &model->p2p[receive[r].index];
    if (sends - s < receives - r && into->end < model->p2p[keys[s].index].start) {
      r++;
    } else if (sends - s > receives - r && model->p2p[keys[s + 1].index].start <= into->end) {
      s++;
    } else {
      join(model, keys[s++].index, receive[r++].index);
    }
  }
}

static bool match_messages(bt_model *model, bool by_sequence) {
  message_key *keys = malloc((model->p2p_count + 1) * sizeof *keys);
  if (keys == NULL) return false;
  size_t count = 0;
  for (int32_t i = 0; i < (int32_t)model->p2p_count; i++) {
    const bt_model_p2p *half = &model->p2p[i];
    if (half->match != BT_NO_INDEX || half->peer == BT_NO_INDEX) continue;
    if (by_sequence ? half->sequence >= 0 : half->microbatch >= 0) keys[count++] = key_of(model, i, by_sequence);
  }
  qsort(keys, count, sizeof *keys, compare_message);
  for (size_t i = 0; i < count;) {
    size_t end = i;
    size_t sends = 0;
    for (; end < count && compare_place(&keys[i], &keys[end]) == 0; end++)
      sends += keys[end].receive == 0;
    join_equal(model, &keys[i], sends, end - i - sends);
    i = end;
  }
  free(keys);
  return true;
}

/* --- transfer time of a link ----------------------------------------------------------------------------------------- */

typedef struct link_sample {
  int64_t bytes, transfer;
  int32_t from, to, index;
  bool overlapping;
} link_sample;

static int compare_sample(const void *a, const void *b) {
  const link_sample *x = a;
  const link_sample *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  if (x->overlapping != y->overlapping) return x->overlapping ? -1 : 1;
  if (x->transfer != y->transfer) return x->transfer < y->transfer ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* How long the data can have been moving. A send that ended before its receive began went into a buffer: only the receive
 * tells something then, and such samples count only where a link has no other. */
static link_sample sample_of(const bt_model *model, int32_t receive) {
  const bt_model_p2p *in = &model->p2p[receive];
  const bt_model_p2p *out = &model->p2p[in->match];
  int64_t start = out->start > in->start ? out->start : in->start;
  int64_t end = out->end < in->end ? out->end : in->end;
  link_sample sample = {.bytes = in->bytes >= 0 ? in->bytes : out->bytes,
                        .transfer = end - start,
                        .from = out->rank,
                        .to = in->rank,
                        .index = receive,
                        .overlapping = end >= start};
  if (!sample.overlapping) sample.transfer = in->end > start ? in->end - start : 0;
  return sample;
}

static bool comparable_p2p(const bt_model *model, const bt_model_p2p *half) {
  return !model->gpu || (half->flags & BT_FLAG_GPU_TIMED) != 0;
}

static bool measure_links(bt_model *model) {
  link_sample *samples = malloc((model->p2p_count + 1) * sizeof *samples);
  if (samples == NULL) return false;
  size_t count = 0;
  for (int32_t i = 0; i < (int32_t)model->p2p_count; i++) {
    const bt_model_p2p *half = &model->p2p[i];
    if (!is_receive(half->kind) || half->match == BT_NO_INDEX) continue;
    if (comparable_p2p(model, half) && comparable_p2p(model, &model->p2p[half->match])) {
      samples[count++] = sample_of(model, i);
    }
  }
  qsort(samples, count, sizeof *samples, compare_sample);
  int64_t best = 0;
  for (size_t i = 0; i < count; i++) {
    const link_sample *s = &samples[i];
    if (i == 0 || s->from != s[-1].from || s->to != s[-1].to || s->bytes != s[-1].bytes) best = s->transfer;
    bt_model_p2p *in = &model->p2p[s->index];
    in->moved = s->transfer;
    in->transfer = best;
    model->p2p[in->match].transfer = best;
  }
  free(samples);
  return true;
}

/* --- collectives ----------------------------------------------------------------------------------------------------- */

typedef struct member_key { /* one rank's part in a collective */
  uint64_t group;
  int64_t call; /* its sequence, or the kind where sequences are not known */
  int32_t turn; /* the n-th of that call on its rank */
  int32_t rank, index;
  int64_t start;
} member_key;

static int compare_call(const member_key *x, const member_key *y) {
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x->call == y->call ? 0 : x->call < y->call ? -1 : 1;
}

static int compare_by_rank(const void *a, const void *b) {
  const member_key *x = a;
  const member_key *y = b;
  int order = compare_call(x, y);
  if (order != 0) return order;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

static int compare_by_turn(const void *a, const void *b) {
  const member_key *x = a;
  const member_key *y = b;
  int order = compare_call(x, y);
  if (order != 0) return order;
  if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

/* Sorted by turn: the keys of one collective stand together. */
static void find_last_arrivals(bt_model *model, const member_key *keys, size_t count) {
  uint32_t call = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    int64_t arrived = INT64_MIN;
    while (end < count && compare_call(&keys[i], &keys[end]) == 0 && keys[end].turn == keys[i].turn) {
      if (keys[end].start > arrived) arrived = keys[end].start;
      end++;
    }
    bool all = (int64_t)(end - i) == model->collectives[keys[i].index].members;
    call += all;
    for (size_t k = i; all && k < end; k++) {
      model->collectives[keys[k].index].arrived = arrived;
      model->collectives[keys[k].index].call = call;
    }
    i = end;
  }
}

static bool match_collectives(bt_model *model) {
  member_key *keys = malloc((model->collectives_count + 1) * sizeof *keys);
  if (keys == NULL) return false;
  size_t count = 0;
  for (size_t i = 0; i < model->collectives_count; i++) {
    const bt_model_collective *c = &model->collectives[i];
    if (c->group == 0 || (model->gpu && (c->flags & BT_FLAG_GPU_TIMED) == 0)) continue;
    int64_t call = c->sequence >= 0 ? c->sequence : -1 - (int64_t)c->kind;
    keys[count++] =
        (member_key){.group = c->group, .call = call, .rank = c->rank, .index = (int32_t)i, .start = c->start};
  }
  qsort(keys, count, sizeof *keys, compare_by_rank);
  for (size_t i = 1; i < count; i++) {
    bool same = compare_call(&keys[i], &keys[i - 1]) == 0 && keys[i].rank == keys[i - 1].rank;
    if (same) keys[i].turn = keys[i - 1].turn + 1;
  }
  qsort(keys, count, sizeof *keys, compare_by_turn);
  find_last_arrivals(model, keys, count);
  free(keys);
  return true;
}

bt_status bt_model_match(bt_model *model) {
  bool fine =
      match_messages(model, true) && match_messages(model, false) && measure_links(model) && match_collectives(model);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
