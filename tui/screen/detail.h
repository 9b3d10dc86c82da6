/* What is under the cursor, and what it waited for. */
#ifndef BT_SCREEN_DETAIL_H
#define BT_SCREEN_DETAIL_H

#include <stdbool.h>

#include "tui/screen/view.h"

typedef struct bt_block { /* a span, by place */
  size_t rank_index;
  bt_lane lane;
  size_t span;
  int64_t start, end; /* on the aligned clock */
} bt_block;

/* The block under the cursor. False: idle there, or blocked on a gate, which is a bubble too. */
bool bt_detail_at_cursor(const bt_view *view, bt_block *block);
/* The block that follows the bubble under the cursor. */
bool bt_detail_after_bubble(const bt_view *view, bt_block *block);
/* The op on another rank (or a receive's send) whose result the block needs. False: it has none, or it is not recorded. */
bool bt_detail_producer(const bt_view *view, const bt_block *block, bt_block *producer);
/* The op that needs this block's result: the same microbatch where it goes to next. */
bool bt_detail_consumer(const bt_view *view, const bt_block *block, bt_block *consumer);
/* One line for a person. */
void bt_detail_line(bt_view *view, char *out, size_t room);

#endif
