#include "tui/screen/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/screen/navigate.h"
#include "tui/screen/text.h"

typedef struct pattern {
  unsigned kind; /* BT_NONE: any */
  int32_t microbatch, stage, rank, chunk; /* -1: any */
  int64_t longer, shorter; /* ns */
  char name[BT_VIEW_QUERY];
} pattern;

static bool number_after(const char *word, const char *prefix, int32_t *value) {
  size_t length = strlen(prefix);
  if (strncmp(word, prefix, length) != 0 || word[length] < '0' || word[length] > '9') return false;
  char *end;
  long parsed = strtol(word + length, &end, 10);
  if (*end != 0 || parsed > INT32_MAX) return false;
  *value = (int32_t)parsed;
  return true;
}

static bool parse(bt_view *view, const char *query, pattern *p) {
  *p = (pattern){.microbatch = -1, .stage = -1, .rank = -1, .chunk = -1, .longer = -1, .shorter = INT64_MAX};
  char copy[BT_VIEW_QUERY], *rest = copy;
  (void)snprintf(copy, sizeof copy, "%s", query);
  for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
    unsigned kind = bt_code_from_name(word);
    if (bt_code_is_span(kind)) {
      p->kind = kind;
    } else if (word[0] == '>' || word[0] == '<') {
      if (!bt_text_parse_duration(word + 1, word[0] == '>' ? &p->longer : &p->shorter)) {
        bt_view_say(view, "search: '%s' is no duration (>5ms, <20us)", word);
        return false;
      }
    } else if (!number_after(word, "mb", &p->microbatch) && !number_after(word, "stage", &p->stage) &&
               !number_after(word, "rank", &p->rank) && !number_after(word, "chunk", &p->chunk)) {
      (void)snprintf(p->name, sizeof p->name, "%s", word);
    }
  }
  return true;
}

static bool matches(const bt_view *view, const bt_track *track, const bt_span *span, const pattern *p) {
  if (p->kind != BT_NONE && span->kind != p->kind) return false;
  if (p->microbatch >= 0 && span->microbatch != p->microbatch) return false;
  if (p->chunk >= 0 && span->chunk != p->chunk) return false;
  int64_t duration = bt_span_duration(track, span);
  if (duration <= p->longer || duration >= p->shorter) return false;
  if (p->name[0] == 0) return true;
  const bt_span_more *more = bt_span_details(track, span);
  return more != NULL && more->name > 0 && more->name <= view->trace->name_count &&
         strstr(view->trace->names[more->name - 1], p->name) != NULL;
}

/* The nearest hit of one track after (before) `from`, raw; SIZE_MAX none. */
static size_t search_track(const bt_view *view, const bt_track *track, const pattern *p, int64_t from, int direction) {
  if (direction > 0) {
    size_t at = from == INT64_MAX ? track->count : bt_track_lower_bound(track, from + 1);
    for (; at < track->count; at++) {
      if (matches(view, track, &track->spans[at], p)) return at;
    }
    return SIZE_MAX;
  }
  for (size_t at = bt_track_lower_bound(track, from); at-- > 0;) {
    if (matches(view, track, &track->spans[at], p)) return at;
  }
  return SIZE_MAX;
}

bool bt_search(bt_view *view, const char *query, int direction) {
  pattern p;
  if (query[0] == 0) {
    bt_view_say(view, "nothing to search for: type / first");
    return false;
  }
  if (!parse(view, query, &p)) return false;
  const bt_stage_member *best = NULL;
  unsigned best_lane = 0;
  int64_t best_time = 0;
  for (size_t m = 0; m < view->rows.member_count; m++) {
    const bt_stage_member *member = &view->rows.members[m];
    const bt_rank *rank = &view->trace->ranks[member->rank_index];
    if ((p.stage >= 0 && member->stage != p.stage) || (p.rank >= 0 && member->rank != p.rank)) continue;
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
      const bt_track *track = &rank->tracks[lane];
      size_t at = search_track(view, track, &p, bt_raw_time(rank, view->cursor.time), direction);
      if (at == SIZE_MAX) continue;
      int64_t time = bt_view_time(rank, track->spans[at].start);
      if (time > view->last && view->replaying) continue;
      if (best != NULL && (direction > 0 ? time >= best_time : time <= best_time)) continue;
      best = member;
      best_lane = lane;
      best_time = time;
    }
  }
  if (best == NULL) {
    bt_view_say(view, "no %s hit for '%s'", direction > 0 ? "later" : "earlier", query);
    return false;
  }
  size_t members;
  const bt_stage_member *first = bt_rows_members(&view->rows, best->stage, &members);
  bool own_row = best_lane == BT_LANE_COMPUTE && first->rank == best->rank;
  view->cursor.stage = best->stage;
  view->cursor.rank = own_row ? -1 : best->rank;
  view->cursor.lane = (bt_lane)best_lane;
  if (!own_row) bt_view_open(view, best->stage, true);
  bt_navigate_to(view, best_time);
  return true;
}
