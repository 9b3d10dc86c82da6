/* What a push and a pop cost a program: without an injection, with one that only counts would be two calls; here with
 * ours, for ranges that no rule knows and for ranges that become spans. Ratios to an empty call through a pointer. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/capture/nvtx_client.h"

enum { RANGES = 1000000, ROUNDS = 5, NAMES = 64 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int nothing(const char *text) {
  (void)text;
  return 0;
}
static int nothing_more(void) {
  return 0;
}

/* ns of one push and pop; the best of some rounds. The texts take turns, as a schedule's do. */
static double measure(const nvtx_client *client, char (*names)[64]) {
  int64_t best = INT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t begin = now();
    for (int i = 0; i < RANGES; i++) {
      nvtx_push(client, names[i % NAMES]);
      nvtx_pop(client);
    }
    int64_t took = now() - begin;
    if (took < best) best = took;
  }
  return (double)best / RANGES;
}

static void fill(char (*names)[64], const char *format) {
  for (int i = 0; i < NAMES; i++)
    snprintf(names[i], sizeof names[i], format, i);
}

int main(void) {
  static nvtx_client client, empty;
  char names[NAMES][64];
  char directory[] = "/tmp/bubbletop-bench-XXXXXX";
  char command[64];
  empty.core[BT_NVTX_RANGE_PUSH_A] = (bt_nvtx_function)nothing;
  empty.core[BT_NVTX_RANGE_POP] = (bt_nvtx_function)nothing_more;
  fill(names, "F%d.0.1");
  double none = measure(&empty, names);
  if (!nvtx_attach(&client)) return 1;
  unsetenv("BUBBLETOP_DIR");
  fill(names, "aten::layer_norm, seq = %d");
  double unknown = measure(&client, names);
  if (mkdtemp(directory) == NULL) return 1;
  snprintf(command, sizeof command, "rm -rf %s", directory);
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("BUBBLETOP_RANK", "0", 1);
  fill(names, "F%d.0.1");
  double recorded = measure(&client, names);
  printf("nvtx push+pop: empty calls %.1f ns, range of no interest %.1f ns, range recorded %.1f ns (target: 150)\n",
         none, unknown, recorded);
  return system(command) == 0 ? 0 : 1;
}
