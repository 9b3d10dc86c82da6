/* Messages that say no microbatch (NCCL's): which op each belongs to, by order.
 *
 * The ops of a rank tell what it gets from and sends to each other rank, and in which order. Where a rank has just as many
 * messages with that other rank (in all, or in a step), the n-th message is the n-th op's: for that its kind and its times
 * must fit, a receive must not end behind the op that needs it, a send not begin before the op that makes it. A message
 * whose two sides come to different ops belongs to none. Nothing else is guessed: what is left has no microbatch.
 */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_index.h"
#include "tui/analysis/accounting_model.h"

enum { FORWARD = 1, BACKWARD = 2, AMBIGUOUS = -2 };
static const int64_t clock_slack = 10000; /* two events of a GPU, each in steps of a microsecond at most */

typedef struct use { /* a message that an op needs or makes */
  int32_t peer, op;
  bool receive;
  uint8_t half;
} use;

typedef struct entry { /* a message that says no microbatch */
  int32_t peer, message;
  int64_t number; /* in its communicator, -1 not known */
  bool receive;
} entry;

typedef struct work {
  bt_model *model;
  bt_index holders; /* of a virtual stage: rank, or AMBIGUOUS */
  use *uses, *found; /* of one rank; per message: whose it is */
  entry *entries;
  size_t use_count, entry_count, use_capacity;
} work;

static bt_index_key holder_key(const bt_model_rank *rank, int32_t vstage) {
  return bt_index_pair(rank->replica, rank->member, (uint32_t)vstage, 0);
}

/* Who computes each virtual stage, by the ops. */
static bool find_holders(work *w) {
  const bt_model *model = w->model;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    const int32_t vstages[2] = {op->vstage, op->kind == BT_FB ? op->vstage_b : -1};
    for (int k = 0; k < 2; k++) {
      if (vstages[k] < 0 || !bt_code_is_pipeline_op(op->kind)) continue;
      int32_t *holder = bt_index_at(&w->holders, holder_key(&model->ranks[op->rank], vstages[k]));
      if (holder == NULL) return false;
      if (*holder == BT_NO_INDEX) *holder = op->rank;
      if (*holder != op->rank) *holder = AMBIGUOUS;
    }
  }
  return true;
}

/* ---- what the ops of a rank need and make ---- */

static bool add_use(work *w, int32_t index, uint8_t half, bool receive) {
  const bt_model *model = w->model;
  const bt_model_op *op = &model->ops[index];
  int32_t vstage = op->kind == BT_FB && half == BACKWARD ? op->vstage_b : op->vstage;
  int32_t other = vstage + ((half == FORWARD) == receive ? -1 : 1);
  if (vstage < 0 || other < 0 || other >= model->virtual_stages) return true;
  int32_t peer = bt_index_find(&w->holders, holder_key(&model->ranks[op->rank], other));
  if (peer < 0 || peer == op->rank) return true;
  if (!bt_array_reserve(&w->uses, &w->use_capacity, w->use_count + 1, sizeof *w->uses)) return false;
  w->uses[w->use_count++] = (use){peer, index, receive, half};
  return true;
}

static bool add_uses(work *w, const bt_model_rank *rank) {
  w->use_count = 0;
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    const bt_model_op *op = &w->model->ops[i];
    bool fine = true;
    if (bt_kind_has_forward(op->kind)) fine = add_use(w, i, FORWARD, true) && add_use(w, i, FORWARD, false);
    if (fine && bt_kind_has_backward(op->kind)) fine = add_use(w, i, BACKWARD, true) && add_use(w, i, BACKWARD, false);
    if (!fine) return false;
  }
  return true;
}

static int compare_link(int32_t peer_a, bool receive_a, int32_t peer_b, bool receive_b) {
  if (peer_a != peer_b) return peer_a < peer_b ? -1 : 1;
  return receive_a - receive_b;
}

static int compare_uses(const void *left, const void *right) {
  const use *a = left;
  const use *b = right;
  int order = compare_link(a->peer, a->receive, b->peer, b->receive);
  if (order != 0) return order;
  if (a->op != b->op) return a->op < b->op ? -1 : 1;
  return a->half - b->half;
}

static int compare_entries(const void *left, const void *right) {
  const entry *a = left;
  const entry *b = right;
  int order = compare_link(a->peer, a->receive, b->peer, b->receive);
  if (order == 0) order = (a->number > b->number) - (a->number < b->number);
  return order != 0 ? order : (a->message > b->message) - (a->message < b->message);
}

