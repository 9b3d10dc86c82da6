/* The terminal: the only file that knows curses. Draws grids by difference, reads keys, survives resizes, suspension and hang-up.
 *
 * One at a time in a process (curses' own rule), used from one thread. Signals are the program's business: it calls
 * bt_terminal_resized after SIGWINCH and bt_terminal_suspend to stop; install handlers before bt_terminal_open, or
 * curses installs its own.
 */
#ifndef BT_SCREEN_TERMINAL_H
#define BT_SCREEN_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/wire/status.h"
#include "tui/screen/grid.h"
#include "tui/screen/keys.h"
#include "tui/screen/theme.h"

typedef struct bt_terminal bt_terminal;

typedef struct bt_terminal_options {
  FILE *out; /* borrowed */
  FILE *in;
  const char *type; /* NULL: $TERM */
  int rows, columns; /* 0: ask the terminal */
  bool no_color;
  bool ask_background; /* the terminal itself, whether its background is light */
} bt_terminal_options;

/* `level` gets the colours it has. BT_ERR_ARG: no or an unknown terminal type. */
bt_status bt_terminal_open(const bt_terminal_options *options, bt_terminal **terminal, bt_color_level *level,
                           bt_error *error);
/* Gives the screen back. `lost`: the terminal is gone, write nothing. */
void bt_terminal_close(bt_terminal *terminal, bool lost);

void bt_terminal_size(const bt_terminal *terminal, int *rows, int *columns);
void bt_terminal_resized(bt_terminal *terminal);
/* Writes only what differs from the frame before; nothing at all when nothing does. */
bt_status bt_terminal_draw(bt_terminal *terminal, const bt_grid *grid, const bt_theme *theme);
/* Bytes are still on their way to it: a frame had better be left out. */
bool bt_terminal_behind(const bt_terminal *terminal);
/* About how many bytes it was sent so far: what to hold against a limit. */
uint64_t bt_terminal_written(const bt_terminal *terminal);
/* Whether the background is light, once the terminal has answered, which many never do: false until then. An answer comes
 * among the keys, so this changes in bt_terminal_key. */
bool bt_terminal_background(const bt_terminal *terminal, bool *light);
/* The next key that was typed, BT_KEY_NONE: none waits. */
bt_key bt_terminal_key(bt_terminal *terminal);
/* Asks for the mouse, or leaves it to the terminal, which can then copy with it. */
void bt_terminal_mouse(bt_terminal *terminal, bool on);
/* What the mouse did: after BT_KEY_MOUSE, until it is false: there is no more. */
bool bt_terminal_mouse_event(bt_terminal *terminal, bt_mouse *mouse);
/* Draw everything anew with the next frame. */
void bt_terminal_redraw(bt_terminal *terminal);
/* Leaves the screen, stops the process as Ctrl-Z does, and comes back when it is continued. */
void bt_terminal_suspend(bt_terminal *terminal);

#endif
