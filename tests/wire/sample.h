/* Random events for the tests of the stream format: every kind, every field, extreme values now and then. */
#ifndef BT_TESTS_WIRE_SAMPLE_H
#define BT_TESTS_WIRE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/decode.h"
#include "formats/wire/encode.h"
#include "formats/wire/event.h"

/* The codes of the format, each once; ends with BT_NONE. */
extern const uint8_t sample_codes[];
enum { SAMPLE_CODES = 33 };

typedef struct sample_random {
  uint64_t state;
} sample_random;

uint64_t sample_next(sample_random *random);
/* 0 .. limit - 1 */
uint32_t sample_below(sample_random *random, uint32_t limit);

/* An event with its texts and runs; `event` points into it. */
typedef struct sample {
  bt_event event;
  char text[BT_MAX_META];
  bt_run_of_ranks runs[BT_MAX_RUNS];
} sample;

/* Fills `out` with a random sound event of `code` near `*clock`, which moves on; with `extreme` now and then with values from
 * the ends of their ranges. */
void sample_make(sample *out, sample_random *random, bt_code code, int64_t *clock, bool extreme);

/* Every field equal, texts and runs by content. */
bool sample_same(const bt_event *a, const bt_event *b);

#endif
