/* bubbletop export: a run, or some steps of it, for other programs or a paper. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/export.h"
#include "tui/analysis/clocks.h"
#include "tui/commands/command.h"
#include "tui/commands/open_run.h"
#include "tui/commands/range_json.h"
#include "tui/screen/text.h"

const bt_option bt_export_options[] = {
    {"--format", "chrome|svg|csv|jsonl|json",
     "Chrome trace events (Perfetto), a picture, a line a span, spans and where the time of every stage went"},
    {"--steps", "A..B", "only steps A to B; svg: the last whole step unless given"},
    {"--from", "TIME", "only what is seen from then on, since the run's start: 12.5s, 300ms"},
    {"--to", "TIME", "and until then"},
    {"--replica", "N", "svg, json: of this replica; svg: 0 unless given"},
    {"-o", "FILE", "write here ('-': standard output)"},
    {NULL, NULL, NULL},
};

typedef struct request {
  const char *format, *file;
  const char **paths;
  size_t path_count;
  bool bounded;
  long long first_step, last_step;
  int64_t from, to; /* since the run's start; from < 0, to INT64_MAX: not given */
  int replica; /* -1: not given */
} request;

static bool parse_steps(const char *text, request *r) {
  char *end = (char *)text;
  r->bounded = true;
  r->first_step = INT64_MIN;
  errno = 0;
  if (strncmp(text, "..", 2) != 0) r->first_step = strtoll(text, &end, 10);
  if (end == text && strncmp(text, "..", 2) != 0) return false;
  r->last_step = r->first_step;
  if (strncmp(end, "..", 2) == 0) {
    const char *last = end + 2;
    r->last_step = INT64_MAX;
    end = (char *)last;
    if (*last != 0) r->last_step = strtoll(last, &end, 10);
  }
  return errno == 0 && *end == 0 && r->first_step <= r->last_step;
}

static int parse(int argc, char **argv, request *r) {
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i], *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    if (argument[0] != '-' || argument[1] == 0) {
      r->paths[r->path_count++] = argument;
      continue;
    }
    size_t length = equals == NULL ? strlen(argument) : (size_t)(equals - argument);
    const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
    if (value == NULL) return bt_usage_error("export", "no option '%s', or its value is missing", argument);
    char *end;
    if (strncmp(argument, "--format", length) == 0 && length == 8) {
      r->format = value;
    } else if (strncmp(argument, "-o", length) == 0 && length == 2) {
      r->file = value;
    } else if (strncmp(argument, "--steps", length) == 0 && length == 7) {
      if (!parse_steps(value, r)) return bt_usage_error("export", "--steps: '%s' is not like 3..10", value);
    } else if (strncmp(argument, "--from", length) == 0 && length == 6) {
      if (!bt_text_parse_duration(value, &r->from) || r->from < 0)
        return bt_usage_error("export", "--from: '%s' is no time like 12.5s or 300ms", value);
    } else if (strncmp(argument, "--to", length) == 0 && length == 4) {
      if (!bt_text_parse_duration(value, &r->to) || r->to < 0)
        return bt_usage_error("export", "--to: '%s' is no time like 12.5s or 300ms", value);
    } else if (strncmp(argument, "--replica", length) == 0 && length == 9) {
      r->replica = (int)strtol(value, &end, 10);
      if (*end != 0 || end == value || r->replica < 0)
        return bt_usage_error("export", "--replica: '%s' is no number", value);
    } else {
      return bt_usage_error("export", "no option '%.*s'", (int)length, argument);
    }
  }
  if (r->path_count == 0) return bt_usage_error("export", "which run?");
  if (r->format == NULL) return bt_usage_error("export", "which --format? chrome, svg, csv, jsonl or json");
  if (r->file == NULL) return bt_usage_error("export", "where to? -o FILE");
  bool timed = r->from >= 0 || r->to != INT64_MAX;
  if (timed && r->bounded) return bt_usage_error("export", "--steps, or --from and --to");
  if (timed && r->from >= r->to) return bt_usage_error("export", "--from is not before --to");
  static const char *const formats[] = {"chrome", "svg", "csv", "jsonl", "json"};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (strcmp(r->format, formats[i]) == 0) return BT_EXIT_OK;
  }
  return bt_usage_error("export", "--format: '%s' is none of chrome, svg, csv, jsonl, json", r->format);
}

static void align(bt_trace *trace) {
  bt_clocks *clocks = NULL;
  if (trace->host_count < 2 || bt_clocks_solve(trace, &clocks, NULL) != BT_OK) return;
  if (bt_clocks_summary_of(clocks)->aligned)
    bt_clocks_apply(clocks, trace);
  else
    fputs("bubbletop export: clocks of several hosts are not aligned: ranks are shifted against each other\n", stderr);
  bt_clocks_free(clocks);
}

static int fail(const char *text) {
  fprintf(stderr, "bubbletop export: %s\n", text);
  return BT_EXIT_NOTHING;
}

