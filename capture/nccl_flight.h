/* Launches of NCCL whose channels tell when they ran (KernelCh events, opt-in), of one communicator.
 *
 * A launch is one span of the GPU's events, and its messages share its time. With KernelCh, NCCL's proxy thread tells for each
 * channel of each message when it began and ended by the GPU's timer, some time after the launch; the first of them is the
 * launch's beginning, so each message gets its own part of the launch. A launch is handed over when all of its channels have
 * ended; when 16 more were begun meanwhile, or the communicator ends, it is as if its channels had told nothing.
 *
 * Begun, added to and closed by one thread at a time; channels come from any other, without a lock.
 */
#ifndef BT_CAPTURE_NCCL_FLIGHT_H
#define BT_CAPTURE_NCCL_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/bubbletop_cuda.h"

enum { BT_FLIGHTS = 16, BT_FLIGHT_PARTS = 64 };

typedef struct bt_flight_part {
  uint64_t first, last; /* atomic: by the GPU's timer, UINT64_MAX and 0 until told */
} bt_flight_part;

typedef struct bt_flight {
  /* atomic: generation << 32, odd while in flight, and channels that have not ended, and one while messages may be added */
  uint64_t state;
  uint32_t parts;
  bubbletop_cuda_span launch;
  bt_flight_part part[BT_FLIGHT_PARTS];
} bt_flight;

typedef struct bt_flights {
  bt_flight items[BT_FLIGHTS];
  uint32_t next;
} bt_flights;

/* A place for a message of a flight: small enough for a handle. */
typedef struct bt_flight_place {
  uint32_t generation;
  uint8_t flight, part;
} bt_flight_place;

/* Takes a launch that has begun, in place: its span is flight->launch. */
bt_flight *bt_flight_begin(bt_flights *all);
/* The message that was added last has so many channels. False: there is no more room, the message's time is the launch's. */
bool bt_flight_add(bt_flights *all, bt_flight *flight, uint32_t channels, bt_flight_place *place);
/* No more messages come. */
void bt_flight_close(bt_flight *flight);
/* All that are in flight are handed over as they are. */
void bt_flights_give_up(bt_flights *all);

/* A channel of a message began, ended. What is too late is ignored. */
void bt_flight_channel_begin(bt_flights *all, bt_flight_place place, uint64_t timer);
void bt_flight_channel_end(bt_flights *all, bt_flight_place place, uint64_t timer);

#endif
