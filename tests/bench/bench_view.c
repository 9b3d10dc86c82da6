/* The view on 1,024 rank files that grow by 100 spans a second each: its share of a core at 120x36 on the timeline and on the
 * matrix, and when nothing comes any more; and the bytes that it writes. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/show.h"
#include "tests/formats/maker.h"

enum {
  SLICES = 10,
  STAGES = 16,
  RANKS = 1024,
  SPANS = 10,
  ROUND_MS = 100,
  STEP_ROUNDS = 10,
  WARM = 60,
  ROUNDS = 100,
  IDLE_MS = 8000
};

static const int64_t ms = 1000000;

typedef struct writer {
  made_stream made[RANKS];
  int files[RANKS];
  int64_t begin;
  int64_t round;
} writer;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void open_files(writer *w, const char *directory) {
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  w->begin = now();
  for (int32_t rank = 0; rank < RANKS; rank++) {
    made_stream *made = &w->made[rank];
    char path[512];
    maker_init(made, rank, 0, 0);
    made->header.world_size = RANKS;
    made->header.mono_ns = w->begin;
    made->header.real_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
    made->header.layout.pp_size = STAGES;
    made->header.layout.dp_size = RANKS / STAGES;
    made->header.layout.pp_rank = rank / (RANKS / STAGES);
    made->header.layout.dp_rank = rank % (RANKS / STAGES);
    maker_header(made);
    maker_save(made, directory, made->length);
    maker_path(made, directory, path, sizeof path);
    w->files[rank] = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    made->length = 0;
  }
}

static void mark(made_stream *made, bt_code code, int64_t time, int64_t step) {
  bt_event event;
  bt_event_init(&event, code);
  event.start = time;
  event.step = step;
  maker_add(made, &event);
}

/* Every tenth file gets what its rank did in the last 100 ms: F and B in turn, a step mark every second. Writers of a real run
 * do not flush at the same time either. */
static void write_slice(writer *w, int slice) {
  int64_t start = w->begin + (w->round - 1) * ROUND_MS * ms;
  for (int32_t rank = slice; rank < RANKS; rank += SLICES) {
    made_stream *made = &w->made[rank];
    maker_begin(made, 1);
    if (w->round % STEP_ROUNDS == 0) mark(made, BT_STEP_BEGIN, start, w->round / STEP_ROUNDS);
    for (int64_t i = 0; i < SPANS; i++) {
      int64_t number = w->round * SPANS + i;
      maker_span(made, number % 2 == 0 ? BT_F : BT_B, start + i * 10 * ms + rank % STAGES * 50000,
                 8 * ms + number % 7 * 100000, (int32_t)(number % (STEP_ROUNDS * SPANS) / 2));
    }
    if (w->round % STEP_ROUNDS == STEP_ROUNDS - 1)
      mark(made, BT_STEP_END, start + ROUND_MS * ms - 1, w->round / STEP_ROUNDS);
    maker_finish(made);
    if (write(w->files[rank], made->bytes, made->length) != (ssize_t)made->length) exit(1);
    made->length = 0;
  }
}

/* Processor time of a process so far, s. */
static double spent(pid_t pid) {
  char path[64], text[1024];
  unsigned long user = 0, system = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  const char *after = strrchr(text, ')');
  if (after == NULL || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
    return 0;
  return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Reads the terminal until `until`; the bytes. */
static long drain(int terminal, int64_t until) {
  long bytes = 0;
  for (int64_t left; (left = until - now()) > 0;) {
    char text[65536];
    struct pollfd wait = {terminal, POLLIN, 0};
    if (poll(&wait, 1, (int)(left / ms) + 1) <= 0) continue;
    ssize_t got = read(terminal, text, sizeof text);
    if (got <= 0) exit(1);
    bytes += got;
  }
  return bytes;
}

/* Writes rounds in real time. */
static void follow(writer *w, pid_t viewer, int terminal, int rounds, const char *what) {
  double before = spent(viewer);
  int64_t begin = now();
  long bytes = 0;
  for (int i = 0; i < rounds; i++) {
    for (int slice = 0; slice < SLICES; slice++) {
      bytes += drain(terminal, w->begin + (w->round * SLICES + slice) * ROUND_MS * ms / SLICES);
      write_slice(w, slice);
    }
    w->round++;
  }
  double seconds = (double)(now() - begin) / 1e9;
  if (what != NULL)
    printf("view of %d files at 100 spans/s each, 120x36, %s: %.1f %% of a core (target 15), %.1f KB/s\n", RANKS, what,
           100 * (spent(viewer) - before) / seconds, (double)bytes / seconds / 1000);
}

int main(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  char directory[256];
  writer *w = calloc(1, sizeof *w);
  if (w == NULL) return 1;
  maker_directory(directory, sizeof directory);
  open_files(w, directory);
  int terminal;
  pid_t viewer = show_run(directory, 36, 120, &terminal);
  if (viewer < 0) return 1;
  follow(w, viewer, terminal, WARM, NULL);
  follow(w, viewer, terminal, ROUNDS, "the timeline");
  if (write(terminal, "V", 1) != 1) return 1;
  follow(w, viewer, terminal, ROUNDS / 5, NULL);
  follow(w, viewer, terminal, ROUNDS, "the matrix");
  if (write(terminal, "v", 1) != 1) return 1;
  (void)drain(terminal, now() + IDLE_MS * ms);
  double before = spent(viewer);
  long bytes = drain(terminal, now() + IDLE_MS * ms);
  printf("the same when nothing comes any more: %.1f %% of a core, %.1f KB/s\n",
         100 * (spent(viewer) - before) / (IDLE_MS / 1e3), (double)bytes / IDLE_MS);
  close(terminal); /* it ends by that, even while it writes */
  waitpid(viewer, NULL, 0);
  maker_remove(directory);
  return 0;
}
