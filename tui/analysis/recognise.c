#include "tui/analysis/recognise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/recognise_build.h"

enum { KINDS = 5, LOST_SHARE = 10, MOST_MICROBATCHES = 1 << 20 };

/* An op, as an index of a table: kind, chunk, and the microbatch's place among the chunk's. */
typedef uint32_t code;
#define NO_PLACE UINT32_MAX

/* The microbatch numbers that occur in a chunk, ascending. */
typedef struct numbers {
  int32_t *list;
  size_t count;
} numbers;

typedef struct sequence {
  code *codes;
  size_t count;
} sequence;

typedef struct observation {
  size_t stages;
  int32_t chunks;
  bool splits, overlaps; /* there are B or W; there are FB */
  size_t per_chunk; /* microbatches of the chunk that has most */
  size_t all_chunks; /* of all chunks together */
  numbers *of_chunk;
  sequence *orders; /* per stage */
  size_t ops;
} observation;

/* --- what was observed -------------------------------------------------------------------------------------------- */

static int kind_index(unsigned kind) {
  switch (kind) {
  case BT_F: return 0;
  case BT_B: return 1;
  case BT_W: return 2;
  case BT_BW: return 3;
  case BT_FB: return 4;
  default: return -1;
  }
}

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static void sort_unique(numbers *of) {
  qsort(of->list, of->count, sizeof *of->list, ascending);
  size_t kept = 0;
  for (size_t i = 0; i < of->count; i++) {
    if (kept == 0 || of->list[kept - 1] != of->list[i]) of->list[kept++] = of->list[i];
  }
  of->count = kept;
}

