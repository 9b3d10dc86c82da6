/* Records -> trace model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"
#include "formats/track.h"
#include "formats/wire/decode.h"

enum {
  STEP_LOOK_BACK = 64, /* steps that may lie between a begin and its end in the order of arrival */
  TWINS = 256 /* spans of one start that are looked at to find an open one's end */
};

static int8_t small(int16_t number) {
  return number < 0 ? -1 : number > INT8_MAX ? INT8_MAX : (int8_t)number;
}

/* Index + 1 of a group; one that only spans have named so far gets an empty entry. 0: none, or too many. */
static uint32_t group_index(bt_rank *rank, uint32_t life, uint32_t id) {
  if (id == 0) return 0;
  if (rank->last_group < rank->group_count && rank->groups[rank->last_group].id == id &&
      rank->groups[rank->last_group].life == life) {
    return (uint32_t)rank->last_group + 1;
  }
  size_t at = 0;
  while (at < rank->group_count && (rank->groups[at].id != id || rank->groups[at].life != life))
    at++;
  if (at == rank->group_count) {
    if (at == BT_MAX_GROUPS) return 0;
    if (!bt_array_reserve(&rank->groups, &rank->group_capacity, at + 1, sizeof(bt_group_info))) return 0;
    rank->groups[rank->group_count++] = (bt_group_info){.id = id, .life = life, .own_rank = -1};
  }
  rank->last_group = at;
  return (uint32_t)at + 1;
}

/* What the span's `more` is. False: memory is short. */
static bool add_details(bt_rank *rank, bt_track *track, uint32_t life, const bt_event *event, uint32_t *more) {
  const bt_span_more details = {.duration = event->duration < UINT32_MAX ? 0 : event->duration,
                                .bytes = event->bytes,
                                .sequence_base = event->sequence,
                                .tokens = event->tokens,
                                .peer = event->peer,
                                .group = group_index(rank, life, event->group),
                                .microbatch_b = event->microbatch_b,
                                .chunk_b = event->chunk_b,
                                .on_code = event->on_code,
                                .count = event->count};
  *more = bt_track_details(track, event->code, &details);
  return *more != 0;
}

static bool has_details(const bt_event *event) {
  return event->duration >= UINT32_MAX || event->peer != -1 || event->group != 0 || event->bytes != -1 ||
         event->sequence != -1 || event->tokens != -1 || event->code == BT_FB || event->code == BT_GATE;
}

static bt_status add_span(bt_trace *trace, bt_rank *rank, uint32_t life, const bt_event *event) {
  bt_track *track = &rank->tracks[bt_lane_of(event->code)];
  uint32_t more = 0;
  if (!bt_track_room(track)) return BT_ERR_NOMEM;
  if (has_details(event) && !add_details(rank, track, life, event, &more)) return BT_ERR_NOMEM;
  bt_span *span = bt_track_next(track);
  *span = (bt_span){.start = event->start,
                    .duration32 = event->duration < UINT32_MAX ? (uint32_t)event->duration : UINT32_MAX,
                    .more = more,
                    .microbatch = event->microbatch,
                    .kind = event->code,
                    .flags = event->flags & (uint8_t)~BT_FLAG_DIRECTED,
                    .chunk = small(event->chunk),
                    .stream = small(event->lane)};
  bt_track_commit(track);
  if (event->code == BT_SEND || event->code == BT_RECV) rank->undirected = true;
  if (event->chunk > rank->most_chunk && bt_code_is_compute(event->code)) {
    rank->most_chunk = event->chunk;
    trace->definitions++; /* where messages go depends on it */
  }
  return BT_OK;
}

static int64_t step_key(const bt_step *step) {
  return step->begin != INT64_MIN ? step->begin : step->end;
}

