/* What commands that read a run share: opening it, reading all of it, saying in one line what is wrong, exit status. */
#ifndef BT_COMMANDS_OPEN_RUN_H
#define BT_COMMANDS_OPEN_RUN_H

#include <stddef.h>
#include <stdio.h>

#include "formats/run.h"

/* Opens the paths as one run and reads it to its end, live rings of this host included. On success *run is the caller's
 * (bt_run_close) and the status is BT_EXIT_OK, or BT_EXIT_PARTIAL when bt_run_problems has something to tell. Otherwise
 * *run is NULL, one line is printed to stderr, and the status is BT_EXIT_NOTHING. */
int bt_open_run(const char *command, const char *const *paths, size_t count, bt_run **run);

/* Prints "bubbletop COMMAND: what" for a failure of bt_run_* and returns BT_EXIT_NOTHING. For commands that open a run
 * themselves (to follow it). */
int bt_open_run_failed(const char *command, const bt_error *error);

/* BT_EXIT_OK, or BT_EXIT_PARTIAL when the run has problems. */
int bt_run_exit_status(bt_run *run);

/* What a run is called: the last part of its path. */
void bt_run_name(const char *path, char *out, size_t room);

/* Prints the run's problems, one a line, at most `limit` of them and then how many more there are. */
void bt_print_problems(FILE *out, const char *prefix, bt_run *run, size_t limit);

#endif
