/* Reading a run: cut and damaged files, growing ones, lives, several files. */
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

#include "formats/run.h"
#include "formats/wire/decode.h"
#include "tests/formats/maker.h"

static const bt_run_options once = {0};
static const bt_run_options follow = {.follow = true};

static bt_run *open_run(const char *path, const bt_run_options *options) {
  bt_run *run;
  bt_error error = {BT_OK, ""};
  if (bt_run_open(&path, 1, options, &run, &error) != BT_OK) fail_msg("%s", error.text);
  return run;
}

/* Polls until there is nothing more now. */
static bt_status drain(bt_run *run, uint64_t budget) {
  bt_error error = {BT_OK, ""};
  bt_status status;
  while ((status = bt_run_poll(run, budget, &error)) == BT_OK) {
  }
  if (status < 0) fail_msg("%s", error.text);
  return status;
}

static bt_run *read_run(const char *path) {
  bt_run *run = open_run(path, &once);
  assert_int_equal(drain(run, 0), BT_END);
  return run;
}

static size_t problems_of(bt_run *run, bt_problem_kind kind) {
  size_t count;
  size_t found = 0;
  const bt_problem *problems = bt_run_problems(run, &count);
  for (size_t i = 0; i < count; i++) {
    found += problems[i].kind == kind;
  }
  return found;
}

static uint64_t bytes_read(bt_run *run) {
  size_t count;
  uint64_t sum = 0;
  const bt_file_info *files = bt_run_files(run, &count);
  for (size_t i = 0; i < count; i++) {
    sum += files[i].bytes_read;
  }
  return sum;
}

static size_t spans_of(bt_run *run, int32_t rank) {
  const bt_rank *found = bt_trace_find(bt_run_trace(run), rank);
  size_t count = 0;
  for (int lane = 0; found != NULL && lane < BT_LANE_COUNT; lane++) {
    count += found->tracks[lane].count;
  }
  return count;
}

/* ---- a sample with known blocks ---- */

enum { BLOCKS = 12, PER_BLOCK = 10 };

typedef struct known_stream {
  made_stream made;
  size_t header; /* bytes */
  size_t end[BLOCKS]; /* offset behind block i */
} known_stream;

/* Block i holds PER_BLOCK spans of microbatches 0.. that start at 1000000 * (i + 1); ring 1 and 2 by turns. */
static void make_known(known_stream *known) {
  maker_init(&known->made, 0, 0, 0);
  known->header = known->made.length;
  for (size_t i = 0; i < BLOCKS; i++) {
    maker_spans(&known->made, 1 + i % 2, 1000000 * ((int64_t)i + 1), PER_BLOCK, 300);
    known->end[i] = known->made.length;
  }
}

/* Every span of the trace was written, none twice, and those of the blocks that are set in `whole` are all there. */
static void check_known(bt_run *run, const bool *whole, const char *what, size_t where) {
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

/* Reads a directory whose file may be unreadable. NULL then. */
static bt_run *try_run(const char *path) {
  bt_run *run;
  bt_error error = {BT_OK, ""};
  bt_status status = bt_run_open(&path, 1, &once, &run, &error);
  if (status != BT_OK) {
    assert_true(status < 0 && error.text[0] != '\0');
    assert_null(run);
    return NULL;
  }
  assert_int_equal(drain(run, 0), BT_END);
  return run;
}

static void cut_at_every_byte(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  known_stream known;
  make_known(&known);
  for (size_t length = 0; length <= known.made.length; length++) {
    bool whole[BLOCKS];
    bool at_end = length == known.header;
    maker_save(&known.made, directory, length);
    for (size_t i = 0; i < BLOCKS; i++) {
      whole[i] = known.end[i] <= length;
      at_end |= known.end[i] == length;
    }
    bt_run *run = try_run(directory);
    if (run == NULL) {
      assert_true(length < known.header);
      continue;
    }
    check_known(run, whole, "cut at", length);
    if (problems_of(run, BT_PROBLEM_TORN_TAIL) != (at_end ? 0 : 1)) fail_msg("cut at %zu: torn or not", length);
    assert_int_equal(problems_of(run, BT_PROBLEM_DAMAGE), 0);
    assert_int_equal(problems_of(run, BT_PROBLEM_NO_END), 1);
    bt_run_close(run);
  }
  maker_remove(directory);
  maker_free(&known.made);
}

static void flip_every_bit(void **state) {
  (void)state;
  char directory[256];
  maker_directory(directory, sizeof directory);
  known_stream known;
  make_known(&known);
  char path[512];
  maker_path(&known.made, directory, path, sizeof path);
  maker_save(&known.made, directory, known.made.length);
  int fd = open(path, O_WRONLY);
  for (size_t bit = 0; bit < known.made.length * 8; bit++) {
    size_t byte = bit / 8;
    uint8_t flipped = known.made.bytes[byte] ^ (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(fd, &flipped, 1, (off_t)byte), 1);
    bool whole[BLOCKS];
    size_t from = known.header;
    for (size_t i = 0; i < BLOCKS; i++) {
      whole[i] = byte < from || byte >= known.end[i];
      from = known.end[i];
    }
    bt_run *run = try_run(directory);
    if (run == NULL) { /* only a version may make all of it unreadable */
      assert_in_range(byte, 0, known.header - 1);
    } else {
      check_known(run, whole, "bit", bit);
      assert_true(problems_of(run, BT_PROBLEM_DAMAGE) + problems_of(run, BT_PROBLEM_TORN_TAIL) > 0);
      bt_run_close(run);
    }
    assert_int_equal(pwrite(fd, &known.made.bytes[byte], 1, (off_t)byte), 1);
  }
  close(fd);
  maker_remove(directory);
  maker_free(&known.made);
}

/* ---- following ---- */

static void append(const made_stream *made, const char *directory, size_t from, size_t to) {
  char path[512];
  maker_path(made, directory, path, sizeof path);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, made->bytes + from, to - from, (off_t)from), (ssize_t)(to - from));
  close(fd);
}

