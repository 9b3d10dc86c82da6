/* Two runs on the screen: header, titles of the runs, their rows, and below them what differs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen/chrome.h"
#include "tui/screen/gantt.h"
#include "tui/screen/hang.h"
#include "tui/screen/pair.h"
#include "tui/screen/text.h"

/* --- header ---------------------------------------------------------------------------------------------------------- */

static const char *state_of(const bt_view *view) {
  if (view->feed.loading) return "reading";
  if (view->feed.gone) return "died";
  if (!view->feed.live) return "";
  return view->paused ? "paused" : "live";
}

/* "A zb-h1 live !2" */
static void say_run(const bt_view *view, int room, char *out, size_t size) {
  char tail[48] = "";
  const char *state = state_of(view);
  if (state[0] != 0) bt_text_append(tail, sizeof tail, " %s", state);
  if (view->feed.problems > 0) bt_text_append(tail, sizeof tail, " !%zu", view->feed.problems);
  int left = room - 2 - (int)strlen(tail), length = (int)strlen(view->feed.name);
  out[0] = 0;
  bt_text_append(out, size, "%c %.*s%s%s", view->sign, length > left && left > 1 ? left - 1 : left, view->feed.name,
                 length > left ? "~" : "", tail);
}

static void say_rates(bt_view *view, char *out, size_t room) {
  bt_rate a, b;
  bool known = view->width > 0 && bt_view_rate(view, -1, &a),
       also = view->width > 0 && bt_view_rate(view->other, -1, &b);
  const char *arrow = view->theme.utf8 ? "\u2192" : "->";
  out[0] = 0;
  if (known && also)
    bt_text_append(out, room, "bubble %.1f %s %.1f %% (%+.1f)", a.bubble * 100, arrow, b.bubble * 100,
                   (b.bubble - a.bubble) * 100);
  else if (known || also)
    bt_text_append(out, room, "bubble of %c %.1f %%", known ? 'A' : 'B', (known ? a.bubble : b.bubble) * 100);
}

static void say_steps(bt_view *view, char *out, size_t room) {
  const bt_comparison *c = bt_pair_comparison(view);
  char a[32], b[32];
  out[0] = 0;
  if (c == NULL || c->step.change == BT_UNKNOWN) return;
  bt_text_append(out, room, "step %s %s %s (%+.1f %%)", bt_text_duration(a, sizeof a, c->step.a),
                 view->theme.utf8 ? "\u2192" : "->", bt_text_duration(b, sizeof b, c->step.b),
                 bt_change_ratio(&c->step) * 100);
}

