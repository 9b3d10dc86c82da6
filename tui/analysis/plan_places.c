/* Where every op should have been. */
#include <stdlib.h>

#include "tui/analysis/plan_private.h"

static int by_rank_and_start(const void *a, const void *b) {
  const bt_plan_place *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  return (x->planned_place > y->planned_place) - (x->planned_place < y->planned_place);
}

bt_status bt_plan_list_places(bt_laying *laying, const bt_replay *replay, int32_t visit) {
  bt_plan_overlay *out = laying->out;
  const bt_model *model = &laying->model;
  const bt_model_rank *rank = &model->ranks[model->visits[visit].rank];
  size_t first = laying->first[rank->stage], count = laying->first[rank->stage + 1] - first;
  if (!bt_array_reserve(&out->places, &out->place_capacity, out->place_count + count, sizeof *out->places))
    return BT_ERR_NOMEM;
  bt_plan_place *places = out->places + out->place_count;
  for (size_t i = 0; i < count; i++) {
    const bt_op *op = &laying->ops[first + i];
    const bt_op_time *time = &replay->times[replay->first[rank->stage] + i];
    places[i] = (bt_plan_place){.rank = rank->rank,
                                .stage = rank->stage,
                                .op = {op->kind, op->vstage, op->microbatch, op->vstage_b, op->microbatch_b},
                                .step = model->steps[model->visits[visit].step].id,
                                .start = time->start,
                                .end = time->end,
                                .ran_start = BT_UNKNOWN,
                                .ran_end = BT_UNKNOWN,
                                .planned_place = (int32_t)i,
                                .place = -1};
    if (time->end - time->start > out->longest) out->longest = time->end - time->start;
  }
  int32_t place = 0;
  for (int32_t i = laying->visit_first[visit]; i < laying->visit_first[visit + 1]; i++) {
    const bt_model_op *op = &model->ops[laying->visit_ops[i]];
    if (laying->run_folded && op->kind == BT_W) continue;
    if (laying->places[i] != BT_NO_INDEX) {
      bt_plan_place *of = &places[laying->places[i]];
      of->ran_start = op->start;
      of->ran_end = op->end;
      of->place = place;
      of->displaced = laying->displaced[i];
    }
    place++;
  }
  out->place_count += count;
  return BT_OK;
}

void bt_plan_sort_places(bt_plan_overlay *overlay) {
  if (overlay->place_count > 0)
    qsort(overlay->places, overlay->place_count, sizeof *overlay->places, by_rank_and_start);
}

const bt_plan_place *bt_plan_places_from(const bt_plan_overlay *overlay, int32_t rank, int64_t time, size_t *count) {
  int64_t start = time < INT64_MIN + overlay->longest ? INT64_MIN : time - overlay->longest;
  size_t low = 0, high = overlay->place_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const bt_plan_place *place = &overlay->places[middle];
    if (place->rank < rank || (place->rank == rank && place->start < start))
      low = middle + 1;
    else
      high = middle;
  }
  while (low < overlay->place_count && overlay->places[low].rank == rank && overlay->places[low].end <= time)
    low++;
  size_t end = low;
  for (high = overlay->place_count; end < high;) { /* the rank's last */
    size_t middle = end + (high - end) / 2;
    if (overlay->places[middle].rank <= rank)
      end = middle + 1;
    else
      high = middle;
  }
  *count = end - low;
  return overlay->places + low;
}
