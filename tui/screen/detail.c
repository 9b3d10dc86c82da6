#include "tui/screen/detail.h"

#include <stdio.h>
#include <string.h>

#include "tui/screen/gantt.h"
#include "tui/screen/text.h"

/* A matching op is near in time: this far it is looked for. */
enum { SEARCH_SPANS = 1 << 16 };

static const bt_track *track_of(const bt_view *view, const bt_block *block) {
  return &view->trace->ranks[block->rank_index].tracks[block->lane];
}

static const bt_span *span_of(const bt_view *view, const bt_block *block) {
  return &track_of(view, block)->spans[block->span];
}

static bt_block make_block(const bt_view *view, size_t rank_index, bt_lane lane, size_t span) {
  const bt_rank *rank = &view->trace->ranks[rank_index];
  const bt_track *track = &rank->tracks[lane];
  int64_t start = bt_view_time(rank, track->spans[span].start);
  return (bt_block){.rank_index = rank_index,
                    .lane = lane,
                    .span = span,
                    .start = start,
                    .end = bt_time_add(start, bt_span_duration(track, &track->spans[span]))};
}

bool bt_detail_at_cursor(const bt_view *view, bt_block *block) {
  const bt_row *row = bt_view_row(view);
  if (row == NULL || view->width == 0) return false;
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  const bt_rank *rank = &view->trace->ranks[row->rank_index];
  size_t span;
  if (!bt_lod_at(bt_lod_of(view->lods, row->rank_index, lane), &rank->tracks[lane],
                 bt_raw_time(rank, view->cursor.time), &span)) {
    return false;
  }
  *block = make_block(view, row->rank_index, lane, span);
  return rank->tracks[lane].spans[span].kind != BT_GATE;
}

/* The bubble under the cursor: its ends on the aligned clock, INT64_MIN and INT64_MAX where it is open. */
static bool bubble_at_cursor(const bt_view *view, const bt_row *row, int64_t *from, int64_t *to) {
  const bt_rank *rank = &view->trace->ranks[row->rank_index];
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  if (!bt_lod_gap_at(bt_lod_of(view->lods, row->rank_index, lane), &rank->tracks[lane],
                     bt_raw_time(rank, view->cursor.time), from, to)) {
    return false;
  }
  if (*from != INT64_MIN) *from = bt_view_time(rank, *from);
  if (*to != INT64_MAX) *to = bt_view_time(rank, *to);
  return true;
}

bool bt_detail_after_bubble(const bt_view *view, bt_block *block) {
  const bt_row *row = bt_view_row(view);
  int64_t from, to;
  size_t next;
  if (row == NULL || view->width == 0 || !bubble_at_cursor(view, row, &from, &to) || to >= view->last) return false;
  const bt_rank *rank = &view->trace->ranks[row->rank_index];
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  if (!bt_lod_at(bt_lod_of(view->lods, row->rank_index, lane), &rank->tracks[lane], bt_raw_time(rank, to), &next)) {
    return false;
  }
  *block = make_block(view, row->rank_index, lane, next);
  return true;
}

/* --- matching ops ------------------------------------------------------------------------------------------------------- */

typedef struct wanted {
  bool forward; /* F of the microbatch, otherwise its backward */
  int32_t microbatch, vstage;
} wanted;

static bool is_forward_of(const bt_track *track, const bt_span *span, const wanted *w, int32_t *chunk) {
  const bt_span_more *more = bt_span_details(track, span);
  if (w->forward) {
    *chunk = span->chunk;
    return (span->kind == BT_F || span->kind == BT_FB) && span->microbatch == w->microbatch;
  }
  if (span->kind == BT_FB && more != NULL) {
    *chunk = more->chunk_b;
    return more->microbatch_b == w->microbatch;
  }
  *chunk = span->chunk;
  return (span->kind == BT_B || span->kind == BT_BW) && span->microbatch == w->microbatch;
}

static bool has_vstage(const bt_rank *rank, int32_t vstage) {
  int32_t chunks = rank->layout.chunks > 0 ? rank->layout.chunks : 1;
  for (int32_t chunk = 0; chunk < chunks && chunk < BT_MAX_CHUNKS; chunk++) {
    if (bt_rank_vstage(rank, chunk) == vstage) return true;
  }
  return false;
}

