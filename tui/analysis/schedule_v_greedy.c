/* V-Half and V-Min: Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), as the authors' scheduler builds
 * them (zbv_greedy.py in sail-sg/zero-bubble-pipeline-parallelism).
 *
 * A stable pattern of four ops a microbatch (F and B of both chunks), repeated every six slots, has two slots left for W.
 * What its warm-up and cool-down leave empty is closed by moving ops forward ("reorder"), once with W in place and once
 * without, as long as no stage holds more activations than the pattern does; then everything is pushed together
 * ("squeeze"). Slots are of one length, so the order does not depend on durations. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/schedule.h"

/* Types of ops, in the order in which a microbatch passes them on a stage. */
enum { F0, F1, B1, B0, W, W_OF_B0, TYPES };

typedef struct grid {
  int32_t p, m;
  int32_t types; /* 4: no W; 5: both chunks' in W; 6: W is of B1, W_OF_B0 apart */
  int32_t *slots; /* of each stage, type and number: room 2 m a type */
  int32_t *cursors; /* per stage and type: for walks in order of time */
} grid;

static int32_t *slot_at(const grid *of, int32_t stage, int32_t type, int32_t number) {
  return &of->slots[((size_t)stage * TYPES + (size_t)type) * 2 * (size_t)of->m + (size_t)number];
}

static int32_t count_of(const grid *of, int32_t type) {
  return of->types == 5 && type == W ? 2 * of->m : of->m;
}

typedef struct element {
  int32_t stage, type, number, slot;
} element;

static void walk_begin(const grid *of) {
  memset(of->cursors, 0, (size_t)of->p * TYPES * sizeof *of->cursors);
}

/* The next op of stages first up to last, by (slot, stage, type). */
static bool walk_next(const grid *of, int32_t first, int32_t last, element *next) {
  next->slot = INT32_MAX;
  for (int32_t stage = first; stage <= last; stage++) {
    const int32_t *cursors = &of->cursors[stage * TYPES];
    for (int32_t type = 0; type < of->types; type++) {
      if (cursors[type] == count_of(of, type)) continue;
      int32_t slot = *slot_at(of, stage, type, cursors[type]);
      if (slot >= next->slot) continue;
      element found = {stage, type, cursors[type], slot};
      *next = found;
    }
  }
  if (next->slot == INT32_MAX) return false;
  of->cursors[next->stage * TYPES + next->type]++;
  return true;
}

/* Puts a W into each free slot as soon as there is a B without one. */
static void put_weights(grid *on, bool split) {
  on->types = 4;
  walk_begin(on);
  for (int32_t stage = 0; stage < on->p; stage++) {
    int32_t owed[2] = {0, 0}, put[2] = {0, 0}, slot = 0;
    element next;
    bool more = walk_next(on, stage, stage, &next);
    for (; more || owed[0] + owed[1] > 0; slot++) {
      if (more && next.slot == slot) {
        if (next.type >= B1) owed[split && next.type == B0]++;
        more = walk_next(on, stage, stage, &next);
        continue;
      }
      int32_t which = owed[0] > 0 ? 0 : 1;
      if (owed[which] == 0) continue;
      owed[which]--;
      *slot_at(on, stage, W + which, put[which]++) = slot;
    }
  }
  on->types = split ? 6 : 5;
}

/* The most activations a stage holds at a time; without W in the grid, each free slot takes one that is owed. */
static int32_t most_held(const grid *of, int32_t stage, int32_t *cursors) {
  static const int32_t change[TYPES] = {1, 1, 0, 0, -1, -1};
  int32_t held = 0, most = 0, owed = 0, slot = 0;
  memset(cursors, 0, TYPES * sizeof *cursors);
  for (;;) {
    int32_t next = INT32_MAX, type = 0;
    for (int32_t i = 0; i < of->types; i++) {
      if (cursors[i] == count_of(of, i)) continue;
      int32_t at = *slot_at(of, stage, i, cursors[i]);
      if (at >= next) continue;
      next = at;
      type = i;
    }
    if (next == INT32_MAX) return most;
    cursors[type]++;
    int32_t freed = of->types > 4 ? 0 : next - slot < owed ? next - slot : owed;
    owed -= freed;
    held += change[type] - freed;
    if (type == B1 || type == B0) owed++;
    slot = next + 1;
    if (held > most) most = held;
  }
}

