/* PyTorch's schedule CSV: the grammar, what B means, what is wrong and where, and hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/import_schedule_csv.h"

static bt_schedule_csv *parse(const char *text) {
  bt_schedule_csv *csv = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_schedule_csv_parse(text, strlen(text), &csv, &error) != BT_OK) fail_msg("%s", error.text);
  return csv;
}

static int count_kind(const bt_csv_row *row, unsigned kind) {
  int count = 0;
  for (size_t i = 0; i < row->count; i++)
    count += row->cells[i].kind == kind;
  return count;
}

static void assert_cell(const bt_csv_cell *cell, unsigned kind, int32_t stage, int32_t microbatch) {
  assert_int_equal(cell->kind, kind);
  assert_int_equal(cell->stage, stage);
  assert_int_equal(cell->microbatch, microbatch);
}

/* Blanks around cells, rows of different length, CR LF on one line, every kind of action. */
static void test_ragged(void **state) {
  (void)state;
  bt_schedule_csv *csv = parse("0F0, 0F1 ,2F0,,2F1,2I0,2W0,0B0\n"
                               ",1F0,1F1,3F0,3BW0,(1F2;3B1)OVERLAP_F_B,1UNSHARD,1SEND_F1,3RECV_F1\r\n");
  assert_int_equal(csv->error_count, 0);
  assert_int_equal(csv->row_count, 2);
  const bt_csv_row *row = csv->rows;
  assert_int_equal(row[0].count, 8);
  assert_int_equal(count_kind(&row[0], BT_F), 4);
  assert_int_equal(count_kind(&row[0], BT_B), 1); /* I */
  assert_int_equal(count_kind(&row[0], BT_W), 1);
  assert_int_equal(count_kind(&row[0], BT_BW), 1); /* B */
  assert_int_equal(count_kind(&row[0], BT_NONE), 1);
  assert_cell(&row[0].cells[3], BT_NONE, -1, -1);
  assert_cell(&row[0].cells[1], BT_F, 0, 1);
  for (size_t i = 0; i < row[0].count; i++)
    assert_true(row[0].cells[i].kind == BT_NONE || row[0].cells[i].stage == 0 || row[0].cells[i].stage == 2);
  assert_int_equal(row[1].count, 9);
  assert_cell(&row[1].cells[0], BT_NONE, -1, -1);
  assert_cell(&row[1].cells[4], BT_BW, 3, 0);
  assert_cell(&row[1].cells[5], BT_FB, 1, 2);
  assert_int_equal(row[1].cells[5].stage_b, 3);
  assert_int_equal(row[1].cells[5].microbatch_b, 1);
  assert_cell(&row[1].cells[6], BT_ALL_GATHER, 1, -1);
  assert_cell(&row[1].cells[7], BT_SEND_F, 1, 1);
  assert_cell(&row[1].cells[8], BT_RECV_F, 3, 1);
  assert_true(csv->mixed); /* I and BW */
  bt_schedule_csv_free(csv);
}

static void test_errors_have_places(void **state) {
  (void)state;
  bt_schedule_csv *csv = parse("0F0,0Q1,F2,0F,(0F1;1B0)OVERLAP_F_B\n");
  static const struct {
    uint32_t column;
    const char *text;
  } wanted[] = {{2, "'0Q1': unknown action"}, {3, "'F2': it does not begin with a stage"}, {4, "'0F': no microbatch"}};
  assert_int_equal(csv->error_count, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(csv->errors[i].row, 1);
    assert_int_equal(csv->errors[i].column, wanted[i].column);
    assert_string_equal(csv->errors[i].text, wanted[i].text);
  }
  assert_int_equal(csv->rows[0].count, 2);
  assert_int_equal(csv->rows[0].cells[1].kind, BT_FB);
  bt_schedule_csv_free(csv);
}

