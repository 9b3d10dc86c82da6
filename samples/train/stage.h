/* One stage at work: runs the ops of a step in the schedule's order, and the end of the step.
 * The loop in stage_step is the place to look at when you want to instrument a trainer of your own. */
#ifndef TRAIN_STAGE_H
#define TRAIN_STAGE_H

#include <signal.h>

#include "samples/train/model.h"
#include "samples/train/transport.h"

struct stage;

struct stage_report {
  bool last; /* all ranks have agreed that this step was the last one */
  bool has_loss; /* this rank knows the loss */
  double loss; /* of this replica; with --barrier of all */
  uint64_t forwards, backwards, weights, fused; /* ops so far */
};

/* Everything is borrowed until stage_free. `stop` becomes non-zero when the user wants the run to end. */
int stage_make(struct stage **stage, const struct options *o, const struct plan *plan, const struct mesh *mesh,
               struct transport *transport, const struct trace *trace, const volatile sig_atomic_t *stop,
               struct failure *why);
void stage_free(struct stage *s);

int stage_step(struct stage *s, int64_t step, struct stage_report *report, struct failure *why);

/* Writes the gradients of the last step, a file a layer. */
int stage_dump(const struct stage *s, const char *directory, struct failure *why);

/* The same for any block: DIRECTORY/layer-LLL.replica-R.f32, native floats. */
int dump_block(const struct block *b, const char *directory, int replica, struct failure *why);

/* Which layers a virtual stage has. The values and gradients are not set. */
struct block block_of(const struct options *o, int vstage, int vstages);

/* The loss is a mean over all rows of a step: what a row counts. */
static inline double row_weight(const struct options *o) {
  return 1.0 / ((double)o->batch * (double)o->microbatches * (double)o->replicas);
}

/* The number of a microbatch among all that were ever trained. */
static inline uint64_t microbatch_number(const struct options *o, int64_t step, int replica, int microbatch) {
  return ((uint64_t)step * (uint64_t)o->replicas + (uint64_t)replica) * (uint64_t)o->microbatches +
         (uint64_t)microbatch;
}

#endif
