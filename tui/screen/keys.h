/* One table of keys drives what they do, the footer and the help. No curses: keys are code points or bt_key values.
 */
#ifndef BT_SCREEN_KEYS_H
#define BT_SCREEN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t bt_key; /* a code point, or one of these */
enum {
  BT_KEY_NONE = 0,
  BT_KEY_BACKSPACE = 8,
  BT_KEY_TAB = 9,
  BT_KEY_ENTER = 10,
  BT_KEY_ESCAPE = 27,
  BT_KEY_LEFT = 0x110000,
  BT_KEY_RIGHT,
  BT_KEY_UP,
  BT_KEY_DOWN,
  BT_KEY_HOME,
  BT_KEY_END,
  BT_KEY_PAGE_UP,
  BT_KEY_PAGE_DOWN,
  BT_KEY_BACK_TAB,
  BT_KEY_DELETE,
  BT_KEY_SHIFT_LEFT,
  BT_KEY_SHIFT_RIGHT,
  BT_KEY_RESIZE,
  BT_KEY_MOUSE, /* what it did is asked for apart */
  BT_KEY_UNKNOWN
};

typedef struct bt_mouse { /* where, in cells of the screen */
  int row, column;
  int wheel; /* -1 up, 1 down, 0: it is about the first button */
  bool moved, released; /* of that, both false: it was pressed */
  bool shift;
} bt_mouse;

typedef enum bt_action {
  BT_ACTION_NONE,
  BT_ACTION_PAN_LEFT,
  BT_ACTION_PAN_RIGHT,
  BT_ACTION_PAGE_LEFT,
  BT_ACTION_PAGE_RIGHT,
  BT_ACTION_ROW_UP,
  BT_ACTION_ROW_DOWN,
  BT_ACTION_ROWS_UP,
  BT_ACTION_ROWS_DOWN,
  BT_ACTION_ZOOM_IN,
  BT_ACTION_ZOOM_OUT,
  BT_ACTION_FIT_STEP,
  BT_ACTION_FIT_RUN,
  BT_ACTION_START,
  BT_ACTION_END,
  BT_ACTION_ZOOM_RANGE,
  BT_ACTION_CENTRE,
  BT_ACTION_NEXT_BLOCK,
  BT_ACTION_PREVIOUS_BLOCK,
  BT_ACTION_NEXT_BUBBLE,
  BT_ACTION_PREVIOUS_BUBBLE,
  BT_ACTION_LARGEST_BUBBLE,
  BT_ACTION_NEXT_STEP,
  BT_ACTION_PREVIOUS_STEP,
  BT_ACTION_PRODUCER,
  BT_ACTION_FOLLOW_MICROBATCH,
  BT_ACTION_GO_TO_MARK,
  BT_ACTION_BACK,
  BT_ACTION_FORTH,
  BT_ACTION_GO,
  BT_ACTION_SEARCH,
  BT_ACTION_SEARCH_NEXT,
  BT_ACTION_SEARCH_PREVIOUS,
  BT_ACTION_LANES,
  BT_ACTION_ALL_LANES,
  BT_ACTION_MARK,
  BT_ACTION_CLEAR,
  BT_ACTION_SAVE,
  BT_ACTION_NEXT_REPLICA,
  BT_ACTION_PREVIOUS_REPLICA,
  BT_ACTION_SCOPE,
  BT_ACTION_TIMES,
  BT_ACTION_WHY,
  BT_ACTION_PLAN,
  BT_ACTION_OTHER_RUN,
  BT_ACTION_BY_STAGE,
  BT_ACTION_NEXT_PAGE,
  BT_ACTION_PREVIOUS_PAGE,
  BT_ACTION_PAUSE,
  BT_ACTION_FOLLOW,
  BT_ACTION_STEP_ONCE,
  BT_ACTION_SLOWER,
  BT_ACTION_FASTER,
  BT_ACTION_SAVE_TEXT,
  BT_ACTION_MOUSE,
  BT_ACTION_HELP,
  BT_ACTION_REDRAW,
  BT_ACTION_SUSPEND,
  BT_ACTION_QUIT
} bt_action;

typedef struct bt_binding {
  bt_action action;
  const char *keys; /* names, separated by spaces; the first one is shown in the footer */
  const char *footer; /* short label, NULL: not in the footer */
  const char *help; /* a line of help */
  bool counts; /* a count before it repeats it */
} bt_binding;

typedef struct bt_key_group {
  const char *title;
  const bt_binding *bindings; /* ends with BT_ACTION_NONE */
} bt_key_group;

/* Ends with a NULL title. */
extern const bt_key_group bt_key_groups[];

const bt_binding *bt_binding_of_key(bt_key key);
const bt_binding *bt_binding_of_action(bt_action action);

/* "Right", "PageDown", "C-l", "Space", "+": BT_KEY_NONE when it is no key's name. */
bt_key bt_key_from_name(const char *name, size_t length);
/* The name of a key, or the character itself. */
char *bt_key_name(bt_key key, char out[16]);

#endif