static bt_status add_step(bt_rank *rank, const bt_event *event) {
  bool begins = event->code == BT_STEP_BEGIN;
  size_t floor = rank->step_count > STEP_LOOK_BACK ? rank->step_count - STEP_LOOK_BACK : 0;
  for (size_t i = rank->step_count; i-- > floor;) {
    bt_step *step = &rank->steps[i];
    if (step->id != event->step) continue;
    if (!begins && step->end == INT64_MIN && step->begin <= event->start) {
      step->end = event->start;
      return BT_OK;
    }
    if (begins && step->begin == INT64_MIN && step->end >= event->start) {
      step->begin = event->start;
      if (i < rank->step_sorted) rank->step_sorted = i;
      return BT_OK;
    }
  }
  if (!bt_array_reserve(&rank->steps, &rank->step_capacity, rank->step_count + 1, sizeof(bt_step))) return BT_ERR_NOMEM;
  rank->steps[rank->step_count++] = (bt_step){
      .id = event->step, .begin = begins ? event->start : INT64_MIN, .end = begins ? INT64_MIN : event->start};
  return BT_OK;
}

static bt_status add_mark(bt_trace *trace, bt_rank *rank, const bt_event *event) {
  uint32_t name = bt_trace_name(trace, event->text != NULL ? event->text : "", event->text_length);
  if (name == UINT32_MAX) return trace->name_count == BT_MAX_NAMES ? BT_ERR_LIMIT : BT_ERR_NOMEM;
  if (!bt_array_reserve(&rank->marks, &rank->mark_capacity, rank->mark_count + 1, sizeof(bt_mark))) return BT_ERR_NOMEM;
  rank->marks[rank->mark_count++] = (bt_mark){.time = event->start,
                                              .value = event->code == BT_COUNTER ? event->value : (double)NAN,
                                              .name = name,
                                              .microbatch = event->microbatch};
  return BT_OK;
}

/* A communicator that is known just so. */
static bool is_told(const bt_group_info *group, const bt_event *event) {
  return event->number != 0 && event->run_count == 0 && group->identity == event->number &&
         group->told_domain == event->domain && group->own_rank == event->own_rank && group->count == event->count;
}

static bt_status add_group(bt_trace *trace, bt_rank *rank, uint32_t life, const bt_event *event) {
  if (event->run_count > BT_MAX_RUNS || event->count < 0) return BT_ERR_ARG;
  bt_run_of_ranks *runs = NULL;
  if (event->run_count > 0) {
    runs = malloc(event->run_count * sizeof *runs);
    if (runs == NULL) return BT_ERR_NOMEM;
    memcpy(runs, event->runs, event->run_count * sizeof *runs);
  }
  uint32_t index = group_index(rank, life, event->group);
  if (index == 0) {
    free(runs);
    return event->group == 0 ? BT_ERR_ARG : rank->group_count == BT_MAX_GROUPS ? BT_ERR_LIMIT : BT_ERR_NOMEM;
  }
  bt_group_info *group = &rank->groups[index - 1];
  if (is_told(group, event)) return BT_OK; /* again, in a new segment */
  free(group->runs);
  group->domain = group->told_domain = event->domain;
  group->identity = event->number;
  group->joined = NULL;
  group->own_rank = event->own_rank;
  group->count = event->count;
  group->run_count = event->run_count;
  group->runs = runs;
  trace->definitions++;
  return BT_OK;
}

/* Order of open spans: by start, then life and ring. */
static int compare_open(const bt_open_span *a, int64_t start, uint32_t life, uint32_t ring) {
  if (a->event.start != start) return a->event.start < start ? -1 : 1;
  if (a->life != life) return a->life < life ? -1 : 1;
  return a->ring == ring ? 0 : a->ring < ring ? -1 : 1;
}

static bt_status add_open(bt_rank *rank, uint32_t life, const bt_event *event) {
  size_t low = 0;
  size_t high = rank->open_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare_open(&rank->open[middle], event->start, life, event->ring) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  bt_open_span *place;
  if (low < rank->open_count && compare_open(&rank->open[low], event->start, life, event->ring) == 0) {
    place = &rank->open[low];
    if (place->event.duration > event->duration) return BT_OK;
  } else {
    if (rank->open_count == BT_MAX_OPEN) return BT_ERR_LIMIT;
    if (!bt_array_reserve(&rank->open, &rank->open_capacity, rank->open_count + 1, sizeof(bt_open_span))) {
      return BT_ERR_NOMEM;
    }
    place = &rank->open[low];
    memmove(place + 1, place, (rank->open_count - low) * sizeof *place);
    rank->open_count++;
  }
  *place = (bt_open_span){.event = *event, .life = life, .ring = event->ring};
  place->event.text = NULL;
  place->event.text_length = 0;
  place->event.runs = NULL;
  place->event.run_count = 0;
  return BT_OK;
}

