/* Following a run while it grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/wire/decode.h"
#include "tests/formats/reading.h"

static void append(const made_stream *made, const char *directory, size_t from, size_t to) {
  char path[512];
  maker_path(made, directory, path, sizeof path);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, made->bytes + from, to - from, (off_t)from), (ssize_t)(to - from));
  close(fd);
}

/* However the file grows, the trace is the one of a single read, and each byte is read once. */
static void growth_in_odd_pieces(void **state) {
  (void)state;
  known_stream known;
  make_known(&known);
  maker_writer(&known.made, BT_END_OF_STREAM, 99000000);
  uint64_t random = 99;
  for (int round = 0; round < 40; round++) {
    char directory[256];
    maker_directory(directory, sizeof directory);
    size_t length = known.header;
    append(&known.made, directory, 0, length);
    bt_run *run = open_run(directory, &follow);
    bt_status status = BT_AGAIN;
    while (length < known.made.length) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      size_t more = round == 0 ? 1 : 1 + (size_t)(random >> 33) % (round % 2 == 0 ? 40 : 700);
      if (more > known.made.length - length) more = known.made.length - length;
      append(&known.made, directory, length, length + more);
      length += more;
      status = drain(run, round % 3 == 0 ? 100 : 0);
    }
    assert_int_equal(status, BT_END);
    check_known(run, all_blocks, "round", (size_t)round);
    assert_int_equal(bytes_read(run), length);
    size_t count;
    (void)bt_run_problems(run, &count);
    assert_int_equal(count, 0);
    bt_run_close(run);
    maker_remove(directory);
  }
  maker_free(&known.made);
}

static void late_ranks_are_found(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  char inner[300];
  snprintf(inner, sizeof inner, "%s/run", directory);
  bt_run *run = open_run(inner, &follow); /* it does not exist yet */
  assert_int_equal(drain(run, 0), BT_AGAIN);
  assert_int_equal(mkdir(inner, 0700), 0);
  for (int32_t rank = 2; rank >= 0; rank--) {
    made_stream made;
    maker_init(&made, rank, 0, 0);
    made.header.world_size = 3;
    maker_header(&made);
    maker_spans(&made, 1, 5000, 7, 10);
    if (rank == 1) { /* its header comes in two pieces */
      append(&made, inner, 0, 20);
      (void)drain(run, 0);
    }
    append(&made, inner, 0, made.length);
    if (rank != 2) (void)drain(run, 0);
    maker_free(&made);
  }
  for (int32_t rank = 0; rank < 3; rank++) {
    await_spans(run, rank, 7);
  }
  assert_int_equal(bt_run_trace(run)->rank_count, 3);
  assert_int_equal(bt_run_trace(run)->world_size, 3);
  bt_run_close(run);
  maker_remove(inner);
  maker_remove(directory);
}

static void what_is_no_run_is_not_followed(void **state) {
  (void)state;
  char directory[256];
  char path[512];
  maker_directory(directory, sizeof directory);
  snprintf(path, sizeof path, "%s/program", directory);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_int_equal(write(fd, "\177ELF\2\1\1\0\0\0\0\0", 12), 12);
  close(fd);
  const char *paths[] = {directory, path};
  bt_run *run;
  assert_int_equal(bt_run_open(paths, 1, &follow, &run, NULL), BT_ERR_EMPTY);
  assert_int_equal(bt_run_open(paths + 1, 1, &follow, &run, NULL), BT_ERR_FORMAT);
  assert_null(run);
  maker_remove(directory);
}

static void sizes_that_shrink_are_stale(void **state) {
  (void)state;
  char directory[256];
  char path[512];
  maker_directory(directory, sizeof directory);
  known_stream known;
  make_known(&known);
  maker_path(&known.made, directory, path, sizeof path);
  append(&known.made, directory, 0, known.end[5]);
  bt_run *run = open_run(directory, &follow);
  assert_int_equal(drain(run, 0), BT_AGAIN);
  assert_int_equal(truncate(path, (off_t)known.end[2]), 0);
  assert_int_equal(drain(run, 0), BT_AGAIN);
  append(&known.made, directory, known.end[2], known.made.length);
  assert_int_equal(drain(run, 0), BT_AGAIN);
  check_known(run, all_blocks, "shrunk", 0);
  assert_int_equal(bytes_read(run), known.made.length);
  bt_run_close(run);
  maker_remove(directory);
  maker_free(&known.made);
}

/* Pages that show as zeros before they are written: at the end, and before blocks that came earlier. */
static void unwritten_pages_are_read_again(void **state) {
  (void)state;
  for (int inside = 0; inside < 2; inside++) {
    char directory[256];
    char path[512];
    maker_directory(directory, sizeof directory);
    known_stream known;
    make_known(&known);
    maker_path(&known.made, directory, path, sizeof path);
    append(&known.made, directory, 0, known.end[3] + 20);
    if (inside) append(&known.made, directory, known.end[8], known.made.length);
    assert_int_equal(truncate(path, (off_t)known.made.length), 0);
    bt_run *run = open_run(directory, &follow);
    assert_int_equal(drain(run, 0), BT_AGAIN);
    bool whole[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
      whole[i] = i <= 3 || (inside && i > 8);
    }
    check_known(run, whole, "hole", (size_t)inside);
    assert_int_equal(problems_of(run, BT_PROBLEM_DAMAGE), 0);
    append(&known.made, directory, known.end[3], known.made.length);
    await_spans(run, 0, BLOCKS * PER_BLOCK);
    check_known(run, all_blocks, "filled", (size_t)inside);
    bt_run_close(run);
    maker_remove(directory);
    maker_free(&known.made);
  }
}

