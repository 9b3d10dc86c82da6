/* bubbletop info: what a run is, and what is wrong with it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tui/commands/command.h"
#include "tui/commands/info_groups.h"
#include "tui/commands/json.h"
#include "tui/commands/open_run.h"

enum { PROBLEMS_LISTED = 20, HOSTS_LISTED = 8 };

const bt_option bt_info_options[] = {
    {"--json", NULL, "one JSON object"},
    {NULL, NULL, NULL},
};

typedef struct summary {
  bt_layout layout; /* the largest of what the ranks know */
  size_t files, lives, ended, recovered, unrecoverable, hosts;
  uint64_t bytes, blocks, records, dropped, steps;
  int64_t first_real, last_real; /* ns since 1970; first > last: nothing */
  int64_t first_step, last_step;
  bool dated; /* the clock pairs told the real time */
} summary;

static void add_layout(bt_layout *sum, const bt_layout *one) {
  int32_t *to[] = {&sum->pp_size, &sum->tp_size,      &sum->dp_size,        &sum->cp_size,    &sum->ep_size,
                   &sum->chunks,  &sum->microbatches, &sum->virtual_stages, &sum->zero_stage, &sum->w_separable};
  const int32_t from[] = {one->pp_size, one->tp_size,      one->dp_size,        one->cp_size,    one->ep_size,
                          one->chunks,  one->microbatches, one->virtual_stages, one->zero_stage, one->w_separable};
  for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
    if (from[i] > *to[i]) *to[i] = from[i];
  }
  if (sum->schedule[0] == '\0') memcpy(sum->schedule, one->schedule, sizeof sum->schedule);
}

/* `time` of the rank's clock as real time, if it has a clock pair; else as it is. */
static int64_t to_real(const bt_rank *rank, int64_t time) {
  int64_t real;
  if (rank->clock_count == 0) return time;
  const bt_clock_pair *pair = &rank->clocks[rank->clock_count - 1];
  if (__builtin_sub_overflow(pair->real, pair->mono, &real) || __builtin_add_overflow(real, time, &real)) return time;
  return real;
}

static void add_rank(summary *sum, const bt_rank *rank) {
  add_layout(&sum->layout, &rank->layout);
  sum->dropped += rank->dropped;
  sum->dated &= rank->clock_count > 0 && rank->clocks[rank->clock_count - 1].real != 0;
  if (rank->first <= rank->last) {
    int64_t first = to_real(rank, rank->first);
    int64_t last = to_real(rank, rank->last);
    if (first < sum->first_real) sum->first_real = first;
    if (last > sum->last_real) sum->last_real = last;
  }
  for (size_t i = 0; i < rank->step_count; i++) {
    if (rank->steps[i].id < sum->first_step) sum->first_step = rank->steps[i].id;
    if (rank->steps[i].id > sum->last_step) sum->last_step = rank->steps[i].id;
  }
  if (rank->step_count > sum->steps) sum->steps = rank->step_count;
  for (size_t i = 0; i < rank->life_count; i++) {
    sum->lives++;
    sum->ended += rank->lives[i].ended;
    sum->recovered += rank->lives[i].recovered;
    sum->unrecoverable += !rank->lives[i].ended && !rank->lives[i].recoverable;
  }
}

static void summarize(bt_run *run, summary *sum) {
  const bt_trace *trace = bt_run_trace(run);
  *sum = (summary){.first_real = INT64_MAX, .last_real = INT64_MIN, .first_step = INT64_MAX, .last_step = INT64_MIN};
  sum->dated = trace->rank_count > 0;
  bt_layout_init(&sum->layout);
  for (size_t i = 0; i < trace->rank_count; i++) {
    add_rank(sum, &trace->ranks[i]);
  }
  const bt_file_info *files = bt_run_files(run, &sum->files);
  for (size_t i = 0; i < sum->files; i++) {
    sum->bytes += files[i].size;
    sum->blocks += files[i].blocks;
    sum->records += files[i].records;
  }
}

/* --- text ------------------------------------------------------------------------------------------------------------ */

/* Text from a file: nothing in it may move the terminal's cursor. */
static void print_safely(const char *text) {
  for (; *text != '\0'; text++) {
    putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
  }
}

static void print_size(const char *name, int32_t size) {
  if (size >= 0) printf(", %s %d", name, size);
}

static void print_layout(const bt_layout *layout) {
  printf("schedule     ");
  if (layout->schedule[0] != '\0') {
    print_safely(layout->schedule);
  } else {
    printf("not declared");
  }
  if (layout->pp_size > 0) printf(", %d stage%s", layout->pp_size, layout->pp_size == 1 ? "" : "s");
  print_size("chunks", layout->chunks);
  print_size("microbatches", layout->microbatches);
  print_size("dp", layout->dp_size);
  print_size("tp", layout->tp_size);
  print_size("cp", layout->cp_size);
  print_size("ep", layout->ep_size);
  if (layout->zero_stage > 0) printf(", ZeRO stage %d", layout->zero_stage);
  if (layout->w_separable == 0) printf(", W is not separable from B");
  putchar('\n');
}