/* The wanted op that is nearest to `time`, before it or after it. */
static bool find_op(const bt_view *view, const bt_rank *asker, const wanted *w, int64_t time, bool before,
                    bt_block *found) {
  bool any = false;
  for (size_t m = 0; m < view->rows.member_count; m++) {
    size_t rank_index = view->rows.members[m].rank_index;
    const bt_rank *rank = &view->trace->ranks[rank_index];
    if (rank->layout.tp_rank != asker->layout.tp_rank || rank->layout.cp_rank != asker->layout.cp_rank) continue;
    if (!has_vstage(rank, w->vstage)) continue;
    const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
    size_t at = bt_track_lower_bound(track, bt_raw_time(rank, time));
    for (size_t tries = 0; tries < SEARCH_SPANS && (before ? at > 0 : at < track->count); tries++) {
      size_t index = before ? --at : at++;
      int32_t chunk;
      if (!is_forward_of(track, &track->spans[index], w, &chunk) || bt_rank_vstage(rank, chunk) != w->vstage) continue;
      bt_block candidate = make_block(view, rank_index, BT_LANE_COMPUTE, index);
      if (!any || (before ? candidate.start > found->start : candidate.start < found->start)) *found = candidate;
      any = true;
      break;
    }
  }
  return any;
}

/* False: they are of two communicators, which count their messages apart. */
static bool of_one_communicator(const bt_rank *a, uint32_t group_a, const bt_rank *b, uint32_t group_b) {
  uint64_t x = group_a == 0 || group_a > a->group_count ? 0 : a->groups[group_a - 1].identity;
  uint64_t y = group_b == 0 || group_b > b->group_count ? 0 : b->groups[group_b - 1].identity;
  return x == y;
}

/* The send that belongs to a receive (or to what a gate waits for). */
static bool find_send(const bt_view *view, const bt_block *block, unsigned receive, bt_block *found) {
  const bt_rank *own = &view->trace->ranks[block->rank_index];
  const bt_span_more *more = bt_span_details(track_of(view, block), span_of(view, block));
  int64_t sequence = bt_span_sequence(track_of(view, block), span_of(view, block));
  if (more == NULL || !bt_code_is_receive(receive)) return false;
  const bt_rank *peer = bt_trace_find(view->trace, bt_trace_peer(own, more->group, more->peer));
  if (peer == NULL) return false;
  unsigned send = receive == BT_RECV_F ? BT_SEND_F : receive == BT_RECV_B ? BT_SEND_B : BT_SEND;
  const bt_track *track = &peer->tracks[BT_LANE_P2P];
  size_t at = bt_track_lower_bound(track, bt_raw_time(peer, block->end));
  for (size_t tries = 0; tries < SEARCH_SPANS && at > 0; tries++) {
    const bt_span *span = &track->spans[--at];
    const bt_span_more *sent = bt_span_details(track, span);
    if (span->kind != send || sent == NULL || bt_trace_peer(peer, sent->group, sent->peer) != own->rank) continue;
    int64_t number = bt_span_sequence(track, span);
    bool same =
        sequence >= 0 && number >= 0 ? number == sequence : span->microbatch == span_of(view, block)->microbatch;
    if (!same || !of_one_communicator(own, more->group, peer, sent->group)) continue;
    *found = make_block(view, (size_t)(peer - view->trace->ranks), BT_LANE_P2P, at);
    return true;
  }
  return false;
}

bool bt_detail_producer(const bt_view *view, const bt_block *block, bt_block *producer) {
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  const bt_span *span = span_of(view, block);
  const bt_span_more *more = bt_span_details(track_of(view, block), span);
  if (span->kind == BT_GATE) return more != NULL && find_send(view, block, more->on_code, producer);
  if (bt_code_is_p2p(span->kind)) return find_send(view, block, span->kind, producer);
  int32_t vstage = bt_rank_vstage(rank, span->chunk);
  wanted w = {.microbatch = span->microbatch};
  if (span->kind == BT_F || span->kind == BT_FB)
    w = (wanted){true, span->microbatch, vstage - 1};
  else if (span->kind == BT_B || span->kind == BT_BW)
    w = (wanted){false, span->microbatch, vstage + 1};
  else
    return false;
  if (w.microbatch < 0 || w.vstage < 0) return false;
  return find_op(view, rank, &w, block->start, true, producer);
}

