/* What a session was asked to do: the caller's struct, then the environment, then defaults. */
#ifndef BT_CAPTURE_CONFIG_H
#define BT_CAPTURE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/bubbletop.h"
#include "formats/wire/ring.h"
#include "formats/wire/status.h"

enum { BT_CONFIG_RANGES = 64 };

typedef struct bt_step_range {
  int64_t first, last; /* inclusive */
} bt_step_range;

typedef struct bt_config {
  char directory[BT_RING_PATH_MAX]; /* as given */
  char ring_directory[192];
  char run_id[64];
  char steps[256]; /* as given, "" all */
  int32_t rank, world_size;
  uint32_t flush_ms, close_ms, ring_bytes, write_bytes, every;
  uint64_t segment_bytes, cap_bytes;
  bt_step_range ranges[BT_CONFIG_RANGES]; /* none: all steps */
  size_t range_count;
} bt_config;

/* Fills `config`. BUBBLETOP_DISABLED: no directory is configured. BUBBLETOP_ERR_ARG: a value makes no sense; the text
 * names it. Reads the environment (not of set-uid programs), changes nothing. */
bubbletop_status bt_config_resolve(bt_config *config, const bubbletop_config *given, bt_error *error);

/* Is every step recorded, whatever its number? */
bool bt_config_samples_all(const bt_config *config);
bool bt_config_samples(const bt_config *config, int64_t step);

#endif
