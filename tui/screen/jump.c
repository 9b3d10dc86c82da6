/* Jumps: from block to block, from bubble to bubble, to what a block waited for. */
#include "tui/screen/detail.h"
#include "tui/screen/navigate.h"
#include "tui/screen/search.h"
#include "tui/screen/text.h"

static void go_back(bt_view *view, bool forth) {
  if (!bt_navigate_history(view, forth))
    bt_view_say(view, forth ? "nothing was taken back" : "no jump to go back from");
}

typedef struct lane_at {
  const bt_rank *rank;
  const bt_track *track;
  const bt_lod *lod;
} lane_at;

static lane_at cursor_lane(const bt_view *view) {
  const bt_row *row = bt_view_row(view);
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  const bt_rank *rank = &view->trace->ranks[row->rank_index];
  return (lane_at){rank, &rank->tracks[lane], bt_lod_of(view->lods, row->rank_index, lane)};
}

static void next_block(bt_view *view, int direction) {
  lane_at at = cursor_lane(view);
  int64_t raw = bt_raw_time(at.rank, view->cursor.time);
  size_t index = bt_track_lower_bound(at.track, direction > 0 && raw < INT64_MAX ? raw + 1 : raw);
  bool found = false;
  if (direction > 0) {
    for (; index < at.track->count && !found; index++) {
      found = at.track->spans[index].kind != BT_GATE && bt_span_duration(at.track, &at.track->spans[index]) > 0;
    }
  } else {
    for (; index > 0 && !found; index--) {
      found = at.track->spans[index - 1].kind != BT_GATE && bt_span_duration(at.track, &at.track->spans[index - 1]) > 0;
    }
    index++;
  }
  int64_t start = found ? bt_view_time(at.rank, at.track->spans[index - 1].start) : 0;
  if (!found || start > view->last) {
    bt_view_say(view, "no %s block in this row", direction > 0 ? "later" : "earlier");
    return;
  }
  bt_navigate_to(view, start);
}

static bool gap_near(const bt_view *view, const lane_at *at, int64_t raw, int64_t *from, int64_t *to) {
  return bt_lod_gap_at(at->lod, at->track, raw, from, to) && *from != INT64_MIN && *to != INT64_MAX &&
         bt_view_time(at->rank, *to) <= view->last;
}

/* A bubble counts from an eighth of a column on: shorter ones are not to be seen anyway. */
static void next_bubble(bt_view *view, int direction) {
  lane_at at = cursor_lane(view);
  int64_t raw = bt_raw_time(at.rank, view->cursor.time), least = view->width / 8 + 1;
  int64_t from, to;
  if (bt_lod_gap_at(at.lod, at.track, raw, &from, &to)) raw = direction > 0 ? to : bt_time_sub(from, 1);
  for (size_t tries = 0; tries < 200000 && raw > INT64_MIN + 1 && raw < INT64_MAX - 1; tries++) {
    if (bt_lod_gap_at(at.lod, at.track, raw, &from, &to)) {
      if (from == INT64_MIN || to == INT64_MAX) break;
      if (gap_near(view, &at, raw, &from, &to) && bt_time_sub(to, from) >= least) {
        bt_navigate_to(view, bt_view_time(at.rank, from + (to - from) / 2));
        return;
      }
      raw = direction > 0 ? to : from - 1;
      continue;
    }
    size_t span;
    if (!bt_lod_at(at.lod, at.track, raw, &span)) break;
    int64_t end = bt_time_add(at.track->spans[span].start, bt_span_duration(at.track, &at.track->spans[span]));
    raw = direction > 0 ? end : bt_time_sub(at.track->spans[span].start, 1);
  }
  bt_view_say(view, "no %s bubble in this row (of an eighth of a column or more)", direction > 0 ? "later" : "earlier");
}

