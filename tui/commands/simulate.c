#include "tui/commands/simulate.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/command.h"

enum option {
  SCHEDULE,
  STAGES,
  MICROBATCHES,
  CHUNKS,
  FORWARD,
  BACKWARD,
  WEIGHT,
  FB,
  COMM,
  STEPS,
  SYNC,
  OPTIMIZER,
  DP,
  TP,
  ZERO,
  COLLECTIVE,
  JITTER,
  COMM_JITTER,
  SLOW,
  SLOW_LINK,
  SLOW_MB,
  SLOW_RANK,
  PAUSE,
  RANKS_PER_HOST,
  SKEW,
  DRIFT,
  MEMORY,
  W_MEMORY,
  DECLARE,
  SEED,
  OUTPUT
};

const bt_option bt_simulate_options[] = {
    [SCHEDULE] = {"--schedule", "NAME", "gpipe, 1f1b, interleaved, zb-h1 ...; a wrong name lists them"},
    [STAGES] = {"--stages", "P", "pipeline stages"},
    [MICROBATCHES] = {"--microbatches", "M", "microbatches a step"},
    [CHUNKS] = {"--chunks", "V", "model chunks a stage"},
    [FORWARD] = {"--forward", "TIME", "of F of a chunk (10ms)"},
    [BACKWARD] = {"--backward", "TIME", "of B, the input gradient (10ms)"},
    [WEIGHT] = {"--weight", "TIME", "of W, the weight gradient (10ms)"},
    [FB] = {"--fb", "TIME", "of an overlapped F and backward (the sum of F, B and W)"},
    [COMM] = {"--comm", "TIME", "of a message between stages (0)"},
    [STEPS] = {"--steps", "N", "training steps (1)"},
    [SYNC] = {"--sync", NULL, "all ranks wait for each other at the end of a step"},
    [OPTIMIZER] = {"--optimizer", "TIME", "of the optimizer (none)"},
    [DP] = {"--dp", "N", "replicas (1)"},
    [TP] = {"--tp", "N", "tensor-parallel members of a stage (1)"},
    [ZERO] = {"--zero", "1|2|3", "ZeRO stage: what the replicas shard"},
    [COLLECTIVE] = {"--collective", "TIME", "of an all-gather or reduce-scatter of a chunk (as F)"},
    [JITTER] = {"--jitter", "PCT", "compute times vary by up to +-PCT %, uniformly"},
    [COMM_JITTER] = {"--comm-jitter", "PCT", "so do times of messages and collectives"},
    [SLOW] = {"--slow", "STAGE:FACTOR", "a stage whose compute takes FACTOR times as long"},
    [SLOW_LINK] = {"--slow-link", "A-B:FACTOR", "messages from stage A to stage B take FACTOR times as long"},
    [SLOW_MB] = {"--slow-mb", "M:FACTOR", "a microbatch that takes longer in every stage"},
    [SLOW_RANK] = {"--slow-rank", "RANK:FACTOR", "one rank, that is one member of one replica's stage"},
    [PAUSE] = {"--pause", "STAGE:TIME", "a rank of the stage stops once, in the middle"},
    [RANKS_PER_HOST] = {"--ranks-per-host", "N", "ranks that share a clock (1)"},
    [SKEW] = {"--skew", "TIME", "hosts' clocks are off by up to +-TIME"},
    [DRIFT] = {"--drift", "PPM", "and run fast or slow by up to +-PPM"},
    [MEMORY] = {"--memory", "1p|2p|X", "zb-auto, zb-v-auto: activations a stage can hold (1p: as many as stages)"},
    [W_MEMORY] = {"--w-memory", "X", "share of an activation's memory that stays until W"},
    [DECLARE] = {"--declare", NULL, "write the schedule's name into the capture"},
    [SEED] = {"--seed", "S", "of all that is random (1)"},
    [OUTPUT] = {"-o", "RUN", "directory to write to"},
    {NULL, NULL, NULL},
};

typedef struct request {
  bt_simulation_params params;
  bt_simulate_output output;
  double memory; /* as given */
  bool memory_in_p; /* in multiples of the number of stages */
} request;

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool parse_number(const char *text, double *value, const char **end) {
  char *stop;
  errno = 0;
  *value = strtod(text, &stop);
  *end = stop;
  return stop != text && errno == 0 && isfinite(*value);
}

