/* bubbletop compare: two runs, and where the time between them is. */
#include "tui/commands/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/command.h"
#include "tui/commands/open_run.h"

const bt_option bt_compare_options[] = {
    {"--json", NULL, "one JSON object"},
    {NULL, NULL, NULL},
};

const char *bt_compare_schedule(const bt_compare_side *side) {
  const bt_recognition *schedule = &side->accounting->schedule;
  return schedule->family != NULL ? schedule->family->name : NULL;
}

/* Opens and accounts for one of the runs. */
static int open_side(const char *path, bt_compare_side *side) {
  bt_account_clock clock;
  bt_error error = {BT_OK, ""};
  side->path = path;
  int status = bt_open_run("compare", &path, 1, &side->run);
  if (side->run == NULL) return status;
  bt_trace *trace = bt_run_trace(side->run);
  side->clocks = bt_report_align(trace, &clock, &error);
  bt_accounting_options options = {.clock = &clock};
  if (side->clocks == NULL || bt_accounting_run(trace, &options, &side->accounting, &error) != BT_OK) {
    fprintf(stderr, "bubbletop compare: %s: %s\n", path, error.text);
    return BT_EXIT_NOTHING;
  }
  return status;
}

static void close_side(bt_compare_side *side) {
  bt_accounting_free(side->accounting);
  bt_clocks_free(side->clocks);
  bt_run_close(side->run);
}

static int print(const bt_compare_page *page, bool json) {
  if (json) {
    bt_json *document = bt_compare_document(page);
    if (document == NULL) {
      fputs("bubbletop compare: out of memory\n", stderr);
      return BT_EXIT_NOTHING;
    }
    bt_json_write(document, stdout, true);
    bt_json_free(document);
  } else {
    bt_report_look look = bt_report_look_of(stdout);
    bt_compare_text(page, &look, stdout);
  }
  if (fflush(stdout) == 0) return BT_EXIT_OK;
  fprintf(stderr, "bubbletop compare: cannot write: %s\n", strerror(errno));
  return BT_EXIT_NOTHING;
}

static int compare(const char *const *paths, bool json) {
  bt_compare_side sides[2] = {{.path = NULL}, {.path = NULL}};
  int status = open_side(paths[0], &sides[0]);
  if (status <= BT_EXIT_PARTIAL) {
    int second = open_side(paths[1], &sides[1]);
    if (second > status) status = second;
  }
  if (status <= BT_EXIT_PARTIAL) {
    bt_comparison *comparison = NULL;
    bt_error error = {BT_OK, ""};
    int printed = BT_EXIT_NOTHING;
    if (bt_compare(sides[0].accounting, sides[1].accounting, &comparison, &error) == BT_OK) {
      printed = print(&(bt_compare_page){comparison, sides}, json);
    } else {
      fprintf(stderr, "bubbletop compare: %s\n", error.text);
    }
    if (printed != BT_EXIT_OK) status = printed;
    bt_comparison_free(comparison);
  }
  close_side(&sides[0]);
  close_side(&sides[1]);
  return status;
}

int bt_command_compare(int argc, char **argv) {
  const char *paths[2];
  int count = 0;
  bool json = false;
  bool options = true;
  for (int i = 1; i < argc; i++) {
    if (options && strcmp(argv[i], "--") == 0) {
      options = false;
    } else if (options && strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (options && argv[i][0] == '-') {
      return bt_usage_error("compare", "no option '%s'", argv[i]);
    } else if (count == 2) {
      return bt_usage_error("compare", "two runs, not more");
    } else {
      paths[count++] = argv[i];
    }
  }
  if (count < 2) return bt_usage_error("compare", count == 0 ? "which runs?" : "with which other run?");
  return compare(paths, json);
}
