/* PyTorch's pipelining schedule as CSV: a plan, not a measurement.
 *
 * One row a rank, one cell a step of the schedule: `<stage><ACTION><microbatch>`, as in `0F12`, `3RECV_B1`, `1UNSHARD`,
 * or `(0F7;7B3)OVERLAP_F_B`; an empty cell is a bubble. PyTorch's stage is our virtual stage. What its B means depends
 * on the file: the full backward where there is I (the input gradient), the input gradient where there is BW or W
 * without I, else the full backward. A file with I and BW speaks both ways: `mixed` is set, B and BW are full then.
 *
 * Cells that cannot be read are left out and told of, each with row and column (both counted from 1).
 * The caller owns the result and frees it with bt_schedule_csv_free.
 */
#ifndef BT_FORMATS_IMPORT_SCHEDULE_CSV_H
#define BT_FORMATS_IMPORT_SCHEDULE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"

enum { /* more is refused */
       BT_CSV_MOST_BYTES = 64 << 20,
       BT_CSV_MOST_ROWS = 1 << 12,
       BT_CSV_MOST_CELLS = 1 << 22,
       BT_CSV_MOST_NUMBER = (1 << 20) - 1, /* stages and microbatches */
       BT_CSV_ERRORS_KEPT = 32
};

typedef struct bt_csv_cell {
  uint8_t kind; /* bt_code. BT_NONE: empty. UNSHARD: BT_ALL_GATHER, REDUCE_GRAD: BT_REDUCE_SCATTER, RESHARD: BT_OTHER */
  int32_t stage, microbatch; /* -1: none */
  int32_t stage_b, microbatch_b; /* BT_FB: the backward half */
} bt_csv_cell;

typedef struct bt_csv_row {
  bt_csv_cell *cells; /* the place of a cell is its column - 1, unless cells before it could not be read */
  size_t count;
} bt_csv_row;

typedef struct bt_csv_error {
  uint32_t row, column;
  char text[96]; /* what is wrong, with the cell; control characters replaced */
} bt_csv_error;

typedef struct bt_schedule_csv {
  bt_csv_row *rows;
  size_t row_count;
  bt_csv_cell *cells; /* of all rows */
  bool mixed; /* has I and BW */
  bt_csv_error errors[BT_CSV_ERRORS_KEPT]; /* the first ones */
  size_t error_count; /* all */
} bt_schedule_csv;

/* BT_OK (look at error_count), BT_ERR_EMPTY: no cell at all, BT_ERR_FORMAT: not text, BT_ERR_LIMIT, BT_ERR_NOMEM. */
bt_status bt_schedule_csv_parse(const char *text, size_t size, bt_schedule_csv **csv, bt_error *error);

/* The same of a file; BT_ERR_IO too. Errors name the file. */
bt_status bt_schedule_csv_read(const char *path, bt_schedule_csv **csv, bt_error *error);

void bt_schedule_csv_free(bt_schedule_csv *csv);

#endif
