/* The plan under a row: where its ops should have been, and what that comes to. */
#include <stdio.h>
#include <string.h>

#include "tui/screen/gantt.h"
#include "tui/screen/text.h"

enum { HALVES = 2, NOTHING = 0 }; /* a column is two halves; what a half holds: nothing, or a colour */

static bt_color color_of(const bt_plan_place *place) {
  return place->displaced || place->place < 0 ? BT_COLOR_ALERT : bt_theme_kind(place->op.kind);
}

/* Halves of columns, clamped to those on the screen. */
static int half_of(const bt_view *view, int64_t time) {
  double at = (double)bt_time_sub(time, view->origin) / (double)view->width * HALVES;
  int limit = view->columns * HALVES;
  return at <= 0 ? 0 : at >= limit ? limit : (int)(at + 0.5);
}

/* Places of a row's rank on the screen. */
static const bt_plan_place *places_of(const bt_view *view, const bt_row *row, size_t *count) {
  const bt_plan_overlay *plan = view->feed.plan;
  *count = 0;
  if (plan == NULL || row->is_lane) return NULL;
  const bt_plan_place *from = bt_plan_places_from(plan, view->trace->ranks[row->rank_index].rank, view->origin, count);
  while (*count > 0 && from[*count - 1].start >= bt_view_end(view))
    --*count;
  return from;
}

/* A thin line: the upper halves of cells. */
static void put_line(bt_view *view, bt_grid *grid, int y, const uint8_t *halves) {
  for (int column = 0; column < view->columns; column++) {
    uint8_t left = halves[column * HALVES], right = halves[column * HALVES + 1];
    if (left == NOTHING && right == NOTHING) continue;
    uint32_t glyph = left == NOTHING ? 0x259D : right == NOTHING ? 0x2598 : 0x2580;
    bt_grid_put(grid, y, view->left + column, glyph, (bt_color)(left == NOTHING ? right : left), BT_COLOR_DEFAULT, 0);
  }
}

static void draw_fine(bt_view *view, const bt_plan_place *places, size_t count, bt_grid *grid, int y) {
  uint8_t *halves = view->eighths; /* its room is larger */
  memset(halves, NOTHING, (size_t)view->columns * HALVES);
  for (size_t i = 0; i < count; i++) {
    int from = half_of(view, places[i].start), to = half_of(view, places[i].end);
    uint8_t color = (uint8_t)color_of(&places[i]);
    if (to == from && to < view->columns * HALVES) to++;
    if (from > 0 && to - from > 2 && halves[from - 1] == color) from++; /* a hair between ops of one kind */
    for (int half = from; half < to; half++)
      halves[half] = color;
  }
  put_line(view, grid, y, halves);
  for (size_t i = 0; i < count; i++) {
    int from = (half_of(view, places[i].start) + 1) / HALVES, to = half_of(view, places[i].end) / HALVES;
    char text[16];
    int length = snprintf(text, sizeof text, "%d", (int)places[i].op.microbatch);
    if (places[i].op.microbatch < 0 || to - from < length + 2) continue; /* calm where it is tight */
    bt_grid_text(grid, y, view->left + from + (to - from - length) / 2, length, text, color_of(&places[i]),
                 BT_COLOR_DEFAULT, 0);
  }
}

/* Small letters, and '!' for what ran elsewhere or not at all. */
static void draw_letters(bt_view *view, const bt_plan_place *places, size_t count, bt_grid *grid, int y) {
  for (size_t i = 0; i < count; i++) {
    const bt_plan_place *place = &places[i];
    int from = half_of(view, place->start) / HALVES, to = half_of(view, place->end) / HALVES;
    if (to == from) to++;
    bool wrong = place->displaced || place->place < 0;
    char letter = bt_theme_letter(place->op.kind), text[16];
    if (letter >= 'A' && letter <= 'Z') letter = (char)(letter + 'a' - 'A');
    int length = snprintf(text, sizeof text, "%c%d", wrong ? '!' : letter, (int)place->op.microbatch);
    if (length > to - from || place->op.microbatch < 0) length = 1;
    for (int column = from; column < to && column < view->columns; column++) {
      int at = column - from;
      bt_color color = view->theme.level == BT_LEVEL_MONO ? BT_COLOR_DEFAULT : color_of(place);
      bt_grid_put(grid, y, view->left + column, at < length ? (uint32_t)text[at] : '-', color, BT_COLOR_DEFAULT,
                  wrong ? BT_ATTR_BOLD : 0);
    }
  }
}

/* The step of the cursor, if the plan has it; else the last one that is on the screen. */
static const bt_plan_step *step_of(const bt_view *view) {
  const bt_plan_overlay *plan = view->feed.plan;
  size_t at;
  if (plan == NULL || plan->step_count == 0) return NULL;
  bool known = bt_steps_at(&view->steps, view->cursor.time, &at);
  for (size_t i = 0; known && i < plan->step_count; i++) {
    if (plan->steps[i].step == view->steps.items[at].id) return &plan->steps[i];
  }
  return &plan->steps[plan->step_count - 1];
}

/* How much later than planned a rank was done with a step; BT_UNKNOWN. */
static int64_t late_end(const bt_view *view, int32_t rank, int64_t step) {
  size_t count;
  const bt_plan_place *place = bt_plan_places_from(view->feed.plan, rank, INT64_MIN, &count);
  int64_t last = INT64_MIN, late = BT_UNKNOWN;
  for (; count > 0; place++, count--) {
    if (place->step != step || place->ran_end == BT_UNKNOWN || place->ran_end < last) continue;
    last = place->ran_end;
    late = bt_time_sub(place->ran_end, place->end);
  }
  return late;
}

