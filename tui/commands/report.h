/* Inside `bubbletop report`: one account of a run, and its three forms. */
#ifndef BT_COMMANDS_REPORT_H
#define BT_COMMANDS_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/run.h"
#include "tui/analysis/accounting.h"
#include "tui/analysis/clocks.h"
#include "tui/analysis/plan.h"
#include "tui/commands/json.h"

/* What is reported; everything is borrowed. */
typedef struct bt_report {
  const bt_accounting *accounting;
  const bt_trace *trace;
  const bt_clocks *clocks;
  const bt_problem *problems; /* of reading */
  size_t problem_count;
  const bt_plan_overlay *plan; /* NULL: none was asked for */
  const char *plan_argument; /* as it was asked for */
} bt_report;

/* Brings the clocks of all hosts onto one, as far as their messages allow, and says how far. The caller frees the result
 * (bt_clocks_free); NULL: `error` says why. */
bt_clocks *bt_report_align(bt_trace *trace, bt_account_clock *clock, bt_error *error);

/* The object that --json prints and --fail-if looks into. NULL: no memory. The caller frees it. */
bt_json *bt_report_document(const bt_report *report);

/* One screen at 80 columns. */
typedef struct bt_report_look {
  bool color, utf8;
  int width;
} bt_report_look;
bt_report_look bt_report_look_of(FILE *out); /* for where it goes: terminal, locale, NO_COLOR */
void bt_report_text(const bt_report *report, const bt_report_look *look, FILE *out);
void bt_report_verdict(const bt_report *report, const bt_report_look *look,
                       FILE *out); /* its sentences below the first */

/* One line a stage, with a head line. */
void bt_report_csv(const bt_report *report, FILE *out);

/* What the words of a report mean. */
void bt_report_glossary(FILE *out, int width);

/* "12.4 ms", into `text`, which it returns. */
const char *bt_report_time(char *text, size_t room, double ns);

/* Words of `text`, wrapped behind an indent (which the caller has printed); control characters cannot come out. */
void bt_report_wrapped(FILE *out, const char *text, int indent, int width);

/* A --fail-if condition: "rate_window>0.25", "stages[].bubble_rate >= 30%", "links[0].wait_ns>2ms". */
typedef struct bt_condition {
  char path[128];
  char comparison[3]; /* ">", ">=", "<", "<=", "==", "!=" */
  double bound;
} bt_condition;

bool bt_condition_parse(const char *text, bt_condition *condition);

typedef enum bt_verdict { BT_VERDICT_FALSE, BT_VERDICT_TRUE, BT_VERDICT_UNKNOWN, BT_VERDICT_NO_KEY } bt_verdict;
/* UNKNOWN: a number is withheld and none of the others decides. Short names are looked for in "bubble" and "clock" too. */
bt_verdict bt_condition_judge(const bt_condition *condition, const bt_json *document);

#endif
