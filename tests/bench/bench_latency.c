/* From the end of a span to the screen that shows it: a process that records with the public API, and bubbletop itself on
 * a terminal, 80x24. Each span begins a step whose number, of digits that all differ from those before, is looked for in
 * what the terminal gets. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/bubbletop.h"
#include "tests/bench/show.h"

enum { SAMPLES = 27 };

typedef struct sample {
  int64_t step, end;
} sample;

static void wait_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* 1,111 2,222 ... 9,999 11,111 ... */
static int64_t number_of(int i) {
  int64_t ones = 1111;
  for (int more = i / 9; more > 0; more--)
    ones = ones * 10 + 1;
  return ones * (i % 9 + 1);
}

static int record(const char *directory, int out) {
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.directory = directory;
  config.rank = 0;
  config.world_size = 1;
  bubbletop_session *session;
  if (bubbletop_open(&config, &session) != BUBBLETOP_OK) return 1;
  unsigned random = 1;
  for (int i = 0; i < SAMPLES; i++) {
    random = random * 1664525 + 1013904223;
    wait_ms(i == 0 ? 2000 : 400 + (long)(random >> 16) % 137); /* at no fixed place between polls and frames */
    sample s = {.step = number_of(i)};
    bubbletop_span span;
    bubbletop_step_begin(session, s.step);
    bubbletop_begin(session, &span, BUBBLETOP_F, bubbletop_at(i, -1));
    bubbletop_end(&span);
    s.end = bubbletop_now();
    if (write(out, &s, sizeof s) != (ssize_t)sizeof s) break;
  }
  wait_ms(1000);
  bubbletop_close(session, 1000);
  return 0;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Latencies in ms, of as many as were seen. */
static int watch(int terminal, int in, double *latencies) {
  char text[1 << 16] = "", number[32] = "";
  size_t held = 0;
  int seen = 0;
  sample s = {0, 0};
  struct pollfd waits[] = {{terminal, POLLIN, 0}, {in, POLLIN, 0}};
  while (seen < SAMPLES && poll(waits, 2, 10000) > 0) {
    if (waits[1].revents != 0) {
      if (read(in, &s, sizeof s) != (ssize_t)sizeof s) break;
      (void)snprintf(number, sizeof number, "%lld,%03lld", (long long)(s.step / 1000), (long long)(s.step % 1000));
    }
    if (waits[0].revents != 0) {
      if (held + 4096 > sizeof text) held = 0;
      ssize_t got = read(terminal, text + held, 4096);
      if (got <= 0) break;
      held += (size_t)got;
      text[held < sizeof text ? held : sizeof text - 1] = 0;
    }
    if (number[0] == 0 || strstr(text, number) == NULL) continue;
    latencies[seen++] = (double)(bubbletop_now() - s.end) / 1e6;
    number[0] = 0;
    held = 0;
    text[0] = 0;
  }
  return seen;
}

int main(void) {
  char directory[] = "/tmp/bubbletop-latency-XXXXXX", command[128];
  int samples[2], terminal;
  if (mkdtemp(directory) == NULL || pipe2(samples, O_CLOEXEC) != 0) return 1;
  pid_t writer = fork();
  if (writer == 0) _exit(record(directory, samples[1]));
  close(samples[1]);
  pid_t viewer = show_run(directory, 24, 80, &terminal);
  double latencies[SAMPLES];
  int seen = viewer > 0 ? watch(terminal, samples[0], latencies) : 0;
  kill(writer, SIGTERM);
  if (viewer > 0) kill(viewer, SIGTERM);
  waitpid(writer, NULL, 0);
  waitpid(viewer, NULL, 0);
  (void)snprintf(command, sizeof command, "rm -rf %s", directory);
  if (system(command) != 0 || seen < SAMPLES / 2) {
    fprintf(stderr, "latency: only %d of %d spans came to the screen\n", seen, SAMPLES);
    return 1;
  }
  qsort(latencies, (size_t)seen, sizeof *latencies, compare);
  printf("span end to screen, %d spans: median %.0f ms, most %.0f ms (target 300)\n", seen, latencies[seen / 2],
         latencies[seen - 1]);
  return 0;
}
