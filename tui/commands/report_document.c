/* The report as one JSON object: its keys are a contract (added to freely, never renamed). */
#include <math.h>
#include <string.h>

#include "tui/commands/report.h"
#include "tui/commands/report_plan.h"

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

/* The schedule's name as the framework declared it, on the first rank that knows it; NULL: nobody does. */
static const char *declared_schedule(const bt_trace *trace) {
  for (size_t i = 0; i < trace->rank_count; i++) {
    if (trace->ranks[i].layout.schedule[0] != '\0') return trace->ranks[i].layout.schedule;
  }
  return NULL;
}

/* The declared name holds; where nobody declares one, or the order of ops says another, recognition's is given too. */
static void add_schedule(bt_json *json, const bt_report *report) {
  const bt_accounting *a = report->accounting;
  const bt_recognition *schedule = &a->schedule;
  const char *declared = declared_schedule(report->trace);
  const char *recognised = schedule->family != NULL ? schedule->family->name : NULL;
  bt_json_open_object(json, "schedule");
  bt_json_text(json, "name", declared != NULL ? declared : recognised);
  bt_json_open_array(json, "aliases");
  for (size_t i = 0; recognised != NULL && i < schedule->alias_count; i++)
    bt_json_text(json, NULL, schedule->aliases[i]);
  bt_json_close(json);
  bt_json_integer(json, "stages", (int64_t)a->stage_count);
  bt_json_integer(json, "chunks", a->chunks);
  count_or_null(json, "microbatches", a->microbatches);
  bt_json_text(json, "source", declared != NULL ? "declared" : recognised != NULL ? "recognised" : NULL);
  bt_json_text(json, "recognised", recognised);
  bt_json_text(json, "text", schedule->text[0] != '\0' ? schedule->text : NULL);
  bt_json_close(json);
}

static void add_bubble(bt_json *json, const bt_accounting *a) {
  bt_json_open_object(json, "bubble");
  bt_json_number(json, "rate_window", a->rate_window);
  bt_json_number(json, "rate_span", a->rate_span);
  bt_json_number(json, "over_ideal", a->over_ideal);
  bt_json_number(json, "ideal_rate_window", a->ideal_rate_window);
  bt_json_number(json, "ideal_rate_span", a->ideal_rate_span);
  bt_json_number(json, "jitterless_rate_window", a->jitterless_rate_window);
  bt_json_close(json);
}

/* What the bubble costs in the hours of all ranks, of the steps that are rated. */
static void add_lost(bt_json *json, const bt_accounting *a) {
  const double hour = 3.6e12;
  bool told = a->excess_ns != BT_UNKNOWN;
  bt_json_open_object(json, "lost");
  time_or_null(json, "bubble_ns", a->bubble_ns);
  time_or_null(json, "excess_ns", a->excess_ns);
  bt_json_number(json, "gpu_hours", a->bubble_ns != BT_UNKNOWN ? (double)a->bubble_ns / hour : (double)NAN);
  bt_json_number(json, "excess_gpu_hours", told ? (double)a->excess_ns / hour : (double)NAN);
  bt_json_close(json);
}

static void add_clock(bt_json *json, const bt_report *report) {
  const bt_account_clock *clock = &report->accounting->clock;
  bt_json_open_object(json, "clock");
  bt_json_boolean(json, "aligned", clock->aligned);
  time_or_null(json, "max_error_ns", clock->max_error_ns);
  time_or_null(json, "likely_error_ns", clock->likely_error_ns);
  bt_json_open_array(json, "hosts");
  size_t count = 0;
  const bt_clock_host *hosts = bt_clocks_hosts(report->clocks, &count);
  for (size_t i = 0; i < count; i++) {
    const bt_clock_host *host = &hosts[i];
    bt_json_open_object(json, NULL);
    bt_json_text(json, "host", report->trace->hosts[i].name);
    time_or_null(json, "offset_ns", host->known ? host->offset_ns : BT_UNKNOWN);
    bt_json_number(json, "drift_ppm", host->known ? host->drift_ppm : (double)NAN);
    time_or_null(json, "error_ns", host->bounded ? host->error_ns : BT_UNKNOWN);
    time_or_null(json, "likely_error_ns", host->known ? host->likely_error_ns : BT_UNKNOWN);
    bt_json_close(json);
  }
  bt_json_close(json);
  bt_json_close(json);
}

