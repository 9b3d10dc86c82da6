/* The Gantt of one replica as SVG: rows of stages, blocks with microbatch numbers, a time axis, a legend. Plain shapes and
 * text only, so that it goes through any converter to a paper's format. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"
#include "formats/export.h"

enum {
  MOST_BLOCKS = 200000,
  MOST_ROWS = 512,
  WIDTH = 1000, /* of the timeline */
  LEFT = 110,
  ROW = 26,
  GAP = 8,
  TOP = 40,
  MARGIN = 16
};

typedef struct block {
  int64_t start, end;
  unsigned kind;
  int32_t chunk, microbatch;
} block;

typedef struct picture {
  const bt_trace *trace;
  const bt_export_picture *wanted;
  FILE *out;
  const bt_rank *rows[MOST_ROWS]; /* the first rank of each stage, by stage */
  size_t row_count;
  block *blocks; /* of the row that is being drawn */
  size_t block_count, block_capacity;
  size_t drawn;
  bool kinds[BT_CODE_SPAN_LIMIT];
} picture;

/* Okabe and Ito's colours; a darker one for odd microbatches, another for odd chunks. */
static const char *color_of(unsigned kind, int32_t chunk, int32_t microbatch) {
  static const char *const shades[3][4] = {{"#0072b2", "#005f95", "#6a63b8", "#574f9e"},
                                           {"#009e73", "#00835f", "#1c8a8c", "#12706f"},
                                           {"#e69f00", "#cc8d00", "#c1762b", "#a8641f"}};
  unsigned shade = (microbatch > 0 && microbatch % 2 == 1 ? 1u : 0u) + (chunk > 0 && chunk % 2 == 1 ? 2u : 0u);
  switch (kind) {
  case BT_F: return shades[0][shade];
  case BT_B:
  case BT_BW: return shades[1][shade];
  case BT_W: return shades[2][shade];
  case BT_FB: return "#a0569a";
  case BT_RECOMPUTE: return "#56b4e9";
  case BT_OPTIMIZER: return "#d5c63a";
  default: return "#8a8a8a";
  }
}

static const char *title_of(unsigned kind) {
  switch (kind) {
  case BT_F: return "forward";
  case BT_B: return "backward (input)";
  case BT_W: return "backward (weight)";
  case BT_BW: return "backward";
  case BT_FB: return "forward and backward";
  case BT_RECOMPUTE: return "recompute";
  case BT_OPTIMIZER: return "optimizer";
  default: return "other";
  }
}

static double x_of(const picture *p, int64_t time) {
  double length = (double)p->wanted->range.to - (double)p->wanted->range.from;
  double at = ((double)time - (double)p->wanted->range.from) / length * WIDTH;
  return LEFT + (at < 0 ? 0 : at > WIDTH ? WIDTH : at);
}

static bt_status find_rows(picture *p) {
  for (size_t r = 0; r < p->trace->rank_count; r++) {
    const bt_rank *rank = &p->trace->ranks[r];
    if (bt_rank_replica(rank) != p->wanted->replica) continue;
    size_t at = p->row_count;
    bool known = false;
    for (size_t i = 0; i < p->row_count; i++)
      known = known || bt_rank_stage(p->rows[i]) == bt_rank_stage(rank);
    if (known) continue;
    if (at == MOST_ROWS) return BT_ERR_LIMIT;
    for (; at > 0 && bt_rank_stage(p->rows[at - 1]) > bt_rank_stage(rank); at--)
      p->rows[at] = p->rows[at - 1];
    p->rows[at] = rank;
    p->row_count++;
  }
  return p->row_count > 0 ? BT_OK : BT_ERR_EMPTY;
}

