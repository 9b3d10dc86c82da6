/* bubbletop report: where the time of a run went. */
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tui/commands/command.h"
#include "tui/commands/open_run.h"
#include "tui/commands/report.h"
#include "tui/commands/report_plan.h"

enum { MOST_CONDITIONS = 32, WIDTH = 80, MOST_WIDTH = 200, PROBLEMS_LISTED = 8 };

const bt_option bt_report_options[] = {
    {"--json", NULL, "one JSON object"},
    {"--csv", NULL, "the stages, comma-separated"},
    {"--steps", "A..B", "only steps A to B, warm-up included"},
    {"--plan", "NAME|FILE.csv", "lay a plan over it: a schedule's name, or PyTorch's schedule CSV"},
    {"--fail-if", "CONDITION", "exit with 4 if it holds, as in 'rate_window>0.25'; may be given again"},
    {"--watch", NULL, "report again while the run grows; with --json one object a line"},
    {"--glossary", NULL, "what the words mean"},
    {NULL, NULL, NULL},
};

typedef enum form { FORM_TEXT, FORM_JSON, FORM_CSV } form;

typedef struct request {
  form form;
  bool watch, glossary;
  bt_accounting_options accounting;
  bt_plan_request plan;
  bt_condition conditions[MOST_CONDITIONS];
  size_t condition_count;
  const char **paths;
  size_t path_count;
} request;

/* --- arguments ------------------------------------------------------------------------------------------------------- */

/* "12..20", "12..", "..20", "12". */
static bool parse_steps(const char *text, bt_accounting_options *options) {
  char *end = (char *)text;
  options->bounded = true;
  options->first_step = INT64_MIN;
  options->last_step = INT64_MAX;
  errno = 0;
  if (strncmp(text, "..", 2) != 0) {
    options->first_step = strtoll(text, &end, 10);
    if (end == text) return false;
    options->last_step = options->first_step;
  }
  if (strncmp(end, "..", 2) == 0) {
    const char *last = end + 2;
    options->last_step = INT64_MAX;
    end = (char *)last;
    if (*last != '\0') options->last_step = strtoll(last, &end, 10);
  }
  return errno == 0 && *end == '\0' && *text != '\0' && options->first_step <= options->last_step;
}

/* The value of an option given as "--name VALUE" or "--name=VALUE"; NULL: another option, or (*missing) no value. */
static const char *option_value(int argc, char **argv, int *at, const char *name, bool *missing) {
  size_t length = strlen(name);
  if (strncmp(argv[*at], name, length) != 0) return NULL;
  if (argv[*at][length] == '=') return argv[*at] + length + 1;
  if (argv[*at][length] != '\0') return NULL;
  if (*at + 1 < argc) return argv[++*at];
  *missing = true;
  return NULL;
}

static int parse_option(request *r, int argc, char **argv, int *at) {
  const char *argument = argv[*at];
  bool missing = false;
  const char *value;
  if (strcmp(argument, "--json") == 0) {
    r->form = FORM_JSON;
  } else if (strcmp(argument, "--csv") == 0) {
    r->form = FORM_CSV;
  } else if (strcmp(argument, "--watch") == 0) {
    r->watch = true;
  } else if (strcmp(argument, "--glossary") == 0) {
    r->glossary = true;
  } else if ((value = option_value(argc, argv, at, "--steps", &missing)) != NULL) {
    if (!parse_steps(value, &r->accounting)) return bt_usage_error("report", "--steps: '%s' is not like 3..10", value);
  } else if ((value = option_value(argc, argv, at, "--plan", &missing)) != NULL) {
    return bt_plan_request_parse("report", value, &r->plan);
  } else if ((value = option_value(argc, argv, at, "--fail-if", &missing)) != NULL) {
    if (r->condition_count == MOST_CONDITIONS)
      return bt_usage_error("report", "more than %d conditions", MOST_CONDITIONS);
    if (!bt_condition_parse(value, &r->conditions[r->condition_count++])) {
      return bt_usage_error("report", "--fail-if: '%s' is not like 'rate_window>0.25'", value);
    }
  } else {
    return bt_usage_error("report", missing ? "'%s' needs a value" : "no option '%s'", argument);
  }
  return BT_EXIT_OK;
}

