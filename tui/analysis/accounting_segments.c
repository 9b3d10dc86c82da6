/* Overlapping spans -> pieces that do not overlap: which op runs when, which collective is active when. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

size_t bt_flatten(const bt_model_piece *spans, size_t count, bt_model_piece *pieces, int32_t *stack) {
  size_t used = 0;
  size_t depth = 0;
  int64_t time = INT64_MIN;
  for (size_t next = 0; next < count || depth > 0;) {
    int64_t until = next < count ? spans[next].start : INT64_MAX;
    while (depth > 0 && time < until) { /* the latest begun runs until it ends or another begins */
      const bt_model_piece *top = &spans[stack[depth - 1]];
      int64_t end = top->end < until ? top->end : until;
      if (end > time) {
        bool goes_on = used > 0 && pieces[used - 1].index == top->index && pieces[used - 1].end == time;
        if (goes_on) {
          pieces[used - 1].end = end;
        } else {
          pieces[used++] = (bt_model_piece){time, end, top->index};
        }
        time = end;
      }
      if (top->end <= time) depth--;
    }
    if (next == count) break;
    time = until;
    stack[depth++] = (int32_t)next++;
  }
  return used;
}

static bt_class class_of(unsigned kind) {
  static const uint8_t classes[] = {[BT_F] = BT_CLASS_F,
                                    [BT_B] = BT_CLASS_B,
                                    [BT_W] = BT_CLASS_W,
                                    [BT_BW] = BT_CLASS_BW,
                                    [BT_FB] = BT_CLASS_FB,
                                    [BT_RECOMPUTE] = BT_CLASS_RECOMPUTE,
                                    [BT_OPTIMIZER] = BT_CLASS_OPTIMIZER,
                                    [BT_OTHER] = BT_CLASS_OTHER};
  return bt_code_is_compute(kind) ? (bt_class)classes[kind] : BT_CLASS_OTHER;
}

/* Whether a collective inside an op runs on the op's own stream, so that nothing is computed beside it. Where the streams
 * are not told, tensor and context parallel collectives do, others have a stream of their own; an FB op overlaps its
 * communication by design. */
static bool on_own_stream(const bt_model_op *op, const bt_model_collective *collective) {
  if (((op->flags ^ collective->flags) & BT_FLAG_GPU_TIMED) != 0) return false;
  if (op->kind == BT_FB) return false;
  if (op->stream >= 0 && collective->stream >= 0) return op->stream == collective->stream;
  return collective->domain == BT_DOMAIN_TP || collective->domain == BT_DOMAIN_CP || collective->domain == BT_DOMAIN_EP;
}

static bool push_segment(bt_model *model, int64_t start, int64_t end, int32_t op, bt_class class, int64_t *busy) {
  if (start >= end) return true;
  bt_model_segment *segment = BT_PUSH(model, segments);
  if (segment == NULL) return false;
  *segment = (bt_model_segment){start, end, *busy, op, (uint8_t) class};
  if (class < BT_CLASS_COMPUTE_LIMIT) *busy += end - start;
  return true;
}

/* A collective that was cut out: waiting until its last member arrived. */
static bool push_collective(bt_model *model, int64_t start, int64_t end, int32_t op,
                            const bt_model_collective *collective, int64_t *busy) {
  int64_t arrived = collective->arrived;
  if (arrived == BT_UNKNOWN) return push_segment(model, start, end, op, BT_CLASS_UNATTRIBUTED, busy);
  if (arrived < start) arrived = start;
  if (arrived > end) arrived = end;
  return push_segment(model, start, arrived, op, BT_CLASS_COLLECTIVE_WAIT, busy) &&
         push_segment(model, arrived, end, op, BT_CLASS_EXPOSED_COLLECTIVE, busy);
}

/* The pieces of a rank's ops, with the collectives on their own stream cut out. */
static bool cut_ops(bt_model *model, bt_model_rank *rank, const bt_model_piece *pieces, size_t count) {
  rank->segments.first = (int32_t)model->segments_count;
  int64_t busy = 0;
  int32_t c = rank->collective_pieces.first;
  int32_t c_end = c + rank->collective_pieces.count;
  for (size_t i = 0; i < count; i++) {
    const bt_model_op *op = &model->ops[pieces[i].index];
    bt_class class = class_of(op->kind);
    int64_t time = pieces[i].start;
    while (c < c_end && model->collective_pieces[c].end <= time)
      c++;
    for (int32_t k = c; k < c_end && model->collective_pieces[k].start < pieces[i].end; k++) {
      bt_model_piece piece = model->collective_pieces[k];
      const bt_model_collective *collective = &model->collectives[piece.index];
      if (!on_own_stream(op, collective)) continue;
      if (piece.start < time) piece.start = time;
      if (piece.end > pieces[i].end) piece.end = pieces[i].end;
      if (!push_segment(model, time, piece.start, pieces[i].index, class, &busy)) return false;
      if (!push_collective(model, piece.start, piece.end, pieces[i].index, collective, &busy)) return false;
      time = piece.end;
    }
    if (!push_segment(model, time, pieces[i].end, pieces[i].index, class, &busy)) return false;
  }
  rank->segments.count = (int32_t)model->segments_count - rank->segments.first;
  return true;
}

