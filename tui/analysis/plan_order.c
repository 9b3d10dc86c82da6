/* Which ops ran in another order than planned, which did not run, which are not in the plan. */
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/plan_private.h"

typedef struct tally { /* of an op of the plan on one rank */
  int64_t displaced, missing; /* steps */
  int64_t displaced_step, missing_step; /* the first */
  int32_t place; /* in the first step in which it was displaced */
} tally;

typedef struct ordering {
  bt_laying *laying;
  const bt_model_rank *rank; /* at hand */
  tally *tallies; /* per op of its stage's plan */
  size_t displaced_capacity, missing_capacity, extra_capacity;
  /* room for one visit */
  int32_t *tails, *before; /* longest increasing subsequence */
  bool *there; /* per op of the plan */
} ordering;

/* --- what an op is in the plan --------------------------------------------------------------------------------------- */

static size_t lower_bound(const bt_plan_numbers *numbers, int32_t number) {
  size_t low = 0;
  size_t high = numbers->count;
  while (low < high) {
    size_t half = (low + high) / 2;
    if (numbers->list[half] < number) {
      low = half + 1;
    } else {
      high = half;
    }
  }
  return low;
}

/* The plan's number of a microbatch: the one with the same place among the chunk's. Where the step has another number of
 * microbatches than the plan, numbers mean themselves. */
static int32_t plan_number(const bt_laying *laying, int32_t chunk, int32_t microbatch) {
  if (chunk >= BT_MAX_CHUNKS || microbatch < 0) return microbatch;
  const bt_plan_numbers *run = &laying->run_numbers[chunk];
  const bt_plan_numbers *plan = &laying->plan_numbers[chunk];
  return run->count == plan->count ? plan->list[lower_bound(run, microbatch)] : microbatch;
}

static bt_plan_op plan_op(const bt_laying *laying, const bt_model_op *op) {
  bt_plan_op result = {op->kind, op->vstage, plan_number(laying, bt_plan_chunk(op->chunk), op->microbatch), -1, -1};
  if (laying->run_folded && op->kind == BT_B) result.kind = BT_BW;
  if (op->kind != BT_FB) return result;
  result.vstage_b = op->vstage_b;
  result.microbatch_b = plan_number(laying, bt_plan_chunk(op->chunk_b), op->microbatch_b);
  return result;
}

static int32_t find(const bt_laying *laying, int32_t stage, const bt_plan_op *op) {
  size_t low = laying->first[stage];
  size_t high = laying->first[stage + 1];
  while (low < high) {
    size_t half = (low + high) / 2;
    int order = bt_plan_compare_op(&laying->keys[half].op, op);
    if (order == 0) return laying->keys[half].place;
    if (order < 0) {
      low = half + 1;
    } else {
      high = half;
    }
  }
  return BT_NO_INDEX;
}

/* --- one visit ------------------------------------------------------------------------------------------------------- */

static int64_t step_id(const ordering *o, int32_t visit) {
  return o->laying->model.steps[o->laying->model.visits[visit].step].id;
}

static bool note_extra(ordering *o, int32_t visit, const bt_model_op *op, int32_t place) {
  bt_plan_overlay *out = o->laying->out;
  bt_plan_op what = {op->kind, op->vstage, op->microbatch, op->vstage_b, op->microbatch_b};
  if (!bt_array_reserve(&out->extra_list, &o->extra_capacity, out->extra_listed + 1, sizeof *out->extra_list))
    return false;
  out->extra_list[out->extra_listed++] =
      (bt_plan_deviation){o->rank->rank, o->rank->stage, what, -1, place, step_id(o, visit), 1};
  return true;
}