static int parse_arguments(request *r, int argc, char **argv) {
  bool options = true;
  for (int i = 1; i < argc; i++) {
    if (options && strcmp(argv[i], "--") == 0) {
      options = false;
    } else if (options && argv[i][0] == '-') {
      int status = parse_option(r, argc, argv, &i);
      if (status != BT_EXIT_OK) return status;
    } else {
      r->paths[r->path_count++] = argv[i];
    }
  }
  if (r->path_count == 0 && !r->glossary) return bt_usage_error("report", "which run?");
  if (r->form == FORM_CSV && r->plan.argument != NULL) return bt_usage_error("report", "--csv has no place for --plan");
  return BT_EXIT_OK;
}

/* --- printing -------------------------------------------------------------------------------------------------------- */

bt_report_look bt_report_look_of(FILE *out) {
  const char *no_color = getenv("NO_COLOR");
  const char *term = getenv("TERM");
  bool terminal = isatty(fileno(out)) != 0;
  struct winsize size;
  bt_report_look look = {.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0, .width = WIDTH};
  look.color = terminal && (no_color == NULL || *no_color == '\0') && term != NULL && strcmp(term, "dumb") != 0;
  if (terminal && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH) {
    look.width = size.ws_col < MOST_WIDTH ? size.ws_col : MOST_WIDTH;
  }
  return look;
}

/* BT_EXIT_FAIL_IF when a condition holds, BT_EXIT_PARTIAL when one cannot be judged, BT_EXIT_USAGE for an unknown key. */
static int judge_conditions(const request *r, const bt_json *document) {
  int status = BT_EXIT_OK;
  for (size_t i = 0; i < r->condition_count; i++) {
    const bt_condition *condition = &r->conditions[i];
    switch (bt_condition_judge(condition, document)) {
    case BT_VERDICT_NO_KEY:
      return bt_usage_error("report", "--fail-if: the report has no number '%s'", condition->path);
    case BT_VERDICT_TRUE:
      fprintf(stderr, "bubbletop report: %s%s%.10g holds\n", condition->path, condition->comparison, condition->bound);
      status = BT_EXIT_FAIL_IF;
      break;
    case BT_VERDICT_UNKNOWN:
      fprintf(stderr, "bubbletop report: %s is not known: see the warnings\n", condition->path);
      if (status == BT_EXIT_OK) status = BT_EXIT_PARTIAL;
      break;
    case BT_VERDICT_FALSE: break;
    }
  }
  return status;
}

static int print_report(const request *r, const bt_report *report) {
  bt_json *document = bt_report_document(report);
  if (document == NULL) {
    fputs("bubbletop report: out of memory\n", stderr);
    return BT_EXIT_NOTHING;
  }
  if (r->form == FORM_JSON) {
    bt_json_write(document, stdout, !r->watch);
  } else if (r->form == FORM_CSV) {
    bt_report_csv(report, stdout);
  } else {
    bt_report_look look = bt_report_look_of(stdout);
    if (r->watch && isatty(STDOUT_FILENO)) fputs("\033[H\033[J", stdout);
    bt_report_text(report, &look, stdout);
  }
  int status = judge_conditions(r, document);
  bt_json_free(document);
  if (fflush(stdout) != 0) {
    fprintf(stderr, "bubbletop report: cannot write: %s\n", strerror(errno));
    return BT_EXIT_NOTHING;
  }
  return status;
}

bt_clocks *bt_report_align(bt_trace *trace, bt_account_clock *clock, bt_error *error) {
  bt_clocks *clocks = NULL;
  if (bt_clocks_solve(trace, &clocks, error) != BT_OK) return NULL;
  bt_clocks_apply(clocks, trace);
  const bt_clocks_summary *found = bt_clocks_summary_of(clocks);
  bool bounded = found->aligned && !found->bent;
  *clock = (bt_account_clock){.aligned = found->aligned,
                              .max_error_ns = bounded ? found->max_error_ns : BT_UNKNOWN,
                              .likely_error_ns = found->aligned ? found->likely_error_ns : BT_UNKNOWN,
                              .bent = found->bent,
                              .violations = found->violations};
  if (found->violations > 0) {
    clock->worst_ns = found->worst[0].by_ns;
    clock->worst_from = found->worst[0].from;
    clock->worst_to = found->worst[0].to;
  }
  return clocks;
}

