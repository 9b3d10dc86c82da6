#include "tui/screen/hang.h"

#include <stdio.h>

#include "tui/screen/text.h"

static const int64_t second = 1000000000;
enum { SILENT_SECONDS = 6, WAITING_SECONDS = 5, MOST_NAMED = 4 };

static bool has_ended(const bt_rank *rank) {
  return rank->life_count > 0 && rank->lives[rank->life_count - 1].ended;
}

int64_t bt_hang_silence(const bt_view *view, const bt_rank *rank) {
  if (rank->heartbeat == INT64_MIN || has_ended(rank)) return 0;
  int64_t silence = bt_ages_of(&view->ages, rank, rank->heartbeat);
  return silence >= SILENT_SECONDS * second ? silence : 0;
}

int64_t bt_hang_stage_silence(const bt_view *view, const bt_row *row) {
  size_t count;
  const bt_stage_member *members = bt_rows_members(&view->rows, row->stage, &count);
  int64_t longest = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t silence = bt_hang_silence(view, &view->trace->ranks[members[i].rank_index]);
    if (silence > longest) longest = silence;
  }
  return longest;
}

typedef struct hang {
  const bt_rank *rank;
  const bt_open_span *open; /* what it waits in, NULL: it is silent */
  int64_t since;
} hang;

static bool comes_before(const hang *a, const hang *b) {
  if ((a->open == NULL) != (b->open == NULL)) return a->open == NULL;
  return a->since > b->since;
}

static void insert(hang *hangs, size_t *count, const hang *new) {
  size_t at = MOST_NAMED - 1; /* in place of the last one when all places are taken */
  if (*count < MOST_NAMED)
    at = (*count)++;
  else if (!comes_before(new, &hangs[at]))
    return;
  for (; at > 0 && comes_before(new, &hangs[at - 1]); at--)
    hangs[at] = hangs[at - 1];
  hangs[at] = *new;
}

static bool waits(unsigned kind) {
  return kind == BT_GATE || bt_code_is_p2p(kind) || bt_code_is_collective(kind);
}

/* The longest wait of a rank that is reported and has not ended. */
static const bt_open_span *longest_wait(const bt_view *view, const bt_rank *rank, int64_t *since) {
  if (has_ended(rank)) return NULL;
  for (size_t i = 0; i < rank->open_count; i++) { /* sorted by start */
    const bt_event *event = &rank->open[i].event;
    if (!waits(event->on_code)) continue;
    *since = bt_ages_of(&view->ages, rank, event->start);
    if (*since >= WAITING_SECONDS * second) return &rank->open[i];
  }
  return NULL;
}

static void say_rank(const bt_view *view, const bt_rank *rank, char *out, size_t room) {
  bt_text_append(out, room, "stage %d", (int)bt_rank_stage(rank));
  if (view->rows.member_count > view->rows.stages) bt_text_append(out, room, " rank %d", (int)rank->rank);
}

static void say_hang(const bt_view *view, const hang *h, char *out, size_t room) {
  long long seconds = (long long)(h->since / second);
  say_rank(view, h->rank, out, room);
  if (h->open == NULL) {
    bt_text_append(out, room, ": no news, %lld s", seconds);
    return;
  }
  const bt_event *event = &h->open->event;
  bt_text_append(out, room, ": %s", event->on_code == BT_GATE ? "blocked" : bt_code_name(event->on_code));
  if (event->microbatch >= 0) bt_text_append(out, room, " mb %d", (int)event->microbatch);
  int32_t other = bt_trace_open_peer(h->rank, h->open);
  const bt_rank *peer = other < 0 ? NULL : bt_trace_find(view->trace, other);
  if (peer != NULL) {
    bool sends = bt_code_is_send(event->on_code);
    bt_text_append(out, room, sends ? " to " : " from ");
    say_rank(view, peer, out, room);
  }
  bt_text_append(out, room, ", %lld s", seconds);
}

bool bt_hang_line(const bt_view *view, char *out, size_t room) {
  hang hangs[MOST_NAMED] = {{NULL, NULL, 0}};
  size_t count = 0, all = 0;
  for (size_t i = 0; i < view->rows.member_count; i++) {
    const bt_rank *rank = &view->trace->ranks[view->rows.members[i].rank_index];
    hang new = {.rank = rank, .since = bt_hang_silence(view, rank)};
    if (new.since == 0 && (new.open = longest_wait(view, rank, &new.since)) == NULL) continue;
    insert(hangs, &count, &new);
    all++;
  }
  out[0] = 0;
  for (size_t i = 0; i < count; i++) {
    if (i > 0) bt_text_append(out, room, view->theme.utf8 ? " \u00b7 " : " - ");
    say_hang(view, &hangs[i], out, room);
  }
  if (all > count) bt_text_append(out, room, ", %zu more", all - count);
  return count > 0;
}
