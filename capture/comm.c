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

static void describe(bt_communicator *item, bubbletop_session *session, const char *name) {
  bubbletop_communicator communicator = BUBBLETOP_COMMUNICATOR_INIT;
  communicator.identity = item->identity;
  communicator.own_rank = item->own_rank;
  communicator.count = item->count;
  communicator.name = name;
  item->group = bubbletop_group_join(session, BUBBLETOP_DOMAIN_UNKNOWN, &communicator);
  if (item->count > 0) item->counted = calloc((size_t)item->count * BT_COUNTED, sizeof *item->counted);
}

/* The same communicator, not another one by the same hash. */
static bool is_same(const bt_communicator *known, int32_t own_rank, int32_t count) {
  return known != NULL && ((own_rank == -1 && count == 0) || (known->own_rank == own_rank && known->count == count));
}

const bt_communicator *bt_communicators_add(bt_communicators *all, bubbletop_session *session, uint64_t identity,
                                            int32_t own_rank, int32_t count, const char *name) {
  if (identity == 0 || own_rank < -1 || count < 0 || (own_rank >= count && own_rank != -1)) return NULL;
  pthread_mutex_lock(&all->lock);
  const bt_communicator *known = bt_communicators_find(all, identity);
  if (!is_same(known, own_rank, count)) known = NULL;
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

void bt_communicators_stop_counting(bt_communicators *all) {
  uint32_t count = __atomic_load_n(&all->count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++)
    __atomic_store_n(&all->items[i].uncounted, true, __ATOMIC_RELAXED);
}

bt_comm_function bt_comm_function_of(const char *name, bubbletop_kind *kind) {
  static const struct {
    const char *name;
    bt_comm_function function;
    bubbletop_kind kind;
  } functions[] = {
      {"Send", BT_COMM_SEND, BUBBLETOP_SEND},
      {"Recv", BT_COMM_RECV, BUBBLETOP_RECV},
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
    *kind = functions[i].kind;
    return functions[i].function;
  }
  return BT_COMM_OTHER;
}

bubbletop_comm bt_comm_message(const bt_communicator *communicator, bool send, int32_t peer, int64_t bytes) {
  bubbletop_comm comm = bt_comm_of(communicator, peer, bytes);
  if (comm.peer < 0 || communicator->counted == NULL) return comm;
  int64_t *next = &communicator->counted[(int64_t)peer * BT_COUNTED + (send ? BT_COUNTED_SENDS : BT_COUNTED_RECEIVES)];
  comm.sequence = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(&communicator->uncounted, __ATOMIC_RELAXED)) comm.sequence = -1;
  return comm;
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
