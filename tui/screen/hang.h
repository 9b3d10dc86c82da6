/* What stands still in a live run: ranks of which nothing is heard, and ranks that wait for long. */
#ifndef BT_SCREEN_HANG_H
#define BT_SCREEN_HANG_H

#include <stdbool.h>
#include <stddef.h>

#include "tui/screen/view.h"

/* How long nothing has come from a rank, ns; 0 while that is no news: it reports, or has ended, or nobody follows it. */
int64_t bt_hang_silence(const bt_view *view, const bt_rank *rank);
/* The longest of a stage's ranks, by one of its rows. */
int64_t bt_hang_stage_silence(const bt_view *view, const bt_row *row);

/* "stage 2: RECV_F mb 3 from stage 1, 41 s": who is silent, then who waits, the longest first, as many as there is room
 * for. False: nobody. */
bool bt_hang_line(const bt_view *view, char *out, size_t room);

#endif
