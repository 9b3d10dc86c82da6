#include "tui/screen/gantt.h"

#include <stdio.h>
#include <string.h>

#include "tui/screen/gantt_cells.h"
#include "tui/screen/hang.h"
#include "tui/screen/text.h"

enum { WIDE = 8 }; /* cells: a block that shows so much of itself beside its number is labelled there */

static int eighth_of(const bt_painter *p, int64_t raw) {
  int64_t time =
      p->rank->clock_rate == 0 ? bt_time_sub(raw, p->left) : bt_time_sub(bt_view_time(p->rank, raw), p->view->origin);
  double at = (double)time * p->scale;
  int limit = p->view->columns * 8;
  return at <= 0 ? 0 : at >= limit ? limit : (int)(at + 0.5);
}

static bt_color span_color(const bt_painter *p, size_t index) {
  const bt_span *span = &p->track->spans[index];
  return index == p->selected ? BT_COLOR_SELECT : bt_theme_block(span->kind, span->chunk, span->microbatch);
}

/* --- segments ---------------------------------------------------------------------------------------------------------- */

typedef struct block { /* consecutive segments of one span, in eighths */
  int from, to;
  int hidden; /* so much of it lies before the left edge */
  size_t span;
} block;

static bool is_bubble(const bt_painter *p, size_t span) {
  return p->track->spans[span].kind == BT_GATE; /* waiting looks like waiting */
}

static void paint_block(bt_painter *p, block *b, const block *previous) {
  if (is_bubble(p, b->span)) return;
  uint8_t *eighths = p->view->eighths;
  bt_color color = span_color(p, b->span);
  if (b->to == b->from && b->to < p->view->columns * 8) b->to++; /* too short, but it was there */
  bool touches = previous != NULL && previous->to >= b->from && previous->span != b->span;
  if (touches && b->from > 0 && b->to - b->from >= 12 && eighths[b->from - 1] == (uint8_t)color) {
    eighths[b->from - 1] = BT_NOTHING; /* a hair between blocks of one kind */
  }
  for (int i = b->from; i < b->to; i++) {
    if (b->to - b->from > 1 || eighths[i] == BT_NOTHING) eighths[i] = (uint8_t)color;
  }
}

/* The microbatch; where stages hold several chunks and a block of so many columns has room for it, "3c1": of chunk 1. */
static int label_of(const bt_painter *p, size_t index, int columns, char *out, size_t room) {
  enum { WITH_CHUNK = 7 };
  const bt_span *span = &p->track->spans[index];
  if (span->microbatch < 0 || bt_code_is_collective(span->kind)) return 0;
  if (p->rank->layout.chunks > 1 && span->chunk >= 0 && columns >= WITH_CHUNK)
    return snprintf(out, room, "%dc%d", (int)span->microbatch, (int)span->chunk);
  return snprintf(out, room, "%d", (int)span->microbatch);
}

/* The number of a block, centred on it. While the picture runs, the number of a block that leaves goes with it, and all its
 * cells have the colours of the number: nothing is to be written but what comes in. */
static void label_block(bt_painter *p, const block *b) {
  if (is_bubble(p, b->span)) return;
  int hidden = p->running ? b->hidden : 0, begin = b->from - hidden;
  int from = (b->from + 7) / 8, to = b->to / 8, first = from - hidden / 8;
  if (b->to - begin < 8 + 6 || to == from) return; /* too narrow for one figure */
  char text[16];
  int length = label_of(p, b->span, (b->to - begin) / 8, text, sizeof text);
  if (length <= 0 || to - first < length || b->to - begin < 8 * length + 6) return; /* calm where it is tight */
  bt_color block_color = span_color(p, b->span);
  for (int column = from; column < to; column++) { /* other spans may lie in it, and aggregated columns */
    if (p->view->eighths[column * 8] != (uint8_t)block_color) return;
  }
  bt_color kind = bt_theme_kind(p->track->spans[b->span].kind);
  bt_color fg = block_color == BT_COLOR_SELECT ? kind : bt_theme_text_on(block_color);
  /* centred on the block itself, not on its whole cells */
  int twice = begin + b->to - length * 8 + 4, at = twice >= 0 ? twice / 16 : -((15 - twice) / 16);
  if (at < first) at = first;
  if (at + length > to) at = to - length;
  int filled = from;
  if (from > 0) { /* the cell before, if it was taken for a whole one */
    const bt_cell *cell = bt_grid_at(p->grid, p->y, p->view->left + from - 1);
    if (cell->glyph == ' ' && cell->bg == block_color) filled--;
  }
  bt_grid_fill(p->grid, p->y, p->view->left + filled, to - filled, ' ', fg, block_color, 0);
  if (at < from && to - from < length + WIDE) return;
  if (at < from) at = from;
  bt_grid_text(p->grid, p->y, p->view->left + at, length, text, fg, block_color,
               block_color == BT_COLOR_SELECT ? BT_ATTR_BOLD : 0);
}

