/* Who and where this process is, for the stream header. */
#ifndef BT_CAPTURE_IDENTITY_H
#define BT_CAPTURE_IDENTITY_H

#include "capture/config.h"
#include "formats/wire/encode.h"

/* Fills `header` with all that is known before a file is made: marker, rank, host, clock domain, pid, clock pair. */
void bt_identity(bt_header *header, const bt_config *config);

/* A (monotonic, real) pair; the monotonic reads round the real one are the closest of a few. */
void bt_clock_pair_now(int64_t *mono_ns, int64_t *real_ns);

#endif
