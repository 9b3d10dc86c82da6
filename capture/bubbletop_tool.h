/* bubbletop: for libraries that are loaded into a training process that knows nothing of them.
 *
 * The NVTX injection, the NCCL plugin and language bindings record into one session of the process, whoever comes first,
 * so that a rank has one stream. A trainer that calls bubbletop.h itself needs nothing of this.
 */
#ifndef BUBBLETOP_TOOL_H
#define BUBBLETOP_TOOL_H

#include "bubbletop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The session that this process shares: the one that the program has opened, else a new one from the environment. NULL:
 * not configured, or it cannot be opened (tried once a process), or the process was forked from one that had a session.
 * From then on the session lasts until exit(): bubbletop_close of it writes out what there is and leaves it open, and
 * bubbletop_open for the same directory and rank returns it. */
BUBBLETOP_API bubbletop_session *bubbletop_shared(void);

/* A communicator of which only the number of members and the own place are known. In its records a peer is a rank
 * within it; readers find out the global ranks from the streams that name the same `identity`. */
typedef struct bubbletop_communicator {
  size_t size;
  uint64_t identity; /* equal in all members, and in no other communicator of the run */
  int32_t own_rank, count; /* the place in the communicator, and its members; -1, 0 if unknown */
  const char *name; /* as the program calls it; NULL: unnamed */
} bubbletop_communicator;
#define BUBBLETOP_COMMUNICATOR_INIT                                                                                    \
  { sizeof(bubbletop_communicator), 0, -1, 0, NULL }

/* Its id for bubbletop_comm.group, the same for the same identity; 0 for a NULL session or bad arguments. May allocate
 * and take a lock. */
BUBBLETOP_API uint32_t bubbletop_group_join(bubbletop_session *session, bubbletop_domain domain,
                                            const bubbletop_communicator *communicator);

/* Where things are seen. Of several that see the same ones the best alone should record them. */
typedef enum bubbletop_source {
  BUBBLETOP_SOURCE_NVTX = 1, /* NVTX ranges, of the program and of NCCL: when the host called */
  BUBBLETOP_SOURCE_PLUGIN = 2, /* NCCL's profiler plugin */
  BUBBLETOP_SOURCE_ADAPTER = 3 /* an adapter of the framework, which knows stages and microbatches */
} bubbletop_source;

/* What is seen. An adapter is best for ops and messages; for collectives the plugin is, which sees all of NCCL's. */
typedef enum bubbletop_sight {
  BUBBLETOP_SIGHT_OPS = 0, /* F, B, W, BW, FB, OPTIMIZER, and steps */
  BUBBLETOP_SIGHT_P2P = 1,
  BUBBLETOP_SIGHT_COLLECTIVES = 2
} bubbletop_sight;

/* Says that `source` sees such things from now on; returns the best source that has said so. */
BUBBLETOP_API bubbletop_source bubbletop_see(bubbletop_session *session, bubbletop_source source,
                                             bubbletop_sight sight);

/* The best source so far; 0: none. */
BUBBLETOP_API bubbletop_source bubbletop_seen_by(const bubbletop_session *session, bubbletop_sight sight);

/* The rank and the world size (-1 unknown) that the session has. */
BUBBLETOP_API int32_t bubbletop_rank(const bubbletop_session *session, int32_t *world_size);

#ifdef __cplusplus
}
#endif

#endif
