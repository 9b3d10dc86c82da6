/* Writing a simulated run to a directory. */
#ifndef BT_COMMANDS_SIMULATE_H
#define BT_COMMANDS_SIMULATE_H

#include <stdbool.h>

#include "formats/wire/status.h"
#include "tui/analysis/simulate.h"

typedef struct bt_simulate_output {
  const char *directory; /* made where it is not there; must not hold a run */
  bool declare; /* write the schedule's name into the headers */
  uint64_t spans, bytes; /* what was written */
} bt_simulate_output;

/* Runs all steps and writes one stream a rank, and the truth (truth.json: clocks and disturbances). Files are new,
 * for their owner alone. BT_ERR_IO names the file; what was written before it stays. */
bt_status bt_simulate_write(bt_simulation *simulation, const bt_simulation_params *params, bt_simulate_output *output,
                            bt_error *error);

#endif
