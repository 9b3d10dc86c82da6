/* The keys, from their table. */
#include <stdio.h>

#include "tui/screen/chrome.h"
#include "tui/screen/text.h"

static void help_keys(const bt_binding *binding, char *out, size_t room) {
  out[0] = 0;
  bt_text_append(out, room, "%s", binding->keys);
  if (binding[1].action != BT_ACTION_NONE && binding[1].help == NULL)
    bt_text_append(out, room, ", %s", binding[1].keys);
}

void bt_chrome_help(bt_view *view, bt_grid *grid) {
  int lines = 0, room = grid->rows - 3;
  for (int pass = 0; pass < 2; pass++) {
    int line = 0;
    if (pass == 1) {
      if (view->help_top > lines - room) view->help_top = lines - room;
      if (view->help_top < 0) view->help_top = 0;
    }
    for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
      if (pass == 1 && line >= view->help_top && line < view->help_top + room) {
        bt_grid_text(grid, 2 + line - view->help_top, 1, grid->columns, group->title, BT_COLOR_STRONG, BT_COLOR_DEFAULT,
                     BT_ATTR_BOLD);
      }
      line++;
      for (const bt_binding *b = group->bindings; b->action != BT_ACTION_NONE; b++) {
        if (b->help == NULL) continue;
        char keys[80];
        help_keys(b, keys, sizeof keys);
        int y = 2 + line - view->help_top;
        if (pass == 1 && line >= view->help_top && line < view->help_top + room) {
          int column = grid->columns >= 70 ? 30 : 16;
          bt_grid_text(grid, y, 3, column - 4, keys, BT_COLOR_P2P, BT_COLOR_DEFAULT, 0);
          bt_grid_text(grid, y, column, grid->columns - column, b->help, BT_COLOR_DEFAULT, BT_COLOR_DEFAULT, 0);
        }
        line++;
      }
    }
    lines = line;
  }
  bt_grid_fill(grid, grid->rows - 1, 0, grid->columns, ' ', BT_COLOR_BAR_TEXT, BT_COLOR_BAR, 0);
  bt_grid_text(grid, grid->rows - 1, 1, grid->columns - 2,
               lines > room ? "help: Up and Down for more, any other key closes it" : "help: any key closes it",
               BT_COLOR_BAR_TEXT, BT_COLOR_BAR, BT_ATTR_BOLD);
}
