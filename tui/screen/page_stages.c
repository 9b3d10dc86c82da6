/* Stages, the one that computes longest first, and below them the links between them, the one that waits longest first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tui/screen/navigate.h"
#include "tui/screen/page.h"
#include "tui/screen/text.h"

enum { MOST_LISTED = 4096, COLUMN = 10 };

static int64_t compute_of(const bt_account_stage *stage) {
  int64_t ns = 0;
  for (unsigned class = 0; class < BT_CLASS_COMPUTE_LIMIT; class ++)
    ns += stage->ns[class];
  return stage->ranks > 0 ? ns / stage->ranks : 0;
}

static int by_compute(const void *a, const void *b) {
  const bt_account_stage *x = *(const bt_account_stage *const *)a, *y = *(const bt_account_stage *const *)b;
  int64_t p = compute_of(x), q = compute_of(y);
  return p != q ? (p < q ? 1 : -1) : (x->stage > y->stage) - (x->stage < y->stage);
}

/* Caller frees. NULL: none, or memory is short. */
static const bt_account_stage **ranking(const bt_view *view, size_t *count) {
  const bt_accounting *account = view->feed.account;
  *count = account == NULL ? 0 : account->stage_count < MOST_LISTED ? account->stage_count : MOST_LISTED;
  const bt_account_stage **order = *count == 0 ? NULL : malloc(*count * sizeof *order);
  if (order == NULL) {
    *count = 0;
    return NULL;
  }
  for (size_t i = 0; i < *count; i++)
    order[i] = &account->stages[i];
  qsort(order, *count, sizeof *order, by_compute);
  return order;
}

/* The classes that took any time: idle ones first, the largest of each first. Returns how many. */
static unsigned classes_seen(const bt_accounting *account, bt_class classes[BT_CLASS_COUNT]) {
  int64_t sums[BT_CLASS_COUNT] = {0};
  unsigned count = 0;
  for (unsigned class = 0; class < BT_CLASS_COUNT; class ++) {
    for (size_t i = 0; i < account->stage_count; i++)
      sums[class] += account->stages[i].ns[class];
  }
  for (unsigned pass = 0; pass < 2; pass++) {
    unsigned first = count;
    for (unsigned class = pass == 0 ? BT_CLASS_COMPUTE_LIMIT : 0;
         class < (pass == 0 ? BT_CLASS_COUNT : BT_CLASS_COMPUTE_LIMIT); class ++) {
      if (sums[class] <= 0) continue;
      unsigned at = count++;
      for (; at > first && sums[classes[at - 1]] < sums[class]; at--)
        classes[at] = classes[at - 1];
      classes[at] = (bt_class) class;
    }
  }
  return count;
}

static void put_right(bt_grid *grid, int y, int end, const char *text, bt_color fg, unsigned attributes) {
  bt_grid_text(grid, y, end - bt_text_width(text), grid->columns, text, fg, BT_COLOR_DEFAULT, attributes);
}

static void put_stage(const bt_view *view, bt_grid *grid, int y, const bt_account_stage *stage, int64_t median,
                      const bt_class *classes, unsigned class_count, bool here) {
  bt_color fg = here ? BT_COLOR_STRONG : BT_COLOR_DEFAULT;
  unsigned bold = here ? BT_ATTR_BOLD : 0;
  char text[48];
  if (here)
    bt_grid_put(grid, y, 0, bt_theme_glyph(&view->theme, BT_GLYPH_POINTER), BT_COLOR_ALERT, BT_COLOR_DEFAULT, 1);
  (void)snprintf(text, sizeof text, "%d", (int)stage->stage);
  put_right(grid, y, 6, text, fg, bold);
  if (isnan(stage->bubble_rate))
    (void)snprintf(text, sizeof text, "-");
  else
    (void)snprintf(text, sizeof text, "%.1f %%", stage->bubble_rate * 100);
  put_right(grid, y, 15, text, fg, bold);
  int64_t compute = compute_of(stage);
  put_right(grid, y, 26, bt_text_duration(text, sizeof text, compute), fg, bold);
  double more = median > 0 ? (double)compute / (double)median - 1 : 0;
  (void)snprintf(text, sizeof text, "%+.1f %%", more * 100);
  put_right(grid, y, 36, text, more > 0.05 ? BT_COLOR_ALERT : BT_COLOR_MUTED, bold);
  int end = 36;
  for (unsigned i = 0; i < class_count && end + COLUMN + 4 < grid->columns; i++) {
    int width = (int)bt_text_width(bt_class_title(classes[i])) + 2;
    end += width > COLUMN ? width : COLUMN;
    int64_t ns = stage->ranks > 0 ? stage->ns[classes[i]] / stage->ranks : 0;
    if (end < grid->columns)
      put_right(grid, y, end, ns == 0 ? "0" : bt_text_duration(text, sizeof text, ns), ns == 0 ? BT_COLOR_FAINT : fg,
                bold);
  }
}

static void put_titles(bt_grid *grid, int y, const bt_class *classes, unsigned class_count) {
  put_right(grid, y, 6, "stage", BT_COLOR_MUTED, 0);
  put_right(grid, y, 15, "bubble", BT_COLOR_MUTED, 0);
  put_right(grid, y, 26, "compute", BT_COLOR_MUTED, 0);
  put_right(grid, y, 36, "vs usual", BT_COLOR_MUTED, 0);
  int end = 36;
  for (unsigned i = 0; i < class_count && end + COLUMN + 4 < grid->columns; i++) {
    const char *title = bt_class_title(classes[i]);
    int width = bt_text_width(title) + 2;
    end += width > COLUMN ? width : COLUMN;
    if (end < grid->columns) put_right(grid, y, end, title, BT_COLOR_MUTED, 0);
  }
}

