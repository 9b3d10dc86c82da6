/* What belongs together: lives, segments, recovered files, runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/wire/decode.h"
#include "tests/formats/reading.h"

static void lives_follow_each_other(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  made_stream made;
  maker_init(&made, 0, 0, 0);
  maker_spans(&made, 1, 10000, 5, 10);
  save_and_free(&made, directory);
  maker_init(&made, 0, 1, 0);
  made.header.mono_ns = 50000;
  made.header.layout.pp_rank = 4;
  maker_header(&made);
  maker_spans(&made, 1, 60000, 6, 10);
  maker_writer(&made, BT_END_OF_STREAM, 70000);
  save_and_free(&made, directory);
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), 11);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 0);
  assert_int_equal(rank->life_count, 2);
  assert_false(rank->lives[0].ended);
  assert_true(rank->lives[1].ended);
  assert_int_equal(rank->lives[1].last, 70000);
  assert_int_equal(bt_rank_stage(rank), 4);
  assert_int_equal(problems_of(run, BT_PROBLEM_TWO_WRITERS), 0);
  assert_int_equal(problems_of(run, BT_PROBLEM_NO_END), 1);
  assert_int_equal(problems_of(run, BT_PROBLEM_MISSING), 0);
  bt_run_close(run);
  maker_remove(directory);
}

static void two_writers_are_not_merged(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  for (uint32_t life = 0; life < 2; life++) {
    made_stream made;
    maker_init(&made, 0, life, 0);
    made.header.mono_ns = 1000 + life;
    maker_header(&made);
    maker_spans(&made, 1, 10000 + life, 5 + life, 10);
    maker_writer(&made, BT_END_OF_STREAM, 20000);
    save_and_free(&made, directory);
  }
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), 5);
  assert_int_equal(problems_of(run, BT_PROBLEM_TWO_WRITERS), 1);
  bt_run_close(run);
  maker_remove(directory);
}

/* Three segments of five spans; `without` of them is not there. */
static bt_run *read_segments(char *directory, size_t room, uint32_t without) {
  maker_directory(directory, room);
  made_stream made;
  maker_init(&made, 0, 0, 0);
  for (uint32_t segment = 0; segment < 3; segment++) {
    made.header.segment = segment;
    maker_header(&made);
    maker_spans(&made, 1, 10000 * (int64_t)(segment + 1), 5, 10);
    if (segment == 2) maker_writer(&made, BT_END_OF_STREAM, 40000);
    if (segment != without) maker_save(&made, directory, made.length);
  }
  maker_free(&made);
  return read_run(directory);
}

static void segments_are_one_stream(void **state) {
  (void)state;
  for (uint32_t without = 0; without < 4; without++) {
    char directory[256];
    bt_run *run = read_segments(directory, sizeof directory, without);
    assert_int_equal(spans_of(run, 0), without == 3 ? 15 : 10);
    /* the first may be gone under a cap, the last one's records nobody knows of */
    assert_int_equal(problems_of(run, BT_PROBLEM_MISSING), without == 1);
    assert_int_equal(problems_of(run, BT_PROBLEM_NO_END), without == 2);
    bt_run_close(run);
    maker_remove(directory);
  }
}

static void recovered_files_are_merged(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  made_stream made;
  maker_init(&made, 0, 0, 0);
  maker_spans(&made, 1, 10000, 10, 10);
  maker_save(&made, directory, made.length);
  made.header.recovered = 1;
  maker_header(&made);
  made.next[1] = 5; /* the ring still held what the file has already */
  maker_spans(&made, 1, 10100, 10, 10);
  maker_spans(&made, 2, 90000, 3, 10);
  save_and_free(&made, directory);
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), 18);
  const bt_track *track = &bt_trace_find(bt_run_trace(run), 0)->tracks[BT_LANE_COMPUTE];
  for (size_t i = 1; i < track->count; i++) {
    assert_true(track->spans[i].start > track->spans[i - 1].start);
  }
  assert_true(bt_trace_find(bt_run_trace(run), 0)->lives[0].recovered);
  assert_int_equal(problems_of(run, BT_PROBLEM_MISSING), 0);
  bt_run_close(run);
  maker_remove(directory);
}

