/* ZB-V for given durations and memory: the Zero Bubble authors' heuristic (arXiv 2401.10241 §6; zbv.py in
 * sail-sg/zero-bubble-pipeline-parallelism), the best of its variants.
 *
 * Rounds of one backward and one forward a stage, of whichever chunk has its message; weight gradients fill gaps, free
 * memory, and keep the worst stage from getting worse. A second run knows the first's bubbles and may use them. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/schedule.h"

/* A microbatch passes a stage four times; a pass goes down the stages (even) or up them (odd). */
enum { F0, F1, B1, B0, PASSES };

typedef struct v_stage {
  int32_t count[PASSES];
  int64_t end, bubble;
  int64_t approved; /* bubble that an earlier run had here; -1: this is a first run */
  double memory;
  size_t weights_from; /* B's before this op have had their W */
  int32_t owed;
} v_stage;

typedef struct v_search {
  bt_schedule *schedule;
  const bt_schedule_params *params;
  bool fill_f, fill_b; /* W before F, before B1, where the gap would make the worst stage worse */
  double limit, w_memory; /* in activations of a chunk */
  v_stage *stages;
  int64_t *ends; /* of every pass: -1 not yet */
  int64_t worst_approved; /* -1: a first run */
  bool stuck; /* the heuristic has nowhere to go */
} v_search;

static bool is_forward(int32_t pass) {
  return pass <= F1;
}

static int64_t *end_of(const v_search *in, int32_t pass, int32_t stage, int32_t microbatch) {
  size_t m = (size_t)in->params->microbatches, p = (size_t)in->params->stages;
  return &in->ends[((size_t)pass * p + (size_t)stage) * m + (size_t)microbatch];
}

/* End of the op on a neighbouring stage that sends to the stage's next op of a pass. NO_SENDER, or NOT_YET. */
enum { NO_SENDER = -2, NOT_YET = -1 };

static int64_t sender_end(const v_search *in, int32_t pass, int32_t stage) {
  int32_t from = pass % 2 == 0 ? stage - 1 : stage + 1, next = in->stages[stage].count[pass];
  if (from < 0 || from >= in->params->stages) return NO_SENDER;
  return next < in->params->microbatches ? *end_of(in, pass, from, next) : NOT_YET;
}

static double memory_change(const v_search *in, int32_t pass) {
  return is_forward(pass) ? 1 : in->w_memory - 1;
}

static bool over_limit(const v_search *in, int32_t stage, int32_t pass) {
  return in->stages[stage].memory + memory_change(in, pass) > in->limit + 1e-9;
}

static void put_weight(v_search *in, int32_t stage) {
  v_stage *at = &in->stages[stage];
  if (at->owed == 0) {
    in->stuck = true;
    return;
  }
  size_t count;
  const bt_op *ops = bt_schedule_order(in->schedule, stage, &count);
  while (ops[at->weights_from].kind != BT_B)
    at->weights_from++;
  const bt_op *of = &ops[at->weights_from++];
  bt_schedule_put(in->schedule, stage, BT_W, of->chunk, of->microbatch);
  at->owed--;
  at->end += in->params->weight;
  at->memory -= in->w_memory;
}

static void put(v_search *in, int32_t pass, int32_t stage) {
  v_stage *at = &in->stages[stage];
  int32_t microbatch = at->count[pass];
  int64_t sent = sender_end(in, pass, stage);
  bool own = microbatch < in->params->microbatches && (pass == F0 || *end_of(in, pass - 1, stage, microbatch) >= 0);
  if (in->stuck || !own || sent == NOT_YET || over_limit(in, stage, pass)) {
    in->stuck = true;
    return;
  }
  int64_t start = at->end;
  if (sent != NO_SENDER && sent + in->params->comm > start) start = sent + in->params->comm;
  if (at->count[F0] > 0) at->bubble += start - at->end;
  at->end = start + (is_forward(pass) ? in->params->forward : in->params->backward);
  at->memory += memory_change(in, pass);
  *end_of(in, pass, stage, microbatch) = at->end;
  bt_schedule_put(in->schedule, stage, is_forward(pass) ? BT_F : BT_B, pass == F1 || pass == B1, microbatch);
  at->count[pass]++;
  if (!is_forward(pass)) at->owed++;
}

