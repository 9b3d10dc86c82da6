/* Following 1,024 rank files: the share of a core that polling costs, with 100 spans a second on each of them (a block
 * every 100 ms, as the writer flushes) and with none. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "formats/run.h"
#include "tests/formats/maker.h"

enum { RANKS = 1024, ROUNDS = 30, SPANS = 10, ROUND_MS = 100 };

static double spent(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int64_t round_start(int round) {
  return 1000000000 + (int64_t)round * ROUND_MS * 1000000;
}

/* One round: every file gets a block (outside of what is measured), then the run is polled as a view would. */
static double follow(bt_run *run, made_stream *made, const int *files, int from, int rounds, bool grow) {
  double sum = 0;
  for (int round = from; round < from + rounds; round++) {
    for (int32_t rank = 0; rank < RANKS && grow; rank++) {
      size_t before = made[rank].length;
      maker_spans(&made[rank], 1, round_start(round), SPANS, 4000000);
      if (pwrite(files[rank], made[rank].bytes + before, made[rank].length - before, (off_t)before) < 0) return -1;
    }
    double begin = spent();
    bt_status status;
    while ((status = bt_run_poll(run, 0, NULL)) == BT_OK) {
    }
    if (status != BT_AGAIN) return -1;
    sum += spent() - begin;
  }
  return 100 * sum / ((double)rounds * ROUND_MS * 1e6);
}

int main(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  char directory[256];
  maker_directory(directory, sizeof directory);
  made_stream *made = calloc(RANKS, sizeof *made);
  int *files = calloc(RANKS, sizeof *files);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    char path[512];
    maker_init(&made[rank], rank, 0, 0);
    made[rank].header.world_size = RANKS;
    maker_header(&made[rank]);
    maker_save(&made[rank], directory, made[rank].length);
    maker_path(&made[rank], directory, path, sizeof path);
    files[rank] = open(path, O_WRONLY);
  }
  const bt_run_options options = {.follow = true};
  const char *paths[] = {directory};
  bt_run *run;
  if (bt_run_open(paths, 1, &options, &run, NULL) != BT_OK) return 1;
  double all = follow(run, made, files, 0, ROUNDS, true);
  double idle = follow(run, made, files, ROUNDS, ROUNDS, false);
  printf("follow: %d files at 100 spans/s each, polled every %d ms: %.1f %% of a core (target 15), idle %.2f %%\n",
         RANKS, ROUND_MS, all, idle);
  bt_run_close(run);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    close(files[rank]);
    maker_free(&made[rank]);
  }
  free(made);
  free(files);
  maker_remove(directory);
  return all < 0 || idle < 0;
}
