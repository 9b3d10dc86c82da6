/* Which receive belongs to which send, which collectives are one, and how fast a link can be. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_index.h"
#include "tui/analysis/accounting_model.h"

static bool is_forward(unsigned kind) {
  return kind == BT_SEND_F || kind == BT_RECV_F;
}

/* Both halves of a message have an equal key; among equal keys the n-th send belongs to the n-th receive. */
static bt_index_key key_of(const bt_model *model, int32_t index, bool by_sequence) {
  const bt_model_p2p *half = &model->p2p[index];
  bool receive = bt_code_is_receive(half->kind);
  int32_t from = receive ? half->peer : half->rank;
  int32_t to = receive ? half->rank : half->peer;
  if (by_sequence) return bt_index_pair(from, to, half->group, (uint64_t)half->sequence);
  int32_t target = half->vstage; /* the virtual stage that gets it */
  if (!receive && target >= 0) target += is_forward(half->kind) ? 1 : -1;
  return bt_index_pair(from, to, is_forward(half->kind),
                       ((uint64_t)(uint32_t)target << 32) | (uint32_t)half->microbatch);
}

static bool is_plain(unsigned kind) {
  return kind == BT_SEND || kind == BT_RECV;
}

static void join(bt_model *model, int32_t send, int32_t receive) {
  unsigned from = model->p2p[send].kind;
  unsigned to = model->p2p[receive].kind;
  if (!is_plain(from) && !is_plain(to) && is_forward(from) != is_forward(to)) return;
  model->p2p[send].match = receive;
  model->p2p[receive].match = send;
}

/* Joins sends with receives of equal key, both in order of their start. Where one side has more (records lost, a run cut
 * off), a half is passed over when the next one still fits: a message is never received before it is sent. */
static void join_equal(bt_model *model, const int32_t *send, size_t sends, const int32_t *receive, size_t receives) {
  size_t s = 0;
  size_t r = 0;
  while (s < sends && r < receives) {
    const bt_model_p2p *into = &model->p2p[receive[r]];
    if (sends - s < receives - r && into->end < model->p2p[send[s]].start) {
      r++;
    } else if (sends - s > receives - r && model->p2p[send[s + 1]].start <= into->end) {
      s++;
    } else {
      join(model, send[s++], receive[r++]);
    }
  }
}

/* Messages of equal key, chained through `next` from the last to the first. */
typedef struct chains {
  bt_index heads;
  int32_t *next;
  int32_t *sends, *receives; /* room for one chain */
} chains;

static void match_chain(bt_model *model, const chains *c, int32_t last) {
  size_t room = model->p2p_count;
  size_t sends = 0;
  size_t receives = 0;
  for (int32_t i = last; i != BT_NO_INDEX; i = c->next[i]) { /* backwards: filled from the end */
    if (bt_code_is_receive(model->p2p[i].kind)) {
      c->receives[room - ++receives] = i;
    } else {
      c->sends[room - ++sends] = i;
    }
  }
  join_equal(model, c->sends + room - sends, sends, c->receives + room - receives, receives);
}

static bool fill_chains(const bt_model *model, bool by_sequence, chains *c) {
  if (by_sequence && !bt_index_reserve(&c->heads, model->p2p_count / 2)) return false;
  for (int32_t i = 0; i < (int32_t)model->p2p_count; i++) { /* a key's sends are of one rank, so in order of start */
    const bt_model_p2p *half = &model->p2p[i];
    if (half->match != BT_NO_INDEX || half->peer == BT_NO_INDEX) continue;
    if (by_sequence ? half->sequence < 0 : half->microbatch < 0 || is_plain(half->kind)) continue;
    int32_t *head = bt_index_at(&c->heads, key_of(model, i, by_sequence));
    if (head == NULL) return false;
    c->next[i] = *head;
    *head = i;
  }
  return true;
}

static bool match_messages(bt_model *model, bool by_sequence) {
  size_t room = model->p2p_count + 1;
  chains c = {{NULL, 0, 0},
              bt_array_new(room, sizeof *c.next),
              bt_array_new(room, sizeof *c.sends),
              bt_array_new(room, sizeof *c.receives)};
  bool fine = c.next != NULL && c.sends != NULL && c.receives != NULL && fill_chains(model, by_sequence, &c);
  for (size_t i = 0; fine && i < c.heads.size; i++) {
    if (c.heads.entries[i].used) match_chain(model, &c, c.heads.entries[i].value);
  }
  bt_index_free(&c.heads);
  free(c.next);
  free(c.sends);
  free(c.receives);
  return fine;
}

/* --- transfer time of a link ----------------------------------------------------------------------------------------- */

typedef struct link_sample {
  int64_t bytes, transfer;
  bool overlapping;
} link_sample;

/* How long the data can have been moving. A send that ended before its receive began went into a buffer: only the receive
 * tells something then, and such samples count only where a link has no other. */
static link_sample sample_of(const bt_model *model, const bt_model_p2p *in) {
  const bt_model_p2p *out = &model->p2p[in->match];
  int64_t start = out->start > in->start ? out->start : in->start;
  int64_t end = out->end < in->end ? out->end : in->end;
  link_sample sample = {
      .bytes = in->bytes >= 0 ? in->bytes : out->bytes, .transfer = end - start, .overlapping = end >= start};
  if (!sample.overlapping) sample.transfer = in->end > start ? in->end - start : 0;
  return sample;
}

