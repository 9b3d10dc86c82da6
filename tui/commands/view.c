/* bubbletop view: the Gantt of a run, live, afterwards or replayed; or one screen of it as text. */
#include "tui/commands/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tui/commands/command.h"
#include "tui/commands/open_run.h"
#include "tui/commands/plan_request.h"
#include "tui/screen/screen.h"

const bt_option bt_view_options_table[] = {
    {"--replay", "[=SPEED]", "play the run again, SPEED times as fast as it was"},
    {"--with", "RUN|FILE", "a second run below the first; two RUN directories do the same"},
    {"--plan", "NAME|FILE.csv", "under every row where that schedule has its ops (P: on and off)"},
    {"--script", "KEYS", "type these keys, as names separated by blanks; needs --save-screen"},
    {"--save-screen", "FILE", "write the screen as text and quit ('-': standard output)"},
    {"--attributes", NULL, "with --save-screen: a letter for each cell's colour too"},
    {"--size", "COLSxROWS", "size of a saved screen, 80x24 unless given"},
    {"--utf8", NULL, "draw with UTF-8 whatever the locale says"},
    {"--ascii", NULL, "draw with letters only"},
    {"--light", NULL, "colours for a light background, whatever the terminal says"},
    {"--dark", NULL, "colours for a dark background"},
    {"--fps", "N", "frames a second at most, 10 unless given"},
    {"--max-bytes-per-second", "N", "for a slow line: fewer frames, so that about N bytes a second are sent"},
    {NULL, NULL, NULL},
};

/* The value of `--name=VALUE` or `--name VALUE`; NULL: this argument is something else. */
static const char *value_of(const char *name, int argc, char **argv, int *at) {
  size_t length = strlen(name);
  if (strncmp(argv[*at], name, length) != 0) return NULL;
  if (argv[*at][length] == '=') return argv[*at] + length + 1;
  if (argv[*at][length] != 0 || *at + 1 >= argc) return NULL;
  return argv[++*at];
}

static bool parse_size(const char *text, int *columns, int *rows) {
  char rest;
  return sscanf(text, "%dx%d%c", columns, rows, &rest) == 2 && *columns >= 1 && *columns <= 1000 && *rows >= 1 &&
         *rows <= 1000;
}

static int parse(int argc, char **argv, bt_view_options *options, bt_plan_request *plan, const char **paths) {
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i], *value;
    if (strcmp(argument, "--replay") == 0) {
      options->replay = true;
    } else if (strncmp(argument, "--replay=", 9) == 0) {
      char *end;
      options->replay = true;
      options->speed = strtod(argument + 9, &end);
      if (*end != 0 || !(options->speed >= 1e-6 && options->speed <= 1e6)) {
        return bt_usage_error("view", "--replay=%s: not a speed", argument + 9);
      }
    } else if (strcmp(argument, "--utf8") == 0) {
      options->utf8 = true;
    } else if (strcmp(argument, "--ascii") == 0) {
      options->ascii = true;
    } else if (strcmp(argument, "--light") == 0) {
      options->light = true;
    } else if (strcmp(argument, "--dark") == 0) {
      options->dark = true;
    } else if (strcmp(argument, "--attributes") == 0) {
      options->attributes = true;
    } else if ((value = value_of("--with", argc, argv, &i)) != NULL) {
      if (options->second != NULL) return bt_usage_error("view", "--with: the view shows two runs and no more");
      options->second = value;
    } else if ((value = value_of("--plan", argc, argv, &i)) != NULL) {
      int status = bt_plan_request_parse("view", value, plan);
      if (status != BT_EXIT_OK) return status;
      options->plan = &plan->source;
    } else if ((value = value_of("--script", argc, argv, &i)) != NULL) {
      options->script = value;
    } else if ((value = value_of("--save-screen", argc, argv, &i)) != NULL) {
      options->save_screen = value;
    } else if ((value = value_of("--size", argc, argv, &i)) != NULL) {
      if (!parse_size(value, &options->columns, &options->rows)) {
        return bt_usage_error("view", "--size %s: not like 120x36", value);
      }
    } else if ((value = value_of("--fps", argc, argv, &i)) != NULL) {
      options->fps = atoi(value);
      if (options->fps < 1 || options->fps > 60) return bt_usage_error("view", "--fps %s: not from 1 to 60", value);
    } else if ((value = value_of("--max-bytes-per-second", argc, argv, &i)) != NULL) {
      options->bytes_per_second = atol(value);
      if (options->bytes_per_second < 100 || options->bytes_per_second > 1000000000) {
        return bt_usage_error("view", "--max-bytes-per-second %s: not from 100 to 1000000000", value);
      }
    } else if (argument[0] == '-' && argument[1] != 0) {
      return bt_usage_error("view", "no option '%s', or its value is missing", argument);
    } else {
      paths[options->path_count++] = argument;
    }
  }
  options->paths = paths;
  return BT_EXIT_OK;
}

/* What the feeders' threads do for the screen. */
static void answer(bt_viewed_runs *all, const bt_view_options *options) {
  for (size_t i = 0; i < all->count; i++) {
    bt_viewed *run = &all->runs[i];
    bt_feeder_listen(&run->feeder, &run->view);
    bt_feeder_account(&run->feeder);
    bt_feeder_find_gaps(&run->feeder);
    bt_feeder_lay_plan(&run->feeder);
  }
  bt_viewed_feed(all, options);
}

