/* What ended later than planned: the plan timed by the replay, laid over every whole step. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/plan_private.h"

typedef struct timing {
  bt_laying *laying;
  bt_replay *replay; /* one lane a stage */
  bt_status status; /* of listing where ops should have been */
  int64_t worst_end; /* when the step's worst op ended: of equally late ones the first counts */
} timing;

/* --- can it be timed? ------------------------------------------------------------------------------------------------ */

static bool host_timed_ops(const bt_laying *laying) {
  const bt_model *model = &laying->model;
  for (size_t i = 0; model->gpu && i < model->ops_count; i++) {
    if (bt_plan_kind(model->ops[i].kind) >= 0 && (model->ops[i].flags & BT_FLAG_GPU_TIMED) == 0) return true;
  }
  return false;
}

/* A kind of the plan of which the run has no duration; BT_NONE: there is none. */
static unsigned unknown_kind(const bt_laying *laying) {
  for (size_t i = 0; i < laying->first[laying->out->stages]; i++) {
    if (bt_plan_duration(laying, laying->ops[i].kind) == BT_UNKNOWN) return laying->ops[i].kind;
  }
  return BT_NONE;
}

static bool has_whole_step(const bt_model *model) {
  for (int32_t i = 0; i < model->step_count; i++) {
    if (model->steps[i].reported && model->steps[i].whole) return true;
  }
  return false;
}

static bool can_be_timed(const bt_laying *laying) {
  bt_plan_overlay *out = laying->out;
  const bt_model *model = &laying->model;
  unsigned unknown = unknown_kind(laying);
  if (!model->aligned) {
    bt_plan_warn(out, "clocks_unaligned", "lateness is withheld: the clocks of the hosts are not aligned");
  } else if (!model->complete) {
    bt_plan_warn(out, "missing_stages", "lateness is withheld: stages have no record");
  } else if (!has_whole_step(model)) {
    bt_plan_warn(out, "no_whole_step", "lateness is withheld: no step is whole");
  } else if (host_timed_ops(laying)) {
    bt_plan_warn(out, "compute_host_timed", "lateness is withheld: ops of this GPU run have host times only");
  } else if (laying->plan_folded || laying->run_folded) {
    bt_plan_warn(out, "backward_untimed", "lateness is withheld: plan and run divide the backward differently");
  } else if (unknown != BT_NONE) {
    bt_plan_warn(out, "duration_unknown", "lateness is withheld: no whole step of the run has %s, the plan does",
                 bt_code_name(unknown));
  } else {
    return true;
  }
  return false;
}

static void set_costs(const timing *t) {
  const bt_laying *laying = t->laying;
  int64_t forward = laying->transfer_f != BT_UNKNOWN ? laying->transfer_f : 0;
  int64_t backward = laying->transfer_b != BT_UNKNOWN ? laying->transfer_b : 0;
  bool messages = false;
  for (size_t i = 0; i < t->replay->op_count; i++) {
    unsigned kind = t->replay->ops[i].kind;
    t->replay->costs[i] = (bt_op_cost){.duration = bt_plan_duration(laying, kind),
                                       .transfer = bt_kind_has_forward(kind) ? forward : backward,
                                       .transfer_b = backward};
    messages |= t->replay->producer[2 * i] != BT_NO_OP || t->replay->producer[2 * i + 1] != BT_NO_OP;
  }
  if (messages && (laying->transfer_f == BT_UNKNOWN || laying->transfer_b == BT_UNKNOWN)) {
    bt_plan_warn(laying->out, "transfer_unknown",
                 "the records do not tell how long messages take: the plan is timed as if they took no time");
  }
}

static bt_status make_replay(timing *t) {
  const bt_laying *laying = t->laying;
  size_t stages = (size_t)laying->out->stages;
  bt_replay_lane *lanes = calloc(stages + 1, sizeof *lanes);
  if (lanes == NULL) return BT_ERR_NOMEM;
  for (size_t s = 0; s < stages; s++) {
    lanes[s] = (bt_replay_lane){
        .ops = laying->ops + laying->first[s], .count = laying->first[s + 1] - laying->first[s], .rank = (int32_t)s};
  }
  bt_error error = {BT_OK, ""};
  bt_status status = bt_replay_new(lanes, stages, &t->replay, &error);
  free(lanes);
  if (status == BT_OK) set_costs(t);
  if (status == BT_OK || status == BT_ERR_NOMEM) return status;
  bt_plan_warn(laying->out, "plan_untimed", "lateness is withheld: the plan cannot run: %.160s", error.text);
  t->replay = NULL;
  return BT_OK;
}

