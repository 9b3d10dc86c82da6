#include "tui/commands/command.h"

#include <string.h>

static const bt_option no_options[] = {{NULL, NULL, NULL}};

const bt_command bt_commands[] = {
    {"help", "[COMMAND]", "show help on a command", no_options, bt_command_help},
    {NULL, NULL, NULL, NULL, NULL},
};

const bt_command *bt_command_find(const char *name) {
  for (const bt_command *command = bt_commands; command->name != NULL; command++) {
    if (strcmp(command->name, name) == 0) return command;
  }
  return NULL;
}
