/* csv and jsonl: a line a span. */
#include <inttypes.h>

#include "formats/export.h"

static const char *name_of(const bt_trace *trace, const bt_span_more *more) {
  return more != NULL && more->name > 0 && more->name <= trace->name_count ? trace->names[more->name - 1] : NULL;
}

static const bt_group_info *group_of(const bt_rank *rank, const bt_span_more *more) {
  return more != NULL && more->group > 0 && more->group <= rank->group_count ? &rank->groups[more->group - 1] : NULL;
}

static const char *clock_of(const bt_span *span) {
  return span->flags & BT_FLAG_GPU_TIMED ? "gpu" : "host";
}

/* A quoted field; quotes are doubled, line breaks and other control characters replaced. */
static void csv_text(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
    if (*p == '"') fputc('"', out);
    fputc(*p < ' ' || *p == 0x7F ? '?' : *p, out);
  }
  fputc('"', out);
}

static void csv_number(FILE *out, int64_t value) {
  if (value >= 0)
    fprintf(out, ",%" PRId64, value);
  else
    fputc(',', out);
}

static void csv_span(const bt_trace *trace, const bt_rank *rank, unsigned lane, const bt_span *span, FILE *out) {
  const bt_track *track = &rank->tracks[lane];
  const bt_span_more *more = bt_span_details(track, span);
  const bt_group_info *group = group_of(rank, more);
  fprintf(out, "%d,%d,%d,%s,%s,%" PRId64 ",%" PRId64 ",%s", (int)rank->rank, (int)bt_rank_stage(rank),
          (int)bt_rank_replica(rank), bt_lane_name((bt_lane)lane), bt_code_name(span->kind),
          bt_export_time(rank, span->start), bt_span_duration(track, span), clock_of(span));
  csv_number(out, span->microbatch);
  csv_number(out, span->chunk);
  csv_number(out, span->stream);
  csv_number(out, more == NULL ? -1 : bt_trace_peer(rank, more->group, more->peer));
  fprintf(out, ",%s", group == NULL ? "" : bt_domain_name(group->domain));
  csv_number(out, more == NULL ? -1 : more->bytes);
  csv_number(out, bt_span_sequence(track, span));
  fputc(',', out);
  if (name_of(trace, more) != NULL) csv_text(out, name_of(trace, more));
  fputc('\n', out);
}

static void json_number(FILE *out, const char *key, int64_t value) {
  if (value >= 0) fprintf(out, ",\"%s\":%" PRId64, key, value);
}

static void json_span(const bt_trace *trace, const bt_rank *rank, unsigned lane, const bt_span *span, FILE *out) {
  const bt_track *track = &rank->tracks[lane];
  const bt_span_more *more = bt_span_details(track, span);
  const bt_group_info *group = group_of(rank, more);
  fprintf(out,
          "{\"type\":\"span\",\"rank\":%d,\"stage\":%d,\"lane\":\"%s\",\"kind\":\"%s\",\"start_ns\":%" PRId64
          ",\"duration_ns\":%" PRId64 ",\"clock\":\"%s\"",
          (int)rank->rank, (int)bt_rank_stage(rank), bt_lane_name((bt_lane)lane), bt_code_name(span->kind),
          bt_export_time(rank, span->start), bt_span_duration(track, span), clock_of(span));
  json_number(out, "microbatch", span->microbatch);
  json_number(out, "chunk", span->chunk);
  json_number(out, "stream", span->stream);
  if (more != NULL) {
    json_number(out, "peer", bt_trace_peer(rank, more->group, more->peer));
    json_number(out, "bytes", more->bytes);
    json_number(out, "sequence", bt_span_sequence(track, span));
    json_number(out, "tokens", more->tokens);
    if (span->kind == BT_FB) json_number(out, "backward_microbatch", more->microbatch_b);
    if (span->kind == BT_GATE) fprintf(out, ",\"blocked_on\":\"%s\"", bt_code_name(more->on_code));
  }
  if (group != NULL) fprintf(out, ",\"domain\":\"%s\"", bt_domain_name(group->domain));
  if (name_of(trace, more) != NULL) {
    fputs(",\"name\":\"", out);
    bt_export_json_text(out, name_of(trace, more));
    fputc('"', out);
  }
  fputs("}\n", out);
}

static void json_rank(const bt_trace *trace, const bt_rank *rank, FILE *out) {
  fprintf(out, "{\"type\":\"rank\",\"rank\":%d,\"stage\":%d,\"replica\":%d", (int)rank->rank, (int)bt_rank_stage(rank),
          (int)bt_rank_replica(rank));
  if (rank->host < trace->host_count) {
    fputs(",\"host\":\"", out);
    bt_export_json_text(out, trace->hosts[rank->host].name);
    fputc('"', out);
  }
  fputs("}\n", out);
}

static void json_steps(const bt_rank *rank, const bt_export_range *range, FILE *out) {
  for (size_t i = 0; i < rank->step_count; i++) {
    const bt_step *step = &rank->steps[i];
    int64_t at = bt_export_time(rank, step->begin != INT64_MIN ? step->begin : step->end);
    int64_t until = step->end != INT64_MIN ? bt_export_time(rank, step->end) : at;
    if (at >= range->to || (until <= range->from && range->from != INT64_MIN)) continue;
    fprintf(out, "{\"type\":\"step\",\"rank\":%d,\"step\":%" PRId64, (int)rank->rank, step->id);
    if (step->begin != INT64_MIN) fprintf(out, ",\"begin_ns\":%" PRId64, bt_export_time(rank, step->begin));
    if (step->end != INT64_MIN) fprintf(out, ",\"end_ns\":%" PRId64, bt_export_time(rank, step->end));
    fputs("}\n", out);
  }
}

typedef void write_span(const bt_trace *trace, const bt_rank *rank, unsigned lane, const bt_span *span, FILE *out);

static void write_spans(const bt_trace *trace, const bt_rank *rank, const bt_export_range *range, write_span *write,
                        FILE *out) {
  for (unsigned lane = 0; lane < BT_LANE_COUNT; lane++) {
    const bt_track *track = &rank->tracks[lane];
    size_t at, end;
    for (bt_export_spans(rank, track, range, &at, &end); at < end; at++) {
      if (bt_export_within(rank, track, &track->spans[at], range)) write(trace, rank, lane, &track->spans[at], out);
    }
  }
}

bt_status bt_export_csv(const bt_trace *trace, const bt_export_range *range, FILE *out) {
  fputs("rank,stage,replica,lane,kind,start_ns,duration_ns,clock,microbatch,chunk,stream,peer,domain,bytes,sequence,"
        "name\n",
        out);
  for (size_t r = 0; r < trace->rank_count; r++)
    write_spans(trace, &trace->ranks[r], range, csv_span, out);
  return ferror(out) ? BT_ERR_IO : BT_OK;
}

bt_status bt_export_jsonl(const bt_trace *trace, const bt_export_range *range, FILE *out) {
  for (size_t r = 0; r < trace->rank_count; r++) {
    json_rank(trace, &trace->ranks[r], out);
    json_steps(&trace->ranks[r], range, out);
    write_spans(trace, &trace->ranks[r], range, json_span, out);
  }
  return ferror(out) ? BT_ERR_IO : BT_OK;
}
