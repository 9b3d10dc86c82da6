#include "tui/screen/chrome.h"
#include "tui/screen/hang.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen/detail.h"
#include "tui/screen/text.h"

/* --- header ---------------------------------------------------------------------------------------------------------- */

typedef struct part { /* a piece of the header; higher ranks go first when room is short */
  char text[160];
  bt_color fg;
  unsigned attributes;
  int rank;
} part;

static part *add_part(part *parts, size_t *count, int rank, bt_color fg) {
  part *p = &parts[(*count)++];
  *p = (part){.rank = rank, .fg = fg};
  return p;
}

static int parts_width(const part *parts, size_t count) {
  int width = 1;
  for (size_t i = 0; i < count; i++) {
    if (parts[i].text[0] != 0) width += bt_text_width(parts[i].text) + 2;
  }
  return width;
}

/* Leaves out what matters least until the rest fits. */
static void fit_parts(part *left, size_t left_count, part *right, size_t right_count, int width) {
  while (parts_width(left, left_count) + parts_width(right, right_count) > width) {
    part *least = NULL;
    for (size_t i = 0; i < left_count + right_count; i++) {
      part *p = i < left_count ? &left[i] : &right[i - left_count];
      if (p->text[0] != 0 && p->rank > 0 && (least == NULL || p->rank > least->rank)) least = p;
    }
    if (least == NULL) return;
    least->text[0] = 0;
  }
}

static void say_state(const bt_view *view, part *p) {
  char text[32];
  bt_glyph glyph = view->paused ? BT_GLYPH_PAUSED : BT_GLYPH_LIVE;
  const char *mark = view->theme.utf8 ? (view->paused ? "\u2016" : "\u25cf") : view->paused ? "=" : "*";
  (void)glyph;
  p->fg = view->paused ? BT_COLOR_BAR_MUTED : BT_COLOR_GOOD;
  if (view->replaying) {
    bt_text_append(p->text, sizeof p->text, "%s replay x%g", mark, view->speed);
  } else if (view->feed.loading) {
    p->fg = BT_COLOR_BAR_MUTED;
    bt_text_append(p->text, sizeof p->text, "reading");
  } else if (view->feed.indexing) {
    p->fg = BT_COLOR_BAR_MUTED;
    bt_text_append(p->text, sizeof p->text, "indexing");
  } else if (!view->feed.live) {
    p->fg = view->feed.gone ? BT_COLOR_ALERT : BT_COLOR_BAR_MUTED;
    bt_text_append(p->text, sizeof p->text, view->feed.gone ? "died, no end mark" : "ended");
    if (view->feed.gone && view->feed.newest[0] != 0)
      bt_text_append(p->text, sizeof p->text, ", %s", view->feed.newest);
  } else if (view->paused) {
    int64_t behind = bt_time_sub(view->last, bt_view_end(view));
    bt_text_append(p->text, sizeof p->text, "%s paused", mark);
    if (behind >= 1000000000) {
      bt_text_append(p->text, sizeof p->text, ", %s behind",
                     bt_text_duration(text, sizeof text, behind - behind % 1000000000));
    }
  } else {
    int64_t lag = bt_ages_least(&view->ages, view->trace);
    if (lag >= 60000000000 && view->feed.newest[0] != 0) { /* nothing changes any more: neither does this */
      p->fg = BT_COLOR_ALERT;
      bt_text_append(p->text, sizeof p->text, "no news since %s", view->feed.newest);
      return;
    }
    bt_text_append(p->text, sizeof p->text, "%s live", mark);
    /* in whole seconds once it is long, so that an idle screen writes little */
    if (lag >= 2000000000) {
      p->fg = lag >= 10000000000 ? BT_COLOR_ALERT : BT_COLOR_GOOD;
      bt_text_append(p->text, sizeof p->text, " %lld s", (long long)(lag / 1000000000));
    } else if (lag >= 0) {
      bt_text_append(p->text, sizeof p->text, " %.1f s", (double)(lag / 100000000) / 10);
    }
  }
}

static void say_layout(const bt_view *view, part *p) {
  const bt_rank *rank = view->rows.member_count > 0 ? &view->trace->ranks[view->rows.members[0].rank_index] : NULL;
  if (rank == NULL) return;
  const char *schedule = view->feed.verdict.schedule[0] != 0 ? view->feed.verdict.schedule : rank->layout.schedule;
  if (schedule[0] != 0) bt_text_append(p->text, sizeof p->text, "%s ", schedule);
  bt_text_append(p->text, sizeof p->text, "p=%zu", view->rows.stages);
  if (rank->layout.chunks > 1) bt_text_append(p->text, sizeof p->text, " v=%d", (int)rank->layout.chunks);
  if (rank->layout.microbatches > 0) bt_text_append(p->text, sizeof p->text, " m=%d", (int)rank->layout.microbatches);
}

