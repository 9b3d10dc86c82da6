#include "config.h"

#include "tui/screen/terminal.h"

#include <curses.h>
#include <term.h>
/* macros of <term.h> */
#undef columns
#undef lines
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "tui/screen/answer.h"
#include "tui/screen/paint.h"

enum { PAIR_SLOTS = 1024, ESCAPE = 27, MOUSE_EVENTS = 16 };

struct bt_terminal {
  SCREEN *screen;
  FILE *out, *in;
  bt_grid shown; /* what curses' window holds */
  bool fresh; /* the window holds nothing of ours */
  bool synchronized;
  bool mouse; /* asked for */
  MEVENT events[MOUSE_EVENTS]; /* what the mouse did, the newest first */
  int event_count;
  int pairs[PAIR_SLOTS]; /* 1 + (fg + 1) * 512 + (bg + 1), by pair number */
  int pair_count, pair_limit;
  uint64_t written; /* an estimate */
  bt_answer background;
  bool paints; /* it speaks what paint.h writes */
  bt_paint paint;
  int last_row, last_column, last_pair; /* of the estimate: where the cell before was put, and how */
};

static void set_up(void) {
  raw();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  leaveok(stdscr, FALSE);
  curs_set(0);
}

static bt_color_level color_level(bool no_color) {
  if (no_color || !has_colors() || start_color() == ERR) return BT_LEVEL_MONO;
  use_default_colors();
  if (COLORS >= 256 && COLOR_PAIRS >= 256) return BT_LEVEL_256;
  if (COLORS >= 16 && COLOR_PAIRS >= 256) return BT_LEVEL_16;
  return COLORS >= 8 && COLOR_PAIRS >= 64 ? BT_LEVEL_8 : BT_LEVEL_MONO;
}

static bool is_plain(const char *capability) {
  return capability != NULL && strstr(capability, "$<") == NULL; /* it wants no pauses */
}

/* Whether it is one of the many that understand the same sequences for colours and moves. */
static bool speaks_ecma(void) {
  static const char *const expected[] = {"\033[38;5;200m", "\033[48;5;200m", "\033[5;8H", "\n"};
  const char *const had[] = {set_a_foreground, set_a_background, cursor_address, cursor_down};
  for (size_t i = 0; i < sizeof had / sizeof *had; i++) {
    if (had[i] == NULL || strcmp(i < 2 ? tiparm(had[i], 200) : tiparm(had[i], 4, 7), expected[i]) != 0) return false;
  }
  return is_plain(save_cursor) && is_plain(restore_cursor) && is_plain(exit_attribute_mode);
}

static bool expands_newlines(int out) {
  struct termios mode;
  return tcgetattr(out, &mode) == 0 && (mode.c_oflag & OPOST) != 0 && (mode.c_oflag & ONLCR) != 0;
}

/* Asks for the colour of the background. Terminals of 256 colours know the question or pass over it; the Linux console does
 * neither. */
static void ask_background(bt_terminal *t, const char *type) {
  if (strncmp(type, "linux", 5) == 0 || !isatty(fileno(t->out))) return;
  fputs("\033]11;?\007", t->out);
  fflush(t->out);
  t->background.awaited = true;
}

