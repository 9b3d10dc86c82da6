/* Messages: per link, and per stage how much of their time was waiting and how much transfer. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

enum { RECENT = 16 };

static bool comparable(const bt_model *model, const bt_model_p2p *p2p) {
  return !model->gpu || (p2p->flags & BT_FLAG_GPU_TIMED) != 0;
}

static bool in_interval(const bt_model *model, const bt_model_p2p *p2p) {
  return p2p->end > model->start && p2p->start < model->end;
}

/* --- links ----------------------------------------------------------------------------------------------------------- */

static int compare_link(const void *a, const void *b) {
  const bt_account_link *x = a;
  const bt_account_link *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->to > y->to) - (x->to < y->to);
}

/* BT_UNKNOWN when one is not known, or when the sum (of bytes, which may be anything) does not fit. */
static int64_t sum_known(int64_t a, int64_t b) {
  int64_t sum;
  return a == BT_UNKNOWN || b == BT_UNKNOWN || __builtin_add_overflow(a, b, &sum) ? BT_UNKNOWN : sum;
}

static bt_account_link link_of(const bt_model *model, const bt_model_p2p *in) {
  bt_account_link link = {.from = model->ranks[in->peer].stage, .to = model->ranks[in->rank].stage, .messages = 1};
  int64_t bytes = in->bytes >= 0 || in->match == BT_NO_INDEX ? in->bytes : model->p2p[in->match].bytes;
  link.bytes = bytes >= 0 ? bytes : BT_UNKNOWN;
  link.wait_ns = BT_UNKNOWN;
  link.transfer_ns = BT_UNKNOWN;
  if (in->transfer != BT_UNKNOWN && model->aligned) {
    int64_t duration = in->end - in->start;
    link.transfer_ns = in->transfer < duration ? in->transfer : duration;
    link.wait_ns = duration - link.transfer_ns;
  }
  return link;
}

static void merge(bt_account_link *into, const bt_account_link *one) {
  into->messages += one->messages;
  into->bytes = sum_known(into->bytes, one->bytes);
  into->wait_ns = sum_known(into->wait_ns, one->wait_ns);
  into->transfer_ns = sum_known(into->transfer_ns, one->transfer_ns);
}

/* The same link among the last few entries: a rank's messages come from few others. NULL: not there. */
static bt_account_link *recent(bt_account_link *links, size_t count, const bt_account_link *wanted) {
  for (size_t i = count; i-- > 0 && i + RECENT >= count;) {
    if (compare_link(&links[i], wanted) == 0) return &links[i];
  }
  return NULL;
}

static bool add_links(bt_model *model) {
  bt_accounting *out = model->out;
  size_t capacity = 0;
  size_t count = 0;
  for (size_t i = 0; i < model->p2p_count; i++) {
    const bt_model_p2p *in = &model->p2p[i];
    if (!bt_code_is_receive(in->kind) || in->peer == BT_NO_INDEX || !in_interval(model, in) ||
        bt_is_within_stage(model, in))
      continue;
    bt_account_link one = link_of(model, in);
    bt_account_link *known = recent(out->links, count, &one);
    if (known != NULL) {
      merge(known, &one);
      continue;
    }
    if (!bt_array_reserve(&out->links, &capacity, count + 1, sizeof *out->links)) return false;
    out->links[count++] = one;
  }
  if (count > 0) qsort(out->links, count, sizeof *out->links, compare_link);
  for (size_t i = 0; i < count; i++) {
    bt_account_link one = out->links[i];
    bt_account_link *last = out->link_count > 0 ? &out->links[out->link_count - 1] : NULL;
    if (last != NULL && compare_link(last, &one) == 0) {
      merge(last, &one);
    } else {
      out->links[out->link_count++] = one;
    }
  }
  return true;
}

/* --- stages ---------------------------------------------------------------------------------------------------------- */

static int compare_piece(const void *a, const void *b) {
  const bt_model_piece *x = a;
  const bt_model_piece *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  return (x->end < y->end) - (x->end > y->end);
}

/* Time in which at least one of the spans is active, clipped to the interval. */
static int64_t union_of(const bt_model *model, bt_model_piece *spans, size_t count) {
  bool sorted = true; /* they mostly are */
  for (size_t i = 1; i < count && sorted; i++)
    sorted = spans[i - 1].start <= spans[i].start;
  if (!sorted) qsort(spans, count, sizeof *spans, compare_piece);
  int64_t total = 0;
  int64_t time = model->start;
  for (size_t i = 0; i < count; i++) {
    int64_t start = spans[i].start > time ? spans[i].start : time;
    int64_t end = spans[i].end < model->end ? spans[i].end : model->end;
    if (end <= start) continue;
    total += end - start;
    time = end;
  }
  return total;
}

static void add_rank(bt_model *model, const bt_model_rank *rank, bt_model_piece *spans) {
  bt_account_stage *stage = &model->out->stages[rank->row];
  size_t active = 0;
  int64_t unmatched = 0;
  bool timed = true;
  for (int32_t i = rank->p2p.first; i < rank->p2p.first + rank->p2p.count; i++) {
    const bt_model_p2p *p2p = &model->p2p[i];
    if (!in_interval(model, p2p) || bt_is_within_stage(model, p2p)) continue;
    stage->p2p_bytes = sum_known(stage->p2p_bytes, p2p->bytes >= 0 ? p2p->bytes : BT_UNKNOWN);
    spans[active++] = (bt_model_piece){p2p->start, p2p->end, i};
    unmatched += p2p->match == BT_NO_INDEX;
    timed &= comparable(model, p2p);
  }
  if (unmatched > 0) {
    bt_account_warn(model->out, "unmatched_messages", unmatched,
                    "sends or receives without their other half: their waiting and transfer are not known");
  }
  stage->p2p_ns = sum_known(stage->p2p_ns, timed ? union_of(model, spans, active) : BT_UNKNOWN);
  size_t moving = 0;
  for (int32_t i = rank->p2p.first; i < rank->p2p.first + rank->p2p.count; i++) {
    const bt_model_p2p *p2p = &model->p2p[i];
    if (p2p->match == BT_NO_INDEX || p2p->transfer == BT_UNKNOWN || !comparable(model, p2p)) continue;
    if (bt_is_within_stage(model, p2p)) continue;
    int64_t start = model->p2p[p2p->match].start > p2p->start ? model->p2p[p2p->match].start : p2p->start;
    int64_t end = start + p2p->transfer < p2p->end ? start + p2p->transfer : p2p->end;
    if (start < end) spans[moving++] = (bt_model_piece){start, end, i};
  }
  bool known = timed && unmatched == 0 && model->aligned;
  stage->p2p_transfer_ns = sum_known(stage->p2p_transfer_ns, known ? union_of(model, spans, moving) : BT_UNKNOWN);
  stage->p2p_wait_ns = stage->p2p_transfer_ns == BT_UNKNOWN ? BT_UNKNOWN : stage->p2p_ns - stage->p2p_transfer_ns;
}

bt_status bt_model_links(bt_model *model) {
  size_t most = 1;
  for (int32_t i = 0; i < model->rank_count; i++) {
    if ((size_t)model->ranks[i].p2p.count > most) most = (size_t)model->ranks[i].p2p.count;
  }
  bt_model_piece *spans = malloc(most * sizeof *spans);
  bool fine = spans != NULL && add_links(model);
  for (int32_t i = 0; fine && i < model->rank_count; i++)
    add_rank(model, &model->ranks[i], spans);
  free(spans);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