static int type_keys(bt_viewed_runs *all, bt_grid *grid, const bt_view_options *options) {
  bt_view *view = &all->runs[0].view;
  const char *at = options->script != NULL ? options->script : "";
  for (;;) {
    if (bt_screen_draw(view, grid, options->rows, options->columns) != BT_OK) return BT_EXIT_NOTHING;
    answer(all, options);
    at += strspn(at, " ");
    if (*at == 0 || view->quit) break;
    size_t length = strcspn(at, " ");
    bt_key key = bt_key_from_name(at, length);
    if (key == BT_KEY_NONE) return bt_usage_error("view", "--script: no key '%.*s'", (int)length, at);
    bt_screen_key(view, key);
    bt_view_save(view, grid);
    at += length;
  }
  return bt_screen_draw(view, grid, options->rows, options->columns) == BT_OK ? BT_EXIT_OK : BT_EXIT_NOTHING;
}

static int save(const bt_grid *grid, const bt_theme *theme, const bt_view_options *options) {
  bool standard = strcmp(options->save_screen, "-") == 0;
  FILE *out = standard ? stdout : fopen(options->save_screen, "w");
  bool good = out != NULL && bt_grid_save(grid, theme, options->attributes, out) == BT_OK;
  good = out != NULL && (standard ? fflush(out) : fclose(out)) == 0 && good;
  if (good) return BT_EXIT_OK;
  fprintf(stderr, "bubbletop view: %s: %s\n", options->save_screen, strerror(errno));
  return BT_EXIT_NOTHING;
}

static bt_status read_all(bt_viewed_runs *all, const bt_view_options *options, bt_error *error) {
  bt_status status = bt_viewed_open(all, options, false, error);
  for (size_t i = 0; i < all->count && status == BT_OK; i++)
    status = bt_feeder_read_all(&all->runs[i].feeder, error);
  return status;
}

static int save_screen(const bt_view_options *options) {
  bt_viewed_runs all;
  bt_error error = {BT_OK, ""};
  bt_theme theme = bt_view_theme(options);
  bt_status status = read_all(&all, options, &error);
  if (status == BT_OK) status = bt_viewed_start(&all, options, &theme);
  if (status != BT_OK) {
    bt_viewed_close(&all);
    return bt_open_run_failed("view", &error);
  }
  bt_grid grid = {0};
  bt_viewed_feed(&all, options);
  if (bt_screen_draw(&all.runs[0].view, &grid, options->rows, options->columns) == BT_OK) answer(&all, options);
  int exit_status = type_keys(&all, &grid, options);
  if (exit_status == BT_EXIT_OK) exit_status = save(&grid, &theme, options);
  for (size_t i = 0; i < all.count; i++) {
    if (exit_status == BT_EXIT_OK && all.runs[i].feeder.problems > 0) exit_status = BT_EXIT_PARTIAL;
  }
  bt_grid_free(&grid);
  bt_viewed_close(&all);
  return exit_status;
}

/* One run, or two: RUN directories are a run each, files are one run together. */
static int tell_runs_apart(bt_view_options *options, const char **paths) {
  size_t directories = 0, last = 0;
  for (size_t i = 0; i < options->path_count; i++) {
    struct stat what;
    if (stat(paths[i], &what) != 0) {
      fprintf(stderr, "bubbletop: %s: %s, and it is no command either (bubbletop help)\n", paths[i], strerror(errno));
      return BT_EXIT_NOTHING;
    }
    if (!S_ISDIR(what.st_mode)) continue;
    directories++;
    last = i;
  }
  size_t runs = directories + (options->second != NULL);
  if (directories > 0 && directories < options->path_count && options->path_count > 1 && runs > 1)
    return bt_usage_error("view", "a RUN directory and files of another run: --with RUN|FILE names the second run");
  if (runs > 2) return bt_usage_error("view", "%zu runs: the view shows two, one above the other, and no more", runs);
  if (directories == 2) {
    options->second = paths[last];
    options->path_count = 1;
  }
  if (options->second != NULL && options->replay)
    return bt_usage_error("view", "--replay plays one run, and here are two");
  return BT_EXIT_OK;
}

int bt_command_view(int argc, char **argv) {
  bt_view_options options = {.speed = 1, .rows = 24, .columns = 80, .fps = 10};
  const char **paths = calloc((size_t)argc + 1, sizeof *paths);
  if (paths == NULL) return BT_EXIT_NOTHING;
  bt_plan_request plan = {.argument = NULL};
  int status = parse(argc, argv, &options, &plan, paths);
  if (status == BT_EXIT_OK && options.path_count == 0) status = bt_usage_error("view", "which run?");
  if (status == BT_EXIT_OK) status = tell_runs_apart(&options, paths);
  if (status == BT_EXIT_OK && options.script != NULL && options.save_screen == NULL) {
    status = bt_usage_error("view", "--script needs --save-screen FILE");
  }
  if (status == BT_EXIT_OK && options.save_screen != NULL) {
    status = save_screen(&options);
  } else if (status == BT_EXIT_OK && !isatty(STDOUT_FILENO)) {
    status = bt_usage_error("view", "standard output is not a terminal: use `bubbletop report %s`", paths[0]);
  } else if (status == BT_EXIT_OK) {
    status = bt_view_interactive(&options);
  }
  bt_plan_request_free(&plan);
  free(paths);
  return status;
}