/* Without sub-cell edges: whole cells, the first one a letter, then the number. */
static void letter_block(bt_painter *p, const block *b) {
  if (is_bubble(p, b->span)) return;
  int from = (b->from + 4) / 8, to = (b->to + 4) / 8;
  if (to == from) to++;
  if (to > p->view->columns) to = p->view->columns;
  unsigned kind = p->track->spans[b->span].kind;
  bt_color color = span_color(p, b->span);
  bool mono = p->view->theme.level == BT_LEVEL_MONO;
  char text[20] = {bt_theme_letter(kind), 0};
  int length = 1 + label_of(p, b->span, to - from, text + 1, sizeof text - 1);
  if (length > to - from) length = 1;
  for (int column = from; column < to; column++) {
    int at = column - from;
    char letter = at < length ? text[at] : mono ? '-' : ' ';
    bt_cells_letter(p, column, kind, color, letter);
    if (b->span == p->selected) {
      bt_cell *cell = bt_grid_at(p->grid, p->y, p->view->left + column);
      cell->fg = BT_COLOR_DARK_TEXT;
      cell->attributes = mono ? BT_ATTR_BOLD | BT_ATTR_UNDERLINE : BT_ATTR_BOLD;
    }
  }
}

/* How much of the block lies before the left edge, in eighths. */
static int hidden_part(const bt_painter *p, const bt_lod_segment *segment) {
  int64_t start = p->track->spans[segment->span].start;
  if (start >= segment->start) return 0;
  double eighths = (double)bt_time_sub(segment->start, start) * p->scale;
  return eighths < 8000 ? (int)(eighths + 0.5) : 8000;
}

/* The next one that lasts at least `least`. */
static bool next_block(const bt_painter *p, size_t *at, int64_t least, block *b) {
  const bt_lod_segments *segments = &p->view->segments;
  while (*at < segments->count) {
    const bt_lod_segment *segment = &segments->items[(*at)++];
    int64_t end = segment->end < p->clip ? segment->end : p->clip;
    if (segment->start >= p->clip) return false;
    if (bt_time_sub(end, segment->start) < least) continue;
    *b = (block){.from = eighth_of(p, segment->start), .to = eighth_of(p, end), .span = segment->span};
    if (b->from == 0) b->hidden = hidden_part(p, segment);
    return true;
  }
  return false;
}

/* --- rows -------------------------------------------------------------------------------------------------------------- */

static void start_painter(bt_painter *p, bt_view *view, const bt_row *row, bt_grid *grid, int y) {
  const bt_rank *rank = &view->trace->ranks[row->rank_index];
  bt_lane lane = row->is_lane ? row->lane : BT_LANE_COMPUTE;
  *p = (bt_painter){.view = view, .grid = grid, .top = y, .height = view->height, .row = row, .rank = rank};
  p->y = y + (view->height - 1) / 2;
  p->track = &rank->tracks[lane];
  p->lod = bt_lod_of(view->lods, row->rank_index, lane);
  p->fine = bt_theme_fine(&view->theme);
  p->scale = 8 / (double)view->width;
  p->left = bt_raw_time(rank, view->origin);
  p->running = view->follow && !view->paused && (view->feed.live || view->replaying);
  p->clip = view->replaying ? bt_raw_time(rank, view->clock) : INT64_MAX;
  p->selected = SIZE_MAX;
  if (view->twinned && view->twin_rank == row->rank_index && lane == BT_LANE_COMPUTE) p->selected = view->twin_span;
  if (bt_view_is_here(view, row) && !view->parked) {
    size_t span;
    int64_t raw = bt_raw_time(rank, view->cursor.time);
    if (raw < p->clip && bt_lod_at(p->lod, p->track, raw, &span)) p->selected = span;
  }
  int64_t first = bt_view_time(rank, rank->first);
  if (rank->first <= rank->last && first < view->last) {
    if (view->first > first) first = view->first;
    int from = bt_view_column(view, view->first);
    p->dots_from = from < 0 ? 0 : from;
    p->dots_to = bt_view_column(view, view->last);
  }
}