static const bool all_blocks[BLOCKS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

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

/* Polls until `rank` has `count` spans: files are found within seconds. */
static void await_spans(bt_run *run, int32_t rank, size_t count) {
  for (int i = 0; i < 3000 && spans_of(run, rank) < count; i++) {
    (void)drain(run, 0);
    usleep(10000);
  }
  assert_int_equal(spans_of(run, rank), count);
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

/* ---- lives, segments, runs ---- */

static void save_and_free(made_stream *made, const char *directory) {
  maker_save(made, directory, made->length);
  maker_free(made);
}

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

/* ---- hostile input ---- */

/* False beginnings of blocks, each of which claims 64 KiB of what follows: what surrounds them is read, soon. */
static void false_blocks_cost_little(void **state) {
  (void)state;
  enum { FALSE_BYTES = 3 << 20 };
  char directory[256];
  maker_directory(directory, sizeof directory);
  made_stream made;
  maker_init(&made, 0, 0, 0);
  maker_spans(&made, 1, 1000, 5, 10);
  uint8_t start[] = {0x98, 0xc4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0xce, 1, 2, 3, 4, 0xc5, 0xff, 0x00};
  memcpy(start + 3, made.header.marker, BT_MARKER_BYTES);
  size_t length = made.length + FALSE_BYTES / sizeof start * sizeof start;
  uint8_t *bytes = malloc(length);
  assert_non_null(bytes);
  memcpy(bytes, made.bytes, made.length);
  for (size_t at = made.length; at < length; at += sizeof start) {
    memcpy(bytes + at, start, sizeof start);
  }
  free(made.bytes);
  made.bytes = bytes;
  made.length = made.capacity = length;
  /* behind the reach of the last false one, so that it surely does not hide it */
  uint8_t *tail = calloc(1, 2 * BT_BLOCK_MAX);
  made.bytes = realloc(made.bytes, length + 4 * BT_BLOCK_MAX);
  assert_true(tail != NULL && made.bytes != NULL);
  memset(tail, 0x55, 2 * BT_BLOCK_MAX);
  memcpy(made.bytes + length, tail, 2 * BT_BLOCK_MAX);
  free(tail);
  made.length = length + 2 * BT_BLOCK_MAX;
  made.capacity = length + 4 * BT_BLOCK_MAX;
  maker_spans(&made, 1, 9000, 5, 10);
  save_and_free(&made, directory);
  bt_run *run = read_run(directory);
  assert_int_equal(spans_of(run, 0), 10);
  assert_int_equal(problems_of(run, BT_PROBLEM_DAMAGE), 1);
  bt_run_close(run);
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

/* Several files with many bytes changed: nothing that comes out was not written. */
static void wild_damage_makes_up_nothing(void **state) {
  (void)state;
  known_stream known;
  make_known(&known);
  uint8_t *sound = malloc(known.made.length);
  memcpy(sound, known.made.bytes, known.made.length);
  uint64_t random = 11;
  for (int round = 0; round < 400; round++) {
    char directory[256];
    maker_directory(directory, sizeof directory);
    for (int i = 0; i < 1 + round % 40; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      size_t at = known.header + (size_t)(random >> 33) % (known.made.length - known.header);
      size_t run_length = round % 4 == 0 ? (size_t)(random >> 20) % 90 : 1;
      for (size_t j = at; j < at + run_length && j < known.made.length; j++) {
        known.made.bytes[j] = round % 3 == 0 ? 0 : (uint8_t)(random >> (j % 8 * 8));
      }
    }
    bool whole[BLOCKS];
    size_t from = known.header;
    for (size_t i = 0; i < BLOCKS; i++) {
      whole[i] = memcmp(sound + from, known.made.bytes + from, known.end[i] - from) == 0;
      from = known.end[i];
    }
    maker_save(&known.made, directory, known.made.length);
    bt_run *run = read_run(directory);
    check_known(run, whole, "round", (size_t)round);
    bt_run_close(run);
    maker_remove(directory);
    memcpy(known.made.bytes, sound, known.made.length);
  }
  free(sound);
  maker_free(&known.made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cut_at_every_byte),
      cmocka_unit_test(flip_every_bit),
      cmocka_unit_test(growth_in_odd_pieces),
      cmocka_unit_test(late_ranks_are_found),
      cmocka_unit_test(sizes_that_shrink_are_stale),
      cmocka_unit_test(unwritten_pages_are_read_again),
      cmocka_unit_test(vanished_files_are_told),
      cmocka_unit_test(few_descriptors_are_enough),
      cmocka_unit_test(lives_follow_each_other),
      cmocka_unit_test(two_writers_are_not_merged),
      cmocka_unit_test(segments_are_one_stream),
      cmocka_unit_test(recovered_files_are_merged),
      cmocka_unit_test(the_newest_of_two_runs_is_read),
      cmocka_unit_test(foreign_streams_keep_out),
      cmocka_unit_test(false_blocks_cost_little),
      cmocka_unit_test(lives_are_limited),
      cmocka_unit_test(wild_damage_makes_up_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
