/* The stages as comma-separated values: the same keys and figures as --json. */
#include <inttypes.h>
#include <math.h>

#include "tui/commands/report.h"

static void put_time(FILE *out, int64_t ns) {
  if (ns == BT_UNKNOWN) {
    fputc(',', out);
  } else {
    fprintf(out, ",%" PRId64, ns);
  }
}

static void put_number(FILE *out, double value) {
  if (isfinite(value)) {
    fprintf(out, ",%.15g", value);
  } else {
    fputc(',', out);
  }
}

void bt_report_csv(const bt_report *report, FILE *out) {
  fputs("stage,ranks,interval_ns,window_ns,step_ns,busy_ns", out);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    fprintf(out, ",%s", bt_class_key((bt_class)c));
  fputs(",inner_idle_ns,hidden_in_bubble_ns,p2p_ns,p2p_wait_ns,p2p_transfer_ns,p2p_bytes,peak_memory,bubble_rate\n",
        out);
  for (size_t i = 0; i < report->accounting->stage_count; i++) {
    const bt_account_stage *stage = &report->accounting->stages[i];
    fprintf(out, "%" PRId32 ",%" PRId32, stage->stage, stage->ranks);
    put_time(out, stage->interval_ns);
    put_time(out, stage->window_ns);
    put_time(out, stage->step_ns);
    put_time(out, stage->busy_ns);
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      put_time(out, stage->ns[c]);
    put_time(out, stage->inner_idle_ns);
    put_time(out, stage->hidden_in_bubble_ns);
    put_time(out, stage->p2p_ns);
    put_time(out, stage->p2p_wait_ns);
    put_time(out, stage->p2p_transfer_ns);
    put_time(out, stage->p2p_bytes);
    put_number(out, stage->peak_memory);
    put_number(out, stage->bubble_rate);
    fputc('\n', out);
  }
}