static size_t place_of(const numbers *of, int32_t number) {
  size_t low = 0, high = of->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (of->list[middle] < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool note_chunks(observation *seen, const bt_observed_stage *stages) {
  for (size_t stage = 0; stage < seen->stages; stage++) {
    for (size_t i = 0; i < stages[stage].count; i++) {
      const bt_op *op = &stages[stage].ops[i];
      if (kind_index(op->kind) < 0) continue;
      seen->ops++;
      seen->splits = seen->splits || op->kind == BT_B || op->kind == BT_W;
      seen->overlaps = seen->overlaps || op->kind == BT_FB;
      if (bt_chunk_of(op->chunk) >= seen->chunks) seen->chunks = bt_chunk_of(op->chunk) + 1;
      if (op->kind == BT_FB && bt_chunk_of(op->chunk_b) >= seen->chunks) seen->chunks = bt_chunk_of(op->chunk_b) + 1;
    }
  }
  return seen->chunks <= BT_MAX_CHUNKS;
}

/* Collects the numbers of each chunk's microbatches (twice the ops are enough room, for FB's two halves). */
static bt_status number_microbatches(observation *seen, const bt_observed_stage *stages) {
  seen->of_chunk = calloc((size_t)seen->chunks, sizeof *seen->of_chunk);
  if (seen->of_chunk == NULL) return BT_ERR_NOMEM;
  for (int32_t chunk = 0; chunk < seen->chunks; chunk++) {
    numbers *of = &seen->of_chunk[chunk];
    of->list = malloc((2 * seen->ops + 1) * sizeof *of->list);
    if (of->list == NULL) return BT_ERR_NOMEM;
    for (size_t stage = 0; stage < seen->stages; stage++) {
      for (size_t i = 0; i < stages[stage].count; i++) {
        const bt_op *op = &stages[stage].ops[i];
        if (kind_index(op->kind) < 0) continue;
        if (bt_chunk_of(op->chunk) == chunk) of->list[of->count++] = op->microbatch;
        if (op->kind == BT_FB && bt_chunk_of(op->chunk_b) == chunk) of->list[of->count++] = op->microbatch_b;
      }
    }
    sort_unique(of);
    if (of->count > seen->per_chunk) seen->per_chunk = of->count;
    seen->all_chunks += of->count;
  }
  return BT_OK;
}

static code encode(const numbers *of_chunk, int32_t chunks, const bt_op *op) {
  int32_t chunk = bt_chunk_of(op->chunk);
  size_t place = place_of(&of_chunk[chunk], op->microbatch);
  return (code)((place * KINDS + (size_t)kind_index(op->kind)) * (size_t)chunks + (size_t)chunk);
}

/* A stage's ops as codes; an FB is taken apart where `unfold` says so. */
static bool encode_order(const bt_op *ops, size_t count, const numbers *of_chunk, int32_t chunks, bool unfold,
                         sequence *out) {
  out->codes = malloc((2 * count + 1) * sizeof *out->codes);
  out->count = 0;
  if (out->codes == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    bt_op op = ops[i];
    if (kind_index(op.kind) < 0) continue;
    if (op.kind == BT_FB && unfold) {
      op.kind = BT_F;
      out->codes[out->count++] = encode(of_chunk, chunks, &op);
      op = bt_op_make(BT_BW, ops[i].chunk_b, ops[i].vstage_b, ops[i].microbatch_b);
    }
    out->codes[out->count++] = encode(of_chunk, chunks, &op);
  }
  return true;
}

static bt_status observe(observation *seen, const bt_observed_stage *stages, bt_error *error) {
  if (!note_chunks(seen, stages)) return bt_fail(error, BT_ERR_ARG, "more than %d chunks", BT_MAX_CHUNKS);
  if (seen->ops == 0) return bt_fail(error, BT_ERR_EMPTY, "no ops of a pipeline were recorded");
  bt_status status = number_microbatches(seen, stages);
  seen->orders = calloc(seen->stages, sizeof *seen->orders);
  if (status != BT_OK || seen->orders == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory to compare orders");
  if (seen->all_chunks > MOST_MICROBATCHES) return bt_fail(error, BT_ERR_ARG, "too many microbatches in a step");
  for (size_t stage = 0; stage < seen->stages; stage++) {
    if (!encode_order(stages[stage].ops, stages[stage].count, seen->of_chunk, seen->chunks, false,
                      &seen->orders[stage])) {
      return bt_fail(error, BT_ERR_NOMEM, "no memory to compare orders");
    }
  }
  return BT_OK;
}

static void forget(observation *seen) {
  for (int32_t chunk = 0; seen->of_chunk != NULL && chunk < seen->chunks; chunk++)
    free(seen->of_chunk[chunk].list);
  for (size_t stage = 0; seen->orders != NULL && stage < seen->stages; stage++)
    free(seen->orders[stage].codes);
  free(seen->of_chunk);
  free(seen->orders);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

typedef struct difference {
  size_t moved, missing, extra;
  int32_t stage; /* of the first op in another place */
  size_t at;
  code expected; /* what the schedule has there */
} difference;

/* Fewest ops to take out so that the rest is in order: all but a longest ascending run. Overwrites `tails`. */
static size_t out_of_order(const uint32_t *places, size_t count, uint32_t *tails) {
  size_t length = 0;
  for (size_t i = 0; i < count; i++) {
    size_t low = 0, high = length;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (tails[middle] < places[i]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    tails[low] = places[i];
    if (low == length) length++;
  }
  return count - length;
}

typedef struct comparer {
  size_t table_size;
  uint32_t *place; /* per code: where the schedule has it */
  uint32_t *places, *tails;
} comparer;

static void compare_stage(const comparer *with, const sequence *seen, const sequence *planned, int32_t stage,
                          difference *total) {
  memset(with->place, 0xff, with->table_size * sizeof *with->place);
  for (size_t i = 0; i < planned->count; i++)
    with->place[planned->codes[i]] = (uint32_t)i;
  size_t common = 0;
  for (size_t i = 0; i < seen->count; i++) {
    uint32_t place = with->place[seen->codes[i]];
    if (place == NO_PLACE) {
      total->extra++;
    } else {
      with->places[common++] = place;
    }
  }
  total->missing += planned->count - common;
  size_t moved = out_of_order(with->places, common, with->tails);
  if (moved > 0) { /* the first that does not follow the one before as it should */
    size_t at = 0, next = 0;
    memcpy(with->tails, with->places, common * sizeof *with->tails);
    memset(with->place, 0, planned->count * sizeof *with->place); /* by place now: was it observed? */
    for (size_t i = 0; i < common; i++)
      with->place[with->places[i]] = 1;
    for (; at < common; at++, next++) {
      while (next < planned->count && !with->place[next])
        next++;
      if (with->places[at] != next) break;
    }
    if (total->moved == 0 || at < total->at) {
      total->stage = stage;
      total->at = at;
      total->expected = planned->codes[next];
    }
  }
  total->moved += moved;
}

static bool comparer_init(comparer *with, const observation *seen) {
  size_t longest = 0;
  for (size_t stage = 0; stage < seen->stages; stage++) {
    if (seen->orders[stage].count > longest) longest = seen->orders[stage].count;
  }
  /* A schedule's chunk may have more microbatches than were seen of it. */
  with->table_size = (seen->all_chunks + 1) * KINDS * (size_t)seen->chunks * 2;
  with->place = malloc(with->table_size * sizeof *with->place);
  with->places = malloc((longest + 1) * sizeof *with->places);
  with->tails = malloc((longest + 1) * sizeof *with->tails);
  return with->place != NULL && with->places != NULL && with->tails != NULL;
}

static void comparer_free(comparer *with) {
  free(with->place);
  free(with->places);
  free(with->tails);
}

/* The numbers of a schedule's chunks: all of them, or in two directions each its own. */
static bool schedule_numbers(const bt_schedule *schedule, numbers *of_chunk) {
  for (int32_t chunk = 0; chunk < schedule->chunks; chunk++) {
    numbers *of = &of_chunk[chunk];
    of->list = malloc(((size_t)schedule->microbatches + 1) * sizeof *of->list);
    if (of->list == NULL) return false;
    size_t count;
    const bt_op *ops = bt_schedule_order(schedule, 0, &count);
    for (size_t i = 0; i < count; i++) {
      bool forward = ops[i].kind == BT_F || ops[i].kind == BT_FB;
      if (forward && ops[i].chunk == chunk) of->list[of->count++] = ops[i].microbatch;
    }
    sort_unique(of);
  }
  return true;
}

static bool compare(const comparer *with, const observation *seen, const bt_schedule *schedule, difference *total) {
  numbers of_chunk[BT_MAX_CHUNKS] = {{NULL, 0}};
  memset(total, 0, sizeof *total);
  bool ok = schedule_numbers(schedule, of_chunk);
  for (size_t stage = 0; ok && stage < seen->stages; stage++) {
    if (seen->orders[stage].count == 0) continue;
    size_t count;
    const bt_op *ops = bt_schedule_order(schedule, (int32_t)stage, &count);
    sequence planned;
    ok = encode_order(ops, count, of_chunk, schedule->chunks, !seen->overlaps, &planned);
    if (ok) compare_stage(with, &seen->orders[stage], &planned, (int32_t)stage, total);
    free(planned.codes);
  }
  for (int32_t chunk = 0; chunk < schedule->chunks; chunk++)
    free(of_chunk[chunk].list);
  return ok;
}

/* --- trying the families ------------------------------------------------------------------------------------------ */

typedef struct trial {
  const observation *seen;
  comparer with;
  bt_recognition *result;
  difference nearest;
} trial;

static bool could_be(const observation *seen, const bt_schedule_family *family) {
  bool overlaps = family->make == bt_schedule_dualpipe || family->make == bt_schedule_dualpipev;
  return seen->chunks >= family->least_chunks && seen->chunks <= family->most_chunks &&
         (family->splits == seen->splits || overlaps) && (overlaps || !seen->overlaps);
}

static bool few_missing(const observation *seen, const difference *found) {
  return (found->missing + found->extra) * LOST_SHARE <= seen->ops;
}

static void take_name(trial *of, const bt_schedule *schedule, const difference *found) {
  bt_recognition *result = of->result;
  const bt_schedule_family *family = schedule->family;
  if (result->family == NULL) {
    result->family = family;
    result->name = family->name;
    result->reversed = schedule->params.reversed;
    result->ragged = schedule->params.ragged;
    result->memory = family->timed ? schedule->params.memory : 0;
    result->microbatches = schedule->microbatches;
    result->missing = found->missing;
    return;
  }
  if (result->family == family || result->alias_count == BT_RECOGNISE_MOST_ALIASES) return;
  for (size_t i = 0; i < result->alias_count; i++) {
    if (result->aliases[i] == family->name) return;
  }
  result->aliases[result->alias_count++] = family->name;
}

static bool try_schedule(trial *of, const bt_schedule_family *family, const bt_schedule_params *params) {
  bt_schedule *schedule = NULL;
  bt_status status = bt_schedule_make(family, params, &schedule, NULL);
  if (status != BT_OK) return status != BT_ERR_NOMEM; /* a family that cannot do this is none of the candidates */
  difference found;
  bool ok = compare(&of->with, of->seen, schedule, &found);
  if (ok && few_missing(of->seen, &found)) {
    if (found.moved == 0 && found.extra == 0) take_name(of, schedule, &found);
    bt_recognition *result = of->result;
    if (result->nearest == NULL || found.moved + found.extra < of->nearest.moved + of->nearest.extra) {
      of->nearest = found;
      result->nearest = family;
      if (result->family == NULL) result->microbatches = schedule->microbatches;
    }
  }
  bt_schedule_free(schedule);
  return ok;
}

/* The most activations that a stage of the observed order holds, W's share kept until W. */
static double observed_memory(const bt_observed_stage *stages, size_t stage_count, double w_memory, double chunk) {
  double most = 0;
  for (size_t stage = 0; stage < stage_count; stage++) {
    double now = 0;
    for (size_t i = 0; i < stages[stage].count; i++) {
      unsigned kind = stages[stage].ops[i].kind;
      now += kind == BT_F ? chunk : kind == BT_B ? chunk * (w_memory - 1) : kind == BT_W ? -chunk * w_memory : 0;
      if (now > most) most = now;
    }
  }
  return most;
}

static bool try_timed(trial *of, const bt_schedule_family *family, bt_schedule_params params,
                      const bt_observed_stage *stages, const bt_observed_times *times) {
  if (times == NULL || times->forward + times->backward + times->weight == 0) return true;
  params.forward = times->forward;
  params.backward = times->backward;
  params.weight = times->weight;
  params.comm = times->comm;
  double chunk = family->placement == BT_PLACE_V ? 0.5 : 1;
  double limits[] = {params.stages, 2.0 * params.stages, observed_memory(stages, of->seen->stages, 0.44, chunk)};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    params.memory = limits[i];
    if (params.memory > 0 && !try_schedule(of, family, &params)) return false;
  }
  return true;
}

static bool try_family(trial *of, const bt_schedule_family *family, const bt_observed_stage *stages,
                       const bt_observed_times *times) {
  const observation *seen = of->seen;
  bt_schedule_params params = {.stages = (int32_t)seen->stages, .chunks = seen->chunks, .ragged = true};
  params.microbatches = (int32_t)(family->placement == BT_PLACE_BOTH ? seen->all_chunks : seen->per_chunk);
  if (family->timed) return try_timed(of, family, params, stages, times);
  bool either = family->make == bt_schedule_gpipe || family->make == bt_schedule_looped_bfs;
  params.ragged = family->make == bt_schedule_interleaved && params.microbatches % params.stages != 0;
  for (int reversed = 0; reversed <= either; reversed++) {
    params.reversed = reversed == 1;
    if (!try_schedule(of, family, &params)) return false;
  }
  return true;
}

/* --- by build ----------------------------------------------------------------------------------------------------- */

static void know_by_build(trial *of, const bt_observed_stage *stages) {
  const observation *seen = of->seen;
  bt_recognition *result = of->result;
  /* A handcrafted order with a few ops astray is that order, departed from. */
  bool like_handcrafted = result->nearest != NULL && !result->nearest->timed && of->nearest.moved * 50 <= seen->ops;
  if (!seen->splits || seen->overlaps || like_handcrafted) return;
  if (seen->chunks > 2 || !bt_built_by_rounds(stages, seen->stages, seen->chunks)) return;
  if (seen->chunks == 2 && !bt_lies_in_a_v(stages, seen->stages)) return;
  result->family = bt_schedule_find(seen->chunks == 1 ? "zb-auto" : "zb-v-auto");
  result->name = result->family->name;
  result->by_build = true;
  result->microbatches = (int32_t)seen->per_chunk;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void describe(trial *of, const bt_observed_stage *stages) {
  static const char *const kinds[KINDS] = {"F", "B", "W", "BW", "FB"};
  bt_recognition *result = of->result;
  if (result->family != NULL) {
    snprintf(result->text, sizeof result->text, "%s, %d stages, %d chunk%s, %d microbatches%s", result->name,
             result->stages, result->chunks, result->chunks == 1 ? "" : "s", result->microbatches,
             result->missing > 0 ? " (some ops were not recorded)" : "");
    return;
  }
  if (result->nearest == NULL) {
    snprintf(result->text, sizeof result->text, "no schedule that is known here");
    return;
  }
  const difference *found = &of->nearest;
  result->moved = found->moved + found->extra;
  result->departs_stage = found->stage;
  result->departs_at = found->at;
  if (found->moved == 0) {
    snprintf(result->text, sizeof result->text, "nearest is %s, which has not %zu of the ops", result->nearest->name,
             found->extra);
    return;
  }
  size_t at = 0, passed = 0; /* the op in that place, passing over those that are no pipeline ops */
  const bt_observed_stage *stage = &stages[found->stage];
  for (; at < stage->count; at++) {
    if (kind_index(stage->ops[at].kind) >= 0 && passed++ == found->at) break;
  }
  const bt_op *op = &stage->ops[at < stage->count ? at : stage->count - 1];
  size_t chunks = (size_t)of->seen->chunks, place = found->expected / chunks / KINDS;
  const numbers *due = &of->seen->of_chunk[found->expected % chunks];
  snprintf(result->text, sizeof result->text,
           "nearest is %s, but %zu op%s in another place: first on stage %d, %s of microbatch %d where %s of %d is due",
           result->nearest->name, result->moved, result->moved == 1 ? " runs" : "s run", found->stage,
           bt_code_name(op->kind), op->microbatch, kinds[found->expected / chunks % KINDS],
           place < due->count ? due->list[place] : -1);
}

static bool try_all(trial *of, const bt_observed_stage *stages, const bt_observed_times *times) {
  if (!comparer_init(&of->with, of->seen)) return false;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    if (could_be(of->seen, family) && !try_family(of, family, stages, times)) return false;
  }
  return true;
}

bt_status bt_recognise(const bt_observed_stage *stages, size_t stage_count, const bt_observed_times *times,
                       bt_recognition *result, bt_error *error) {
  memset(result, 0, sizeof *result);
  result->name = "unknown";
  if (stage_count > BT_SCHEDULE_MAX_STAGES) return bt_fail(error, BT_ERR_ARG, "%zu stages are too many", stage_count);
  observation seen = {.stages = stage_count};
  bt_status status = observe(&seen, stages, error);
  if (status == BT_OK) {
    trial of = {.seen = &seen, .result = result};
    result->stages = (int32_t)stage_count;
    result->chunks = seen.chunks;
    result->microbatches = (int32_t)seen.per_chunk;
    if (!try_all(&of, stages, times)) status = bt_fail(error, BT_ERR_NOMEM, "no memory to compare orders");
    comparer_free(&of.with);
    if (status == BT_OK && result->family == NULL) know_by_build(&of, stages);
    if (status == BT_OK) describe(&of, stages);
  }
  forget(&seen);
  return status;
}
