#include "tui/analysis/recognise_build.h"

/* Per chunk, each kind takes microbatches in ascending order, and W follows B in the order of the B's. */
static bool in_sequence(const bt_observed_stage *stage) {
  int32_t last[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  size_t owed = 0; /* B's before this op have had their W */
  for (size_t i = 0; i < stage->count; i++) {
    const bt_op *op = &stage->ops[i];
    if (op->kind < BT_F || op->kind > BT_FB) continue;
    int kind = op->kind - BT_F;
    int32_t chunk = bt_chunk_of(op->chunk);
    if (kind > 2 || chunk > 1 || op->microbatch <= last[kind][chunk]) return false;
    last[kind][chunk] = op->microbatch;
    if (op->kind != BT_W) continue;
    while (owed < i && stage->ops[owed].kind != BT_B)
      owed++;
    if (owed == i || bt_chunk_of(stage->ops[owed].chunk) != chunk || stage->ops[owed].microbatch != op->microbatch) {
      return false;
    }
    owed++;
  }
  return true;
}

bool bt_built_by_rounds(const bt_observed_stage *stages, size_t stage_count, int32_t chunks) {
  size_t ahead = SIZE_MAX;
  for (size_t stage = 0; stage < stage_count; stage++) {
    size_t forwards = 0, since = 0;
    bool warm = true;
    if (stages[stage].count == 0 || !in_sequence(&stages[stage])) return false;
    for (size_t i = 0; i < stages[stage].count; i++) {
      unsigned kind = stages[stage].ops[i].kind;
      forwards += warm && kind == BT_F;
      since += kind == BT_F;
      if (kind != BT_B) continue;
      if (!warm && since > 1) return false;
      warm = false;
      since = 0;
    }
    if (chunks == 1 && forwards > ahead) return false;
    ahead = forwards;
  }
  return true;
}

bool bt_lies_in_a_v(const bt_observed_stage *stages, size_t stage_count) {
  int32_t p = (int32_t)stage_count;
  for (int32_t stage = 0; stage < p; stage++) {
    for (size_t i = 0; i < stages[stage].count; i++) {
      const bt_op *op = &stages[stage].ops[i];
      if (op->kind >= BT_F && op->kind <= BT_FB &&
          op->vstage != (bt_chunk_of(op->chunk) == 0 ? stage : 2 * p - 1 - stage)) {
        return false;
      }
    }
  }
  return true;
}
