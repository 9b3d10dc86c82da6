#include "samples/train/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "Usage: pipeline_train [OPTION]...\n"
    "Trains a small MLP by pipeline parallelism, one process a stage, and captures it with libbubbletop.\n"
    "\n"
    "Pipeline\n"
    "  --schedule NAME       gpipe, 1f1b (default), interleaved, zb-h1, zb-h2 or zb-v\n"
    "  --stages P            processes of a pipeline (4)\n"
    "  --microbatches M      per step and replica (8)\n"
    "  --chunks V            model chunks of a stage (interleaved: 2)\n"
    "  --dp N                data-parallel replicas of the pipeline (1)\n"
    "  --split-backward      gpipe, 1f1b, interleaved: B and W apart instead of one fused BW\n"
    "  --barrier             every step ends with a sum over all ranks (the loss), so nobody runs ahead\n"
    "\n"
    "Training\n"
    "  --layers L            of the whole model (8, or more for more chunks)\n"
    "  --hidden H            width, a multiple of 4 (256)\n"
    "  --batch B             rows of a microbatch, a multiple of 4 (64)\n"
    "  --rate R              learning rate (0.005)       --seed S     of weights and data (1)\n"
    "  --steps N             stop after N steps (20)     --seconds S  stop after S seconds\n"
    "\n"
    "Waits instead of arithmetic, so that many stages show a clean picture on few cores\n"
    "  --compute timed       ops wait; messages and the schedule stay real (default: --compute real)\n"
    "  --forward T --backward T --weight T --optimizer T   as in 4ms, 350us (10ms, 10ms, 10ms, none)\n"
    "  --slow STAGE:FACTOR   that stage takes FACTOR times as long; may be repeated\n"
    "  --jitter PCT          each op takes up to PCT per cent more or less, by seed\n"
    "\n"
    "Capture and output\n"
    "  --out RUN             run directory for bubbletop (default: $BUBBLETOP_DIR, else no capture)\n"
    "  --declare             write the schedule's name into the capture; else bubbletop recognises it\n"
    "  --print-loss          one line a step         --stats   what each rank did and captured, at the end\n"
    "  --dump-gradients DIR  the last step's gradients, a file a layer\n"
    "  --reference           train in one process without a pipeline (to compare gradients with)\n"
    "\n"
    "Started by another launcher (torchrun, srun), a rank takes RANK, MASTER_ADDR and MASTER_PORT, or:\n"
    "  --rank R --rendezvous HOST:PORT\n";

void options_help(void) {
  fputs(help_text, stdout);
}

static int parse_int(const char *name, const char *text, long low, long high, int *value, struct failure *why) {
  char *end;
  long number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < low || number > high)
    return failed(why, "%s %s: a whole number from %ld to %ld is needed", name, text, low, high);
  *value = (int)number;
  return 0;
}

static int parse_real(const char *name, const char *text, double low, double high, double *value, struct failure *why) {
  char *end;
  *value = strtod(text, &end);
  if (end == text || *end != '\0' || !(*value >= low && *value <= high))
    return failed(why, "%s %s: a number from %g to %g is needed", name, text, low, high);
  return 0;
}

/* "11.347ms" */
static int parse_time(const char *name, const char *text, int64_t *ns, struct failure *why) {
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char *end;
  double number = strtod(text, &end);
  for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0 && number >= 0 && number * units[i].ns <= 3600e9) {
      *ns = (int64_t)(number * units[i].ns);
      return 0;
    }
  return failed(why, "%s %s: a time like 4ms, 350us or 1.5s is needed", name, text);
}

static int parse_slow(struct options *o, char *text, struct failure *why) {
  char *colon = strchr(text, ':');
  if (colon == NULL) return failed(why, "--slow %s: STAGE:FACTOR is needed, as in 2:1.5", text);
  int stage;
  *colon = '\0';
  if (parse_int("--slow", text, 0, MAX_STAGES - 1, &stage, why) != 0) return -1;
  return parse_real("--slow", colon + 1, 0.01, 1000, &o->slow[stage], why);
}

static int parse_rendezvous(struct options *o, char *text, struct failure *why) {
  char *colon = strrchr(text, ':');
  if (colon == NULL || colon == text) return failed(why, "--rendezvous %s: HOST:PORT is needed", text);
  *colon = '\0';
  o->master_host = text;
  return parse_int("--rendezvous", colon + 1, 1, 65535, &o->master_port, why);
}

