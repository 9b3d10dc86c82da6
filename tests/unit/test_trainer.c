/* The sample trainer's schedules and arithmetic: orders are complete, can run, idle and keep as much as theory says;
 * messages are numbered alike on both sides; gradients equal finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "samples/train/data.h"
#include "samples/train/model.h"
#include "samples/train/schedule.h"

static struct options sizes(const char *schedule, int stages, int microbatches, int chunks) {
  return (struct options){.schedule = schedule,
                          .stages = stages,
                          .replicas = 1,
                          .chunks = chunks,
                          .microbatches = microbatches,
                          .layers = stages * chunks};
}

static struct plan make(const char *schedule, int stages, int microbatches, int chunks) {
  struct options o = sizes(schedule, stages, microbatches, chunks);
  struct plan plan;
  struct failure why;
  assert_int_equal(plan_make(&plan, &o, &why), 0);
  return plan;
}

enum { MOST_MESSAGES = 1024 };

/* What running the plan by the clock shows. */
struct outcome {
  int idle; /* of the stage that is busy for longest: last end - first start - work */
  int kept[MAX_STAGES]; /* most chunk microbatches whose tape is held */
};

struct run {
  const struct plan *plan;
  int next[MAX_STAGES], clock[MAX_STAGES], start[MAX_STAGES], work[MAX_STAGES], held[MAX_STAGES];
  int sent[8][8][MOST_MESSAGES]; /* time + 1 */
  const struct op *sender[8][8][MOST_MESSAGES];
  int *done[MAX_STAGES]; /* by index in the order: end time + 1 */
};

static bool makes_input_of(const struct op *maker, const struct op *taker) {
  bool backward = taker->kind != OP_F;
  if (maker->microbatch != taker->microbatch || (maker->kind != OP_F) != backward || maker->kind == OP_W) return false;
  return maker->vstage == (backward ? taker->vstage + 1 : taker->vstage - 1);
}

/* When the op's inputs are there; -1: not yet. */
static int ready(const struct run *r, int stage, const struct op *op) {
  const struct order *order = &r->plan->orders[stage];
  int time = r->clock[stage];
  if (op->from.stage >= 0) {
    int sent = r->sent[op->from.stage][stage][op->from.number];
    if (sent == 0) return -1;
    const struct op *sender = r->sender[op->from.stage][stage][op->from.number];
    assert_true(makes_input_of(sender, op));
    assert_int_equal(sender->to_chunk, op->chunk);
    return sent - 1 > time ? sent - 1 : time;
  }
  bool own_forward = op->kind == OP_F, own_backward = op->kind != OP_W, made = !op->handed;
  for (int i = 0; i < r->next[stage]; i++) {
    const struct op *before = &order->ops[i];
    if (op->handed && makes_input_of(before, op)) made = true;
    if (before->microbatch != op->microbatch || before->chunk != op->chunk) continue;
    own_forward |= before->kind == OP_F;
    own_backward |= before->kind == OP_B;
  }
  assert_true(own_forward && own_backward && made);
  return time;
}

static void run_one(struct run *r, int stage, int begin, const int cost[4], struct outcome *outcome) {
  const struct op *op = &r->plan->orders[stage].ops[r->next[stage]];
  if (r->next[stage]++ == 0) r->start[stage] = begin;
  r->clock[stage] = begin + cost[op->kind];
  r->work[stage] += cost[op->kind];
  if (op->to.stage >= 0 && op->to.stage != stage) {
    assert_true(op->to.number < MOST_MESSAGES);
    assert_int_equal(r->sent[stage][op->to.stage][op->to.number], 0);
    r->sent[stage][op->to.stage][op->to.number] = r->clock[stage] + 1;
    r->sender[stage][op->to.stage][op->to.number] = op;
  }
  r->held[stage] += op->kind == OP_F ? 1 : op->kind == OP_W || op->kind == OP_BW ? -1 : 0;
  if (r->held[stage] > outcome->kept[stage]) outcome->kept[stage] = r->held[stage];
}

