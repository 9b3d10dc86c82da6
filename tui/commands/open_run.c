#include "tui/commands/open_run.h"

#include <string.h>

#include "tui/commands/command.h"

int bt_open_run_failed(const char *command, const bt_error *error) {
  fprintf(stderr, "bubbletop %s: %s\n", command, error->text);
  return BT_EXIT_NOTHING;
}

int bt_open_run(const char *command, const char *const *paths, size_t count, bt_run **run) {
  const bt_run_options options = {.rings = true};
  bt_error error = {BT_OK, ""};
  bt_status status = bt_run_open(paths, count, &options, run, &error);
  while (status == BT_OK) {
    status = bt_run_poll(*run, 0, &error);
  }
  if (status < 0) {
    bt_run_close(*run);
    *run = NULL;
    return bt_open_run_failed(command, &error);
  }
  return bt_run_exit_status(*run);
}

int bt_run_exit_status(bt_run *run) {
  size_t count;
  (void)bt_run_problems(run, &count);
  return count > 0 ? BT_EXIT_PARTIAL : BT_EXIT_OK;
}

void bt_run_name(const char *path, char *out, size_t room) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  size_t start = length;
  while (start > 0 && path[start - 1] != '/')
    start--;
  (void)snprintf(out, room, "%.*s", (int)(length - start), path + start);
}

void bt_print_problems(FILE *out, const char *prefix, bt_run *run, size_t limit) {
  size_t count;
  const bt_problem *problems = bt_run_problems(run, &count);
  for (size_t i = 0; i < count && i < limit; i++) {
    fprintf(out, "%s%s\n", prefix, problems[i].text);
  }
  if (count > limit) fprintf(out, "%sand %zu more\n", prefix, count - limit);
}