/* A span that has not ended grows over what is idle. */
static void paint_open(bt_painter *p) {
  bt_lane lane = p->row->is_lane ? p->row->lane : BT_LANE_COMPUTE;
  for (size_t i = 0; i < p->rank->open_count; i++) {
    const bt_event *event = &p->rank->open[i].event;
    unsigned kind = event->on_code;
    if (bt_lane_of(kind) != lane || kind == BT_GATE || event->start >= p->clip) continue;
    int64_t until = bt_time_add(event->start, event->duration);
    if (until > p->clip) until = p->clip;
    int from = eighth_of(p, event->start), to = eighth_of(p, until);
    if (to == from && to < p->view->columns * 8 && event->start >= bt_raw_time(p->rank, p->view->origin)) to++;
    bt_color color = bt_theme_block(kind, event->chunk, event->microbatch);
    for (int column = from / 8; column * 8 < to; column++) {
      const bt_lod_sum *sum = &p->view->sums[column];
      if (!sum->segments && sum->starts > 0) continue;
      for (int e = column * 8; e < column * 8 + 8; e++) {
        if (e >= from && e < to && p->view->eighths[e] == BT_NOTHING) p->view->eighths[e] = (uint8_t)color;
      }
      if (!p->fine && bt_grid_at(p->grid, p->y, p->view->left + column)->glyph == ' ') {
        bt_cells_letter(p, column, kind, color, bt_theme_letter(kind));
      }
    }
  }
}

/* Idle time in the colours of its classes, with their names where there is room. */
static void paint_why(bt_painter *p, bool names) {
  bt_view *view = p->view;
  const bt_gaps *gaps = view->show_why && !p->row->is_lane ? view->feed.gaps : NULL;
  if (gaps == NULL) return;
  size_t count;
  const bt_gap *gap = bt_gaps_from(gaps, p->rank->rank, view->origin, &count);
  for (; count > 0 && gap->start < bt_view_end(view); gap++, count--) {
    int from = eighth_of(p, bt_raw_time(p->rank, gap->start)), to = eighth_of(p, bt_raw_time(p->rank, gap->end));
    bt_color color = bt_theme_class(gap->class);
    if (!names) {
      for (int i = from; i < to; i++) {
        if (view->eighths[i] == BT_NOTHING) view->eighths[i] = (uint8_t)color;
      }
      continue;
    }
    const char *title = bt_class_title(gap->class);
    int length = (int)strlen(title), first = (from + 7) / 8, room = to / 8 - first;
    if (room < length + 2) continue;
    bt_grid_text(p->grid, p->y, view->left + first + (room - length) / 2, length, title, bt_theme_text_on(color), color,
                 0);
  }
}

static void draw_fine(bt_painter *p) {
  bt_view *view = p->view;
  memset(view->eighths, BT_NOTHING, (size_t)view->columns * 8);
  block b, previous;
  bool any = false;
  int hidden = 0; /* of the first one */
  for (size_t at = 0; next_block(p, &at, 0, &b);) {
    if (!any) hidden = b.hidden;
    paint_block(p, &b, any ? &previous : NULL);
    previous = b;
    any = true;
  }
  paint_open(p);
  paint_why(p, false);
  for (int column = 0; column < view->columns; column++) {
    const bt_lod_sum *sum = &view->sums[column];
    if (sum->starts > 0 && !sum->segments)
      bt_cells_shares(p, column, sum);
    else
      bt_cells_eighths(p, column, &view->eighths[column * 8]);
  }
  for (size_t at = 0; next_block(p, &at, p->view->width, &b);)
    label_block(p, &b);
  paint_why(p, true);
  for (int y = p->top; y < p->top + p->height && p->running; y++)
    bt_cells_economize(p, y, hidden);
}

static void draw_letters(bt_painter *p) {
  block b;
  for (int column = 0; column < p->view->columns; column++) {
    const bt_lod_sum *sum = &p->view->sums[column];
    if (sum->starts > 0 && !sum->segments) bt_cells_shares(p, column, sum);
  }
  for (size_t at = 0; next_block(p, &at, 0, &b);)
    letter_block(p, &b);
  paint_open(p);
  for (int column = 0; column < p->view->columns; column++) {
    bt_cell *cell = bt_grid_at(p->grid, p->y, p->view->left + column);
    if (cell->glyph == ' ' && cell->bg == BT_COLOR_DEFAULT) bt_cells_idle(p, column);
  }
}