static uint64_t dropped(const bt_trace *trace) {
  uint64_t sum = 0;
  for (size_t i = 0; i < trace->rank_count; i++)
    sum += trace->ranks[i].dropped;
  return sum;
}

void bt_chrome_header(bt_view *view, bt_grid *grid) {
  part left[8], right[6];
  size_t left_count = 0, right_count = 0;
  char text[32];
  part *p = add_part(left, &left_count, 6, BT_COLOR_BAR_MUTED);
  bt_text_append(p->text, sizeof p->text, "bubbletop");
  p = add_part(left, &left_count, 2, BT_COLOR_BAR_TEXT);
  p->attributes = BT_ATTR_BOLD;
  bt_text_append(p->text, sizeof p->text, "%s", view->feed.name);
  size_t step;
  if (view->first <= view->last && bt_steps_at(&view->steps, view->last, &step)) {
    p = add_part(left, &left_count, 1, BT_COLOR_BAR_TEXT);
    bt_text_append(p->text, sizeof p->text, "step %s", bt_text_count(text, sizeof text, view->steps.items[step].id));
  }
  p = add_part(left, &left_count, 3, BT_COLOR_BAR_TEXT);
  say_layout(view, p);
  if (view->rows.replicas > 1) {
    p = add_part(left, &left_count, 4, BT_COLOR_BAR_TEXT);
    bt_text_append(p->text, sizeof p->text, "replica %d of %d", (int)view->replica, (int)view->rows.replicas);
  }
  if (view->trace->world_size > 0 && view->trace->rank_count < (size_t)view->trace->world_size) {
    p = add_part(left, &left_count, 2, BT_COLOR_ALERT);
    bt_text_append(p->text, sizeof p->text, "%zu of %d ranks", view->trace->rank_count, (int)view->trace->world_size);
  }
  uint64_t lost = dropped(view->trace);
  if (lost > 0 || view->feed.problems > 0) {
    p = add_part(left, &left_count, 2, BT_COLOR_ALERT);
    if (lost > 0)
      bt_text_append(p->text, sizeof p->text, "! %s dropped", bt_text_count(text, sizeof text, (int64_t)lost));
    else
      bt_text_append(p->text, sizeof p->text, "! %zu problem%s", view->feed.problems,
                     view->feed.problems == 1 ? "" : "s");
  }
  say_state(view, add_part(right, &right_count, 1, BT_COLOR_GOOD));
  bt_rate rate;
  if (view->width > 0 && bt_view_rate(view, -1, &rate)) {
    p = add_part(right, &right_count, 0, BT_COLOR_BAR_TEXT);
    p->attributes = BT_ATTR_BOLD;
    bt_text_append(p->text, sizeof p->text, "bubble %.1f %%", rate.bubble * 100);
    const bt_verdict *verdict = &view->feed.verdict;
    int64_t from, to;
    bool chosen = bt_view_range(view, &from, &to);
    if (verdict->known && !chosen && view->scope == BT_SCOPE_STEP && !isnan(verdict->theory)) {
      p = add_part(right, &right_count, 5, BT_COLOR_BAR_TEXT);
      bt_text_append(p->text, sizeof p->text, "theory %.1f %%", verdict->theory * 100);
      p = add_part(right, &right_count, 7, BT_COLOR_BAR_TEXT);
      bt_text_append(p->text, sizeof p->text, "excess %+.1f", (rate.bubble - verdict->theory) * 100);
    }
    p = add_part(right, &right_count, view->scope == BT_SCOPE_STEP && !chosen ? 6 : 1, BT_COLOR_BAR_MUTED);
    bt_text_append(p->text, sizeof p->text, "%s", bt_view_scope_label(view));
  }
  fit_parts(left, left_count, right, right_count, grid->columns);
  bt_grid_fill(grid, 0, 0, grid->columns, ' ', BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
  int x = 1;
  for (size_t i = 0; i < left_count; i++) {
    if (left[i].text[0] == 0) continue;
    x += bt_grid_text(grid, 0, x, grid->columns - x, left[i].text, left[i].fg, BT_COLOR_BAR, left[i].attributes) + 2;
  }
  x = grid->columns - parts_width(right, right_count) + 2;
  for (size_t i = 0; i < right_count; i++) {
    if (right[i].text[0] == 0) continue;
    x += bt_grid_text(grid, 0, x, grid->columns - x, right[i].text, right[i].fg, BT_COLOR_BAR, right[i].attributes) + 2;
  }
  if (view->theme.level == BT_LEVEL_MONO) {
    for (int column = 0; column < grid->columns; column++)
      bt_grid_at(grid, 0, column)->attributes |= BT_ATTR_REVERSE;
  }
}

/* --- axis ------------------------------------------------------------------------------------------------------------ */

/* The distance between ticks: 1, 2, 2.5 or 5 times a power of ten, at least `columns` columns. */
static int64_t tick_of(int64_t width, int columns) {
  double least = (double)width * columns;
  int64_t power = 1;
  while ((double)power * 10 <= least && power < INT64_C(100000000000000000))
    power *= 10;
  static const double steps[] = {1, 2, 2.5, 5, 10};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    if ((double)power * steps[i] >= least && !(power < 10 && steps[i] == 2.5))
      return (int64_t)((double)power * steps[i]);
  }
  return bt_time_mul(power, 20);
}

