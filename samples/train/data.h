/* A synthetic task, made from the seed: fresh random inputs every step, targets from a fixed small random network. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stddef.h>
#include <stdint.h>

enum { STREAM_WEIGHTS = 1, STREAM_TEACHER, STREAM_INPUTS, STREAM_JITTER };

/* Uniform in [-1, 1): the same for the same arguments in every process. */
double random_value(uint64_t seed, uint64_t stream, uint64_t part, uint64_t index);
void random_fill(float *out, size_t count, float scale, uint64_t seed, uint64_t stream, uint64_t part);

struct teacher {
  int width;
  uint64_t seed;
  float *in, *out; /* TEACHER_UNITS rows of `width` each */
};

/* -1 when memory is short. */
int teacher_make(struct teacher *t, int width, uint64_t seed);
void teacher_free(struct teacher *t);

/* Inputs and targets of the microbatch with this number, counted over steps and replicas. */
void data_inputs(const struct teacher *t, uint64_t number, int rows, float *x);
void data_targets(const struct teacher *t, uint64_t number, int rows, float *target);

#endif
