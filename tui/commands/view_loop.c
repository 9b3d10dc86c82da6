#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tui/commands/command.h"
#include "tui/commands/open_run.h"
#include "tui/commands/view.h"
#include "tui/screen/screen.h"
#include "tui/screen/terminal.h"
#include "tui/screen/text.h"

static int64_t clock_ns(clockid_t id) {
  struct timespec now;
  clock_gettime(id, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bt_theme bt_view_theme(const bt_view_options *options) {
  const char *codeset = nl_langinfo(CODESET), *background = getenv("COLORFGBG");
  const char *no_color = getenv("NO_COLOR");
  bool plain = no_color != NULL && no_color[0] != 0; /* a terminal says itself what it has */
  bt_theme theme = {.level = plain ? BT_LEVEL_MONO : BT_LEVEL_256, .light = options->light};
  theme.utf8 = options->utf8 || (!options->ascii && strcmp(codeset, "UTF-8") == 0);
  const char *last = background == NULL ? NULL : strrchr(background, ';');
  if (!options->dark && last != NULL && (strcmp(last, ";15") == 0 || strcmp(last, ";7") == 0)) theme.light = true;
  return theme;
}

typedef struct viewer {
  const bt_view_options *options;
  bt_viewed_runs runs;
  bt_view *view; /* of the first */
  bt_terminal *terminal;
  bt_grid grid;
  int signals; /* a signalfd */
  bool lost, quit;
  bool asked; /* the terminal, for its background, and has not answered */
  uint64_t written; /* to the terminal, before the last frame */
} viewer;

static void suspend(viewer *v) {
  bt_terminal_suspend(v->terminal);
  v->view->suspend = false;
}

/* What signals have come. */
static void take_signals(viewer *v) {
  struct signalfd_siginfo info;
  while (read(v->signals, &info, sizeof info) == (ssize_t)sizeof info) {
    switch (info.ssi_signo) {
    case SIGWINCH: bt_terminal_resized(v->terminal); break;
    case SIGTSTP: v->view->suspend = true; break;
    case SIGCONT: bt_terminal_redraw(v->terminal); break;
    case SIGHUP: v->lost = true; break;
    default: v->quit = true;
    }
  }
}

static bt_status draw(viewer *v) {
  int rows, columns;
  bt_terminal_size(v->terminal, &rows, &columns);
  bt_viewed_lock(&v->runs);
  bool done;
  bt_status status = BT_OK;
  for (size_t i = 0; i < v->runs.count && status == BT_OK; i++) {
    bt_feeder *feeder = &v->runs.runs[i].feeder;
    status = bt_lod_set_update(&feeder->lods, bt_run_trace(feeder->run), 20000, &done);
  }
  bt_viewed_feed(&v->runs, v->options);
  if (status == BT_OK) status = bt_screen_draw(v->view, &v->grid, rows, columns);
  for (size_t i = 0; i < v->runs.count; i++)
    bt_feeder_listen(&v->runs.runs[i].feeder, &v->runs.runs[i].view);
  bt_viewed_unlock(&v->runs);
  if (status == BT_OK) status = bt_terminal_draw(v->terminal, &v->grid, &v->view->theme);
  return status;
}

/* The terminal has said whether its background is light. */
static bool take_background(viewer *v) {
  bool light;
  if (!v->asked || !bt_terminal_background(v->terminal, &light)) return false;
  v->asked = false;
  if (light == v->view->theme.light) return false;
  for (size_t i = 0; i < v->runs.count; i++)
    v->runs.runs[i].view.theme.light = light;
  bt_terminal_redraw(v->terminal);
  return true;
}

static bool take_keys(viewer *v) {
  bool any = false;
  for (bt_key key; (key = bt_terminal_key(v->terminal)) != BT_KEY_NONE; any = true) {
    bt_viewed_lock(&v->runs);
    bt_viewed_feed(&v->runs, v->options);
    bt_mouse mouse;
    bool moused = v->view->mouse;
    if (key == BT_KEY_MOUSE) {
      while (bt_terminal_mouse_event(v->terminal, &mouse))
        bt_screen_mouse(v->view, &mouse);
    } else if (key != BT_KEY_RESIZE) {
      bt_screen_key(v->view, key);
    }
    bt_view_save(v->view, &v->grid);
    bt_viewed_unlock(&v->runs);
    if (v->view->quit) break;
    if (moused != v->view->mouse) bt_terminal_mouse(v->terminal, v->view->mouse);
    if (v->view->redraw) bt_terminal_redraw(v->terminal);
    v->view->redraw = false;
  }
  return take_background(v) || any;
}

/* A run that is being written. */
static bool is_live(const viewer *v) {
  for (size_t i = 0; i < v->runs.count; i++) {
    if (v->runs.runs[i].view.feed.live) return true;
  }
  return false;
}

/* Whether a feeder has something new. */
static bool take_wakes(viewer *v) {
  bool any = false;
  char bytes[256];
  for (size_t i = 0; i < v->runs.count; i++) {
    while (read(v->runs.runs[i].feeder.wake[0], bytes, sizeof bytes) > 0)
      any = true;
  }
  return any;
}

static bool tick(viewer *v, int64_t elapsed) {
  bool moved = false;
  bt_viewed_lock(&v->runs);
  for (size_t i = 0; i < v->runs.count; i++) {
    bt_viewed *run = &v->runs.runs[i];
    run->view.trace = bt_run_trace(run->feeder.run);
    if (bt_view_tick(&run->view, elapsed)) moved = true;
  }
  bt_viewed_unlock(&v->runs);
  return moved;
}

/* How long the line takes for what the last frame wrote, ns. */
static int64_t cost_of_frame(viewer *v) {
  uint64_t written = bt_terminal_written(v->terminal), bytes = written - v->written;
  v->written = written;
  if (v->options->bytes_per_second == 0) return 0;
  return (int64_t)(bytes * 1000000000 / (uint64_t)v->options->bytes_per_second);
}

static int loop(viewer *v, int tty) {
  int64_t frame = 1000000000 / v->options->fps, last_frame = 0, paid = 0, last_tick = clock_ns(CLOCK_MONOTONIC);
  bool dirty = true;
  if (v->asked)
    (void)poll(&(struct pollfd){tty, POLLIN, 0}, 1, 50); /* a terminal nearby answers before the first frame */
  if (v->asked) (void)take_keys(v);
  while (!v->quit && !v->lost && !v->view->quit) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (dirty && now - last_frame >= frame && now >= paid && !bt_terminal_behind(v->terminal)) {
      if (draw(v) == BT_ERR_IO) v->lost = true;
      paid = now + cost_of_frame(v);
      last_frame = now;
      dirty = false;
    }
    /* a waiting frame, the replay's clock, the age of the newest record; otherwise only what wakes us */
    int timeout = dirty                                    ? (int)(frame / 1000000) + 1
                  : v->view->replaying && !v->view->paused ? (int)(frame / 1000000)
                  : is_live(v)                             ? 500
                                                           : -1;
    struct pollfd waits[4] = {{tty, POLLIN, 0}, {v->signals, POLLIN, 0}};
    for (size_t i = 0; i < v->runs.count; i++)
      waits[2 + i] = (struct pollfd){v->runs.runs[i].feeder.wake[0], POLLIN, 0};
    int ready = poll(waits, (nfds_t)(2 + v->runs.count), timeout);
    if (waits[1].revents != 0) {
      take_signals(v);
      dirty = true;
    }
    if (ready > 0 && (waits[0].revents & (POLLHUP | POLLERR | POLLNVAL))) v->lost = true;
    if (ready > 0 && (waits[0].revents & POLLIN) && take_keys(v)) {
      dirty = true;
      last_frame = 0; /* keys are answered at once */
    } else if (ready > 0 && (waits[0].revents & POLLIN) && !v->lost) {
      char nothing;
      if (read(tty, &nothing, 0) < 0 && errno == EIO) v->lost = true;
    }
    if (take_wakes(v)) dirty = true;
    if (ready == 0 && is_live(v)) dirty = true;
    now = clock_ns(CLOCK_MONOTONIC);
    if (tick(v, now - last_tick)) dirty = true;
    last_tick = now;
    if (v->view->suspend) {
      suspend(v);
      dirty = true;
      last_tick = clock_ns(CLOCK_MONOTONIC);
    }
  }
  return BT_EXIT_OK;
}

/* Signals are read in the loop like keys: no handler, no state outside it. */
static int catch_signals(void) {
  static const int caught[] = {SIGWINCH, SIGTSTP, SIGCONT, SIGHUP, SIGTERM, SIGINT, SIGQUIT};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
    sigaddset(&set, caught[i]);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Keys come from the terminal even when standard input is something else. */
static FILE *open_keys(void) {
  return isatty(STDIN_FILENO) ? stdin : fopen("/dev/tty", "r+e");
}

/* What reading has come to. */
static int result(viewer *v, int exit_status) {
  bt_viewed_lock(&v->runs);
  bt_error error = {BT_OK, ""};
  bool failed = false, problems = false;
  for (size_t i = 0; i < v->runs.count; i++) {
    const bt_feeder *feeder = &v->runs.runs[i].feeder;
    if (feeder->failed && !failed) error = feeder->error;
    failed = failed || feeder->failed;
    problems = problems || feeder->problems > 0;
  }
  bt_viewed_unlock(&v->runs);
  if (failed) return bt_open_run_failed("view", &error);
  if (v->lost) return BT_EXIT_OK;
  return problems ? BT_EXIT_PARTIAL : exit_status;
}

static int show(viewer *v, const bt_view_options *options, FILE *keys) {
  bt_error error = {BT_OK, ""};
  bt_theme theme = bt_view_theme(options);
  const char *no_color = getenv("NO_COLOR");
  v->asked = !options->light && !options->dark && getenv("COLORFGBG") == NULL;
  bt_terminal_options terminal = {
      .out = stdout, .in = keys, .no_color = no_color != NULL && no_color[0] != 0, .ask_background = v->asked};
  if (bt_terminal_open(&terminal, &v->terminal, &theme.level, &error) != BT_OK)
    return bt_usage_error("view", "%s", error.text);
  bt_status status = bt_viewed_start(&v->runs, options, &theme);
  v->view = &v->runs.runs[0].view;
  for (size_t i = 0; i < v->runs.count && status == BT_OK; i++)
    status = bt_feeder_start(&v->runs.runs[i].feeder, &error);
  int exit_status = status == BT_OK ? loop(v, fileno(keys)) : BT_EXIT_NOTHING;
  bt_terminal_close(v->terminal, v->lost);
  return status == BT_OK ? result(v, exit_status) : bt_open_run_failed("view", &error);
}

int bt_view_interactive(const bt_view_options *options) {
  viewer v = {.options = options, .signals = -1};
  bt_error error = {BT_OK, ""};
  FILE *keys = open_keys();
  if (keys == NULL) return bt_usage_error("view", "there is no terminal to read keys from");
  int exit_status = BT_EXIT_NOTHING;
  if (bt_viewed_open(&v.runs, options, !options->replay, &error) != BT_OK) {
    exit_status = bt_open_run_failed("view", &error);
  } else if ((v.signals = catch_signals()) < 0) {
    fprintf(stderr, "bubbletop view: signalfd: %s\n", strerror(errno));
  } else {
    exit_status = show(&v, options, keys);
  }
  bt_viewed_close(&v.runs);
  if (v.signals >= 0) close(v.signals);
  bt_grid_free(&v.grid);
  return exit_status;
}
