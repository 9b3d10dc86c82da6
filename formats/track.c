#include "formats/track.h"

#include <string.h>

#include "formats/array.h"

enum {
  NEAR = 16, /* spans that a late one is moved back over at once: nested spans end first, so they come first */
  SHARE = 16 /* spans that may have to move for each that is merged */
};

bool bt_track_grow(bt_track *track) {
  return bt_array_reserve(&track->spans, &track->capacity, track->count + track->pending + 1, sizeof(bt_span));
}

/* Moves the last pending span back to its place when that is near. */
void bt_track_sift(bt_track *track) {
  size_t end = track->count + track->pending - 1;
  bt_span span = track->spans[end];
  size_t at = end;
  while (at > track->count && bt_span_before(track, &span, &track->spans[at - 1])) {
    if (end - at == NEAR) {
      track->pending_unsorted = true;
      return;
    }
    at--;
  }
  memmove(&track->spans[at + 1], &track->spans[at], (end - at) * sizeof(bt_span));
  track->spans[at] = span;
}

/* First index in [low, high) whose span comes after `span`; high when none does. */
static size_t upper_bound(const bt_track *track, size_t low, size_t high, const bt_span *span) {
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (bt_span_before(track, span, &track->spans[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/* Merges the sorted neighbours [low, middle) and [middle, high); linear in the part where they overlap. `scratch` has
 * room for the overlap's left half. Equal spans keep their order. */
static void merge(bt_track *track, size_t low, size_t middle, size_t high, bt_span *scratch) {
  bt_span *spans = track->spans;
  low = upper_bound(track, low, middle, &spans[middle]);
  size_t left = middle - low;
  if (left == 0) return;
  memcpy(scratch, &spans[low], left * sizeof(bt_span));
  size_t from_left = 0;
  size_t from_right = middle;
  size_t out = low;
  while (from_left < left && from_right < high) {
    if (bt_span_before(track, &spans[from_right], &scratch[from_left])) {
      spans[out++] = spans[from_right++];
    } else {
      spans[out++] = scratch[from_left++];
    }
  }
  memcpy(&spans[out], &scratch[from_left], (left - from_left) * sizeof(bt_span));
}

/* End of the sorted run that begins at `from`. */
static size_t run_end(const bt_track *track, size_t from, size_t end) {
  size_t at = from + 1;
  while (at < end && !bt_span_before(track, &track->spans[at], &track->spans[at - 1]))
    at++;
  return at;
}

/* Natural merge sort of the pending part: it is a few sorted runs, one a ring and block. False: memory is short. */
static bool sort_pending(bt_track *track) {
  size_t end = track->count + track->pending;
  bt_span *scratch = malloc(track->pending * sizeof(bt_span));
  if (scratch == NULL) return false;
  for (;;) {
    size_t from = track->count;
    size_t runs = 0;
    while (from < end) {
      size_t middle = run_end(track, from, end);
      size_t high = middle;
      if (middle < end) {
        high = run_end(track, middle, end);
        merge(track, from, middle, high, scratch);
      }
      from = high;
      runs++;
    }
    if (runs <= 1) break;
  }
  free(scratch);
  track->pending_unsorted = false;
  return true;
}

/* Of moves that did not go lower than a later one, only that counts. */
static void note_move(bt_track *track, size_t place) {
  bt_track_move *lowest = track->lowest;
  unsigned count = track->lowest_count;
  while (count > 0 && lowest[count - 1].place >= place)
    count--;
  if (count == BT_TRACK_MOVES) { /* the two oldest become one */
    lowest[1].place = lowest[0].place;
    memmove(lowest, lowest + 1, (BT_TRACK_MOVES - 1) * sizeof *lowest);
    count--;
  }
  lowest[count] = (bt_track_move){++track->moves, place};
  track->lowest_count = count + 1;
}

size_t bt_track_moved(const bt_track *track, uint64_t since) {
  unsigned i = 0;
  while (i < track->lowest_count && track->lowest[i].number <= since)
    i++;
  return i < track->lowest_count ? track->lowest[i].place : SIZE_MAX;
}

/* Whether merging the pending part would move many more spans than it has. */
static bool is_dear(const bt_track *track) {
  if (track->pending * SHARE >= track->count) return false;
  const bt_span *pending = &track->spans[track->count];
  int64_t first = pending[0].start;
  for (size_t i = 1; i < track->pending && track->pending_unsorted; i++) {
    if (pending[i].start < first) first = pending[i].start;
  }
  return track->count - bt_track_lower_bound(track, first) > track->pending * SHARE;
}

bool bt_track_settle(bt_track *track, int64_t horizon, bool lazily, bool *reordered) {
  if (track->pending > 0) {
    if (lazily && is_dear(track))
      return true; /* what is settled stays as it is: what waits may begin before the horizon */
    if (track->pending_unsorted && !sort_pending(track)) return false;
    size_t middle = track->count;
    size_t end = middle + track->pending;
    size_t low = upper_bound(track, 0, middle, &track->spans[middle]);
    if (low < middle) {
      bt_span *scratch = malloc((middle - low) * sizeof(bt_span));
      if (scratch == NULL) return false;
      merge(track, low, middle, end, scratch);
      free(scratch);
    }
    for (size_t i = low; i < end; i++) {
      int64_t duration = bt_span_duration(track, &track->spans[i]);
      if (duration > track->longest) track->longest = duration;
    }
    if (low < track->settled) {
      track->settled = low;
      note_move(track, low);
      *reordered = true;
    }
    track->count = end;
    track->pending = 0;
  }
  if (horizon == INT64_MAX) {
    track->settled = track->count;
  } else if (horizon != INT64_MIN) {
    size_t settled = bt_track_lower_bound(track, horizon);
    if (settled > track->settled) track->settled = settled;
  }
  return true;
}

size_t bt_track_lower_bound(const bt_track *track, int64_t time) {
  size_t low = 0;
  size_t high = track->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (track->spans[middle].start < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void bt_track_free(bt_track *track) {
  free(track->spans);
  free(track->shared);
  free(track->shared_table);
  free(track->own);
}