/* Columns behind the clock show nothing, even where they are sums. */
static void cut_at_clock(bt_painter *p) {
  if (p->clip == INT64_MAX) return;
  int column = bt_view_column(p->view, bt_view_time(p->rank, p->clip));
  for (column = column < 0 ? 0 : column + 1; column < p->view->columns; column++) {
    bt_cells_put(p, p->view->left + column, ' ', BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  }
}

static void draw_step_lines(bt_painter *p) {
  bt_view *view = p->view;
  size_t index;
  (void)bt_steps_at(&view->steps, view->origin, &index);
  int previous = -4;
  for (; index < view->steps.count && view->steps.items[index].begin < bt_view_end(view); index++) {
    int column = bt_view_column(view, view->steps.items[index].begin);
    if (column < 0 || view->steps.items[index].begin > view->last) continue;
    if (column - previous < 8 && previous >= 0) return; /* too many to be lines */
    for (int y = p->top; y < p->top + p->height; y++) {
      bt_cell *cell = bt_grid_at(p->grid, y, view->left + column);
      if (cell->bg == BT_COLOR_DEFAULT && !(cell->attributes & BT_ATTR_REVERSE) &&
          (cell->glyph == ' ' || cell->glyph == bt_theme_glyph(&view->theme, BT_GLYPH_DOT))) {
        bt_grid_put(p->grid, y, view->left + column, bt_theme_glyph(&view->theme, BT_GLYPH_STEP), BT_COLOR_FAINT,
                    BT_COLOR_DEFAULT, 0);
      }
    }
    previous = column;
  }
}

/* The cursor in a bubble. */
static void draw_cursor(bt_painter *p) {
  bt_view *view = p->view;
  if (!bt_view_is_here(view, p->row) || p->selected != SIZE_MAX || view->parked) return;
  int column = bt_view_column(view, view->cursor.time);
  if (column < 0 || column >= view->columns) return;
  bt_cell *cell = bt_grid_at(p->grid, p->y, view->left + column);
  if (cell->bg == BT_COLOR_DEFAULT) {
    cell->fg = BT_COLOR_STRONG;
    cell->attributes |= BT_ATTR_BOLD;
    if (cell->glyph == ' ' || cell->glyph == bt_theme_glyph(&view->theme, BT_GLYPH_DOT)) {
      cell->glyph = view->theme.utf8 ? 0x2022 : '*';
    }
  }
}

/* Behind what is known of a stage of which nothing is heard any more. */
static void draw_silence(bt_painter *p) {
  int64_t silence = p->row->is_lane ? 0 : bt_hang_stage_silence(p->view, p->row);
  if (silence == 0) return;
  char text[40];
  int length = snprintf(text, sizeof text, " no news %lld s ", (long long)(silence / 1000000000));
  int column = bt_view_column(p->view, bt_view_time(p->rank, p->rank->last)) + 1;
  if (column + length > p->view->columns) column = p->view->columns - length;
  if (column < 0) column = 0;
  bt_grid_text(p->grid, p->y, p->view->left + column, p->view->columns - column, text, BT_COLOR_ALERT, BT_COLOR_DEFAULT,
               BT_ATTR_BOLD);
}

bt_status bt_gantt_row(bt_view *view, const bt_row *row, bt_grid *grid, int y) {
  bt_painter p;
  start_painter(&p, view, row, grid, y);
  view->segments.count = 0;
  bt_lod_memo *memo = &view->memos[y];
  bt_status status =
      bt_lod_memo_columns(memo, view->lods, view->trace, row->rank_index, row->is_lane ? row->lane : BT_LANE_COMPUTE,
                          bt_raw_time(p.rank, view->origin), view->width, (size_t)view->columns, &view->segments);
  if (status != BT_OK) return status;
  view->sums = memo->sums;
  if (p.fine)
    draw_fine(&p);
  else
    draw_letters(&p);
  cut_at_clock(&p);
  draw_step_lines(&p);
  draw_cursor(&p);
  draw_silence(&p);
  return BT_OK;
}

static void draw_sends(bt_view *view, const bt_row *from, const bt_row *to, bt_code kind, bt_glyph glyph, bt_grid *grid,
                       int y) {
  const bt_rank *rank = &view->trace->ranks[from->rank_index];
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  int64_t start = bt_raw_time(rank, view->origin), end = bt_raw_time(rank, bt_view_end(view));
  size_t first = bt_track_lower_bound(track, bt_time_sub(start, track->longest));
  size_t last = bt_track_lower_bound(track, end);
  if (last - first > (size_t)view->columns) return; /* too many to tell apart */
  uint32_t own = bt_theme_glyph(&view->theme, glyph), both = bt_theme_glyph(&view->theme, BT_GLYPH_BOTH);
  for (size_t i = first; i < last; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    if (span->kind != kind || more == NULL) continue;
    const bt_rank *peer = bt_trace_find(view->trace, bt_trace_peer(rank, more->group, more->peer));
    if (peer == NULL || bt_rank_stage(peer) != to->stage) continue;
    int64_t sent = bt_view_time(rank, span->start);
    int column = bt_view_column(view, sent);
    if (column < 0 || column >= view->columns || sent > view->last) continue;
    const bt_cell *cell = bt_grid_at(grid, y, view->left + column);
    bt_grid_put(grid, y, view->left + column, cell->glyph == ' ' || cell->glyph == own ? own : both, BT_COLOR_P2P,
                BT_COLOR_DEFAULT, 0);
  }
}

void bt_gantt_messages(bt_view *view, const bt_row *above, const bt_row *below, bt_grid *grid, int y) {
  if (view->width == 0) return;
  draw_sends(view, above, below, BT_SEND_F, BT_GLYPH_DOWN, grid, y);
  draw_sends(view, below, above, BT_SEND_B, BT_GLYPH_UP, grid, y);
}
