#include "tui/analysis/simulate.h"

#include <stdlib.h>

#include "tui/analysis/simulate_plan.h"

void bt_simulation_params_init(bt_simulation_params *params) {
  static const bt_simulation_params defaults = {
      .schedule = {.forward = 10000000, .backward = 10000000, .weight = 10000000},
      .message_bytes = 16 << 20,
      .chunk_bytes = 256 << 20,
      .steps = 1,
      .dp = 1,
      .tp = 1,
      .ranks_per_host = 1,
      .seed = 1,
  };
  *params = defaults;
}

/* splitmix64's finaliser over a sum of odd multiples: cheap, and no order of calls to depend on. */
uint64_t bt_simulation_random(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + a * 0xD1342543DE82EF95u + b * 0xA0761D6478BD642Fu + c * 0xE7037ED1A0B428DBu;
  for (int round = 0; round < 2; round++) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    x += 0x9E3779B97F4A7C15u;
  }
  return x;
}

/* What a random number is for: the first coordinate. */
enum { NOISE_OP, NOISE_MESSAGE, NOISE_MESSAGE_B, NOISE_COLLECTIVE, NOISE_SKEW, NOISE_DRIFT };

/* Uniform in [-1, 1). */
static double noise(const bt_simulation *simulation, uint64_t what, uint64_t b, uint64_t c) {
  uint64_t random = bt_simulation_random(simulation->params.seed, what, b, c);
  return (double)(random >> 11) * 0x1p-52 - 1;
}

static bt_status check_where(const bt_disturbances *disturbances, const char *what, int32_t limit, bt_error *error) {
  for (size_t i = 0; i < disturbances->count; i++) {
    const bt_disturbance *each = &disturbances->items[i];
    if (each->where < 0 || each->where >= limit || each->to < 0 || each->to >= limit) {
      return bt_fail(error, BT_ERR_ARG, "%s: there are only %d, counted from 0", what, limit);
    }
    if (!(each->factor > 0) || each->factor > 1e6 || each->time < 0) {
      return bt_fail(error, BT_ERR_ARG, "%s: a factor must be over 0, and a time not negative", what);
    }
  }
  return BT_OK;
}

static bt_status check(const bt_simulation_params *params, bt_error *error) {
  if (params->steps < 1) return bt_fail(error, BT_ERR_ARG, "at least one step is needed");
  if (params->dp < 1 || params->tp < 1 || params->ranks_per_host < 1) {
    return bt_fail(error, BT_ERR_ARG, "replicas, tensor-parallel members and ranks a host are at least 1");
  }
  int64_t ranks = (int64_t)params->dp * params->tp * params->schedule.stages;
  if (params->dp > BT_SIMULATE_MOST_RANKS || params->tp > BT_SIMULATE_MOST_RANKS || ranks > BT_SIMULATE_MOST_RANKS) {
    return bt_fail(error, BT_ERR_LIMIT, "more than %d ranks", BT_SIMULATE_MOST_RANKS);
  }
  double chunks = params->schedule.chunks > 0 ? params->schedule.chunks : params->family->usual_chunks;
  if (3.0 * (double)ranks * params->schedule.microbatches * chunks > BT_SIMULATE_MOST_OPS) {
    return bt_fail(error, BT_ERR_LIMIT, "more than %d ops a step over all ranks", BT_SIMULATE_MOST_OPS);
  }
  if (params->zero < 0 || params->zero > 3) return bt_fail(error, BT_ERR_ARG, "ZeRO has the stages 1, 2 and 3");
  if (params->zero > 0 && params->dp == 1) {
    return bt_fail(error, BT_ERR_ARG, "ZeRO shards over replicas: give at least two");
  }
  if (!(params->jitter >= 0 && params->jitter < 1) || !(params->comm_jitter >= 0 && params->comm_jitter < 1)) {
    return bt_fail(error, BT_ERR_ARG, "jitter is from 0 to below 100 %%");
  }
  if (params->skew < 0 || !(params->drift >= 0 && params->drift < 0.1)) {
    return bt_fail(error, BT_ERR_ARG, "skew and drift must not be negative, drift below 100000 ppm");
  }
  int32_t stages = params->schedule.stages;
  bt_status status = check_where(&params->slow_stages, "slow stages", stages, error);
  if (status == BT_OK) status = check_where(&params->slow_ranks, "slow ranks", (int32_t)ranks, error);
  if (status == BT_OK) status = check_where(&params->slow_links, "slow links' stages", stages, error);
  if (status == BT_OK) status = check_where(&params->pauses, "pauses' stages", stages, error);
  if (status == BT_OK) {
    status = check_where(&params->slow_microbatches, "slow microbatches", params->schedule.microbatches, error);
  }
  return status;
}