static void add_steps(bt_json *json, const bt_accounting *a) {
  bt_json_open_array(json, "steps");
  for (size_t i = 0; i < a->step_count; i++) {
    const bt_account_step *step = &a->steps[i];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "step", step->step);
    time_or_null(json, "step_ns", step->step_ns);
    time_or_null(json, "window_ns", step->window_ns);
    bt_json_number(json, "rate_window", step->rate_window);
    bt_json_number(json, "rate_span", step->rate_span);
    bt_json_number(json, "over_ideal", step->over_ideal);
    bt_json_boolean(json, "rated", step->rated);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_causes(bt_json *json, const bt_accounting *a) {
  bt_json_open_array(json, "causes");
  for (size_t i = 0; i < a->cause_count; i++) {
    const bt_account_cause *cause = &a->causes[i];
    bt_json_open_object(json, NULL);
    bt_json_text(json, "kind", bt_cause_name(cause->kind));
    count_or_null(json, "stage", cause->stage);
    count_or_null(json, "to_stage", cause->to_stage);
    count_or_null(json, "rank", cause->rank);
    count_or_null(json, "microbatch", cause->microbatch);
    time_or_null(json, "step", cause->step);
    bt_json_number(json, "factor", cause->factor);
    bt_json_integer(json, "excess_ns", cause->excess_ns);
    bt_json_number(json, "share", cause->share);
    bt_json_close(json);
  }
  bt_json_close(json);
}

/* How wrong times of one stage are likely to be against those of another: by their ranks in the first replica. */
static int64_t likely_error_between(const bt_report *report, int32_t from, int32_t to) {
  const bt_rank *ends[2] = {NULL, NULL};
  for (size_t i = 0; i < report->trace->rank_count; i++) {
    const bt_rank *rank = &report->trace->ranks[i];
    int32_t stage = bt_rank_stage(rank);
    if (stage == from && ends[0] == NULL) ends[0] = rank;
    if (stage == to && ends[1] == NULL) ends[1] = rank;
  }
  if (ends[0] == NULL || ends[1] == NULL) return 0;
  int64_t error = 0;
  int64_t likely = 0;
  bt_clocks_pair(report->clocks, ends[0]->host, ends[1]->host, &error, &likely);
  return likely;
}

/* A wait that is shorter than the clocks of both ends are likely to be wrong says nothing by itself. */
static bool is_unresolved(const bt_report *report, const bt_account_link *link) {
  if (!report->accounting->clock.aligned || link->wait_ns == BT_UNKNOWN || link->messages == 0) return false;
  return link->wait_ns / link->messages < likely_error_between(report, link->from, link->to);
}

static void add_links(bt_json *json, const bt_report *report) {
  const bt_accounting *a = report->accounting;
  bt_json_open_array(json, "links");
  for (size_t i = 0; i < a->link_count; i++) {
    const bt_account_link *link = &a->links[i];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "from", link->from);
    bt_json_integer(json, "to", link->to);
    bt_json_integer(json, "messages", link->messages);
    time_or_null(json, "bytes", link->bytes);
    time_or_null(json, "wait_ns", link->wait_ns);
    time_or_null(json, "transfer_ns", link->transfer_ns);
    bool known = link->bytes != BT_UNKNOWN && link->transfer_ns != BT_UNKNOWN && link->transfer_ns > 0;
    double seconds = (double)link->transfer_ns * 1e-9;
    bt_json_number(json, "bytes_per_second", known ? (double)link->bytes / seconds : (double)NAN);
    bt_json_boolean(json, "unresolved", is_unresolved(report, link));
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_theory(bt_json *json, const bt_account_stage *stage) {
  bt_json_open_object(json, "theoretical");
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    time_or_null(json, bt_class_key((bt_class)c), stage->theory_ns[c]);
  bt_json_close(json);
  bt_json_open_object(json, "excess");
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    int64_t theory = stage->theory_ns[c];
    time_or_null(json, bt_class_key((bt_class)c), theory == BT_UNKNOWN ? BT_UNKNOWN : stage->ns[c] - theory);
  }
  bt_json_close(json);
}

static void add_stage(bt_json *json, const bt_account_stage *stage) {
  bt_json_open_object(json, NULL);
  bt_json_integer(json, "stage", stage->stage);
  bt_json_open_array(json, "vstages");
  for (int32_t i = 0; i < stage->vstage_count; i++)
    bt_json_integer(json, NULL, stage->vstages[i]);
  bt_json_close(json);
  bt_json_integer(json, "ranks", stage->ranks);
  bt_json_integer(json, "interval_ns", stage->interval_ns);
  time_or_null(json, "window_ns", stage->window_ns);
  time_or_null(json, "step_ns", stage->step_ns);
  time_or_null(json, "busy_ns", stage->busy_ns);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    bt_json_integer(json, bt_class_key((bt_class)c), stage->ns[c]);
  bt_json_integer(json, "inner_idle_ns", stage->inner_idle_ns);
  bt_json_integer(json, "hidden_in_bubble_ns", stage->hidden_in_bubble_ns);
  time_or_null(json, "p2p_ns", stage->p2p_ns);
  time_or_null(json, "p2p_wait_ns", stage->p2p_wait_ns);
  time_or_null(json, "p2p_transfer_ns", stage->p2p_transfer_ns);
  time_or_null(json, "p2p_bytes", stage->p2p_bytes);
  bt_json_number(json, "peak_memory", stage->peak_memory);
  bt_json_number(json, "bubble_rate", stage->bubble_rate);
  bt_json_number(json, "surplus", stage->surplus);
  add_theory(json, stage);
  bt_json_close(json);
}

static void add_warning(bt_json *json, const char *code, const char *text, int64_t count) {
  bt_json_open_object(json, NULL);
  bt_json_text(json, "code", code);
  bt_json_text(json, "text", text);
  time_or_null(json, "count", count);
  bt_json_close(json);
}

static void add_warnings(bt_json *json, const bt_report *report) {
  const bt_accounting *a = report->accounting;
  bt_json_open_array(json, "warnings");
  if (declared_schedule(report->trace) == NULL && a->schedule.family == NULL) {
    add_warning(json, "schedule_unknown", a->schedule.text, BT_UNKNOWN);
  }
  for (size_t i = 0; i < report->problem_count; i++) {
    const bt_problem *problem = &report->problems[i];
    bt_json_open_object(json, NULL);
    bt_json_text(json, "code", bt_problem_code(problem->kind));
    bt_json_text(json, "text", problem->text);
    count_or_null(json, "rank", problem->rank);
    bt_json_text(json, "file", problem->file[0] != '\0' ? problem->file : NULL);
    bt_json_close(json);
  }
  for (size_t i = 0; i < a->warning_count; i++)
    add_warning(json, a->warnings[i].code, a->warnings[i].text, a->warnings[i].count);
  for (size_t i = 0; report->plan != NULL && i < report->plan->warning_count; i++)
    add_warning(json, report->plan->warnings[i].code, report->plan->warnings[i].text, BT_UNKNOWN);
  bt_json_close(json);
}

bt_json *bt_report_document(const bt_report *report) {
  const bt_accounting *a = report->accounting;
  bt_json *json = bt_json_new();
  if (json == NULL) return NULL;
  bt_json_text(json, "run_id", report->trace->run_id[0] != '\0' ? report->trace->run_id : NULL);
  bt_json_integer(json, "ranks", a->ranks);
  bt_json_integer(json, "replicas", a->replicas);
  bt_json_integer(json, "interval_ns", a->interval_ns);
  bt_json_integer(json, "steps_rated", (int64_t)a->steps_rated);
  bt_json_integer(json, "steps_left_out", (int64_t)a->steps_left_out);
  add_schedule(json, report);
  add_bubble(json, a);
  add_lost(json, a);
  add_clock(json, report);
  bt_json_open_array(json, "classes");
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    bt_json_text(json, NULL, bt_class_key((bt_class)c));
  bt_json_close(json);
  add_causes(json, a);
  bt_json_open_array(json, "stages");
  for (size_t i = 0; i < a->stage_count; i++)
    add_stage(json, &a->stages[i]);
  bt_json_close(json);
  add_links(json, report);
  add_steps(json, a);
  if (report->plan != NULL) bt_report_plan_document(report, json);
  add_warnings(json, report);
  if (!bt_json_broken(json)) return json;
  bt_json_free(json);
  return NULL;
}
