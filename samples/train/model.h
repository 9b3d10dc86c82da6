/* The arithmetic: a residual MLP, cut into blocks of layers. Forward, input gradient and weight gradient are apart.
 *
 * A hidden layer is y = x + tanh(x W + b), the model's last one is y = x W + b. All are `width` wide.
 * What a forward leaves for its backward, and B for W, is kept in a tape, one a microbatch and block.
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All numbers that a process trains, one after the other, so that one all-reduce takes them all. */
struct parameters {
  size_t count;
  float *value, *gradient, *velocity; /* gradient has one float more at its end, for the caller */
};

struct block {
  int first_layer, layers, rows, width;
  bool model_begins, model_ends; /* the model's first layer needs no input gradient, its last one has no tanh */
  float *value, *gradient; /* this block's part of the parameters */
};

struct tape {
  float **x; /* input of each layer */
  float **z; /* after F: tanh of each layer; after B: the gradient before the tanh */
};

static inline size_t layer_size(int width) {
  return (size_t)width * (size_t)width + (size_t)width;
}
static inline size_t block_size(const struct block *b) {
  return (size_t)b->layers * layer_size(b->width);
}
static inline size_t activation_size(const struct block *b) {
  return (size_t)b->rows * (size_t)b->width;
}

/* 0, or -1 when memory is short. */
int parameters_make(struct parameters *p, size_t count);
void parameters_free(struct parameters *p);
/* One step of gradient descent with momentum. */
void parameters_update(struct parameters *p, double rate);

/* First values, which depend on the seed and the layer alone, not on how the model is cut. */
void block_initialise(const struct block *b, uint64_t seed);

/* -1 when memory is short. A tape is used again after its weight gradient. */
int tape_make(struct tape *t, const struct block *b);
void tape_free(struct tape *t, const struct block *b);

/* Each takes ownership of its input and returns an output to be freed by the caller, NULL when memory is short. */
float *block_forward(const struct block *b, struct tape *t, float *x);
/* Also NULL, and no error, when the block begins the model. */
float *block_input_gradient(const struct block *b, struct tape *t, float *dy);
/* Adds to the block's gradient and empties the tape. */
void block_weight_gradient(const struct block *b, struct tape *t);

/* Sum of squared differences over 2, times `scale`; turns y into the gradient dy. */
double loss_and_gradient(float *y, const float *target, size_t count, double scale);

#endif