bool bt_detail_consumer(const bt_view *view, const bt_block *block, bt_block *consumer) {
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  const bt_span *span = span_of(view, block);
  if (block->lane != BT_LANE_COMPUTE || span->microbatch < 0) return false;
  int32_t vstage = bt_rank_vstage(rank, span->chunk);
  bool forward = span->kind == BT_F || span->kind == BT_FB;
  if (!forward && span->kind != BT_B && span->kind != BT_BW) return false;
  wanted w = {forward, span->microbatch, forward ? vstage + 1 : vstage - 1};
  if (w.vstage >= 0 && find_op(view, rank, &w, block->end, false, consumer)) return true;
  if (!forward) return false;
  w = (wanted){false, span->microbatch, vstage}; /* the last stage turns round */
  return find_op(view, rank, &w, block->end, false, consumer);
}

/* --- the line ------------------------------------------------------------------------------------------------------------ */

static void name_block(const bt_view *view, const bt_block *block, char *out, size_t room, bool place) {
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  const bt_span *span = span_of(view, block);
  const bt_span_more *more = bt_span_details(track_of(view, block), span);
  bt_text_append(out, room, "%s", bt_code_name(span->kind));
  if (more != NULL && more->name > 0 && more->name <= view->trace->name_count) {
    bt_text_append(out, room, " %.40s", view->trace->names[more->name - 1]);
  }
  if (span->microbatch >= 0) bt_text_append(out, room, " mb %d", (int)span->microbatch);
  if (span->kind == BT_FB && more != NULL) bt_text_append(out, room, "+%d", (int)more->microbatch_b);
  if (span->chunk >= 0 && rank->layout.chunks > 1) bt_text_append(out, room, " chunk %d", (int)span->chunk);
  if (place) bt_text_append(out, room, " of stage %d", (int)bt_rank_stage(rank));
}

static int64_t time_base(const bt_view *view, int64_t time) {
  size_t step;
  if (!view->absolute && bt_steps_at(&view->steps, time, &step)) return view->steps.items[step].begin;
  return view->first;
}

static void say_times(const bt_view *view, int64_t start, int64_t end, char *out, size_t room) {
  char range[64], length[32];
  int64_t base = time_base(view, start);
  bt_text_range(range, sizeof range, bt_time_sub(start, base), bt_time_sub(end, base),
                view->theme.utf8 ? "\u2013" : "-");
  bt_text_append(out, room, "%s (%s)", range, bt_text_duration(length, sizeof length, bt_time_sub(end, start)));
}

static void say_fields(const bt_view *view, const bt_block *block, const char *sep, char *out, size_t room) {
  char text[32];
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  const bt_span *span = span_of(view, block);
  const bt_span_more *more = bt_span_details(track_of(view, block), span);
  int32_t other = more != NULL ? bt_trace_peer(rank, more->group, more->peer) : -1;
  if (other >= 0) {
    const bt_rank *peer = bt_trace_find(view->trace, other);
    bool to = bt_code_is_send(span->kind);
    if (peer != NULL)
      bt_text_append(out, room, "%s%s stage %d", sep, to ? "to" : "from", (int)bt_rank_stage(peer));
    else
      bt_text_append(out, room, "%s%s rank %d", sep, to ? "to" : "from", (int)other);
  }
  if (more != NULL && more->group > 0 && more->group <= rank->group_count) {
    const bt_group_info *group = &rank->groups[more->group - 1];
    bt_text_append(out, room, "%s%s group of %d", sep, bt_domain_name(group->domain), (int)group->count);
  }
  if (more != NULL && more->bytes >= 0) {
    bt_text_append(out, room, "%s%s", sep, bt_text_bytes(text, sizeof text, more->bytes));
  }
  if (more != NULL && more->tokens >= 0) {
    bt_text_append(out, room, "%s%s tokens", sep, bt_text_count(text, sizeof text, more->tokens));
  }
  if (span->flags & BT_FLAG_GPU_TIMED) bt_text_append(out, room, "%sGPU time", sep);
  if (span->flags & BT_FLAG_GPU_UNKNOWN) bt_text_append(out, room, "%shost time only", sep);
  if (span->flags & BT_FLAG_GROUPED) bt_text_append(out, room, "%sgrouped launch", sep);
}

