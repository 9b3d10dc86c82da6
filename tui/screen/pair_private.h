/* Inside the pair of runs: its state, its rows, and the op that is the same in both. */
#ifndef BT_SCREEN_PAIR_PRIVATE_H
#define BT_SCREEN_PAIR_PRIVATE_H

#include "tui/screen/pair.h"
#include "tui/screen/text.h"

struct bt_pair {
  bool at_second; /* the cursor is */
  bool placed;
  bool arranged; /* by run or by stage, as there is room */
  int64_t shift;
  int64_t drawn_shift; /* of the frame before */
  bt_slot *slots;
  size_t count, capacity, top;
  bt_comparison *comparison; /* of these */
  const bt_accounting *compared[2];
  int64_t steps[2];
};

static inline bool bt_pair_has_data(const bt_view *view) {
  return view->first <= view->last && view->width > 0;
}

/* A time of `view` in the other run. */
static inline int64_t bt_pair_across(const bt_view *first, const bt_view *view, int64_t time) {
  return view == first ? bt_time_add(time, first->pair->shift) : bt_time_sub(time, first->pair->shift);
}

/* The other one of the two. */
static inline bt_view *bt_pair_opposite(bt_view *first, const bt_view *view) {
  return view == first ? first->other : first;
}

/* pair_rows.c: the slots, their heights and places; keeps the cursor's in sight. BT_OK or BT_ERR_NOMEM. */
bt_status bt_pair_arrange(bt_view *view);

/* pair_twin.c: finds the op that is under the cursor in the other run too, to be shown there and told of. */
void bt_pair_note_twin(bt_view *view);

#endif