void bt_trace_forget_open(bt_rank *rank, uint32_t life, uint32_t ring) {
  size_t kept = 0;
  for (size_t i = 0; i < rank->open_count; i++) {
    if (rank->open[i].life != life || rank->open[i].ring != ring) rank->open[kept++] = rank->open[i];
  }
  rank->open_count = kept;
}

static bt_status add_clock(bt_rank *rank, const bt_event *event) {
  if (!bt_array_reserve(&rank->clocks, &rank->clock_capacity, rank->clock_count + 1, sizeof(bt_clock_pair))) {
    return BT_ERR_NOMEM;
  }
  rank->clocks[rank->clock_count++] = (bt_clock_pair){event->start, event->real};
  return BT_OK;
}

static bt_status add_dropped(bt_trace *trace, bt_rank *rank, uint32_t life, const bt_event *event) {
  bt_loss loss = {event->start, bt_event_end(event), event->number, life, event->ring};
  bt_status status = bt_trace_loss(trace, rank, &loss);
  if (status == BT_OK) rank->dropped += event->number;
  return status;
}

static bt_status add_meta(bt_trace *trace, bt_rank *rank, const bt_event *event) {
  bt_layout before = rank->layout;
  bt_status status = bt_layout_decode((const uint8_t *)event->text, event->text_length, &rank->layout);
  if (memcmp(&before, &rank->layout, sizeof before) != 0) trace->definitions++;
  return status == BT_OK ? BT_OK : BT_ERR_ARG;
}

static bt_status add_mark_record(bt_trace *trace, bt_rank *rank, bt_life *life, const bt_event *event) {
  switch (event->code) {
  case BT_STEP_BEGIN:
  case BT_STEP_END: return add_step(rank, event);
  case BT_INSTANT:
  case BT_COUNTER: return add_mark(trace, rank, event);
  case BT_GROUP: return add_group(trace, rank, life->life, event);
  case BT_META:
    if (life != &rank->lives[rank->life_count - 1]) return BT_OK; /* an older life's layout is history */
    return add_meta(trace, rank, event);
  case BT_CLOCK: return add_clock(rank, event);
  case BT_OPEN: return add_open(rank, life->life, event);
  case BT_DROPPED: return add_dropped(trace, rank, life->life, event);
  case BT_END_OF_STREAM: life->ended = true; return BT_OK;
  default: return BT_OK; /* heartbeats are only times; anchors are the importer's business; the rest is not known yet */
  }
}

/* Marks without a time of their own do not stretch the extent. */
static bool has_time(unsigned code) {
  return code != BT_META && code != BT_GROUP && code != BT_CLOCK && code != BT_ANCHOR;
}

bt_status bt_trace_add(bt_trace *trace, bt_rank *rank, uint32_t life_number, uint32_t ring, const bt_event *event) {
  (void)ring; /* BT_OPEN and BT_DROPPED name theirs */
  int64_t end;
  if (event->duration < 0 || __builtin_add_overflow(event->start, event->duration, &end)) return BT_ERR_ARG;
  if (event->start == INT64_MIN) return BT_ERR_ARG; /* says "missing" in the model */
  bt_life *life = bt_trace_life(rank, life_number);
  if (life == NULL) return rank->life_count == BT_MAX_LIVES ? BT_ERR_LIMIT : BT_ERR_NOMEM;
  bool is_span = bt_code_is_span(event->code);
  bt_status status = is_span ? add_span(trace, rank, life_number, event) : add_mark_record(trace, rank, life, event);
  if (status != BT_OK) return status;
  if (!has_time(event->code)) return BT_OK;
  if (event->start < life->first) life->first = event->start;
  if (end > life->last) life->last = end;
  if (end > rank->heartbeat) rank->heartbeat = end;
  if (event->code <= BT_COUNTER) { /* what the program did; the writer's own records do not count */
    if (event->start < rank->first) rank->first = event->start;
    if (end > rank->last) rank->last = end;
  }
  return BT_OK;
}

