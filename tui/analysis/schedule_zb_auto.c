/* ZB-1p and ZB-2p: the timing-driven heuristic of the Zero Bubble authors (arXiv 2401.10241 §3; `manual_order` of
 * scheduler/zb.py in sail-sg/zero-bubble-pipeline-parallelism), the best of its eight variants.
 *
 * Microbatch by microbatch it puts a forward on every stage from the first to the last, then an input gradient from the
 * last to the first, keeping times as it goes. A weight gradient is put in where it fits a gap, where the gap would make
 * the worst stage worse, or where memory is full. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/schedule.h"

typedef struct variant {
  bool bubble_before_first_b; /* warm up only as long as no forward delays the first B */
  bool prefer_b; /* leave a forward out where the next stage would not need it yet */
  bool greedy; /* W even where the gap would not make the worst stage worse */
} variant;

typedef struct stage_state {
  int32_t f, b, w; /* done so far */
  int64_t end; /* of the last op */
  int64_t begin; /* of the first */
  int64_t bubble; /* idle since the first op */
  double memory;
  int32_t wanted; /* forwards to put in this round */
} stage_state;

typedef struct search {
  bt_schedule *schedule;
  const bt_schedule_params *params;
  variant how;
  double limit, w_memory; /* in activations; B frees 1 - w_memory, W the rest */
  stage_state *stages;
  int64_t *ends[2]; /* of F and B: [stage * microbatches + microbatch] */
  bool stuck; /* memory does not suffice */
} search;

static int64_t duration(const search *in, bt_code kind) {
  const bt_schedule_params *params = in->params;
  return kind == BT_F ? params->forward : kind == BT_B ? params->backward : params->weight;
}

static int64_t *end_of(const search *in, bt_code kind, int32_t stage, int32_t microbatch) {
  return &in->ends[kind == BT_B][(size_t)stage * (size_t)in->params->microbatches + (size_t)microbatch];
}

static double memory_of(const search *in, bt_code kind) {
  return kind == BT_F ? 1 : kind == BT_B ? in->w_memory - 1 : -in->w_memory;
}

/* When the next op of a kind could start for its message; INT64_MIN: it needs none. */
static int64_t arrival(const search *in, bt_code kind, int32_t stage) {
  const stage_state *at = &in->stages[stage];
  if (kind == BT_F && stage > 0) return *end_of(in, BT_F, stage - 1, at->f) + in->params->comm;
  if (kind == BT_B && stage + 1 < in->params->stages) return *end_of(in, BT_B, stage + 1, at->b) + in->params->comm;
  return INT64_MIN;
}

static void put(search *in, int32_t stage, bt_code kind) {
  stage_state *at = &in->stages[stage];
  int64_t start = at->end, ready = arrival(in, kind, stage);
  if (ready > start) start = ready;
  if (at->f > 0) {
    at->bubble += start - at->end;
  } else {
    at->begin = start;
  }
  at->end = start + duration(in, kind);
  at->memory += memory_of(in, kind);
  int32_t microbatch = kind == BT_F ? at->f++ : kind == BT_B ? at->b++ : at->w++;
  if (kind != BT_W) *end_of(in, kind, stage, microbatch) = at->end;
  bt_schedule_put(in->schedule, stage, kind, 0, microbatch);
}

static int64_t worst_bubble(const search *in) {
  int64_t worst = 0;
  for (int32_t stage = 0; stage < in->params->stages; stage++) {
    if (in->stages[stage].bubble > worst) worst = in->stages[stage].bubble;
  }
  return worst;
}

/* --- warm-up ------------------------------------------------------------------------------------------------------ */

/* How many more forwards fit before the first B can be there, from the last stage up. */
static void want_warm_up(search *in) {
  int64_t first_b = 0;
  for (int32_t stage = in->params->stages; stage-- > 0;) {
    stage_state *at = &in->stages[stage];
    if (stage == in->params->stages - 1) {
      first_b = at->end + in->params->backward;
      continue;
    }
    double memory = at->memory;
    int64_t end = at->end, there = first_b + in->params->comm;
    while (at->f + at->wanted < in->params->microbatches && memory + 1 <= in->limit) {
      if (in->how.bubble_before_first_b ? end + in->params->forward > there : end >= there) break;
      memory += 1;
      end += in->params->forward;
      at->wanted++;
    }
    first_b = (end > there ? end : there) + in->params->backward;
  }
}

static void warm_up(search *in) {
  int32_t p = in->params->stages, m = in->params->microbatches;
  for (int32_t stage = 0; stage < p; stage++)
    put(in, stage, BT_F);
  want_warm_up(in);
  for (int32_t stage = 1; stage < p; stage++) { /* each stage stays behind the one before */
    stage_state *at = &in->stages[stage];
    while (at->wanted > 0 && at->wanted >= in->stages[stage - 1].wanted && at->f + at->wanted < m)
      at->wanted--;
  }
  for (int32_t stage = 0; stage < p; stage++) {
    for (; in->stages[stage].wanted > 0; in->stages[stage].wanted--)
      put(in, stage, BT_F);
  }
  for (int32_t stage = p; stage-- > 0;)
    put(in, stage, BT_B);
}

