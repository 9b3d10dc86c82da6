/* Causes: what made the run slower than its schedule, and how much it would gain without.
 *
 * Suspects come from medians: how much longer a rank, a stage, a microbatch takes than its peers, a link's messages than
 * those of other links; a suspect must stand out of the noise by SIGMAS. Single delays far longer than an op are pauses,
 * the rest of the time in which ranks were ready and did nothing is the host's. What each costs is then replayed: the run
 * as it was, against the run without it. Medians leave room for pauses, and a replay counts only what was on the way.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_medians.h"
#include "tui/analysis/accounting_theory.h"

enum { MOST_SUSPECTS = 24, MOST_PAUSES = 4 };

#define LEAST_EFFECT 1.02 /* of compute */
#define LEAST_LINK_EFFECT 1.15 /* of messages */
#define LEAST_GAIN 0.002 /* of the interval */

typedef struct suspect {
  bt_account_cause cause;
  double factor; /* what its times are to be divided by */
  int32_t op; /* pauses: the op, with `delay` taken away */
  int64_t delay;
} suspect;

typedef struct inquiry {
  bt_theory *theory;
  const bt_model *model;
  int64_t *host; /* per op: idle before it though all was there */
  double *usual; /* per op: its ratio to the usual of its kind, or NAN */
  double *rank_effect;
  double *stage_effect;
  int64_t kind_median[BT_OTHER + 1];
  suspect suspects[MOST_SUSPECTS];
  size_t suspect_count;
  bt_samples samples; /* room for twice the ops, or the messages */
  bt_effect *effects;
} inquiry;

static suspect *accuse(inquiry *q, bt_cause_kind kind, double factor) {
  if (q->suspect_count == MOST_SUSPECTS) return NULL;
  suspect *s = &q->suspects[q->suspect_count++];
  *s = (suspect){.cause = {.kind = kind,
                           .stage = -1,
                           .to_stage = -1,
                           .rank = -1,
                           .microbatch = -1,
                           .step = BT_UNKNOWN,
                           .factor = factor > 1 ? factor : (double)NAN},
                 .factor = factor,
                 .op = BT_NO_INDEX};
  return s;
}

/* --- suspects -------------------------------------------------------------------------------------------------------- */

static bool is_judged(const inquiry *q, int32_t i) {
  const bt_model_op *op = &q->model->ops[i];
  return q->theory->place[i] != BT_NO_INDEX && bt_code_is_pipeline_op(op->kind) &&
         q->model->steps[q->model->visits[op->visit].step].reported;
}

/* Every op as a multiple of the median of its kind. */
static void find_usual(inquiry *q) {
  const bt_model *model = q->model;
  double *times = q->samples.ratios;
  for (unsigned kind = BT_F; kind <= BT_OTHER; kind++) {
    size_t count = 0;
    for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
      if (model->ops[i].kind == kind && is_judged(q, i)) times[count++] = (double)q->theory->own[i];
    }
    if (count > 0) q->kind_median[kind] = (int64_t)bt_select(times, count, (count - 1) / 2);
  }
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    int64_t median = q->kind_median[model->ops[i].kind];
    q->usual[i] = is_judged(q, i) && median > 0 ? (double)q->theory->own[i] / (double)median : (double)NAN;
  }
}

/* A rank's effect against the other ranks of its stage; a stage's is that of its usual rank. */
static void split_by_stage(inquiry *q, const bt_effect *ranks, size_t count) {
  const bt_model *model = q->model;
  size_t stages = model->out->stage_count;
  bt_effect *of_stage = q->effects + count;
  bt_effect *room = of_stage + count;
  double noise = bt_mean_error(ranks, count);
  for (size_t row = 0; row < stages; row++) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
      if ((size_t)model->ranks[ranks[i].key].row == row) of_stage[n++] = ranks[i];
    }
    q->stage_effect[row] = n > 0 ? bt_usual_of(of_stage, n, room) : 1;
    for (size_t i = 0; i < n; i++) {
      q->rank_effect[of_stage[i].key] = of_stage[i].median;
      if (n < 2 || !bt_stands_out(&of_stage[i], q->stage_effect[row], LEAST_EFFECT, noise)) continue;
      suspect *s = accuse(q, BT_CAUSE_RANK, of_stage[i].median / q->stage_effect[row]);
      if (s == NULL) return;
      s->cause.rank = model->ranks[of_stage[i].key].rank;
      s->cause.stage = model->ranks[of_stage[i].key].stage;
    }
  }
}