static void test_what_b_means(void **state) {
  (void)state;
  static const struct {
    const char *text;
    unsigned b;
    bool mixed;
  } files[] = {
      {"0B0,0F0\n", BT_BW, false}, /* nothing splits the backward */
      {"0B0,0W0\n", BT_B, false}, /* W without I */
      {"0B0,0W0,0I1\n", BT_BW, false}, /* the new meaning */
      {"0B0,0BW1\n", BT_B, false}, /* the old one */
      {"0B0,0BW1,0W0\n", BT_B, false},
      {"0B0,0BW1,0I0\n", BT_BW, true}, /* both */
      {"0B0,0F1\n1F0,(1F1;1I0)OVERLAP_F_B\n", BT_BW, false}, /* I in an overlap, behind, on another rank */
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    bt_schedule_csv *csv = parse(files[i].text);
    assert_int_equal(csv->rows[0].cells[0].kind, files[i].b);
    assert_int_equal(csv->mixed, files[i].mixed);
    assert_int_equal(csv->error_count, 0);
    bt_schedule_csv_free(csv);
  }
}

static void test_grammar(void **state) {
  (void)state;
  bt_schedule_csv *csv = parse("\xEF\xBB\xBF"
                               "10F12,1048575W1048575,\t3RESHARD , 3REDUCE_GRAD,0UNSHARD4,0SEND_B1,0RECV_B2\n"
                               "\n"
                               "( 7B3 ; 0F7 ) OVERLAP_F_B");
  const bt_csv_cell *cells = csv->rows[0].cells;
  assert_int_equal(csv->error_count, 0);
  assert_int_equal(csv->row_count, 3); /* the empty row is a rank that does nothing */
  assert_int_equal(csv->rows[1].count, 0);
  assert_cell(&cells[0], BT_F, 10, 12);
  assert_cell(&cells[1], BT_W, 1048575, 1048575);
  assert_cell(&cells[2], BT_OTHER, 3, -1);
  assert_cell(&cells[3], BT_REDUCE_SCATTER, 3, -1);
  assert_cell(&cells[4], BT_ALL_GATHER, 0, 4);
  assert_cell(&cells[5], BT_SEND_B, 0, 1);
  assert_cell(&cells[6], BT_RECV_B, 0, 2);
  assert_cell(&csv->rows[2].cells[0], BT_FB, 0, 7); /* in either order */
  assert_int_equal(csv->rows[2].cells[0].stage_b, 7);
  bt_schedule_csv_free(csv);
  csv = parse("0F0\n\n\r\n");
  assert_int_equal(csv->row_count, 1); /* empty lines at the end are none */
  bt_schedule_csv_free(csv);
}

static void test_wrong_cells(void **state) {
  (void)state;
  static const char *const cells[] = {"0",
                                      "0f0",
                                      "0F-1",
                                      "0F0x",
                                      "0F 0",
                                      "-1F0",
                                      "1048576F0",
                                      "0F1048576",
                                      "99999999999999999999F0",
                                      "0F99999999999999999999",
                                      "0SEND0",
                                      "0SEND_F",
                                      "0FF0",
                                      "\"0F0\"",
                                      "(0F0;1B0",
                                      "(0F0;1B0)",
                                      "(0F0)OVERLAP_F_B",
                                      "()OVERLAP_F_B",
                                      "(0F0;1B0;1W0)OVERLAP_F_B",
                                      "(0F0;1F0)OVERLAP_F_B",
                                      "(0B0;1B0)OVERLAP_F_B",
                                      "(0F0;1B0)OVERLAP_B_F",
                                      "((0F0;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B",
                                      ";",
                                      "(",
                                      ")",
                                      "\033[2J"};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    char text[128];
    (void)snprintf(text, sizeof text, "0F0\n,%s,0F1\n", cells[i]);
    bt_schedule_csv *csv = parse(text);
    if (csv->error_count != 1) fail_msg("'%s' passes", cells[i]);
    assert_int_equal(csv->errors[0].row, 2);
    assert_int_equal(csv->errors[0].column, 2);
    assert_null(strchr(csv->errors[0].text, '\033'));
    assert_int_equal(csv->rows[1].count, 2); /* the rest is read */
    bt_schedule_csv_free(csv);
  }
}