static void print_hosts(const bt_trace *trace) {
  printf("hosts        %zu:", trace->host_count);
  for (size_t i = 0; i < trace->host_count && i < HOSTS_LISTED; i++) {
    putchar(' ');
    print_safely(trace->hosts[i].name[0] != '\0' ? trace->hosts[i].name : "(no name)");
  }
  printf("%s\n", trace->host_count > HOSTS_LISTED ? " ..." : "");
}

static void print_time(const summary *sum) {
  if (sum->first_real > sum->last_real) {
    printf("time         nothing yet\n");
    return;
  }
  printf("time         %.6f s", ((double)sum->last_real - (double)sum->first_real) / 1e9);
  time_t seconds = (time_t)(sum->first_real / 1000000000);
  struct tm local;
  char text[40];
  if (sum->dated && localtime_r(&seconds, &local) != NULL &&
      strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &local) > 0) {
    printf(" from %s", text);
  }
  putchar('\n');
}

static void print_text(bt_run *run, const summary *sum) {
  const bt_trace *trace = bt_run_trace(run);
  size_t problems;
  (void)bt_run_problems(run, &problems);
  printf("run          ");
  print_safely(trace->run_id[0] != '\0' ? trace->run_id : "(no id)");
  putchar('\n');
  print_layout(&sum->layout);
  printf("ranks        %zu", trace->rank_count);
  if (trace->world_size > 0) printf(" of %d", trace->world_size);
  putchar('\n');
  print_hosts(trace);
  (void)bt_print_groups(trace);
  printf("lives        %zu, %zu ended in good order, %zu recovered\n", sum->lives, sum->ended, sum->recovered);
  printf("files        %zu, %" PRIu64 " bytes, %" PRIu64 " blocks, %" PRIu64 " records\n", sum->files, sum->bytes,
         sum->blocks, sum->records);
  printf("spans        %" PRIu64, trace->span_count);
  if (trace->span_count > 0) printf(", %.1f bytes each", (double)sum->bytes / (double)trace->span_count);
  putchar('\n');
  print_time(sum);
  if (sum->steps > 0) {
    printf("steps        %" PRIu64 " (%" PRId64 " to %" PRId64 ")\n", sum->steps, sum->first_step, sum->last_step);
  } else {
    printf("steps        not marked\n");
  }
  printf("dropped      %" PRIu64 "\n", sum->dropped);
  if (sum->unrecoverable > 0) {
    printf("recoverable  no: the newest spans of %zu writer%s would not survive a kill (rings in plain memory)\n",
           sum->unrecoverable, sum->unrecoverable == 1 ? "" : "s");
  } else {
    printf("recoverable  yes\n");
  }
  printf("problems     %s\n", problems == 0 ? "none" : "");
  bt_print_problems(stdout, "  ", run, PROBLEMS_LISTED);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static void known(bt_json *json, const char *key, int64_t value) {
  if (value >= 0) {
    bt_json_integer(json, key, value);
  } else {
    bt_json_null(json, key);
  }
}

static void write_layout(bt_json *json, const bt_layout *layout) {
  bt_json_open_object(json, "layout");
  bt_json_text(json, "schedule", layout->schedule[0] != '\0' ? layout->schedule : NULL);
  known(json, "stages", layout->pp_size);
  known(json, "chunks", layout->chunks);
  known(json, "microbatches", layout->microbatches);
  known(json, "virtual_stages", layout->virtual_stages);
  known(json, "dp", layout->dp_size);
  known(json, "tp", layout->tp_size);
  known(json, "cp", layout->cp_size);
  known(json, "ep", layout->ep_size);
  known(json, "zero_stage", layout->zero_stage);
  known(json, "w_separable", layout->w_separable);
  bt_json_close(json);
}

static void write_lives(bt_json *json, const bt_trace *trace) {
  bt_json_open_array(json, "lives");
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    for (size_t j = 0; j < rank->life_count; j++) {
      const bt_life *life = &rank->lives[j];
      bool any = life->first <= life->last;
      bt_json_open_object(json, NULL);
      bt_json_integer(json, "rank", rank->rank);
      bt_json_integer(json, "life", life->life);
      known(json, "pid", life->pid);
      bt_json_text(json, "host", life->host < trace->host_count ? trace->hosts[life->host].name : NULL);
      bt_json_boolean(json, "ended", life->ended);
      bt_json_boolean(json, "recoverable", life->recoverable);
      bt_json_boolean(json, "recovered", life->recovered);
      known(json, "first_ns", any ? life->first : -1);
      known(json, "last_ns", any ? life->last : -1);
      bt_json_close(json);
    }
  }
  bt_json_close(json);
}

