/* Pipeline schedules: the order in which each stage runs its ops, and which message each op waits for and sends.
 *
 * The plan of one step is the same in every step and every rank, so each rank makes the plan of all stages and knows,
 * without asking, the number of every message: the n-th message from stage a to stage b within a step.
 */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdbool.h>

#include "samples/train/failure.h"
#include "samples/train/options.h"

enum op_kind {
  OP_F, /* forward */
  OP_B, /* gradient of the input */
  OP_W, /* gradient of the weights */
  OP_BW /* both, fused */
};

struct message {
  int stage; /* the other side's; -1: there is no message */
  int number; /* among the messages of a step from the sender to the receiver */
};

struct op {
  enum op_kind kind;
  int microbatch;
  int chunk; /* of this stage */
  int vstage; /* the chunk's place in the model */
  bool handed; /* the input comes from an op of this same stage */
  int to_chunk; /* the receiver's chunk */
  struct message from, to;
};

struct order {
  struct op *ops;
  int count;
};

struct plan {
  int stages, chunks, microbatches;
  bool w_separable;
  struct order *orders; /* one a stage */
  int messages[MAX_STAGES][MAX_STAGES]; /* in a step, from stage to stage */
};

/* Fails with the reason when the schedule is unknown or does not exist for these sizes. Free with plan_free. */
int plan_make(struct plan *plan, const struct options *o, struct failure *why);
void plan_free(struct plan *plan);

/* The place in the model of a chunk: chunk by chunk round the stages, or for zb-v down and up again. */
int plan_vstage(const struct options *o, int stage, int chunk);

static inline int plan_vstages(const struct plan *plan) {
  return plan->stages * plan->chunks;
}

#endif
