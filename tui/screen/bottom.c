/* What stands below the timeline: where the time went, what costs most, the steps, the cursor, the keys. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen/chrome.h"
#include "tui/screen/detail.h"
#include "tui/screen/gantt.h"
#include "tui/screen/hang.h"
#include "tui/screen/navigate.h"
#include "tui/screen/range.h"
#include "tui/screen/text.h"

/* A share of the bar. */
typedef struct slice {
  double share;
  const char *name;
  bt_color color;
  uint32_t fill; /* where colours do not tell */
  bool busy;
} slice;

/* Where a bar lies. */
typedef struct place {
  int y, x, width;
} place;

static void put_slices(const bt_view *view, bt_grid *grid, const place *at, const slice *slices, size_t count) {
  int x = at->x, y = at->y, width = at->width;
  double done = 0;
  for (size_t i = 0; i < count; i++) {
    const slice *s = &slices[i];
    int from = x + (int)(done * width + 0.5);
    done += s->share;
    int to = x + (int)(done * width + 0.5);
    if (to <= from) continue;
    unsigned attributes = view->theme.level == BT_LEVEL_MONO && s->busy ? BT_ATTR_REVERSE : 0;
    bool fine = bt_theme_fine(&view->theme);
    bt_color fg = bt_theme_text_on(s->color);
    bt_grid_fill(grid, y, from, to - from, fine ? ' ' : s->fill, fg, s->color, attributes);
    char text[48];
    (void)snprintf(text, sizeof text, fine || s->busy ? "%s %.0f%%" : " %s %.0f%% ", s->name, s->share * 100);
    if (to - from < (int)strlen(text) + 1) (void)snprintf(text, sizeof text, "%s", s->name);
    if (to - from < (int)strlen(text) + 1) continue;
    bt_grid_text(grid, y, from + 1, to - from - 1, text, fg, s->color, attributes);
  }
}

/* By what is seen alone: compute by kind, the rest is bubble. */
static void put_kinds(bt_view *view, bt_grid *grid, const place *at) {
  bt_rate rate;
  if (view->width == 0 || !bt_view_rate(view, -1, &rate)) return;
  slice slices[BT_LOD_GATE + 1];
  uint64_t busy = 0;
  for (unsigned slot = 0; slot < BT_LOD_GATE; slot++) {
    unsigned kind = bt_lod_kind(BT_LANE_COMPUTE, slot);
    slices[slot] =
        (slice){(double)rate.busy[slot] / (double)rate.total, bt_code_name(kind), bt_theme_kind(kind), ' ', true};
    busy += rate.busy[slot];
  }
  slices[BT_LOD_GATE] = (slice){1 - (double)busy / (double)rate.total, "bubble", BT_COLOR_BUBBLE, '.', false};
  put_slices(view, grid, at, slices, BT_LOD_GATE + 1);
}

/* Why the bubbles on the screen do not have the colours of their classes; NULL: they have. */
static const char *why_plain(bt_view *view) {
  bt_gaps_wanted wanted = bt_view_wants_gaps(view);
  const bt_gaps *gaps = view->feed.gaps;
  if (!wanted.wanted) return "bubbles get their colours where few steps are on the screen: zoom in";
  if (view->feed.gaps_refused) return "too many records on the screen to tell why bubbles are there: zoom in";
  bool same = gaps != NULL && gaps->bounded == wanted.bounded && gaps->first_step <= wanted.first_step &&
              gaps->last_step >= wanted.last_step;
  return same ? NULL : "why bubbles are there is being worked out";
}

/* Of the range that is chosen, over all ranks. False: there is none, or why its bubbles are there is not known. */
static bool range_classes(bt_view *view, int64_t ns[BT_CLASS_COUNT]) {
  int64_t from, to;
  if (!bt_view_range(view, &from, &to) || why_plain(view) != NULL) return false;
  for (size_t i = 0; i < view->rows.member_count; i++)
    bt_range_classes(view->trace, view->lods, view->feed.gaps, view->rows.members[i].rank_index, from, to, ns);
  return true;
}