static void write_hosts(bt_json *json, const bt_trace *trace) {
  bt_json_open_array(json, "hosts");
  for (size_t i = 0; i < trace->host_count; i++) {
    size_t ranks = 0;
    for (size_t j = 0; j < trace->rank_count; j++) {
      ranks += trace->ranks[j].host == i;
    }
    bt_json_open_object(json, NULL);
    bt_json_text(json, "host", trace->hosts[i].name);
    bt_json_text(json, "boot_id", trace->hosts[i].boot_id);
    bt_json_integer(json, "ranks", (int64_t)ranks);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void write_files(bt_json *json, bt_run *run) {
  size_t count;
  const bt_file_info *files = bt_run_files(run, &count);
  bt_json_open_array(json, "files");
  for (size_t i = 0; i < count; i++) {
    bt_json_open_object(json, NULL);
    bt_json_text(json, "path", files[i].path);
    bt_json_integer(json, "rank", files[i].rank);
    bt_json_integer(json, "life", files[i].life);
    bt_json_integer(json, "segment", files[i].segment);
    bt_json_boolean(json, "recovered", files[i].recovered);
    bt_json_boolean(json, "ended", files[i].ended);
    bt_json_boolean(json, "torn", files[i].torn);
    bt_json_integer(json, "bytes", (int64_t)files[i].size);
    bt_json_integer(json, "blocks", (int64_t)files[i].blocks);
    bt_json_integer(json, "records", (int64_t)files[i].records);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void write_warnings(bt_json *json, bt_run *run) {
  size_t count;
  const bt_problem *problems = bt_run_problems(run, &count);
  bt_json_open_array(json, "warnings");
  for (size_t i = 0; i < count; i++) {
    bt_json_open_object(json, NULL);
    bt_json_text(json, "code", bt_problem_code(problems[i].kind));
    bt_json_text(json, "text", problems[i].text);
    known(json, "rank", problems[i].rank);
    bt_json_text(json, "file", problems[i].file[0] != '\0' ? problems[i].file : NULL);
    bt_json_integer(json, "offset", (int64_t)problems[i].offset);
    bt_json_integer(json, "amount", (int64_t)problems[i].amount);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static bool print_json(bt_run *run, const summary *sum) {
  const bt_trace *trace = bt_run_trace(run);
  bool any = sum->first_real <= sum->last_real;
  bt_json *json = bt_json_new();
  if (json == NULL) return false;
  bt_json_text(json, "run_id", trace->run_id[0] != '\0' ? trace->run_id : NULL);
  write_layout(json, &sum->layout);
  bt_json_integer(json, "ranks", (int64_t)trace->rank_count);
  known(json, "ranks_expected", trace->world_size);
  bt_json_integer(json, "spans", (int64_t)trace->span_count);
  bt_json_integer(json, "records", (int64_t)sum->records);
  bt_json_integer(json, "blocks", (int64_t)sum->blocks);
  bt_json_integer(json, "bytes", (int64_t)sum->bytes);
  bt_json_integer(json, "steps", (int64_t)sum->steps);
  bt_json_integer(json, "dropped", (int64_t)sum->dropped);
  bt_json_boolean(json, "recoverable", sum->unrecoverable == 0);
  known(json, "begin_real_ns", any && sum->dated ? sum->first_real : -1);
  known(json, "duration_ns",
        any && (sum->first_real >= 0 || sum->last_real <= 0) ? sum->last_real - sum->first_real : -1);
  write_hosts(json, trace);
  bool whole = bt_write_groups(json, trace);
  write_lives(json, trace);
  write_files(json, run);
  write_warnings(json, run);
  whole = whole && !bt_json_broken(json);
  if (whole) bt_json_write(json, stdout, true);
  bt_json_free(json);
  return whole;
}

int bt_command_info(int argc, char **argv) {
  const char **paths = calloc((size_t)argc, sizeof *paths);
  size_t count = 0;
  bool as_json = false;
  if (paths == NULL) return BT_EXIT_NOTHING;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) {
      as_json = true;
    } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
      free(paths);
      return bt_usage_error(argv[0], "no option '%s'", argv[i]);
    } else {
      paths[count++] = argv[i];
    }
  }
  if (count == 0) {
    free(paths);
    return bt_usage_error(argv[0], "name a run");
  }
  bt_run *run;
  int status = bt_open_run(argv[0], paths, count, &run);
  free(paths);
  if (run == NULL) return status;
  summary sum;
  summarize(run, &sum);
  if (!as_json) {
    print_text(run, &sum);
  } else if (!print_json(run, &sum)) {
    fprintf(stderr, "bubbletop info: memory is short\n");
    status = BT_EXIT_NOTHING;
  }
  bt_run_close(run);
  return status;
}
