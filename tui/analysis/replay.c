#include "tui/analysis/replay.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

enum { DEPENDENCIES = 4 }; /* message, message of an FB's backward half, own op before, link; beside the lane's order */
enum { MESSAGE, MESSAGE_B, OWN, LINK };
enum { NEIGHBOURS = 16 };

/* A synced set of ops, met in the order in which they arrive. */
typedef struct sync_set {
  uint32_t members, arrived;
  uint32_t head; /* members chained through graph.next_member */
  int64_t end, sync_duration;
} sync_set;

struct bt_replay_graph {
  uint32_t *lane_of;
  int32_t *rank; /* per lane */
  uint32_t (*depends)[DEPENDENCIES]; /* per op */
  uint32_t *order; /* a topological order */
  uint32_t *sync; /* per op: index of its set + 1 */
  uint32_t *next_member;
  sync_set *sets;
  size_t set_count;
};

/* --- finding ops by what they are --------------------------------------------------------------------------------- */

/* Half of an op: what a producer is looked up by. */
typedef struct half {
  int32_t pipeline, step, vstage, microbatch;
  uint32_t role; /* BT_F, BT_B (also BW), BT_W */
} half;

typedef struct half_map {
  half *keys;
  uint32_t *ops; /* BT_NO_OP: free */
  size_t mask;
} half_map;

/* Neighbouring microbatches lie next to each other: lookups come in about that order. */
static size_t half_hash(const half *key) {
  uint32_t microbatch = (uint32_t)key->microbatch;
  uint64_t hash = microbatch / NEIGHBOURS | (uint64_t)(uint32_t)key->vstage << 32;
  hash = (hash ^ (hash >> 29)) * 0x9E3779B97F4A7C15u + (uint32_t)key->step;
  hash = (hash ^ (hash >> 32)) * 0xBF58476D1CE4E5B9u + ((uint64_t)(uint32_t)key->pipeline << 8 | key->role);
  hash = (hash ^ (hash >> 30)) * 0x94D049BB133111EBu;
  return (size_t)((hash ^ (hash >> 31)) * NEIGHBOURS + microbatch % NEIGHBOURS);
}

static bool half_equal(const half *a, const half *b) {
  return a->microbatch == b->microbatch && a->vstage == b->vstage && a->role == b->role && a->step == b->step &&
         a->pipeline == b->pipeline;
}

static bt_status half_map_init(half_map *map, size_t halves) {
  size_t size = 16;
  while (size < halves * 2)
    size *= 2;
  map->mask = size - 1;
  map->keys = bt_array_new(size, sizeof *map->keys);
  map->ops = bt_array_new(size, sizeof *map->ops);
  if (map->keys == NULL || map->ops == NULL) return BT_ERR_NOMEM;
  memset(map->ops, 0xff, size * sizeof *map->ops);
  return BT_OK;
}

static void half_map_free(half_map *map) {
  free(map->keys);
  free(map->ops);
}

static size_t half_slot(const half_map *map, const half *key) {
  size_t slot = half_hash(key) & map->mask;
  while (map->ops[slot] != BT_NO_OP && !half_equal(&map->keys[slot], key))
    slot = (slot + 1) & map->mask;
  return slot;
}

static uint32_t half_find(const half_map *map, int32_t pipeline, int32_t step, uint32_t role, int32_t vstage,
                          int32_t microbatch) {
  half key = {pipeline, step, vstage, microbatch, role};
  return map->ops[half_slot(map, &key)];
}

/* The halves of an op: none for kinds outside the pipeline. */
static int halves_of(const bt_op *op, half out[2], int32_t pipeline) {
  half forward = {pipeline, op->step, op->vstage, op->microbatch, BT_F};
  half backward = {pipeline, op->step, op->vstage_b, op->microbatch_b, BT_B};
  out[0] = forward;
  out[1] = backward;
  if (op->kind == BT_FB) return 2;
  if (op->kind == BT_B || op->kind == BT_BW) out[0].role = BT_B;
  if (op->kind == BT_W) out[0].role = BT_W;
  return op->kind == BT_F || op->kind == BT_B || op->kind == BT_BW || op->kind == BT_W;
}