/* --- squeeze ------------------------------------------------------------------------------------------------------ */

/* The slot before which nothing that the op needs has ended. `merged`: per stage, B's passed by W's. */
static int32_t needed_slot(const grid *of, const element *op, int32_t (*merged)[2]) {
  int32_t needed = -1, stage = op->stage, type = op->type;
  int32_t neighbour = type == F0 || type == B1 ? stage - 1 : stage + 1;
  if (type < W && neighbour >= 0 && neighbour < of->p) needed = *slot_at(of, neighbour, type, op->number);
  if (type > F0 && type<W && * slot_at(of, stage, type - 1, op->number)> needed) {
    needed = *slot_at(of, stage, type - 1, op->number);
  }
  if (type == W && merged != NULL) {
    int32_t *passed = merged[stage];
    int32_t one = passed[0] < of->m ? *slot_at(of, stage, B1, passed[0]) : INT32_MAX;
    int32_t zero = passed[1] < of->m ? *slot_at(of, stage, B0, passed[1]) : INT32_MAX;
    passed[one < zero ? 0 : 1]++;
    if ((one < zero ? one : zero) > needed) needed = one < zero ? one : zero;
  }
  if (op->number > 0 && *slot_at(of, stage, type, op->number - 1) > needed) {
    needed = *slot_at(of, stage, type, op->number - 1);
  }
  return needed;
}

/* Every op as early as the order on its stage and its needs allow. */
static void squeeze(grid *of, int32_t *stage_end) {
  for (int32_t stage = 0; stage < of->p; stage++)
    stage_end[stage] = -1;
  walk_begin(of);
  element op;
  while (walk_next(of, 0, of->p - 1, &op)) {
    int32_t needed = needed_slot(of, &op, NULL);
    if (stage_end[op.stage] > needed) needed = stage_end[op.stage];
    *slot_at(of, op.stage, op.type, op.number) = stage_end[op.stage] = needed + 1;
  }
}

/* --- reorder ------------------------------------------------------------------------------------------------------ */

typedef struct mover {
  grid *of;
  uint8_t *taken; /* per stage and slot */
  int32_t width, limit;
  int32_t *scratch; /* cursors for most_held */
  int32_t (*merged)[2];
} mover;

static uint8_t *taken_at(const mover *with, int32_t stage, int32_t slot) {
  return &with->taken[(size_t)stage * (size_t)with->width + (size_t)slot];
}

static void move_forward(mover *with, element *op) {
  grid *of = with->of;
  int32_t *slot = slot_at(of, op->stage, op->type, op->number);
  for (int32_t to = needed_slot(of, op, with->merged) + 1; to < op->slot; to++) {
    if (*taken_at(with, op->stage, to)) continue;
    *slot = to;
    if (most_held(of, op->stage, with->scratch) <= with->limit) return;
  }
  *slot = op->slot;
}

/* Moves ops into empty slots: all before the first B0 of stage 0 (with W in place only) and all after its last F0. */
static void reorder(mover *with, bool with_w, int32_t *stage_end) {
  grid *of = with->of;
  if (with_w) put_weights(of, false);
  with->limit = 0;
  for (int32_t stage = 0; stage < of->p; stage++) {
    int32_t held = most_held(of, stage, with->scratch);
    if (held > with->limit) with->limit = held;
  }
  memset(with->taken, 0, (size_t)of->p * (size_t)with->width);
  memset(with->merged, 0, (size_t)of->p * sizeof *with->merged);
  walk_begin(of);
  enum { WARM_UP, STEADY, COOL_DOWN } phase = WARM_UP;
  element op;
  while (walk_next(of, 0, of->p - 1, &op)) {
    if (op.type == B0 && op.stage == 0 && phase == WARM_UP) phase = STEADY;
    if (phase == STEADY && op.type == F0 && op.number == of->m - 1) {
      phase = COOL_DOWN;
    } else if (phase == COOL_DOWN || (phase == WARM_UP && with_w)) {
      move_forward(with, &op);
    }
    *taken_at(with, op.stage, *slot_at(of, op.stage, op.type, op.number)) = 1;
  }
  if (!with_w) put_weights(of, false);
  squeeze(of, stage_end);
  of->types = 4;
}

