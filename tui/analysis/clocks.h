/* Clocks of several hosts brought onto one, from messages between their ranks, never from wall clocks.
 *
 * A message is never received before it is sent: the end of its receive on host B and the start of its send on host A bound
 * how far B's clock is ahead of A's. Messages of both directions (and collectives, which nobody leaves before all have come)
 * bound it from both sides. Within the bounds a straight line is fitted, offset and drift; pairs are joined into a tree of
 * least uncertainty from the reference, which is the host of the lowest rank.
 *
 * Two errors: `error_ns` is a bound. It assumes nothing of latencies, only that two clocks differ by a constant rate of at
 * most BT_CLOCK_MOST_PPM. `likely_error_ns` assumes besides that the fastest messages of both directions take equally long.
 *
 * Pure: reads a trace, owns its result. Safe from any thread on distinct objects.
 */
#ifndef BT_ANALYSIS_CLOCKS_H
#define BT_ANALYSIS_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"

enum { BT_CLOCK_MOST_PPM = 200, BT_CLOCK_VIOLATIONS = 16 };

typedef struct bt_clock_host {
  bool present; /* some rank runs on it */
  bool known; /* messages connect it with the reference */
  bool bounded; /* error_ns is a bound: no pair on the way to it is bent */
  int64_t offset_ns; /* how far its clock is ahead of the reference's, at bt_clocks.from */
  double drift_ppm; /* how much faster it goes */
  int64_t error_ns, likely_error_ns; /* of the offset, at any time of the run; meaningless unless known */
} bt_clock_host;

/* A message that was received before it was sent, after correction. */
typedef struct bt_clock_violation {
  int32_t from, to; /* ranks */
  int64_t time; /* when it was sent, in the sender's own clock */
  int64_t by_ns;
} bt_clock_violation;

typedef struct bt_clocks bt_clocks;

/* BT_OK also when the clocks cannot be aligned (the summary says so); BT_ERR_NOMEM. */
bt_status bt_clocks_solve(const bt_trace *trace, bt_clocks **clocks, bt_error *error);
void bt_clocks_free(bt_clocks *clocks);

/* One entry for each of the trace's hosts, by its index. Borrowed. */
const bt_clock_host *bt_clocks_hosts(const bt_clocks *clocks, size_t *count);

typedef struct bt_clocks_summary {
  bool aligned; /* every host with ranks is known: times of all ranks can be compared */
  bool bent; /* some pair's messages fit no straight line: its error is no bound */
  uint32_t reference; /* host */
  int64_t from, to; /* the run, on the reference's clock */
  int64_t max_error_ns, likely_error_ns; /* of the worst known host */
  size_t messages; /* between hosts, matched */
  size_t violations;
  bt_clock_violation worst[BT_CLOCK_VIOLATIONS]; /* of them the worst, worst first; min(violations, that many) */
} bt_clocks_summary;

const bt_clocks_summary *bt_clocks_summary_of(const bt_clocks *clocks);

/* A time of a host's clock on the reference's clock. The host must be known. */
int64_t bt_clocks_time(const bt_clocks *clocks, uint32_t host, int64_t time);

/* How wrong a difference of times of two known hosts can be, and likely is. 0 and 0 for one host. A wait below `likely` is
 * unresolved. */
void bt_clocks_pair(const bt_clocks *clocks, uint32_t a, uint32_t b, int64_t *error_ns, int64_t *likely_ns);

/* Writes the correction into the trace's ranks (bt_rank_time): of known hosts; others get none. */
void bt_clocks_apply(const bt_clocks *clocks, bt_trace *trace);

#endif
