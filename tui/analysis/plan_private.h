/* Inside the overlay of a plan: the run's ops by visit (a rank in a step), the plan's by stage, and how they correspond. */
#ifndef BT_ANALYSIS_PLAN_PRIVATE_H
#define BT_ANALYSIS_PLAN_PRIVATE_H

#include "tui/analysis/accounting_model.h"
#include "tui/analysis/plan.h"

enum { BT_PLAN_KINDS = 5 };

/* Index of a kind that plans consist of; -1: another. */
static inline int bt_plan_kind(unsigned kind) {
  return kind >= BT_F && kind <= BT_FB ? (int)kind - BT_F : -1;
}

typedef struct bt_plan_key { /* an op of the plan, to be found by what it is */
  bt_plan_op op;
  int32_t place; /* in its stage's order */
} bt_plan_key;

typedef struct bt_plan_numbers { /* microbatch numbers of a chunk, ascending */
  int32_t *list;
  size_t count, capacity;
} bt_plan_numbers;

typedef struct bt_laying {
  bt_model model;
  bt_plan_overlay *out;
  /* the run */
  int32_t *visit_first; /* per visit, and one more: where its ops begin in visit_ops */
  int32_t *visit_ops; /* indexes of ops of the model, in order of start */
  int32_t *places; /* as visit_ops: of the op in its stage's plan, BT_NO_INDEX none; filled by the order's comparison */
  bool *displaced; /* as visit_ops: it is not of the longest sequence in order; NULL: nobody asks */
  int64_t *visit_ready; /* when the rank was done with earlier steps; INT64_MIN: nothing was before */
  int64_t *recompute; /* per op: recomputation in front of it */
  bool seen[BT_PLAN_KINDS]; /* kinds that the run has */
  bt_plan_numbers run_numbers[BT_MAX_CHUNKS]; /* of the replica's step at hand */
  int64_t duration[BT_PLAN_KINDS]; /* BT_UNKNOWN: none seen */
  int64_t transfer_f, transfer_b; /* BT_UNKNOWN */
  /* the plan */
  bt_op *ops; /* by stage */
  size_t *first; /* per stage, and one more */
  bt_plan_key *keys; /* as ops, each stage's sorted */
  bt_plan_numbers plan_numbers[BT_MAX_CHUNKS];
  bool plan_folded, run_folded; /* one splits the backward, the other does not: its W are passed over, its B are BW */
} bt_laying;

/* plan_run.c: the run's ops by visit, its durations and transfers. BT_OK or BT_ERR_NOMEM. */
bt_status bt_plan_index_run(bt_laying *laying);
bt_status bt_plan_measure(bt_laying *laying);
/* The visits of a replica's step (BT_NO_INDEX: none) -> run_numbers. */
bt_status bt_plan_note_numbers(bt_laying *laying, const int32_t *visits, size_t count);

/* plan_make.c: the plan, for the shape and times of the run. */
bt_status bt_plan_make(bt_laying *laying, const bt_plan_source *source, bt_error *error);

/* plan_order.c, plan_late.c: the comparison. BT_OK or BT_ERR_NOMEM. */
bt_status bt_plan_compare_order(bt_laying *laying);
bt_status bt_plan_compare_times(bt_laying *laying);

/* plan_places.c: lists where a rank's ops of a step should have been, by what the replay came to. BT_OK or BT_ERR_NOMEM. */
bt_status bt_plan_list_places(bt_laying *laying, const bt_replay *replay, int32_t visit);
void bt_plan_sort_places(bt_plan_overlay *overlay);

int bt_plan_compare_op(const bt_plan_op *a, const bt_plan_op *b);
bool bt_plan_add_number(bt_plan_numbers *numbers, int32_t number);
void bt_plan_sort_numbers(bt_plan_numbers *numbers);

/* The planned duration of an op of that kind. */
static inline int64_t bt_plan_duration(const bt_laying *laying, unsigned kind) {
  int index = bt_plan_kind(kind);
  return index >= 0 ? laying->duration[index] : BT_UNKNOWN;
}

static inline int32_t bt_plan_chunk(int32_t chunk) {
  return chunk < 0 ? 0 : chunk;
}

__attribute__((format(printf, 3, 4))) void bt_plan_warn(bt_plan_overlay *overlay, const char *code, const char *format,
                                                        ...);

#endif
