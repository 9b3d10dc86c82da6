#include "tui/commands/plan_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tui/commands/command.h"

enum { MOST_CSV_ERRORS = 8 };

static int unknown_name(const char *command, const char *name) {
  char names[512] = "";
  size_t used = 0;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL && used < sizeof names; family++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", family->name);
  return bt_usage_error(command, "--plan: '%s' is no file and no schedule; there are %s", name, names);
}

static int read_csv(const char *command, bt_plan_request *request) {
  bt_error error = {BT_OK, ""};
  if (bt_schedule_csv_read(request->argument, &request->csv, &error) != BT_OK) {
    fprintf(stderr, "bubbletop %s: --plan: %s\n", command, error.text);
    return BT_EXIT_NOTHING;
  }
  const bt_schedule_csv *csv = request->csv;
  for (size_t i = 0; i < csv->error_count && i < MOST_CSV_ERRORS; i++) {
    const bt_csv_error *wrong = &csv->errors[i];
    fprintf(stderr, "bubbletop %s: --plan: %s: row %" PRIu32 ", column %" PRIu32 ": %s\n", command, request->argument,
            wrong->row, wrong->column, wrong->text);
  }
  if (csv->error_count > MOST_CSV_ERRORS) {
    fprintf(stderr, "bubbletop %s: --plan: %s: and %zu more\n", command, request->argument,
            csv->error_count - MOST_CSV_ERRORS);
  }
  request->source.csv = csv;
  return csv->error_count > 0 ? BT_EXIT_NOTHING : BT_EXIT_OK;
}

int bt_plan_request_parse(const char *command, const char *argument, bt_plan_request *request) {
  bt_plan_request_free(request);
  request->argument = argument;
  size_t length = strlen(argument);
  bool file = strchr(argument, '/') != NULL || (length > 4 && strcmp(argument + length - 4, ".csv") == 0);
  const bt_schedule_family *family = file ? NULL : bt_schedule_find(argument);
  if (family == NULL)
    return file || access(argument, F_OK) == 0 ? read_csv(command, request) : unknown_name(command, argument);
  request->source.family = family;
  if (strpbrk(argument, "2") != NULL && family->timed) request->source.memory_in_p = 2; /* ZB-2p */
  return BT_EXIT_OK;
}

void bt_plan_request_free(bt_plan_request *request) {
  bt_schedule_csv_free(request->csv);
  *request = (bt_plan_request){.argument = NULL};
}
