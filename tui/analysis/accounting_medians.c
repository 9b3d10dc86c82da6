#include "tui/analysis/accounting_medians.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

enum { SIGMAS = 5 };

bool bt_samples_init(bt_samples *samples, size_t room) {
  *samples = (bt_samples){.items = bt_array_new(room + 1, sizeof *samples->items),
                          .ratios = bt_array_new(room + 1, sizeof *samples->ratios)};
  return samples->items != NULL && samples->ratios != NULL;
}

void bt_samples_free(bt_samples *samples) {
  free(samples->items);
  free(samples->ratios);
  bt_index_free(&samples->keys);
}

static void swap(double *a, double *b) {
  double t = *a;
  *a = *b;
  *b = t;
}

double bt_select(double *values, size_t count, size_t place) {
  uint64_t random = 0x9E3779B97F4A7C15u; /* a pivot that no input can foresee costs nothing more */
  size_t low = 0;
  size_t high = count - 1;
  while (low < high) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    double pivot = values[low + (size_t)((random >> 33) % (high - low + 1))];
    size_t less = low; /* [low, less) < pivot, [less, at) == pivot, (more, high] > pivot */
    size_t at = low;
    size_t more = high + 1;
    while (at < more) {
      if (values[at] < pivot) {
        swap(&values[at++], &values[less++]);
      } else if (values[at] > pivot) {
        swap(&values[at], &values[--more]);
      } else {
        at++;
      }
    }
    if (place < less) {
      high = less - 1;
    } else if (place >= more) {
      low = more;
    } else {
      return pivot;
    }
  }
  return values[low];
}

/* Numbers the keys in `effects`, counts their samples, and puts the numbers into the samples. */
static size_t number_keys(bt_samples *samples, bt_effect *effects) {
  size_t found = 0;
  bt_index_clear(&samples->keys);
  for (size_t i = 0; i < samples->count; i++) {
    bt_sample *item = &samples->items[i];
    int32_t *number = bt_index_at(&samples->keys, (bt_index_key){0, 0, (uint32_t)item->key});
    if (number == NULL) return 0;
    if (*number < 0) {
      *number = (int32_t)found;
      effects[found++] = (bt_effect){.key = item->key};
    }
    effects[*number].count++;
    item->key = *number;
  }
  return found;
}

static int compare_key(const void *a, const void *b) {
  const bt_effect *x = a;
  const bt_effect *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

static void measure(bt_effect *effect, double *ratios) {
  size_t n = effect->count;
  double low = bt_select(ratios, n, n / 4);
  double high = bt_select(ratios, n, 3 * n / 4 < n ? 3 * n / 4 : n - 1);
  effect->median = bt_select(ratios, n, (n - 1) / 2);
  effect->error = (high - low) / sqrt((double)n);
}

size_t bt_find_effects(bt_samples *samples, bt_effect *effects) {
  size_t found = number_keys(samples, effects);
  size_t *next = malloc((found + 1) * sizeof *next);
  if (next == NULL) found = 0;
  size_t begin = 0;
  for (size_t k = 0; k < found; k++) {
    next[k] = begin;
    begin += effects[k].count;
  }
  for (size_t i = 0; found > 0 && i < samples->count; i++)
    samples->ratios[next[samples->items[i].key]++] = samples->items[i].ratio;
  for (size_t k = 0; k < found; k++)
    measure(&effects[k], samples->ratios + next[k] - effects[k].count);
  free(next);
  samples->count = 0;
  if (found > 0) qsort(effects, found, sizeof *effects, compare_key);
  return found;
}

static int compare_median(const void *a, const void *b) {
  const bt_effect *x = a;
  const bt_effect *y = b;
  return (x->median > y->median) - (x->median < y->median);
}

double bt_usual_of(const bt_effect *effects, size_t count, bt_effect *room) {
  memcpy(room, effects, count * sizeof *effects);
  qsort(room, count, sizeof *room, compare_median);
  return room[(count - 1) / 2].median;
}

bool bt_stands_out(const bt_effect *effect, double usual, double least, double noise) {
  double ratio = effect->median / usual;
  double error = (effect->error > noise ? effect->error : noise) / usual;
  return effect->count >= BT_LEAST_SAMPLES && ratio >= least && ratio - 1 > SIGMAS * error;
}

double bt_mean_error(const bt_effect *effects, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += effects[i].error;
  return count > 0 ? sum / (double)count : 0;
}