static int compare_messages(const void *left, const void *right) {
  const entry *a = left;
  const entry *b = right;
  return (a->message > b->message) - (a->message < b->message);
}

/* Messages of a link, in the order of their numbers: that is the order in time, unless they are of several communicators. */
static void order_link(const bt_model *model, entry *entries, size_t count) {
  bool one = true;
  for (size_t i = 0; i < count && one; i++)
    one = model->p2p[entries[i].message].group == model->p2p[entries[0].message].group && entries[i].number >= 0;
  if (!one) qsort(entries, count, sizeof *entries, compare_messages);
}

static void add_entries(work *w, const bt_model_rank *rank) {
  w->entry_count = 0;
  for (int32_t i = rank->p2p.first; i < rank->p2p.first + rank->p2p.count; i++) {
    const bt_model_p2p *p2p = &w->model->p2p[i];
    if (p2p->microbatch >= 0 || p2p->peer == BT_NO_INDEX) continue;
    w->entries[w->entry_count++] = (entry){p2p->peer, i, p2p->sequence, bt_code_is_receive(p2p->kind)};
  }
}

/* ---- one with the other ---- */

static bool fits(const bt_model *model, const bt_model_p2p *p2p, const use *of) {
  const bt_model_op *op = &model->ops[of->op];
  bool plain = p2p->kind == BT_SEND || p2p->kind == BT_RECV;
  bool forward = p2p->kind == BT_SEND_F || p2p->kind == BT_RECV_F;
  if (!plain && forward != (of->half == FORWARD)) return false;
  if (model->gpu && (p2p->flags & op->flags & BT_FLAG_GPU_TIMED) == 0) return true; /* times say nothing */
  if (!of->receive) return p2p->start >= op->end - clock_slack;
  bool bounded = (p2p->flags & BT_FLAG_GROUPED) != 0; /* its own end may lie before */
  return (bounded ? p2p->start : p2p->end) <= op->start + clock_slack;
}

/* The n-th message is of the n-th use, if that can be. */
static bool assign(work *w, const entry *entries, size_t entry_count, const use *uses, size_t use_count) {
  if (entry_count != use_count) return false;
  for (size_t i = 0; i < entry_count; i++) {
    if (!fits(w->model, &w->model->p2p[entries[i].message], &uses[i])) return false;
  }
  for (size_t i = 0; i < entry_count; i++) {
    bool before = i > 0 && uses[i - 1].op == uses[i].op; /* both halves of an FB: which message is which? */
    bool behind = i + 1 < use_count && uses[i + 1].op == uses[i].op;
    if (!before && !behind) w->found[entries[i].message] = uses[i];
  }
  return true;
}

/* Each step by itself: one that lost a message leaves the others alone. */
static void assign_steps(work *w, const bt_model_rank *rank, const entry *entries, size_t entry_count, const use *uses,
                         size_t use_count) {
  const bt_model *model = w->model;
  size_t e = 0;
  size_t u = 0;
  for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++) {
    bool last = v + 1 == rank->visits.first + rank->visits.count;
    int64_t until = last ? INT64_MAX : bt_visit_start(&model->visits[v + 1]);
    while (e < entry_count && model->p2p[entries[e].message].start < bt_visit_start(&model->visits[v]))
      e++;
    while (u < use_count && model->ops[uses[u].op].visit < v)
      u++;
    size_t e_end = e;
    size_t u_end = u;
    while (e_end < entry_count && model->p2p[entries[e_end].message].start < until)
      e_end++;
    while (u_end < use_count && model->ops[uses[u_end].op].visit == v)
      u_end++;
    (void)assign(w, entries + e, e_end - e, uses + u, u_end - u);
    e = e_end;
    u = u_end;
  }
}

