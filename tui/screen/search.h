/* Search for spans: words that must all hold. "F" "RECV_B" a kind; "mb3" "stage4" "rank7" "chunk1"; ">5ms" "<20us" a
 * duration; anything else is part of a span's name. */
#ifndef BT_SCREEN_SEARCH_H
#define BT_SCREEN_SEARCH_H

#include "tui/screen/view.h"

/* Moves the cursor to the next (direction > 0) or previous hit in time over all rows of the replica. False: said why. */
bool bt_search(bt_view *view, const char *query, int direction);

#endif