static void vanished_files_are_told(void **state) {
  (void)state;
  char directory[256];
  char path[512];
  maker_directory(directory, sizeof directory);
  known_stream known;
  make_known(&known);
  append(&known.made, directory, 0, known.end[5]);
  maker_path(&known.made, directory, path, sizeof path);
  bt_run *run = open_run(directory, &follow);
  (void)drain(run, 0);
  assert_int_equal(problems_of(run, BT_PROBLEM_VANISHED), 0);
  assert_int_equal(unlink(path), 0);
  (void)drain(run, 0);
  assert_int_equal(problems_of(run, BT_PROBLEM_VANISHED), 1);
  assert_int_equal(spans_of(run, 0), 6 * PER_BLOCK);
  bt_run_close(run);
  maker_remove(directory);
  maker_free(&known.made);
}

/* More ranks than descriptors; only some of them are watched. */
static void few_descriptors_are_enough(void **state) {
  (void)state;
  enum { RANKS = 60 };
  char directory[256];
  maker_directory(directory, sizeof directory);
  made_stream made[RANKS];
  size_t lengths[RANKS];
  for (int32_t rank = 0; rank < RANKS; rank++) {
    maker_init(&made[rank], rank, 0, 0);
    maker_spans(&made[rank], 1, 5000, 4, 10);
    lengths[rank] = made[rank].length;
    append(&made[rank], directory, 0, lengths[rank]);
  }
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit tight = {100, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
  bt_run *run = open_run(directory, &follow);
  const int32_t watched[] = {3, 1};
  bt_run_watch(run, watched, 2);
  (void)drain(run, 0);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    assert_int_equal(spans_of(run, rank), 4);
    maker_spans(&made[rank], 1, 9000, 4, 10);
    append(&made[rank], directory, lengths[rank], made[rank].length);
  }
  (void)drain(run, 0);
  assert_int_equal(spans_of(run, 1), 8);
  assert_int_equal(spans_of(run, 3), 8);
  for (int32_t rank = 0; rank < RANKS; rank++) {
    await_spans(run, rank, 8);
    maker_free(&made[rank]);
  }
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  bt_run_close(run);
  maker_remove(directory);
}

/* A rank of a pipeline of two, at `place` in a communicator, that sends to the other one. */
static void save_member(const char *directory, int32_t rank, int32_t place) {
  made_stream made;
  bt_event event;
  maker_init(&made, rank, 0, 0);
  made.header.world_size = 2;
  made.header.layout.pp_rank = rank;
  made.header.layout.pp_size = 2;
  maker_header(&made);
  maker_begin(&made, 1);
  bt_event_init(&event, BT_GROUP);
  event.start = 4000;
  event.group = 1;
  event.number = 77;
  event.own_rank = place;
  event.count = 2;
  maker_add(&made, &event);
  bt_event_init(&event, BT_SEND);
  event.start = 5000;
  event.duration = 10;
  event.group = 1;
  event.peer = 1 - place;
  maker_add(&made, &event);
  maker_finish(&made);
  save_and_free(&made, directory);
}

/* A communicator is joined as its ranks come. */
static void communicators_are_completed(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  save_member(directory, 1, 0);
  bt_run *run = open_run(directory, &follow);
  (void)drain(run, 0);
  const bt_rank *rank = bt_trace_find(bt_run_trace(run), 1);
  assert_int_equal(problems_of(run, BT_PROBLEM_COMMUNICATORS_INCOMPLETE), 1);
  assert_int_equal(bt_trace_peer(rank, 1, 1), -1);
  assert_int_equal(rank->tracks[BT_LANE_P2P].spans[0].kind, BT_SEND);
  save_member(directory, 0, 1);
  await_spans(run, 0, 1);
  rank = bt_trace_find(bt_run_trace(run), 1);
  assert_int_equal(problems_of(run, BT_PROBLEM_COMMUNICATORS_INCOMPLETE), 0);
  assert_int_equal(bt_trace_peer(rank, 1, 1), 0);
  assert_int_equal(rank->tracks[BT_LANE_P2P].spans[0].kind, BT_SEND_B);
  rank = bt_trace_find(bt_run_trace(run), 0);
  assert_int_equal(bt_trace_peer(rank, 1, 0), 1);
  assert_int_equal(rank->tracks[BT_LANE_P2P].spans[0].kind, BT_SEND_F);
  bt_run_close(run);
  maker_remove(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(growth_in_odd_pieces),        cmocka_unit_test(late_ranks_are_found),
      cmocka_unit_test(communicators_are_completed), cmocka_unit_test(what_is_no_run_is_not_followed),
      cmocka_unit_test(sizes_that_shrink_are_stale), cmocka_unit_test(unwritten_pages_are_read_again),
      cmocka_unit_test(vanished_files_are_told),     cmocka_unit_test(few_descriptors_are_enough),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
