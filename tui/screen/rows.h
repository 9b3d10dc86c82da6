/* The rows of the screen: the stages of one replica, opened ones followed by the lanes of their ranks. */
#ifndef BT_SCREEN_ROWS_H
#define BT_SCREEN_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"

typedef struct bt_row {
  int32_t stage, rank;
  size_t rank_index; /* in trace->ranks; of a stage's row: its first rank */
  size_t members; /* ranks of the stage */
  bt_lane lane;
  bool is_lane;
} bt_row;

typedef struct bt_stage_member {
  int32_t stage, rank;
  size_t rank_index;
} bt_stage_member;

typedef struct bt_rows {
  bt_row *items;
  size_t count, capacity;
  size_t stages;
  bt_stage_member *members; /* ranks of the replica, sorted by stage, then rank */
  size_t member_count, member_capacity;
  int32_t replicas; /* largest replica + 1 */
} bt_rows;

void bt_rows_free(bt_rows *rows);
/* `open`: stages whose lanes are shown. */
bt_status bt_rows_build(bt_rows *rows, const bt_trace *trace, int32_t replica, const int32_t *open, size_t open_count);
/* First member of a stage and how many it has. */
const bt_stage_member *bt_rows_members(const bt_rows *rows, int32_t stage, size_t *count);

#endif
