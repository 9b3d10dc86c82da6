#include "tui/analysis/gaps.h"

#include <stdlib.h>

#include "formats/array.h"
#include "tui/analysis/accounting_model.h"

typedef struct collector {
  bt_gaps *gaps;
  size_t first; /* of the rank */
  bool failed;
} collector;

static void collect(void *context, bt_class class, int64_t start, int64_t end, int32_t op) {
  collector *c = context;
  bt_gaps *gaps = c->gaps;
  (void)op;
  if (class < BT_CLASS_COMPUTE_LIMIT || start >= end || c->failed) return;
  bt_gap *last = gaps->count > c->first ? &gaps->items[gaps->count - 1] : NULL;
  if (last != NULL && last->class == class && last->end == start) {
    last->end = end;
    return;
  }
  c->failed = !bt_array_reserve(&gaps->items, &gaps->capacity, gaps->count + 1, sizeof *gaps->items);
  if (!c->failed) gaps->items[gaps->count++] = (bt_gap){start, end, class};
}

static int compare_ranks(const void *a, const void *b) {
  const bt_gaps_rank *x = a, *y = b;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static bt_status find(const bt_model *model, bt_gaps *gaps) {
  bt_model_window *parts = malloc(((size_t)model->step_count + 1) * sizeof *parts);
  gaps->ranks = malloc(((size_t)model->rank_count + 1) * sizeof *gaps->ranks);
  collector c = {.gaps = gaps, .failed = parts == NULL || gaps->ranks == NULL};
  int32_t replica = -1, part_count = 0;
  for (int32_t i = 0; i < model->rank_count && !c.failed; i++) {
    c.first = gaps->count;
    if (model->ranks[i].replica != replica) {
      replica = model->ranks[i].replica;
      part_count = bt_model_parts(model, replica, false, parts);
    }
    bt_model_classify(model, i, parts, part_count, collect, &c);
    gaps->ranks[gaps->rank_count++] = (bt_gaps_rank){model->ranks[i].rank, c.first, gaps->count - c.first};
  }
  free(parts);
  if (c.failed) return BT_ERR_NOMEM;
  qsort(gaps->ranks, gaps->rank_count, sizeof *gaps->ranks, compare_ranks);
  return BT_OK;
}

bt_status bt_gaps_find(const bt_trace *trace, const bt_accounting_options *options, bt_gaps **gaps, bt_error *error) {
  *gaps = NULL;
  bt_gaps *found = calloc(1, sizeof *found);
  if (found == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory");
  bt_model model;
  bt_status status = bt_model_build(&model, trace, options, error);
  if (status == BT_OK) status = find(&model, found);
  bt_model_free(&model);
  bt_accounting_free(model.out);
  if (status != BT_OK) {
    bt_gaps_free(found);
    return status;
  }
  found->bounded = options->bounded;
  found->first_step = options->first_step;
  found->last_step = options->last_step;
  *gaps = found;
  return BT_OK;
}

void bt_gaps_free(bt_gaps *gaps) {
  if (gaps == NULL) return;
  free(gaps->items);
  free(gaps->ranks);
  free(gaps);
}

const bt_gap *bt_gaps_from(const bt_gaps *gaps, int32_t rank, int64_t time, size_t *count) {
  bt_gaps_rank key = {.rank = rank};
  const bt_gaps_rank *own = bsearch(&key, gaps->ranks, gaps->rank_count, sizeof key, compare_ranks);
  *count = 0;
  if (own == NULL) return NULL;
  size_t low = own->first, high = own->first + own->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (gaps->items[middle].end <= time)
      low = middle + 1;
    else
      high = middle;
  }
  *count = own->first + own->count - low;
  return gaps->items + low;
}
