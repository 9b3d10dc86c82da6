/* The life of one rank, of the launcher that starts all ranks on this machine, and of the reference. */
#ifndef TRAIN_RANK_H
#define TRAIN_RANK_H

#include "samples/train/options.h"

/* Trains as rank o->rank. `listening`: the rendezvous socket, owned by the callee; -1: opened by the address.
 * Each prints its own failure and returns the process's exit status. */
int rank_run(const struct options *o, int listening);

/* Starts all ranks as children and waits for them. */
int launch(const struct options *o);

/* Trains in one process, without pipeline or capture. */
int reference_run(const struct options *o);

#endif
