#include "tui/screen/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/lod_cut.h"
#include "tui/screen/text.h"

void bt_steps_free(bt_steps *steps) {
  free(steps->items);
  memset(steps, 0, sizeof *steps);
}

static uint64_t clocks_of(const bt_trace *trace, const bt_rows *rows) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < rows->member_count; i++) {
    const bt_rank *rank = &trace->ranks[rows->members[i].rank_index];
    uint64_t rate;
    memcpy(&rate, &rank->clock_rate, sizeof rate);
    hash = (hash ^ (uint64_t)rank->offset_ns ^ rate) * 1099511628211u;
  }
  return hash;
}

bt_status bt_steps_update(bt_steps *steps, const bt_trace *trace, const bt_rows *rows) {
  const bt_rank *reference = rows->member_count > 0 ? &trace->ranks[rows->members[0].rank_index] : NULL;
  uint64_t clocks = clocks_of(trace, rows);
  if (reference == NULL || clocks != steps->clocks || reference->rank != steps->rank ||
      steps->reordered != trace->reordered || reference->step_count < steps->count) {
    steps->count = 0;
    steps->rank = reference == NULL ? -1 : reference->rank;
    steps->reordered = trace->reordered;
    steps->clocks = clocks;
  }
  if (reference == NULL) return BT_OK;
  if (reference->step_count > steps->capacity) {
    size_t capacity = reference->step_count + reference->step_count / 2 + 16;
    bt_step_window *items = realloc(steps->items, capacity * sizeof *items);
    if (items == NULL) return BT_ERR_NOMEM;
    steps->items = items;
    steps->capacity = capacity;
  }
  for (size_t i = steps->count; i < reference->step_count; i++) {
    const bt_step *step = &reference->steps[i];
    int64_t begin = step->begin != INT64_MIN ? step->begin : step->end;
    steps->items[i] = (bt_step_window){.id = step->id, .begin = bt_view_time(reference, begin)};
  }
  steps->count = reference->step_count;
  return BT_OK;
}

/* A rank's marks of a step: usually at the same place as the reference's. */
static const bt_step *find_step(const bt_rank *rank, int64_t id, size_t hint) {
  if (hint < rank->step_count && rank->steps[hint].id == id) return &rank->steps[hint];
  size_t low = 0, high = rank->step_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (rank->steps[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < rank->step_count && rank->steps[low].id == id) return &rank->steps[low];
  for (size_t i = rank->steps_fell_back ? rank->step_count : 0; i-- > 0;) {
    if (rank->steps[i].id == id) return &rank->steps[i];
  }
  return NULL;
}

bool bt_steps_extent(const bt_track *track, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
  size_t from = bt_track_lower_bound(track, begin), to = bt_track_lower_bound(track, end);
  while (from < to && !bt_code_is_pipeline_op(track->spans[from].kind))
    from++;
  if (from == to) return false;
  *first = track->spans[from].start;
  *last = INT64_MIN;
  /* Spans that end later begin later, except for those that nest: look back no further than the longest span. */
  for (size_t i = to; i-- > from;) {
    const bt_span *span = &track->spans[i];
    if (*last != INT64_MIN && bt_time_add(span->start, track->longest) <= *last) break;
    if (!bt_code_is_pipeline_op(span->kind)) continue;
    int64_t until = bt_time_add(span->start, bt_span_duration(track, span));
    if (until > *last) *last = until;
  }
  return true;
}

static void compute_window(bt_step_window *window, size_t index, const bt_trace *trace, const bt_lod_set *lods,
                           const bt_rows *rows) {
  window->from = INT64_MAX;
  window->to = INT64_MIN;
  window->complete = rows->member_count > 0;
  for (size_t i = 0; i < rows->member_count; i++) {
    const bt_rank *rank = &trace->ranks[rows->members[i].rank_index];
    const bt_step *step = find_step(rank, window->id, index);
    if (step == NULL || step->begin == INT64_MIN || step->end == INT64_MIN) {
      window->complete = false;
      continue;
    }
    int64_t first, last;
    if (!bt_steps_extent(&rank->tracks[BT_LANE_COMPUTE], step->begin, step->end, &first, &last)) continue;
    first = bt_view_time(rank, first);
    last = bt_view_time(rank, last);
    if (first < window->from) window->from = first;
    if (last > window->to) window->to = last;
  }
  window->bubble = NAN;
  window->final = window->complete;
  if (window->from >= window->to) return;
  double busy = 0;
  for (size_t i = 0; i < rows->member_count; i++) {
    const bt_rank *rank = &trace->ranks[rows->members[i].rank_index];
    size_t index_of = rows->members[i].rank_index;
    int64_t from = bt_raw_time(rank, window->from), to = bt_raw_time(rank, window->to);
    bt_lod_sum sum;
    bt_lod_compute(lods, trace, index_of, from, to, &sum);
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
      window->final =
          window->final && bt_lod_reaches(bt_lod_of(lods, index_of, (bt_lane)lane), &rank->tracks[lane], to);
    }
    busy += (double)bt_lod_busy(&sum, BT_LANE_COMPUTE);
  }
  window->bubble = 1 - busy / ((double)rows->member_count * (double)bt_time_sub(window->to, window->from));
}

