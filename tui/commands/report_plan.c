/* The plan's section of a report: in how far the run did what it was to do. */
#include "tui/commands/report_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/command.h"

enum { MOST_STAGES = 16, MOST_DEVIATIONS = 6 };

/* --- for a person ---------------------------------------------------------------------------------------------------- */

static const char *op_text(char *text, size_t room, const bt_plan_op *op, bool chunks) {
  if (op->kind == BT_FB) {
    (void)snprintf(text, room, "F %d + B %d", op->microbatch, op->microbatch_b);
  } else if (chunks) {
    (void)snprintf(text, room, "%s %d (v%d)", bt_code_name(op->kind), op->microbatch, op->vstage);
  } else {
    (void)snprintf(text, room, "%s %d", bt_code_name(op->kind), op->microbatch);
  }
  return text;
}

static void print_order(const bt_plan_overlay *plan, const bt_report *report, FILE *out) {
  fprintf(out, "\nplan %s: ", plan->name != NULL ? plan->name : report->plan_argument);
  if (plan->displaced + plan->missing + plan->extra == 0) {
    fprintf(out, "all %" PRId64 " ops ran in the planned order\n", plan->ops);
    return;
  }
  fprintf(out, "%" PRId64 " of %" PRId64 " ops ran in another order", plan->displaced, plan->ops);
  if (plan->missing > 0) fprintf(out, ", %" PRId64 " missing", plan->missing);
  if (plan->extra > 0) fprintf(out, ", %" PRId64 " not planned", plan->extra);
  fputc('\n', out);
}

static void print_lateness(const bt_plan_overlay *plan, int width, FILE *out) {
  char text[256] = "the steps took as long as planned";
  char time[32];
  char op[64];
  if (!plan->late_known) return;
  int64_t late = plan->late_ns / (int64_t)plan->timed_steps;
  if (late != 0) {
    double percent = 100 * fabs((double)plan->late_ns / (double)plan->planned_ns);
    (void)snprintf(text, sizeof text, "a step took %s (%.1f %%) %s than planned",
                   bt_report_time(time, sizeof time, fabs((double)late)), percent, late < 0 ? "less" : "longer");
  }
  if (plan->worst.rank >= 0) {
    size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "; latest %s, rank %d: %s",
                   op_text(op, sizeof op, &plan->worst.op, plan->chunks > 1), plan->worst.rank,
                   bt_report_time(time, sizeof time, (double)plan->worst.ns));
  }
  bt_report_wrapped(out, text, 0, width);
}

/* What a stage is listed by: how far it is from the plan. */
static int64_t departure(const bt_plan_stage *stage) {
  int64_t ops = stage->displaced + stage->missing + stage->extra;
  int64_t longer = stage->longer_ns == BT_UNKNOWN ? 0 : stage->longer_ns;
  return (ops > INT32_MAX ? INT32_MAX : ops) * 1000000000 + (longer < 0 ? -longer : longer) % 1000000000;
}

static int compare_departure(const void *a, const void *b) {
  const bt_plan_stage *x = *(const bt_plan_stage *const *)a;
  const bt_plan_stage *y = *(const bt_plan_stage *const *)b;
  int64_t p = departure(x);
  int64_t q = departure(y);
  if (p != q) return p < q ? 1 : -1;
  return (x->stage > y->stage) - (x->stage < y->stage);
}

static void print_stage(const bt_plan_overlay *plan, const bt_plan_stage *stage, FILE *out) {
  char longer[32] = "--";
  char percent[32] = "--";
  char late[32] = "--";
  int64_t times = (int64_t)plan->timed_steps * (stage->ranks > 0 ? stage->ranks : 1);
  if (stage->longer_ns != BT_UNKNOWN) {
    (void)bt_report_time(longer, sizeof longer, (double)stage->longer_ns / (double)times);
    (void)bt_report_time(late, sizeof late, (double)stage->late_ns / (double)times);
    if (stage->planned_ns > 0)
      (void)snprintf(percent, sizeof percent, "%+.1f %%", 100 * (double)stage->longer_ns / (double)stage->planned_ns);
  }
  fprintf(out, "%5d %10" PRId64 " %8" PRId64 " %11" PRId64 " %13s %9s %13s\n", stage->stage, stage->displaced,
          stage->missing, stage->extra, longer, percent, late);
}

