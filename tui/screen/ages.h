/* How long ago something was on a rank, though its host's wall clock is wrong.
 *
 * A rank's times become real time by its newest clock pair. The age of a record that is seen to come in is its way here plus
 * what the host's clock is behind: the least of a host's ranks since the view was opened is taken from all its ages. Before
 * any record has come in from a host, its clock is believed. Not thread-safe.
 */
#ifndef BT_SCREEN_AGES_H
#define BT_SCREEN_AGES_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/trace.h"

typedef struct bt_ages {
  int64_t now; /* real time, ns; INT64_MIN: the run is not followed, ages are unknown */
  int64_t *heartbeats; /* of the trace's ranks when they were looked at last */
  size_t rank_count;
  int64_t *behind; /* by host, ns; INT64_MAX: nothing has come in yet */
  size_t host_count;
} bt_ages;

/* Zero-filled but for `now`: nothing is known. */
void bt_ages_free(bt_ages *ages);
/* Looks at what has come in. `old`: that was in the files already, and tells nothing. BT_OK or BT_ERR_NOMEM. */
bt_status bt_ages_update(bt_ages *ages, const bt_trace *trace, int64_t now, bool old);
/* The age of a raw time of the rank, ns; negative: unknown. */
int64_t bt_ages_of(const bt_ages *ages, const bt_rank *rank, int64_t time);
/* The age of the newest record of all ranks; negative: unknown. */
int64_t bt_ages_least(const bt_ages *ages, const bt_trace *trace);

#endif
