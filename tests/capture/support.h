/* What the tests of the capture library share: a scratch directory, and a run read back with formats/wire alone. */
#ifndef BT_TESTS_CAPTURE_SUPPORT_H
#define BT_TESTS_CAPTURE_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/bubbletop.h"
#include "formats/wire/decode.h"

/* A new empty directory, removed by scratch_remove. Clears BUBBLETOP_* and the launchers' variables. */
char *scratch_make(void);
void scratch_remove(char *directory);
/* The same on tmpfs, and the default for rings; skips the test where /dev/shm is no tmpfs. */
char *scratch_rings(void);
/* "directory/name", in a static buffer of its own for each of the last four calls. */
const char *path_in(const char *directory, const char *name);

typedef struct record {
  bt_event event; /* points to the fields below */
  uint32_t life, segment, ring;
  uint64_t number;
  char *text;
  bt_run_of_ranks *runs;
} record;

typedef struct stream_file {
  char name[64];
  uint32_t life, segment;
  uint64_t size;
  bt_header header;
  size_t blocks;
  size_t first_record, record_count; /* of the run's records */
} stream_file;

/* All streams of a directory in order of life and segment. Damage fails the test, but for `torn`: a last block that is
 * not whole ends the file. */
typedef struct stream_run {
  stream_file *files;
  size_t file_count;
  record *records;
  size_t record_count, record_capacity;
} stream_run;

stream_run *run_read(const char *directory, bool torn);
void run_free(stream_run *run);

size_t run_count(const stream_run *run, unsigned code);
/* The n-th record of that code, from 0; fails the test when there is none. */
const record *run_find(const stream_run *run, unsigned code, size_t n);
/* The end record's text of a life, NULL when it has none. */
const char *run_end(const stream_run *run, uint32_t life);
/* The value of a one-key meta record, the last one; NULL: none. */
const char *run_meta(const stream_run *run, const char *key);
/* Records of each (life, ring) are numbered 0, 1, 2, … without gap or repetition. */
void run_check_numbers(const stream_run *run);

/* Settings of a session in `directory`: rank 0, short naps. */
bubbletop_config config_in(const char *directory);

/* In sessions.c, for programs that link the library. A session that cannot be opened fails the test. */
bubbletop_session *session_in(const char *directory);
bubbletop_stats stats_of(bubbletop_session *session);
/* `count` F spans with microbatches from `first` on. */
void record_spans(bubbletop_session *session, int32_t first, int32_t count);

/* Waits until `condition(context)`, at most 20 s; false when it never was. */
bool wait_until(bool (*condition)(void *), void *context);

/* The exit status of a child that runs `body`, 128 + signal when it was killed. */
int in_child(void (*body)(void *), void *context);
int status_of(pid_t child);

/* Marks the microbatches of the F spans that lie in a ring file, or in a run's files. */
void mark_ring(const char *path, uint8_t *seen, size_t count);
void mark_run(const stream_run *run, uint32_t life, uint8_t *seen, size_t count);

/* Ring files of this user in a directory. */
size_t ring_files(const char *directory, char *path, size_t room);

#endif
