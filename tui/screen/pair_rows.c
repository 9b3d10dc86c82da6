/* The rows of two runs: run by run or stage by stage. */
#include "formats/array.h"
#include "tui/screen/pair_private.h"

static bool add_slot(bt_pair *pair, bt_view *view, const bt_row *row) {
  if (!bt_array_reserve(&pair->slots, &pair->capacity, pair->count + 1, sizeof *pair->slots)) return false;
  pair->slots[pair->count++] = (bt_slot){.view = view, .row = row};
  return true;
}

static bool list_by_run(bt_view *view, bool titles) {
  bt_pair *pair = view->pair;
  bt_view *runs[] = {view, view->other};
  for (size_t r = 0; r < 2; r++) {
    if ((r == 1 || titles) && !add_slot(pair, runs[r], NULL)) return false;
    for (size_t i = 0; i < runs[r]->rows.count; i++) {
      if (!add_slot(pair, runs[r], &runs[r]->rows.items[i])) return false;
    }
  }
  return true;
}

static bool list_by_stage(bt_view *view) {
  bt_view *runs[] = {view, view->other};
  size_t at[2] = {0, 0};
  while (at[0] < runs[0]->rows.count || at[1] < runs[1]->rows.count) {
    int32_t stage = INT32_MAX;
    for (size_t r = 0; r < 2; r++) {
      if (at[r] < runs[r]->rows.count && runs[r]->rows.items[at[r]].stage < stage)
        stage = runs[r]->rows.items[at[r]].stage;
    }
    for (size_t r = 0; r < 2; r++) {
      for (; at[r] < runs[r]->rows.count && runs[r]->rows.items[at[r]].stage == stage; at[r]++) {
        if (!add_slot(view->pair, runs[r], &runs[r]->rows.items[at[r]])) return false;
      }
    }
  }
  return true;
}

static bool opens_stage(const bt_pair *pair, size_t i) {
  return i == 0 || pair->slots[i].row->stage != pair->slots[i - 1].row->stage;
}

/* Heights of rows, and what is left between them. */
static void set_heights(bt_view *view, size_t titles) {
  bt_pair *pair = view->pair;
  size_t rows = view->rows.count + view->other->rows.count;
  int area = view->area_rows - (int)titles;
  if (view->by_stage) {
    int groups = 0;
    for (size_t i = 0; i < pair->count; i++)
      groups += opens_stage(pair, i);
    bt_view_set_heights(view, rows, area - groups + 1);
    int room = rows > 0 ? (area - groups + 1) / (int)rows : 1, plan = view->plan_lines;
    view->height = room < 1 + plan ? 1 : room > BT_VIEW_ROW_HEIGHT + plan ? BT_VIEW_ROW_HEIGHT : room - plan;
    view->spacing = view->height + plan;
  } else {
    bt_view_set_heights(view, rows, area);
  }
  view->other->height = view->height;
  view->other->spacing = view->spacing;
  view->other->plan_lines = view->plan_lines;
}

/* Lines from the slot on: between stages one is left free where they stand run under run. */
static int lines_of(const bt_view *view, size_t i, bool spare) {
  const bt_pair *pair = view->pair;
  if (pair->slots[i].row == NULL) return 1;
  bool last_of_stage = view->by_stage && (i + 1 == pair->count || opens_stage(pair, i + 1));
  return view->spacing + (last_of_stage && spare ? 1 : 0);
}

static void set_places(bt_view *view) {
  bt_pair *pair = view->pair;
  size_t groups = 0, here = 0;
  const bt_view *focus = bt_pair_focus(view);
  for (size_t i = 0; i < pair->count; i++) {
    groups += view->by_stage && opens_stage(pair, i);
    if (pair->slots[i].view == focus && pair->slots[i].row == bt_view_row(focus)) here = i;
  }
  bool spare = (int)(pair->count * (size_t)view->spacing + groups) - 1 <= view->area_rows;
  if (here < pair->top) pair->top = here;
  if (pair->top == 1 && pair->slots[0].row == NULL) pair->top = 0;
  int needed = 0; /* lines from the first one that could be at the top to the cursor's */
  size_t lowest = here + 1;
  while (lowest > 0) {
    needed += lowest == here + 1 ? view->height + view->plan_lines : lines_of(view, lowest - 1, spare);
    if (needed > view->area_rows) break;
    lowest--;
  }
  if (pair->top < lowest) pair->top = lowest;
  int left = view->area_rows, y = view->area_top; /* no empty lines below while there is something above */
  for (size_t i = pair->top; i < pair->count; i++)
    left -= lines_of(view, i, spare);
  while (pair->top > 0 && left >= lines_of(view, pair->top - 1, spare))
    left -= lines_of(view, --pair->top, spare);
  for (size_t i = 0; i < pair->count; i++) {
    bt_slot *slot = &pair->slots[i];
    int height = slot->row == NULL ? 1 : view->height + view->plan_lines;
    slot->y = y;
    slot->height = i >= pair->top && y + height <= view->area_top + view->area_rows ? height : 0;
    if (i >= pair->top) y += lines_of(view, i, spare);
  }
}

bt_status bt_pair_arrange(bt_view *view) {
  bt_pair *pair = view->pair;
  int rows = (int)(view->rows.count + view->other->rows.count);
  if (!pair->arranged && view->rows.count > 0 && view->other->rows.count > 0) {
    view->by_stage = rows + 1 > view->area_rows;
    pair->arranged = true;
  }
  pair->count = 0;
  bool titles = rows + 2 <= view->area_rows;
  if (!(view->by_stage ? list_by_stage(view) : list_by_run(view, titles))) return BT_ERR_NOMEM;
  set_heights(view, view->by_stage ? 0 : titles ? 2 : 1);
  set_places(view);
  return BT_OK;
}