bt_status bt_terminal_open(const bt_terminal_options *options, bt_terminal **terminal, bt_color_level *level,
                           bt_error *error) {
  const char *type = options->type != NULL ? options->type : getenv("TERM");
  if (type == NULL || type[0] == 0) {
    return bt_fail(error, BT_ERR_ARG, "TERM is not set, so the terminal's type is unknown: try TERM=xterm");
  }
  bt_terminal *t = calloc(1, sizeof *t);
  if (t == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory");
  t->out = options->out;
  t->in = options->in;
  t->fresh = true;
  t->screen = newterm(type, options->out, options->in);
  if (t->screen == NULL) {
    free(t);
    return bt_fail(error, BT_ERR_ARG, "terminal type '%.40s' is not known here: try TERM=xterm", type);
  }
  set_up();
  set_escdelay(25);
  *level = color_level(options->no_color);
  t->synchronized = *level == BT_LEVEL_256;
  t->pair_limit = COLOR_PAIRS < PAIR_SLOTS ? COLOR_PAIRS : PAIR_SLOTS;
  if (options->ask_background && *level == BT_LEVEL_256) ask_background(t, type);
  t->paints = *level == BT_LEVEL_256 && speaks_ecma();
  t->paint.no_newline = expands_newlines(fileno(t->out));
  if (options->rows > 0 && options->columns > 0) resizeterm(options->rows, options->columns);
  *terminal = t;
  return BT_OK;
}

/* Motion while a button is down: curses asks for presses and releases alone. */
static void track_motion(bt_terminal *t, bool on) {
  if (!on && !t->mouse) return;
  fputs(on ? "\033[?1002h" : "\033[?1002l", t->out);
  fflush(t->out);
}

void bt_terminal_close(bt_terminal *terminal, bool lost) {
  if (terminal == NULL) return;
  if (!lost) {
    track_motion(terminal, false);
    endwin();
  }
  if (!lost && terminal->background.awaited) tcflush(fileno(terminal->in), TCIFLUSH); /* or the shell gets the answer */
  delscreen(terminal->screen);
  bt_paint_free(&terminal->paint);
  bt_grid_free(&terminal->shown);
  free(terminal);
}

void bt_terminal_size(const bt_terminal *terminal, int *rows, int *columns) {
  (void)terminal;
  *rows = LINES;
  *columns = COLS;
}

void bt_terminal_resized(bt_terminal *terminal) {
  struct winsize size;
  if (ioctl(fileno(terminal->out), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
  if (size.ws_row == LINES && size.ws_col == COLS) return;
  resizeterm(size.ws_row, size.ws_col);
  bt_terminal_redraw(terminal);
}

/* The pair of two colours, made when it is first needed. Without room for it, the default pair. */
static int pair_of(bt_terminal *t, int fg, int bg) {
  if (fg < 0 && bg < 0) return 0;
  int wanted = 1 + (fg + 1) * 512 + (bg + 1);
  for (int i = 1; i <= t->pair_count; i++) {
    if (t->pairs[i] == wanted) return i;
  }
  if (t->pair_count + 1 >= t->pair_limit || init_extended_pair(t->pair_count + 1, fg, bg) == ERR) return 0;
  t->pairs[++t->pair_count] = wanted;
  return t->pair_count;
}

/* Reckons what curses will write for a cell: its glyph, a new colour, a move of the cursor. */
static void reckon(bt_terminal *t, int row, int column, const bt_cell *cell, int pair) {
  enum { COLOR = 17, MOVE = 7 };
  t->written += cell->glyph < 0x80 ? 1 : 3;
  if (pair != t->last_pair) t->written += COLOR;
  if (row != t->last_row || column != t->last_column + 1) t->written += MOVE;
  t->last_row = row;
  t->last_column = column;
  t->last_pair = pair;
}

/* Puts a cell into a window. The pair of its colours. */
static int add_cell(bt_terminal *t, WINDOW *window, int row, int column, const bt_cell *cell, const bt_theme *theme) {
  int pair = pair_of(t, bt_theme_number(theme, (bt_color)cell->fg), bt_theme_number(theme, (bt_color)cell->bg));
  attr_t attributes = A_NORMAL;
  if (cell->attributes & BT_ATTR_BOLD) attributes |= A_BOLD;
  if (cell->attributes & BT_ATTR_REVERSE) attributes |= A_REVERSE;
  if (cell->attributes & BT_ATTR_UNDERLINE) attributes |= A_UNDERLINE;
  wchar_t text[2] = {(wchar_t)cell->glyph, 0};
  cchar_t complex;
  setcchar(&complex, text, attributes, 0, &pair);
  mvwadd_wch(window, row, column, &complex);
  return pair;
}

static void put_cell(bt_terminal *t, int row, int column, const bt_cell *cell, const bt_theme *theme) {
  if (cell->glyph == 0) return; /* the right half of a wide character */
  reckon(t, row, column, cell, add_cell(t, stdscr, row, column, cell, theme));
}

static bool same_cell(const bt_cell *a, const bt_cell *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* Terminals that know it show what lies between begin and end at once; others ignore it. curses has flushed its own output
 * at the end of every refresh. */
static void synchronize(bt_terminal *t, bool begin) {
  if (!t->synchronized) return;
  fputs(begin ? "\033[?2026h" : "\033[?2026l", t->out);
  fflush(t->out);
}

/* curses writes over short gaps rather than to jump them: blanks there get the colour of what stands before them, which
 * saves switching it off and on again. */
static void put_gap(bt_terminal *t, const bt_grid *grid, int row, int from, int to, const bt_theme *theme) {
  enum { SHORT = 8 };
  const bt_cell *cells = &grid->cells[(size_t)row * (size_t)grid->columns];
  if (from < 0 || to - from < 2 || to - from > SHORT) return;
  if (cells[from].bg != BT_COLOR_DEFAULT || cells[from].attributes != 0) return;
  for (int i = from + 1; i < to; i++) {
    if (cells[i].glyph != ' ' || cells[i].bg != BT_COLOR_DEFAULT || cells[i].attributes != 0) return;
  }
  for (int i = from + 1; i < to; i++)
    put_cell(t, row, i, &(bt_cell){.glyph = ' ', .fg = cells[from].fg}, theme);
}

/* Puts into the window what differs from what it holds. */
static bool put_differences(bt_terminal *t, const bt_grid *grid, const bt_theme *theme) {
  bool any = t->fresh;
  for (int row = 0; row < grid->rows; row++) {
    int last = -1; /* put */
    for (int column = 0; column < grid->columns; column++) {
      size_t at = (size_t)row * (size_t)grid->columns + (size_t)column;
      if (!t->fresh && same_cell(&grid->cells[at], &t->shown.cells[at])) continue;
      put_gap(t, grid, row, last, column, theme);
      put_cell(t, row, column, &grid->cells[at], theme);
      last = column;
      t->shown.cells[at] = grid->cells[at];
      any = true;
    }
  }
  t->fresh = false;
  return any;
}

/* Whether fewer cells of a row are left to write after it has moved by so many columns to the left (negative: right). */
static bool better_moved(const bt_cell *old, const bt_cell *new, int width, int by) {
  int here = 0, moved = 2; /* moving itself is not free; what changes in place is scattered, which costs twice */
  for (int i = 0; i < width; i++) {
    bool kept = i + by >= 0 && i + by < width;
    if (old[i].glyph == 0) return false; /* half of a wide character */
    here += !same_cell(&old[i], &new[i]);
    moved += kept ? !same_cell(&old[i + by], &new[i]) : new[i].glyph != ' ';
  }
  return moved < here * 2;
}

static void move_cells(bt_cell *cells, int width, int by) {
  int from = by > 0 ? by : 0, to = by > 0 ? 0 : -by, kept = width - from - to;
  memmove(cells + to, cells + from, (size_t)kept * sizeof *cells);
  for (int i = 0; i < width; i++) {
    if (i < to || i >= to + kept) cells[i] = (bt_cell){.glyph = ' '};
  }
}

static bool can_scroll(void) {
  return is_plain(cursor_address) && is_plain(parm_ich) && is_plain(parm_dch) && is_plain(save_cursor) &&
         is_plain(restore_cursor) && is_plain(exit_attribute_mode);
}

static bool differs(const bt_terminal *t, const bt_grid *grid) {
  return memcmp(t->shown.cells, grid->cells, (size_t)grid->rows * (size_t)grid->columns * sizeof *grid->cells) != 0;
}

/* Moves the rows of the old picture that come nearer to the new one by it. curses does not do it: it inserts characters
 * only into rows that end blank, and takes sideways moves for moves of whole rows, since those of a pipeline look alike.
 * So it is done on the terminal, in curses' idea of the terminal, and in the window. */
static void scroll_first(bt_terminal *t, const bt_grid *grid) {
  const bt_shift *shift = &grid->shift;
  int width = grid->columns - shift->left, by = abs(shift->columns), at = -1;
  for (int row = shift->top; row < shift->bottom; row++) {
    bt_cell *old = bt_grid_at(&t->shown, row, shift->left);
    const bt_cell *new = &grid->cells[(size_t)row * (size_t)grid->columns + (size_t)shift->left];
    if (!better_moved(old, new, width, shift->columns)) continue;
    bool near = at >= 0 && is_plain(row_address); /* in the right column already */
    if (near && row == at + 1 && !t->paint.no_newline)
      fputs("\n", t->out);
    else
      fputs(near ? tiparm(row_address, row) : tiparm(cursor_address, row, shift->left), t->out);
    fputs(tiparm(shift->columns > 0 ? parm_dch : parm_ich, by), t->out);
    t->written += 8;
    move_cells(old, width, shift->columns);
    for (int i = 0; i < by; i++) {
      if (shift->columns > 0) {
        mvwdelch(curscr, row, shift->left);
        mvdelch(row, shift->left);
      } else {
        mvwinsch(curscr, row, shift->left, ' ');
        mvinsch(row, shift->left, ' ');
      }
    }
    at = row;
  }
}

/* Writes what differs, past curses: in less than half of the bytes, since curses goes row by row and sends each colour for
 * itself. It and its window are told what is there now. False: curses is to do it. */
static bool paint_past(bt_terminal *t, const bt_grid *grid, const bt_theme *theme) {
  if (!t->paints) return false;
  bt_paint_begin(&t->paint);
  if (!bt_paint_differences(&t->paint, &t->shown, grid, theme)) return false;
  fwrite(t->paint.bytes, 1, t->paint.length, t->out);
  t->written += t->paint.length;
  for (int row = 0; row < grid->rows; row++) {
    for (int column = 0; column < grid->columns; column++) {
      size_t at = (size_t)row * (size_t)grid->columns + (size_t)column;
      if (same_cell(&grid->cells[at], &t->shown.cells[at])) continue;
      add_cell(t, stdscr, row, column, &grid->cells[at], theme);
      add_cell(t, curscr, row, column, &grid->cells[at], theme);
      t->shown.cells[at] = grid->cells[at];
    }
  }
  return true;
}

/* What is written past curses, which does not notice: it finds the cursor and the colours as it left them. */
static void write_past(bt_terminal *t, const bt_grid *grid, const bt_theme *theme, bool shifts) {
  fputs(save_cursor, t->out);
  fputs(exit_attribute_mode, t->out);
  if (shifts) scroll_first(t, grid);
  (void)paint_past(t, grid, theme);
  fputs(restore_cursor, t->out);
  fflush(t->out);
}

bt_status bt_terminal_draw(bt_terminal *terminal, const bt_grid *grid, const bt_theme *theme) {
  bt_terminal *t = terminal;
  if (t->shown.rows != grid->rows || t->shown.columns != grid->columns) {
    bt_status status = bt_grid_resize(&t->shown, grid->rows, grid->columns);
    if (status != BT_OK) return status;
    t->fresh = true;
    erase();
  }
  if (t->fresh && t->paints) { /* curses clears, the rest is painted */
    erase();
    refresh();
    bt_grid_clear(&t->shown);
    t->shown.cursor_row = -1;
    t->fresh = false;
  }
  int width = grid->columns - grid->shift.left;
  int by = grid->shift.columns;
  bool shifts = !t->fresh && by != 0 && abs(by) <= width / 2 && can_scroll();
  if (shifts) synchronize(t, true);
  if (shifts || (t->paints && differs(t, grid))) write_past(t, grid, theme, shifts);
  bool moved = t->shown.cursor_row != grid->cursor_row || t->shown.cursor_column != grid->cursor_column;
  if (put_differences(t, grid, theme) || moved || shifts) {
    leaveok(stdscr, grid->cursor_row < 0);
    if (grid->cursor_row >= 0) move(grid->cursor_row, grid->cursor_column);
    refresh();
    t->shown.cursor_row = grid->cursor_row;
    t->shown.cursor_column = grid->cursor_column;
  }
  if (shifts) synchronize(t, false);
  return ferror(t->out) ? BT_ERR_IO : BT_OK;
}

bool bt_terminal_behind(const bt_terminal *terminal) {
  int waiting = 0;
  struct pollfd room = {fileno(terminal->out), POLLOUT, 0}; /* a pseudo terminal does not say how much waits */
  if (poll(&room, 1, 0) == 0) return true;
  return ioctl(fileno(terminal->out), TIOCOUTQ, &waiting) == 0 && waiting > 0;
}

uint64_t bt_terminal_written(const bt_terminal *terminal) {
  return terminal->written;
}

bool bt_terminal_background(const bt_terminal *terminal, bool *light) {
  *light = terminal->background.light;
  return terminal->background.known;
}

/* get_wch, less the terminal's answers. */
static int get_key(bt_terminal *t, wint_t *key) {
  bt_answer *a = &t->background;
  for (;;) {
    int got = get_wch(key);
    if (got != OK) return got;
    if (a->reading) {
      bt_answer_read(a, *key);
      continue;
    }
    wint_t next;
    if (!a->awaited || *key != ESCAPE) return got;
    int after = get_wch(&next);
    if (after != OK || next != ']') {
      if (after == OK) unget_wch((wchar_t)next);
      if (after == KEY_CODE_YES) ungetch((int)next);
      return got;
    }
    a->reading = true;
    a->length = 0;
  }
}

bt_key bt_terminal_key(bt_terminal *terminal) {
  wint_t key;
  static const struct {
    wint_t code;
    bt_key key;
  } special[] = {
      {KEY_LEFT, BT_KEY_LEFT},        {KEY_RIGHT, BT_KEY_RIGHT},         {KEY_UP, BT_KEY_UP},
      {KEY_DOWN, BT_KEY_DOWN},        {KEY_HOME, BT_KEY_HOME},           {KEY_END, BT_KEY_END},
      {KEY_PPAGE, BT_KEY_PAGE_UP},    {KEY_NPAGE, BT_KEY_PAGE_DOWN},     {KEY_BTAB, BT_KEY_BACK_TAB},
      {KEY_DC, BT_KEY_DELETE},        {KEY_BACKSPACE, BT_KEY_BACKSPACE}, {KEY_ENTER, BT_KEY_ENTER},
      {KEY_SLEFT, BT_KEY_SHIFT_LEFT}, {KEY_SRIGHT, BT_KEY_SHIFT_RIGHT},  {KEY_RESIZE, BT_KEY_RESIZE},
      {KEY_MOUSE, BT_KEY_MOUSE},
  };
  int got = get_key(terminal, &key);
  if (got == ERR) return BT_KEY_NONE;
  if (got == KEY_CODE_YES) {
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
      if (special[i].code == key) return special[i].key;
    }
    return BT_KEY_UNKNOWN;
  }
  if (key == '\r') return BT_KEY_ENTER;
  if (key == 0x7F) return BT_KEY_BACKSPACE;
  return key == 0 ? BT_KEY_UNKNOWN : (bt_key)key;
}

void bt_terminal_mouse(bt_terminal *terminal, bool on) {
  mouseinterval(0);
  track_motion(terminal, false);
  mousemask(on ? BUTTON1_PRESSED | BUTTON1_RELEASED | BUTTON4_PRESSED | BUTTON5_PRESSED | BUTTON_SHIFT |
                     REPORT_MOUSE_POSITION
               : 0,
            NULL);
  terminal->mouse = on;
  if (on) track_motion(terminal, true);
}

/* False: nothing that matters. */
static bool tell_event(const MEVENT *event, bt_mouse *mouse) {
  mmask_t state = event->bstate;
  bool up = (state & BUTTON4_PRESSED) != 0, down = (state & BUTTON5_PRESSED) != 0;
  bool pressed = (state & BUTTON1_PRESSED) != 0, released = (state & BUTTON1_RELEASED) != 0;
  bool moved = !pressed && !released && !up && !down && (state & REPORT_MOUSE_POSITION) != 0;
  *mouse = (bt_mouse){.row = event->y,
                      .column = event->x,
                      .wheel = up     ? -1
                               : down ? 1
                                      : 0,
                      .moved = moved,
                      .released = released && !pressed,
                      .shift = (state & BUTTON_SHIFT) != 0};
  return up || down || pressed || released || moved;
}

/* curses tells of several events that came together by one key, and gives the newest first. */
bool bt_terminal_mouse_event(bt_terminal *terminal, bt_mouse *mouse) {
  bt_terminal *t = terminal;
  for (;;) {
    if (t->event_count == 0) {
      while (t->event_count < MOUSE_EVENTS && getmouse(&t->events[t->event_count]) == OK)
        t->event_count++;
      if (t->event_count == 0) return false;
    }
    while (t->event_count > 0) {
      if (tell_event(&t->events[--t->event_count], mouse)) return true;
    }
  }
}

void bt_terminal_redraw(bt_terminal *terminal) {
  terminal->fresh = true;
  erase();
  clearok(stdscr, TRUE);
}

void bt_terminal_suspend(bt_terminal *terminal) {
  struct sigaction standard = {.sa_handler = SIG_DFL}, ours;
  sigset_t stop, blocked;
  track_motion(terminal, false);
  endwin();
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  sigaction(SIGTSTP, &standard, &ours);
  kill(0, SIGTSTP); /* the whole job, as the terminal driver would */
  sigprocmask(SIG_UNBLOCK, &stop, &blocked);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  sigaction(SIGTSTP, &ours, NULL);
  set_up();
  bt_terminal_resized(terminal);
  bt_terminal_redraw(terminal);
  refresh();
  if (terminal->mouse) bt_terminal_mouse(terminal, true);
}