/* Runs every op as soon as its input and its stage are ready; fails when nothing can go on. */
static struct outcome simulate(const struct plan *plan, int f, int b, int w) {
  const int cost[4] = {[OP_F] = f, [OP_B] = b, [OP_W] = w, [OP_BW] = b + w};
  struct run *r = calloc(1, sizeof *r);
  struct outcome outcome = {0};
  assert_non_null(r);
  r->plan = plan;
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < plan->stages; stage++) {
      if (r->next[stage] == plan->orders[stage].count) continue;
      int begin = ready(r, stage, &plan->orders[stage].ops[r->next[stage]]);
      if (begin < 0) continue;
      run_one(r, stage, begin, cost, &outcome);
      moved = true;
    }
  }
  for (int stage = 0; stage < plan->stages; stage++) {
    int idle = r->clock[stage] - r->start[stage] - r->work[stage];
    assert_int_equal(r->next[stage], plan->orders[stage].count);
    assert_int_equal(r->work[stage], plan->chunks * plan->microbatches * (f + b + w));
    assert_int_equal(r->held[stage], 0);
    if (idle > outcome.idle) outcome.idle = idle;
  }
  free(r);
  return outcome;
}

static int idle_of(const char *schedule, int stages, int microbatches, int chunks, int f, int b, int w) {
  struct plan plan = make(schedule, stages, microbatches, chunks);
  struct outcome outcome = simulate(&plan, f, b, w);
  plan_free(&plan);
  return outcome.idle;
}

/* (p-1)(F+B+W), a chunk's F+B+W when interleaved, (p-1)(F+B-W), (p-1)(F+B-2W), and none. */
static void idle_is_what_theory_says(void **state) {
  (void)state;
  for (int p = 2; p <= 6; p++) {
    assert_int_equal(idle_of("gpipe", p, 2 * p, 1, 10, 12, 8), (p - 1) * 30);
    assert_int_equal(idle_of("1f1b", p, 2 * p, 1, 10, 12, 8), (p - 1) * 30);
    assert_int_equal(idle_of("1f1b", p, 3 * p + 1, 1, 10, 12, 8), (p - 1) * 30);
    assert_int_equal(idle_of("interleaved", p, 2 * p, 2, 10, 12, 8), (p - 1) * 30);
    assert_int_equal(idle_of("interleaved", p, 3 * p, 3, 10, 12, 8), (p - 1) * 30);
    assert_int_equal(idle_of("zb-h1", p, 2 * p, 1, 10, 12, 8), (p - 1) * 14);
    assert_int_equal(idle_of("zb-h2", p, 3 * p, 1, 10, 12, 8), (p - 1) * 6);
    assert_int_equal(idle_of("zb-h2", p, 3 * p, 1, 10, 10, 10), 0);
    assert_int_equal(idle_of("zb-v", p, 2 * p, 2, 10, 10, 10), 0);
  }
}

static void memory_is_what_theory_says(void **state) {
  (void)state;
  const int p = 4, m = 12;
  struct plan gpipe = make("gpipe", p, m, 1), even = make("1f1b", p, m, 1), v = make("zb-v", p, m, 2);
  struct outcome a = simulate(&gpipe, 1, 1, 1), b = simulate(&even, 1, 1, 1), c = simulate(&v, 1, 1, 1);
  for (int stage = 0; stage < p; stage++) {
    assert_int_equal(a.kept[stage], m);
    assert_int_equal(b.kept[stage], p - stage);
    assert_true(c.kept[stage] <= 2 * p);
  }
  plan_free(&gpipe);
  plan_free(&even);
  plan_free(&v);
}

/* "F0 F1 …" */
static void spell(const struct order *order, char *text, size_t room) {
  static const char *const names[] = {[OP_F] = "F", [OP_B] = "B", [OP_W] = "W", [OP_BW] = "BW"};
  size_t used = 0;
  for (int i = 0; i < order->count; i++)
    used += (size_t)snprintf(text + used, room - used, "%s%s%d", i > 0 ? " " : "", names[order->ops[i].kind],
                             order->ops[i].microbatch);
}

