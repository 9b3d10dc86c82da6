/* Chrome's trace events. Spans of one thread must nest there, so a lane whose spans overlap gets several threads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "formats/export.h"

enum { THREADS = 16, DEPTH = 32, STEPS_THREAD = 1, FIRST_THREAD = 2 };

typedef struct writer {
  const bt_trace *trace;
  const bt_export_range *range;
  FILE *out;
  int64_t zero;
  bool any;
} writer;

/* Ends of the spans that are open on each thread of a lane. */
typedef struct threads {
  int64_t ends[THREADS][DEPTH];
  unsigned depth[THREADS];
  unsigned used;
} threads;

static void begin_event(writer *w, const char *phase, int32_t pid, unsigned tid) {
  fprintf(w->out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u", w->any ? ",\n" : "\n", phase, (int)pid, tid);
  w->any = true;
}

static int64_t since(const writer *w, int64_t time) {
  int64_t result;
  if (__builtin_sub_overflow(time, w->zero, &result)) return time < w->zero ? INT64_MIN : INT64_MAX;
  return result;
}

/* Microseconds, exact. */
static void put_time(writer *w, const char *key, int64_t ns) {
  bool negative = ns < 0;
  uint64_t size = negative ? 0 - (uint64_t)ns : (uint64_t)ns;
  fprintf(w->out, ",\"%s\":%s%" PRIu64 ".%03u", key, negative ? "-" : "", size / 1000, (unsigned)(size % 1000));
}

static void name_thread(writer *w, int32_t pid, unsigned tid, const char *name) {
  begin_event(w, "M", pid, tid);
  fprintf(w->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", name);
  begin_event(w, "M", pid, tid);
  fprintf(w->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}}", tid);
}

static void name_process(writer *w, const bt_rank *rank) {
  begin_event(w, "M", rank->rank, 0);
  fprintf(w->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"stage %d, replica %d, rank %d\"}}",
          (int)bt_rank_stage(rank), (int)bt_rank_replica(rank), (int)rank->rank);
  begin_event(w, "M", rank->rank, 0);
  fprintf(w->out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%" PRId64 "}}",
          (int64_t)bt_rank_replica(rank) * 65536 + bt_rank_stage(rank));
}

/* The first thread on which [start, end) nests. */
static unsigned place(threads *t, int64_t start, int64_t end) {
  for (unsigned i = 0; i < THREADS; i++) {
    while (t->depth[i] > 0 && t->ends[i][t->depth[i] - 1] <= start)
      t->depth[i]--;
    bool nests = t->depth[i] == 0 || (end <= t->ends[i][t->depth[i] - 1] && t->depth[i] < DEPTH);
    if (!nests && i + 1 < THREADS) continue;
    if (t->depth[i] < DEPTH) t->ends[i][t->depth[i]++] = end;
    if (i >= t->used) t->used = i + 1;
    return i;
  }
  return 0;
}

static void put_number(writer *w, bool *any, const char *key, int64_t value) {
  if (value < 0) return;
  fprintf(w->out, "%s\"%s\":%" PRId64, *any ? "," : "", key, value);
  *any = true;
}

static void put_args(writer *w, const bt_rank *rank, const bt_track *track, const bt_span *span) {
  const bt_span_more *more = bt_span_details(track, span);
  bool any = false;
  fputs(",\"args\":{", w->out);
  put_number(w, &any, "microbatch", span->microbatch);
  put_number(w, &any, "chunk", span->chunk);
  put_number(w, &any, "stream", span->stream);
  if (more != NULL) {
    put_number(w, &any, "peer", bt_trace_peer(rank, more->group, more->peer));
    put_number(w, &any, "bytes", more->bytes);
    put_number(w, &any, "sequence", bt_span_sequence(track, span));
    put_number(w, &any, "tokens", more->tokens);
    if (span->kind == BT_FB) put_number(w, &any, "backward_microbatch", more->microbatch_b);
    if (more->group > 0 && more->group <= rank->group_count) {
      const bt_group_info *group = &rank->groups[more->group - 1];
      fprintf(w->out, "%s\"domain\":\"%s\"", any ? "," : "", bt_domain_name(group->domain));
      any = true;
      put_number(w, &any, "group_size", group->count);
    }
  }
  fprintf(w->out, "%s\"gpu_timed\":%s}", any ? "," : "", span->flags & BT_FLAG_GPU_TIMED ? "true" : "false");
}

