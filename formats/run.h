/* A run on disk, read into a trace and followed while it grows.
 *
 * A run is a directory of streams (rank-RRRRR.L.S.msgpack, ….recovered.msgpack), or single stream files. Following is
 * by polling (network file systems have no change notice), reads each byte once, and merges files, recovered files and,
 * on the ring's own host, live rings by record number, so that nothing is doubled.
 *
 * Rules. Files of several run ids in one directory: the one whose header has the newest real time (at bt_run_open) is read,
 * the others are named (BT_PROBLEM_MIXED_RUNS). Lives of a rank that overlap in time: the one that began first is read, the
 * records of the others are counted, not merged (BT_PROBLEM_TWO_WRITERS); so a later life waits until an earlier one has
 * ended or been silent for 5 s. Ranks up to BT_MAX_RANK, BT_MAX_LIVES lives of each, 4,096 rings of each life, 1,048,576
 * files: what exceeds this is left out and reported. A follower keeps at most RLIMIT_NOFILE - 64 files open.
 *
 * A bt_run owns its trace. Not thread-safe; bt_run_poll may block on slow file systems, so a program with a screen calls
 * it from a thread of its own and takes `lock`/`unlock` (called round every change of the trace, never round I/O).
 */
#ifndef BT_FORMATS_RUN_H
#define BT_FORMATS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"
#include "formats/wire/status.h"

typedef struct bt_run bt_run;

typedef struct bt_run_options {
  bool follow; /* keep looking for growth and new files; otherwise one pass reads all and ends */
  bool rings; /* read live rings of writers on this host */
  int64_t stale_after; /* ns without growth after which a torn tail counts as damage; 0: 90 s */
  void (*lock)(void *context);
  void (*unlock)(void *context);
  void *context;
} bt_run_options;

/* Opens directories and files (all are one run). The list is copied. Errors: BT_ERR_IO (cannot be opened),
 * BT_ERR_EMPTY (no stream in it; when following, an empty or missing directory is BT_OK and waited for, one with
 * nothing but other files is not),
 * BT_ERR_FORMAT, BT_ERR_VERSION. */
bt_status bt_run_open(const char *const *paths, size_t count, const bt_run_options *options, bt_run **run,
                      bt_error *error);
void bt_run_close(bt_run *run);

/* Reads what is there. BT_OK: something new came, call again soon. BT_AGAIN: nothing new now. BT_END: every life has
 * ended (or the run is not followed) and all is read. At most about `budget` bytes are read (0: no bound). */
bt_status bt_run_poll(bt_run *run, uint64_t budget, bt_error *error);

/* Bytes that polls have read so far: how much the last one brought. */
uint64_t bt_run_bytes(const bt_run *run);

/* Ranks whose files should be polled often (what is on the screen); others are polled rarely. NULL: all often. */
void bt_run_watch(bt_run *run, const int32_t *ranks, size_t count);

bt_trace *bt_run_trace(bt_run *run);

typedef enum bt_problem_kind {
  BT_PROBLEM_DAMAGE, /* bytes skipped in a file */
  BT_PROBLEM_TORN_TAIL, /* a file ends inside a block and does not grow */
  BT_PROBLEM_NO_END, /* a life that neither ended nor lives */
  BT_PROBLEM_RING_UNREAD, /* spans may lie in a ring on another host */
  BT_PROBLEM_RING_DEAD, /* a dead writer's ring lies here: `bubbletop recover` */
  BT_PROBLEM_MISSING, /* records lost between blocks */
  BT_PROBLEM_DROPPED, /* a ring was full */
  BT_PROBLEM_TWO_WRITERS, /* lives of one rank overlap in time */
  BT_PROBLEM_MIXED_RUNS, /* files of different run ids in one directory */
  BT_PROBLEM_UNREADABLE, /* a file that cannot be opened or is no stream */
  BT_PROBLEM_VERSION, /* a file of a newer format */
  BT_PROBLEM_MISSING_RANKS, /* fewer ranks than the world size says */
  BT_PROBLEM_VANISHED, /* a file that was there is gone */
  BT_PROBLEM_COMMUNICATORS_INCOMPLETE, /* some of their members are not known */
  BT_PROBLEM_COMMUNICATORS_AMBIGUOUS /* what ranks say of them contradicts itself */
} bt_problem_kind;

typedef struct bt_problem {
  bt_problem_kind kind;
  int32_t rank; /* -1: not of one rank */
  uint64_t offset; /* in the file */
  uint64_t amount; /* bytes or records, by kind */
  char file[256]; /* base name; control characters replaced */
  char text[256]; /* one line for a person */
} bt_problem;

/* Machine name of a problem, as in `warnings[].code` ("damage", "torn_tail", "ring_unread", …). */
const char *bt_problem_code(bt_problem_kind kind);

/* What is wrong with the run so far, computed afresh; borrowed until the next bt_run_* call. */
const bt_problem *bt_run_problems(bt_run *run, size_t *count);

typedef struct bt_file_info {
  const char *path;
  int32_t rank;
  uint32_t life, segment;
  bool recovered, ended, torn;
  uint64_t bytes_read; /* by this reader, in all: each byte once */
  uint64_t size, blocks, records;
  bt_header header;
} bt_file_info;

/* The files of the run in order of (rank, life, segment); borrowed until the next bt_run_* call. */
const bt_file_info *bt_run_files(bt_run *run, size_t *count);

#endif