/* The compute spans of a row within the range, in order of start. */
static bt_status find_blocks(picture *p, const bt_rank *rank) {
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  size_t at, end;
  p->block_count = 0;
  for (bt_export_spans(rank, track, &p->wanted->range, &at, &end); at < end; at++) {
    const bt_span *span = &track->spans[at];
    if (span->kind == BT_GATE || !bt_export_within(rank, track, span, &p->wanted->range)) continue;
    if (++p->drawn > MOST_BLOCKS) return BT_ERR_LIMIT;
    if (!bt_array_reserve(&p->blocks, &p->block_capacity, p->block_count + 1, sizeof *p->blocks)) return BT_ERR_NOMEM;
    p->blocks[p->block_count++] = (block){.start = bt_export_time(rank, span->start),
                                          .end = bt_export_time(rank, bt_span_end(track, span)),
                                          .kind = span->kind,
                                          .chunk = span->chunk,
                                          .microbatch = span->microbatch};
    p->kinds[span->kind] = true;
  }
  return BT_OK;
}

/* The part of the range in which no block runs. */
static double bubble_of(const picture *p) {
  int64_t until = p->wanted->range.from;
  double busy = 0;
  for (size_t i = 0; i < p->block_count; i++) {
    const block *b = &p->blocks[i];
    int64_t start = b->start > until ? b->start : until,
            end = b->end < p->wanted->range.to ? b->end : p->wanted->range.to;
    if (end <= start) continue;
    busy += (double)end - (double)start;
    until = end;
  }
  return 1 - busy / ((double)p->wanted->range.to - (double)p->wanted->range.from);
}

static void put_block(const picture *p, const block *b, double y) {
  double from = x_of(p, b->start), to = x_of(p, b->end), width = to - from < 0.3 ? 0.3 : to - from;
  fprintf(p->out, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"", from, y, width, ROW,
          color_of(b->kind, b->chunk, b->microbatch));
  if (width >= 3) fputs(" stroke=\"#ffffff\" stroke-width=\"0.6\"", p->out);
  fputs("/>\n", p->out);
  char number[16];
  int length = b->microbatch >= 0 ? snprintf(number, sizeof number, "%d", (int)b->microbatch) : 0;
  if (length > 0 && width >= 4 + 6.5 * length) {
    fprintf(p->out, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"11\" fill=\"%s\">%s</text>\n",
            from + width / 2, y + ROW / 2.0 + 4, b->kind == BT_W || b->kind == BT_OPTIMIZER ? "#000000" : "#ffffff",
            number);
  }
}