/* Where the time went, by the classes of the accounting; false when there is none of what the screen is about. */
static bool class_slices(bt_view *view, slice slices[BT_CLASS_COUNT]) {
  int64_t ns[BT_CLASS_COUNT] = {0};
  const bt_accounting *account = bt_view_account(view);
  if (!range_classes(view, ns) && account == NULL) return false;
  double total = 0;
  for (unsigned class = 0; class < BT_CLASS_COUNT; class ++) {
    for (size_t i = 0; account != NULL && i < account->stage_count; i++)
      ns[class] += account->stages[i].ns[class];
    slices[class] = (slice){(double)ns[class], bt_class_title((bt_class) class), bt_theme_class((bt_class) class),
                            (uint32_t)bt_theme_class_mark((bt_class) class), class < BT_CLASS_COMPUTE_LIMIT};
    total += (double)ns[class];
  }
  for (unsigned class = 0; class < BT_CLASS_COUNT; class ++)
    slices[class].share = total > 0 ? slices[class].share / total : 0;
  return true;
}

void bt_chrome_time_bar(bt_view *view, bt_grid *grid, int y, int x, int width) {
  slice slices[BT_CLASS_COUNT];
  place at = {y, x, width};
  if (class_slices(view, slices))
    put_slices(view, grid, &at, slices, BT_CLASS_COUNT);
  else
    put_kinds(view, grid, &at);
}