enum option_code {
  SCHEDULE = 256,
  STAGES,
  MICROBATCHES,
  CHUNKS,
  DP,
  SPLIT,
  BARRIER,
  LAYERS,
  HIDDEN,
  BATCH,
  RATE,
  SEED,
  STEPS,
  SECONDS,
  COMPUTE,
  FORWARD,
  BACKWARD,
  WEIGHT,
  OPTIMIZER,
  SLOW,
  JITTER,
  OUT,
  DECLARE,
  PRINT_LOSS,
  STATS,
  DUMP,
  REFERENCE,
  RANK,
  RENDEZVOUS,
  HELP
};

static const struct option long_options[] = {{"schedule", required_argument, NULL, SCHEDULE},
                                             {"stages", required_argument, NULL, STAGES},
                                             {"microbatches", required_argument, NULL, MICROBATCHES},
                                             {"chunks", required_argument, NULL, CHUNKS},
                                             {"dp", required_argument, NULL, DP},
                                             {"split-backward", no_argument, NULL, SPLIT},
                                             {"barrier", no_argument, NULL, BARRIER},
                                             {"layers", required_argument, NULL, LAYERS},
                                             {"hidden", required_argument, NULL, HIDDEN},
                                             {"batch", required_argument, NULL, BATCH},
                                             {"rate", required_argument, NULL, RATE},
                                             {"seed", required_argument, NULL, SEED},
                                             {"steps", required_argument, NULL, STEPS},
                                             {"seconds", required_argument, NULL, SECONDS},
                                             {"compute", required_argument, NULL, COMPUTE},
                                             {"forward", required_argument, NULL, FORWARD},
                                             {"backward", required_argument, NULL, BACKWARD},
                                             {"weight", required_argument, NULL, WEIGHT},
                                             {"optimizer", required_argument, NULL, OPTIMIZER},
                                             {"slow", required_argument, NULL, SLOW},
                                             {"jitter", required_argument, NULL, JITTER},
                                             {"out", required_argument, NULL, OUT},
                                             {"declare", no_argument, NULL, DECLARE},
                                             {"print-loss", no_argument, NULL, PRINT_LOSS},
                                             {"stats", no_argument, NULL, STATS},
                                             {"dump-gradients", required_argument, NULL, DUMP},
                                             {"reference", no_argument, NULL, REFERENCE},
                                             {"rank", required_argument, NULL, RANK},
                                             {"rendezvous", required_argument, NULL, RENDEZVOUS},
                                             {"help", no_argument, NULL, HELP},
                                             {NULL, 0, NULL, 0}};

static int parse_training(struct options *o, int code, char *value, struct failure *why) {
  int number;
  double real;
  switch (code) {
  case LAYERS: return parse_int("--layers", value, 1, 4096, &o->layers, why);
  case HIDDEN: return parse_int("--hidden", value, 4, 16384, &o->hidden, why);
  case BATCH: return parse_int("--batch", value, 4, 65536, &o->batch, why);
  case RATE: return parse_real("--rate", value, 0, 100, &o->rate, why);
  case SEED:
    if (parse_int("--seed", value, 0, INT32_MAX, &number, why) != 0) return -1;
    o->seed = (uint64_t)number;
    return 0;
  case STEPS:
    if (parse_int("--steps", value, 1, INT32_MAX, &number, why) != 0) return -1;
    o->steps = number;
    return 0;
  case SECONDS:
    if (parse_real("--seconds", value, 0.001, 1e9, &real, why) != 0) return -1;
    o->seconds_ns = (int64_t)(real * 1e9);
    return 0;
  case COMPUTE:
    if (strcmp(value, "real") != 0 && strcmp(value, "timed") != 0)
      return failed(why, "--compute %s: real or timed is needed", value);
    o->timed = strcmp(value, "timed") == 0;
    return 0;
  case FORWARD: return parse_time("--forward", value, &o->forward_ns, why);
  case BACKWARD: return parse_time("--backward", value, &o->backward_ns, why);
  case WEIGHT: return parse_time("--weight", value, &o->weight_ns, why);
  case OPTIMIZER: return parse_time("--optimizer", value, &o->optimizer_ns, why);
  case SLOW: return parse_slow(o, value, why);
  case JITTER:
    if (parse_real("--jitter", value, 0, 99, &real, why) != 0) return -1;
    o->jitter = real / 100;
    return 0;
  default: return failed(why, "unknown option; --help lists them");
  }
}