static bool comparable_p2p(const bt_model *model, const bt_model_p2p *half) {
  return !model->gpu || (half->flags & BT_FLAG_GPU_TIMED) != 0;
}

static bool tells_transfer(const bt_model *model, const bt_model_p2p *half) {
  return bt_code_is_receive(half->kind) && half->match != BT_NO_INDEX && comparable_p2p(model, half) &&
         comparable_p2p(model, &model->p2p[half->match]);
}

/* Every message takes as long as the fastest of its pair of ranks and size. */
static bool measure_links(bt_model *model) {
  bt_index best = {NULL, 0, 0}; /* the receive that was fastest */
  bool fine = true;
  for (int32_t i = 0; fine && i < (int32_t)model->p2p_count; i++) {
    bt_model_p2p *in = &model->p2p[i];
    if (!tells_transfer(model, in)) continue;
    link_sample sample = sample_of(model, in);
    in->moved = sample.transfer;
    int32_t *fastest = bt_index_at(&best, bt_index_pair(in->peer, in->rank, 0, (uint64_t)sample.bytes));
    fine = fastest != NULL;
    if (!fine) break;
    link_sample record = *fastest == BT_NO_INDEX ? sample : sample_of(model, &model->p2p[*fastest]);
    bool better = sample.overlapping != record.overlapping ? sample.overlapping : sample.transfer < record.transfer;
    if (better || *fastest == BT_NO_INDEX) *fastest = i;
  }
  for (int32_t i = 0; fine && i < (int32_t)model->p2p_count; i++) {
    bt_model_p2p *in = &model->p2p[i];
    if (!tells_transfer(model, in)) continue;
    uint64_t bytes = (uint64_t)sample_of(model, in).bytes;
    int32_t fastest = bt_index_find(&best, bt_index_pair(in->peer, in->rank, 0, bytes));
    in->transfer = model->p2p[fastest].moved;
    model->p2p[in->match].transfer = in->transfer;
  }
  bt_index_free(&best);
  return fine;
}

/* --- collectives ----------------------------------------------------------------------------------------------------- */

/* Collectives of one call, chained through `next`: members of an equal group, sequence and turn. */
typedef struct call_table {
  bt_index turns; /* of one rank: how often it has made that call */
  bt_index heads;
  int32_t *next;
} call_table;

static bool is_matched(const bt_model *model, const bt_model_collective *c) {
  return c->group != 0 && (!model->gpu || (c->flags & BT_FLAG_GPU_TIMED) != 0);
}

static bool add_calls(const bt_model *model, const bt_model_rank *rank, call_table *calls) {
  bt_index_clear(&calls->turns);
  for (int32_t i = rank->collectives.first; i < rank->collectives.first + rank->collectives.count; i++) {
    const bt_model_collective *c = &model->collectives[i];
    if (!is_matched(model, c)) continue;
    bt_index_key key = {c->group, 0, (uint64_t)(c->sequence >= 0 ? c->sequence : -1 - (int64_t)c->kind)};
    int32_t *turn = bt_index_at(&calls->turns, key);
    if (turn == NULL) return false;
    key.b = (uint64_t)++ * turn;
    int32_t *head = bt_index_at(&calls->heads, key);
    if (head == NULL) return false;
    calls->next[i] = *head;
    *head = i;
  }
  return true;
}

static void find_last_arrival(bt_model *model, const call_table *calls, int32_t head, uint32_t *call) {
  int64_t arrived = INT64_MIN;
  int64_t members = 0;
  for (int32_t i = head; i != BT_NO_INDEX; i = calls->next[i]) {
    if (model->collectives[i].start > arrived) arrived = model->collectives[i].start;
    members++;
  }
  if (members != model->collectives[head].members) return;
  ++*call;
  for (int32_t i = head; i != BT_NO_INDEX; i = calls->next[i]) {
    model->collectives[i].arrived = arrived;
    model->collectives[i].call = *call;
  }
}

static bool match_collectives(bt_model *model) {
  call_table calls = {{NULL, 0, 0}, {NULL, 0, 0}, malloc((model->collectives_count + 1) * sizeof *calls.next)};
  bool fine = calls.next != NULL;
  for (int32_t r = 0; fine && r < model->rank_count; r++)
    fine = add_calls(model, &model->ranks[r], &calls);
  uint32_t call = 0;
  for (size_t i = 0; fine && i < calls.heads.size; i++) {
    if (calls.heads.entries[i].used) find_last_arrival(model, &calls, calls.heads.entries[i].value, &call);
  }
  bt_index_free(&calls.turns);
  bt_index_free(&calls.heads);
  free(calls.next);
  return fine;
}

bt_status bt_model_match(bt_model *model) {
  if (!match_messages(model, true)) return BT_ERR_NOMEM;
  bt_status status = bt_model_derive(model);
  if (status != BT_OK) return status;
  bool fine = match_messages(model, false) && measure_links(model) && match_collectives(model);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
