/* What a host-timed span costs the traced program: begin and end through the shared library, with the writer running,
 * over the two clock reads that any span needs. Interleaved pairs within one run; medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/bubbletop.h"

enum { PAIRS = 40, SPANS = 2000 }; /* of one pair: less than a ring holds, so that none is dropped */

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static double spans(bubbletop_session *session) {
  int64_t start = now();
  for (int i = 0; i < SPANS; i++) {
    bubbletop_span span;
    bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, 0));
    bubbletop_end(&span);
  }
  return (double)(now() - start) / SPANS;
}

static double comm_spans(bubbletop_session *session) {
  bubbletop_comm message = BUBBLETOP_COMM_INIT;
  message.peer = 1;
  message.bytes = 1 << 20;
  int64_t start = now();
  for (int i = 0; i < SPANS; i++) {
    bubbletop_span span;
    message.sequence = i;
    bubbletop_comm_begin(session, &span, BUBBLETOP_SEND_F, bubbletop_at(i, 0), &message);
    bubbletop_end(&span);
  }
  return (double)(now() - start) / SPANS;
}

static double clock_reads(void) {
  struct timespec time;
  int64_t start = now();
  for (int i = 0; i < SPANS; i++) {
    clock_gettime(CLOCK_MONOTONIC, &time);
    __asm__ volatile("" : : "g"(&time) : "memory");
    clock_gettime(CLOCK_MONOTONIC, &time);
    __asm__ volatile("" : : "g"(&time) : "memory");
  }
  return (double)(now() - start) / SPANS;
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static double median(double *values) {
  qsort(values, PAIRS, sizeof *values, ascending);
  return (values[PAIRS / 2 - 1] + values[PAIRS / 2]) / 2;
}

static int measure(bubbletop_session *session) {
  static double span[PAIRS], comm[PAIRS], clocks[PAIRS], ratio[PAIRS], comm_ratio[PAIRS], nothing[PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    bubbletop_flush(session, 10000);
    span[i] = spans(session);
    clocks[i] = clock_reads();
    ratio[i] = span[i] / clocks[i];
    bubbletop_flush(session, 10000);
    comm[i] = comm_spans(session);
    comm_ratio[i] = comm[i] / clocks[i];
    nothing[i] = spans(NULL);
  }
  bubbletop_stats stats = {.size = sizeof stats};
  bubbletop_get_stats(session, &stats);
  if (stats.dropped != 0 || stats.recorded != 2ull * PAIRS * SPANS) {
    printf("span: %llu of %llu recorded\n", (unsigned long long)stats.recorded, 2ull * PAIRS * SPANS);
    return 1;
  }
  double both = median(clocks);
  printf("span: begin and end %.1f ns, two clock reads %.1f ns: %.2f times (target 1.60)\n", median(span), both,
         median(ratio));
  printf("span: with a message %.2f times; without a session %.1f ns\n", median(comm_ratio), median(nothing));
  return 0;
}

int main(void) {
  char directory[] = "/tmp/bubbletop-bench-XXXXXX";
  if (mkdtemp(directory) == NULL) return 1;
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  bubbletop_session *session = NULL;
  config.directory = directory;
  config.rank = 0;
  int status = 1;
  if (bubbletop_open(&config, &session) == BUBBLETOP_OK) {
    status = measure(session);
    bubbletop_close(session, 0);
  } else {
    printf("span: %s\n", bubbletop_last_error());
  }
  char path[sizeof directory + 32];
  snprintf(path, sizeof path, "%s/rank-00000.0.0.msgpack", directory);
  unlink(path);
  rmdir(directory);
  return status;
}
