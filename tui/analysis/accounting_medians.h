/* Inside the accounting: medians of what ranks, microbatches or links take, and whether one stands out of the others. */
#ifndef BT_ANALYSIS_ACCOUNTING_MEDIANS_H
#define BT_ANALYSIS_ACCOUNTING_MEDIANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/analysis/accounting_index.h"

enum { BT_LEAST_SAMPLES = 3 };

typedef struct bt_sample { /* one op or message, as a multiple of what is usual */
  int32_t key; /* rank, microbatch, link, … */
  double ratio;
} bt_sample;

typedef struct bt_effect {
  int32_t key;
  double median, error; /* standard error of the median */
  size_t count;
} bt_effect;

/* Samples to be collected, with room for a number of them. */
typedef struct bt_samples {
  bt_sample *items;
  double *ratios; /* those of one key together */
  size_t count;
  bt_index keys;
} bt_samples;

bool bt_samples_init(bt_samples *samples, size_t room); /* in any case to be freed; false: no memory */
void bt_samples_free(bt_samples *samples);

static inline void bt_samples_add(bt_samples *samples, int32_t key, double ratio) {
  samples->items[samples->count++] = (bt_sample){key, ratio};
}

/* The median of each key's samples, in order of keys, and its standard error from the middle half (wide enough for
 * uniform jitter). The samples are used up. Returns how many keys there are; 0 also when memory is short. */
size_t bt_find_effects(bt_samples *samples, bt_effect *effects);

/* The value that has `place` smaller or equal ones before it; moves values about. Linear. */
double bt_select(double *values, size_t count, size_t place);

/* The lower median over keys: what is usual. `room` as large as `effects`. */
double bt_usual_of(const bt_effect *effects, size_t count, bt_effect *room);
bool bt_stands_out(const bt_effect *effect, double usual, double least, double noise);
/* Mean error over keys: a few samples may lie close to each other by chance. */
double bt_mean_error(const bt_effect *effects, size_t count);

#endif
