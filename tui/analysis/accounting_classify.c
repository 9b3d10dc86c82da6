/* Every nanosecond of a rank's interval -> one class, in the order of DESIGN's section 6. */
#include <stdlib.h>

#include "tui/analysis/accounting_model.h"

typedef struct sweep {
  const bt_model *model;
  const bt_model_rank *rank;
  bt_class_fn *deliver;
  void *context;
  int32_t next_op; /* the first pipeline op that does not begin before the gap */
  int32_t collective; /* piece to look at next */
  int32_t send;
} sweep;

static void emit(const sweep *s, bt_class class, int64_t start, int64_t end, int32_t op) {
  if (start < end) s->deliver(s->context, class, start, end, op);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Passes over the collectives that ended before `time`; returns the end of the rank's. */
static int32_t pass_collectives(sweep *s, int64_t time) {
  int32_t last = s->rank->collective_pieces.first + s->rank->collective_pieces.count;
  while (s->collective < last && s->model->collective_pieces[s->collective].end <= time)
    s->collective++;
  return last;
}

/* A collective with its arrivals: waiting, then exposed. */
static void emit_collective(const sweep *s, const bt_model_collective *collective, int64_t start, int64_t end,
                            int32_t op) {
  if (collective->arrived == BT_UNKNOWN) {
    emit(s, BT_CLASS_UNATTRIBUTED, start, end, op);
    return;
  }
  int64_t arrived = most(start, least(collective->arrived, end));
  emit(s, BT_CLASS_COLLECTIVE_WAIT, start, arrived, op);
  emit(s, BT_CLASS_EXPOSED_COLLECTIVE, arrived, end, op);
}

/* What is left of a gap before op n when its data was there: sends that block it, else the host. */
static void emit_rest(sweep *s, int64_t start, int64_t end, int64_t gap_end, int32_t n) {
  const bt_model *model = s->model;
  const bt_model_op *op = &model->ops[n];
  int32_t last = s->rank->send_pieces.first + s->rank->send_pieces.count;
  while (s->send < last && model->send_pieces[s->send].end <= start)
    s->send++;
  bool unknown = op->visit != BT_NO_INDEX && model->visits[op->visit].comm_unknown;
  unknown |= s->rank->host_timed_collectives || s->rank->host_timed_p2p;
  bt_class rest = unknown ? BT_CLASS_UNATTRIBUTED : BT_CLASS_HOST_GAP;
  if (s->rank->gated) {
    int64_t until = most(start, least(op->send_until, end));
    emit(s, BT_CLASS_LATE_RECEIVER, start, until, n);
    start = until;
    rest = BT_CLASS_HOST_GAP;
  }
  for (int32_t k = s->send; !s->rank->gated && k < last && model->send_pieces[k].start < end; k++) {
    const bt_model_piece *piece = &model->send_pieces[k];
    if (model->p2p[piece->index].end > gap_end) continue; /* it went on: nobody waited for it */
    int64_t from = most(start, piece->start);
    emit(s, rest, start, from, n);
    start = most(from, least(piece->end, end));
    emit(s, BT_CLASS_LATE_RECEIVER, from, start, n);
  }
  emit(s, rest, start, end, n);
}

/* From the time on when n's data was there: collectives that n waits for, sends that block it, the host. */
static void emit_ready(sweep *s, int64_t start, int64_t end, int32_t n) {
  const bt_model *model = s->model;
  const bt_model_op *op = &model->ops[n];
  int64_t gap_end = end;
  int32_t last = pass_collectives(s, start);
  int64_t bound = s->rank->gated ? op->collective_until : gap_end;
  for (int32_t k = s->collective; k < last && model->collective_pieces[k].start < end; k++) {
    const bt_model_piece *piece = &model->collective_pieces[k];
    const bt_model_collective *collective = &model->collectives[piece->index];
    if (s->rank->gated ? piece->start >= bound : collective->end > gap_end) continue;
    int64_t from = most(start, piece->start);
    int64_t to = least(piece->end, s->rank->gated ? least(bound, end) : end);
    if (from >= to) continue;
    emit_rest(s, start, from, gap_end, n);
    emit_collective(s, collective, from, to, n);
    start = to;
  }
  emit_rest(s, start, end, gap_end, n);
}

static bt_class dependency_class(const bt_model *model, int64_t gap_start, const bt_model_op *op) {
  if (op->visit == BT_NO_INDEX) return BT_CLASS_UNATTRIBUTED;
  const bt_model_visit *visit = &model->visits[op->visit];
  if (visit->first_b == BT_UNKNOWN ? op->start <= visit->first : op->start <= visit->first_b) return BT_CLASS_FILL;
  if (visit->last_f != BT_UNKNOWN && gap_start >= visit->last_f) return BT_CLASS_DRAIN;
  return BT_CLASS_STEADY_WAIT;
}

/* The gap [start, end) of the pipeline part, before pipeline op n. */
static void emit_gap(sweep *s, int64_t start, int64_t end, int32_t n) {
  const bt_model_op *op = &s->model->ops[n];
  int64_t time = start;
  if (op->e_known) {
    int64_t until = most(time, least(op->e, end));
    emit(s, dependency_class(s->model, start, op), time, until, n);
    time = until;
  } else {
    int64_t until = op->r_known ? most(time, least(op->r, end)) : end;
    emit(s, BT_CLASS_UNATTRIBUTED, time, until, n);
    time = until;
  }
  if (op->r_known) {
    int64_t until = most(time, least(op->r, end));
    emit(s, BT_CLASS_EXPOSED_P2P, time, until, n);
    time = until;
  } else {
    emit(s, BT_CLASS_UNATTRIBUTED, time, end, n);
    time = end;
  }
  if (time < end) emit_ready(s, time, end, n);
}

/* After the rank's last op of a part of the pipeline, while others still work. */
static void emit_drain(sweep *s, int64_t start, int64_t end) {
  const bt_model *model = s->model;
  int32_t last = pass_collectives(s, start);
  for (int32_t k = s->collective; k < last && model->collective_pieces[k].start < end; k++) {
    const bt_model_piece *piece = &model->collective_pieces[k];
    if (!bt_is_barrier(&model->collectives[piece->index])) continue;
    int64_t from = most(start, piece->start);
    emit(s, BT_CLASS_DRAIN, start, from, BT_NO_INDEX);
    start = most(from, least(piece->end, end));
    emit(s, BT_CLASS_TAIL_SYNC, from, start, BT_NO_INDEX);
  }
  emit(s, BT_CLASS_DRAIN, start, end, BT_NO_INDEX);
}

static void emit_tail(sweep *s, int64_t start, int64_t end) {
  const bt_model *model = s->model;
  int32_t last = pass_collectives(s, start);
  for (int32_t k = s->collective; k < last && model->collective_pieces[k].start < end; k++) {
    const bt_model_piece *piece = &model->collective_pieces[k];
    int64_t from = most(start, piece->start);
    int64_t to = most(from, least(piece->end, end));
    emit(s, BT_CLASS_BETWEEN_STEPS, start, from, BT_NO_INDEX);
    emit_collective(s, &model->collectives[piece->index], from, to, BT_NO_INDEX);
    start = to;
  }
  emit(s, BT_CLASS_BETWEEN_STEPS, start, end, BT_NO_INDEX);
}

/* The gap [start, end) between ops, cut at the borders of the pipeline part. */
static void sweep_gap(sweep *s, int64_t start, int64_t end, const bt_model_window *parts, int32_t part_count,
                      int32_t *part) {
  const bt_model *model = s->model;
  if (!model->aligned) {
    emit(s, BT_CLASS_UNATTRIBUTED, start, end, BT_NO_INDEX);
    return;
  }
  int32_t last = s->rank->ops.first + s->rank->ops.count;
  while (s->next_op < last &&
         (model->ops[s->next_op].start < end || !bt_code_is_pipeline_op(model->ops[s->next_op].kind))) {
    s->next_op++;
  }
  while (start < end) {
    while (*part < part_count && parts[*part].end <= start)
      (*part)++;
    bool inside = *part < part_count && parts[*part].start <= start;
    int64_t until = end;
    if (*part < part_count) until = least(end, inside ? parts[*part].end : parts[*part].start);
    if (!inside) {
      emit_tail(s, start, until);
    } else if (s->next_op < last && model->ops[s->next_op].start < parts[*part].end) {
      emit_gap(s, start, until, s->next_op);
    } else {
      emit_drain(s, start, until);
    }
    start = until;
  }
}

void bt_model_classify(const bt_model *model, int32_t rank, const bt_model_window *parts, int32_t part_count,
                       bt_class_fn *deliver, void *context) {
  const bt_model_rank *r = &model->ranks[rank];
  sweep s = {.model = model,
             .rank = r,
             .deliver = deliver,
             .context = context,
             .next_op = r->ops.first,
             .collective = r->collective_pieces.first,
             .send = r->send_pieces.first};
  int64_t time = model->start;
  int32_t part = 0;
  for (int32_t i = r->segments.first; i < r->segments.first + r->segments.count; i++) {
    const bt_model_segment *segment = &model->segments[i];
    if (segment->end <= time) continue;
    if (segment->start >= model->end) break;
    if (segment->start > time) sweep_gap(&s, time, segment->start, parts, part_count, &part);
    emit(&s, (bt_class)segment->class, most(segment->start, time), least(segment->end, model->end), segment->op);
    time = most(time, segment->end);
  }
  if (time < model->end) sweep_gap(&s, time, model->end, parts, part_count, &part);
}

static int compare_window(const void *a, const void *b) {
  const bt_model_window *x = a;
  const bt_model_window *y = b;
  return (x->start > y->start) - (x->start < y->start);
}

int32_t bt_model_parts(const bt_model *model, int32_t replica, bool rated, bt_model_window *parts) {
  size_t count = 0;
  for (int32_t i = 0; i < model->step_count; i++) {
    const bt_model_step *step = &model->steps[i];
    bt_model_window window = *bt_model_window_of(model, replica, i);
    window.start = most(window.start, model->start);
    window.end = least(window.end, model->end);
    if ((rated ? step->rated : step->reported) && window.start < window.end) parts[count++] = window;
  }
  qsort(parts, count, sizeof *parts, compare_window);
  int32_t joined = 0;
  for (size_t i = 0; i < count; i++) {
    if (joined > 0 && parts[i].start <= parts[joined - 1].end) {
      parts[joined - 1].end = most(parts[joined - 1].end, parts[i].end);
    } else {
      parts[joined++] = parts[i];
    }
  }
  return joined;
}
