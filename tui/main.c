/* bubbletop: dispatches to a command; a first argument that is no command is a run to view. */
#include "config.h"

#include <locale.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "tui/commands/command.h"

static int asks_for_help(const char *argument) {
  return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

int main(int argc, char **argv) {
  /* Large arrays are mappings of their own, always: they grow by moving pages instead of copying bytes. */
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  setlocale(LC_CTYPE, ""); /* characters as the terminal has them; numbers stay in the C locale */
  if (argc < 2 || asks_for_help(argv[1])) {
    bt_help_print(argc < 2 ? stderr : stdout, NULL);
    return argc < 2 ? BT_EXIT_USAGE : BT_EXIT_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    puts(PACKAGE_STRING);
    return BT_EXIT_OK;
  }
  const bt_command *command = bt_command_find(argv[1]);
  if (command != NULL && argc == 3 && asks_for_help(argv[2])) {
    bt_help_print(stdout, command);
    return BT_EXIT_OK;
  }
  if (command != NULL) return command->run(argc - 1, argv + 1);
  const bt_command *view = bt_command_find("view");
  if (view != NULL) return view->run(argc, argv);
  return bt_usage_error("help", "no command '%s'", argv[1]);
}