void bt_pair_header(bt_view *view, bt_grid *grid) {
  char rates[96], steps[96], run[160];
  say_rates(view, rates, sizeof rates);
  say_steps(view, steps, sizeof steps);
  bt_grid_fill(grid, 0, 0, grid->columns, ' ', BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
  int right = grid->columns - 1, width = bt_text_width(rates) + 2, more = bt_text_width(steps) + 3;
  size_t count;
  const bt_slot *slots = bt_pair_slots(view, &count);
  int names = count > 0 && slots[0].row == NULL && slots[0].height > 0 ? 0 : 24; /* they stand in the titles too */
  if (steps[0] != 0 && width + more + names <= grid->columns) {
    right -= more - 2;
    bt_grid_text(grid, 0, right, grid->columns, steps, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
    right -= 3;
  }
  right -= width - 2;
  if (right < 0) right = grid->columns;
  bt_grid_text(grid, 0, right, grid->columns, rates, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
  int x = 1;
  if (right > 70 || names == 0)
    x += bt_grid_text(grid, 0, x, grid->columns, "bubbletop", BT_COLOR_BAR_MUTED, BT_COLOR_BAR, 0) + 2;
  bt_view *runs[] = {view, view->other};
  for (size_t r = 0; r < 2; r++) {
    int room = (right - x - 2) / (r == 0 ? 2 : 1);
    if (room < (names == 0 ? 12 : 4)) break;
    say_run(runs[r], room, run, sizeof run);
    x +=
        bt_grid_text(grid, 0, x, room, run, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, runs[r]->unfocused ? 0 : BT_ATTR_BOLD) + 2;
  }
  for (int column = 0; view->theme.level == BT_LEVEL_MONO && column < grid->columns; column++)
    bt_grid_at(grid, 0, column)->attributes |= BT_ATTR_REVERSE;
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

/* The run's name, its steps where they begin, and what it comes to. */
static void put_title(bt_view *view, bt_grid *grid, int y) {
  char text[160], number[32];
  bt_rate rate;
  bt_grid_fill(grid, y, 0, grid->columns, bt_theme_glyph(&view->theme, BT_GLYPH_RULE), BT_COLOR_FAINT, BT_COLOR_DEFAULT,
               0);
  say_run(view, view->left - 3, text, sizeof text);
  int x = 1 + bt_grid_text(grid, y, 1, view->left - 2, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
  bt_grid_put(grid, y, x, ' ', BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  text[0] = 0;
  if (view->width > 0 && bt_view_rate(view, -1, &rate))
    bt_text_append(text, sizeof text, " bubble %.1f %%", rate.bubble * 100);
  int64_t last;
  int64_t from, to;
  if (bt_view_range(view, &from, &to))
    bt_text_append(text, sizeof text, " in the range");
  else if (view->scope == BT_SCOPE_STEP && bt_view_last_step(view, &last))
    bt_text_append(text, sizeof text, " in step %s", bt_text_count(number, sizeof number, last));
  if (text[0] != 0) bt_text_append(text, sizeof text, " ");
  int end = grid->columns - bt_text_width(text) - 1, free_from = view->left;
  bt_grid_text(grid, y, end, grid->columns, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  size_t index;
  if (view->width == 0) return;
  if (bt_steps_at(&view->steps, view->origin, &index) && view->steps.items[index].begin < view->origin) index++;
  for (; index < view->steps.count && view->steps.items[index].begin <= view->last; index++) {
    int column = bt_view_column(view, view->steps.items[index].begin);
    (void)snprintf(text, sizeof text, "step %s", bt_text_count(number, sizeof number, view->steps.items[index].id));
    int at = view->left + column, length = bt_text_width(text);
    if (column >= view->columns || at + length + 2 > end) return;
    if (column < 0 || at < free_from) continue;
    bt_grid_put(grid, y, at, bt_theme_glyph(&view->theme, BT_GLYPH_STEP), BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    bt_grid_text(grid, y, at + 1, length, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    free_from = at + length + 3;
  }
}

bt_status bt_pair_rows(bt_view *view, bt_grid *grid) {
  size_t count;
  const bt_slot *slots = bt_pair_slots(view, &count);
  for (size_t i = 0; i < count; i++) {
    const bt_slot *slot = &slots[i];
    if (slot->height == 0) continue;
    if (slot->row == NULL) {
      put_title(slot->view, grid, slot->y);
      continue;
    }
    bt_chrome_row(slot->view, slot->row, grid, slot->y);
    bt_status status = slot->view->width > 0 ? bt_gantt_row(slot->view, slot->row, grid, slot->y) : BT_OK;
    if (status != BT_OK) return status;
    int gap = slot->y + slot->height;
    if (view->plan_lines > 0) bt_gantt_plan(slot->view, slot->row, grid, gap - 1);
    bool neighbours =
        i + 1 < count && slot[1].height > 0 && slot[1].view == slot->view && slot[1].row != NULL && slot[1].y > gap;
    if (neighbours && !slot->row->is_lane && !slot[1].row->is_lane)
      bt_gantt_messages(slot->view, slot->row, slot[1].row, grid, gap);
  }
  return BT_OK;
}

/* --- below ----------------------------------------------------------------------------------------------------------- */

/* Where the time went in both, a step that takes longer with a longer bar. */
static void put_bars(bt_view *view, bt_grid *grid, int y, int count) {
  const bt_comparison *c = bt_pair_comparison(view);
  int room = grid->columns - 4, widths[2] = {room, room};
  if (c != NULL && c->step.change != BT_UNKNOWN) {
    double longest = (double)(c->step.a > c->step.b ? c->step.a : c->step.b);
    widths[0] = longest > 0 ? (int)((double)c->step.a / longest * room + 0.5) : room;
    widths[1] = longest > 0 ? (int)((double)c->step.b / longest * room + 0.5) : room;
  }
  bt_view *runs[] = {view, view->other};
  for (int r = 0; r < count; r++) {
    char sign[2] = {runs[r]->sign, 0};
    bt_grid_text(grid, y + r, 1, 1, sign, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    bt_chrome_time_bar(runs[r], grid, y + r, 3, widths[r]);
  }
}

/* In one sentence what differs, or what keeps it from being said. */
static void put_difference(bt_view *view, bt_grid *grid, int y) {
  char text[256];
  int64_t from, to;
  int room = grid->columns - 2;
  bt_view *runs[] = {view, view->other};
  for (size_t r = 0; r < 2; r++) {
    char what[240];
    bool alert;
    if (!bt_hang_line(runs[r], what, sizeof what) && !(bt_plan_line(runs[r], what, sizeof what, &alert) && alert))
      continue;
    (void)snprintf(text, sizeof text, "%c %s", runs[r]->sign, what);
    bt_grid_text(grid, y, 1, room, text, BT_COLOR_ALERT, BT_COLOR_DEFAULT, 0);
    return;
  }
  const bt_comparison *c = bt_pair_comparison(view);
  if (c != NULL) {
    bt_grid_text(grid, y, 1, room, c->verdict, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  } else if (bt_view_range(view, &from, &to)) {
    char length[32];
    (void)snprintf(text, sizeof text, "range %s in both  (Enter zooms, Esc clears)",
                   bt_text_duration(length, sizeof length, bt_time_sub(to, from)));
    bt_grid_text(grid, y, 1, room, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
  } else if (view->first > view->last || view->other->first > view->other->last) {
    (void)snprintf(text, sizeof text, "run %c holds no spans", view->first > view->last ? 'A' : 'B');
    bt_grid_text(grid, y, 1, room, text, BT_COLOR_ALERT, BT_COLOR_DEFAULT, 0);
  } else if (view->scope != BT_SCOPE_STEP) {
    (void)snprintf(text, sizeof text, "over: %s (c: last step, for what differs)", bt_view_scope_label(view));
    bt_grid_text(grid, y, 1, room, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  } else {
    bt_grid_text(grid, y, 1, room, "no whole step of both has been accounted for yet", BT_COLOR_MUTED, BT_COLOR_DEFAULT,
                 0);
  }
}

void bt_pair_bottom(bt_view *view, bt_grid *grid) {
  int y = view->area_top + view->area_rows, rows = grid->rows;
  bt_view *focus = bt_pair_focus(view);
  if (rows >= 16)
    bt_grid_fill(grid, y++, 0, grid->columns, bt_theme_glyph(&view->theme, BT_GLYPH_RULE), BT_COLOR_FAINT,
                 BT_COLOR_DEFAULT, 0);
  if (rows >= 20) {
    put_bars(view, grid, y, 2);
    y += 2;
  }
  if (rows >= 12) put_difference(view, grid, y++);
  bt_chrome_cursor(focus, grid, y);
  bt_chrome_footer(view, grid);
}
