/* What the user asked for. One struct, the same in every rank except for `rank`. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "samples/train/failure.h"

enum { MAX_STAGES = 64, MAX_REPLICAS = 64, MAX_CHUNKS = 16 };

struct options {
  /* the pipeline */
  const char *schedule;
  int stages, replicas, chunks, microbatches;
  bool split_backward, barrier;
  /* the model and its training */
  int layers, hidden, batch;
  double rate;
  uint64_t seed;
  int64_t steps; /* INT64_MAX: no limit */
  int64_t seconds_ns; /* 0: no limit */
  /* --compute timed: every op waits this long instead of computing */
  bool timed;
  int64_t forward_ns, backward_ns, weight_ns, optimizer_ns;
  double jitter; /* 0.05: each op takes up to 5 % more or less */
  double slow[MAX_STAGES]; /* factor by stage, 1 normal */
  /* capture and output */
  const char *out; /* run directory, NULL: BUBBLETOP_DIR decides */
  bool declare, print_loss, stats;
  const char *dump_gradients; /* directory, NULL: none */
  bool reference; /* train in one process without a pipeline, to compare with */
  /* this process: -1 is the launcher, which starts all the ranks */
  int rank;
  const char *master_host;
  int master_port;
};

static inline int options_world(const struct options *o) {
  return o->stages * o->replicas;
}

/* Ranks are laid out as Megatron does it: the replicas of one stage are neighbours. */
static inline int rank_of(const struct options *o, int stage, int replica) {
  return stage * o->replicas + replica;
}
static inline int stage_of(const struct options *o, int rank) {
  return rank / o->replicas;
}
static inline int replica_of(const struct options *o, int rank) {
  return rank % o->replicas;
}

/* Reads the command line, then RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them.
 * 1: help was asked for. The strings are borrowed from argv and the environment. */
int options_parse(struct options *o, int argc, char **argv, struct failure *why);
void options_help(void);

/* A number that is equal in two processes when their options make one training run. */
uint64_t options_fingerprint(const struct options *o);

#endif
