/* Communicators as NCCL names them, for the libraries that watch NCCL: what a local peer is to the stream.
 *
 * NCCL knows ranks within a communicator, the stream global ones. A communicator that covers the world in order maps
 * directly; of any other the group record carries NCCL's identity, and readers join the streams (bubbletop_group_join).
 * NCCL does not know either whether a message is an activation or a gradient: by direction, what goes to the next rank
 * of the communicator is forward, what goes to the one before is backward. That holds for 1F1B-like pipelines (a wrap
 * from the last rank to the first counts as next, except between two), not for V-shaped ones.
 */
#ifndef BT_CAPTURE_COMM_H
#define BT_CAPTURE_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/bubbletop.h"

enum { BT_MAX_COMMUNICATORS = 512 };

typedef struct bt_communicator {
  uint64_t identity; /* atomic; 0: free */
  int32_t own_rank, count; /* -1, 0: unknown */
  uint32_t group; /* in the session's stream, 0 none */
  bool global; /* its ranks are the world's */
} bt_communicator;

typedef struct bt_communicators {
  pthread_mutex_t lock; /* for adding */
  uint32_t count; /* atomic; entries below it do not change */
  bt_communicator items[BT_MAX_COMMUNICATORS];
} bt_communicators;
#define BT_COMMUNICATORS_INIT                                                                                          \
  { .lock = PTHREAD_MUTEX_INITIALIZER }

/* The communicator, recorded in the session when it is new. NULL: too many, or no sense in the numbers. */
const bt_communicator *bt_communicators_add(bt_communicators *all, bubbletop_session *session, uint64_t identity,
                                            int32_t own_rank, int32_t count, const char *name);
/* NULL: unknown. */
const bt_communicator *bt_communicators_find(const bt_communicators *all, uint64_t identity);
/* In a forked child: nothing is known, no lock is held. */
void bt_communicators_forget(bt_communicators *all);

/* The function of a name like "ncclSend", "Send", "AllReduce". */
typedef enum bt_comm_function { BT_COMM_OTHER, BT_COMM_SEND, BT_COMM_RECV, BT_COMM_COLLECTIVE } bt_comm_function;
bt_comm_function bt_comm_function_of(const char *name, bubbletop_kind *collective);

/* The kind of a message to or from a peer of the communicator (NULL: unknown). */
bubbletop_kind bt_comm_kind(const bt_communicator *communicator, bool send, int32_t peer);

/* The comm part of a record; `peer` within the communicator, -1 for a collective. */
bubbletop_comm bt_comm_of(const bt_communicator *communicator, int32_t peer, int64_t bytes);

#endif