static bt_status parse_status(const char *text, size_t size) {
  bt_schedule_csv *csv = NULL;
  bt_error error = {BT_OK, ""};
  bt_status status = bt_schedule_csv_parse(text, size, &csv, &error);
  assert_true(status == BT_OK ? csv != NULL : csv == NULL && error.text[0] != '\0');
  bt_schedule_csv_free(csv);
  return status;
}

static void test_limits(void **state) {
  (void)state;
  assert_int_equal(parse_status("", 0), BT_ERR_EMPTY);
  assert_int_equal(parse_status("\n\n\r\n", 4), BT_ERR_EMPTY);
  assert_int_equal(parse_status("0F0\0,0F1", 8), BT_ERR_FORMAT);
  enum { SIZE = BT_CSV_MOST_CELLS + 16 };
  char *text = malloc(SIZE);
  assert_non_null(text);
  memset(text, ',', SIZE);
  assert_int_equal(parse_status(text, BT_CSV_MOST_CELLS - 1), BT_OK); /* n commas: n + 1 cells */
  assert_int_equal(parse_status(text, SIZE), BT_ERR_LIMIT);
  memset(text, '\n', SIZE);
  memcpy(text + BT_CSV_MOST_ROWS - 1, "0F0", 3);
  assert_int_equal(parse_status(text, BT_CSV_MOST_ROWS + 3), BT_OK);
  assert_int_equal(parse_status(text, BT_CSV_MOST_ROWS + 8), BT_ERR_LIMIT);
  memset(text, 'x', SIZE); /* one cell that is wrong, and long */
  assert_int_equal(parse_status(text, SIZE), BT_OK);
  free(text);
}

/* Whatever the bytes are, it ends with an answer; the same bytes give the same answer. */
static void test_hostile(void **state) {
  (void)state;
  static const char base[] = "0F0,0F1,(0F7;7B3)OVERLAP_F_B,1UNSHARD,3RECV_F1\r\n,,12BW3 , 4I5,4W5\n";
  uint64_t seed = 1;
  for (int round = 0; round < 20000; round++) {
    char text[sizeof base];
    memcpy(text, base, sizeof base);
    size_t size = sizeof base - 1;
    for (int k = 0; k < 4; k++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      text[(seed >> 33) % size] = (char)(seed >> 20);
    }
    (void)parse_status(text, (size_t)(seed >> 40) % size);
  }
}

static void test_files(void **state) {
  (void)state;
  bt_schedule_csv *csv = NULL;
  bt_error error = {BT_OK, ""};
  char path[] = "/tmp/bubbletop-csv-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "0F0,0B0\n", 8), 8);
  assert_int_equal(bt_schedule_csv_read(path, &csv, &error), BT_OK);
  assert_int_equal(csv->rows[0].count, 2);
  bt_schedule_csv_free(csv);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(bt_schedule_csv_read(path, &csv, &error), BT_ERR_EMPTY);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(ftruncate(fd, (off_t)BT_CSV_MOST_BYTES + 1), 0); /* a hole: it takes no disk */
  assert_int_equal(bt_schedule_csv_read(path, &csv, &error), BT_ERR_LIMIT);
  (void)close(fd);
  (void)unlink(path);
  assert_int_equal(bt_schedule_csv_read(path, &csv, &error), BT_ERR_IO);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(bt_schedule_csv_read("/", &csv, &error), BT_ERR_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ragged),       cmocka_unit_test(test_errors_have_places),
      cmocka_unit_test(test_what_b_means), cmocka_unit_test(test_grammar),
      cmocka_unit_test(test_wrong_cells),  cmocka_unit_test(test_limits),
      cmocka_unit_test(test_hostile),      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