static bt_status fill_map(half_map *map, const bt_replay *replay, const bt_replay_lane *lanes, bt_error *error) {
  for (size_t lane = 0; lane < replay->lane_count; lane++) {
    for (size_t op = replay->first[lane]; op < replay->first[lane + 1]; op++) {
      half keys[2];
      int count = halves_of(&replay->ops[op], keys, lanes[lane].pipeline);
      for (int i = 0; i < count; i++) {
        size_t slot = half_slot(map, &keys[i]);
        if (map->ops[slot] != BT_NO_OP) {
          return bt_fail(error, BT_ERR_ARG, "%s of virtual stage %d, microbatch %d is there twice (step %d, rank %d)",
                         bt_code_name(keys[i].role), keys[i].vstage, keys[i].microbatch, keys[i].step,
                         lanes[lane].rank);
        }
        map->keys[slot] = keys[i];
        map->ops[slot] = (uint32_t)op;
      }
    }
  }
  return BT_OK;
}

/* --- what waits for what ------------------------------------------------------------------------------------------ */

typedef struct linker {
  bt_replay *replay;
  const bt_replay_lane *lanes;
  const half_map *map;
  int32_t last_vstage;
} linker;

/* An op earlier on the same lane need not be waited for again: the lane's order does it. */
static uint32_t unless_before(const linker *link, uint32_t needed, uint32_t op) {
  const uint32_t *lane_of = link->replay->graph->lane_of;
  return needed != BT_NO_OP && lane_of[needed] == lane_of[op] && needed < op ? BT_NO_OP : needed;
}

static void link_half(const linker *link, uint32_t op, int which, const half *key) {
  struct bt_replay_graph *graph = link->replay->graph;
  uint32_t *depends = graph->depends[op];
  int32_t vstage = key->vstage;
  if (key->role == BT_W) {
    uint32_t own = half_find(link->map, key->pipeline, key->step, BT_B, vstage, key->microbatch);
    depends[OWN] = unless_before(link, own, op);
    return;
  }
  int32_t from = key->role == BT_F ? vstage - 1 : vstage + 1;
  uint32_t sender = half_find(link->map, key->pipeline, key->step, key->role, from, key->microbatch);
  if (sender == BT_NO_OP && from >= 0 && from <= link->last_vstage) link->replay->missing++;
  depends[which] = unless_before(link, sender, op);
  if (sender != BT_NO_OP && graph->rank[graph->lane_of[sender]] != graph->rank[graph->lane_of[op]]) {
    link->replay->producer[2 * op + which] = sender;
  }
  if (key->role == BT_B) {
    uint32_t own = half_find(link->map, key->pipeline, key->step, BT_F, vstage, key->microbatch);
    depends[OWN] = unless_before(link, own, op);
  }
}

static bt_status link_explicit(const linker *link, size_t lane, bt_error *error) {
  const bt_replay *replay = link->replay;
  const bt_op_link *links = link->lanes[lane].links;
  for (size_t i = 0; links != NULL && i < link->lanes[lane].count; i++) {
    size_t op = replay->first[lane] + i;
    if (links[i].after_lane != BT_NO_OP && links[i].after_op != BT_NO_OP) {
      size_t to = links[i].after_lane;
      if (to >= replay->lane_count || links[i].after_op >= link->lanes[to].count) {
        return bt_fail(error, BT_ERR_ARG, "op %zu of lane %zu is linked to an op that is not there", i, lane);
      }
      uint32_t needed = (uint32_t)(replay->first[to] + links[i].after_op);
      replay->graph->depends[op][LINK] = unless_before(link, needed, (uint32_t)op);
    }
    replay->graph->sync[op] = links[i].sync;
  }
  return BT_OK;
}