static bool parse_plain(const char *text, double *value) {
  const char *end;
  return parse_number(text, value, &end) && *end == 0;
}

static bool parse_int(const char *text, int64_t low, int64_t high, int64_t *value) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  *value = number;
  return end != text && *end == 0 && errno == 0 && number >= low && number <= high;
}

static bool parse_int32(const char *text, int32_t *value) {
  int64_t wide = 0;
  bool ok = parse_int(text, 0, INT32_MAX, &wide);
  *value = (int32_t)wide;
  return ok;
}

/* "11.347ms", "3us", "0". At most a day. */
static bool parse_time(const char *text, int64_t *value) {
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  const char *end;
  double number;
  if (!parse_number(text, &number, &end) || number < 0) return false;
  if (*end == 0 && number == 0) {
    *value = 0;
    return true;
  }
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit) != 0 || number * units[i].ns > 86400e9) continue;
    *value = (int64_t)(number * units[i].ns + 0.5);
    return true;
  }
  return false;
}

static bool parse_percent(const char *text, double *value) {
  char number[64];
  size_t length = strlen(text);
  if (length > 0 && text[length - 1] == '%') length--;
  if (length >= sizeof number) return false;
  memcpy(number, text, length);
  number[length] = 0;
  if (!parse_plain(number, value)) return false;
  *value /= 100;
  return true;
}

/* "WHERE:WHAT" or, for links, "A-B:WHAT". */
static bool parse_disturbance(const char *text, bool link, bool time, bt_disturbances *list) {
  if (list->count == BT_SIMULATE_MOST_DISTURBANCES) return false;
  bt_disturbance *each = &list->items[list->count];
  bt_disturbance parsed = {0, 0, 1, 0};
  char *end;
  long where = strtol(text, &end, 10), to = 0;
  if (end == text || where < 0 || where > INT32_MAX) return false;
  if (link) {
    if (*end != '-') return false;
    const char *second = end + 1;
    to = strtol(second, &end, 10);
    if (end == second || to < 0 || to > INT32_MAX) return false;
  }
  if (*end != ':') return false;
  parsed.where = (int32_t)where;
  parsed.to = (int32_t)to;
  if (time ? !parse_time(end + 1, &parsed.time) : !parse_plain(end + 1, &parsed.factor)) return false;
  *each = parsed;
  list->count++;
  return true;
}

static bool parse_memory(const char *text, request *want) {
  const char *end;
  if (!parse_number(text, &want->memory, &end) || want->memory <= 0) return false;
  want->memory_in_p = strcmp(end, "p") == 0;
  return want->memory_in_p || *end == 0;
}

static bool parse_seed(const char *text, uint64_t *seed) {
  int64_t value = 0;
  bool ok = parse_int(text, 0, INT64_MAX, &value);
  *seed = (uint64_t)value;
  return ok;
}

/* --- the command line --------------------------------------------------------------------------------------------- */

static bool take(enum option option, const char *value, request *want) {
  bt_simulation_params *params = &want->params;
  bt_schedule_params *schedule = &params->schedule;
  switch (option) {
  case SCHEDULE: return (params->family = bt_schedule_find(value)) != NULL;
  case STAGES: return parse_int32(value, &schedule->stages);
  case MICROBATCHES: return parse_int32(value, &schedule->microbatches);
  case CHUNKS: return parse_int32(value, &schedule->chunks) && schedule->chunks > 0;
  case FORWARD: return parse_time(value, &schedule->forward);
  case BACKWARD: return parse_time(value, &schedule->backward);
  case WEIGHT: return parse_time(value, &schedule->weight);
  case FB: return parse_time(value, &params->fb);
  case COMM: return parse_time(value, &schedule->comm);
  case STEPS: return parse_int(value, 1, 1000000000, &params->steps);
  case SYNC: return params->sync = true;
  case OPTIMIZER: return parse_time(value, &params->optimizer);
  case DP: return parse_int32(value, &params->dp);
  case TP: return parse_int32(value, &params->tp);
  case ZERO: return parse_int32(value, &params->zero);
  case COLLECTIVE: return parse_time(value, &params->collective);
  case JITTER: return parse_percent(value, &params->jitter);
  case COMM_JITTER: return parse_percent(value, &params->comm_jitter);
  case SLOW: return parse_disturbance(value, false, false, &params->slow_stages);
  case SLOW_LINK: return parse_disturbance(value, true, false, &params->slow_links);
  case SLOW_MB: return parse_disturbance(value, false, false, &params->slow_microbatches);
  case SLOW_RANK: return parse_disturbance(value, false, false, &params->slow_ranks);
  case PAUSE: return parse_disturbance(value, false, true, &params->pauses);
  case RANKS_PER_HOST: return parse_int32(value, &params->ranks_per_host);
  case SKEW: return parse_time(value, &params->skew);
  case DRIFT: return parse_plain(value, &params->drift) && (params->drift *= 1e-6) >= 0;
  case MEMORY: return parse_memory(value, want);
  case W_MEMORY: return parse_plain(value, &schedule->w_memory) && schedule->w_memory > 0;
  case DECLARE: return want->output.declare = true;
  case SEED: return parse_seed(value, &params->seed);
  case OUTPUT: return *(want->output.directory = value) != 0;
  }
  return false;
}

