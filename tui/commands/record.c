/* bubbletop record: runs a training command so that its processes write streams, and says what came of it. */
#include "tui/commands/record.h"

#include <stdio.h>
#include <string.h>

#include "tui/commands/command.h"

enum { CANNOT_START = 125 }; /* record itself failed, as env(1), timeout(1) and others say it */

const bt_option bt_record_option_table[] = {
    {"-o", "RUN", "the directory to write to; made if its parent exists, must not hold a capture"},
    {"--steps", "A..B[,C..D]", "record these steps only"},
    {"--every", "N", "of those each N-th"},
    {"--ring-dir", "DIR", "where rings live until they are written (default /dev/shm; tmpfs only)"},
    {"--run-id", "ID", "the name of the run; the records of one run on several nodes give the same"},
    {"--no-python", NULL, "do not attach to Python frameworks"},
    {"--no-nvtx", NULL, "do not listen to NVTX ranges"},
    {"--no-nccl", NULL, "do not load the NCCL profiler plugin"},
    {NULL, NULL, NULL},
};

static bool is_count(const char *text) {
  return text[0] != '\0' && strspn(text, "0123456789") == strlen(text) && strlen(text) < 10 &&
         strspn(text, "0") != strlen(text);
}

/* "A..B[,C..D]", as the library reads it; a text that it refuses would leave every rank without a stream. */
static bool are_steps(const char *text) {
  for (;;) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18) return false;
    text += digits;
    if (strncmp(text, "..", 2) == 0) {
      digits = strspn(text + 2, "0123456789");
      if (digits == 0 || digits > 18) return false;
      text += 2 + digits;
    }
    if (*text == '\0') return true;
    if (*text++ != ',') return false;
  }
}

/* Takes argv apart. 0, or the exit status of a usage error that was printed. */
static int parse(int argc, char **argv, bt_record_options *options) {
  const struct {
    const char *name;
    const char **value;
  } valued[] = {{"-o", &options->run},
                {"--steps", &options->steps},
                {"--every", &options->every},
                {"--ring-dir", &options->ring_directory},
                {"--run-id", &options->run_id}};
  const struct {
    const char *name;
    bool *value;
  } switches[] = {
      {"--no-python", &options->no_python}, {"--no-nvtx", &options->no_nvtx}, {"--no-nccl", &options->no_nccl}};
  int at = 1;
  for (; at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++) {
    bool known = false;
    for (size_t i = 0; !known && i < sizeof switches / sizeof *switches; i++) {
      known = strcmp(argv[at], switches[i].name) == 0;
      if (known) *switches[i].value = true;
    }
    for (size_t i = 0; !known && i < sizeof valued / sizeof *valued; i++) {
      size_t length = strlen(valued[i].name);
      known = strncmp(argv[at], valued[i].name, length) == 0 &&
              (argv[at][length] == '\0' || (argv[at][length] == '=' && length > 2));
      if (!known) continue;
      *valued[i].value = argv[at][length] == '=' ? argv[at] + length + 1 : argv[at + 1];
      if (argv[at][length] == '\0') at++;
      if (at == argc || (*valued[i].value)[0] == '\0')
        return bt_usage_error(argv[0], "%s needs a value", valued[i].name);
    }
    if (!known) return bt_usage_error(argv[0], "no option '%s'", argv[at]);
  }
  if (at < argc && strcmp(argv[at], "--") == 0) at++;
  options->command = argv + at;
  return 0;
}

static int check(const char *name, const bt_record_options *options) {
  if (options->run == NULL) return bt_usage_error(name, "-o RUN says where to write");
  if (options->command[0] == NULL) return bt_usage_error(name, "no command to run: record -o RUN -- COMMAND...");
  if (options->steps != NULL && !are_steps(options->steps))
    return bt_usage_error(name, "--steps %s: expected A..B[,C..D]", options->steps);
  if (options->every != NULL && !is_count(options->every))
    return bt_usage_error(name, "--every %s: expected a number from 1", options->every);
  return 0;
}

static int cannot_start(const bt_error *error) {
  fprintf(stderr, "bubbletop record: %s\n", error->text);
  return CANNOT_START;
}

int bt_command_record(int argc, char **argv) {
  bt_record_options options = {.run = NULL};
  bt_record_run run;
  bt_record_sources sources;
  bt_error error = {BT_OK, ""};
  int status = parse(argc, argv, &options);
  if (status == 0) status = check(argv[0], &options);
  if (status != 0) return status;
  if (bt_record_take(&options, &run, &error) < 0) return cannot_start(&error);
  if (bt_record_environment(&options, &run, &sources, &error) < 0) {
    bt_record_release(&run);
    return cannot_start(&error);
  }
  bool started = bt_record_command(options.command, &status, &error) == BT_OK;
  if (!started) {
    fprintf(stderr, "bubbletop record: %s\n", error.text);
  } else {
    bt_recover_report drained;
    bt_record_drain(run.directory, &drained);
    bt_record_summary(&options, &run, &sources, &drained);
  }
  bt_record_release(&run);
  return status;
}