static void orders_are_the_published_ones(void **state) {
  (void)state;
  char text[512];
  struct plan plan = make("zb-h1", 3, 4, 1);
  spell(&plan.orders[0], text, sizeof text);
  assert_string_equal(text, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  spell(&plan.orders[2], text, sizeof text);
  assert_string_equal(text, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  plan_free(&plan);
  plan = make("interleaved", 2, 2, 2);
  spell(&plan.orders[0], text, sizeof text);
  assert_string_equal(text, "F0 F1 F0 F1 BW0 BW1 BW0 BW1");
  spell(&plan.orders[1], text, sizeof text);
  assert_string_equal(text, "F0 F1 F0 BW0 F1 BW1 BW0 BW1");
  plan_free(&plan);
}

static void impossible_sizes_are_refused(void **state) {
  (void)state;
  struct plan plan;
  struct failure why;
  const struct options bad[] = {sizes("zb-h3", 4, 8, 1),       sizes("zb-h1", 4, 3, 1),       sizes("zb-h2", 4, 6, 1),
                                sizes("interleaved", 4, 6, 2), sizes("interleaved", 4, 8, 1), sizes("1f1b", 4, 8, 2),
                                sizes("zb-v", 4, 8, 1)};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(plan_make(&plan, &bad[i], &why), -1);
  struct options few_layers = sizes("1f1b", 4, 8, 1);
  few_layers.layers = 3;
  assert_int_equal(plan_make(&plan, &few_layers, &why), -1);
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

enum { WIDTH = 8, ROWS = 4, LAYERS = 3, COUNT = WIDTH * ROWS };

static double loss_of(const struct block *b, struct tape *t, const float *x, const float *target, float **gradient) {
  float *input = malloc(COUNT * sizeof *input);
  assert_non_null(input);
  memcpy(input, x, COUNT * sizeof *input);
  *gradient = block_forward(b, t, input);
  assert_non_null(*gradient);
  return loss_and_gradient(*gradient, target, COUNT, 1);
}

/* The tape is emptied by a weight gradient that goes nowhere. */
static double loss_only(const struct block *b, struct tape *t, const float *x, const float *target) {
  float *gradient;
  float *scrap = calloc(block_size(b), sizeof *scrap);
  struct block elsewhere = *b;
  assert_non_null(scrap);
  elsewhere.gradient = scrap;
  double loss = loss_of(b, t, x, target, &gradient);
  free(block_input_gradient(b, t, gradient));
  block_weight_gradient(&elsewhere, t);
  free(scrap);
  return loss;
}

static void assert_slope(const struct block *b, struct tape *t, float *place, float *x, const float *target,
                         double gradient) {
  const float step = 1e-2f, before = *place;
  *place = before + step;
  double above = loss_only(b, t, x, target);
  *place = before - step;
  double below = loss_only(b, t, x, target);
  *place = before;
  double slope = (above - below) / (2 * (double)step);
  assert_true(fabs(slope - gradient) < 2e-3 * (1 + fabs(slope)));
}

static void gradients_are_slopes(void **state) {
  (void)state;
  struct block b = {.layers = LAYERS, .rows = ROWS, .width = WIDTH, .model_ends = true};
  struct parameters p;
  struct tape t;
  float x[COUNT], target[COUNT], *gradient;
  assert_int_equal(parameters_make(&p, block_size(&b)), 0);
  b.value = p.value;
  b.gradient = p.gradient;
  assert_int_equal(tape_make(&t, &b), 0);
  block_initialise(&b, 7);
  random_fill(x, COUNT, 1, 7, STREAM_INPUTS, 0);
  random_fill(target, COUNT, 1, 7, STREAM_INPUTS, 1);
  loss_of(&b, &t, x, target, &gradient);
  float *input_gradient = block_input_gradient(&b, &t, gradient);
  assert_non_null(input_gradient);
  block_weight_gradient(&b, &t);
  for (size_t i = 0; i < p.count; i++)
    assert_slope(&b, &t, &p.value[i], x, target, (double)p.gradient[i]);
  for (size_t i = 0; i < COUNT; i++)
    assert_slope(&b, &t, &x[i], x, target, (double)input_gradient[i]);
  free(input_gradient);
  tape_free(&t, &b);
  parameters_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idle_is_what_theory_says),      cmocka_unit_test(memory_is_what_theory_says),
      cmocka_unit_test(orders_are_the_published_ones), cmocka_unit_test(impossible_sizes_are_refused),
      cmocka_unit_test(gradients_are_slopes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