static int wrong_value(enum option option, const char *value) {
  if (option != SCHEDULE) {
    const bt_option *flag = &bt_simulate_options[option];
    return bt_usage_error("simulate", "'%s' is no %s for %s%s", value, flag->argument, flag->name,
                          strstr(flag->argument, "TIME") != NULL ? ": times are like 11.347ms, 600us, 2s" : "");
  }
  char names[512] = "";
  size_t used = 0;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", family->name);
  return bt_usage_error("simulate", "there is no schedule '%s'; there are %s", value, names);
}

/* Takes "--name value" and "--name=value". Returns how many arguments were taken, 0 after an error was printed. */
static int parse_one(int argc, char **argv, request *want) {
  const char *argument = argv[0], *equals = strchr(argument, '=');
  size_t length = equals == NULL ? strlen(argument) : (size_t)(equals - argument);
  for (int option = 0; bt_simulate_options[option].name != NULL; option++) {
    const bt_option *flag = &bt_simulate_options[option];
    if (strlen(flag->name) != length || strncmp(flag->name, argument, length) != 0) continue;
    if (flag->argument == NULL) {
      if (equals == NULL) return take((enum option)option, NULL, want);
      bt_usage_error("simulate", "%s takes no value", flag->name);
      return 0;
    }
    const char *value = equals != NULL ? equals + 1 : argc > 1 ? argv[1] : NULL;
    if (value == NULL) {
      bt_usage_error("simulate", "%s needs a %s", flag->name, flag->argument);
      return 0;
    }
    if (take((enum option)option, value, want)) return equals != NULL ? 1 : 2;
    wrong_value((enum option)option, value);
    return 0;
  }
  bt_usage_error("simulate", "no option '%s'", argument);
  return 0;
}

static int parse(int argc, char **argv, request *want) {
  bt_simulation_params_init(&want->params);
  for (int i = 1; i < argc;) {
    int taken = parse_one(argc - i, argv + i, want);
    if (taken == 0) return BT_EXIT_USAGE;
    i += taken;
  }
  bt_schedule_params *schedule = &want->params.schedule;
  if (want->params.family == NULL) return bt_usage_error("simulate", "--schedule is needed");
  if (schedule->stages == 0) return bt_usage_error("simulate", "--stages is needed");
  if (schedule->microbatches == 0) return bt_usage_error("simulate", "--microbatches is needed");
  if (want->output.directory == NULL) return bt_usage_error("simulate", "-o RUN is needed");
  schedule->memory = want->memory_in_p ? want->memory * schedule->stages : want->memory;
  return BT_EXIT_OK;
}

int bt_command_simulate(int argc, char **argv) {
  request want = {0};
  int usage = parse(argc, argv, &want);
  if (usage != BT_EXIT_OK) return usage;
  bt_simulation *simulation = NULL;
  bt_error error = {0};
  bt_status status = bt_simulation_new(&want.params, &simulation, &error);
  if (status != BT_OK) return bt_usage_error("simulate", "%s", error.text);
  status = bt_simulate_write(simulation, &want.params, &want.output, &error);
  if (status == BT_OK) {
    printf("%s: %d ranks, %" PRIu64 " spans, %" PRIu64 " bytes\n", want.output.directory,
           bt_simulation_ranks(simulation), want.output.spans, want.output.bytes);
  } else {
    fprintf(stderr, "bubbletop simulate: %s\n", error.text);
  }
  bt_simulation_free(simulation);
  return status == BT_OK ? BT_EXIT_OK : BT_EXIT_NOTHING;
}
