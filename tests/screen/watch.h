/* A run of pipeline stages that grows, watched on a terminal that is a file: tests and benches of the bytes it gets. */
#ifndef BT_TESTS_SCREEN_WATCH_H
#define BT_TESTS_SCREEN_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tui/screen/screen.h"
#include "tui/screen/terminal.h"

typedef struct watch {
  FILE *out, *in;
  bt_terminal *terminal;
  bt_trace *trace;
  bt_lod_set lods;
  bt_view view;
  bt_grid grid;
  int stages, rows, columns;
  uint32_t seed;
} watch;

enum { WATCH_START = 2000000000 }; /* ns: what the run holds at first */

/* False: this machine does not know xterm-256color. Set LC_CTYPE to UTF-8 before. */
bool watch_start(watch *f, int stages, int rows, int columns);
/* The same run with durations of 60 to 140 percent, by stage and microbatch, and B apart from W (another seed, another run; 0: as
 * above). */
bool watch_start_varied(watch *f, int stages, int rows, int columns, uint32_t seed);
void watch_stop(watch *f);
/* Adds what ended in [from, to): 1F1B-like, alternating F and B with bubbles, messages between stages, steps of 16 pairs. */
void watch_run_until(watch *f, int64_t from, int64_t to);
/* Draws a frame; the bytes that it took. */
long watch_frame(watch *f);

#endif
