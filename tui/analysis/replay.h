/* The timing engine: when would every op run, given the order on each rank, how long each op takes and how long each
 * message takes?
 *
 * The rule is that of the Zero Bubble paper's scheduling problem (arXiv 2401.10241, equations 4 to 6), extended to
 * chunks, fused and overlapped ops: an op starts at the latest of
 *   - the end of the op before it on its lane,
 *   - for a forward: the end of F of the virtual stage before (same microbatch) + transfer,
 *   - for a backward (B, BW): the end of B or BW of the virtual stage after + transfer, and of its own F,
 *   - for W: the end of its own B,
 *   - for FB: all that its forward half and its backward half need,
 *   - what its link names (`after`), and the lane's `ready` time.
 * A transfer counts only between lanes of different ranks. Nobody ever blocks on a send.
 * An op with a `sync` (a collective, or a tensor-parallel op that ends in one) ends for all members at once: at the
 * latest of their start + duration, plus the longest sync_duration among them.
 *
 * What depends on what is worked out once (bt_replay_new); the times for one set of durations are then one linear pass
 * (bt_replay_run), as often as wished. The simulator, the theory of the accounting and what-if share it.
 */
#ifndef BT_ANALYSIS_REPLAY_H
#define BT_ANALYSIS_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"

/* What is done, where in the model, for which microbatch. Also the element of a schedule's order (schedule.h). */
typedef struct bt_op {
  uint8_t kind; /* BT_F, BT_B, BT_W, BT_BW, BT_FB; any other code has no producers of its own */
  int16_t chunk; /* model chunk on its rank; the replay ignores it */
  int16_t chunk_b; /* BT_FB: of the backward half */
  int32_t vstage; /* virtual stage */
  int32_t microbatch;
  int32_t vstage_b; /* BT_FB: of the backward half */
  int32_t microbatch_b; /* BT_FB: of the backward half */
  int32_t step;
} bt_op;

/* An op with the defaults of all that it does not use. */
static inline bt_op bt_op_make(bt_code kind, int chunk, int vstage, int microbatch) {
  bt_op op = {(uint8_t)kind, (int16_t)chunk, -1, vstage, microbatch, -1, -1, 0};
  return op;
}

#define BT_NO_OP UINT32_MAX

/* Dependencies beyond those that follow from kind, virtual stage and microbatch. */
typedef struct bt_op_link {
  uint32_t after_lane, after_op; /* an op (index within its lane) that must have ended; BT_NO_OP: none */
  uint32_t sync; /* ops of equal sync end together; numbered from 1, 0: none */
} bt_op_link;

/* A sequence of ops that run one after the other: a rank's compute stream, or another stream of it. */
typedef struct bt_replay_lane {
  const bt_op *ops;
  const bt_op_link *links; /* as many as ops, or NULL: none */
  size_t count;
  int32_t rank; /* transfers between lanes of equal rank take no time */
  int32_t pipeline; /* producers are looked for in lanes of equal pipeline: replicas and tensor-parallel members */
} bt_replay_lane;

typedef struct bt_op_cost {
  int64_t duration;
  int64_t transfer; /* of the message that it needs: F's from the stage before, B's or BW's from the one after */
  int64_t transfer_b; /* BT_FB: of the backward half's message */
  int64_t sync_duration; /* of the collective at the end of a synced op */
} bt_op_cost;

typedef struct bt_op_time {
  int64_t start, end;
  int64_t own_end; /* start + duration: differs from end only with a sync */
  int64_t arrival; /* when the last message it needs was there; INT64_MIN: it needs none from another rank */
  uint32_t bound; /* the op whose end (and message) decided the start; BT_NO_OP: the lane's ready time */
} bt_op_time;

/* Ops are numbered through: op k of lane l is first[l] + k. All arrays belong to the replay. */
typedef struct bt_replay {
  size_t lane_count, op_count;
  size_t *first; /* lane_count + 1 */
  bt_op *ops;
  bt_op_cost *costs; /* to be filled in before bt_replay_run; zero at first */
  int64_t *ready; /* per lane: nothing starts before; zero at first */
  bt_op_time *times; /* filled by bt_replay_run */
  uint32_t *producer; /* two per op: the sender of the message for its forward (or only) half, and for an FB's backward
                         half, when that is an op of another rank; BT_NO_OP otherwise */
  size_t missing; /* messages that no op of these lanes sends, though the virtual stage is neither first nor last */
  struct bt_replay_graph *graph;
} bt_replay;

/* Copies the lanes' ops and works out what waits for what, in time and memory linear in the ops. Errors: BT_ERR_ARG
 * (the same op twice; a link to an op that is not there), BT_ERR_FORMAT (deadlock: the ops that wait for each other are
 * named), BT_ERR_NOMEM. The caller owns the result. */
bt_status bt_replay_new(const bt_replay_lane *lanes, size_t lane_count, bt_replay **replay, bt_error *error);
void bt_replay_free(bt_replay *replay);

/* Fills in `times` from `costs` and `ready`. Durations and transfers must not be negative. */
void bt_replay_run(bt_replay *replay);

/* End of a lane's last op in the last run; its ready time when it has none. */
int64_t bt_replay_lane_end(const bt_replay *replay, size_t lane);

#endif
