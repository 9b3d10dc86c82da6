/* Pipeline messages between ranks, as isend and irecv are to a framework: a thread of its own moves the bytes, so a
 * rank is never blocked on a send, and on a receive only when it needs the data.
 *
 * Instrumented: a send's span runs from the call to the last byte handed to the socket; a receive's span from the
 * posting (or the first byte, if that came before) to the last byte. Both sides write the same sequence number.
 */
#ifndef TRAIN_TRANSPORT_H
#define TRAIN_TRANSPORT_H

#include "samples/train/connect.h"
#include "samples/train/trace.h"

struct transport;

struct envelope {
  int peer; /* global rank of the other side */
  int64_t sequence; /* counts the messages from the sender to the receiver, from 0, over all steps */
  bool backward; /* a gradient, not an activation */
  int microbatch;
  int chunk; /* this rank's chunk */
  int to_chunk; /* sends: the receiver's */
  unsigned flags;
  size_t count; /* floats */
};

struct transport_counts {
  uint64_t sent, received, blocked;
};

/* The mesh and the trace are borrowed until transport_stop. */
int transport_start(struct transport **transport, const struct mesh *mesh, const struct trace *trace,
                    struct failure *why);

/* Begins to send. Takes ownership of `data`, also when it fails (the peer is gone). */
int transport_send(struct transport *t, const struct envelope *message, float *data, struct failure *why);

/* Announces that this message will be wanted. */
int transport_post(struct transport *t, const struct envelope *message, struct failure *why);

/* Waits for a posted message. Its data is the caller's; its flags are those that the sender gave it. */
int transport_take(struct transport *t, const struct envelope *message, float **data, unsigned *flags,
                   struct failure *why);

/* Waits until all is sent (`drain`) and ends the thread. Frees the transport in any case. */
int transport_stop(struct transport *t, bool drain, struct transport_counts *counts, struct failure *why);

#endif