static int32_t last_vstage(const bt_replay *replay) {
  int32_t last = 0;
  for (size_t op = 0; op < replay->op_count; op++) {
    if (replay->ops[op].vstage > last) last = replay->ops[op].vstage;
    if (replay->ops[op].kind == BT_FB && replay->ops[op].vstage_b > last) last = replay->ops[op].vstage_b;
  }
  return last;
}

static bt_status link_all(bt_replay *replay, const bt_replay_lane *lanes, bt_error *error) {
  half_map map = {NULL, NULL, 0};
  bt_status status = half_map_init(&map, replay->op_count * 2);
  if (status != BT_OK) bt_fail(error, status, "no memory for a replay of %zu ops", replay->op_count);
  if (status == BT_OK) status = fill_map(&map, replay, lanes, error);
  linker link = {replay, lanes, &map, last_vstage(replay)};
  for (size_t lane = 0; status == BT_OK && lane < replay->lane_count; lane++) {
    for (size_t op = replay->first[lane]; op < replay->first[lane + 1]; op++) {
      half keys[2];
      int count = halves_of(&replay->ops[op], keys, lanes[lane].pipeline);
      for (int i = 0; i < count; i++)
        link_half(&link, (uint32_t)op, i, &keys[i]);
    }
    status = link_explicit(&link, lane, error);
  }
  half_map_free(&map);
  return status;
}

