/* bubbletop recover: saves what dead writers left in their rings. */
#include "formats/recover.h"

#include <string.h>

#include "tui/commands/command.h"

const bt_option bt_recover_options[] = {{NULL, NULL, NULL}};

static void tell(const bt_recover_report *report, const char *run) {
  if (report->recovered > 0) {
    printf("saved %llu records of %zu dead writer%s; the last file is %s\n", (unsigned long long)report->records,
           report->recovered, report->recovered == 1 ? "" : "s", report->last_file);
  } else {
    printf("nothing to recover%s%s on this host\n", run != NULL ? " for " : "", run != NULL ? run : "");
  }
  if (report->alive > 0) printf("%zu writer%s alive\n", report->alive, report->alive == 1 ? " is" : "s are");
  if (report->clean > 0) printf("%zu ring%s held nothing new\n", report->clean, report->clean == 1 ? "" : "s");
  if (report->failed > 0)
    printf("%zu could not be saved and %s kept\n", report->failed, report->failed == 1 ? "is" : "are");
}

int bt_command_recover(int argc, char **argv) {
  if (argc > 2) return bt_usage_error(argv[0], "one run at most");
  const char *run = argc == 2 ? argv[1] : NULL;
  if (run != NULL && run[0] == '-') return bt_usage_error(argv[0], "no option '%s'", run);
  bt_recover_report report;
  bt_error error = {BT_OK, ""};
  bt_status status = bt_recover(run, &report, &error);
  if (status < 0) fprintf(stderr, "bubbletop recover: %s\n", error.text);
  if (status < 0 && report.rings_found == 0) return BT_EXIT_NOTHING;
  tell(&report, run);
  return status < 0 ? BT_EXIT_PARTIAL : BT_EXIT_OK;
}
