/* Communicators as NCCL names them, for the libraries that watch NCCL.
 *
 * NCCL knows places within a communicator, not global ranks: the group record carries NCCL's identity and the own place,
 * and readers join the streams (bubbletop_group_join). NCCL does not know either whether a message is an activation or a
 * gradient: it is recorded as SEND or RECV, and readers find out where they can. What both sides can do is count: NCCL
 * delivers the messages between two ranks of a communicator in order, so that equal numbers are one message.
 */
#ifndef BT_CAPTURE_COMM_H
#define BT_CAPTURE_COMM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/bubbletop.h"

enum { BT_MAX_COMMUNICATORS = 512 };
enum { BT_COUNTED_SENDS, BT_COUNTED_RECEIVES, BT_COUNTED };

typedef struct bt_communicator {
  uint64_t identity; /* atomic; 0: free */
  int32_t own_rank, count; /* -1, 0: unknown */
  uint32_t group; /* in the session's stream, 0 none */
  int64_t *counted; /* atomic; messages so far, to and from each member; NULL: not counted */
  bool uncounted; /* atomic; some were not seen, so that numbers say nothing any more */
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
/* Messages are not seen for a while: from now on they have no numbers. */
void bt_communicators_stop_counting(bt_communicators *all);
/* In a forked child: nothing is known, no lock is held. */
void bt_communicators_forget(bt_communicators *all);

/* The function of a name like "ncclSend", "Send", "AllReduce", and what it is recorded as. */
typedef enum bt_comm_function { BT_COMM_OTHER, BT_COMM_SEND, BT_COMM_RECV, BT_COMM_COLLECTIVE } bt_comm_function;
bt_comm_function bt_comm_function_of(const char *name, bubbletop_kind *kind);

/* The comm part of a message with `peer`, a place in the communicator (NULL: unknown), with its number. */
bubbletop_comm bt_comm_message(const bt_communicator *communicator, bool send, int32_t peer, int64_t bytes);

/* The same without a number; `peer` is -1 for a collective. */
bubbletop_comm bt_comm_of(const bt_communicator *communicator, int32_t peer, int64_t bytes);

#endif
