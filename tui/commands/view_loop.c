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

/* What time it is, and when the newest record of the run was made, by the clock pairs of its ranks. */
static void note_age(bt_feed *feed, const bt_trace *trace) {
  int64_t newest = INT64_MIN;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    if (rank->clock_count == 0 || rank->heartbeat == INT64_MIN) continue;
    const bt_clock_pair *pair = &rank->clocks[rank->clock_count - 1];
    int64_t real = bt_time_add(bt_time_sub(rank->heartbeat, pair->mono), pair->real);
    if (real > newest) newest = real;
  }
  feed->now = clock_ns(CLOCK_REALTIME);
  feed->newest[0] = 0;
  if (newest == INT64_MIN) return;
  time_t seconds = (time_t)(newest / 1000000000);
  struct tm local;
  if (localtime_r(&seconds, &local) != NULL) (void)strftime(feed->newest, sizeof feed->newest, "%H:%M:%S", &local);
}

void bt_view_set_feed(bt_view *view, const bt_feeder *feeder, const bt_view_options *options) {
  view->trace = bt_run_trace(feeder->run);
  view->lods = &feeder->lods;
  bt_feed *feed = &view->feed;
  bt_run_name(options->paths[0], feed->name, sizeof feed->name);
  feed->loading = feeder->loading;
  feed->indexing = feeder->indexing;
  feed->gone = feeder->gone && !options->replay;
  feed->live = !feeder->ended && !feeder->failed && !feeder->gone && !options->replay;
  feed->problems = feeder->problems;
  memcpy(feed->problem, feeder->problem, sizeof feed->problem);
  feed->unaligned = feeder->unaligned;
  feed->verdict = feeder->verdict;
  feed->account = feeder->account;
  feed->gaps = feeder->gaps;
  feed->gaps_refused = feeder->gaps_refused;
  feed->now = INT64_MIN;
  if (feed->live || feed->gone) note_age(feed, view->trace);
}

bt_theme bt_view_theme(const bt_view_options *options) {
  const char *codeset = nl_langinfo(CODESET), *background = getenv("COLORFGBG");
  bt_theme theme = {.level = BT_LEVEL_256, .light = options->light};
  theme.utf8 = options->utf8 || (!options->ascii && strcmp(codeset, "UTF-8") == 0);
  const char *last = background == NULL ? NULL : strrchr(background, ';');
  if (!options->dark && last != NULL && (strcmp(last, ";15") == 0 || strcmp(last, ";7") == 0)) theme.light = true;
  return theme;
}

typedef struct viewer {
  const bt_view_options *options;
  bt_feeder feeder;
  bt_terminal *terminal;
  bt_view view;
  bt_grid grid;
  int signals; /* a signalfd */
  bool lost, quit;
  bool asked; /* the terminal, for its background, and has not answered */
  uint64_t written; /* to the terminal, before the last frame */
} viewer;

static void suspend(viewer *v) {
  bt_terminal_suspend(v->terminal);
  v->view.suspend = false;
}

/* What signals have come. */
static void take_signals(viewer *v) {
  struct signalfd_siginfo info;
  while (read(v->signals, &info, sizeof info) == (ssize_t)sizeof info) {
    switch (info.ssi_signo) {
    case SIGWINCH: bt_terminal_resized(v->terminal); break;
    case SIGTSTP: v->view.suspend = true; break;
    case SIGCONT: bt_terminal_redraw(v->terminal); break;
    case SIGHUP: v->lost = true; break;
    default: v->quit = true;
    }
  }
}

static bt_status draw(viewer *v) {
  int rows, columns;
  bt_terminal_size(v->terminal, &rows, &columns);
  pthread_mutex_lock(&v->feeder.mutex);
  bool done;
  bt_status status = bt_lod_set_update(&v->feeder.lods, bt_run_trace(v->feeder.run), 20000, &done);
  bt_view_set_feed(&v->view, &v->feeder, v->options);
  if (status == BT_OK) status = bt_screen_draw(&v->view, &v->grid, rows, columns);
  bt_feeder_listen(&v->feeder, &v->view);
  pthread_mutex_unlock(&v->feeder.mutex);
  if (status == BT_OK) status = bt_terminal_draw(v->terminal, &v->grid, &v->view.theme);
  return status;
}

/* The terminal has said whether its background is light. */
static bool take_background(viewer *v) {
  bool light;
  if (!v->asked || !bt_terminal_background(v->terminal, &light)) return false;
  v->asked = false;
  if (light == v->view.theme.light) return false;
  v->view.theme.light = light;
  bt_terminal_redraw(v->terminal);
  return true;
}