/* The plan over the run, when one is asked for. While the run grows it may not fit yet: then the report goes without. */
static int lay_plan(const request *r, const bt_trace *trace, const bt_accounting_options *options,
                    bt_plan_overlay **plan) {
  bt_error error = {BT_OK, ""};
  if (r->plan.argument == NULL) return BT_EXIT_OK;
  bt_status status = bt_plan_lay(trace, options, &r->plan.source, plan, &error);
  if (status == BT_OK) return BT_EXIT_OK;
  fprintf(stderr, "bubbletop report: --plan %s: %s\n", r->plan.argument, error.text);
  if (r->watch && status == BT_ERR_ARG) return BT_EXIT_OK;
  return status == BT_ERR_ARG || status == BT_ERR_LIMIT ? BT_EXIT_USAGE : BT_EXIT_NOTHING;
}

/* Accounts for what has been read so far. */
static int report_run(const request *r, bt_run *run) {
  bt_trace *trace = bt_run_trace(run);
  bt_account_clock clock;
  bt_error error = {BT_OK, ""};
  bt_clocks *clocks = bt_report_align(trace, &clock, &error);
  bt_accounting_options options = r->accounting;
  options.clock = &clock;
  bt_accounting *accounting = NULL;
  if (clocks == NULL || bt_accounting_run(trace, &options, &accounting, &error) != BT_OK) {
    fprintf(stderr, "bubbletop report: %s\n", error.text);
    bt_print_problems(stderr, "bubbletop report: ", run, PROBLEMS_LISTED);
    bt_clocks_free(clocks);
    return BT_EXIT_NOTHING;
  }
  bt_plan_overlay *plan = NULL;
  int status = lay_plan(r, trace, &options, &plan);
  if (status == BT_EXIT_OK) {
    bt_report report = {
        .accounting = accounting, .trace = trace, .clocks = clocks, .plan = plan, .plan_argument = r->plan.argument};
    report.problems = bt_run_problems(run, &report.problem_count);
    status = print_report(r, &report);
  }
  if (status == BT_EXIT_OK && isnan(accounting->rate_window)) status = BT_EXIT_PARTIAL; /* the headline is withheld */
  bt_plan_overlay_free(plan);
  bt_accounting_free(accounting);
  bt_clocks_free(clocks);
  return status == BT_EXIT_OK ? bt_run_exit_status(run) : status;
}

/* --- the command ----------------------------------------------------------------------------------------------------- */

static int report_once(const request *r) {
  bt_run *run = NULL;
  int status = bt_open_run("report", r->paths, r->path_count, &run);
  if (run == NULL) return status;
  status = report_run(r, run);
  bt_run_close(run);
  return status;
}

/* Reports whenever something new has come, at most every two seconds, until every writer has ended. */
static int report_watch(const request *r) {
  static const bt_run_options options = {.follow = true, .rings = true};
  static const struct timespec pause = {2, 0};
  bt_run *run = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_run_open(r->paths, r->path_count, &options, &run, &error) != BT_OK)
    return bt_open_run_failed("report", &error);
  int status = BT_EXIT_NOTHING;
  uint64_t seen = 0;
  for (;;) {
    bt_status polled;
    do {
      polled = bt_run_poll(run, 0, &error);
    } while (polled == BT_OK);
    if (polled < 0) status = bt_open_run_failed("report", &error);
    if (polled < 0) break;
    const bt_trace *trace = bt_run_trace(run);
    if (trace->generation != seen && trace->span_count > 0) {
      seen = trace->generation;
      status = report_run(r, run);
      if (status == BT_EXIT_USAGE) break;
    }
    if (polled == BT_END) break;
    (void)nanosleep(&pause, NULL);
  }
  bt_run_close(run);
  return status;
}

int bt_command_report(int argc, char **argv) {
  request r = {.paths = calloc((size_t)argc, sizeof *r.paths)};
  if (r.paths == NULL) {
    fputs("bubbletop report: out of memory\n", stderr);
    return BT_EXIT_NOTHING;
  }
  int status = parse_arguments(&r, argc, argv);
  if (status == BT_EXIT_OK) {
    if (r.glossary) {
      bt_report_glossary(stdout, WIDTH);
    } else {
      status = r.watch ? report_watch(&r) : report_once(&r);
    }
  }
  bt_plan_request_free(&r.plan);
  free(r.paths);
  return status;
}
