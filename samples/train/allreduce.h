/* Sums over ranks, captured as ALL_REDUCE spans. The training thread is blocked meanwhile, which a gate says. */
#ifndef TRAIN_ALLREDUCE_H
#define TRAIN_ALLREDUCE_H

#include "samples/train/connect.h"
#include "samples/train/trace.h"

/* Gradients over the replicas of a stage: a ring of reduce-scatter and all-gather. `sequence` counts the calls. */
int all_reduce_gradients(const struct mesh *mesh, const struct trace *trace, const struct options *o, int64_t sequence,
                         float *data, size_t count, struct failure *why);

/* One number over all ranks, which is also a barrier. */
int all_reduce_world(const struct mesh *mesh, const struct trace *trace, int64_t sequence, double *value,
                     struct failure *why);

#endif
