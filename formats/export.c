#include "formats/export.h"

#include <string.h>

/* The next code point of a text; 0xFFFD for what is none. */
static uint32_t next_point(const unsigned char **text) {
  const unsigned char *p = *text;
  unsigned length = p[0] < 0x80                   ? 1
                    : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                    : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                    : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
                                                  : 0;
  static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (length == 0) return ++*text, 0xFFFD;
  uint32_t point = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
  for (unsigned i = 1; i < length; i++) {
    if ((p[i] & 0xC0) != 0x80) return ++*text, 0xFFFD;
    point = point << 6 | (p[i] & 0x3Fu);
  }
  *text += length;
  bool wrong = point < smallest[length] || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF;
  return wrong || (point & 0xFFFE) == 0xFFFE ? 0xFFFD : point;
}

static void write_point(FILE *out, const unsigned char *start, const unsigned char *end, uint32_t point) {
  if (point == 0xFFFD)
    fputs("\xEF\xBF\xBD", out);
  else
    fwrite(start, 1, (size_t)(end - start), out);
}

void bt_export_json_text(FILE *out, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p != 0;) {
    const unsigned char *start = p;
    uint32_t point = next_point(&p);
    if (point == '"' || point == '\\')
      fprintf(out, "\\%c", (int)point);
    else if (point < 0x20 || (point >= 0x7F && point < 0xA0))
      fprintf(out, "\\u%04x", (unsigned)point);
    else
      write_point(out, start, p, point);
  }
}

void bt_export_xml_text(FILE *out, const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p != 0;) {
    const unsigned char *start = p;
    uint32_t point = next_point(&p);
    if (point == '&')
      fputs("&amp;", out);
    else if (point == '<')
      fputs("&lt;", out);
    else if (point == '>')
      fputs("&gt;", out);
    else if (point == '"')
      fputs("&quot;", out);
    else if (point < 0x20 || (point >= 0x7F && point < 0xA0))
      fputc('?', out);
    else
      write_point(out, start, p, point);
  }
}

static int64_t clamped(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return a < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

int64_t bt_export_time(const bt_rank *rank, int64_t raw) {
  int64_t time = clamped(raw, rank->offset_ns);
  if (rank->clock_rate == 0) return time;
  return clamped(time, (int64_t)(rank->clock_rate * ((double)raw - (double)rank->clock_pivot)));
}

/* A time in the rank's own clock that is not later (earlier) than what the shared clock says, by a margin for drift. */
static int64_t raw_near(const bt_rank *rank, int64_t time, int64_t margin) {
  if (time == INT64_MIN || time == INT64_MAX) return time;
  int64_t raw = clamped(time, rank->offset_ns == INT64_MIN ? INT64_MAX : -rank->offset_ns);
  if (rank->clock_rate == 0) return raw;
  double since = ((double)raw - (double)rank->clock_pivot) / (1 + rank->clock_rate);
  return clamped(clamped(raw, -(int64_t)(rank->clock_rate * since)), margin);
}

void bt_export_spans(const bt_rank *rank, const bt_track *track, const bt_export_range *range, size_t *first,
                     size_t *end) {
  enum { MARGIN = 1000 };
  int64_t from = raw_near(rank, range->from, -MARGIN), to = raw_near(rank, range->to, MARGIN);
  *first = from == INT64_MIN ? 0 : bt_track_lower_bound(track, clamped(from, -track->longest));
  *end = to == INT64_MAX ? track->count : bt_track_lower_bound(track, to);
}

bool bt_export_within(const bt_rank *rank, const bt_track *track, const bt_span *span, const bt_export_range *range) {
  if (range->from == INT64_MIN && range->to == INT64_MAX) return true;
  int64_t start = bt_export_time(rank, span->start), end = bt_export_time(rank, bt_span_end(track, span));
  return start < range->to && (end > range->from || start >= range->from);
}

bool bt_export_steps(const bt_trace *trace, int32_t replica, int64_t first, int64_t last, bt_export_range *range) {
  *range = (bt_export_range){INT64_MAX, INT64_MIN};
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    if (replica >= 0 && bt_rank_replica(rank) != replica) continue;
    const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
    for (size_t s = 0; s < rank->step_count; s++) {
      const bt_step *step = &rank->steps[s];
      if (step->id < first || step->id > last || step->begin == INT64_MIN) continue;
      int64_t end = step->end != INT64_MIN     ? step->end
                    : s + 1 < rank->step_count ? rank->steps[s + 1].begin
                                               : INT64_MAX;
      for (size_t i = bt_track_lower_bound(track, step->begin); i < track->count && track->spans[i].start < end; i++) {
        if (!bt_code_is_pipeline_op(track->spans[i].kind)) continue;
        int64_t from = bt_export_time(rank, track->spans[i].start),
                to = bt_export_time(rank, bt_span_end(track, &track->spans[i]));
        if (from < range->from) range->from = from;
        if (to > range->to) range->to = to;
      }
    }
  }
  return range->from < range->to;
}

bool bt_export_last_step(const bt_trace *trace, int32_t replica, int64_t *step) {
  bool any = false;
  int64_t last = INT64_MAX;
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    if (bt_rank_replica(rank) != replica) continue;
    size_t s = rank->step_count;
    while (s > 0 && (rank->steps[s - 1].begin == INT64_MIN || rank->steps[s - 1].end == INT64_MIN))
      s--;
    if (s == 0) return false;
    if (rank->steps[s - 1].id < last) last = rank->steps[s - 1].id;
    any = true;
  }
  *step = last;
  return any;
}
