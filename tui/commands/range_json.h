/* A range of time as JSON: its spans, and where the time of every stage went. For `export --format json` and the view. */
#ifndef BT_COMMANDS_RANGE_JSON_H
#define BT_COMMANDS_RANGE_JSON_H

#include <stdio.h>

#include "formats/export.h"
#include "tui/analysis/lod.h"

typedef struct bt_range_json {
  const char *run; /* its name */
  bt_export_range range; /* of finite ends, on the aligned clock */
  int32_t replica; /* < 0: all of them */
  const bt_lod_set *lods; /* whole */
} bt_range_json;

/* One object: {"run", "replica", "from_ns", "to_ns", "stages": [{"stage", "ranks", "interval_ns", one key a class}], "spans":
 * [{"stage", "rank", "lane", "kind", "chunk", "microbatch", "start_ns", "dur_ns"}]}. The classes of a stage add up to its
 * interval_ns, ranks x range (where the accounting cannot be made, idle time is unattributed); spans are whole where they
 * reach out of the range. BT_OK, BT_ERR_IO or BT_ERR_NOMEM. */
bt_status bt_range_json_write(const bt_trace *trace, const bt_range_json *what, FILE *out);

#endif
