#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/formats/reading.h"

const bt_run_options once = {0};
const bt_run_options follow = {.follow = true};

bt_run *open_run(const char *path, const bt_run_options *options) {
  bt_run *run;
  bt_error error = {BT_OK, ""};
  if (bt_run_open(&path, 1, options, &run, &error) != BT_OK) fail_msg("%s", error.text);
  return run;
}

/* Polls until there is nothing more now. */
bt_status drain(bt_run *run, uint64_t budget) {
  bt_error error = {BT_OK, ""};
  bt_status status;
  while ((status = bt_run_poll(run, budget, &error)) == BT_OK) {
  }
  if (status < 0) fail_msg("%s", error.text);
  return status;
}

bt_run *read_run(const char *path) {
  bt_run *run = open_run(path, &once);
  assert_int_equal(drain(run, 0), BT_END);
  return run;
}

size_t problems_of(bt_run *run, bt_problem_kind kind) {
  size_t count;
  size_t found = 0;
  const bt_problem *problems = bt_run_problems(run, &count);
  for (size_t i = 0; i < count; i++) {
    found += problems[i].kind == kind;
  }
  return found;
}

uint64_t bytes_read(bt_run *run) {
  size_t count;
  uint64_t sum = 0;
  const bt_file_info *files = bt_run_files(run, &count);
  for (size_t i = 0; i < count; i++) {
    sum += files[i].bytes_read;
  }
  return sum;
}

size_t spans_of(bt_run *run, int32_t rank) {
  const bt_rank *found = bt_trace_find(bt_run_trace(run), rank);
  size_t count = 0;
  for (int lane = 0; found != NULL && lane < BT_LANE_COUNT; lane++) {
    count += found->tracks[lane].count;
  }
  return count;
}

const bool all_blocks[BLOCKS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Block i holds PER_BLOCK spans of microbatches 0.. that start at 1000000 * (i + 1); ring 1 and 2 by turns. */
void make_known(known_stream *known) {
  maker_init(&known->made, 0, 0, 0);
  known->header = known->made.length;
  for (size_t i = 0; i < BLOCKS; i++) {
    maker_spans(&known->made, 1 + i % 2, 1000000 * ((int64_t)i + 1), PER_BLOCK, 300);
    known->end[i] = known->made.length;
  }
}

/* Every span of the trace was written, none twice, and those of the blocks that are set in `whole` are all there. */
void check_known(bt_run *run, const bool *whole, const char *what, size_t where) {
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  size_t at = 0;
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t had = 0;
    for (; at < track->count && track->spans[at].start < 1000000 * ((int64_t)i + 2); at++) {
      const bt_span *span = &track->spans[at];
      if (span->start != 1000000 * ((int64_t)i + 1) + 600 * (int64_t)had || span->duration32 != 300 ||
          span->microbatch != (int32_t)had || span->kind != BT_F) {
        fail_msg("%s %zu: block %zu span %zu was never written", what, where, i, had);
      }
      had++;
    }
    if (had != (whole[i] ? PER_BLOCK : 0)) fail_msg("%s %zu: block %zu has %zu spans", what, where, i, had);
  }
  assert_int_equal(at, track->count);
}

/* Polls until `rank` has `count` spans: files are found within seconds. */
void await_spans(bt_run *run, int32_t rank, size_t count) {
  for (int i = 0; i < 3000 && spans_of(run, rank) < count; i++) {
    (void)drain(run, 0);
    usleep(10000);
  }
  assert_int_equal(spans_of(run, rank), count);
}

void save_and_free(made_stream *made, const char *directory) {
  maker_save(made, directory, made->length);
  maker_free(made);
}
