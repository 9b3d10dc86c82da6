/* One track of the trace model: how spans get in and into order. Private to formats. */
#ifndef BT_FORMATS_TRACK_H
#define BT_FORMATS_TRACK_H

#include "formats/trace.h"

/* Order of spans in a track: by start, longer first. */
static inline bool bt_span_before(const bt_track *track, const bt_span *a, const bt_span *b) {
  if (a->start != b->start) return a->start < b->start;
  return bt_span_duration(track, a) > bt_span_duration(track, b);
}

/* The slow halves of the two below. */
bool bt_track_grow(bt_track *track);
void bt_track_sift(bt_track *track);

/* Room for one more span behind the pending ones. The caller writes it in place (bt_track_next), which is why there is no
 * function that takes it: a span is built once, where it stays. False: memory is short. */
static inline bool bt_track_room(bt_track *track) {
  return track->count + track->pending < track->capacity || bt_track_grow(track);
}

static inline bt_span *bt_track_next(bt_track *track) {
  return &track->spans[track->count + track->pending];
}

/* What bt_span.more is of a span of this kind with these details (duration: only of a long span, which gets them for itself;
 * sequence_base: the whole sequence). 0: memory is short. */
uint32_t bt_track_details(bt_track *track, unsigned kind, const bt_span_more *details);

/* The span at bt_track_next is written, its details (if it has any) are kept: it is pending now. */
static inline void bt_track_commit(bt_track *track) {
  const bt_span *span = bt_track_next(track);
  if (track->pending++ > 0 && bt_span_before(track, span, span - 1)) bt_track_sift(track);
}

/* Merges the pending part into the sorted one. `reordered` is set when a settled span had to move. `lazily`: it is left
 * pending while it is small beside what it would have to be merged with, so that a disordered track as a whole costs a
 * multiple of its length. False: memory is short, nothing changed. */
bool bt_track_settle(bt_track *track, int64_t horizon, bool lazily, bool *reordered);

void bt_track_free(bt_track *track);

#endif