static bool take_keys(viewer *v) {
  bool any = false;
  for (bt_key key; (key = bt_terminal_key(v->terminal)) != BT_KEY_NONE; any = true) {
    pthread_mutex_lock(&v->feeder.mutex);
    bt_view_set_feed(&v->view, &v->feeder, v->options);
    bt_mouse mouse;
    bool moused = v->view.mouse;
    if (key == BT_KEY_MOUSE) {
      if (bt_terminal_mouse_event(v->terminal, &mouse)) bt_screen_mouse(&v->view, &mouse);
    } else if (key != BT_KEY_RESIZE) {
      bt_screen_key(&v->view, key);
    }
    bt_view_save(&v->view, &v->grid);
    pthread_mutex_unlock(&v->feeder.mutex);
    if (v->view.quit) break;
    if (moused != v->view.mouse) bt_terminal_mouse(v->terminal, v->view.mouse);
    if (v->view.redraw) bt_terminal_redraw(v->terminal);
    v->view.redraw = false;
  }
  return take_background(v) || any;
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
  while (!v->quit && !v->lost && !v->view.quit) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (dirty && now - last_frame >= frame && now >= paid && !bt_terminal_behind(v->terminal)) {
      if (draw(v) == BT_ERR_IO) v->lost = true;
      paid = now + cost_of_frame(v);
      last_frame = now;
      dirty = false;
    }
    /* a waiting frame, the replay's clock, the age of the newest record; otherwise only what wakes us */
    int timeout = dirty                                  ? (int)(frame / 1000000) + 1
                  : v->view.replaying && !v->view.paused ? (int)(frame / 1000000)
                  : v->view.feed.live                    ? 500
                                                         : -1;
    struct pollfd waits[] = {{tty, POLLIN, 0}, {v->signals, POLLIN, 0}, {v->feeder.wake[0], POLLIN, 0}};
    int ready = poll(waits, 3, timeout);
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
    if (ready > 0 && waits[2].revents != 0) {
      char bytes[256];
      while (read(v->feeder.wake[0], bytes, sizeof bytes) > 0) {
      }
      dirty = true;
    }
    if (ready == 0 && v->view.feed.live) dirty = true;
    now = clock_ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&v->feeder.mutex);
    v->view.trace = bt_run_trace(v->feeder.run);
    if (bt_view_tick(&v->view, now - last_tick)) dirty = true;
    pthread_mutex_unlock(&v->feeder.mutex);
    last_tick = now;
    if (v->view.suspend) {
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

int bt_view_interactive(const bt_view_options *options) {
  viewer v = {.options = options};
  bt_error error = {BT_OK, ""};
  FILE *keys = open_keys();
  if (keys == NULL) return bt_usage_error("view", "there is no terminal to read keys from");
  bt_status status = bt_feeder_open(&v.feeder, options, !options->replay, &error);
  if (status != BT_OK) return bt_open_run_failed("view", &error);
  v.signals = catch_signals();
  if (v.signals < 0) {
    fprintf(stderr, "bubbletop view: signalfd: %s\n", strerror(errno));
    return BT_EXIT_NOTHING;
  }
  bt_theme theme = bt_view_theme(options);
  const char *no_color = getenv("NO_COLOR");
  v.asked = !options->light && !options->dark && getenv("COLORFGBG") == NULL;
  bt_terminal_options terminal = {
      .out = stdout, .in = keys, .no_color = no_color != NULL && no_color[0] != 0, .ask_background = v.asked};
  status = bt_terminal_open(&terminal, &v.terminal, &theme.level, &error);
  if (status != BT_OK) {
    bt_feeder_close(&v.feeder);
    return bt_usage_error("view", "%s", error.text);
  }
  bt_view_init(&v.view, &theme);
  v.view.replaying = options->replay;
  v.view.speed = options->speed;
  status = bt_feeder_start(&v.feeder, &error);
  int exit_status = status == BT_OK ? loop(&v, fileno(keys)) : BT_EXIT_NOTHING;
  bt_terminal_close(v.terminal, v.lost);
  pthread_mutex_lock(&v.feeder.mutex);
  bool failed = v.feeder.failed;
  if (failed)
    error = v.feeder.error;
  else if (v.feeder.problems > 0)
    exit_status = BT_EXIT_PARTIAL;
  pthread_mutex_unlock(&v.feeder.mutex);
  bt_feeder_close(&v.feeder);
  close(v.signals);
  bt_view_free(&v.view);
  bt_grid_free(&v.grid);
  if (failed || status != BT_OK) return bt_open_run_failed("view", &error);
  return v.lost ? BT_EXIT_OK : exit_status;
}