/* --- a microbatch more -------------------------------------------------------------------------------------------- */

/* Whether the forward may be left to a later round: the next stage is well supplied and B would come first. */
static bool leave_forward(const search *in, int32_t stage, int64_t worst) {
  const stage_state *at = &in->stages[stage], *next = at + 1;
  if (!in->how.prefer_b || stage + 1 == in->params->stages || at->f < next->f + 2) return false;
  int64_t next_b = next->end + in->params->forward + in->params->backward + in->params->comm;
  if (at->end >= next_b) return true;
  double memory = at->memory + 1;
  int64_t weights = 0;
  for (int32_t w = at->w; memory > in->limit && w < at->b; w++) {
    weights += in->params->weight;
    memory -= in->w_memory;
  }
  if (at->end + in->params->forward + weights <= next_b) return false;
  return next_b - at->end <= worst - at->bubble;
}

static void want_forwards(search *in) {
  int32_t p = in->params->stages;
  int64_t worst = worst_bubble(in);
  for (int32_t stage = 0; stage < p; stage++) {
    stage_state *at = &in->stages[stage];
    at->wanted = at->f < in->params->microbatches && !leave_forward(in, stage, worst);
  }
  for (int32_t stage = p - 1; stage-- > 0;) { /* no stage gets further ahead than the one after allows */
    if (in->stages[stage + 1].wanted < in->stages[stage].wanted)
      in->stages[stage].wanted = in->stages[stage + 1].wanted;
  }
}

/* Weight gradients before the next op of a kind: to free its memory, and into the gap before its message is there. */
static void weights_before(search *in, int32_t stage, bt_code kind) {
  stage_state *at = &in->stages[stage];
  while (at->memory + memory_of(in, kind) > in->limit + 1e-9) {
    if (at->w >= at->b) {
      in->stuck = true;
      return;
    }
    put(in, stage, BT_W);
  }
  int64_t there = arrival(in, kind, stage);
  while (at->w < at->b && at->end + in->params->weight <= there)
    put(in, stage, BT_W);
  if (at->w < at->b && at->end < there) {
    bool harmless = there - at->end <= worst_bubble(in) - at->bubble;
    if (!harmless || in->how.greedy) put(in, stage, BT_W);
  }
}

static void one_round(search *in) {
  int32_t p = in->params->stages;
  want_forwards(in);
  for (int32_t stage = 0; stage < p && !in->stuck; stage++) {
    if (in->stages[stage].wanted == 0) continue;
    weights_before(in, stage, BT_F);
    put(in, stage, BT_F);
  }
  for (int32_t stage = p; stage-- > 0 && !in->stuck;) {
    stage_state *at = &in->stages[stage];
    weights_before(in, stage, BT_B);
    if (stage == 0 && at->f == in->params->microbatches) {
      while (at->w < at->b)
        put(in, stage, BT_W);
    }
    put(in, stage, BT_B);
  }
}

/* The longest stage's time from first start to last end; INT64_MAX: it cannot be done in this memory. */
static int64_t run(search *in, variant how) {
  int32_t p = in->params->stages, m = in->params->microbatches;
  in->how = how;
  in->stuck = in->limit < 1;
  memset(in->stages, 0, (size_t)p * sizeof *in->stages);
  memset(in->schedule->counts, 0, (size_t)p * sizeof *in->schedule->counts);
  if (!in->stuck) warm_up(in);
  for (int32_t i = 1; i < m && !in->stuck; i++)
    one_round(in);
  int64_t longest = 0;
  for (int32_t stage = 0; stage < p && !in->stuck; stage++) {
    stage_state *at = &in->stages[stage];
    while (at->w < m)
      put(in, stage, BT_W);
    if (at->end - at->begin > longest) longest = at->end - at->begin;
  }
  return in->stuck ? INT64_MAX : longest;
}

static bt_status best_variant(search *in, bt_error *error) {
  variant best = {false, false, false};
  int64_t least = INT64_MAX;
  for (int i = 0; i < 8; i++) {
    variant how = {(i & 4) == 0, (i & 2) == 0, (i & 1) == 0};
    int64_t time = run(in, how);
    if (time >= least) continue;
    least = time;
    best = how;
  }
  if (least == INT64_MAX) {
    return bt_fail(error, BT_ERR_ARG, "zb-auto: memory for %g activations a stage is too little", in->limit);
  }
  run(in, best);
  return BT_OK;
}

bt_status bt_schedule_zb_auto(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  size_t p = (size_t)params->stages, m = (size_t)params->microbatches;
  search in = {.schedule = schedule, .params = params, .limit = params->memory, .w_memory = params->w_memory};
  in.stages = calloc(p, sizeof *in.stages);
  in.ends[0] = calloc(p * m, sizeof **in.ends);
  in.ends[1] = calloc(p * m, sizeof **in.ends);
  bt_status status = in.stages == NULL || in.ends[0] == NULL || in.ends[1] == NULL
                         ? bt_fail(error, BT_ERR_NOMEM, "no memory to search for a schedule")
                         : best_variant(&in, error);
  free(in.stages);
  free(in.ends[0]);
  free(in.ends[1]);
  return status;
}
