/* Inside the simulator: one step as lanes of ops, and what the events need to know beside. */
#ifndef BT_ANALYSIS_SIMULATE_PLAN_H
#define BT_ANALYSIS_SIMULATE_PLAN_H

#include "tui/analysis/simulate.h"

/* The groups every rank has, by id - 1. */
enum { GROUP_PP, GROUP_TP, GROUP_DP, GROUP_WORLD };

/* A collective on a stage's collective lane. */
typedef struct bt_planned_collective {
  bt_code code;
  int32_t group, chunk, microbatch;
  int64_t bytes, duration;
  uint32_t after; /* op of the compute lane whose end starts it; BT_NO_OP: the step's start */
  uint32_t number; /* among the rank's collectives of that group in a step */
} bt_planned_collective;

/* What all ranks of a stage do in a step. */
typedef struct bt_stage_plan {
  bt_op *ops; /* the schedule's, then a BT_NONE that waits for collectives, and the optimizer */
  uint32_t *waits; /* per op: the collective it waits for, or BT_NO_OP */
  size_t op_count;
  bt_planned_collective *collectives;
  size_t collective_count, collective_room;
  uint32_t per_step[BT_SIMULATED_GROUPS]; /* collectives of a group in a step */
  uint32_t tp_syncs; /* ops that end in a tensor-parallel all-reduce */
} bt_stage_plan;

/* A message, kept with the op that needs it (as bt_replay.producer is). */
typedef struct bt_planned_message {
  uint32_t number, per_step; /* its sequence is number + step * per_step */
  int64_t transfer; /* undisturbed by noise */
} bt_planned_message;

struct bt_simulation {
  bt_simulation_params params;
  bt_schedule *schedule;
  int32_t ranks, hosts;
  bt_simulated_host *host;
  bt_stage_plan *plans; /* per stage */
  bt_replay *replay; /* compute lanes of all ranks, then their collective lanes */
  int64_t *base; /* per op: undisturbed by noise */
  uint32_t *consumer; /* two per op: which op (and half) takes what it sends: 2 * op + half, or BT_NO_OP */
  bt_planned_message *messages; /* two per op */
  int64_t step; /* the one that ran last; -1 none yet */
  int64_t *begin, *end; /* per rank, of that step */
  bt_event *events;
  size_t event_count, event_room;
  bt_event groups[BT_SIMULATED_GROUPS];
  bt_run_of_ranks runs[BT_SIMULATED_GROUPS];
};

typedef struct bt_place { /* of a rank */
  int32_t stage, replica, member;
} bt_place;

static inline bt_place bt_place_of(const bt_simulation *simulation, int32_t rank) {
  int32_t dp = simulation->params.dp, tp = simulation->params.tp;
  bt_place place = {rank / (dp * tp), rank / tp % dp, rank % tp};
  return place;
}

/* Whose compute lane an op is on. */
static inline int32_t bt_rank_of_op(const bt_simulation *simulation, size_t op) {
  int32_t low = 0, high = simulation->ranks;
  while (high - low > 1) {
    int32_t middle = low + (high - low) / 2;
    if (simulation->replay->first[middle] <= op) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Whether the message that half an op waits for (index 2 * op + half) is a gradient. */
static inline bool bt_half_is_backward(const bt_op *op, size_t half) {
  return half % 2 == 1 || op->kind == BT_B || op->kind == BT_BW;
}

static inline bool bt_ends_in_tp_reduce(unsigned kind) {
  return kind == BT_F || kind == BT_B || kind == BT_BW || kind == BT_FB;
}

/* Fills the plan of one stage: ops, collectives, what waits for what. */
bt_status bt_plan_stage(bt_simulation *simulation, int32_t stage, bt_error *error);

/* Puts the stages' plans together for all ranks; fills replay, base, consumer and messages. */
bt_status bt_plan_step(bt_simulation *simulation, bt_error *error);

#endif