/* How long the lane stood still before a block, and for whom. */
static void say_wait(const bt_view *view, const bt_block *block, const char *sep, char *out, size_t room) {
  char text[32];
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  bt_block producer;
  if (!bt_detail_producer(view, block, &producer)) return;
  if (block->lane != BT_LANE_COMPUTE || span_of(view, block)->kind == BT_GATE) {
    bt_text_append(out, room, "%sof ", sep);
    name_block(view, &producer, out, room, true);
    return;
  }
  int64_t from, to, raw = bt_raw_time(rank, block->start);
  const bt_lod *lod = bt_lod_of(view->lods, block->rank_index, block->lane);
  int64_t gap = 0;
  if (bt_lod_gap_at(lod, track_of(view, block), raw - 1, &from, &to) && from != INT64_MIN) {
    from = bt_view_time(rank, from);
    gap = bt_time_sub(block->start, from);
  } else {
    from = block->start;
  }
  int64_t ready = producer.end < block->start ? producer.end : block->start;
  int64_t waited = gap > 0 && ready > from ? bt_time_sub(ready, from) : 0;
  if (waited > 0) {
    bt_text_append(out, room, "%swaited %s for ", sep, bt_text_duration(text, sizeof text, waited));
    name_block(view, &producer, out, room, true);
    if (gap > waited) bt_text_append(out, room, ", then %s", bt_text_duration(text, sizeof text, gap - waited));
  } else if (gap > 0) {
    bt_text_append(out, room, "%sidle %s before, though ", sep, bt_text_duration(text, sizeof text, gap));
    name_block(view, &producer, out, room, true);
    bt_text_append(out, room, " was done");
  } else {
    bt_text_append(out, room, "%safter ", sep);
    name_block(view, &producer, out, room, true);
  }
}

static void say_bubble(const bt_view *view, const bt_row *row, const char *sep, char *out, size_t room) {
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  int64_t from, to;
  if (!bubble_at_cursor(view, row, &from, &to)) return;
  if (from < view->first) from = view->first;
  if (to > view->last) to = view->last;
  bt_text_append(out, room, "%s%sstage %d%s", lane == BT_LANE_COMPUTE ? "bubble" : "idle", sep, (int)row->stage, sep);
  if (from < to) say_times(view, from, to, out, room);
  bt_block after, producer;
  if (lane != BT_LANE_COMPUTE || !bt_detail_after_bubble(view, &after)) return;
  bt_text_append(out, room, "%sthen ", sep);
  name_block(view, &after, out, room, false);
  if (!bt_detail_producer(view, &after, &producer)) return;
  char text[32];
  bt_text_append(out, room, ", which needed ");
  name_block(view, &producer, out, room, true);
  int64_t late = bt_time_sub(after.start, producer.end);
  if (late >= 0) bt_text_append(out, room, " (done %s before)", bt_text_duration(text, sizeof text, late));
}

void bt_detail_line(bt_view *view, char *out, size_t room) {
  out[0] = 0;
  const bt_row *row = bt_view_row(view);
  if (row == NULL || view->width == 0) return;
  const char *sep = view->theme.utf8 ? " \u00b7 " : " - ";
  bt_block block;
  if (!bt_detail_at_cursor(view, &block) || (view->replaying && block.start >= view->clock)) {
    say_bubble(view, row, sep, out, room);
    return;
  }
  name_block(view, &block, out, room, false);
  if (row->members > 1 || row->is_lane) {
    bt_text_append(out, room, "%sstage %d rank %d%s", sep, (int)row->stage,
                   (int)view->trace->ranks[row->rank_index].rank, sep);
  } else {
    bt_text_append(out, room, "%sstage %d%s", sep, (int)row->stage, sep);
  }
  say_times(view, block.start, block.end, out, room);
  if (block.lane == BT_LANE_COMPUTE)
    bt_plan_note(view, view->trace->ranks[row->rank_index].rank, block.start, sep, out, room);
  if (view->note[0] != 0) bt_text_append(out, room, "%s%s", sep, view->note);
  say_wait(view, &block, sep, out, room);
  say_fields(view, &block, sep, out, room);
}
