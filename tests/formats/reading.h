/* What the tests of the run reader share. Include after cmocka. */
#ifndef BT_TESTS_FORMATS_READING_H
#define BT_TESTS_FORMATS_READING_H

#include "formats/run.h"
#include "tests/formats/maker.h"

extern const bt_run_options once, follow;

/* Opens a run, or fails the test. */
bt_run *open_run(const char *path, const bt_run_options *options);
/* Polls until there is nothing more now. */
bt_status drain(bt_run *run, uint64_t budget);
/* Opens a run and reads it to its end. */
bt_run *read_run(const char *path);
/* Polls until `rank` has `count` spans: files are found within seconds. */
void await_spans(bt_run *run, int32_t rank, size_t count);

size_t problems_of(bt_run *run, bt_problem_kind kind);
uint64_t bytes_read(bt_run *run);
size_t spans_of(bt_run *run, int32_t rank);

void save_and_free(made_stream *made, const char *directory);

/* A sample with known blocks. */
enum { BLOCKS = 12, PER_BLOCK = 10 };

typedef struct known_stream {
  made_stream made;
  size_t header; /* bytes */
  size_t end[BLOCKS]; /* offset behind block i */
} known_stream;

/* Block i holds PER_BLOCK spans of microbatches 0.. that start at 1000000 * (i + 1); ring 1 and 2 by turns. */
void make_known(known_stream *known);

/* Every span of the trace was written, none twice, and those of the blocks that are set in `whole` are all there. */
void check_known(bt_run *run, const bool *whole, const char *what, size_t where);

extern const bool all_blocks[BLOCKS];

#endif