static void put_left(const bt_view *view, const bt_row *row, bt_grid *grid, int y) {
  bool wide = view->left >= 19;
  const char *name = view->plan == BT_PLAN_GIVEN ? "plan" : wide ? "theory" : "theo";
  bt_grid_text(grid, y, wide ? 3 : 2, view->left - 3, name, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  const bt_plan_step *step = step_of(view);
  int64_t late = step == NULL ? BT_UNKNOWN : late_end(view, view->trace->ranks[row->rank_index].rank, step->step);
  if (!wide || late == BT_UNKNOWN || late == 0) return;
  char text[40], length[32];
  (void)snprintf(text, sizeof text, "%s%s", late > 0 ? "+" : "", bt_text_duration(length, sizeof length, late));
  bt_grid_text(grid, y, view->left - 1 - bt_text_width(text), view->left, text,
               late > step->planned_ns / 100 ? BT_COLOR_ALERT : BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
}

void bt_gantt_plan(bt_view *view, const bt_row *row, bt_grid *grid, int y) {
  if (row->is_lane || view->width == 0) return;
  size_t count;
  const bt_plan_place *places = places_of(view, row, &count);
  if (places == NULL) return;
  put_left(view, row, grid, y);
  if (bt_theme_fine(&view->theme))
    draw_fine(view, places, count, grid, y);
  else
    draw_letters(view, places, count, grid, y);
}

/* --- in words -------------------------------------------------------------------------------------------------------- */

void bt_plan_note(const bt_view *view, int32_t rank, int64_t start, const char *sep, char *out, size_t room) {
  const bt_plan_overlay *plan = view->feed.plan;
  if (view->plan == BT_PLAN_NONE || plan == NULL) return;
  size_t count;
  const bt_plan_place *place = bt_plan_places_from(plan, rank, INT64_MIN, &count);
  while (count > 0 && place->ran_start != start) {
    place++;
    count--;
  }
  if (count == 0) return;
  char a[32], b[32];
  int64_t late = bt_time_sub(place->ran_start, place->start), base = view->first;
  size_t step;
  if (!view->absolute && bt_steps_at(&view->steps, start, &step)) base = view->steps.items[step].begin;
  bt_text_append(out, room, "%splanned at %s", sep, bt_text_duration(a, sizeof a, bt_time_sub(place->start, base)));
  if (late == 0)
    bt_text_append(out, room, ", on time");
  else
    bt_text_append(out, room, ", %s %s", bt_text_duration(b, sizeof b, late < 0 ? -late : late),
                   late < 0 ? "early" : "late");
  if (place->displaced)
    bt_text_append(out, room, ", as op %d instead of %d", (int)place->place + 1, (int)place->planned_place + 1);
  else
    bt_text_append(out, room, ", op %d", (int)place->place + 1);
}

static void say_order(const bt_plan_overlay *plan, const bt_plan_step *step, const bt_view *view, char *out,
                      size_t room) {
  bt_text_append(out, room, "%s: ", view->plan == BT_PLAN_THEORY ? "theory" : plan->name != NULL ? plan->name : "plan");
  if (step->displaced + step->missing + step->extra == 0) {
    bt_text_append(out, room, "all in order");
    return;
  }
  if (step->displaced > 0) bt_text_append(out, room, "%lld out of order", (long long)step->displaced);
  if (step->missing > 0)
    bt_text_append(out, room, "%s%lld missing", step->displaced > 0 ? ", " : "", (long long)step->missing);
  if (step->extra > 0)
    bt_text_append(out, room, "%s%lld not planned", step->displaced + step->missing > 0 ? ", " : "",
                   (long long)step->extra);
}

bool bt_plan_line(bt_view *view, char *out, size_t room, bool *alert) {
  const bt_plan_overlay *plan = view->feed.plan;
  const bt_plan_step *step = step_of(view);
  out[0] = 0;
  *alert = false;
  if (view->plan == BT_PLAN_NONE) return false;
  if (view->feed.plan_problem != NULL && view->feed.plan_problem[0] != 0) {
    *alert = true;
    bt_text_append(out, room, "%s", view->feed.plan_problem);
    return true;
  }
  if (!bt_view_wants_plan(view).steps.wanted) {
    bt_text_append(out, room, "the plan is laid where few steps are on the screen: zoom in");
    return true;
  }
  if (step == NULL) {
    bt_text_append(out, room, "the plan is being laid");
    return true;
  }
  char a[32], b[32], n[32];
  say_order(plan, step, view, out, room);
  if (step->late_ns == BT_UNKNOWN) {
    for (size_t i = plan->warning_count; i-- > 0;) {
      if (strstr(plan->warnings[i].text, "withheld") == NULL) continue;
      bt_text_append(out, room, "; %s", plan->warnings[i].text);
      *alert = true;
      break;
    }
    return true;
  }
  bt_text_append(out, room, "; step %s took %s", bt_text_count(n, sizeof n, step->step),
                 bt_text_duration(a, sizeof a, step->measured_ns));
  bt_text_duration(b, sizeof b, step->planned_ns);
  bt_text_append(out, room, strcmp(a, b) == 0 ? ", as planned" : " instead of %s", b);
  if (step->worst.ns > 0)
    bt_text_append(out, room, "; latest %s %d of stage %d: %s", bt_code_name(step->worst.op.kind),
                   (int)step->worst.op.microbatch, (int)step->worst.stage,
                   bt_text_duration(a, sizeof a, step->worst.ns));
  return true;
}
