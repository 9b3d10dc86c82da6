/* `--plan NAME|FILE.csv` of report and view: what was asked for. */
#ifndef BT_COMMANDS_PLAN_REQUEST_H
#define BT_COMMANDS_PLAN_REQUEST_H

#include "tui/analysis/plan.h"

typedef struct bt_plan_request {
  const char *argument; /* borrowed; NULL: no plan is asked for */
  bt_plan_source source;
  bt_schedule_csv *csv; /* owned: bt_plan_request_free */
} bt_plan_request;

/* A schedule's name, or else a CSV file. Returns an exit status; what is wrong is printed to stderr for that command. */
int bt_plan_request_parse(const char *command, const char *argument, bt_plan_request *request);
void bt_plan_request_free(bt_plan_request *request);

#endif