static void suspect_ranks_and_stages(inquiry *q) {
  const bt_model *model = q->model;
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    if (!isnan(q->usual[i])) bt_samples_add(&q->samples, model->ops[i].rank, q->usual[i]);
  }
  size_t ranks = bt_find_effects(&q->samples, q->effects);
  double noise = bt_mean_error(q->effects, ranks);
  split_by_stage(q, q->effects, ranks);
  size_t stages = model->out->stage_count;
  bt_effect *of_stage = q->effects;
  for (size_t row = 0; row < stages; row++)
    of_stage[row] = (bt_effect){(int32_t)row, q->stage_effect[row], noise, BT_LEAST_SAMPLES};
  double usual = bt_usual_of(of_stage, stages, of_stage + stages);
  for (size_t row = 0; row < stages; row++) {
    if (stages < 2 || !bt_stands_out(&of_stage[row], usual, LEAST_EFFECT, noise)) continue;
    suspect *s = accuse(q, BT_CAUSE_STAGE, q->stage_effect[row] / usual);
    if (s != NULL) s->cause.stage = model->out->stages[row].stage;
  }
}

static void suspect_microbatches(inquiry *q) {
  const bt_model *model = q->model;
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (isnan(q->usual[i]) || op->microbatch < 0) continue;
    double ratio = q->usual[i] / q->rank_effect[op->rank];
    bt_samples_add(&q->samples, op->microbatch, ratio);
    if (op->kind == BT_FB && op->microbatch_b >= 0) bt_samples_add(&q->samples, op->microbatch_b, ratio);
  }
  size_t found = bt_find_effects(&q->samples, q->effects);
  if (found < 2) return;
  double usual = bt_usual_of(q->effects, found, q->effects + found);
  double noise = bt_mean_error(q->effects, found);
  for (size_t i = 0; i < found; i++) {
    if (!bt_stands_out(&q->effects[i], usual, LEAST_EFFECT, noise)) continue;
    suspect *s = accuse(q, BT_CAUSE_MICROBATCH, q->effects[i].median / usual);
    if (s != NULL) s->cause.microbatch = q->effects[i].key;
  }
}

static int32_t link_key(const bt_model *model, int32_t from, int32_t to) {
  return model->ranks[from].row * (int32_t)model->out->stage_count + model->ranks[to].row;
}

static void suspect_links(inquiry *q) {
  const bt_model *model = q->model;
  if (model->out->stage_count > 46340) return; /* a key would not fit */
  for (size_t i = 0; i < model->p2p_count; i++) {
    const bt_model_p2p *in = &model->p2p[i];
    bool receive = bt_code_is_receive(in->kind);
    if (!receive || in->moved == BT_UNKNOWN || in->end <= model->start || in->start >= model->end) continue;
    bt_samples_add(&q->samples, link_key(model, in->peer, in->rank), (double)in->moved);
  }
  size_t found = bt_find_effects(&q->samples, q->effects);
  if (found < 2) return;
  double usual = bt_usual_of(q->effects, found, q->effects + found);
  double noise = bt_mean_error(q->effects, found);
  for (size_t i = 0; i < found && usual > 0; i++) {
    if (!bt_stands_out(&q->effects[i], usual, LEAST_LINK_EFFECT, noise)) continue;
    suspect *s = accuse(q, BT_CAUSE_LINK, q->effects[i].median / usual);
    if (s == NULL) return;
    s->cause.stage = model->out->stages[q->effects[i].key / (int32_t)model->out->stage_count].stage;
    s->cause.to_stage = model->out->stages[q->effects[i].key % (int32_t)model->out->stage_count].stage;
  }
}

