/* A training run that never was: parameters in, the records that every rank would have written out.
 *
 * Pure: no I/O, no clock, and the same seed gives the same run everywhere. `bubbletop simulate` writes it to files.
 *
 * What is modelled: a step runs its schedule by the timing engine (replay.h). Ranks are numbered as Megatron does:
 * tensor-parallel members next to each other, then replicas, then stages.
 *   - Messages: SEND from the end of the op that makes the data to its arrival; RECV from when the receiver begins to
 *     wait for it (at the latest when it is sent: receives are posted ahead, so a busy receiver holds nobody up) to its
 *     arrival. A GATE covers the compute lane from where it ran dry to the arrival.
 *   - Tensor parallel: the last tenth of F, B, BW and FB is an ALL_REDUCE over the members, which all wait for.
 *   - Data parallel: one ALL_REDUCE a chunk after its last weight gradient, under what compute is left. ZeRO 1: a
 *     REDUCE_SCATTER instead, and an ALL_GATHER of the parameters at the start of the next step. ZeRO 2: the
 *     REDUCE_SCATTER after every microbatch's weight gradient. ZeRO 3: also an ALL_GATHER for every F and backward,
 *     asked for one op ahead.
 *   - `sync`: an ALL_REDUCE of the whole world (the gradient norm) before the optimizer.
 *   - A pause stops one rank (replica 0, member 0 of the stage) once, in the middle of the middle step.
 */
#ifndef BT_ANALYSIS_SIMULATE_H
#define BT_ANALYSIS_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"
#include "tui/analysis/schedule.h"

/* A step is planned in memory, about 150 bytes an op. */
enum { BT_SIMULATE_MOST_DISTURBANCES = 64, BT_SIMULATE_MOST_RANKS = 1 << 20, BT_SIMULATE_MOST_OPS = 1 << 25 };

/* Something that goes wrong; `to` is used by links only. */
typedef struct bt_disturbance {
  int32_t where, to;
  double factor;
  int64_t time;
} bt_disturbance;

typedef struct bt_disturbances {
  bt_disturbance items[BT_SIMULATE_MOST_DISTURBANCES];
  size_t count;
} bt_disturbances;

typedef struct bt_simulation_params {
  const bt_schedule_family *family;
  bt_schedule_params schedule; /* with the durations of F, B, W and a message */
  int64_t fb; /* of an FB; 0: of F, B and W together */
  int64_t optimizer; /* 0: none */
  int64_t collective; /* of an all-gather or reduce-scatter of one chunk; an all-reduce takes twice as long */
  int64_t message_bytes; /* of one message; tensor-parallel members share it */
  int64_t chunk_bytes; /* of one chunk's gradients */
  int64_t steps;
  bool sync;
  int32_t dp, tp, zero; /* at least 1, 1, 0 */
  double jitter, comm_jitter; /* every duration is uniform in 1 +- this */
  bt_disturbances slow_stages; /* where: stage, factor: of its compute */
  bt_disturbances slow_ranks; /* where: global rank */
  bt_disturbances slow_links; /* where, to: stages; messages from the one to the other */
  bt_disturbances slow_microbatches;
  bt_disturbances pauses; /* where: stage, time */
  int32_t ranks_per_host;
  int64_t skew; /* hosts' clocks are off by uniform +- this */
  double drift; /* and drift by uniform +- this (1e-6: a millionth) */
  uint64_t seed;
} bt_simulation_params;

typedef struct bt_simulated_host {
  int64_t skew; /* reading = true + skew + drift * (true - BT_SIMULATE_BEGIN) */
  double drift;
} bt_simulated_host;

/* True time at which the first step begins, ns; and the wall clock's lead over it. */
#define BT_SIMULATE_BEGIN INT64_C(1000000000000)
#define BT_SIMULATE_EPOCH INT64_C(1700000000000000000)

typedef struct bt_simulation bt_simulation;

/* The defaults of `bubbletop simulate`: 10 ms for F, B and W, free messages, one step of one replica. */
void bt_simulation_params_init(bt_simulation_params *params);

/* BT_ERR_ARG: the parameters make no sense, with the reason. The caller owns the result. */
bt_status bt_simulation_new(const bt_simulation_params *params, bt_simulation **simulation, bt_error *error);
void bt_simulation_free(bt_simulation *simulation);

int32_t bt_simulation_ranks(const bt_simulation *simulation);
int32_t bt_simulation_hosts(const bt_simulation *simulation);
int32_t bt_simulation_host_of(const bt_simulation *simulation, int32_t rank);
const bt_simulated_host *bt_simulation_host(const bt_simulation *simulation, int32_t host);
const bt_schedule *bt_simulation_schedule(const bt_simulation *simulation);

/* What `rank`'s clock shows at a true time. */
int64_t bt_simulation_reading(const bt_simulation *simulation, int32_t rank, int64_t time);

/* The layout that the rank's framework knows (the schedule's name is left out). */
void bt_simulation_layout(const bt_simulation *simulation, int32_t rank, bt_layout *layout);

/* The communicators of a rank, as BT_GROUP records. Borrowed until the next call. */
enum { BT_SIMULATED_GROUPS = 4 };
const bt_event *bt_simulation_groups(bt_simulation *simulation, int32_t rank, size_t *count);

/* Runs the next step. False: all steps have been run. */
bool bt_simulation_step(bt_simulation *simulation);

/* The records of a rank in the step that ran last, in true time and in the order in which they end. Borrowed until the
 * next call. NULL: no memory. */
const bt_event *bt_simulation_events(bt_simulation *simulation, int32_t rank, size_t *count);

/* When the rank's part of the last step ended. */
int64_t bt_simulation_step_end(const bt_simulation *simulation, int32_t rank);

/* A number that depends on nothing but these: for names, ids, noise. */
uint64_t bt_simulation_random(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

#endif
