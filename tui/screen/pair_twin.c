/* The op under the cursor in the other run. */
#include "tui/screen/detail.h"
#include "tui/screen/pair_private.h"

/* Backwards are compared whether they are whole or not. */
static bool is_same_kind(unsigned a, unsigned b) {
  bool backward = (a == BT_B || a == BT_BW) && (b == BT_B || b == BT_BW);
  return a == b || backward;
}

static bool is_same_op(const bt_rank *rank, const bt_span *span, const bt_rank *as_rank, const bt_span *as) {
  return is_same_kind(span->kind, as->kind) && span->microbatch == as->microbatch &&
         bt_rank_vstage(rank, span->chunk) == bt_rank_vstage(as_rank, as->chunk);
}

/* The op of `led` that `block` of the other run is, the nearest in time. */
static bool find_twin(bt_view *led, const bt_rank *own, const bt_span *span, int64_t time) {
  enum { FARTHEST = 4096 };
  bool found = false;
  int64_t best = INT64_MAX;
  for (size_t m = 0; m < led->rows.member_count; m++) {
    const bt_rank *rank = &led->trace->ranks[led->rows.members[m].rank_index];
    if (rank->layout.tp_rank != own->layout.tp_rank || rank->layout.cp_rank != own->layout.cp_rank) continue;
    const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
    size_t middle = bt_track_lower_bound(track, bt_raw_time(rank, time));
    for (size_t i = middle > FARTHEST ? middle - FARTHEST : 0; i < track->count && i < middle + FARTHEST; i++) {
      if (!is_same_op(rank, &track->spans[i], own, span)) continue;
      int64_t far = bt_time_sub(bt_view_time(rank, track->spans[i].start), time);
      if (far < 0) far = -far;
      if (far >= best) continue;
      best = far;
      found = true;
      led->twin_rank = led->rows.members[m].rank_index;
      led->twin_span = i;
    }
  }
  return found;
}

/* "in B 3.2 ms later, 0.4 ms longer" */
static void say_twin(bt_view *focus, const bt_view *led, const bt_block *block, int64_t time) {
  const bt_rank *rank = &led->trace->ranks[led->twin_rank];
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  const bt_span *span = &track->spans[led->twin_span];
  int64_t later = bt_time_sub(bt_view_time(rank, span->start), time);
  int64_t longer = bt_time_sub(bt_span_duration(track, span), bt_time_sub(block->end, block->start));
  char a[32], b[32];
  bt_text_append(focus->note, sizeof focus->note, "in %c %s%s, %s%s", led->sign,
                 later == 0 ? "at the same time" : bt_text_duration(a, sizeof a, later < 0 ? -later : later),
                 later == 0  ? ""
                 : later < 0 ? " earlier"
                             : " later",
                 longer == 0 ? "as long" : bt_text_duration(b, sizeof b, longer < 0 ? -longer : longer),
                 longer == 0  ? ""
                 : longer < 0 ? " shorter"
                              : " longer");
}

void bt_pair_note_twin(bt_view *view) {
  bt_view *focus = bt_pair_focus(view), *led = bt_pair_opposite(view, focus);
  focus->twinned = led->twinned = false;
  focus->note[0] = led->note[0] = 0;
  bt_block block;
  if (!bt_pair_has_data(led) || focus->parked || !bt_detail_at_cursor(focus, &block) || block.lane != BT_LANE_COMPUTE)
    return;
  const bt_rank *own = &focus->trace->ranks[block.rank_index];
  const bt_span *span = &own->tracks[BT_LANE_COMPUTE].spans[block.span];
  int64_t time = bt_pair_across(view, focus, block.start);
  if (span->microbatch < 0) return;
  led->twinned = find_twin(led, own, span, time);
  if (led->twinned) say_twin(focus, led, &block, time);
}
