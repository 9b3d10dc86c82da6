/* `report --plan`: its section of the report. */
#ifndef BT_COMMANDS_REPORT_PLAN_H
#define BT_COMMANDS_REPORT_PLAN_H

#include "tui/commands/plan_request.h"
#include "tui/commands/report.h"

void bt_report_plan_text(const bt_report *report, const bt_report_look *look, FILE *out);
void bt_report_plan_document(const bt_report *report, bt_json *json); /* the member "plan" */

#endif
