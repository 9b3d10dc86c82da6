#include "samples/train/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "samples/train/data.h"

/* out[j] += a[0] r0[j] + a[1] r1[j] + a[2] r2[j] + a[3] r3[j]: four rows at a time, so that out is loaded once. */
static void add_rows(float *restrict out, const float a[4], const float *restrict rows, int width) {
  const float *r0 = rows, *r1 = rows + width, *r2 = rows + 2 * width, *r3 = rows + 3 * width;
  for (int j = 0; j < width; j++)
    out[j] += a[0] * r0[j] + a[1] * r1[j] + a[2] * r2[j] + a[3] * r3[j];
}

/* y = x w + b */
static void affine(float *y, const float *x, const float *w, const float *b, int rows, int width) {
  for (int i = 0; i < rows; i++, x += width, y += width) {
    memcpy(y, b, (size_t)width * sizeof *y);
    for (int k = 0; k < width; k += 4)
      add_rows(y, x + k, w + (size_t)k * (size_t)width, width);
  }
}

/* dx += dz w^T, four elements at a time */
static void add_transposed(float *dx, const float *dz, const float *w, int rows, int width) {
  for (int i = 0; i < rows; i++, dx += width, dz += width)
    for (int k = 0; k < width; k += 4) {
      const float *w0 = w + (size_t)k * (size_t)width, *w1 = w0 + width, *w2 = w1 + width, *w3 = w2 + width;
      float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (int j = 0; j < width; j++) {
        s0 += dz[j] * w0[j];
        s1 += dz[j] * w1[j];
        s2 += dz[j] * w2[j];
        s3 += dz[j] * w3[j];
      }
      dx[k] += s0, dx[k + 1] += s1, dx[k + 2] += s2, dx[k + 3] += s3;
    }
}

/* dw += x^T dz, db += the columns of dz */
static void add_outer(float *dw, float *db, const float *x, const float *dz, int rows, int width) {
  for (int i = 0; i < rows; i += 4, x += 4 * width, dz += 4 * width) {
    for (int k = 0; k < width; k++) {
      const float column[4] = {x[k], x[k + width], x[k + 2 * width], x[k + 3 * width]};
      add_rows(dw + (size_t)k * (size_t)width, column, dz, width);
    }
    add_rows(db, (const float[4]){1, 1, 1, 1}, dz, width);
  }
}

static bool is_head(const struct block *b, int layer) {
  return b->model_ends && layer == b->layers - 1;
}
static size_t bias_offset(const struct block *b) {
  return (size_t)b->width * (size_t)b->width;
}

int parameters_make(struct parameters *p, size_t count) {
  p->count = count;
  p->value = calloc(count, sizeof(float));
  p->gradient = calloc(count + 1, sizeof(float));
  p->velocity = calloc(count, sizeof(float));
  return p->value != NULL && p->gradient != NULL && p->velocity != NULL ? 0 : -1;
}

void parameters_free(struct parameters *p) {
  free(p->value);
  free(p->gradient);
  free(p->velocity);
  *p = (struct parameters){0};
}

void parameters_update(struct parameters *p, double rate) {
  for (size_t i = 0; i < p->count; i++) {
    p->velocity[i] = 0.9f * p->velocity[i] + p->gradient[i];
    p->value[i] -= (float)rate * p->velocity[i];
  }
}

void block_initialise(const struct block *b, uint64_t seed) {
  float scale = 1 / sqrtf((float)b->width);
  for (int layer = 0; layer < b->layers; layer++) {
    float *value = b->value + (size_t)layer * layer_size(b->width);
    random_fill(value, bias_offset(b), scale, seed, STREAM_WEIGHTS, (uint64_t)(b->first_layer + layer));
    memset(value + bias_offset(b), 0, (size_t)b->width * sizeof *value);
  }
}

int tape_make(struct tape *t, const struct block *b) {
  t->x = calloc((size_t)b->layers, sizeof *t->x);
  t->z = calloc((size_t)b->layers, sizeof *t->z);
  return t->x != NULL && t->z != NULL ? 0 : -1;
}

static void tape_empty(struct tape *t, const struct block *b) {
  for (int layer = 0; layer < b->layers; layer++) {
    free(t->x[layer]);
    free(t->z[layer]);
    t->x[layer] = t->z[layer] = NULL;
  }
}

void tape_free(struct tape *t, const struct block *b) {
  if (t->x != NULL && t->z != NULL) tape_empty(t, b);
  free(t->x);
  free(t->z);
}

float *block_forward(const struct block *b, struct tape *t, float *x) {
  size_t count = activation_size(b);
  for (int layer = 0; layer < b->layers; layer++) {
    const float *w = b->value + (size_t)layer * layer_size(b->width);
    float *y = malloc(count * sizeof *y);
    t->x[layer] = x;
    if (y == NULL) return NULL;
    affine(y, x, w, w + bias_offset(b), b->rows, b->width);
    if (!is_head(b, layer)) {
      float *z = t->z[layer] = malloc(count * sizeof *z);
      if (z == NULL) return free(y), NULL;
      for (size_t i = 0; i < count; i++) {
        z[i] = tanhf(y[i]);
        y[i] = x[i] + z[i];
      }
    }
    x = y;
  }
  return x;
}

float *block_input_gradient(const struct block *b, struct tape *t, float *dy) {
  size_t count = activation_size(b);
  for (int layer = b->layers - 1; layer >= 0; layer--) {
    const float *w = b->value + (size_t)layer * layer_size(b->width);
    bool head = is_head(b, layer);
    float *dx = NULL, *z = t->z[layer];
    if (head) z = t->z[layer] = dy; /* no tanh: the gradient of y is that of x W + b */
    for (size_t i = 0; !head && i < count; i++)
      z[i] = dy[i] * (1 - z[i] * z[i]);
    bool wanted = !(b->model_begins && layer == 0);
    if (head && wanted)
      dx = calloc(count, sizeof *dx);
    else if (!head)
      dx = dy; /* the residual's part is there already */
    if (wanted && dx == NULL) return NULL;
    if (wanted) add_transposed(dx, z, w, b->rows, b->width);
    if (!wanted) {
      free(dx);
      dx = NULL;
    }
    dy = dx;
  }
  return dy;
}

void block_weight_gradient(const struct block *b, struct tape *t) {
  for (int layer = 0; layer < b->layers; layer++) {
    float *dw = b->gradient + (size_t)layer * layer_size(b->width);
    add_outer(dw, dw + bias_offset(b), t->x[layer], t->z[layer], b->rows, b->width);
  }
  tape_empty(t, b);
}

double loss_and_gradient(float *y, const float *target, size_t count, double scale) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    float difference = y[i] - target[i];
    sum += (double)difference * (double)difference;
    y[i] = (float)scale * difference;
  }
  return scale * sum / 2;
}
