/* bubbletop: spans on a CUDA stream, timed by the GPU.
 *
 * Begin and end record an event each on the caller's stream; a thread of the session asks for their times later and
 * writes the span, on the host's clock. There is never a wait for the device. The driver is found at run time; the
 * library itself needs no CUDA.
 *
 * What happens when …
 *   there is no driver, no context, no room (4,096 spans of a context may be under way), or the events fail   the span has
 *       the host's times, from begin to end of the launch, and says so (flag "GPU unknown").
 *   the stream is being captured into a graph   nothing is recorded and nothing is put into the graph; such spans are
 *       counted (graph_captured in bubbletop_stats and in the stream). A step that is one graph has no F or B here.
 *   the session is closed   spans whose events are not through by then are written with the host's times.
 *   the process is killed   spans whose events were not read yet come back with the host's times and that flag, once
 *       recovered (bubbletop.h); those that had not ended on the host as open ones.
 *   it forks   as with all CUDA calls: the child is silent.
 * A span may be ended by another thread than the one that began it, on the same stream.
 */
#ifndef BUBBLETOP_CUDA_H
#define BUBBLETOP_CUDA_H

#include "bubbletop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lives on the caller's stack between begin and end; its content is the library's. */
typedef struct bubbletop_cuda_span {
  uint64_t opaque[16];
} bubbletop_cuda_span;

/* `stream` is a cudaStream_t or CUstream, NULL the default stream; its device's context must be current. */
BUBBLETOP_API void bubbletop_cuda_begin(bubbletop_session *session, bubbletop_cuda_span *span, bubbletop_kind kind,
                                        bubbletop_where where, void *stream);
BUBBLETOP_API void bubbletop_cuda_comm_begin(bubbletop_session *session, bubbletop_cuda_span *span, bubbletop_kind kind,
                                             bubbletop_where where, const bubbletop_comm *comm, void *stream);
/* The stream begins to be blocked on a message; the end is when it may go on. */
BUBBLETOP_API void bubbletop_cuda_gate_begin(bubbletop_session *session, bubbletop_cuda_span *span,
                                             bubbletop_where where, const bubbletop_gate_on *on, void *stream);

/* Another message in the same launch: it gets the span's times, and all of them say that they share them ("grouped").
 * Between begin and end, by one
 * thread at a time. */
BUBBLETOP_API void bubbletop_cuda_add(bubbletop_cuda_span *span, bubbletop_kind kind, bubbletop_where where,
                                      const bubbletop_comm *comm);

/* A launch whose messages are told later: its work begins on the stream now, and has all been put there at `launched`;
 * then bubbletop_cuda_add names the messages, and bubbletop_cuda_end hands them over. Without any nothing is recorded. */
BUBBLETOP_API void bubbletop_cuda_launch_begin(bubbletop_session *session, bubbletop_cuda_span *span, void *stream);
BUBBLETOP_API void bubbletop_cuda_launched(bubbletop_cuda_span *span);

/* The n-th message of a launch, in the order in which they were added (from 0), had a part of its own: from and to in ns
 * behind the launch's beginning. It has these times then, and does not share the launch's. Before the end. */
BUBBLETOP_API void bubbletop_cuda_part(bubbletop_cuda_span *span, uint32_t nth, int64_t from, int64_t to);

BUBBLETOP_API void bubbletop_cuda_end(bubbletop_cuda_span *span);
/* Ends a message where `stream`, any of the same context, has waited for it: it was through then, but perhaps long before
 * ("grouped": the end is an upper bound). */
BUBBLETOP_API void bubbletop_cuda_end_after(bubbletop_cuda_span *span, void *stream);

#ifdef __cplusplus
}
#endif

#endif