typedef struct workspace { /* reused for every rank */
  bt_model_piece *spans, *pieces;
  int32_t *stack;
} workspace;

static bool flatten_ops(bt_model *model, bt_model_rank *rank, workspace *work) {
  size_t count = (size_t)rank->ops.count;
  for (size_t i = 0; i < count; i++) {
    const bt_model_op *op = &model->ops[(size_t)rank->ops.first + i];
    work->spans[i] = (bt_model_piece){op->start, op->end, rank->ops.first + (int32_t)i};
  }
  return cut_ops(model, rank, work->pieces, bt_flatten(work->spans, count, work->pieces, work->stack));
}

static bool flatten_collectives(bt_model *model, bt_model_rank *rank, workspace *work) {
  size_t count = 0;
  for (int32_t i = rank->collectives.first; i < rank->collectives.first + rank->collectives.count; i++) {
    const bt_model_collective *collective = &model->collectives[i];
    if (model->gpu && (collective->flags & BT_FLAG_GPU_TIMED) == 0) continue;
    work->spans[count++] = (bt_model_piece){collective->start, collective->end, i};
  }
  rank->collective_pieces.first = (int32_t)model->collective_pieces_count;
  size_t pieces = bt_flatten(work->spans, count, work->pieces, work->stack);
  for (size_t i = 0; i < pieces; i++) {
    bt_model_piece *piece = BT_PUSH(model, collective_pieces);
    if (piece == NULL) return false;
    *piece = work->pieces[i];
  }
  rank->collective_pieces.count = (int32_t)pieces;
  return true;
}

static bool flatten_sends(bt_model *model, bt_model_rank *rank, workspace *work) {
  size_t count = 0;
  for (int32_t i = rank->p2p.first; i < rank->p2p.first + rank->p2p.count; i++) {
    const bt_model_p2p *p2p = &model->p2p[i];
    if (!bt_code_is_send(p2p->kind)) continue;
    if (model->gpu && (p2p->flags & BT_FLAG_GPU_TIMED) == 0) continue;
    work->spans[count++] = (bt_model_piece){p2p->start, p2p->end, i};
  }
  rank->send_pieces.first = (int32_t)model->send_pieces_count;
  size_t pieces = bt_flatten(work->spans, count, work->pieces, work->stack);
  for (size_t i = 0; i < pieces; i++) {
    bt_model_piece *piece = BT_PUSH(model, send_pieces);
    if (piece == NULL) return false;
    *piece = work->pieces[i];
  }
  rank->send_pieces.count = (int32_t)pieces;
  return true;
}

bt_status bt_model_segments(bt_model *model) {
  size_t most = 1;
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_model_rank *rank = &model->ranks[i];
    size_t counts[] = {(size_t)rank->ops.count, (size_t)rank->p2p.count, (size_t)rank->collectives.count};
    for (size_t k = 0; k < 3; k++) {
      if (counts[k] > most) most = counts[k];
    }
  }
  workspace work = {malloc(most * sizeof *work.spans), malloc(most * 2 * sizeof *work.pieces),
                    malloc(most * sizeof *work.stack)};
  bool fine = work.spans != NULL && work.pieces != NULL && work.stack != NULL;
  for (int32_t i = 0; fine && i < model->rank_count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    fine =
        flatten_collectives(model, rank, &work) && flatten_sends(model, rank, &work) && flatten_ops(model, rank, &work);
  }
  free(work.spans);
  free(work.pieces);
  free(work.stack);
  return fine ? BT_OK : BT_ERR_NOMEM;
}

int64_t bt_model_busy_until(const bt_model *model, int32_t rank, int64_t time) {
  const bt_model_slice *slice = &model->ranks[rank].segments;
  int32_t low = slice->first;
  int32_t high = slice->first + slice->count;
  while (low < high) { /* the first segment that begins at or after `time` */
    int32_t middle = low + (high - low) / 2;
    if (model->segments[middle].start < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == slice->first) return 0;
  const bt_model_segment *last = &model->segments[low - 1];
  if (last->class >= BT_CLASS_COMPUTE_LIMIT) return last->busy_before;
  return last->busy_before + (time < last->end ? time : last->end) - last->start;
}
