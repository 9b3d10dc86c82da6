/* A command of the program. One table (table.c) drives dispatch, `--help`, the man page and shell completion. */
#ifndef BT_COMMANDS_COMMAND_H
#define BT_COMMANDS_COMMAND_H

#include <stdio.h>

/* Exit statuses: a contract with scripts. */
enum {
  BT_EXIT_OK = 0,
  BT_EXIT_PARTIAL = 1, /* read, with damage or gaps */
  BT_EXIT_USAGE = 2,
  BT_EXIT_NOTHING = 3, /* nothing readable */
  BT_EXIT_FAIL_IF = 4 /* a --fail-if condition holds */
};

typedef struct bt_option { /* one flag of a command, for help, man page and completion */
  const char *name; /* "--json" */
  const char *argument; /* "FILE", NULL: a switch */
  const char *summary;
} bt_option;

typedef struct bt_command {
  const char *name;
  const char *usage; /* arguments, as in "RUN [--json]" */
  const char *summary; /* one line */
  const bt_option *options; /* ends with a NULL name */
  int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
} bt_command;

/* All commands, in the order help shows them; ends with a NULL name. */
extern const bt_command bt_commands[];

const bt_command *bt_command_find(const char *name);

/* Prints the overview, or one command's help. */
void bt_help_print(FILE *out, const bt_command *command);

/* Prints "bubbletop COMMAND: message" and where help is, to stderr; returns BT_EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int bt_usage_error(const char *command, const char *format, ...);

int bt_command_help(int argc, char **argv);
int bt_command_info(int argc, char **argv);
extern const bt_option bt_info_options[];
int bt_command_recover(int argc, char **argv);
int bt_command_view(int argc, char **argv);
extern const bt_option bt_recover_options[];
int bt_command_record(int argc, char **argv);
extern const bt_option bt_record_option_table[];
int bt_command_export(int argc, char **argv);
extern const bt_option bt_export_options[];
int bt_command_report(int argc, char **argv);
extern const bt_option bt_report_options[];
int bt_command_compare(int argc, char **argv);
extern const bt_option bt_compare_options[];
int bt_command_simulate(int argc, char **argv);
extern const bt_option bt_simulate_options[];
extern const bt_option bt_view_options_table[];
/* A command is declared here and defined in tui/commands/NAME.c. */

#endif