static int64_t worst_bubble(const v_search *in) {
  int64_t worst = 0;
  for (int32_t stage = 0; stage < in->params->stages; stage++) {
    if (in->stages[stage].bubble > worst) worst = in->stages[stage].bubble;
  }
  return worst;
}

/* --- warm-up ------------------------------------------------------------------------------------------------------ */

static void first_forwards(v_search *in) {
  int32_t p = in->params->stages, m = in->params->microbatches;
  for (int32_t stage = 0; stage < p; stage++)
    put(in, F0, stage);
  for (int32_t stage = p; stage-- > 0;) {
    const v_stage *at = &in->stages[stage];
    int64_t there = stage + 1 < p ? *end_of(in, F1, stage + 1, 0) + in->params->comm : 0;
    while (stage + 1 < p && !in->stuck && at->memory + 2 + 2 * stage <= in->limit + 1e-9 &&
           at->end + in->params->forward <= there && at->count[F0] < m) {
      for (int32_t above = 0; above <= stage; above++)
        put(in, F0, above);
    }
    put(in, F1, stage);
  }
}

/* Every stage catches up with the one before, both chunks in turn. */
static void level_forwards(v_search *in) {
  int32_t p = in->params->stages, m = in->params->microbatches, pass = F0;
  for (int32_t stage = 1; stage < p; stage++) {
    const int32_t *own = in->stages[stage].count, *before = in->stages[stage - 1].count;
    while (!in->stuck && (own[F0] + own[F1] < before[F0] + before[F1] || (own[F1] <= before[F1] && before[F1] < m))) {
      for (int32_t below = p; below-- > stage;) {
        if (in->stages[below].count[pass] < m) put(in, pass, below);
      }
      pass = F1 - pass;
    }
  }
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

/* Weight gradients into the gap before the stage's next op of a pass. */
static void fill_gap(v_search *in, int32_t pass, int32_t stage, bool eager) {
  v_stage *at = &in->stages[stage];
  int64_t sent = sender_end(in, pass, stage), there = sent + in->params->comm;
  if (sent < 0) return;
  while (at->owed > 0 && there >= at->end + in->params->weight)
    put_weight(in, stage);
  int64_t worst = worst_bubble(in);
  if (in->worst_approved - at->approved > worst) worst = in->worst_approved - at->approved;
  if (at->owed > 0 && there - at->end > worst - at->bubble && eager) put_weight(in, stage);
}

static bool next_is_b0(const v_search *in, int32_t stage) {
  const int32_t *count = in->stages[stage].count;
  if (count[B0] >= count[B1]) return false;
  return stage + 1 == in->params->stages || count[B1] >= in->params->microbatches ||
         sender_end(in, B0, stage) != NOT_YET;
}

static void backward_round(v_search *in, bool *b0) {
  int32_t p = in->params->stages;
  for (int32_t stage = 0; stage < p; stage++) {
    while (!in->stuck && over_limit(in, stage, B1))
      put_weight(in, stage);
    b0[stage] = next_is_b0(in, stage);
  }
  for (int32_t stage = p; stage-- > 0;) {
    if (!b0[stage]) continue;
    fill_gap(in, B0, stage, true);
    put(in, B0, stage);
  }
  for (int32_t stage = 0; stage < p; stage++) {
    if (b0[stage]) continue;
    fill_gap(in, B1, stage, in->fill_b);
    put(in, B1, stage);
  }
}

/* F0, F1, or PASSES: none can be put. */
static int32_t next_forward(const v_search *in, int32_t stage) {
  const int32_t *count = in->stages[stage].count;
  int32_t m = in->params->microbatches;
  if (count[F1] >= m) return PASSES;
  if (count[F1] >= count[F0]) return F0;
  if (stage + 1 == in->params->stages || sender_end(in, F1, stage) >= 0) return F1;
  return count[F0] < m && (stage == 0 || sender_end(in, F0, stage) >= 0) ? F0 : PASSES;
}

static void forward_round(v_search *in) {
  for (int32_t stage = 0; stage < in->params->stages && !in->stuck; stage++) {
    int32_t pass = next_forward(in, stage);
    if (pass == PASSES) continue;
    while (!in->stuck && over_limit(in, stage, pass))
      put_weight(in, stage);
    fill_gap(in, pass, stage, in->fill_f);
    put(in, pass, stage);
  }
}

/* The worst stage's bubble; INT64_MAX: stuck. Leaves the order in the schedule. */
static int64_t run(v_search *in, const int64_t *approved, bool *b0) {
  int32_t p = in->params->stages, m = in->params->microbatches;
  memset(in->stages, 0, (size_t)p * sizeof *in->stages);
  memset(in->schedule->counts, 0, (size_t)p * sizeof *in->schedule->counts);
  memset(in->ends, 0xff, (size_t)p * (size_t)m * PASSES * sizeof *in->ends);
  in->stuck = false;
  in->worst_approved = -1;
  for (int32_t stage = 0; stage < p; stage++) {
    in->stages[stage].approved = approved[stage];
    if (approved[stage] > in->worst_approved) in->worst_approved = approved[stage];
  }
  first_forwards(in);
  level_forwards(in);
  for (int32_t round = 0; round < 2 * m && !in->stuck; round++) {
    backward_round(in, b0);
    forward_round(in);
  }
  for (int32_t stage = 0; stage < p; stage++) {
    while (!in->stuck && in->stages[stage].owed > 0)
      put_weight(in, stage);
  }
  return in->stuck ? INT64_MAX : worst_bubble(in);
}

/* A run as the next one's approval, as long as that helps. `approved`: what this variant's best run went by. */
static int64_t run_variant(v_search *in, int64_t *approved, int64_t *trial, bool *b0) {
  size_t p = (size_t)in->params->stages;
  int64_t best = INT64_MAX;
  memset(trial, 0xff, p * sizeof *trial);
  for (;;) {
    int64_t bubble = run(in, trial, b0), worst = in->worst_approved;
    if (bubble < best) {
      best = bubble;
      memcpy(approved, trial, p * sizeof *approved);
    }
    if (bubble == INT64_MAX || (worst >= 0 && bubble >= worst)) return best;
    for (size_t stage = 0; stage < p; stage++)
      trial[stage] = in->stages[stage].bubble;
  }
}

static bt_status best_variant(v_search *in, int64_t *lists, bool *b0, bt_error *error) {
  size_t p = (size_t)in->params->stages;
  int64_t *best_approved = lists, *approved = lists + p, *trial = lists + 2 * p, best = INT64_MAX;
  int best_way = 0;
  for (int way = 0; way < 4; way++) {
    in->fill_b = way < 2;
    in->fill_f = way % 2 == 0;
    int64_t bubble = run_variant(in, approved, trial, b0);
    if (bubble >= best) continue;
    best = bubble;
    best_way = way;
    memcpy(best_approved, approved, p * sizeof *approved);
  }
  if (best == INT64_MAX) {
    return bt_fail(error, BT_ERR_ARG,
                   "zb-v-auto: no order found for %d stages, %d microbatches and %g activations a stage",
                   in->params->stages, in->params->microbatches, in->params->memory);
  }
  in->fill_b = best_way < 2;
  in->fill_f = best_way % 2 == 0;
  run(in, best_approved, b0);
  return BT_OK;
}

bt_status bt_schedule_zb_v_auto(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  size_t p = (size_t)params->stages, m = (size_t)params->microbatches;
  v_search in = {.schedule = schedule, .params = params, .limit = 2 * params->memory, .w_memory = params->w_memory};
  in.stages = calloc(p, sizeof *in.stages);
  in.ends = calloc(PASSES * p * m, sizeof *in.ends);
  int64_t *lists = calloc(3 * p, sizeof *lists);
  bool *b0 = calloc(p, sizeof *b0);
  bt_status status = in.stages == NULL || in.ends == NULL || lists == NULL || b0 == NULL
                         ? bt_fail(error, BT_ERR_NOMEM, "no memory to search for a schedule")
                         : best_variant(&in, lists, b0, error);
  free(in.stages);
  free(in.ends);
  free(lists);
  free(b0);
  return status;
}
