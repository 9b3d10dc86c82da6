/* The view opens runs that `simulate` wrote, messages and gates among them: when the first frame is there, when all is read and
 * indexed, in time and in processor time, and what memory it takes at its peak. */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/show.h"

enum { FRAME_BYTES = 2000, WAIT_MS = 120000 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A number of /proc/PID/status, kB. */
static double status_of(pid_t pid, const char *key) {
  char path[64], line[256];
  double value = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) value = strtod(line + strlen(key), NULL);
  }
  if (file != NULL) fclose(file);
  return value;
}

typedef struct opened {
  double first, all, cpu, memory; /* s, s, s, bytes */
} opened;

/* True: it says that all is read. */
static bool watch(int terminal, double begin, opened *out) {
  char text[1 << 16];
  size_t held = 0, got_in_all = 0;
  struct pollfd wait = {terminal, POLLIN, 0};
  while (poll(&wait, 1, WAIT_MS) > 0) {
    if (held + 8192 >= sizeof text) {
      memmove(text, text + held - 64, 64);
      held = 64;
    }
    ssize_t got = read(terminal, text + held, 8192);
    if (got <= 0) return false;
    held += (size_t)got;
    got_in_all += (size_t)got;
    text[held] = 0;
    if (out->first == 0 && got_in_all > FRAME_BYTES) out->first = now() - begin;
    if (memmem(text, held, "ended", 5) != NULL) {
      out->all = now() - begin;
      return true;
    }
  }
  return false;
}

static bool open_run(const char *directory, opened *out) {
  int terminal;
  double begin = now();
  pid_t viewer = show_run(directory, 50, 200, &terminal);
  if (viewer < 0) return false;
  bool fine = watch(terminal, begin, out);
  out->memory = status_of(viewer, "VmHWM:") * 1024;
  struct timespec cpu;
  clockid_t clock;
  if (clock_getcpuclockid(viewer, &clock) == 0 && clock_gettime(clock, &cpu) == 0)
    out->cpu = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
  close(terminal); /* it ends by that */
  waitpid(viewer, NULL, 0);
  return fine;
}

/* Spans of a run that is made here, 0: it cannot be. */
static long make_run(const char *arguments, const char *directory) {
  char command[512], line[512];
  long spans = 0;
  (void)snprintf(command, sizeof command, "./bubbletop simulate %s -o %s", arguments, directory);
  FILE *out = popen(command, "r");
  while (out != NULL && fgets(line, sizeof line, out) != NULL) {
    const char *ranks = strstr(line, " ranks, ");
    if (ranks != NULL) spans = strtol(ranks + 8, NULL, 10);
  }
  return out != NULL && pclose(out) == 0 ? spans : 0;
}

static bool measure(const char *arguments, const char *what) {
  char parent[] = "/tmp/bubbletop-open-XXXXXX", directory[64], command[96];
  if (mkdtemp(parent) == NULL) return false;
  (void)snprintf(directory, sizeof directory, "%s/run", parent);
  long spans = make_run(arguments, directory);
  opened out = {0, 0, 0, 0};
  bool fine = spans > 0 && open_run(directory, &out);
  if (fine)
    printf("open %s, %ld spans: first frame after %.2f s, all read and indexed after %.2f s (processor %.2f s, 100 "
           "million "
           "so: %.1f s), %.1f bytes a span at the peak\n",
           what, spans, out.first, out.all, out.cpu, out.all / (double)spans * 1e8, out.memory / (double)spans);
  (void)snprintf(command, sizeof command, "rm -rf %s", parent);
  return system(command) == 0 && fine;
}

int main(void) {
  bool fine =
      measure("--schedule zb-h1 --stages 8 --microbatches 32 --steps 12000", "8 ranks (targets 12 s and 28 bytes)") &&
      measure("--schedule 1f1b --stages 16 --dp 256 --microbatches 16 --steps 3", "4,096 ranks");
  if (!fine) fprintf(stderr, "open: a run could not be made or shown\n");
  return fine ? 0 : 1;
}
