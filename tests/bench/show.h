/* bubbletop itself on a terminal of its own, for benches. */
#ifndef BT_TESTS_BENCH_SHOW_H
#define BT_TESTS_BENCH_SHOW_H

#include <sys/types.h>

/* Starts ./bubbletop DIRECTORY. Its process, -1: that failed; `terminal` is the other side of its terminal. */
pid_t show_run(const char *directory, int rows, int columns, int *terminal);

#endif
