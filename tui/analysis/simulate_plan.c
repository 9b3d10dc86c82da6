#include "tui/analysis/simulate_plan.h"

#include <stdlib.h>
#include <string.h>

/* --- one stage ---------------------------------------------------------------------------------------------------- */

static void add_collective(bt_stage_plan *plan, bt_planned_collective collective) {
  collective.number = plan->per_step[collective.group]++;
  plan->collectives[plan->collective_count++] = collective;
}

static void add_op(bt_stage_plan *plan, bt_op op, uint32_t waits) {
  plan->ops[plan->op_count] = op;
  plan->waits[plan->op_count++] = waits;
}

static bool makes_weight_gradient(unsigned kind) {
  return kind == BT_W || kind == BT_BW || kind == BT_FB;
}

static bool needs_parameters(unsigned kind) {
  return kind != BT_W;
}

static int32_t gradient_chunk(const bt_op *op) {
  return op->kind == BT_FB ? op->chunk_b : op->chunk;
}

/* The parameters of a chunk (`after`: asked for when that op has ended), or its gradients. */
static void add_dp(const bt_simulation *simulation, bt_stage_plan *plan, bt_code code, int32_t chunk,
                   int32_t microbatch, uint32_t after) {
  const bt_simulation_params *params = &simulation->params;
  bt_planned_collective collective = {code,  GROUP_DP, chunk, microbatch, params->chunk_bytes, params->collective,
                                      after, 0};
  if (code == BT_ALL_REDUCE) collective.duration *= 2; /* a reduce-scatter and an all-gather */
  add_collective(plan, collective);
}

/* ZeRO 3 asks for the parameters of the op after the next one's predecessor: one op ahead. */
static void gather_for(const bt_simulation *simulation, bt_stage_plan *plan, uint32_t op) {
  const bt_op *what = &plan->ops[op];
  if (!needs_parameters(what->kind)) return;
  plan->waits[op] = (uint32_t)plan->collective_count;
  add_dp(simulation, plan, BT_ALL_GATHER, what->chunk, what->microbatch, op < 2 ? BT_NO_OP : op - 2);
}

static void plan_dp(const bt_simulation *simulation, bt_stage_plan *plan, int32_t chunks) {
  int32_t zero = simulation->params.zero;
  int32_t left[BT_MAX_CHUNKS] = {0};
  uint32_t count = (uint32_t)plan->op_count;
  for (uint32_t op = 0; op < count; op++) {
    if (makes_weight_gradient(plan->ops[op].kind)) left[gradient_chunk(&plan->ops[op])]++;
  }
  for (int32_t chunk = 0; chunk < chunks && (zero == 1 || zero == 2); chunk++)
    add_dp(simulation, plan, BT_ALL_GATHER, chunk, -1, BT_NO_OP);
  bool gathered[BT_MAX_CHUNKS] = {false};
  if (zero == 3) gather_for(simulation, plan, 0);
  for (uint32_t op = 0; op < count; op++) {
    const bt_op *what = &plan->ops[op];
    if ((zero == 1 || zero == 2) && what->kind == BT_F && !gathered[what->chunk]) {
      gathered[what->chunk] = true;
      plan->waits[op] = (uint32_t)what->chunk;
    }
    if (zero == 3 && op + 1 < count) gather_for(simulation, plan, op + 1);
    if (!makes_weight_gradient(what->kind)) continue;
    int32_t chunk = gradient_chunk(what), microbatch = what->kind == BT_FB ? what->microbatch_b : what->microbatch;
    bool last = --left[chunk] == 0;
    if (zero >= 2) {
      add_dp(simulation, plan, BT_REDUCE_SCATTER, chunk, microbatch, op);
    } else if (last) {
      add_dp(simulation, plan, zero == 1 ? BT_REDUCE_SCATTER : BT_ALL_REDUCE, chunk, -1, op);
    }
  }
}

static void plan_pauses(const bt_simulation *simulation, bt_stage_plan *plan, int32_t stage) {
  const bt_disturbances *pauses = &simulation->params.pauses;
  bool any = false;
  for (size_t i = 0; i < pauses->count; i++)
    any = any || pauses->items[i].where == stage;
  if (any) add_op(plan, bt_op_make(BT_HOST, -1, -1, -1), BT_NO_OP);
}

