/* Pipeline schedules: the order of ops on every pipeline rank, and which virtual stage lies where.
 *
 * One file a family (schedule_*.c) writes the orders; each says where its rule comes from. Orders are for one step.
 * Microbatches are numbered from 0. A family that splits the backward emits B and W, the others BW.
 */
#ifndef BT_ANALYSIS_SCHEDULE_H
#define BT_ANALYSIS_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/status.h"
#include "tui/analysis/replay.h"

enum { BT_SCHEDULE_MAX_STAGES = 4096, BT_SCHEDULE_MAX_OPS = 64 * 1024 * 1024 };

/* Where the virtual stages lie. */
typedef enum bt_placement {
  BT_PLACE_LOOP, /* chunk c of stage s is virtual stage c * stages + s (one chunk: the stage itself) */
  BT_PLACE_V, /* two chunks: s and 2 * stages - 1 - s */
  BT_PLACE_BOTH /* two chunks of two directions: s and stages - 1 - s, so every virtual stage lies on two stages */
} bt_placement;

typedef struct bt_schedule_params {
  int32_t stages, microbatches;
  int32_t chunks; /* 0: the family's usual number */
  bool reversed; /* gpipe, looped-bfs: take the microbatches backwards the other way round than the family does */
  bool ragged; /* interleaved: m need be no multiple of p; grouped as PyTorch does it then */
  /* For the timing-driven families (zb-auto, zb-v-auto); of an op of a chunk, and of a message between stages: */
  int64_t forward, backward, weight, comm; /* all zero: 1, 1, 1, 0 */
  double memory; /* limit in activations of one microbatch on one stage (M_B); 0: `stages` of them ("1p") */
  double w_memory; /* share of an activation that W still needs after B (M_W / M_B); 0: the usual share */
} bt_schedule_params;

typedef struct bt_schedule bt_schedule;

typedef struct bt_schedule_family {
  const char *name; /* as in `simulate --schedule` */
  const char *title; /* for people: what it is, how far it follows its source */
  bt_placement placement;
  int32_t least_chunks, most_chunks, usual_chunks;
  bool splits; /* B and W apart (the DualPipes: in part) */
  bool timed; /* the order depends on the durations */
  /* NULL, or why these parameters cannot be (static text); chunks is filled in. */
  const char *(*refuse)(const bt_schedule_params *params);
  bt_status (*make)(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
} bt_schedule_family;

struct bt_schedule {
  const bt_schedule_family *family;
  bt_schedule_params params; /* as used: chunks filled in */
  int32_t stages, chunks, microbatches, virtual_stages;
  int32_t *vstage; /* of chunk c on stage s: vstage[s * chunks + c] */
  bt_op *ops; /* of stage s: ops[s * room], counts[s] of them */
  size_t room;
  size_t *counts;
};

/* All families, the simpler first; ends with a NULL name. */
extern const bt_schedule_family bt_schedule_families[];

/* By name or alias ("1F1B", "ZB-1p", "ZBVZeroBubble", … case and punctuation do not matter); NULL: none. */
const bt_schedule_family *bt_schedule_find(const char *name);

/* Makes the orders. BT_ERR_ARG says which constraint the parameters break; BT_ERR_LIMIT: more than a machine can hold.
 * The caller owns the result. */
bt_status bt_schedule_make(const bt_schedule_family *family, const bt_schedule_params *params, bt_schedule **schedule,
                           bt_error *error);
void bt_schedule_free(bt_schedule *schedule);

static inline const bt_op *bt_schedule_order(const bt_schedule *schedule, int32_t stage, size_t *count) {
  *count = schedule->counts[stage];
  return schedule->ops + (size_t)stage * schedule->room;
}

/* --- for the families --------------------------------------------------------------------------------------------- */

/* Appends an op of a chunk; FB: the second pair is the backward half's. */
void bt_schedule_put(bt_schedule *schedule, int32_t stage, bt_code kind, int32_t chunk, int32_t microbatch);
void bt_schedule_put_fb(bt_schedule *schedule, int32_t stage, int32_t chunk, int32_t microbatch, int32_t chunk_b,
                        int32_t microbatch_b);

bt_status bt_schedule_gpipe(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_1f1b(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_interleaved(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_looped_bfs(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zb_h1(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zb_h2(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_pytorch_zb(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zb_auto(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zb_v(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zb_v_auto(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_v_half(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_v_min(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_zeropp(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_dualpipe(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_dualpipev(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);
bt_status bt_schedule_chimera(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error);

#endif