/* Turns the callers' sync numbers into indexes of sets, chained by member. */
static bt_status gather_syncs(bt_replay *replay, bt_error *error) {
  struct bt_replay_graph *graph = replay->graph;
  uint32_t most = 0;
  for (size_t op = 0; op < replay->op_count; op++) {
    if (graph->sync[op] > most) most = graph->sync[op];
  }
  if (most > replay->op_count) return bt_fail(error, BT_ERR_ARG, "sync numbers must be 1 up to the number of ops");
  graph->set_count = most;
  graph->sets = calloc((size_t)most + 1, sizeof *graph->sets);
  if (graph->sets == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for %u collectives", most);
  for (size_t i = 0; i < most; i++)
    graph->sets[i].head = BT_NO_OP;
  for (size_t op = 0; op < replay->op_count; op++) {
    if (graph->sync[op] == 0) continue;
    sync_set *set = &graph->sets[graph->sync[op] - 1];
    graph->next_member[op] = set->head;
    set->head = (uint32_t)op;
    set->members++;
  }
  return BT_OK;
}

/* --- a topological order ------------------------------------------------------------------------------------------ */

typedef struct sorter {
  bt_replay *replay;
  uint32_t *waits; /* per op: dependencies that have not ended */
  uint32_t *row; /* the successors of op are successors[row[op]] up to successors[row[op + 1]] */
  uint32_t *successors; /* beside the next op on the lane */
  size_t done; /* ops put into the order, which is its own work list */
} sorter;

static bool next_on_lane(const bt_replay *replay, size_t op) {
  return op + 1 < replay->op_count && replay->graph->lane_of[op + 1] == replay->graph->lane_of[op];
}

static bt_status find_successors(sorter *sort) {
  size_t count = sort->replay->op_count, edges = 0;
  uint32_t(*depends)[DEPENDENCIES] = sort->replay->graph->depends;
  for (size_t op = 0; op < count; op++) {
    for (int i = 0; i < DEPENDENCIES; i++) {
      if (depends[op][i] == BT_NO_OP) continue;
      sort->row[depends[op][i] + 2]++;
      sort->waits[op]++;
      edges++;
    }
    if (next_on_lane(sort->replay, op)) sort->waits[op + 1]++;
  }
  sort->successors = bt_array_new((edges + 1), sizeof *sort->successors);
  if (sort->successors == NULL) return BT_ERR_NOMEM;
  for (size_t op = 0; op < count; op++)
    sort->row[op + 2] += sort->row[op + 1];
  for (size_t op = 0; op < count; op++) { /* row[d + 1] moves from the start of d's row to its end */
    for (int i = 0; i < DEPENDENCIES; i++) {
      if (depends[op][i] != BT_NO_OP) sort->successors[sort->row[depends[op][i] + 1]++] = (uint32_t)op;
    }
  }
  return BT_OK;
}

static void arrive(sorter *sort, uint32_t op) {
  if (--sort->waits[op] == 0) sort->replay->graph->order[sort->done++] = op;
}

static void release(sorter *sort, uint32_t op) {
  for (uint32_t i = sort->row[op]; i < sort->row[op + 1]; i++)
    arrive(sort, sort->successors[i]);
  if (next_on_lane(sort->replay, op)) arrive(sort, op + 1);
}

/* Kahn's algorithm; the members of a synced set release their successors when the last one is there. */
static void sort_ops(sorter *sort) {
  struct bt_replay_graph *graph = sort->replay->graph;
  for (size_t op = 0; op < sort->replay->op_count; op++) {
    if (sort->waits[op] == 0) graph->order[sort->done++] = (uint32_t)op;
  }
  for (size_t i = 0; i < sort->done; i++) {
    uint32_t op = graph->order[i];
    if (graph->sync[op] == 0) {
      release(sort, op);
      continue;
    }
    sync_set *set = &graph->sets[graph->sync[op] - 1];
    if (++set->arrived < set->members) continue;
    for (uint32_t member = set->head; member != BT_NO_OP; member = graph->next_member[member])
      release(sort, member);
  }
}

static void describe(const bt_replay *replay, uint32_t op, char *out, size_t room) {
  const bt_op *what = &replay->ops[op];
  int32_t rank = replay->graph->rank[replay->graph->lane_of[op]];
  if (what->kind == BT_FB) {
    snprintf(out, room, "FB of microbatches %d and %d on rank %d", what->microbatch, what->microbatch_b, rank);
  } else {
    snprintf(out, room, "%s of virtual stage %d, microbatch %d on rank %d", bt_code_name(what->kind), what->vstage,
             what->microbatch, rank);
  }
}

static bool finished(const sorter *sort, uint32_t op) {
  const struct bt_replay_graph *graph = sort->replay->graph;
  if (sort->waits[op] != 0) return false;
  const sync_set *set = graph->sync[op] == 0 ? NULL : &graph->sets[graph->sync[op] - 1];
  return set == NULL || set->arrived == set->members;
}

/* Something unfinished that an unfinished op needs, other than by the lane's order where `by_lane` is false. */
static uint32_t unfinished_need(const sorter *sort, uint32_t op, bool by_lane) {
  const struct bt_replay_graph *graph = sort->replay->graph;
  if (by_lane && op > 0 && next_on_lane(sort->replay, op - 1) && !finished(sort, op - 1)) return op - 1;
  for (int i = 0; i < DEPENDENCIES; i++) {
    uint32_t needed = graph->depends[op][i];
    if (needed != BT_NO_OP && !finished(sort, needed)) return needed;
  }
  uint32_t member = sort->waits[op] == 0 ? graph->sets[graph->sync[op] - 1].head : BT_NO_OP;
  while (member != BT_NO_OP && sort->waits[member] == 0)
    member = graph->next_member[member];
  return member;
}

/* Walks from an unfinished op to what it needs until it must be inside a circle, then names one wait between lanes. */
static bt_status deadlock(const sorter *sort, bt_error *error) {
  const bt_replay *replay = sort->replay;
  uint32_t op = 0;
  while (finished(sort, op))
    op++;
  for (size_t hops = 0; hops < replay->op_count; hops++)
    op = unfinished_need(sort, op, true);
  while (unfinished_need(sort, op, true) != unfinished_need(sort, op, false))
    op = unfinished_need(sort, op, true);
  char waiting[160], needed[160];
  describe(replay, op, waiting, sizeof waiting);
  describe(replay, unfinished_need(sort, op, false), needed, sizeof needed);
  return bt_fail(error, BT_ERR_FORMAT, "deadlock: %s waits for %s, which waits for it in turn", waiting, needed);
}

static bt_status find_order(bt_replay *replay, bt_error *error) {
  sorter sort = {replay, calloc(replay->op_count + 1, sizeof(uint32_t)), calloc(replay->op_count + 2, sizeof(uint32_t)),
                 NULL, 0};
  bt_status status = sort.waits != NULL && sort.row != NULL ? find_successors(&sort) : BT_ERR_NOMEM;
  if (status == BT_OK) {
    sort_ops(&sort);
    if (sort.done < replay->op_count) status = deadlock(&sort, error);
  }
  free(sort.waits);
  free(sort.row);
  free(sort.successors);
  return status;
}

/* --- the public face ---------------------------------------------------------------------------------------------- */

static bool allocate(bt_replay *replay) {
  size_t ops = replay->op_count + 1, lanes = replay->lane_count + 1;
  struct bt_replay_graph *graph = replay->graph = calloc(1, sizeof *graph);
  if (graph == NULL) return false;
  replay->ops = bt_array_new(ops, sizeof *replay->ops);
  replay->costs = bt_array_new(ops, sizeof *replay->costs);
  replay->times = bt_array_new(ops, sizeof *replay->times);
  replay->ready = calloc(lanes, sizeof *replay->ready);
  replay->producer = bt_array_new(2 * ops, sizeof *replay->producer);
  graph->lane_of = bt_array_new(ops, sizeof *graph->lane_of);
  graph->rank = calloc(lanes, sizeof *graph->rank);
  graph->depends = bt_array_new(ops, sizeof *graph->depends);
  graph->order = bt_array_new(ops, sizeof *graph->order);
  graph->sync = bt_array_new(ops, sizeof *graph->sync);
  graph->next_member = bt_array_new(ops, sizeof *graph->next_member);
  if (replay->ops == NULL || replay->costs == NULL || replay->times == NULL || replay->ready == NULL ||
      replay->producer == NULL || graph->lane_of == NULL || graph->rank == NULL || graph->depends == NULL ||
      graph->order == NULL || graph->sync == NULL || graph->next_member == NULL) {
    return false;
  }
  memset(replay->producer, 0xff, 2 * ops * sizeof *replay->producer);
  memset(graph->depends, 0xff, ops * sizeof *graph->depends);
  return true;
}

static void copy_lanes(bt_replay *replay, const bt_replay_lane *lanes) {
  for (size_t lane = 0; lane < replay->lane_count; lane++) {
    replay->graph->rank[lane] = lanes[lane].rank;
    if (lanes[lane].count == 0) continue;
    memcpy(replay->ops + replay->first[lane], lanes[lane].ops, lanes[lane].count * sizeof *replay->ops);
    for (size_t op = replay->first[lane]; op < replay->first[lane + 1]; op++)
      replay->graph->lane_of[op] = (uint32_t)lane;
  }
}

bt_status bt_replay_new(const bt_replay_lane *lanes, size_t lane_count, bt_replay **out, bt_error *error) {
  *out = NULL;
  bt_replay *replay = calloc(1, sizeof *replay);
  size_t *first = calloc(lane_count + 1, sizeof *first);
  if (replay == NULL || first == NULL) {
    free(replay);
    free(first);
    return bt_fail(error, BT_ERR_NOMEM, "no memory for a replay");
  }
  for (size_t lane = 0; lane < lane_count; lane++)
    first[lane + 1] = first[lane] + lanes[lane].count;
  replay->first = first;
  replay->lane_count = lane_count;
  replay->op_count = first[lane_count];
  bt_status status = BT_OK;
  if (replay->op_count >= UINT32_MAX / 4) {
    status = bt_fail(error, BT_ERR_LIMIT, "%zu ops are too many for one replay", replay->op_count);
  } else if (!allocate(replay)) {
    status = bt_fail(error, BT_ERR_NOMEM, "no memory for a replay of %zu ops", replay->op_count);
  }
  if (status == BT_OK) {
    copy_lanes(replay, lanes);
    status = link_all(replay, lanes, error);
  }
  if (status == BT_OK) status = gather_syncs(replay, error);
  if (status == BT_OK) status = find_order(replay, error);
  if (status == BT_OK) {
    *out = replay;
  } else {
    bt_replay_free(replay);
  }
  return status;
}

void bt_replay_free(bt_replay *replay) {
  if (replay == NULL) return;
  struct bt_replay_graph *graph = replay->graph;
  if (graph != NULL) {
    free(graph->lane_of);
    free(graph->rank);
    free(graph->depends);
    free(graph->order);
    free(graph->sync);
    free(graph->next_member);
    free(graph->sets);
    free(graph);
  }
  free(replay->first);
  free(replay->ops);
  free(replay->costs);
  free(replay->times);
  free(replay->ready);
  free(replay->producer);
  free(replay);
}

static void start_after(bt_op_time *time, const bt_replay *replay, uint32_t needed, int64_t transfer) {
  int64_t then = replay->times[needed].end + transfer;
  if (then <= time->start) return;
  time->start = then;
  time->bound = needed;
}

static void receive(bt_op_time *time, const bt_replay *replay, uint32_t op, int which, int64_t transfer) {
  uint32_t sender = replay->producer[2 * op + which];
  if (sender == BT_NO_OP) { /* none, or handed over within the rank */
    uint32_t local = replay->graph->depends[op][which];
    if (local != BT_NO_OP) start_after(time, replay, local, 0);
    return;
  }
  int64_t arrival = replay->times[sender].end + transfer;
  if (arrival > time->arrival) time->arrival = arrival;
  start_after(time, replay, sender, transfer);
}

static void end_set(bt_replay *replay, sync_set *set) {
  for (uint32_t member = set->head; member != BT_NO_OP; member = replay->graph->next_member[member])
    replay->times[member].end = set->end + set->sync_duration;
}

static void run_op(bt_replay *replay, uint32_t op) {
  struct bt_replay_graph *graph = replay->graph;
  const bt_op_cost *cost = &replay->costs[op];
  bt_op_time time = {replay->ready[graph->lane_of[op]], 0, 0, INT64_MIN, BT_NO_OP};
  if (op > 0 && next_on_lane(replay, op - 1)) start_after(&time, replay, op - 1, 0);
  receive(&time, replay, op, MESSAGE, cost->transfer);
  receive(&time, replay, op, MESSAGE_B, cost->transfer_b);
  for (int i = OWN; i <= LINK; i++) {
    if (graph->depends[op][i] != BT_NO_OP) start_after(&time, replay, graph->depends[op][i], 0);
  }
  time.end = time.own_end = time.start + cost->duration;
  replay->times[op] = time;
  if (graph->sync[op] == 0) return;
  sync_set *set = &graph->sets[graph->sync[op] - 1];
  if (set->arrived == 0 || time.own_end > set->end) set->end = time.own_end;
  if (cost->sync_duration > set->sync_duration) set->sync_duration = cost->sync_duration;
  if (++set->arrived == set->members) end_set(replay, set);
}

void bt_replay_run(bt_replay *replay) {
  struct bt_replay_graph *graph = replay->graph;
  for (size_t i = 0; i < graph->set_count; i++) {
    graph->sets[i].arrived = 0;
    graph->sets[i].sync_duration = 0;
  }
  for (size_t i = 0; i < replay->op_count; i++)
    run_op(replay, graph->order[i]);
}

int64_t bt_replay_lane_end(const bt_replay *replay, size_t lane) {
  size_t end = replay->first[lane + 1];
  return end == replay->first[lane] ? replay->ready[lane] : replay->times[end - 1].end;
}
