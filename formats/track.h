/* One track of the trace model: how spans get in and into order. Private to formats. */
#ifndef BT_FORMATS_TRACK_H
#define BT_FORMATS_TRACK_H

#include "formats/trace.h"

/* Order of spans in a track: by start, longer first. */
static inline bool bt_span_before(const bt_track *track, const bt_span *a, const bt_span *b) {
  if (a->start != b->start) return a->start < b->start;
  return bt_span_duration(track, a) > bt_span_duration(track, b);
}

/* Appends to the pending part. False: memory is short. `more` is NULL or copied; span->more is set here. */
bool bt_track_push(bt_track *track, bt_span span, const bt_span_more *more);

/* Merges the pending part into the sorted one. `reordered` is set when a settled span had to move.
 * False: memory is short, nothing changed. */
bool bt_track_settle(bt_track *track, int64_t horizon, bool *reordered);

void bt_track_free(bt_track *track);

#endif