/* --- pauses and the host --------------------------------------------------------------------------------------------- */

static double microbatch_factor(const inquiry *q, const bt_model_op *op) {
  double factor = 1;
  for (size_t i = 0; i < q->suspect_count; i++) {
    const suspect *s = &q->suspects[i];
    if (s->cause.kind != BT_CAUSE_MICROBATCH) continue;
    if (s->cause.microbatch == op->microbatch || (op->kind == BT_FB && s->cause.microbatch == op->microbatch_b)) {
      factor *= s->factor;
    }
  }
  return factor;
}

/* How much longer an op took than it should have, waiting for the host before it included. */
static int64_t delay_of(const inquiry *q, int32_t i) {
  const bt_model_op *op = &q->model->ops[i];
  if (isnan(q->usual[i])) return q->host[i];
  double expected = (double)q->kind_median[op->kind] * q->rank_effect[op->rank] * microbatch_factor(q, op);
  double late = (double)q->theory->own[i] - expected;
  return q->host[i] + (late > 0 ? (int64_t)late : 0);
}

/* The longest single delays, when they are longer than a long op. */
static void suspect_pauses(inquiry *q) {
  const bt_model *model = q->model;
  int64_t least = 0;
  for (unsigned kind = BT_F; kind <= BT_OTHER; kind++) {
    if (q->kind_median[kind] > least) least = q->kind_median[kind];
  }
  int32_t worst[MOST_PAUSES];
  int64_t delays[MOST_PAUSES];
  size_t count = 0;
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    if (q->theory->place[i] == BT_NO_INDEX) continue;
    int64_t delay = delay_of(q, i);
    if (delay <= least || (count == MOST_PAUSES && delay <= delays[count - 1])) continue;
    size_t at = count < MOST_PAUSES ? count++ : count - 1;
    for (; at > 0 && delays[at - 1] < delay; at--) {
      delays[at] = delays[at - 1];
      worst[at] = worst[at - 1];
    }
    delays[at] = delay;
    worst[at] = i;
  }
  for (size_t k = 0; k < count; k++) {
    suspect *s = accuse(q, BT_CAUSE_PAUSE, 1);
    if (s == NULL) return;
    const bt_model_op *op = &model->ops[worst[k]];
    s->cause.rank = model->ranks[op->rank].rank;
    s->cause.stage = model->ranks[op->rank].stage;
    s->cause.microbatch = op->microbatch;
    s->cause.step = model->steps[model->visits[op->visit].step].id;
    s->op = worst[k];
    s->delay = delays[k];
  }
}

static bool is_pause(const inquiry *q, int32_t op) {
  for (size_t i = 0; i < q->suspect_count; i++) {
    if (q->suspects[i].op == op) return true;
  }
  return false;
}

/* All of the host's time but the pauses, and that of messages sent late, which is the sender's; with a stage where most of
 * it is that stage's. */
static void suspect_host(inquiry *q) {
  const bt_model *model = q->model;
  int64_t total = 0;
  int64_t by_stage = 0;
  int32_t stage = -1;
  int64_t *sums = calloc(model->out->stage_count + 1, sizeof *sums);
  if (sums == NULL) return; /* one suspect less */
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    if (is_pause(q, i)) continue;
    sums[model->ranks[model->ops[i].rank].row] += q->host[i];
    for (int32_t half = 2 * i; half < 2 * i + 2; half++) {
      if (q->theory->late[half] > 0) sums[model->ranks[q->theory->sender[half]].row] += q->theory->late[half];
    }
  }
  for (size_t row = 0; row < model->out->stage_count; row++) {
    total += sums[row];
    if (sums[row] <= by_stage) continue;
    by_stage = sums[row];
    stage = model->out->stages[row].stage;
  }
  free(sums);
  if (total == 0) return;
  suspect *s = accuse(q, BT_CAUSE_HOST, 1);
  if (s != NULL && model->out->stage_count > 1 && by_stage * 2 > total) s->cause.stage = stage;
}