static void plan_ops(const bt_simulation *simulation, bt_stage_plan *plan, int32_t stage) {
  size_t count;
  const bt_op *order = bt_schedule_order(simulation->schedule, stage, &count);
  for (size_t i = 0; i < count; i++) {
    if (i == count / 2) plan_pauses(simulation, plan, stage);
    add_op(plan, order[i], BT_NO_OP);
    if (simulation->params.tp > 1 && bt_ends_in_tp_reduce(order[i].kind)) plan->tp_syncs++;
  }
  plan->per_step[GROUP_TP] = plan->tp_syncs;
}

bt_status bt_plan_stage(bt_simulation *simulation, int32_t stage, bt_error *error) {
  bt_stage_plan *plan = &simulation->plans[stage];
  const bt_simulation_params *params = &simulation->params;
  size_t room = simulation->schedule->counts[stage] + 3;
  plan->ops = calloc(room, sizeof *plan->ops);
  plan->waits = calloc(room, sizeof *plan->waits);
  plan->collectives = calloc(2 * room + 2 * BT_MAX_CHUNKS, sizeof *plan->collectives);
  if (plan->ops == NULL || plan->waits == NULL || plan->collectives == NULL) {
    return bt_fail(error, BT_ERR_NOMEM, "no memory to plan %zu ops of a stage", room);
  }
  plan_ops(simulation, plan, stage);
  if (params->dp > 1) plan_dp(simulation, plan, simulation->schedule->chunks);
  if (params->sync) {
    bt_planned_collective norm = {
        BT_ALL_REDUCE, GROUP_WORLD, -1, -1, 4, params->schedule.comm, (uint32_t)plan->op_count - 1, 0};
    add_collective(plan, norm);
  }
  if (plan->collective_count > 0) {
    add_op(plan, bt_op_make(BT_NONE, -1, -1, -1), (uint32_t)plan->collective_count - 1);
  }
  if (params->optimizer > 0) add_op(plan, bt_op_make(BT_OPTIMIZER, -1, -1, -1), BT_NO_OP);
  return BT_OK;
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

/* The lanes of all ranks and the links of their ops, which the replay copies. */
typedef struct lane_builder {
  const bt_simulation *simulation;
  bt_replay_lane *lanes;
  bt_op *collective_ops; /* per stage, one after the other: the longest stage's many */
  size_t longest;
  bt_op_link *links;
  size_t links_used;
} lane_builder;

/* Sync numbers, dense: the tensor-parallel ones of every (stage, replica), the replicas' of every (stage, member), then
 * those of the whole world. Every number is base + its place among the stage's. */
typedef struct sync_bases {
  uint32_t *tp, *dp, world;
} sync_bases;

static uint32_t tp_base(const sync_bases *bases, const bt_simulation *simulation, bt_place place) {
  return bases->tp[place.stage] + (uint32_t)place.replica * simulation->plans[place.stage].tp_syncs;
}

static uint32_t dp_base(const sync_bases *bases, const bt_simulation *simulation, bt_place place) {
  return bases->dp[place.stage] + (uint32_t)place.member * simulation->plans[place.stage].per_step[GROUP_DP];
}

static bool count_syncs(const bt_simulation *simulation, sync_bases *bases) {
  size_t stages = (size_t)simulation->schedule->stages;
  uint32_t next = 1;
  bases->tp = calloc(stages, sizeof *bases->tp);
  bases->dp = calloc(stages, sizeof *bases->dp);
  if (bases->tp == NULL || bases->dp == NULL) return false;
  for (size_t stage = 0; stage < stages; stage++) {
    bases->tp[stage] = next;
    next += simulation->plans[stage].tp_syncs * (uint32_t)simulation->params.dp;
    bases->dp[stage] = next;
    next += simulation->plans[stage].per_step[GROUP_DP] * (uint32_t)simulation->params.tp;
  }
  bases->world = next;
  return true;
}

static void build_compute_lane(lane_builder *build, const sync_bases *bases, int32_t rank) {
  const bt_simulation *simulation = build->simulation;
  bt_place place = bt_place_of(simulation, rank);
  const bt_stage_plan *plan = &simulation->plans[place.stage];
  bt_op_link *links = build->links + build->links_used;
  build->links_used += plan->op_count;
  uint32_t sync = tp_base(bases, simulation, place);
  for (size_t i = 0; i < plan->op_count; i++) {
    bt_op_link link = {BT_NO_OP, plan->waits[i], 0};
    if (plan->waits[i] != BT_NO_OP) link.after_lane = (uint32_t)(simulation->ranks + rank);
    if (simulation->params.tp > 1 && bt_ends_in_tp_reduce(plan->ops[i].kind)) link.sync = sync++;
    links[i] = link;
  }
  bt_replay_lane lane = {plan->ops, links, plan->op_count, rank, place.replica * simulation->params.tp + place.member};
  build->lanes[rank] = lane;
}

static void build_collective_lane(lane_builder *build, const sync_bases *bases, int32_t rank) {
  const bt_simulation *simulation = build->simulation;
  bt_place place = bt_place_of(simulation, rank);
  const bt_stage_plan *plan = &simulation->plans[place.stage];
  bt_op_link *links = build->links + build->links_used;
  build->links_used += plan->collective_count;
  bt_op *ops = build->collective_ops + (size_t)place.stage * build->longest;
  for (size_t i = 0; i < plan->collective_count; i++) {
    const bt_planned_collective *collective = &plan->collectives[i];
    bt_op_link link = {BT_NO_OP, collective->after, 0};
    if (collective->after != BT_NO_OP) link.after_lane = (uint32_t)rank;
    link.sync =
        collective->number + (collective->group == GROUP_WORLD ? bases->world : dp_base(bases, simulation, place));
    links[i] = link;
    ops[i] = bt_op_make(collective->code, collective->chunk, -1, collective->microbatch);
  }
  bt_replay_lane lane = {ops, links, plan->collective_count, rank, -1};
  build->lanes[simulation->ranks + rank] = lane;
}

static bt_status build_replay(bt_simulation *simulation, bt_error *error) {
  size_t ranks = (size_t)simulation->ranks, links = 0;
  lane_builder build = {simulation, calloc(2 * ranks, sizeof *build.lanes), NULL, 0, NULL, 0};
  sync_bases bases = {NULL, NULL, 0};
  for (int32_t stage = 0; stage < simulation->schedule->stages; stage++) {
    const bt_stage_plan *plan = &simulation->plans[stage];
    if (plan->collective_count > build.longest) build.longest = plan->collective_count;
    links += (plan->op_count + plan->collective_count) * ranks / (size_t)simulation->schedule->stages;
  }
  build.links = malloc((links + 1) * sizeof *build.links);
  build.collective_ops =
      malloc((build.longest * (size_t)simulation->schedule->stages + 1) * sizeof *build.collective_ops);
  bt_status status = bt_fail(error, BT_ERR_NOMEM, "no memory to plan %zu ranks", ranks);
  if (build.lanes != NULL && build.links != NULL && build.collective_ops != NULL && count_syncs(simulation, &bases)) {
    for (int32_t rank = 0; rank < simulation->ranks; rank++) {
      build_compute_lane(&build, &bases, rank);
      build_collective_lane(&build, &bases, rank);
    }
    status = bt_replay_new(build.lanes, 2 * ranks, &simulation->replay, error);
  }
  free(build.lanes);
  free(build.links);
  free(build.collective_ops);
  free(bases.tp);
  free(bases.dp);
  return status;
}

static double factor_of(const bt_disturbances *disturbances, int32_t where) {
  double factor = 1;
  for (size_t i = 0; i < disturbances->count; i++) {
    if (disturbances->items[i].where == where) factor *= disturbances->items[i].factor;
  }
  return factor;
}

static double link_factor(const bt_disturbances *links, int32_t from, int32_t to) {
  double factor = 1;
  for (size_t i = 0; i < links->count; i++) {
    if (links->items[i].where == from && links->items[i].to == to) factor *= links->items[i].factor;
  }
  return factor;
}

static double op_duration(const bt_simulation_params *params, const bt_op *op) {
  const bt_schedule_params *times = &params->schedule;
  double own = factor_of(&params->slow_microbatches, op->microbatch);
  switch (op->kind) {
  case BT_F: return own * (double)times->forward;
  case BT_B: return own * (double)times->backward;
  case BT_W: return own * (double)times->weight;
  case BT_BW: return own * (double)(times->backward + times->weight);
  case BT_FB: break;
  default: return 0; /* set where it is used */
  }
  double other = factor_of(&params->slow_microbatches, op->microbatch_b);
  double whole = (double)(times->forward + times->backward + times->weight);
  double apart = own * (double)times->forward + other * (double)(times->backward + times->weight);
  return params->fb == 0 ? apart : whole == 0 ? (double)params->fb : (double)params->fb * apart / whole;
}

static void set_bases(bt_simulation *simulation) {
  const bt_simulation_params *params = &simulation->params;
  bt_replay *replay = simulation->replay;
  for (int32_t rank = 0; rank < simulation->ranks; rank++) {
    bt_place place = bt_place_of(simulation, rank);
    double factor = factor_of(&params->slow_stages, place.stage) * factor_of(&params->slow_ranks, rank);
    for (size_t op = replay->first[rank]; op < replay->first[rank + 1]; op++) {
      double duration = op_duration(params, &replay->ops[op]);
      bool reduced = params->tp > 1 && bt_ends_in_tp_reduce(replay->ops[op].kind);
      if (reduced) replay->costs[op].sync_duration = (int64_t)(duration / 10);
      simulation->base[op] = (int64_t)(factor * (reduced ? duration * 9 / 10 : duration) + 0.5);
      if (replay->ops[op].kind == BT_OPTIMIZER) simulation->base[op] = params->optimizer;
    }
    size_t lane = (size_t)(simulation->ranks + rank);
    for (size_t op = replay->first[lane]; op < replay->first[lane + 1]; op++)
      simulation->base[op] = simulation->plans[place.stage].collectives[op - replay->first[lane]].duration;
  }
}

/* Numbers a rank's messages in the order in which it sends them, by receiver. `sent`: per stage, zeroed. */
static void number_messages(bt_simulation *simulation, int32_t rank, uint32_t *sent) {
  const bt_simulation_params *params = &simulation->params;
  size_t first = 2 * simulation->replay->first[rank], end = 2 * simulation->replay->first[rank + 1];
  int32_t from = bt_place_of(simulation, rank).stage;
  for (int pass = 0; pass < 2; pass++) { /* count, then note what a step has in all */
    for (size_t slot = first; slot < end; slot++) {
      uint32_t half = simulation->consumer[slot];
      if (half == BT_NO_OP) continue;
      int32_t to = bt_place_of(simulation, bt_rank_of_op(simulation, half / 2)).stage;
      bt_planned_message *message = &simulation->messages[half];
      if (pass == 0) {
        double factor = link_factor(&params->slow_links, from, to);
        message->number = sent[to]++;
        message->transfer = (int64_t)(factor * (double)params->schedule.comm + 0.5);
      } else {
        message->per_step = sent[to];
      }
    }
  }
  memset(sent, 0, (size_t)simulation->schedule->stages * sizeof *sent);
}

static bt_status plan_messages(bt_simulation *simulation, bt_error *error) {
  const bt_replay *replay = simulation->replay;
  size_t halves = 2 * replay->op_count;
  uint32_t *sent = calloc((size_t)simulation->schedule->stages, sizeof *sent);
  simulation->consumer = malloc((halves + 1) * sizeof *simulation->consumer);
  simulation->messages = calloc(halves + 1, sizeof *simulation->messages);
  if (sent == NULL || simulation->consumer == NULL || simulation->messages == NULL) {
    free(sent);
    return bt_fail(error, BT_ERR_NOMEM, "no memory for %zu messages", halves);
  }
  memset(simulation->consumer, 0xff, halves * sizeof *simulation->consumer);
  for (size_t half = 0; half < halves; half++) {
    uint32_t sender = replay->producer[half];
    if (sender == BT_NO_OP) continue;
    /* An FB sends both ways: the backward half's message is the one that a backward waits for. */
    bool backward = bt_half_is_backward(&replay->ops[half / 2], half);
    size_t slot = 2 * (size_t)sender + (backward && replay->ops[sender].kind == BT_FB);
    simulation->consumer[slot] = (uint32_t)half;
  }
  for (int32_t rank = 0; rank < simulation->ranks; rank++)
    number_messages(simulation, rank, sent);
  free(sent);
  return BT_OK;
}

bt_status bt_plan_step(bt_simulation *simulation, bt_error *error) {
  bt_status status = build_replay(simulation, error);
  if (status != BT_OK) return status;
  if (simulation->replay->missing > 0) {
    return bt_fail(error, BT_ERR_FORMAT, "%s: %zu ops wait for a message that nobody sends",
                   simulation->params.family->name, simulation->replay->missing);
  }
  simulation->base = calloc(simulation->replay->op_count + 1, sizeof *simulation->base);
  if (simulation->base == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for a step");
  set_bases(simulation);
  return plan_messages(simulation, error);
}