static bt_status put_rows(picture *p) {
  for (size_t i = 0; i < p->row_count; i++) {
    double y = TOP + (double)i * (ROW + GAP);
    bt_status status = find_blocks(p, p->rows[i]);
    if (status != BT_OK) return status;
    fprintf(p->out, "<rect x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"#f1f1f1\"/>\n", LEFT, y, WIDTH, ROW);
    fprintf(p->out, "<text x=\"%d\" y=\"%.1f\" fill=\"#222222\">stage %d</text>\n", MARGIN, y + ROW / 2.0 + 4,
            (int)bt_rank_stage(p->rows[i]));
    fprintf(p->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#666666\">%.1f %%</text>\n", LEFT - 8,
            y + ROW / 2.0 + 4, bubble_of(p) * 100);
    for (size_t b = 0; b < p->block_count; b++)
      put_block(p, &p->blocks[b], y);
  }
  return BT_OK;
}

/* Where steps begin, by the marks of the first row. */
static void put_step_lines(const picture *p, double bottom) {
  const bt_rank *rank = p->rows[0];
  double previous = -1000;
  for (size_t i = 0; i < rank->step_count; i++) {
    if (rank->steps[i].begin == INT64_MIN) continue;
    int64_t begin = bt_export_time(rank, rank->steps[i].begin);
    if (begin < p->wanted->range.from || begin >= p->wanted->range.to) continue;
    double x = x_of(p, begin);
    fprintf(p->out,
            "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%.0f\" stroke=\"#999999\" stroke-dasharray=\"3 3\"/>\n", x,
            TOP - 6, x, bottom);
    if (x - previous < 60) continue;
    fprintf(p->out, "<text x=\"%.2f\" y=\"%d\" font-size=\"11\" fill=\"#666666\">step %" PRId64 "</text>\n", x + 3,
            TOP - 8, rank->steps[i].id);
    previous = x;
  }
}

static void put_axis(const picture *p, double y) {
  double length = (double)p->wanted->range.to - (double)p->wanted->range.from, tick = 1;
  while (tick * 10 <= length / 8)
    tick *= 10;
  static const double steps[] = {1, 2, 5, 10};
  for (size_t i = 0; i < 4; i++) {
    if (tick * steps[i] < length / 8 && i < 3) continue;
    tick *= steps[i];
    break;
  }
  static const struct {
    double ns;
    const char *name;
  } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  size_t unit = 0;
  while (unit < 3 && tick < units[unit].ns && length < 2 * units[unit].ns)
    unit++;
  int decimals = 0;
  for (double grain = units[unit].ns; grain > tick && decimals < 3; grain /= 10)
    decimals++;
  fprintf(p->out, "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" stroke=\"#333333\"/>\n", LEFT, y, LEFT + WIDTH, y);
  for (int i = 0; tick * i <= length * 1.0000001; i++) {
    double x = LEFT + tick * i / length * WIDTH;
    fprintf(p->out, "<line x1=\"%.2f\" y1=\"%.0f\" x2=\"%.2f\" y2=\"%.0f\" stroke=\"#333333\"/>\n", x, y, x, y + 5);
    fprintf(p->out,
            "<text x=\"%.2f\" y=\"%.0f\" text-anchor=\"middle\" font-size=\"11\" fill=\"#444444\">%.*f %s</text>\n", x,
            y + 19, decimals, tick * i / units[unit].ns, units[unit].name);
  }
}

static void put_legend(const picture *p, double y) {
  double x = LEFT;
  for (unsigned kind = 0; kind < BT_CODE_SPAN_LIMIT; kind++) {
    if (!p->kinds[kind]) continue;
    fprintf(p->out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"14\" fill=\"%s\"/>\n", x, y,
            color_of(kind, 0, 0));
    fprintf(p->out, "<text x=\"%.0f\" y=\"%.0f\" fill=\"#222222\">%s</text>\n", x + 20, y + 11, title_of(kind));
    x += 44 + 7 * (double)strlen(title_of(kind));
  }
  fprintf(p->out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"14\" fill=\"#f1f1f1\" stroke=\"#999999\"/>\n", x,
          y);
  fprintf(p->out, "<text x=\"%.0f\" y=\"%.0f\" fill=\"#222222\">bubble (share at the left)</text>\n", x + 20, y + 11);
}

static void put_head(const picture *p, int width, int height) {
  fprintf(p->out,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
          "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
          "<g font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#222222\" stroke=\"none\">\n",
          width, height, width, height, width, height);
  if (p->wanted->title == NULL) return;
  fprintf(p->out, "<text x=\"%d\" y=\"18\" font-weight=\"bold\">", MARGIN);
  bt_export_xml_text(p->out, p->wanted->title);
  fputs("</text>\n", p->out);
}

bt_status bt_export_svg(const bt_trace *trace, const bt_export_picture *wanted, FILE *out, bt_error *error) {
  picture p = {.trace = trace, .wanted = wanted, .out = out};
  if (wanted->range.from >= wanted->range.to) return bt_fail(error, BT_ERR_EMPTY, "svg: nothing in that range");
  bt_status status = find_rows(&p);
  if (status == BT_ERR_EMPTY) return bt_fail(error, status, "svg: replica %d has no rank", (int)wanted->replica);
  if (status != BT_OK) return bt_fail(error, status, "svg: more than %d stages", MOST_ROWS);
  double bottom = TOP + (double)p.row_count * (ROW + GAP);
  put_head(&p, LEFT + WIDTH + 2 * MARGIN, (int)bottom + 70);
  status = put_rows(&p);
  put_step_lines(&p, bottom - GAP);
  put_axis(&p, bottom);
  put_legend(&p, bottom + 36);
  fputs("</g>\n</svg>\n", out);
  free(p.blocks);
  if (status == BT_ERR_LIMIT)
    return bt_fail(error, status, "svg: more than %d blocks: choose fewer steps", MOST_BLOCKS);
  if (status != BT_OK) return bt_fail(error, status, "svg: no memory");
  return ferror(out) ? bt_fail(error, BT_ERR_IO, "svg: cannot write") : BT_OK;
}