/* From the first record to the last, of a replica or of all (< 0). False: nothing is there. */
static bool find_extent(const bt_trace *trace, int replica, bt_export_range *range) {
  *range = (bt_export_range){INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    if (rank->first > rank->last || (replica >= 0 && bt_rank_replica(rank) != replica)) continue;
    if (bt_export_time(rank, rank->first) < range->from) range->from = bt_export_time(rank, rank->first);
    if (bt_export_time(rank, rank->last) > range->to) range->to = bt_export_time(rank, rank->last);
  }
  return range->from < range->to;
}

/* The range that is asked for; a picture and sums have finite ends. */
static int find_range(const bt_trace *trace, request *r, bt_export_range *range) {
  bool picture = strcmp(r->format, "svg") == 0, finite = picture || strcmp(r->format, "json") == 0;
  bool timed = r->from >= 0 || r->to != INT64_MAX;
  int64_t step;
  if (picture && r->replica < 0) r->replica = 0;
  *range = (bt_export_range){INT64_MIN, INT64_MAX};
  if (r->bounded) {
    if (bt_export_steps(trace, finite ? r->replica : -1, r->first_step, r->last_step, range)) return BT_EXIT_OK;
    return fail("the run has no ops in those steps");
  }
  if (!finite && !timed) return BT_EXIT_OK;
  if (picture && !timed && bt_export_last_step(trace, r->replica, &step) &&
      bt_export_steps(trace, r->replica, step, step, range)) {
    return BT_EXIT_OK;
  }
  bt_export_range all;
  if (!find_extent(trace, -1, &all) || !find_extent(trace, finite ? r->replica : -1, range))
    return fail(picture ? "the run has nothing to draw" : "the run holds no spans");
  int64_t from = bt_time_add(all.from, r->from < 0 ? 0 : r->from), to = bt_time_add(all.from, r->to);
  if (from > range->from) range->from = from;
  if (to < range->to) range->to = to;
  return range->from < range->to ? BT_EXIT_OK : fail("the run holds nothing in that time");
}

static bt_status write_json(const bt_trace *trace, const request *r, const bt_export_range *range, FILE *out) {
  bt_lod_set lods = {0};
  char name[128];
  bt_run_name(r->paths[0], name, sizeof name);
  bt_range_json what = {.run = name, .range = *range, .replica = r->replica, .lods = &lods};
  bool done;
  bt_status status = bt_lod_set_update(&lods, trace, 0, &done);
  if (status == BT_OK) status = bt_range_json_write(trace, &what, out);
  bt_lod_set_free(&lods);
  return status;
}

static bt_status write_format(const bt_trace *trace, const request *r, const bt_export_range *range, FILE *out,
                              bt_error *error) {
  bt_status status;
  if (strcmp(r->format, "svg") == 0) {
    char name[128];
    bt_run_name(r->paths[0], name, sizeof name);
    bt_export_picture picture = {.range = *range, .replica = r->replica, .title = name};
    return bt_export_svg(trace, &picture, out, error);
  }
  if (strcmp(r->format, "json") == 0)
    status = write_json(trace, r, range, out);
  else if (strcmp(r->format, "chrome") == 0)
    status = bt_export_chrome(trace, range, out);
  else
    status = strcmp(r->format, "csv") == 0 ? bt_export_csv(trace, range, out) : bt_export_jsonl(trace, range, out);
  return status == BT_OK ? BT_OK : bt_fail(error, status, "%s: %s", r->file, strerror(errno));
}

static int write_file(const bt_trace *trace, const request *r, const bt_export_range *range) {
  bool standard = strcmp(r->file, "-") == 0;
  FILE *out = standard ? stdout : fopen(r->file, "w");
  bt_error error = {BT_OK, ""};
  if (out == NULL) {
    (void)bt_fail(&error, BT_ERR_IO, "%s: %s", r->file, strerror(errno));
    return fail(error.text);
  }
  bt_status status = write_format(trace, r, range, out, &error);
  if ((standard ? fflush(out) : fclose(out)) != 0 && status == BT_OK) {
    status = bt_fail(&error, BT_ERR_IO, "%s: %s", r->file, strerror(errno));
  }
  return status == BT_OK ? BT_EXIT_OK : fail(error.text);
}

int bt_command_export(int argc, char **argv) {
  request r = {.paths = calloc((size_t)argc + 1, sizeof *r.paths), .from = -1, .to = INT64_MAX, .replica = -1};
  if (r.paths == NULL) return BT_EXIT_NOTHING;
  int status = parse(argc, argv, &r);
  bt_run *run = NULL;
  if (status == BT_EXIT_OK) status = bt_open_run("export", r.paths, r.path_count, &run);
  if (run != NULL) {
    bt_export_range range;
    align(bt_run_trace(run));
    int written = find_range(bt_run_trace(run), &r, &range);
    if (written == BT_EXIT_OK) written = write_file(bt_run_trace(run), &r, &range);
    if (written != BT_EXIT_OK) status = written;
    bt_run_close(run);
  }
  free(r.paths);
  return status;
}
