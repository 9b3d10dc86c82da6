/* Saving what dead writers left in their rings.
 *
 * A ring file whose owner is gone (no process holds its record lock) and that was not closed in good order is turned
 * into RUN/rank-RRRRR.L.recovered.msgpack (written under a temporary name, then renamed) and removed. Records that the
 * stream files have already are left out or harmless: readers merge by number.
 */
#ifndef BT_FORMATS_RECOVER_H
#define BT_FORMATS_RECOVER_H

#include <stddef.h>
#include <stdint.h>

#include "formats/wire/status.h"

/* The ring number under which a recovered file tells what the recoverer itself saw: spans that were open (BT_OPEN, until
 * about the writer's death) and drops that were not reported (BT_DROPPED). The writer's own ring goes on in its files. */
#define BT_RECOVER_RING UINT32_MAX

typedef struct bt_recover_report {
  size_t rings_found; /* ring files of the run (or of any run) on this host */
  size_t alive; /* of which the owner lives */
  size_t recovered; /* written to a recovered file */
  size_t clean; /* held nothing and were removed */
  size_t failed;
  uint64_t records; /* records saved */
  char last_file[2176];
} bt_recover_report;

/* Recovers all dead rings of `run_directory` (NULL: of any run) that this user owns on this host. Goes on after a
 * failure; the first one's text is in `error` and its status is returned. Safe while writers and readers are active
 * and when two recoverers race (the record lock decides). */
bt_status bt_recover(const char *run_directory, bt_recover_report *report, bt_error *error);

#endif
