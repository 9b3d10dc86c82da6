#include "tui/commands/command.h"

#include <string.h>

static const bt_option help_options[] = {
    {"--man", NULL, "commands and keys as a part of the manual page, in mdoc"},
    {"--completion", NULL, "completion for bash"},
    {NULL, NULL, NULL},
};

const bt_command bt_commands[] = {
    {"view", "RUN|FILE... [RUN] [--replay[=SPEED]]",
     "the Gantt of a run, live, afterwards or replayed; of two runs, on one scale", bt_view_options_table,
     bt_command_view},
    {"record", "-o RUN [OPTION...] -- COMMAND...", "run a training command and capture it", bt_record_option_table,
     bt_command_record},
    {"report", "RUN|FILE... [--json|--csv] [--steps A..B] [--plan P] [--fail-if CONDITION] [--watch]",
     "where the time went: bubble, messages, waits, of every stage", bt_report_options, bt_command_report},
    {"compare", "A B [--json]", "two runs: where a step's time changed, by class, stage and link", bt_compare_options,
     bt_command_compare},
    {"simulate", "--schedule NAME --stages P --microbatches M [OPTION...] -o RUN",
     "write the capture of a run that never was", bt_simulate_options, bt_command_simulate},
    {"export", "RUN|FILE... --format chrome|svg|csv|jsonl -o FILE [--steps A..B]",
     "a run for other programs (Perfetto, spreadsheets) or for a paper", bt_export_options, bt_command_export},
    {"info", "RUN|FILE... [--json]", "what a run is: ranks, files, writers, what is missing or damaged",
     bt_info_options, bt_command_info},
    {"recover", "[RUN]", "save what killed processes left in memory", bt_recover_options, bt_command_recover},
    {"help", "[COMMAND]", "show help on a command", help_options, bt_command_help},
    {NULL, NULL, NULL, NULL, NULL},
};

const bt_command *bt_command_find(const char *name) {
  for (const bt_command *command = bt_commands; command->name != NULL; command++) {
    if (strcmp(command->name, name) == 0) return command;
  }
  return NULL;
}
