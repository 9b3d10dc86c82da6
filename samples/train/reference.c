#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samples/train/data.h"
#include "samples/train/rank.h"
#include "samples/train/stage.h"

struct reference {
  struct block model;
  struct tape tape;
  struct parameters parameters;
  struct teacher teacher;
  float *target, *total;
};

static int make(struct reference *r, const struct options *o) {
  r->model = block_of(o, 0, 1);
  size_t count = block_size(&r->model);
  r->target = malloc(activation_size(&r->model) * sizeof(float));
  r->total = malloc(count * sizeof(float));
  if (r->target == NULL || r->total == NULL || tape_make(&r->tape, &r->model) != 0 ||
      parameters_make(&r->parameters, count) != 0 || teacher_make(&r->teacher, o->hidden, o->seed) != 0)
    return -1;
  r->model.value = r->parameters.value;
  r->model.gradient = r->parameters.gradient;
  block_initialise(&r->model, o->seed);
  return 0;
}

static int train_microbatch(struct reference *r, const struct options *o, uint64_t number, double *loss) {
  size_t count = activation_size(&r->model);
  float *x = malloc(count * sizeof *x);
  if (x == NULL) return -1;
  data_inputs(&r->teacher, number, o->batch, x);
  data_targets(&r->teacher, number, o->batch, r->target);
  float *y = block_forward(&r->model, &r->tape, x);
  if (y == NULL) return -1;
  *loss += loss_and_gradient(y, r->target, count, row_weight(o));
  free(block_input_gradient(&r->model, &r->tape, y));
  block_weight_gradient(&r->model, &r->tape);
  return 0;
}

/* Replica by replica, so that gradients are summed in the order in which the replicas' all-reduce sums two of them. */
static int train_step(struct reference *r, const struct options *o, int64_t step, double *loss) {
  size_t bytes = r->parameters.count * sizeof(float);
  *loss = 0;
  memset(r->total, 0, bytes);
  for (int replica = 0; replica < o->replicas; replica++) {
    memset(r->parameters.gradient, 0, bytes);
    for (int microbatch = 0; microbatch < o->microbatches; microbatch++)
      if (train_microbatch(r, o, microbatch_number(o, step, replica, microbatch), loss) != 0) return -1;
    for (size_t i = 0; i < r->parameters.count; i++)
      r->total[i] += r->parameters.gradient[i];
  }
  memcpy(r->parameters.gradient, r->total, bytes);
  parameters_update(&r->parameters, o->rate);
  return 0;
}

int reference_run(const struct options *o) {
  struct reference r = {0};
  struct failure why;
  double loss = 0;
  int status = make(&r, o);
  for (int64_t step = 0; status == 0 && step < o->steps; step++) {
    status = train_step(&r, o, step, &loss);
    if (o->print_loss) printf("step %" PRId64 " loss %.9g\n", step, loss / o->hidden);
  }
  if (status != 0)
    failed(&why, "out of memory");
  else if (o->dump_gradients != NULL)
    status = dump_block(&r.model, o->dump_gradients, 0, &why);
  if (status != 0) fprintf(stderr, "pipeline_train: %s\n", why.text);
  tape_free(&r.tape, &r.model);
  parameters_free(&r.parameters);
  teacher_free(&r.teacher);
  free(r.target);
  free(r.total);
  return status == 0 ? 0 : 1;
}
