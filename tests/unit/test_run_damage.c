/* Cut, damaged and hostile streams: no crash, nothing made up, the undamaged rest is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/wire/decode.h"
#include "tests/formats/reading.h"

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
        known.made.bytes[j] = (uint8_t)(round % 3 == 0 ? 0 : random >> (j % 8 * 8));
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
      cmocka_unit_test(false_blocks_cost_little),
      cmocka_unit_test(wild_damage_makes_up_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
