#include "tui/commands/range_json.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tui/analysis/clocks.h"
#include "tui/screen/range.h"
#include "tui/screen/text.h"

static bool is_of(const bt_rank *rank, const bt_range_json *what) {
  return what->replica < 0 || bt_rank_replica(rank) == what->replica;
}

static int by_stage(const void *a, const void *b) {
  const bt_rank *x = *(const bt_rank *const *)a, *y = *(const bt_rank *const *)b;
  int32_t p = bt_rank_stage(x), q = bt_rank_stage(y);
  return p != q ? (p < q ? -1 : 1) : (x->rank > y->rank) - (x->rank < y->rank);
}

/* The steps that are under way in the range, by the marks of all ranks. False: none has any. */
static bool find_steps(const bt_trace *trace, const bt_export_range *range, bt_accounting_options *options) {
  bool any = false;
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    for (size_t i = 0; i < rank->step_count; i++) {
      const bt_step *step = &rank->steps[i], *next = i + 1 < rank->step_count ? step + 1 : NULL;
      bool before = next != NULL && next->begin != INT64_MIN && bt_view_time(rank, next->begin) <= range->from;
      if (before || (step->begin != INT64_MIN && bt_view_time(rank, step->begin) >= range->to)) continue;
      if (!any || step->id < options->first_step) options->first_step = step->id;
      if (!any || step->id > options->last_step) options->last_step = step->id;
      any = true;
    }
  }
  return any;
}

/* Why ranks stand still in the range; NULL: that cannot be told, or only in too long a time. */
static bt_gaps *find_gaps(const bt_trace *trace, const bt_export_range *range) {
  enum { MOST_SPANS = 40000000, CONTEXT = 16 };
  bt_clocks *clocks = NULL;
  bt_gaps *gaps = NULL;
  if (bt_clocks_solve(trace, &clocks, NULL) != BT_OK) return NULL;
  const bt_clocks_summary *found = bt_clocks_summary_of(clocks);
  bool bounded = found->aligned && !found->bent;
  bt_account_clock clock = {.aligned = found->aligned,
                            .max_error_ns = bounded ? found->max_error_ns : BT_UNKNOWN,
                            .likely_error_ns = found->aligned ? found->likely_error_ns : BT_UNKNOWN,
                            .bent = found->bent};
  bt_clocks_free(clocks);
  bt_accounting_options options = {.warmup = true, .context = CONTEXT, .clock = &clock};
  options.bounded = find_steps(trace, range, &options);
  if (bt_accounting_spans(trace, &options) <= MOST_SPANS) (void)bt_gaps_find(trace, &options, &gaps, NULL);
  return gaps;
}

static void write_stage(const bt_trace *trace, const bt_range_json *what, const bt_gaps *gaps,
                        const bt_rank *const *ranks, size_t count, FILE *out) {
  int64_t ns[BT_CLASS_COUNT] = {0};
  for (size_t i = 0; i < count; i++) {
    bt_range_classes(trace, what->lods, gaps, (size_t)(ranks[i] - trace->ranks), what->range.from, what->range.to, ns);
  }
  fprintf(out, "{\"stage\":%d,\"ranks\":%zu,\"interval_ns\":%" PRId64, (int)bt_rank_stage(ranks[0]), count,
          (int64_t)count * (what->range.to - what->range.from));
  for (unsigned class = 0; class < BT_CLASS_COUNT; class ++)
    fprintf(out, ",\"%s\":%" PRId64, bt_class_key((bt_class) class), ns[class]);
  fputc('}', out);
}

static bt_status write_stages(const bt_trace *trace, const bt_range_json *what, FILE *out) {
  const bt_rank **ranks = malloc((trace->rank_count + 1) * sizeof *ranks);
  if (ranks == NULL) return BT_ERR_NOMEM;
  bt_gaps *gaps = find_gaps(trace, &what->range);
  size_t count = 0;
  for (size_t i = 0; i < trace->rank_count; i++) {
    if (is_of(&trace->ranks[i], what)) ranks[count++] = &trace->ranks[i];
  }
  if (count > 0) qsort(ranks, count, sizeof *ranks, by_stage);
  for (size_t i = 0; i < count;) {
    size_t members = 1;
    while (i + members < count && bt_rank_stage(ranks[i + members]) == bt_rank_stage(ranks[i]))
      members++;
    fputs(i == 0 ? "\n  " : ",\n  ", out);
    write_stage(trace, what, gaps, ranks + i, members, out);
    i += members;
  }
  bt_gaps_free(gaps);
  free(ranks);
  return BT_OK;
}

static void number_or_null(FILE *out, const char *key, int32_t number) {
  if (number < 0)
    fprintf(out, ",\"%s\":null", key);
  else
    fprintf(out, ",\"%s\":%d", key, (int)number);
}

static void write_spans(const bt_rank *rank, bt_lane lane, const bt_range_json *what, bool *any, FILE *out) {
  const bt_track *track = &rank->tracks[lane];
  size_t first, end;
  bt_export_spans(rank, track, &what->range, &first, &end);
  for (size_t i = first; i < end; i++) {
    const bt_span *span = &track->spans[i];
    if (!bt_export_within(rank, track, span, &what->range)) continue;
    fputs(*any ? ",\n  " : "\n  ", out);
    *any = true;
    fprintf(out, "{\"stage\":%d,\"rank\":%d,\"lane\":\"%s\",\"kind\":\"%s\"", (int)bt_rank_stage(rank), (int)rank->rank,
            bt_lane_name(lane), bt_code_name(span->kind));
    number_or_null(out, "chunk", span->chunk);
    number_or_null(out, "microbatch", span->microbatch);
    fprintf(out, ",\"start_ns\":%" PRId64 ",\"dur_ns\":%" PRId64 "}", bt_export_time(rank, span->start),
            bt_span_duration(track, span));
  }
}

bt_status bt_range_json_write(const bt_trace *trace, const bt_range_json *what, FILE *out) {
  fputs("{\"run\":\"", out);
  bt_export_json_text(out, what->run);
  fputc('"', out);
  number_or_null(out, "replica", what->replica);
  fprintf(out, ",\"from_ns\":%" PRId64 ",\"to_ns\":%" PRId64 ",\n \"stages\":[", what->range.from, what->range.to);
  bt_status status = write_stages(trace, what, out);
  fputs("],\n \"spans\":[", out);
  bool any = false;
  for (size_t i = 0; i < trace->rank_count; i++) {
    for (unsigned lane = 0; lane < BT_LANE_COUNT && is_of(&trace->ranks[i], what); lane++)
      write_spans(&trace->ranks[i], (bt_lane)lane, what, &any, out);
  }
  fputs("]}\n", out);
  return status != BT_OK ? status : ferror(out) ? BT_ERR_IO : BT_OK;
}
