/* The keys, from their table, and the words: kinds of ops and classes of idle time, with their colours. */
#include <stdio.h>
#include <string.h>

#include "tui/screen/chrome.h"
#include "tui/screen/text.h"

static void help_keys(const bt_binding *binding, char *out, size_t room) {
  out[0] = 0;
  bt_text_append(out, room, "%s", binding->keys);
  if (binding[1].action != BT_ACTION_NONE && binding[1].help == NULL)
    bt_text_append(out, room, ", %s", binding[1].keys);
}

typedef struct page { /* lines are counted by drawing them, the ones out of sight nowhere */
  bt_view *view;
  bt_grid *grid;
  int line, top, room;
} page;

/* The next line's row on the screen, -1: out of sight. */
static int next_line(page *p) {
  int at = p->line++ - p->top;
  return p->grid != NULL && at >= 0 && at < p->room ? 2 + at : -1;
}

static void put_title(page *p, const char *title) {
  int y = next_line(p);
  if (y >= 0) bt_grid_text(p->grid, y, 1, p->grid->columns, title, BT_COLOR_STRONG, BT_COLOR_DEFAULT, BT_ATTR_BOLD);
}

/* The part of a text that fits, cut between words. */
static size_t fitting(const char *text, size_t room) {
  size_t length = strlen(text);
  if (length <= room) return length;
  for (size_t at = room; at > room / 2; at--) {
    if (text[at] == ' ') return at;
  }
  return room;
}

static void put_entry(page *p, const char *name, const char *text, bt_color color) {
  int column = p->view->screen_columns >= 70 ? 30 : 16;
  size_t room = (size_t)(p->view->screen_columns - column - 1);
  for (bool first = true; first || *text != 0; first = false) {
    char line[256];
    size_t length = fitting(text, room < sizeof line ? room : sizeof line - 1);
    (void)snprintf(line, sizeof line, "%.*s", (int)length, text);
    text += length;
    text += *text == ' ';
    int y = next_line(p), x = 3;
    if (y < 0) continue;
    bt_grid_text(p->grid, y, column, p->grid->columns - column, line, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
    if (!first) continue;
    if (color != BT_COLOR_DEFAULT && bt_theme_fine(&p->view->theme)) {
      bt_grid_fill(p->grid, y, x, 2, ' ', BT_COLOR_DEFAULT, color, 0);
      x += 3;
    }
    bt_grid_text(p->grid, y, x, column - x - 1, name, BT_COLOR_P2P, BT_COLOR_DEFAULT, 0);
  }
}

static void put_words(page *p) {
  static const char *const words[][2] = {
      {"bubble", "1 - compute / (ranks x window): the part of the pipeline's time in which ranks stood still"},
      {"window", "of a step: from the first start to the last end of its F, B and W ops, over all ranks of a replica"},
      {"theory", "the bubble of the same order of ops if all stages and microbatches took the usual time"},
      {"excess", "what is lost against that"},
      {"stage, replica", "a position of the pipeline; one data-parallel copy of all of them"},
      {"microbatch, chunk", "a part of the step's batch; one of the parts of the model that a stage holds"},
  };
  put_title(p, "Words");
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    put_entry(p, words[i][0], words[i][1], BT_COLOR_DEFAULT);
  put_title(p, "Where time goes");
  for (unsigned class = 0; class < BT_CLASS_COUNT; class ++) {
    char name[48];
    bool fine = bt_theme_fine(&p->view->theme) || class < BT_CLASS_COMPUTE_LIMIT;
    (void)snprintf(name, sizeof name, fine ? "%s" : "%s %c", bt_class_title((bt_class) class),
                   bt_theme_class_mark((bt_class) class));
    put_entry(p, name, bt_class_meaning((bt_class) class), bt_theme_class((bt_class) class));
  }
}

static void put_all(page *p) {
  for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
    put_title(p, group->title);
    for (const bt_binding *b = group->bindings; b->action != BT_ACTION_NONE; b++) {
      if (b->help == NULL) continue;
      char keys[80];
      help_keys(b, keys, sizeof keys);
      put_entry(p, keys, b->help, BT_COLOR_DEFAULT);
    }
  }
  put_words(p);
}

void bt_chrome_help(bt_view *view, bt_grid *grid) {
  int room = grid->rows - 3;
  page count = {.view = view};
  put_all(&count);
  if (view->help_top > count.line - room) view->help_top = count.line - room;
  if (view->help_top < 0) view->help_top = 0;
  page shown = {.view = view, .grid = grid, .top = view->help_top, .room = room};
  put_all(&shown);
  bt_grid_fill(grid, grid->rows - 1, 0, grid->columns, ' ', BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
  bt_grid_text(grid, grid->rows - 1, 1, grid->columns - 2,
               count.line > room ? "help: Up, Down, PageUp, PageDown for more, any other key closes it"
                                 : "help: any key closes it",
               BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
}