/* Ticks from `base` on within columns [from, to). */
static void put_ticks(bt_view *view, bt_grid *grid, int64_t base, int from, int to) {
  int64_t tick = tick_of(view->width, 13);
  int64_t start = bt_time_add(view->origin, bt_time_mul(from, view->width));
  int64_t number = bt_time_sub(start, base) / tick;
  if (number < 1) number = 1;
  for (;; number++) {
    int64_t since = bt_time_mul(number, tick);
    int64_t time = bt_time_add(base, since);
    int column = bt_view_column(view, time);
    if (column >= to || column >= view->columns || time == INT64_MAX || since == INT64_MAX) return;
    if (column < from) continue;
    char text[32];
    bt_text_tick(text, sizeof text, since, tick);
    int length = bt_text_width(text);
    if (column + length >= to && to < view->columns) return; /* would run into the next step */
    bt_grid_text(grid, 1, view->left + column, view->columns - column, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
}

static void put_step(bt_view *view, bt_grid *grid, const bt_step_window *step, int column, int room) {
  char text[48] = "", number[32];
  bt_text_count(number, sizeof number, step->id);
  (void)snprintf(text, sizeof text, "step %s", number);
  if (bt_text_width(text) + 2 > room) (void)snprintf(text, sizeof text, "%s", number);
  bt_grid_put(grid, 1, view->left + column, bt_theme_glyph(&view->theme, BT_GLYPH_STEP), BT_COLOR_FAINT,
              BT_COLOR_DEFAULT, 0);
  if (bt_text_width(text) + 1 > room) return;
  bt_grid_text(grid, 1, view->left + column + 1, room - 1, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, 0);
}

/* The columns of the range that is chosen. */
static void put_range(const bt_view *view, bt_grid *grid) {
  int64_t from, to;
  if (!bt_view_range(view, &from, &to)) return;
  int first = bt_view_column(view, from), end = bt_view_column(view, to);
  for (int column = first < 0 ? 0 : first; column < end || (column == first && column < view->columns); column++) {
    bt_cell *cell = bt_grid_at(grid, 1, view->left + column);
    if (cell->glyph != 0) cell->attributes |= BT_ATTR_REVERSE;
  }
}

void bt_chrome_axis(bt_view *view, bt_grid *grid) {
  bool wide = view->left >= 19;
  bt_grid_text(grid, 1, 1, view->left - 1, wide ? "stage  bubble" : "st bubble", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  if (view->width == 0) return;
  size_t index;
  bool inside = bt_steps_at(&view->steps, view->origin, &index);
  int column = 0;
  int64_t base = inside && !view->absolute ? view->steps.items[index].begin : view->first;
  if (inside && view->steps.items[index].begin < view->origin) index++;
  /* steps that are narrower than a label are labelled every so often */
  size_t every = 1;
  if (index + 1 < view->steps.count) {
    int64_t length = bt_time_sub(view->steps.items[index + 1].begin, view->steps.items[index].begin) / view->width;
    if (length < 8) every = (size_t)(12 / (length > 0 ? length : 1) + 1);
  }
  for (; index <= view->steps.count; index++) {
    bool end = index == view->steps.count || view->steps.items[index].begin >= bt_view_end(view) ||
               view->steps.items[index].begin > view->last;
    if (!end && view->steps.items[index].id % (int64_t)every != 0) continue;
    int next = end ? view->columns : bt_view_column(view, view->steps.items[index].begin);
    if (every == 1 && !view->absolute) put_ticks(view, grid, base, column, next);
    if (end) break;
    int64_t after = INT64_MAX;
    for (size_t k = index + 1; k < view->steps.count && after == INT64_MAX; k++) {
      if (view->steps.items[k].id % (int64_t)every == 0) after = view->steps.items[k].begin;
    }
    int room = (after == INT64_MAX ? view->columns : bt_view_column(view, after)) - next;
    put_step(view, grid, &view->steps.items[index], next, room);
    base = view->steps.items[index].begin;
    column = next + 1;
  }
  if (view->absolute) {
    bt_grid_fill(grid, 1, view->left, view->columns, ' ', BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
    put_ticks(view, grid, view->first, 0, view->columns);
  }
  put_range(view, grid);
  int mark = view->marked && !view->range_fixed ? bt_view_column(view, view->mark) : -1;
  if (mark >= 0 && mark < view->columns) {
    bt_grid_put(grid, 1, view->left + mark, bt_theme_glyph(&view->theme, BT_GLYPH_MARK), BT_COLOR_ALERT,
                BT_COLOR_DEFAULT, BT_ATTR_BOLD);
  }
  int cursor = bt_view_column(view, view->cursor.time);
  if (view->parked || cursor < 0) return;
  bt_cell *cell = bt_grid_at(grid, 1, view->left + cursor);
  bool inside_label = cursor > 0 && cursor + 1 < view->columns && cell[-1].glyph != ' ' && cell[1].glyph != ' ';
  if ((cell->glyph == ' ' && !inside_label) || cell->glyph == bt_theme_glyph(&view->theme, BT_GLYPH_STEP)) {
    cell->glyph = bt_theme_glyph(&view->theme, BT_GLYPH_CURSOR);
  } else {
    cell->attributes |= BT_ATTR_UNDERLINE; /* a label stays readable */
  }
  cell->fg = BT_COLOR_ALERT;
  cell->attributes |= BT_ATTR_BOLD;
}

/* --- the column of stages -------------------------------------------------------------------------------------------- */

static void put_bar(const bt_view *view, bt_grid *grid, int y, int x, int width, double share, bt_color color) {
  int eighths = (int)(share * width * 8 + 0.5);
  for (int i = 0; i < width; i++) {
    int here = eighths - i * 8 > 8 ? 8 : eighths - i * 8;
    if (here <= 0) return;
    if (bt_theme_fine(&view->theme))
      bt_grid_put(grid, y, x + i, bt_glyph_left((unsigned)here), color, BT_COLOR_DEFAULT, 0);
    else if (here >= 4)
      bt_grid_put(grid, y, x + i, '#', BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
}

void bt_chrome_row(bt_view *view, const bt_row *row, bt_grid *grid, int y) {
  y += (view->height - 1) / 2;
  bool here = bt_view_is_here(view, row);
  bool wide = view->left >= 19;
  bt_color fg = here ? BT_COLOR_STRONG : BT_COLOR_DEFAULT;
  unsigned bold = here ? BT_ATTR_BOLD : 0;
  char text[40];
  if (here) {
    bt_grid_put(grid, y, 0, bt_theme_glyph(&view->theme, BT_GLYPH_POINTER), BT_COLOR_ALERT, BT_COLOR_DEFAULT, bold);
  }
  if (row->is_lane) {
    if (row->members > 1)
      (void)snprintf(text, sizeof text, "%s r%d", bt_lane_name(row->lane), (int)row->rank);
    else
      (void)snprintf(text, sizeof text, "%s", bt_lane_name(row->lane));
    bt_grid_text(grid, y, wide ? 6 : 2, view->left - (wide ? 7 : 3), text, here ? fg : BT_COLOR_MUTED, BT_COLOR_DEFAULT,
                 bold);
    return;
  }
  bool silent = bt_hang_stage_silence(view, row) > 0;
  char sign[2] = {silent ? '!' : view->by_stage ? view->sign : 0, 0};
  (void)snprintf(text, sizeof text, "%3d%s", (int)row->stage, sign);
  bt_grid_text(grid, y, 1, 5, text, silent ? BT_COLOR_ALERT : fg, BT_COLOR_DEFAULT, bold);
  bt_rate rate;
  if (!bt_view_rate(view, row->stage, &rate)) return;
  (void)snprintf(text, sizeof text, wide ? "%5.1f%%" : "%3.0f%%", rate.bubble * 100);
  bt_grid_text(grid, y, wide ? 6 : 5, 6, text, fg, BT_COLOR_DEFAULT, bold);
  if (wide) put_bar(view, grid, y, 13, 5, rate.bubble, BT_COLOR_BUBBLE);
}

void bt_chrome_too_small(bt_grid *grid) {
  char text[64];
  (void)snprintf(text, sizeof text, "%dx%d is too small,", grid->columns, grid->rows);
  int y = grid->rows > 2 ? grid->rows / 2 - 1 : 0;
  bt_grid_text(grid, y, 0, grid->columns, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, 0);
  (void)snprintf(text, sizeof text, "%dx%d will do (q quits)", BT_VIEW_MIN_COLUMNS, BT_VIEW_MIN_ROWS);
  bt_grid_text(grid, y + 1, 0, grid->columns, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, 0);
}