static bt_status make_hosts(bt_simulation *simulation, bt_error *error) {
  const bt_simulation_params *params = &simulation->params;
  simulation->hosts = (simulation->ranks + params->ranks_per_host - 1) / params->ranks_per_host;
  simulation->host = calloc((size_t)simulation->hosts, sizeof *simulation->host);
  if (simulation->host == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for %d hosts", simulation->hosts);
  for (int32_t host = 0; host < simulation->hosts; host++) {
    simulation->host[host].skew = (int64_t)(noise(simulation, NOISE_SKEW, (uint64_t)host, 0) * (double)params->skew);
    simulation->host[host].drift = noise(simulation, NOISE_DRIFT, (uint64_t)host, 0) * params->drift;
  }
  return BT_OK;
}

static bt_status fill(bt_simulation *simulation, bt_error *error) {
  const bt_simulation_params *params = &simulation->params;
  bt_status status = bt_schedule_make(params->family, &params->schedule, &simulation->schedule, error);
  if (status != BT_OK) return status;
  if (simulation->params.collective == 0) simulation->params.collective = params->schedule.forward;
  simulation->ranks = params->schedule.stages * params->dp * params->tp;
  simulation->step = -1;
  size_t ranks = (size_t)simulation->ranks;
  simulation->plans = calloc((size_t)params->schedule.stages, sizeof *simulation->plans);
  simulation->begin = calloc(ranks, sizeof *simulation->begin);
  simulation->end = calloc(ranks, sizeof *simulation->end);
  if (simulation->plans == NULL || simulation->begin == NULL || simulation->end == NULL) {
    return bt_fail(error, BT_ERR_NOMEM, "no memory for %zu ranks", ranks);
  }
  for (int32_t rank = 0; rank < simulation->ranks; rank++)
    simulation->end[rank] = BT_SIMULATE_BEGIN;
  for (int32_t stage = 0; status == BT_OK && stage < params->schedule.stages; stage++)
    status = bt_plan_stage(simulation, stage, error);
  if (status == BT_OK) status = bt_plan_step(simulation, error);
  if (status == BT_OK) status = make_hosts(simulation, error);
  return status;
}

bt_status bt_simulation_new(const bt_simulation_params *params, bt_simulation **out, bt_error *error) {
  *out = NULL;
  bt_status status = check(params, error);
  if (status != BT_OK) return status;
  bt_simulation *simulation = calloc(1, sizeof *simulation);
  if (simulation == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for a simulation");
  simulation->params = *params;
  status = fill(simulation, error);
  if (status == BT_OK) {
    *out = simulation;
  } else {
    bt_simulation_free(simulation);
  }
  return status;
}

void bt_simulation_free(bt_simulation *simulation) {
  if (simulation == NULL) return;
  for (int32_t stage = 0; simulation->plans != NULL && stage < simulation->params.schedule.stages; stage++) {
    free(simulation->plans[stage].ops);
    free(simulation->plans[stage].waits);
    free(simulation->plans[stage].collectives);
  }
  free(simulation->plans);
  bt_schedule_free(simulation->schedule);
  bt_replay_free(simulation->replay);
  free(simulation->host);
  free(simulation->base);
  free(simulation->consumer);
  free(simulation->messages);
  free(simulation->begin);
  free(simulation->end);
  free(simulation->events);
  free(simulation);
}

int32_t bt_simulation_ranks(const bt_simulation *simulation) {
  return simulation->ranks;
}
int32_t bt_simulation_hosts(const bt_simulation *simulation) {
  return simulation->hosts;
}
int32_t bt_simulation_host_of(const bt_simulation *simulation, int32_t rank) {
  return rank / simulation->params.ranks_per_host;
}
const bt_simulated_host *bt_simulation_host(const bt_simulation *simulation, int32_t host) {
  return &simulation->host[host];
}
const bt_schedule *bt_simulation_schedule(const bt_simulation *simulation) {
  return simulation->schedule;
}
int64_t bt_simulation_step_end(const bt_simulation *simulation, int32_t rank) {
  return simulation->end[rank];
}

int64_t bt_simulation_reading(const bt_simulation *simulation, int32_t rank, int64_t time) {
  const bt_simulated_host *host = &simulation->host[bt_simulation_host_of(simulation, rank)];
  return time + host->skew + (int64_t)(host->drift * (double)(time - BT_SIMULATE_BEGIN));
}

void bt_simulation_layout(const bt_simulation *simulation, int32_t rank, bt_layout *layout) {
  const bt_simulation_params *params = &simulation->params;
  bt_place place = bt_place_of(simulation, rank);
  bt_layout_init(layout);
  layout->pp_rank = place.stage;
  layout->pp_size = params->schedule.stages;
  layout->dp_rank = place.replica;
  layout->dp_size = params->dp;
  layout->tp_rank = place.member;
  layout->tp_size = params->tp;
  layout->chunks = simulation->schedule->chunks;
  layout->microbatches = params->schedule.microbatches;
  layout->virtual_stages = simulation->schedule->virtual_stages;
  layout->zero_stage = params->zero;
  layout->w_separable = params->family->splits;
  for (int32_t chunk = 0; chunk < layout->chunks; chunk++)
    layout->vstage[chunk] = simulation->schedule->vstage[place.stage * layout->chunks + chunk];
}

const bt_event *bt_simulation_groups(bt_simulation *simulation, int32_t rank, size_t *count) {
  const bt_simulation_params *params = &simulation->params;
  bt_place place = bt_place_of(simulation, rank);
  int32_t p = params->schedule.stages, dp = params->dp, tp = params->tp;
  bt_run_of_ranks runs[BT_SIMULATED_GROUPS] = {
      [GROUP_PP] = {rank - place.stage * dp * tp, dp * tp, p},
      [GROUP_TP] = {rank - place.member, 1, tp},
      [GROUP_DP] = {rank - place.replica * tp, tp, dp},
      [GROUP_WORLD] = {0, 1, simulation->ranks},
  };
  static const bt_domain domains[BT_SIMULATED_GROUPS] = {BT_DOMAIN_PP, BT_DOMAIN_TP, BT_DOMAIN_DP, BT_DOMAIN_WORLD};
  int32_t own[BT_SIMULATED_GROUPS] = {place.stage, place.member, place.replica, rank};
  *count = 0;
  for (uint32_t group = 0; group < BT_SIMULATED_GROUPS; group++) {
    if (group != GROUP_PP && runs[group].count == 1) continue;
    bt_event *event = &simulation->groups[*count];
    simulation->runs[*count] = runs[group];
    bt_event_init(event, BT_GROUP);
    event->start = BT_SIMULATE_BEGIN;
    event->group = group + 1;
    event->domain = (uint8_t)domains[group];
    event->own_rank = own[group];
    event->count = runs[group].count;
    event->run_count = 1;
    event->runs = &simulation->runs[(*count)++];
  }
  return simulation->groups;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

static int64_t noisy(const bt_simulation *simulation, int64_t duration, double amount, uint64_t what, size_t op) {
  if (amount == 0 || duration == 0) return duration;
  return (int64_t)((double)duration * (1 + amount * noise(simulation, what, (uint64_t)simulation->step, op)) + 0.5);
}

static int64_t pause_of(const bt_simulation *simulation, int32_t rank) {
  bt_place place = bt_place_of(simulation, rank);
  if (place.replica != 0 || place.member != 0 || simulation->step != simulation->params.steps / 2) return 0;
  int64_t time = 0;
  for (size_t i = 0; i < simulation->params.pauses.count; i++) {
    if (simulation->params.pauses.items[i].where == place.stage) time += simulation->params.pauses.items[i].time;
  }
  return time;
}

static void set_costs(bt_simulation *simulation, int32_t rank) {
  const bt_simulation_params *params = &simulation->params;
  bt_replay *replay = simulation->replay;
  for (size_t op = replay->first[rank]; op < replay->first[rank + 1]; op++) {
    bt_op_cost *cost = &replay->costs[op];
    const bt_planned_message *messages = &simulation->messages[2 * op];
    cost->duration = noisy(simulation, simulation->base[op], params->jitter, NOISE_OP, op);
    cost->transfer = noisy(simulation, messages[0].transfer, params->comm_jitter, NOISE_MESSAGE, op);
    cost->transfer_b = noisy(simulation, messages[1].transfer, params->comm_jitter, NOISE_MESSAGE_B, op);
    if (replay->ops[op].kind == BT_HOST) cost->duration = pause_of(simulation, rank);
  }
  size_t lane = (size_t)(simulation->ranks + rank);
  for (size_t op = replay->first[lane]; op < replay->first[lane + 1]; op++)
    replay->costs[op].sync_duration =
        noisy(simulation, simulation->base[op], params->comm_jitter, NOISE_COLLECTIVE, op);
  replay->ready[rank] = simulation->begin[rank];
  replay->ready[lane] = simulation->begin[rank];
}

bool bt_simulation_step(bt_simulation *simulation) {
  if (simulation->step + 1 >= simulation->params.steps) return false;
  simulation->step++;
  for (int32_t rank = 0; rank < simulation->ranks; rank++) {
    simulation->begin[rank] = simulation->end[rank];
    set_costs(simulation, rank);
  }
  bt_replay_run(simulation->replay);
  for (int32_t rank = 0; rank < simulation->ranks; rank++)
    simulation->end[rank] = bt_replay_lane_end(simulation->replay, (size_t)rank);
  return true;
}
