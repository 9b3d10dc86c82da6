#include "tui/commands/command.h"

#include <stdarg.h>
#include <string.h>

#include "tui/commands/manual.h"

static void print_overview(FILE *out) {
  fputs("bubbletop: top for pipeline bubbles\n\n"
        "usage: bubbletop RUN|FILE...             open the view; live while the run is being written\n"
        "       bubbletop COMMAND [ARGUMENT...]\n"
        "       bubbletop --version\n\n"
        "commands:\n",
        out);
  for (const bt_command *each = bt_commands; each->name != NULL; each++) {
    fprintf(out, "  %-9s %s\n", each->name, each->summary);
  }
  fputs("\n`bubbletop help COMMAND` lists its options.\n", out);
}

static int option_width(const bt_option *option) {
  return (int)(strlen(option->name) + 1 + (option->argument != NULL ? strlen(option->argument) : 0));
}

void bt_help_print(FILE *out, const bt_command *command) {
  if (command == NULL) {
    print_overview(out);
    return;
  }
  fprintf(out, "bubbletop %s: %s\n\nusage: bubbletop %s %s\n", command->name, command->summary, command->name,
          command->usage);
  int widest = 0;
  for (const bt_option *option = command->options; option->name != NULL; option++) {
    if (option_width(option) > widest) widest = option_width(option);
  }
  if (widest > 0) fputs("\noptions:\n", out);
  for (const bt_option *option = command->options; option->name != NULL; option++) {
    fprintf(out, "  %s %-*s  %s\n", option->name, widest - (int)strlen(option->name) - 1,
            option->argument != NULL ? option->argument : "", option->summary);
  }
}

int bt_usage_error(const char *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "bubbletop %s: ", command);
  vfprintf(stderr, format, args);
  fprintf(stderr, " (bubbletop help %s)\n", command);
  va_end(args);
  return BT_EXIT_USAGE;
}

int bt_command_help(int argc, char **argv) {
  if (argc < 2) {
    bt_help_print(stdout, NULL);
    return BT_EXIT_OK;
  }
  if (strcmp(argv[1], "--man") == 0 || strcmp(argv[1], "--completion") == 0) {
    if (strcmp(argv[1], "--man") == 0) {
      bt_manual_print(stdout);
    } else {
      bt_completion_print(stdout);
    }
    return BT_EXIT_OK;
  }
  const bt_command *command = bt_command_find(argv[1]);
  if (command == NULL) return bt_usage_error("help", "no command '%s'", argv[1]);
  bt_help_print(stdout, command);
  return BT_EXIT_OK;
}