static void assign_rank(work *w, const bt_model_rank *rank) {
  if (w->use_count == 0 || w->entry_count == 0) return;
  qsort(w->uses, w->use_count, sizeof *w->uses, compare_uses);
  qsort(w->entries, w->entry_count, sizeof *w->entries, compare_entries);
  size_t u = 0;
  for (size_t from = 0, to; from < w->entry_count; from = to) {
    entry *link = &w->entries[from];
    for (to = from + 1; to < w->entry_count &&
                        compare_link(w->entries[to].peer, w->entries[to].receive, link->peer, link->receive) == 0;)
      to++;
    order_link(w->model, link, to - from);
    while (u < w->use_count && compare_link(w->uses[u].peer, w->uses[u].receive, link->peer, link->receive) < 0)
      u++;
    size_t end = u;
    while (end < w->use_count && compare_link(w->uses[end].peer, w->uses[end].receive, link->peer, link->receive) == 0)
      end++;
    if (end > u && !assign(w, link, to - from, w->uses + u, end - u))
      assign_steps(w, rank, link, to - from, w->uses + u, end - u);
    u = end;
  }
}

/* ---- both sides ---- */

typedef struct story { /* what an op makes of a message: comparable from both sides */
  int32_t microbatch, vstage, step; /* the virtual stage that gets it */
  uint8_t half;
} story;

static story story_of(const bt_model *model, const use *of) {
  const bt_model_op *op = &model->ops[of->op];
  bool second = op->kind == BT_FB && of->half == BACKWARD;
  story told = {second ? op->microbatch_b : op->microbatch, second ? op->vstage_b : op->vstage,
                op->visit == BT_NO_INDEX ? BT_NO_INDEX : model->visits[op->visit].step, of->half};
  if (!of->receive) told.vstage += of->half == FORWARD ? 1 : -1;
  return told;
}

static void tell(bt_model_p2p *p2p, const story *told) {
  bool receive = bt_code_is_receive(p2p->kind);
  bool forward = told->half == FORWARD;
  p2p->kind = (uint8_t)(receive ? (forward ? BT_RECV_F : BT_RECV_B) : (forward ? BT_SEND_F : BT_SEND_B));
  p2p->microbatch = told->microbatch;
  p2p->vstage = receive ? told->vstage : told->vstage + (forward ? -1 : 1);
}

static bool equal(const story *a, const story *b) {
  return a->microbatch == b->microbatch && a->vstage == b->vstage && a->step == b->step && a->half == b->half;
}

static void tell_all(work *w) {
  bt_model *model = w->model;
  for (int32_t i = 0; i < (int32_t)model->p2p_count; i++) {
    bt_model_p2p *p2p = &model->p2p[i];
    int32_t other = p2p->match;
    if (p2p->microbatch >= 0 || w->found[i].op == BT_NO_INDEX) continue;
    story told = story_of(model, &w->found[i]);
    if (other != BT_NO_INDEX && w->found[other].op != BT_NO_INDEX) {
      story its = story_of(model, &w->found[other]);
      if (!equal(&told, &its)) continue;
    }
    tell(p2p, &told);
    if (other != BT_NO_INDEX && model->p2p[other].microbatch < 0) tell(&model->p2p[other], &told);
  }
}

static void note_unknown(bt_model *model) {
  int64_t unknown = 0;
  for (size_t i = 0; i < model->p2p_count; i++)
    unknown +=
        model->p2p[i].microbatch < 0 && model->p2p[i].peer != BT_NO_INDEX && !bt_is_within_stage(model, &model->p2p[i]);
  if (unknown > 0) {
    bt_account_warn(model->out, "unknown_messages", unknown,
                    "%lld messages do not say which op they are of, and their order does not tell", (long long)unknown);
  }
}

bt_status bt_model_derive(bt_model *model) {
  size_t silent = 0;
  for (size_t i = 0; i < model->p2p_count; i++)
    silent += model->p2p[i].microbatch < 0;
  if (silent == 0) return BT_OK;
  work w = {.model = model,
            .found = malloc(model->p2p_count * sizeof *w.found),
            .entries = malloc(model->p2p_count * sizeof *w.entries)};
  bool fine = w.found != NULL && w.entries != NULL && find_holders(&w);
  for (size_t i = 0; fine && i < model->p2p_count; i++)
    w.found[i].op = BT_NO_INDEX;
  for (int32_t r = 0; fine && r < model->rank_count; r++) {
    add_entries(&w, &model->ranks[r]);
    fine = add_uses(&w, &model->ranks[r]);
    if (fine) assign_rank(&w, &model->ranks[r]);
  }
  if (fine) tell_all(&w);
  if (fine) note_unknown(model);
  bt_index_free(&w.holders);
  free(w.uses);
  free(w.found);
  free(w.entries);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
