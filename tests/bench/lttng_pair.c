/* A pair of LTTng-UST tracepoints, our span and two clock reads, in turn within one run; medians. lttng.sh starts it
 * inside a recording session; without one a tracepoint is a branch that is not taken. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "capture/bubbletop.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng_events.h"

enum { PAIRS = 40, SPANS = 2000 };

static double tracepoints(void) {
  int64_t start = bubbletop_now();
  for (int i = 0; i < SPANS; i++) {
    lttng_ust_tracepoint(bubbletop_bench, begin, 1, i, 0);
    lttng_ust_tracepoint(bubbletop_bench, end, 1);
  }
  return (double)(bubbletop_now() - start) / SPANS;
}

static double spans(bubbletop_session *session) {
  int64_t start = bubbletop_now();
  for (int i = 0; i < SPANS; i++) {
    bubbletop_span span;
    bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0));
    bubbletop_end(&span);
  }
  return (double)(bubbletop_now() - start) / SPANS;
}

static double clock_reads(void) {
  struct timespec time;
  int64_t start = bubbletop_now();
  for (int i = 0; i < 2 * SPANS; i++) {
    clock_gettime(CLOCK_MONOTONIC, &time);
    __asm__ volatile("" : : "g"(&time) : "memory");
  }
  return (double)(bubbletop_now() - start) / SPANS;
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static double median(double *values) {
  qsort(values, PAIRS, sizeof *values, ascending);
  return (values[PAIRS / 2 - 1] + values[PAIRS / 2]) / 2;
}

int main(int count, char **arguments) {
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  bubbletop_session *session = NULL;
  double pair[PAIRS], span[PAIRS], clocks[PAIRS];
  config.directory = count > 1 ? arguments[1] : NULL;
  config.rank = 0;
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) {
    fprintf(stderr, "lttng_pair DIRECTORY: %s\n", bubbletop_last_error());
    return 1;
  }
  if (!lttng_ust_tracepoint_enabled(bubbletop_bench, begin)) {
    printf("span: no LTTng session records, so there is no peer to compare with\n");
    return 0;
  }
  for (int i = 0; i < PAIRS; i++) {
    bubbletop_flush(session, 10000);
    usleep(5000); /* the peer's consumer, too, gets its turn */
    span[i] = spans(session);
    pair[i] = tracepoints();
    clocks[i] = clock_reads();
  }
  double both = median(clocks), ours = median(span), theirs = median(pair);
  printf("span: %.1f ns; a pair of LTTng-UST tracepoints in the same run %.1f ns, %.2f times as long (two clock reads "
         "%.1f ns)\n",
         ours, theirs, theirs / ours, both);
  return bubbletop_close(session, 0) == BUBBLETOP_OK ? 0 : 1;
}
