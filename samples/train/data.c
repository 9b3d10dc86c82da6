#include "samples/train/data.h"

#include <math.h>
#include <stdlib.h>

enum { TEACHER_UNITS = 4 };

/* SplitMix64's finaliser: a counter turned into a random number. */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double uniform(uint64_t key, uint64_t index) {
  return (double)(mix(key + index) >> 11) * 0x1p-52 - 1;
}

static uint64_t key_of(uint64_t seed, uint64_t stream, uint64_t part) {
  return mix(mix(mix(seed) + stream) + part);
}

double random_value(uint64_t seed, uint64_t stream, uint64_t part, uint64_t index) {
  return uniform(key_of(seed, stream, part), index);
}

void random_fill(float *out, size_t count, float scale, uint64_t seed, uint64_t stream, uint64_t part) {
  uint64_t key = key_of(seed, stream, part);
  for (size_t i = 0; i < count; i++)
    out[i] = scale * (float)uniform(key, i);
}

int teacher_make(struct teacher *t, int width, uint64_t seed) {
  size_t count = (size_t)width * TEACHER_UNITS;
  *t = (struct teacher){width, seed, malloc(count * sizeof(float)), malloc(count * sizeof(float))};
  if (t->in == NULL || t->out == NULL) return -1;
  random_fill(t->in, count, 3 / sqrtf((float)width), seed, STREAM_TEACHER, 0);
  random_fill(t->out, count, 1, seed, STREAM_TEACHER, 1);
  return 0;
}

void teacher_free(struct teacher *t) {
  free(t->in);
  free(t->out);
}

void data_inputs(const struct teacher *t, uint64_t number, int rows, float *x) {
  random_fill(x, (size_t)rows * (size_t)t->width, 1, t->seed, STREAM_INPUTS, number);
}

void data_targets(const struct teacher *t, uint64_t number, int rows, float *target) {
  data_inputs(t, number, rows, target);
  for (int row = 0; row < rows; row++, target += t->width) {
    float unit[TEACHER_UNITS] = {0};
    for (int k = 0; k < TEACHER_UNITS; k++) {
      for (int j = 0; j < t->width; j++)
        unit[k] += t->in[k * t->width + j] * target[j];
      unit[k] = tanhf(unit[k]);
    }
    for (int j = 0; j < t->width; j++) {
      target[j] = 0;
      for (int k = 0; k < TEACHER_UNITS; k++)
        target[j] += t->out[k * t->width + j] * unit[k];
    }
  }
}