static int by_wait(const void *a, const void *b) {
  const bt_account_link *x = *(const bt_account_link *const *)a, *y = *(const bt_account_link *const *)b;
  return (x->wait_ns < y->wait_ns) - (x->wait_ns > y->wait_ns);
}

static void put_link(bt_grid *grid, int y, const bt_account_link *link) {
  char text[48];
  (void)snprintf(text, sizeof text, "%d to %d", (int)link->from, (int)link->to);
  put_right(grid, y, 12, text, BT_COLOR_DEFAULT, 0);
  put_right(grid, y, 22, bt_text_count(text, sizeof text, link->messages), BT_COLOR_DEFAULT, 0);
  put_right(grid, y, 34, link->bytes == BT_UNKNOWN ? "-" : bt_text_bytes(text, sizeof text, link->bytes),
            BT_COLOR_DEFAULT, 0);
  put_right(grid, y, 46, link->transfer_ns == BT_UNKNOWN ? "-" : bt_text_duration(text, sizeof text, link->transfer_ns),
            BT_COLOR_DEFAULT, 0);
  put_right(grid, y, 58, link->wait_ns == BT_UNKNOWN ? "-" : bt_text_duration(text, sizeof text, link->wait_ns),
            BT_COLOR_DEFAULT, 0);
  if (link->bytes == BT_UNKNOWN || link->transfer_ns <= 0) return;
  (void)snprintf(text, sizeof text, "%.1f GB/s", (double)link->bytes / (double)link->transfer_ns);
  put_right(grid, y, 72, text, BT_COLOR_DEFAULT, 0);
}

static void put_links(const bt_accounting *account, bt_grid *grid, int y, int end) {
  size_t count = account->link_count < MOST_LISTED ? account->link_count : MOST_LISTED;
  if (count == 0 || end - y < 2) return;
  const bt_account_link **order = malloc(count * sizeof *order);
  if (order == NULL) return;
  for (size_t i = 0; i < count; i++)
    order[i] = &account->links[i];
  qsort(order, count, sizeof *order, by_wait);
  static const struct {
    int end;
    const char *title;
  } titles[] = {{12, "link"}, {22, "messages"}, {34, "bytes"}, {46, "transfer"}, {58, "waited"}, {72, "rate"}};
  for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
    put_right(grid, y, titles[i].end, titles[i].title, BT_COLOR_MUTED, 0);
  y++;
  size_t shown = 0;
  while (shown < count && y < end - (shown + 1 < count))
    put_link(grid, y++, order[shown++]);
  if (shown < count) {
    char text[48];
    (void)snprintf(text, sizeof text, "and %zu links that waited less", count - shown);
    bt_grid_text(grid, y, 5, grid->columns - 6, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  }
  free(order);
}

static bt_status draw(bt_view *view, bt_grid *grid, int top, int rows) {
  size_t count;
  const bt_account_stage **order = ranking(view, &count);
  if (order == NULL) {
    bt_grid_text(grid, top, 1, grid->columns - 2, "no whole step has been accounted for yet", BT_COLOR_MUTED,
                 BT_COLOR_DEFAULT, 0);
    return BT_OK;
  }
  bt_class classes[BT_CLASS_COUNT];
  unsigned class_count = classes_seen(view->feed.account, classes);
  /* the links get what is left, but a third at least */
  int least = view->feed.account->link_count > 0 ? rows / 3 : 0;
  size_t shown = (size_t)(rows - 1 - least) < count ? (size_t)(rows - 1 - least) : count;
  bt_page_scroll(&view->page_at[BT_PAGE_STAGES], &view->page_top[BT_PAGE_STAGES], count, shown);
  put_titles(grid, top, classes, class_count);
  char text[96], number[32];
  (void)snprintf(text, sizeof text, "step %s, times of one rank",
                 bt_text_count(number, sizeof number, view->feed.verdict.step));
  bt_grid_text(grid, top - 1, 1, grid->columns - 2, text, BT_COLOR_MUTED, BT_COLOR_DEFAULT, 0);
  for (size_t i = 0; i < shown; i++) {
    size_t at = view->page_top[BT_PAGE_STAGES] + i;
    put_stage(view, grid, top + 1 + (int)i, order[at], compute_of(order[count / 2]), classes, class_count,
              at == view->page_at[BT_PAGE_STAGES]);
  }
  put_links(view->feed.account, grid, top + 2 + (int)shown, top + rows);
  free(order);
  return BT_OK;
}

static void move(bt_view *view, int64_t rows, int64_t columns) {
  size_t count = view->feed.account == NULL ? 0 : view->feed.account->stage_count;
  (void)columns;
  view->page_at[BT_PAGE_STAGES] = bt_page_moved(view->page_at[BT_PAGE_STAGES], rows, count);
}

static void open(bt_view *view) {
  size_t count;
  const bt_account_stage **order = ranking(view, &count);
  if (order == NULL) return;
  size_t at = view->page_at[BT_PAGE_STAGES];
  bt_navigate_remember(view);
  view->cursor.stage = order[at < count ? at : 0]->stage;
  view->cursor.rank = -1;
  free(order);
}

const bt_page_kind bt_page_stages = {"stages", draw, move, open};