/* --- families ----------------------------------------------------------------------------------------------------- */

static void min_pattern(int32_t p, int32_t stage, int32_t slots[4]) {
  int32_t gap = p % 3 == 0 ? 2 : 0;
  slots[F0] = stage;
  slots[F1] = 2 * p - 1 - stage;
  slots[B1] = 2 * p + gap + stage;
  slots[B0] = 4 * p + gap - 1 - stage;
}

static void half_pattern(int32_t p, int32_t stage, int32_t slots[4]) {
  int32_t gap = p % 2 == 0 ? 3 : 0;
  slots[F0] = 2 * stage;
  slots[F1] = 3 * p - 2 - stage;
  slots[B1] = 3 * p + gap - 1 + 2 * stage;
  slots[B0] = 6 * p + gap - 2 - stage;
}

static void emit(const grid *of, bt_schedule *schedule) {
  static const struct {
    bt_code kind;
    int32_t chunk;
  } what[TYPES] = {{BT_F, 0}, {BT_F, 1}, {BT_B, 1}, {BT_B, 0}, {BT_W, 1}, {BT_W, 0}};
  walk_begin(of);
  for (int32_t stage = 0; stage < of->p; stage++) {
    element op;
    while (walk_next(of, stage, stage, &op))
      bt_schedule_put(schedule, stage, what[op.type].kind, what[op.type].chunk, op.number);
  }
}

static bt_status from_pattern(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error,
                              void (*pattern)(int32_t p, int32_t stage, int32_t slots[4])) {
  int32_t p = params->stages, m = params->microbatches;
  grid of = {p, m, 4, NULL, NULL};
  of.slots = calloc((size_t)p * TYPES * 2 * (size_t)m, sizeof *of.slots);
  of.cursors = calloc((size_t)p * TYPES, sizeof *of.cursors);
  mover with = {.of = &of, .width = 12 * m + 12 * p + 16};
  with.taken = calloc((size_t)p, (size_t)with.width);
  with.merged = calloc((size_t)p, sizeof *with.merged);
  with.scratch = calloc(TYPES, sizeof *with.scratch);
  int32_t *stage_end = calloc((size_t)p, sizeof *stage_end);
  bt_status status = BT_OK;
  if (of.slots == NULL || of.cursors == NULL || with.taken == NULL || with.merged == NULL || with.scratch == NULL ||
      stage_end == NULL) {
    status = bt_fail(error, BT_ERR_NOMEM, "no memory for a pattern of %d microbatches", m);
  } else {
    for (int32_t stage = 0; stage < p; stage++) {
      int32_t first[4];
      pattern(p, stage, first);
      for (int32_t type = 0; type < 4; type++) {
        for (int32_t i = 0; i < m; i++)
          *slot_at(&of, stage, type, i) = first[type] + 6 * i;
      }
    }
    reorder(&with, true, stage_end);
    reorder(&with, false, stage_end);
    put_weights(&of, true);
    emit(&of, schedule);
  }
  free(of.slots);
  free(of.cursors);
  free(with.taken);
  free(with.merged);
  free(with.scratch);
  free(stage_end);
  return status;
}

bt_status bt_schedule_v_min(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  return from_pattern(schedule, params, error, min_pattern);
}

bt_status bt_schedule_v_half(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  return from_pattern(schedule, params, error, half_pattern);
}