/* --- one pipeline in one step ---------------------------------------------------------------------------------------- */

/* Rank in step: its ops against the plan. Returns the end of the last of them. */
static int64_t compare_rank(timing *t, int32_t visit, bt_plan_step *step) {
  const bt_laying *laying = t->laying;
  const bt_model_rank *rank = &laying->model.ranks[laying->model.visits[visit].rank];
  bt_plan_stage *stage = &laying->out->stage_list[rank->stage];
  int64_t last = INT64_MIN;
  int64_t last_late = 0;
  for (int32_t i = laying->visit_first[visit]; i < laying->visit_first[visit + 1]; i++) {
    int32_t place = laying->places[i];
    if (place == BT_NO_INDEX) continue;
    const bt_model_op *op = &laying->model.ops[laying->visit_ops[i]];
    const bt_op *planned = &laying->ops[laying->first[rank->stage] + (size_t)place];
    int64_t duration = bt_plan_duration(laying, planned->kind);
    int64_t late = op->end - t->replay->times[t->replay->first[rank->stage] + (size_t)place].end;
    stage->longer_ns += op->end - op->start + laying->recompute[laying->visit_ops[i]] - duration;
    stage->planned_ns += duration;
    if (op->end >= last) last_late = late;
    if (op->end > last) last = op->end;
    if (late < step->worst.ns || late <= 0 || (late == step->worst.ns && op->end >= t->worst_end)) continue;
    t->worst_end = op->end;
    step->worst =
        (bt_plan_late){rank->rank,
                       rank->stage,
                       {planned->kind, planned->vstage, planned->microbatch, planned->vstage_b, planned->microbatch_b},
                       late};
  }
  if (last != INT64_MIN) stage->late_ns += last_late;
  return last;
}

/* `ranks`: one a stage. The step begins with the first op of its replica. */
static void compare_pipeline(timing *t, const int32_t *visits, const bt_model_window *window, bt_plan_step *step) {
  const bt_laying *laying = t->laying;
  size_t stages = (size_t)laying->out->stages;
  for (size_t s = 0; s < stages; s++) {
    int64_t ready = laying->visit_ready[visits[s]];
    t->replay->ready[s] = ready > window->start ? ready : window->start;
  }
  bt_replay_run(t->replay);
  int64_t planned_end = window->start;
  int64_t measured_end = window->start;
  for (size_t s = 0; s < stages; s++) {
    if (laying->first[s + 1] > laying->first[s]) {
      int64_t end = bt_replay_lane_end(t->replay, s);
      if (end > planned_end) planned_end = end;
    }
    int64_t last = compare_rank(t, visits[s], step);
    if (last > measured_end) measured_end = last;
    if (laying->displaced != NULL && t->status == BT_OK)
      t->status = bt_plan_list_places(t->laying, t->replay, visits[s]);
  }
  int64_t late = measured_end - planned_end;
  if (step->late_ns != BT_UNKNOWN && late <= step->late_ns) return;
  step->late_ns = late;
  step->planned_ns = planned_end - window->start;
  step->measured_ns = measured_end - window->start;
}

/* --- all of them ----------------------------------------------------------------------------------------------------- */

typedef struct place { /* of a rank in the job */
  int32_t replica, member, stage, rank;
} place;