static void put_span(writer *w, const bt_rank *rank, unsigned lane, unsigned thread, const bt_span *span) {
  const bt_track *track = &rank->tracks[lane];
  const bt_span_more *more = bt_span_details(track, span);
  begin_event(w, "X", rank->rank, FIRST_THREAD + lane * THREADS + thread);
  put_time(w, "ts", since(w, bt_export_time(rank, span->start)));
  put_time(w, "dur", bt_span_duration(track, span));
  fprintf(w->out, ",\"cat\":\"%s\",\"name\":\"%s", bt_lane_name((bt_lane)lane), bt_code_name(span->kind));
  if (more != NULL && more->name > 0 && more->name <= w->trace->name_count) {
    fputc(' ', w->out);
    bt_export_json_text(w->out, w->trace->names[more->name - 1]);
  }
  if (span->microbatch >= 0) fprintf(w->out, " %d", (int)span->microbatch);
  fputc('"', w->out);
  put_args(w, rank, track, span);
  fputc('}', w->out);
}

static void put_lane(writer *w, const bt_rank *rank, unsigned lane) {
  const bt_track *track = &rank->tracks[lane];
  threads used = {.used = 0};
  size_t at, end;
  for (bt_export_spans(rank, track, w->range, &at, &end); at < end; at++) {
    const bt_span *span = &track->spans[at];
    if (!bt_export_within(rank, track, span, w->range)) continue;
    put_span(w, rank, lane, place(&used, span->start, bt_span_end(track, span)), span);
  }
  for (unsigned i = 0; i < used.used; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, i == 0 ? "%s" : "%s %u", bt_lane_name((bt_lane)lane), i + 1);
    name_thread(w, rank->rank, FIRST_THREAD + lane * THREADS + i, name);
  }
}

static void put_steps(writer *w, const bt_rank *rank) {
  bool any = false;
  for (size_t i = 0; i < rank->step_count; i++) {
    const bt_step *step = &rank->steps[i];
    if (step->begin == INT64_MIN || step->end == INT64_MIN) continue;
    int64_t begin = bt_export_time(rank, step->begin), end = bt_export_time(rank, step->end);
    if (begin >= w->range->to || end <= w->range->from || end < begin) continue;
    begin_event(w, "X", rank->rank, STEPS_THREAD);
    put_time(w, "ts", since(w, begin));
    put_time(w, "dur", end - begin);
    fprintf(w->out, ",\"cat\":\"step\",\"name\":\"step %" PRId64 "\"}", step->id);
    any = true;
  }
  if (any) name_thread(w, rank->rank, STEPS_THREAD, "steps");
}

static void put_marks(writer *w, const bt_rank *rank) {
  for (size_t i = 0; i < rank->mark_count; i++) {
    const bt_mark *mark = &rank->marks[i];
    int64_t time = bt_export_time(rank, mark->time);
    if (time < w->range->from || time >= w->range->to) continue;
    bool counter = !isnan(mark->value);
    if (counter && isinf(mark->value)) continue;
    begin_event(w, counter ? "C" : "i", rank->rank, STEPS_THREAD);
    put_time(w, "ts", since(w, time));
    fputs(",\"name\":\"", w->out);
    bt_export_json_text(w->out, mark->name < w->trace->name_count ? w->trace->names[mark->name] : "mark");
    if (counter)
      fprintf(w->out, "\",\"args\":{\"value\":%.17g}}", mark->value);
    else
      fputs("\",\"s\":\"t\"}", w->out);
  }
}

bt_status bt_export_chrome(const bt_trace *trace, const bt_export_range *range, FILE *out) {
  writer w = {.trace = trace, .range = range, .out = out, .zero = range->from};
  if (range->from == INT64_MIN) {
    w.zero = INT64_MAX;
    for (size_t r = 0; r < trace->rank_count; r++) {
      const bt_rank *rank = &trace->ranks[r];
      if (rank->first <= rank->last && bt_export_time(rank, rank->first) < w.zero)
        w.zero = bt_export_time(rank, rank->first);
    }
    if (w.zero == INT64_MAX) w.zero = 0;
  }
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    name_process(&w, rank);
    put_steps(&w, rank);
    for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++)
      put_lane(&w, rank, lane);
    put_marks(&w, rank);
  }
  fputs("\n]}\n", out);
  return ferror(out) ? BT_ERR_IO : BT_OK;
}