static int compare_steps(const void *left, const void *right) {
  const bt_step *a = left;
  const bt_step *b = right;
  if (step_key(a) != step_key(b)) return step_key(a) < step_key(b) ? -1 : 1;
  return a->id == b->id ? 0 : a->id < b->id ? -1 : 1;
}

static int compare_marks(const void *left, const void *right) {
  const bt_mark *a = left;
  const bt_mark *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return a->name == b->name ? 0 : a->name < b->name ? -1 : 1;
}

/* Merges the sorted tail [*sorted, count) into the sorted elements before it, from behind: linear in the overlap, whose
 * beginning *sorted becomes. */
static bool merge_tail(char *bytes, size_t *sorted_end, size_t count, size_t size,
                       int (*compare)(const void *, const void *)) {
  size_t sorted = *sorted_end;
  size_t tail = count - sorted;
  char *scratch = malloc(tail * size);
  if (scratch == NULL) return false;
  memcpy(scratch, bytes + sorted * size, tail * size);
  for (size_t out = count; tail > 0;) {
    const char *late = scratch + (tail - 1) * size;
    if (sorted > 0 && compare(bytes + (sorted - 1) * size, late) > 0) {
      memcpy(bytes + --out * size, bytes + --sorted * size, size);
    } else {
      memcpy(bytes + --out * size, late, size);
      tail--;
    }
  }
  free(scratch);
  *sorted_end = sorted;
  return true;
}

/* Sorts what came since `sorted` into an array whose first `sorted` elements are in order. Those before the returned
 * index are where they were. */
static size_t sort_tail(void *array, size_t *sorted, size_t count, size_t size,
                        int (*compare)(const void *, const void *)) {
  char *bytes = array;
  size_t before = *sorted;
  size_t at = before;
  while (at < count && (at == 0 || compare(bytes + (at - 1) * size, bytes + at * size) <= 0))
    at++;
  *sorted = count;
  if (at == count) return before;
  qsort(bytes + before * size, count - before, size, compare);
  if (before == 0 || merge_tail(bytes, &before, count, size, compare)) return before;
  qsort(bytes, count, size, compare);
  return 0;
}

static void sort_steps(bt_rank *rank) {
  size_t from = sort_tail(rank->steps, &rank->step_sorted, rank->step_count, sizeof(bt_step), compare_steps);
  for (size_t i = from > 0 ? from : 1; i < rank->step_count && !rank->steps_fell_back; i++) {
    rank->steps_fell_back = rank->steps[i].id < rank->steps[i - 1].id;
  }
}

/* The span that ended takes the place of its open one. */
static void drop_ended_open(bt_rank *rank) {
  size_t kept = 0;
  for (size_t i = 0; i < rank->open_count; i++) {
    const bt_event *event = &rank->open[i].event;
    const bt_track *track = &rank->tracks[bt_lane_of(event->on_code)];
    bool ended = false;
    size_t from = bt_track_lower_bound(track, event->start);
    for (size_t j = from; j < track->count && j < from + TWINS && track->spans[j].start == event->start && !ended;
         j++) {
      ended = track->spans[j].kind == event->on_code && track->spans[j].microbatch == event->microbatch;
    }
    if (!ended) rank->open[kept++] = rank->open[i];
  }
  rank->open_count = kept;
}

static bt_status settle(bt_trace *trace, bt_rank *rank, int64_t horizon, bool lazily) {
  bool reordered = false;
  bt_status status = BT_OK;
  for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
    bt_track *track = &rank->tracks[lane];
    size_t before = track->count;
    if (!bt_track_settle(track, horizon, lazily, &reordered)) status = BT_ERR_NOMEM;
    trace->span_count += track->count - before;
  }
  sort_steps(rank);
  (void)sort_tail(rank->marks, &rank->mark_sorted, rank->mark_count, sizeof(bt_mark), compare_marks);
  drop_ended_open(rank);
  trace->generation++;
  if (reordered) trace->reordered++;
  return status;
}

bt_status bt_trace_settle(bt_trace *trace, bt_rank *rank, int64_t horizon) {
  return settle(trace, rank, horizon, false);
}

bt_status bt_trace_settle_lazily(bt_trace *trace, bt_rank *rank, int64_t horizon) {
  return settle(trace, rank, horizon, true);
}
