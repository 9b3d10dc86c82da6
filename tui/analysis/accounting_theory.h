/* Inside the accounting: what theory replays. Lane 0 of a rank is its compute, the others hold its collectives. */
#ifndef BT_ANALYSIS_ACCOUNTING_THEORY_H
#define BT_ANALYSIS_ACCOUNTING_THEORY_H

#include "tui/analysis/accounting_model.h"
#include "tui/analysis/replay.h"

enum { BT_LANES_A_RANK = 4, BT_CUT = -2 /* a collective inside an op */ };

typedef struct bt_theory {
  const bt_model *model; /* the measured one */
  int32_t first_step; /* the first reported */
  /* per op of the model */
  int64_t *own, *synced; /* its work without, and its transfer in, collectives cut out of it */
  uint32_t *call; /* the last of those collectives */
  uint32_t *number; /* per call: its number among the replayed ones, 0 none */
  int32_t *outer; /* the op that it lies in */
  int32_t *place; /* in lane 0 of its rank; BT_NO_INDEX: not replayed */
  int32_t *waits_for; /* a collective */
  /* two per op: transfer of the message for its forward (or only) half and for an FB's backward half, and its sender */
  int64_t *moved;
  int32_t *sender;
  int64_t *late; /* two per op likewise: how long after its producer's end that message was sent */
  /* per collective: its lane and place there; BT_CUT and its op; BT_NO_INDEX: not replayed */
  int32_t *lane_of, *collective_place;
  int32_t next_gate;
  bt_replay_lane *lanes;
  size_t lane_count;
  int64_t *ready; /* per lane; INT64_MIN: nothing ran before */
  bt_op *ops;
  bt_op_link *links;
  bt_replay *replay;
} bt_theory;

bool bt_theory_allocate(bt_theory *theory); /* for its model; false: no memory */
/* Fills in everything from the model but the replay, which is made from the lanes. */
void bt_theory_fill(bt_theory *theory);

/* Fills in the replay's costs: means per stage and kind, or, balanced, per kind over all stages. BT_OK, BT_ERR_NOMEM. */
bt_status bt_theory_costs(bt_theory *theory, bool balanced);
/* What the last costs say of the collectives inside an op. */
int64_t bt_theory_sync_cost(const bt_theory *theory, int32_t op);
/* Fills in the accounting's causes; uses the replay. BT_OK, BT_ERR_NOMEM. */
bt_status bt_theory_causes(bt_theory *theory);
void bt_theory_free(bt_theory *theory);

#endif