static void the_newest_of_two_runs_is_read(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  for (int32_t rank = 0; rank < 4; rank++) {
    made_stream made;
    maker_init(&made, rank, 0, 0);
    snprintf(made.header.run_id, sizeof made.header.run_id, "run-%c", "ABBA"[rank]);
    if (rank == 2) made.header.real_ns += 1000;
    maker_header(&made);
    maker_spans(&made, 1, 10000, 5, 10);
    maker_writer(&made, BT_END_OF_STREAM, 40000);
    save_and_free(&made, directory);
  }
  bt_run *run = read_run(directory);
  assert_string_equal(bt_run_trace(run)->run_id, "run-B");
  assert_int_equal(bt_run_trace(run)->rank_count, 2);
  assert_int_equal(spans_of(run, 1), 5);
  size_t count;
  const bt_problem *problems = bt_run_problems(run, &count);
  assert_int_equal(problems[0].kind, BT_PROBLEM_MIXED_RUNS);
  assert_int_equal(problems[0].amount, 2);
  assert_non_null(strstr(problems[0].text, "run-A"));
  bt_run_close(run);
  maker_remove(directory);
}

static void foreign_streams_keep_out(void **state) {
  (void)state;
  char directory[256];
  char path[512];
  maker_directory(directory, sizeof directory);
  made_stream made;
  maker_init(&made, 0, 0, 0);
  maker_spans(&made, 1, 10000, 5, 10);
  maker_writer(&made, BT_END_OF_STREAM, 40000);
  maker_save(&made, directory, made.length);
  /* the same life by another writer; a rank that is too large; a name with control characters */
  made.header.segment = 1;
  memset(made.header.marker, 7, BT_MARKER_BYTES);
  maker_header(&made);
  made.next[1] = 0;
  maker_spans(&made, 1, 20000, 5, 10);
  maker_save(&made, directory, made.length);
  snprintf(path, sizeof path, "%s/rank-2147483648.0.0.msgpack", directory);
  assert_int_equal(symlink("/dev/null", path), 0);
  snprintf(path, sizeof path, "%s/rank-00003.0.0.msgpack", directory);
  assert_int_equal(symlink("/dev/zero", path), 0);
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), 5);
  assert_int_equal(problems_of(run, BT_PROBLEM_MIXED_RUNS), 1);
  assert_int_equal(problems_of(run, BT_PROBLEM_UNREADABLE), 2);
  bt_run_close(run);
  maker_free(&made);
  maker_remove(directory);
}

static void lives_are_limited(void **state) {
  (void)state;
  enum { TOO_MANY = 3 };
  char directory[256];
  maker_directory(directory, sizeof directory);
  for (uint32_t life = 0; life < BT_MAX_LIVES + TOO_MANY; life++) {
    made_stream made;
    maker_init(&made, 0, life, 0);
    memcpy(made.header.marker, &life, sizeof life);
    made.header.mono_ns = 1000 + 10 * (int64_t)life;
    maker_header(&made);
    maker_spans(&made, 1, 1001 + 10 * (int64_t)life, 1, 2);
    save_and_free(&made, directory);
  }
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), BT_MAX_LIVES);
  assert_int_equal(problems_of(run, BT_PROBLEM_UNREADABLE), TOO_MANY);
  bt_run_close(run);
  maker_remove(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lives_follow_each_other),
      cmocka_unit_test(two_writers_are_not_merged),
      cmocka_unit_test(segments_are_one_stream),
      cmocka_unit_test(recovered_files_are_merged),
      cmocka_unit_test(the_newest_of_two_runs_is_read),
      cmocka_unit_test(foreign_streams_keep_out),
      cmocka_unit_test(lives_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
