/* Inside `bubbletop compare`: two runs side by side, and the two forms of it. */
#ifndef BT_COMMANDS_COMPARE_H
#define BT_COMMANDS_COMPARE_H

#include "tui/analysis/compare.h"
#include "tui/commands/report.h"

typedef struct bt_compare_side {
  const char *path; /* borrowed */
  bt_run *run;
  bt_clocks *clocks;
  bt_accounting *accounting;
} bt_compare_side;

typedef struct bt_compare_page {
  const bt_comparison *comparison;
  const bt_compare_side *sides; /* A, B */
} bt_compare_page;

/* One screen at 80 columns. */
void bt_compare_text(const bt_compare_page *page, const bt_report_look *look, FILE *out);

/* NULL: no memory. The caller frees it. */
bt_json *bt_compare_document(const bt_compare_page *page);

/* The name of the run's schedule, as recognised from its order of ops; NULL: unknown. */
const char *bt_compare_schedule(const bt_compare_side *side);

#endif