static void print_stages(const bt_plan_overlay *plan, FILE *out) {
  const bt_plan_stage **sorted = malloc(((size_t)plan->stages + 1) * sizeof *sorted);
  if (sorted == NULL) return;
  for (int32_t s = 0; s < plan->stages; s++)
    sorted[s] = &plan->stage_list[s];
  if (plan->stages > MOST_STAGES) qsort(sorted, (size_t)plan->stages, sizeof *sorted, compare_departure);
  fputs("stage  displaced  missing not planned    ops longer             end later\n", out);
  for (int32_t s = 0; s < plan->stages && s < MOST_STAGES; s++)
    print_stage(plan, sorted[s], out);
  if (plan->stages > MOST_STAGES)
    fprintf(out, "the %d stages farthest from the plan of %d; --json has all\n", MOST_STAGES, plan->stages);
  free(sorted);
}

static void print_deviations(const bt_plan_overlay *plan, const bt_plan_deviation *list, size_t count, const char *what,
                             FILE *out) {
  for (size_t i = 0; i < count && i < MOST_DEVIATIONS; i++) {
    const bt_plan_deviation *one = &list[i];
    char op[64];
    fprintf(out, "%-11s rank %-5d %-11s", what, one->rank, op_text(op, sizeof op, &one->op, plan->chunks > 1));
    if (one->planned_place >= 0) fprintf(out, " planned at %d", one->planned_place);
    if (one->place >= 0) fprintf(out, "%s ran at %d", one->planned_place >= 0 ? "," : "", one->place);
    if (plan->step_count > 1) fprintf(out, ", %" PRId64 " of %zu steps", one->steps, plan->step_count);
    fputc('\n', out);
  }
  if (count > MOST_DEVIATIONS) fprintf(out, "%-11s and %zu more; --json has them\n", what, count - MOST_DEVIATIONS);
}