/* The classes of idle time with their colours, largest first. */
static void put_legend(bt_view *view, bt_grid *grid, int y) {
  slice slices[BT_CLASS_COUNT];
  const char *plain = why_plain(view);
  if (plain != NULL) {
    bt_grid_text(grid, y, 1, grid->columns - 2, plain, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    return;
  }
  if (!class_slices(view, slices)) {
    bt_grid_text(grid, y, 1, grid->columns - 2, "why a bubble is there is told of whole steps (c: of the last one)",
                 BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
    return;
  }
  int x = 1;
  for (unsigned shown = BT_CLASS_COMPUTE_LIMIT; shown < BT_CLASS_COUNT; shown++) {
    slice *largest = &slices[shown];
    for (unsigned class = shown + 1; class < BT_CLASS_COUNT; class ++) {
      if (slices[class].share > largest->share) largest = &slices[class];
    }
    slice s = *largest;
    *largest = slices[shown];
    slices[shown] = s;
    if (s.share <= 0) return;
    char text[48];
    (void)snprintf(text, sizeof text, "%s %.1f %%", s.name, s.share * 100);
    if (x + 3 + bt_text_width(text) > grid->columns) return;
    if (bt_theme_fine(&view->theme))
      bt_grid_fill(grid, y, x, 2, ' ', BT_COLOR_DEFAULT, s.color, 0);
    else
      bt_grid_put(grid, y, x + 1, s.fill, BT_COLOR_STRONG, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
    x += 3 + bt_grid_text(grid, y, x + 3, grid->columns, text, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0) + 2;
  }
}

/* A bar a step, the newest at the right: its bubble rate, from 0 to the largest of those shown. */
static void put_steps(bt_view *view, bt_grid *grid, int y) {
  size_t last;
  if (view->width == 0 || !bt_steps_last(&view->steps, view->last, view->trace, view->lods, &view->rows, &last)) return;
  bt_grid_text(grid, y, 1, 8, "steps", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  size_t room = (size_t)(grid->columns > 50 ? grid->columns - 44 : 6);
  if (room > BT_STEPS_SHOWN) room = BT_STEPS_SHOWN;
  size_t count = last + 1 < room ? last + 1 : room, first = last + 1 - count;
  double bubbles[BT_STEPS_SHOWN], most = 0.01;
  for (size_t i = 0; i < count; i++) {
    bubbles[i] = bt_steps_window(&view->steps, first + i, view->trace, view->lods, &view->rows)->bubble;
    if (bubbles[i] > most) most = bubbles[i];
  }
  for (size_t i = 0; i < count; i++) {
    if (isnan(bubbles[i]) || bubbles[i] < 0) continue;
    unsigned height = (unsigned)(bubbles[i] / most * 8 + 0.5);
    uint32_t glyph = bt_theme_fine(&view->theme) ? bt_glyph_lower(height > 0 ? height : 1)
                                                 : (uint32_t)('0' + (int)(bubbles[i] / most * 9));
    bt_grid_put(grid, y, 8 + (int)i, glyph, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
  char text[96] = "", a[32], b[32];
  bt_text_append(text, sizeof text, "%s-%s  ", bt_text_count(a, sizeof a, view->steps.items[first].id),
                 bt_text_count(b, sizeof b, view->steps.items[last].id));
  double before, after;
  size_t at;
  bool changed = bt_steps_change(bubbles, count, &at, &before, &after);
  if (changed) {
    bt_text_append(text, sizeof text, "%.1f %s %.1f %% at step %s", before * 100, view->theme.utf8 ? "\u2192" : "to",
                   after * 100, bt_text_count(a, sizeof a, view->steps.items[first + at].id));
  } else {
    bt_text_append(text, sizeof text, "last %.1f %%, most %.1f %%", bubbles[count - 1] * 100, most * 100);
  }
  bt_grid_text(grid, y, 10 + (int)count, grid->columns, text,
               changed && after > before ? BT_COLOR_ALERT : BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
}

/* In words what costs most; or why nothing can be said. */
static void put_verdict(bt_view *view, bt_grid *grid, int y) {
  const bt_verdict *verdict = &view->feed.verdict;
  int room = grid->columns - 2;
  char hang[320];
  bool alert;
  if (bt_hang_line(view, hang, sizeof hang)) {
    bt_grid_text(grid, y, 1, room, hang, BT_COLOR_ALERT, BT_COLOR_DEFAULT, 0);
  } else if (bt_plan_line(view, hang, sizeof hang, &alert)) {
    bt_grid_text(grid, y, 1, room, hang, alert ? BT_COLOR_ALERT : BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  } else if (view->feed.unaligned) {
    bt_grid_text(grid, y, 1, room,
                 "clocks of several hosts are not aligned: what lies between stages is not to be trusted",
                 BT_COLOR_ALERT, BT_COLOR_DEFAULT, 0);
  } else if (verdict->known && verdict->cause[0] != 0) {
    int used = bt_grid_text(grid, y, 1, room, verdict->cause, BT_COLOR_ALERT, BT_COLOR_DEFAULT, 0);
    bt_grid_text(grid, y, 1 + used, room - used, verdict->cost, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
  } else if (verdict->known) {
    bt_grid_text(grid, y, 1, room, verdict->cost, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
}

/* How long the range is, where, and what can be done with it. False: none is chosen. */
static bool put_range(bt_view *view, bt_grid *grid, int y) {
  int64_t from, to;
  if (!bt_view_range(view, &from, &to)) return false;
  char text[192] = "", a[32], b[32];
  size_t step;
  bool inside = !view->absolute && bt_steps_at(&view->steps, from, &step);
  int64_t base = inside ? view->steps.items[step].begin : view->first;
  bt_text_append(text, sizeof text, "range %s, ", bt_text_duration(a, sizeof a, bt_time_sub(to, from)));
  if (inside) bt_text_append(text, sizeof text, "step %s ", bt_text_count(b, sizeof b, view->steps.items[step].id));
  bt_text_range(a, sizeof a, bt_time_sub(from, base), bt_time_sub(to, base), view->theme.utf8 ? "\u2013" : "-");
  bt_text_append(text, sizeof text, "%s", a);
  bt_rate rate;
  if (bt_view_rate(view, -1, &rate)) bt_text_append(text, sizeof text, ": bubble %.1f %%", rate.bubble * 100);
  int x = 1 + bt_grid_text(grid, y, 1, grid->columns - 2, text, BT_COLOR_STRONG, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
  bt_grid_text(grid, y, x + 2, grid->columns - x - 3, "Enter zooms, Esc clears", BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  return true;
}

void bt_chrome_footer(bt_view *view, bt_grid *grid) {
  int y = grid->rows - 1;
  bt_grid_fill(grid, y, 0, grid->columns, ' ', BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
  int x = 1;
  if (view->asking) {
    const char *prompt = view->asking_place ? ":" : "/", *line = view->asking_place ? view->place : view->query;
    x += bt_grid_text(grid, y, 0, grid->columns, prompt, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
    x = 1 + bt_grid_text(grid, y, 1, grid->columns - 1, line, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
    grid->cursor_row = y;
    grid->cursor_column = x < grid->columns ? x : grid->columns - 1;
  } else if (view->choosing) {
    bt_grid_text(grid, y, x, grid->columns - 2, "write what is seen: e picture (SVG), j JSON, y text, Esc nothing",
                 BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
  } else if (view->message[0] != 0) {
    bt_grid_text(grid, y, x, grid->columns - 2, view->message, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
  } else if (view->count > 0) {
    char text[16];
    (void)snprintf(text, sizeof text, "%u", view->count);
    bt_grid_text(grid, y, x, grid->columns - 2, text, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
  } else {
    /* help and quit always, the rest as far as there is room */
    int end = grid->columns - 1 - (int)strlen("?help  qquit");
    for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
      for (const bt_binding *b = group->bindings; b->action != BT_ACTION_NONE; b++) {
        if (b->footer == NULL || !bt_action_works(view, b->action)) continue;
        bool always = b->action == BT_ACTION_HELP || b->action == BT_ACTION_QUIT;
        size_t key = strcspn(b->keys, " ");
        char name[16];
        (void)snprintf(name, sizeof name, "%.*s", (int)(key < 15 ? key : 15), b->keys);
        const char *shown = name;
        bool utf8 = view->theme.utf8;
        if (b->action == BT_ACTION_PAN_LEFT) shown = utf8 ? "\u2190\u2192" : "<- ->";
        if (b->action == BT_ACTION_ZOOM_IN) shown = "+-";
        const char *label =
            b->action == BT_ACTION_LANES && view->page != BT_PAGE_TIMELINE ? "timeline there" : b->footer;
        int length = bt_text_width(shown) + 1 + (int)strlen(label) + 2;
        if (!always && x + length > end - 2) continue;
        x += bt_grid_text(grid, y, x, grid->columns - x, shown, BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
        x += 1 + bt_grid_text(grid, y, x + 1, grid->columns - x, label, BT_COLOR_BAR_MUTED, BT_COLOR_BAR, 0) + 2;
      }
    }
  }
  if (view->theme.level == BT_LEVEL_MONO) {
    for (int column = 0; column < grid->columns; column++)
      bt_grid_at(grid, y, column)->attributes |= BT_ATTR_REVERSE;
  }
}

void bt_chrome_cursor(bt_view *view, bt_grid *grid, int y) {
  char line[512];
  line[0] = 0;
  if (!view->parked) bt_detail_line(view, line, sizeof line);
  char since[64] = "", length[32];
  if (view->marked && view->width > 0) {
    int64_t distance = bt_time_sub(view->range_fixed ? view->range_end : view->cursor.time, view->mark);
    (void)snprintf(since, sizeof since, "%s%s  ",
                   view->range_fixed ? "range "
                   : distance < 0    ? "mark "
                                     : "mark +",
                   bt_text_duration(length, sizeof length, view->range_fixed && distance < 0 ? -distance : distance));
  }
  int x = 1 + bt_grid_text(grid, y, 1, grid->columns - 2, since, BT_COLOR_ALERT, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
  bt_grid_text(grid, y, x, grid->columns - 1 - x, line, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
}

void bt_chrome_bottom(bt_view *view, bt_grid *grid) {
  int y = view->area_top + view->area_rows;
  int rows = grid->rows;
  if (rows >= 16) {
    bt_grid_fill(grid, y++, 0, grid->columns, bt_theme_glyph(&view->theme, BT_GLYPH_RULE), BT_COLOR_FAINT,
                 BT_COLOR_DEFAULT, 0);
  }
  if (rows >= 12) bt_chrome_time_bar(view, grid, y++, 1, grid->columns - 2);
  if (rows >= 20) {
    put_verdict(view, grid, y++);
    if (put_range(view, grid, y))
      y++;
    else if (view->show_why)
      put_legend(view, grid, y++);
    else
      put_steps(view, grid, y++);
  }
  bt_chrome_cursor(view, grid, y);
  bt_chrome_footer(view, grid);
}