/* --- what each costs ------------------------------------------------------------------------------------------------- */

static bool concerns(const inquiry *q, const suspect *s, const bt_model_op *op) {
  switch (s->cause.kind) {
  case BT_CAUSE_STAGE: return q->model->ranks[op->rank].stage == s->cause.stage;
  case BT_CAUSE_RANK: return q->model->ranks[op->rank].rank == s->cause.rank;
  case BT_CAUSE_MICROBATCH:
    return op->microbatch == s->cause.microbatch || (op->kind == BT_FB && op->microbatch_b == s->cause.microbatch);
  default: return false;
  }
}

/* Costs as they were measured, without suspect `s` (NULL: with all). */
static void set_costs(inquiry *q, const suspect *s) {
  const bt_theory *theory = q->theory;
  const bt_model *model = q->model;
  for (int32_t i = 0; i < (int32_t)model->ops_count; i++) {
    if (theory->place[i] == BT_NO_INDEX) continue;
    const bt_model_op *op = &model->ops[i];
    size_t lane = (size_t)op->rank * BT_LANES_A_RANK;
    bt_op_cost *cost = &theory->replay->costs[theory->replay->first[lane] + (size_t)theory->place[i]];
    int64_t host = q->host[i];
    cost->duration = theory->own[i];
    if (s != NULL && concerns(q, s, op)) cost->duration = (int64_t)((double)cost->duration / s->factor);
    if (s != NULL && s->cause.kind == BT_CAUSE_HOST && !is_pause(q, i)) host = 0;
    cost->duration += host;
    if (s != NULL && s->op == i) cost->duration -= s->delay < cost->duration ? s->delay : cost->duration;
    cost->sync_duration = theory->call[i] != 0 ? theory->synced[i] : 0;
    bool prompt = s != NULL && s->cause.kind == BT_CAUSE_HOST;
    cost->transfer = theory->moved[2 * i] + (prompt ? 0 : theory->late[2 * i]);
    cost->transfer_b = theory->moved[2 * i + 1] + (prompt ? 0 : theory->late[2 * i + 1]);
    bool links = s != NULL && s->cause.kind == BT_CAUSE_LINK && model->ranks[op->rank].stage == s->cause.to_stage;
    for (int half = 0; links && half < 2; half++) {
      int32_t from = theory->sender[2 * i + half];
      if (from == BT_NO_INDEX || model->ranks[from].stage != s->cause.stage) continue;
      int64_t *transfer = half == 0 ? &cost->transfer : &cost->transfer_b;
      *transfer = (int64_t)((double)*transfer / s->factor);
    }
  }
}

static int64_t run_end(const bt_theory *theory) {
  int64_t last = INT64_MIN;
  bt_replay_run(theory->replay);
  for (size_t lane = 0; lane < theory->lane_count; lane++) {
    if (theory->lanes[lane].count == 0) continue;
    int64_t end = bt_replay_lane_end(theory->replay, lane);
    if (end > last) last = end;
  }
  return last;
}

static int64_t end_without(inquiry *q, const suspect *s) {
  set_costs(q, s);
  return run_end(q->theory);
}

/* The run with everything at its median: no jitter, no suspect, nothing sent late. */
static int64_t ideal_end(inquiry *q) {
  set_costs(q, NULL);
  const bt_theory *theory = q->theory;
  for (int32_t i = 0; i < (int32_t)q->model->ops_count; i++) {
    const bt_model_op *op = &q->model->ops[i];
    if (theory->place[i] == BT_NO_INDEX || isnan(q->usual[i])) continue;
    size_t lane = (size_t)op->rank * BT_LANES_A_RANK;
    bt_op_cost *cost = &theory->replay->costs[theory->replay->first[lane] + (size_t)theory->place[i]];
    cost->duration = q->kind_median[op->kind];
    cost->transfer = theory->moved[2 * i];
    cost->transfer_b = theory->moved[2 * i + 1];
  }
  return run_end(theory);
}