static void largest_bubble(bt_view *view) {
  int64_t best = 0, best_time = 0;
  const bt_row *best_row = NULL;
  int64_t view_from = view->origin > view->first ? view->origin : view->first;
  int64_t view_to = bt_view_end(view) < view->last ? bt_view_end(view) : view->last;
  for (size_t i = 0; i < view->rows.count; i++) {
    const bt_row *row = &view->rows.items[i];
    if (row->is_lane) continue;
    const bt_rank *rank = &view->trace->ranks[row->rank_index];
    int64_t from, to;
    if (!bt_lod_longest_gap(bt_lod_of(view->lods, row->rank_index, BT_LANE_COMPUTE), &rank->tracks[BT_LANE_COMPUTE],
                            bt_raw_time(rank, view_from), bt_raw_time(rank, view_to), &from, &to)) {
      continue;
    }
    if (bt_time_sub(to, from) <= best) continue;
    best = bt_time_sub(to, from);
    best_time = bt_view_time(rank, from + (to - from) / 2);
    best_row = row;
  }
  if (best_row == NULL) {
    bt_view_say(view, "no bubble in the visible range");
    return;
  }
  bt_navigate_remember(view);
  view->cursor.stage = best_row->stage;
  view->cursor.rank = -1;
  bt_navigate_to(view, best_time);
}

static void go_to_block(bt_view *view, const bt_block *block) {
  const bt_rank *rank = &view->trace->ranks[block->rank_index];
  size_t members;
  const bt_stage_member *first = bt_rows_members(&view->rows, bt_rank_stage(rank), &members);
  bt_navigate_remember(view);
  bool own_row = block->lane == BT_LANE_COMPUTE && members > 0 && first->rank == rank->rank;
  view->cursor.stage = bt_rank_stage(rank);
  view->cursor.rank = own_row ? -1 : rank->rank;
  view->cursor.lane = block->lane;
  if (!own_row) bt_view_open(view, view->cursor.stage, true);
  bt_navigate_to(view, block->start);
}

static void go_to_producer(bt_view *view, bool consumer) {
  bt_block block, other;
  if (!bt_detail_at_cursor(view, &block) && (consumer || !bt_detail_after_bubble(view, &block))) {
    bt_view_say(view, "the cursor is on no block: w goes to the next one");
  } else if (consumer ? !bt_detail_consumer(view, &block, &other) : !bt_detail_producer(view, &block, &other)) {
    bt_view_say(view,
                consumer ? "this block's microbatch goes nowhere from here" : "this block waited for no other rank");
  } else if (other.start > view->last) {
    bt_view_say(view, "that has not happened yet");
  } else {
    go_to_block(view, &other);
  }
}

static void go_to_mark(bt_view *view) {
  if (!view->marked) {
    bt_view_say(view, "there is no mark: M sets one");
    return;
  }
  int64_t here = view->cursor.time;
  bt_navigate_remember(view);
  bt_navigate_to(view, view->mark);
  view->mark = here;
}

void bt_jump(bt_view *view, bt_action action, unsigned count) {
  for (unsigned i = 0; i < count && view->message[0] == 0; i++) {
    switch (action) {
    case BT_ACTION_NEXT_BLOCK: next_block(view, 1); break;
    case BT_ACTION_PREVIOUS_BLOCK: next_block(view, -1); break;
    case BT_ACTION_NEXT_BUBBLE: next_bubble(view, 1); break;
    case BT_ACTION_PREVIOUS_BUBBLE: next_bubble(view, -1); break;
    case BT_ACTION_LARGEST_BUBBLE: largest_bubble(view); break;
    case BT_ACTION_PRODUCER: go_to_producer(view, false); break;
    case BT_ACTION_FOLLOW_MICROBATCH: go_to_producer(view, true); break;
    case BT_ACTION_GO_TO_MARK: go_to_mark(view); break;
    case BT_ACTION_BACK: go_back(view, false); break;
    case BT_ACTION_FORTH: go_back(view, true); break;
    case BT_ACTION_SEARCH_NEXT: (void)bt_search(view, view->query, 1); break;
    case BT_ACTION_SEARCH_PREVIOUS: (void)bt_search(view, view->query, -1); break;
    default: return;
    }
  }
}
