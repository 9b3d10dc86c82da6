/* Two runs, one above the other: the same time scale, both from the start of the same step. The first run's view holds the
 * second's (bt_view.other) and what belongs to the pair. Keys go to the run of the cursor; the picture of the other one
 * moves with it.
 *
 * Aligned: where the same step of both begins. That is found anew by the moves to a step (s, {, }) and while the newest
 * data is followed; panning and zooming change nothing in it. A step that the other run has not is taken for its nearest.
 */
#ifndef BT_SCREEN_PAIR_H
#define BT_SCREEN_PAIR_H

#include "tui/analysis/compare.h"
#include "tui/screen/grid.h"
#include "tui/screen/view.h"

typedef struct bt_pair bt_pair;

/* One line of the screen's rows, or more where they are high. */
typedef struct bt_slot {
  bt_view *view;
  const bt_row *row; /* NULL: the title of the view's run */
  int y, height; /* on the screen; height 0: out of sight */
} bt_slot;

/* Makes `second` the second run's view. BT_OK or BT_ERR_NOMEM. */
bt_status bt_pair_join(bt_view *first, bt_view *second);
void bt_pair_free(bt_pair *pair);

/* The view of the run that the cursor is in: `view` itself where there is one run. */
bt_view *bt_pair_focus(bt_view *view);

/* bt_view_update for both. */
bt_status bt_pair_update(bt_view *view, int screen_rows, int screen_columns);
/* What the rows of the screen are now; valid until the next update. */
const bt_slot *bt_pair_slots(const bt_view *view, size_t *count);
/* The slot of a line of the screen, NULL: none. */
const bt_slot *bt_pair_slot_at(const bt_view *view, int line);
/* How much later the same step begins in the second run, by its clock. */
int64_t bt_pair_shift(const bt_view *view);
/* The steps that are compared, where both have been accounted for; NULL otherwise. */
const bt_comparison *bt_pair_comparison(bt_view *view);

/* Whether both runs' pictures have moved alike since this was asked last. */
bool bt_pair_moved_along(bt_view *view);

/* Handles a key, the mouse, for the run of the cursor. */
void bt_pair_key(bt_view *view, bt_key key);
void bt_pair_mouse(bt_view *view, const bt_mouse *mouse);

void bt_pair_header(bt_view *view, bt_grid *grid);
bt_status bt_pair_rows(bt_view *view, bt_grid *grid);
void bt_pair_bottom(bt_view *view, bt_grid *grid);

#endif