static int by_rank_and_op(const void *a, const void *b) {
  const bt_plan_deviation *x = a;
  const bt_plan_deviation *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  int order = bt_plan_compare_op(&x->op, &y->op);
  if (order != 0) return order;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

static int by_rank_and_place(const void *a, const void *b) {
  const bt_plan_deviation *x = a;
  const bt_plan_deviation *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  if (x->place != y->place) return x->place < y->place ? -1 : 1;
  return bt_plan_compare_op(&x->op, &y->op);
}

/* Extra ops were noted step by step: the same op of several steps becomes one entry. */
static void join_extra(bt_plan_overlay *out) {
  size_t kept = 0;
  if (out->extra_listed == 0) return;
  qsort(out->extra_list, out->extra_listed, sizeof *out->extra_list, by_rank_and_op);
  for (size_t i = 1; i < out->extra_listed; i++) {
    bt_plan_deviation *last = &out->extra_list[kept];
    const bt_plan_deviation *next = &out->extra_list[i];
    if (last->rank == next->rank && bt_plan_compare_op(&last->op, &next->op) == 0) {
      last->steps++;
    } else {
      out->extra_list[++kept] = *next;
    }
  }
  out->extra_listed = kept + 1;
  qsort(out->extra_list, out->extra_listed, sizeof *out->extra_list, by_rank_and_place);
  if (out->extra_listed > BT_PLAN_MOST_LISTED) out->extra_listed = BT_PLAN_MOST_LISTED;
}

/* Marks in places[] of the visit: an op that the plan has and that was not there yet. */
static bool place_ops(ordering *o, int32_t visit, bt_plan_step *step, int32_t *looked_at) {
  bt_laying *laying = o->laying;
  int32_t first = laying->visit_first[visit];
  int32_t end = laying->visit_first[visit + 1];
  *looked_at = 0;
  for (int32_t i = first; i < end; i++) {
    const bt_model_op *op = &laying->model.ops[laying->visit_ops[i]];
    if (laying->run_folded && op->kind == BT_W) continue;
    bt_plan_op what = plan_op(laying, op);
    int32_t place = find(laying, o->rank->stage, &what);
    ++*looked_at;
    if (place != BT_NO_INDEX && !o->there[place]) {
      o->there[place] = true;
      laying->places[i] = place;
    } else {
      step->extra++;
      if (!note_extra(o, visit, op, *looked_at - 1)) return false;
    }
  }
  return true;
}

/* The length of the longest increasing subsequence of the visit's places, and its last element (an index of visit_ops);
 * o->before leads back through it. */
static int32_t longest_in_order(ordering *o, int32_t first, int32_t end, int32_t *last) {
  const int32_t *places = o->laying->places;
  int32_t length = 0;
  for (int32_t i = first; i < end; i++) {
    if (places[i] == BT_NO_INDEX) continue;
    int32_t low = 0;
    int32_t high = length;
    while (low < high) {
      int32_t half = (low + high) / 2;
      if (places[o->tails[half]] < places[i]) {
        low = half + 1;
      } else {
        high = half;
      }
    }
    o->before[i - first] = low > 0 ? o->tails[low - 1] : BT_NO_INDEX;
    o->tails[low] = i;
    if (low == length) length++;
  }
  *last = length > 0 ? o->tails[length - 1] : BT_NO_INDEX;
  return length;
}

static void tally_displaced(ordering *o, int32_t visit, int32_t first, int32_t end, int32_t kept) {
  const bt_laying *laying = o->laying;
  int32_t place = 0;
  for (int32_t i = first; i < end; i++) /* tails is free now: what is kept, in order */
    o->tails[i - first] = 0;
  for (; kept != BT_NO_INDEX; kept = o->before[kept - first])
    o->tails[kept - first] = 1;
  for (int32_t i = first; i < end; i++) {
    if (laying->run_folded && laying->model.ops[laying->visit_ops[i]].kind == BT_W) continue;
    int32_t planned = laying->places[i];
    if (planned != BT_NO_INDEX && o->tails[i - first] == 0) {
      if (laying->displaced != NULL) laying->displaced[i] = true;
      tally *of = &o->tallies[planned];
      if (of->displaced++ == 0) {
        of->displaced_step = step_id(o, visit);
        of->place = place;
      }
    }
    place++;
  }
}

static bool compare_visit(ordering *o, int32_t visit, bt_plan_step *step) {
  bt_laying *laying = o->laying;
  bt_plan_overlay *out = laying->out;
  bt_plan_stage *stage = &out->stage_list[o->rank->stage];
  int32_t first = laying->visit_first[visit];
  int32_t end = laying->visit_first[visit + 1];
  size_t planned = laying->first[o->rank->stage + 1] - laying->first[o->rank->stage];
  memset(o->there, 0, planned);
  bt_plan_step counts = {.step = 0};
  int32_t looked_at;
  if (!place_ops(o, visit, &counts, &looked_at)) return false;
  for (size_t i = 0; i < planned; i++) {
    if (o->there[i]) continue;
    counts.missing++;
    if (o->tallies[i].missing++ == 0) o->tallies[i].missing_step = step_id(o, visit);
  }
  int32_t kept;
  int32_t in_order = longest_in_order(o, first, end, &kept);
  counts.displaced = looked_at - counts.extra - in_order;
  tally_displaced(o, visit, first, end, kept);
  step->displaced += counts.displaced;
  step->missing += counts.missing;
  step->extra += counts.extra;
  stage->displaced += counts.displaced;
  stage->missing += counts.missing;
  stage->extra += counts.extra;
  out->ops += looked_at;
  out->in_order += in_order;
  return true;
}

/* --- ranks and replicas ---------------------------------------------------------------------------------------------- */

static bool list(bt_plan_deviation **to, size_t *count, size_t *capacity, const bt_plan_deviation *one) {
  if (*count == BT_PLAN_MOST_LISTED) return true;
  if (!bt_array_reserve(to, capacity, *count + 1, sizeof *one)) return false;
  (*to)[(*count)++] = *one;
  return true;
}

static bool list_tallies(ordering *o) {
  const bt_laying *laying = o->laying;
  bt_plan_overlay *out = laying->out;
  int32_t stage = o->rank->stage;
  bool fine = true;
  for (size_t i = laying->first[stage]; fine && i < laying->first[stage + 1]; i++) {
    const bt_op *op = &laying->ops[i];
    int32_t place = (int32_t)(i - laying->first[stage]);
    const tally *of = &o->tallies[place];
    bt_plan_deviation one = {.rank = o->rank->rank, .stage = stage, .planned_place = place, .place = of->place};
    one.op = (bt_plan_op){op->kind, op->vstage, op->microbatch, op->vstage_b, op->microbatch_b};
    one.step = of->displaced_step;
    one.steps = of->displaced;
    if (of->displaced > 0) fine = list(&out->displaced_list, &out->displaced_listed, &o->displaced_capacity, &one);
    one.step = of->missing_step;
    one.steps = of->missing;
    one.place = -1;
    if (of->missing > 0 && fine) fine = list(&out->missing_list, &out->missing_listed, &o->missing_capacity, &one);
  }
  return fine;
}

/* Places need the microbatch numbers of the whole replica's step, so all ranks of a step are placed before the next. */
static bool compare_replica(ordering *o, const int32_t *ranks, size_t count, int32_t *visits) {
  bt_laying *laying = o->laying;
  const bt_model *model = &laying->model;
  size_t steps = (size_t)model->step_count;
  for (size_t i = 0; i < count * steps; i++)
    visits[i] = BT_NO_INDEX;
  size_t tallied = 0;
  for (size_t k = 0; k < count; k++) {
    const bt_model_rank *rank = &model->ranks[ranks[k]];
    for (int32_t v = rank->visits.first; v < rank->visits.first + rank->visits.count; v++)
      visits[(size_t)model->visits[v].step * count + k] = v;
    tallied += laying->first[rank->stage + 1] - laying->first[rank->stage];
  }
  tally *all = calloc(tallied + 1, sizeof *all);
  if (all == NULL) return false;
  bool fine = true;
  size_t reported = 0;
  for (size_t s = 0; fine && s < steps; s++) {
    if (!model->steps[s].reported) continue;
    bt_plan_step *step = &laying->out->steps[reported++];
    fine = bt_plan_note_numbers(laying, visits + s * count, count) == BT_OK;
    o->tallies = all;
    for (size_t k = 0; fine && k < count; k++) {
      o->rank = &model->ranks[ranks[k]];
      if (visits[s * count + k] != BT_NO_INDEX) fine = compare_visit(o, visits[s * count + k], step);
      o->tallies += laying->first[o->rank->stage + 1] - laying->first[o->rank->stage];
    }
  }
  o->tallies = all;
  for (size_t k = 0; fine && k < count; k++) {
    o->rank = &model->ranks[ranks[k]];
    fine = list_tallies(o);
    o->tallies += laying->first[o->rank->stage + 1] - laying->first[o->rank->stage];
  }
  free(all);
  return fine;
}

bt_status bt_plan_compare_order(bt_laying *laying) {
  const bt_model *model = &laying->model;
  bt_plan_overlay *out = laying->out;
  ordering o = {.laying = laying};
  size_t longest = laying->first[out->stages] + 1;
  size_t ranks = (size_t)model->rank_count;
  int32_t *members = malloc((ranks + 1) * sizeof *members);
  int32_t *visits = malloc((ranks * (size_t)model->step_count + 1) * sizeof *visits);
  o.tails = malloc((model->ops_count + 1) * sizeof *o.tails);
  o.before = malloc((model->ops_count + 1) * sizeof *o.before);
  o.there = malloc(longest * sizeof *o.there);
  bool fine = members != NULL && visits != NULL && o.tails != NULL && o.before != NULL && o.there != NULL;
  for (int32_t replica = 0; fine && replica < model->replica_count; replica++) {
    size_t count = 0;
    for (int32_t r = 0; r < model->rank_count; r++) {
      if (model->ranks[r].replica == replica && model->ranks[r].ops.count > 0) members[count++] = r;
    }
    fine = compare_replica(&o, members, count, visits);
  }
  if (fine) join_extra(out);
  for (size_t i = 0; i < out->step_count; i++) {
    out->displaced += out->steps[i].displaced;
    out->missing += out->steps[i].missing;
    out->extra += out->steps[i].extra;
  }
  free(members);
  free(visits);
  free(o.tails);
  free(o.before);
  free(o.there);
  return fine ? BT_OK : BT_ERR_NOMEM;
}
