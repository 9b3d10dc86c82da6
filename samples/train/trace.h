/* The capture session of one rank: opened once, and told who this rank is. Start reading here.
 *
 * Where the rest of the instrumentation is:
 *   stage.c      F, B, W and BW spans, OPTIMIZER, HOST, step marks, the memory counter
 *   transport.c  SEND_* and RECV_* spans, and the gates of ops that were blocked on a receive
 *   allreduce.c  ALL_REDUCE spans
 */
#ifndef TRAIN_TRACE_H
#define TRAIN_TRACE_H

#include "capture/bubbletop.h"
#include "samples/train/schedule.h"

struct trace {
  bubbletop_session *session; /* NULL when there is no capture: every bubbletop_* call then does nothing */
  uint32_t pipeline, data, world; /* communicators: of this replica, of this stage, of all */
};

/* Never fails: without a session the training goes on, and the reason is printed. */
void trace_open(struct trace *trace, const struct options *o, const struct plan *plan);

/* Writes out everything and ends the stream; prints what was captured if asked to. */
void trace_close(struct trace *trace, const struct options *o);

#endif
