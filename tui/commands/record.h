/* What `bubbletop record` is made of: the run directory, the environment of the command, the command, the summary. */
#ifndef BT_COMMANDS_RECORD_H
#define BT_COMMANDS_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "formats/recover.h"
#include "formats/wire/status.h"

typedef struct bt_record_options {
  const char *run; /* -o */
  const char *run_id; /* --run-id, NULL: found or made */
  const char *steps, *every, *ring_directory; /* NULL: as the environment says */
  bool no_python, no_nvtx, no_nccl;
  char **command; /* ends with NULL */
} bt_record_options;

/* A source of events that the command got, or why it did not: a text for a person, "" when it did. */
typedef struct bt_record_sources {
  char library[PATH_MAX]; /* libbubbletop.so.0, "" not found */
  char python[256], nvtx[256], nccl[256];
} bt_record_sources;

typedef struct bt_record_run {
  char directory[PATH_MAX]; /* absolute */
  char run_id[64];
  bool made; /* the directory was not there before */
  bool owner; /* this process made the mark that the directory is taken */
} bt_record_run;

/* Makes the directory if it is not there and marks it as taken by this run, so that no second capture goes into it; the
 * records of one run on several nodes have the same run id and share it. On failure nothing is left behind. */
bt_status bt_record_take(const bt_record_options *options, bt_record_run *run, bt_error *error);
/* If no stream came: removes the mark, and the directory if it is empty and new, so that it can be used again. */
void bt_record_release(const bt_record_run *run);
/* Whether the directory holds a stream. */
bool bt_record_has_streams(const char *directory);

/* Sets the variables that make the command's processes write streams, in this process's environment. Fails if a slot
 * that can hold one library only is taken by another one. */
bt_status bt_record_environment(const bt_record_options *options, const bt_record_run *run, bt_record_sources *sources,
                                bt_error *error);

/* Runs the command, hands on signals, and waits for its end. *exit_status is what a shell would report: its own, 128 + the
 * signal that killed it, 126 or 127 with a text in `error` when it could not be started (the status is then not BT_OK).
 * Signals stay blocked afterwards. */
bt_status bt_record_command(char *const *command, int *exit_status, bt_error *error);

/* Saves what killed processes left in their rings. Writers that still live get some seconds to end, unless a signal
 * comes. */
void bt_record_drain(const char *directory, bt_recover_report *report);

/* Says on stderr what was captured, and what was not and why. */
void bt_record_summary(const bt_record_options *options, const bt_record_run *run, const bt_record_sources *sources,
                       const bt_recover_report *drained);

#endif