const bt_step_window *bt_steps_window(bt_steps *steps, size_t index, const bt_trace *trace, const bt_lod_set *lods,
                                      const bt_rows *rows) {
  bt_step_window *window = &steps->items[index];
  uint64_t stamp = 1 + trace->generation + lods->generation; /* both only rise */
  if (window->final || window->stamp == stamp) return window;
  compute_window(window, index, trace, lods, rows);
  window->stamp = stamp;
  return window;
}

bool bt_steps_at(const bt_steps *steps, int64_t time, size_t *index) {
  size_t low = 0, high = steps->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (steps->items[middle].begin <= time)
      low = middle + 1;
    else
      high = middle;
  }
  *index = low > 0 ? low - 1 : 0;
  return low > 0;
}

bool bt_steps_last(bt_steps *steps, int64_t clock, const bt_trace *trace, const bt_lod_set *lods, const bt_rows *rows,
                   size_t *index) {
  size_t at;
  if (!bt_steps_at(steps, clock, &at)) return false;
  for (unsigned tries = 0; tries < 64; tries++, at--) { /* incomplete ones are at the end, and few */
    const bt_step_window *window = bt_steps_window(steps, at, trace, lods, rows);
    if (window->complete && window->from < window->to && window->to <= clock) {
      *index = at;
      return true;
    }
    if (at == 0) break;
  }
  return false;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How much a rate differs from the next as a rule: their median distance; that of a normal distribution's is 0.954 of its
 * deviation. NAN: too few are known. */
static double usual_distance(const double *bubbles, size_t count) {
  double distances[BT_STEPS_SHOWN], last = NAN;
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    if (isnan(bubbles[i])) continue;
    if (!isnan(last)) distances[known++] = fabs(bubbles[i] - last);
    last = bubbles[i];
  }
  if (known == 0) return NAN;
  qsort(distances, known, sizeof *distances, by_size);
  return distances[known / 2] / 0.954;
}

/* Of the known ones; there is one. */
static double median_of(const double *bubbles, size_t count) {
  double values[BT_STEPS_SHOWN];
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    if (!isnan(bubbles[i])) values[known++] = bubbles[i];
  }
  qsort(values, known, sizeof *values, by_size);
  return values[known / 2];
}

bool bt_steps_change(const double *bubbles, size_t count, size_t *at, double *before, double *after) {
  enum { SIDE = 3 };
  const double least = 0.01, deviations = 5;
  double all = 0, left = 0, best = 0;
  size_t known = 0, seen = 0;
  if (count > BT_STEPS_SHOWN) {
    bubbles += count - BT_STEPS_SHOWN;
    count = BT_STEPS_SHOWN;
  }
  double noise = usual_distance(bubbles, count);
  for (size_t i = 0; i < count; i++) {
    if (isnan(bubbles[i])) continue;
    all += bubbles[i];
    known++;
  }
  if (known < 2 * SIDE || isnan(noise)) return false;
  for (size_t i = 0; i < count; i++) {
    if (isnan(bubbles[i])) continue;
    if (seen >= SIDE && known - seen >= SIDE) {
      double x = left / (double)seen, y = (all - left) / (double)(known - seen);
      double score = fabs(y - x) * sqrt((double)seen * (double)(known - seen) / (double)known);
      if (score > best) {
        best = score;
        *at = i;
      }
    }
    left += bubbles[i];
    seen++;
  }
  if (best <= deviations * noise) return false;
  *before = median_of(bubbles, *at); /* a single slow step changes a mean, but nothing lasting */
  *after = median_of(bubbles + *at, count - *at);
  return fabs(*after - *before) >= least;
}
