/* `report --plan`: what was asked for, and its section of the report. */
#ifndef BT_COMMANDS_REPORT_PLAN_H
#define BT_COMMANDS_REPORT_PLAN_H

#include "tui/analysis/plan.h"
#include "tui/commands/report.h"

typedef struct bt_plan_request {
  const char *argument; /* borrowed; NULL: no plan is asked for */
  bt_plan_source source;
  bt_schedule_csv *csv; /* owned: bt_plan_request_free */
} bt_plan_request;

/* A schedule's name, or else a CSV file. Returns an exit status; what is wrong is printed to stderr. */
int bt_plan_request_parse(const char *argument, bt_plan_request *request);
void bt_plan_request_free(bt_plan_request *request);

void bt_report_plan_text(const bt_report *report, const bt_report_look *look, FILE *out);
void bt_report_plan_document(const bt_report *report, bt_json *json); /* the member "plan" */

#endif