static int compare_cause(const void *a, const void *b) {
  const bt_account_cause *x = a;
  const bt_account_cause *y = b;
  if (x->excess_ns != y->excess_ns) return x->excess_ns < y->excess_ns ? 1 : -1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->stage < y->stage ? -1 : x->stage > y->stage;
}

static bool weigh(inquiry *q) {
  bt_accounting *out = q->model->out;
  out->causes = calloc(q->suspect_count + 1, sizeof *out->causes);
  if (out->causes == NULL) return false;
  if (q->suspect_count == 0) return true;
  int64_t as_it_was = end_without(q, NULL);
  int64_t excess = as_it_was - ideal_end(q);
  for (size_t i = 0; i < q->suspect_count; i++) {
    int64_t gain = as_it_was - end_without(q, &q->suspects[i]);
    if ((double)gain < LEAST_GAIN * (double)out->interval_ns) continue;
    bt_account_cause *cause = &out->causes[out->cause_count++];
    *cause = q->suspects[i].cause;
    cause->excess_ns = gain * q->model->rank_count;
    cause->share = gain >= excess ? 1 : (double)gain / (double)excess;
  }
  qsort(out->causes, out->cause_count, sizeof *out->causes, compare_cause);
  return true;
}

static void note_host(void *context, bt_class class, int64_t start, int64_t end, int32_t op) {
  inquiry *q = context;
  if (class == BT_CLASS_HOST_GAP && op != BT_NO_INDEX) q->host[op] += end - start;
}

static bool measure_host(inquiry *q) {
  const bt_model *model = q->model;
  bt_model_window *parts = malloc(((size_t)model->step_count + 1) * sizeof *parts);
  if (parts == NULL) return false;
  for (int32_t r = 0; r < model->rank_count; r++) {
    int32_t count = bt_model_parts(model, model->ranks[r].replica, false, parts);
    bt_model_classify(model, r, parts, count, note_host, q);
  }
  free(parts);
  return true;
}

bt_status bt_theory_causes(bt_theory *theory) {
  const bt_model *model = theory->model;
  size_t ops = model->ops_count + 1;
  size_t room = 2 * ops + model->p2p_count;
  inquiry *q = calloc(1, sizeof *q);
  if (q == NULL) return BT_ERR_NOMEM;
  q->theory = theory;
  q->model = model;
  q->host = bt_array_new(ops, sizeof *q->host);
  q->usual = bt_array_new(ops, sizeof *q->usual);
  q->rank_effect = malloc(((size_t)model->rank_count + 1) * sizeof *q->rank_effect);
  q->stage_effect = malloc((model->out->stage_count + 1) * sizeof *q->stage_effect);
  q->effects = bt_array_new((2 * room + 4 * (size_t)model->rank_count), sizeof *q->effects);
  bool fine = q->host != NULL && q->usual != NULL && q->rank_effect != NULL && q->stage_effect != NULL &&
              q->effects != NULL && bt_samples_init(&q->samples, room);
  for (int32_t r = 0; fine && r < model->rank_count; r++)
    q->rank_effect[r] = 1;
  fine = fine && measure_host(q);
  if (fine) {
    find_usual(q);
    suspect_ranks_and_stages(q);
    suspect_microbatches(q);
    suspect_links(q);
    suspect_pauses(q);
    suspect_host(q);
    fine = weigh(q);
  }
  free(q->host);
  free(q->usual);
  free(q->rank_effect);
  free(q->stage_effect);
  bt_samples_free(&q->samples);
  free(q->effects);
  free(q);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