static int by_place(const void *a, const void *b) {
  const place *x = a;
  const place *y = b;
  if (x->replica != y->replica) return x->replica < y->replica ? -1 : 1;
  if (x->member != y->member) return x->member < y->member ? -1 : 1;
  if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* One rank a stage, from places[0] on: how many of `count` places that takes; 0: places[0] begins no whole pipeline. */
static size_t pipeline_at(const place *places, size_t count, size_t stages) {
  if (count < stages) return 0;
  for (size_t s = 0; s < stages; s++) {
    bool same = places[s].replica == places[0].replica && places[s].member == places[0].member;
    if (!same || places[s].stage != (int32_t)s) return 0;
  }
  return stages;
}

/* visits[step * stages + stage] */
static void gather_visits(const bt_model *model, const place *places, size_t stages, int32_t *visits) {
  for (size_t i = 0; i < stages * (size_t)model->step_count; i++)
    visits[i] = BT_NO_INDEX;
  for (size_t s = 0; s < stages; s++) {
    const bt_model_rank *rank = &model->ranks[places[s].rank];
    for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++)
      visits[(size_t)model->visits[v].step * stages + s] = v;
  }
}

static void compare_all(timing *t, const place *places, size_t count, int32_t *visits) {
  const bt_laying *laying = t->laying;
  const bt_model *model = &laying->model;
  size_t stages = (size_t)laying->out->stages;
  size_t taken;
  for (size_t i = 0; i<count; i += taken> 0 ? taken : 1) {
    taken = pipeline_at(places + i, count - i, stages);
    if (taken == 0) continue;
    gather_visits(model, places + i, stages, visits);
    size_t reported = 0;
    for (int32_t s = 0; s < model->step_count; s++) {
      if (!model->steps[s].reported) continue;
      bt_plan_step *step = &laying->out->steps[reported++];
      const int32_t *of = visits + (size_t)s * stages;
      bool there = model->steps[s].whole;
      for (size_t k = 0; k < stages; k++)
        there &= of[k] != BT_NO_INDEX;
      if (!there) continue;
      if (step->worst.ns == BT_UNKNOWN) step->worst.ns = 0; /* nothing late so far */
      compare_pipeline(t, of, bt_model_window_of(model, places[i].replica, s), step);
    }
  }
}

static void sum_up(bt_plan_overlay *out) {
  for (size_t i = 0; i < out->step_count; i++) {
    const bt_plan_step *step = &out->steps[i];
    if (step->late_ns == BT_UNKNOWN) continue;
    if (out->timed_steps++ == 0) {
      out->planned_ns = out->measured_ns = out->late_ns = 0;
      out->worst = step->worst;
    }
    out->planned_ns += step->planned_ns;
    out->measured_ns += step->measured_ns;
    out->late_ns += step->late_ns;
    if (step->worst.ns > out->worst.ns) out->worst = step->worst;
  }
  out->late_known = out->timed_steps > 0;
  for (int32_t s = 0; !out->late_known && s < out->stages; s++)
    out->stage_list[s].longer_ns = out->stage_list[s].planned_ns = out->stage_list[s].late_ns = BT_UNKNOWN;
  if (!out->late_known) bt_plan_warn(out, "no_pipeline", "lateness is withheld: no replica has one rank a stage");
}

bt_status bt_plan_compare_times(bt_laying *laying) {
  const bt_model *model = &laying->model;
  bt_plan_overlay *out = laying->out;
  timing t = {.laying = laying};
  if (!can_be_timed(laying)) return BT_OK;
  bt_status status = make_replay(&t);
  if (status != BT_OK || t.replay == NULL) return status;
  place *places = malloc(((size_t)model->rank_count + 1) * sizeof *places);
  int32_t *visits = malloc(((size_t)out->stages * (size_t)model->step_count + 1) * sizeof *visits);
  size_t count = 0;
  if (places != NULL && visits != NULL) {
    for (int32_t r = 0; r < model->rank_count; r++) {
      const bt_model_rank *rank = &model->ranks[r];
      if (rank->ops.count > 0) places[count++] = (place){rank->replica, rank->member, rank->stage, r};
    }
    if (count > 0) qsort(places, count, sizeof *places, by_place);
    for (int32_t s = 0; s < out->stages; s++)
      out->stage_list[s].longer_ns = out->stage_list[s].planned_ns = out->stage_list[s].late_ns = 0;
    compare_all(&t, places, count, visits);
    sum_up(out);
    bt_plan_sort_places(out);
    status = t.status;
  } else {
    status = BT_ERR_NOMEM;
  }
  free(places);
  free(visits);
  bt_replay_free(t.replay);
  return status;
}