void bt_report_plan_text(const bt_report *report, const bt_report_look *look, FILE *out) {
  const bt_plan_overlay *plan = report->plan;
  if (look->color) fputs("\033[1m", out);
  print_order(plan, report, out);
  if (look->color) fputs("\033[0m", out);
  print_lateness(plan, look->width, out);
  print_stages(plan, out);
  print_deviations(plan, plan->displaced_list, plan->displaced_listed, "displaced", out);
  print_deviations(plan, plan->missing_list, plan->missing_listed, "missing", out);
  print_deviations(plan, plan->extra_list, plan->extra_listed, "not planned", out);
  for (size_t i = 0; i < plan->warning_count; i++) {
    fputs("! ", out);
    bt_report_wrapped(out, plan->warnings[i].text, 2, look->width);
  }
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static void time_or_null(bt_json *json, const char *key, int64_t ns) {
  if (ns == BT_UNKNOWN) {
    bt_json_null(json, key);
  } else {
    bt_json_integer(json, key, ns);
  }
}

static void count_or_null(bt_json *json, const char *key, int32_t count) {
  if (count < 0) {
    bt_json_null(json, key);
  } else {
    bt_json_integer(json, key, count);
  }
}

static void add_op(bt_json *json, int32_t rank, int32_t stage, const bt_plan_op *op) {
  bt_json_integer(json, "rank", rank);
  bt_json_integer(json, "stage", stage);
  bt_json_text(json, "kind", bt_code_name(op->kind));
  count_or_null(json, "vstage", op->vstage);
  count_or_null(json, "microbatch", op->microbatch);
  if (op->kind != BT_FB) return;
  count_or_null(json, "vstage_b", op->vstage_b);
  count_or_null(json, "microbatch_b", op->microbatch_b);
}

static void add_deviations(bt_json *json, const char *key, const bt_plan_deviation *list, size_t count) {
  bt_json_open_array(json, key);
  for (size_t i = 0; i < count; i++) {
    bt_json_open_object(json, NULL);
    add_op(json, list[i].rank, list[i].stage, &list[i].op);
    count_or_null(json, "planned_place", list[i].planned_place);
    count_or_null(json, "place", list[i].place);
    bt_json_integer(json, "step", list[i].step);
    bt_json_integer(json, "steps", list[i].steps);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_worst(bt_json *json, const bt_plan_late *worst) {
  if (worst->rank < 0) {
    bt_json_null(json, "worst");
    return;
  }
  bt_json_open_object(json, "worst");
  add_op(json, worst->rank, worst->stage, &worst->op);
  bt_json_integer(json, "by_ns", worst->ns);
  bt_json_close(json);
}

static void add_late(bt_json *json, const bt_plan_overlay *plan) {
  bt_json_open_object(json, "late");
  bt_json_integer(json, "steps", (int64_t)plan->timed_steps);
  time_or_null(json, "planned_ns", plan->planned_ns);
  time_or_null(json, "measured_ns", plan->measured_ns);
  time_or_null(json, "total_ns", plan->late_ns);
  add_worst(json, &plan->worst);
  bt_json_close(json);
}

static void add_stages(bt_json *json, const bt_plan_overlay *plan) {
  bt_json_open_array(json, "by_stage");
  for (int32_t s = 0; s < plan->stages; s++) {
    const bt_plan_stage *stage = &plan->stage_list[s];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "stage", stage->stage);
    bt_json_integer(json, "ranks", stage->ranks);
    bt_json_integer(json, "displaced_ops", stage->displaced);
    bt_json_integer(json, "missing_ops", stage->missing);
    bt_json_integer(json, "extra_ops", stage->extra);
    time_or_null(json, "planned_ns", stage->planned_ns);
    time_or_null(json, "longer_ns", stage->longer_ns);
    time_or_null(json, "late_ns", stage->late_ns);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_steps(bt_json *json, const bt_plan_overlay *plan) {
  bt_json_open_array(json, "steps");
  for (size_t i = 0; i < plan->step_count; i++) {
    const bt_plan_step *step = &plan->steps[i];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "step", step->step);
    bt_json_integer(json, "displaced_ops", step->displaced);
    bt_json_integer(json, "missing_ops", step->missing);
    bt_json_integer(json, "extra_ops", step->extra);
    time_or_null(json, "planned_ns", step->planned_ns);
    time_or_null(json, "measured_ns", step->measured_ns);
    time_or_null(json, "late_ns", step->late_ns);
    add_worst(json, &step->worst);
    bt_json_close(json);
  }
  bt_json_close(json);
}

void bt_report_plan_document(const bt_report *report, bt_json *json) {
  const bt_plan_overlay *plan = report->plan;
  bt_json_open_object(json, "plan");
  bt_json_text(json, "name", plan->name);
  bt_json_text(json, "file", plan->name == NULL ? report->plan_argument : NULL);
  bt_json_text(json, "source", plan->name != NULL ? "schedule" : "csv");
  bt_json_integer(json, "stages", plan->stages);
  bt_json_integer(json, "chunks", plan->chunks);
  bt_json_integer(json, "microbatches", plan->microbatches);
  bt_json_integer(json, "planned_ops", plan->planned_ops);
  bt_json_integer(json, "ops", plan->ops);
  bt_json_integer(json, "in_order", plan->in_order);
  bt_json_integer(json, "displaced_ops", plan->displaced);
  bt_json_integer(json, "missing_ops", plan->missing);
  bt_json_integer(json, "extra_ops", plan->extra);
  add_late(json, plan);
  add_stages(json, plan);
  add_deviations(json, "displaced", plan->displaced_list, plan->displaced_listed);
  add_deviations(json, "missing", plan->missing_list, plan->missing_listed);
  add_deviations(json, "extra", plan->extra_list, plan->extra_listed);
  add_steps(json, plan);
  bt_json_close(json);
}