static int parse_one(struct options *o, int code, char *value, struct failure *why) {
  switch (code) {
  case SCHEDULE: o->schedule = value; return 0;
  case STAGES: return parse_int("--stages", value, 1, MAX_STAGES, &o->stages, why);
  case MICROBATCHES: return parse_int("--microbatches", value, 1, 65536, &o->microbatches, why);
  case CHUNKS: return parse_int("--chunks", value, 1, MAX_CHUNKS, &o->chunks, why);
  case DP: return parse_int("--dp", value, 1, MAX_REPLICAS, &o->replicas, why);
  case SPLIT: o->split_backward = true; return 0;
  case BARRIER: o->barrier = true; return 0;
  case OUT: o->out = value; return 0;
  case DECLARE: o->declare = true; return 0;
  case PRINT_LOSS: o->print_loss = true; return 0;
  case STATS: o->stats = true; return 0;
  case DUMP: o->dump_gradients = value; return 0;
  case REFERENCE: o->reference = true; return 0;
  case RANK: return parse_int("--rank", value, 0, MAX_STAGES * MAX_REPLICAS - 1, &o->rank, why);
  case RENDEZVOUS: return parse_rendezvous(o, value, why);
  default: return parse_training(o, code, value, why);
  }
}

/* A rank of another launcher, as torchrun describes it. */
static int parse_environment(struct options *o, struct failure *why) {
  const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
  if (o->rank < 0 && rank != NULL && parse_int("RANK", rank, 0, 1 << 20, &o->rank, why) != 0) return -1;
  if (o->rank < 0) return 0;
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  if (o->master_port == 0 && port != NULL && parse_int("MASTER_PORT", port, 1, 65535, &o->master_port, why) != 0)
    return -1;
  if (o->master_host == NULL) o->master_host = host != NULL ? host : "127.0.0.1";
  if (o->master_port == 0) return failed(why, "rank %d: --rendezvous HOST:PORT or MASTER_PORT is needed", o->rank);
  int number = options_world(o);
  if (world != NULL && parse_int("WORLD_SIZE", world, 1, 1 << 20, &number, why) != 0) return -1;
  if (number != options_world(o) || o->rank >= number)
    return failed(why, "--stages %d times --dp %d is not the world of %d ranks that this is rank %d of", o->stages,
                  o->replicas, number, o->rank);
  return 0;
}

static int check(const struct options *o, struct failure *why) {
  if (o->hidden % 4 != 0 || o->batch % 4 != 0) return failed(why, "--hidden and --batch must be multiples of 4");
  if (o->timed && (o->print_loss || o->dump_gradients != NULL || o->reference))
    return failed(why, "--compute timed computes nothing: it has no loss and no gradients to show");
  if (!o->timed && o->optimizer_ns != 0) return failed(why, "--optimizer needs --compute timed");
  for (int stage = 0; stage < MAX_STAGES; stage++)
    if (o->slow[stage] != 1 && (!o->timed || stage >= o->stages))
      return failed(why, "--slow needs --compute timed and one of the stages 0 to %d", o->stages - 1);
  return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct failure *why) {
  *o = (struct options){.schedule = "1f1b",
                        .stages = 4,
                        .replicas = 1,
                        .microbatches = 8,
                        .layers = 0,
                        .hidden = 256,
                        .batch = 64,
                        .rate = 0.005,
                        .seed = 1,
                        .forward_ns = 10000000,
                        .backward_ns = 10000000,
                        .weight_ns = 10000000,
                        .rank = -1};
  for (int stage = 0; stage < MAX_STAGES; stage++)
    o->slow[stage] = 1;
  optind = 1;
  opterr = 0;
  for (int code; (code = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
    if (code == HELP || code == 'h') return 1;
    if (code == '?')
      return failed(why, "%s: unknown option, or its value is missing; --help lists them", argv[optind - 1]);
    if (parse_one(o, code, optarg, why) != 0) return -1;
  }
  if (optind < argc) return failed(why, "%s: only options are expected; --help lists them", argv[optind]);
  if (o->chunks == 0) o->chunks = strcmp(o->schedule, "interleaved") == 0 || strcmp(o->schedule, "zb-v") == 0 ? 2 : 1;
  if (o->layers == 0) o->layers = o->stages * o->chunks > 8 ? o->stages * o->chunks : 8;
  if (o->steps == 0) o->steps = o->seconds_ns != 0 ? INT64_MAX : 20;
  if (o->reference) return check(o, why);
  return parse_environment(o, why) != 0 ? -1 : check(o, why);
}

uint64_t options_fingerprint(const struct options *o) {
  char text[512];
  int length = snprintf(text, sizeof text, "%s %d %d %d %d %d %d %d %d %d %.17g %llu %lld %d", o->schedule, o->stages,
                        o->replicas, o->chunks, o->microbatches, o->split_backward, o->barrier, o->layers, o->hidden,
                        o->batch, o->rate, (unsigned long long)o->seed, (long long)o->steps, o->timed);
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (int i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  return hash;
}
