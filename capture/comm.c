#include "capture/comm.h"

#include <stdlib.h>
#include <string.h>

#include "capture/bubbletop_tool.h"

const bt_communicator *bt_communicators_find(const bt_communicators *all, uint64_t identity) {
  uint32_t count = __atomic_load_n(&all->count, __ATOMIC_ACQUIRE);
  for (uint32_t i = count; identity != 0 && i-- > 0;) {
    if (all->items[i].identity == identity) return &all->items[i];
  }
  return NULL;
}

/* A group of all ranks in order; 0: no memory. */
static uint32_t world_group(bubbletop_session *session, int32_t count) {
  int32_t *ranks = malloc((size_t)count * sizeof *ranks);
  if (ranks == NULL) return 0;
  for (int32_t i = 0; i < count; i++)
    ranks[i] = i;
  uint32_t group = bubbletop_group(session, BUBBLETOP_WORLD, ranks, (size_t)count);
  free(ranks);
  return group;
}

static void describe(bt_communicator *item, bubbletop_session *session, const char *name) {
  int32_t world = -1;
  int32_t rank = bubbletop_rank(session, &world);
  item->global = item->count == world && item->own_rank == rank;
  if (item->global) {
    item->group = world_group(session, item->count);
    return;
  }
  bubbletop_communicator communicator = BUBBLETOP_COMMUNICATOR_INIT;
  communicator.identity = item->identity;
  communicator.own_rank = item->own_rank;
  communicator.count = item->count;
  communicator.name = name;
  item->group = bubbletop_group_join(session, BUBBLETOP_DOMAIN_UNKNOWN, &communicator);
}

const bt_communicator *bt_communicators_add(bt_communicators *all, bubbletop_session *session, uint64_t identity,
                                            int32_t own_rank, int32_t count, const char *name) {
  if (identity == 0 || own_rank < -1 || count < 0 || (own_rank >= count && own_rank != -1)) return NULL;
  pthread_mutex_lock(&all->lock);
  const bt_communicator *known = bt_communicators_find(all, identity);
  uint32_t at = all->count;
  if (known == NULL && at < BT_MAX_COMMUNICATORS) {
    bt_communicator *item = &all->items[at];
    *item = (bt_communicator){.identity = identity, .own_rank = own_rank, .count = count};
    describe(item, session, name);
    __atomic_store_n(&all->count, at + 1, __ATOMIC_RELEASE);
    known = item;
  }
  pthread_mutex_unlock(&all->lock);
  return known;
}

void bt_communicators_forget(bt_communicators *all) {
  pthread_mutex_init(&all->lock, NULL);
  all->count = 0;
}

bt_comm_function bt_comm_function_of(const char *name, bubbletop_kind *collective) {
  static const struct {
    const char *name;
    bt_comm_function function;
    bubbletop_kind kind;
  } functions[] = {
      {"Send", BT_COMM_SEND, BUBBLETOP_SEND_F},
      {"Recv", BT_COMM_RECV, BUBBLETOP_RECV_F},
      {"AllReduce", BT_COMM_COLLECTIVE, BUBBLETOP_ALL_REDUCE},
      {"ReduceScatter", BT_COMM_COLLECTIVE, BUBBLETOP_REDUCE_SCATTER},
      {"AllGather", BT_COMM_COLLECTIVE, BUBBLETOP_ALL_GATHER},
      {"AlltoAll", BT_COMM_COLLECTIVE, BUBBLETOP_ALL_TO_ALL},
      {"Broadcast", BT_COMM_COLLECTIVE, BUBBLETOP_BROADCAST},
      {"Bcast", BT_COMM_COLLECTIVE, BUBBLETOP_BROADCAST},
      {"Scatter", BT_COMM_COLLECTIVE, BUBBLETOP_BROADCAST}, /* all wait for one */
      {"Reduce", BT_COMM_COLLECTIVE, BUBBLETOP_ALL_REDUCE}, /* one waits for all */
      {"Gather", BT_COMM_COLLECTIVE, BUBBLETOP_ALL_GATHER},
  };
  if (strncmp(name, "nccl", 4) == 0) name += 4;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (strcmp(name, functions[i].name) != 0) continue;
    *collective = functions[i].kind;
    return functions[i].function;
  }
  return BT_COMM_OTHER;
}

static bool is_next(const bt_communicator *c, int32_t peer) {
  if (c == NULL || c->own_rank < 0) return true;
  int32_t ahead = (int32_t)(((int64_t)peer - c->own_rank + c->count) % c->count);
  if (c->count > 2 && ahead == 1) return true;
  if (c->count > 2 && ahead == c->count - 1) return false;
  return peer > c->own_rank;
}

bubbletop_kind bt_comm_kind(const bt_communicator *communicator, bool send, int32_t peer) {
  bool next = is_next(communicator, peer);
  if (send) return next ? BUBBLETOP_SEND_F : BUBBLETOP_SEND_B;
  if (communicator == NULL || communicator->own_rank < 0) return BUBBLETOP_RECV_F;
  return next ? BUBBLETOP_RECV_B : BUBBLETOP_RECV_F;
}

bubbletop_comm bt_comm_of(const bt_communicator *communicator, int32_t peer, int64_t bytes) {
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.bytes = bytes >= 0 && bytes < INT64_C(1) << 47 ? bytes : -1;
  if (communicator == NULL) return comm;
  comm.group = communicator->group;
  bool exists = peer >= 0 && (peer < communicator->count || communicator->count == 0);
  comm.peer = exists && communicator->group != 0 ? peer : -1;
  return comm;
}
