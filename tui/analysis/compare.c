#include "tui/analysis/compare.h"

#include <math.h>
#include <stdlib.h>

/* --- numbers --------------------------------------------------------------------------------------------------------- */

static bt_change change_of(int64_t a, int64_t b) {
  return (bt_change){a, b, a == BT_UNKNOWN || b == BT_UNKNOWN ? BT_UNKNOWN : b - a};
}

static bt_rate_change rate_change(double a, double b) {
  return (bt_rate_change){a, b, b - a};
}

double bt_change_ratio(const bt_change *change) {
  if (change->change == BT_UNKNOWN || change->a == 0) return (double)NAN;
  return (double)change->change / (double)change->a;
}

/* sum / count, rounded half up. */
static int64_t share(__int128 sum, __int128 count) {
  if (count <= 0) return BT_UNKNOWN;
  __int128 twice = 2 * sum + count;
  __int128 quotient = twice / (2 * count);
  return (int64_t)(twice % (2 * count) < 0 ? quotient - 1 : quotient);
}

/* Times of one side, as the mean over `count`: each value is the difference of rounded running sums, so that they add up
 * to the rounded total. A value that is not known stays that. */
static void spread(const __int128 *sums, const bool *known, int64_t count, int64_t *values) {
  __int128 running = 0;
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    values[c] = BT_UNKNOWN;
    if (!known[c] || count <= 0) continue;
    int64_t before = share(running, count);
    running += sums[c];
    values[c] = share(running, count) - before;
  }
}

static int64_t total(const int64_t *values, int limit) {
  int64_t sum = 0;
  for (int c = 0; c < limit; c++) {
    if (values[c] == BT_UNKNOWN) return BT_UNKNOWN;
    sum += values[c];
  }
  return sum;
}

/* The classes (or, `theory`, those of the replay) of one stage, or of all when `stage` is NULL. */
static void classes_of(const bt_accounting *run, const bt_account_stage *stage, bool theory, int64_t *values) {
  __int128 sums[BT_CLASS_COUNT] = {0};
  bool known[BT_CLASS_COUNT];
  int64_t ranks = 0;
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    known[c] = true;
  for (size_t i = 0; i < run->stage_count; i++) {
    const bt_account_stage *one = &run->stages[i];
    if (stage != NULL && one != stage) continue;
    ranks += one->ranks;
    for (int c = 0; c < BT_CLASS_COUNT; c++) {
      int64_t ns = theory ? one->theory_ns[c] : one->ns[c];
      known[c] &= ns != BT_UNKNOWN;
      sums[c] += ns != BT_UNKNOWN ? ns : 0;
    }
  }
  spread(sums, known, ranks * (int64_t)run->step_count, values);
}

/* --- stages and links ------------------------------------------------------------------------------------------------ */

static void unknown_classes(int64_t *values) {
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    values[c] = BT_UNKNOWN;
}

static void set_stage_side(const bt_accounting *run, const bt_account_stage *stage, int64_t *ns, int64_t *theory) {
  unknown_classes(ns);
  unknown_classes(theory);
  if (stage == NULL) return;
  classes_of(run, stage, false, ns);
  classes_of(run, stage, true, theory);
}

static bt_compared_stage compare_stage(const bt_accounting *a, const bt_account_stage *in_a, const bt_accounting *b,
                                       const bt_account_stage *in_b) {
  bt_compared_stage stage = {.stage = in_a != NULL ? in_a->stage : in_b->stage};
  int64_t ns_a[BT_CLASS_COUNT];
  int64_t ns_b[BT_CLASS_COUNT];
  int64_t theory_a[BT_CLASS_COUNT];
  int64_t theory_b[BT_CLASS_COUNT];
  set_stage_side(a, in_a, ns_a, theory_a);
  set_stage_side(b, in_b, ns_b, theory_b);
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    stage.ns[c] = change_of(ns_a[c], ns_b[c]);
    stage.theory[c] = change_of(theory_a[c], theory_b[c]);
  }
  stage.step = change_of(total(ns_a, BT_CLASS_COUNT), total(ns_b, BT_CLASS_COUNT));
  stage.compute = change_of(total(ns_a, BT_CLASS_COMPUTE_LIMIT), total(ns_b, BT_CLASS_COMPUTE_LIMIT));
  stage.bubble_rate =
      rate_change(in_a != NULL ? in_a->bubble_rate : (double)NAN, in_b != NULL ? in_b->bubble_rate : (double)NAN);
  return stage;
}

static bool compare_stages(const bt_accounting *a, const bt_accounting *b, bt_comparison *out) {
  out->stages = calloc(a->stage_count + b->stage_count + 1, sizeof *out->stages);
  if (out->stages == NULL) return false;
  size_t i = 0;
  size_t k = 0;
  while (i < a->stage_count || k < b->stage_count) {
    const bt_account_stage *x = i < a->stage_count ? &a->stages[i] : NULL;
    const bt_account_stage *y = k < b->stage_count ? &b->stages[k] : NULL;
    if (x != NULL && y != NULL && x->stage < y->stage) y = NULL;
    if (x != NULL && y != NULL && y->stage < x->stage) x = NULL;
    out->stages[out->stage_count++] = compare_stage(a, x, b, y);
    i += x != NULL;
    k += y != NULL;
  }
  return true;
}

static int64_t link_share(const bt_accounting *run, const bt_account_link *link, int64_t value) {
  if (link == NULL || value == BT_UNKNOWN) return BT_UNKNOWN;
  return share(value, (__int128)run->step_count * run->replicas);
}

static bt_compared_link compare_link(const bt_accounting *a, const bt_account_link *x, const bt_accounting *b,
                                     const bt_account_link *y) {
  const bt_account_link *any = x != NULL ? x : y;
  bt_compared_link link = {.from = any->from, .to = any->to};
#define BOTH(value) change_of(link_share(a, x, x != NULL ? x->value : 0), link_share(b, y, y != NULL ? y->value : 0))
  link.messages = BOTH(messages);
  link.bytes = BOTH(bytes);
  link.wait = BOTH(wait_ns);
  link.transfer = BOTH(transfer_ns);
#undef BOTH
  int64_t one[2] = {BT_UNKNOWN, BT_UNKNOWN};
  if (x != NULL && x->transfer_ns != BT_UNKNOWN) one[0] = share(x->transfer_ns, x->messages);
  if (y != NULL && y->transfer_ns != BT_UNKNOWN) one[1] = share(y->transfer_ns, y->messages);
  link.message = change_of(one[0], one[1]);
  return link;
}

static bool compare_links(const bt_accounting *a, const bt_accounting *b, bt_comparison *out) {
  out->links = calloc(a->link_count + b->link_count + 1, sizeof *out->links);
  if (out->links == NULL) return false;
  size_t i = 0;
  size_t k = 0;
  while (i < a->link_count || k < b->link_count) {
    const bt_account_link *x = i < a->link_count ? &a->links[i] : NULL;
    const bt_account_link *y = k < b->link_count ? &b->links[k] : NULL;
    if (x != NULL && y != NULL && (x->from != y->from || x->to != y->to)) {
      bool first = x->from != y->from ? x->from < y->from : x->to < y->to;
      if (first) y = NULL;
      if (!first) x = NULL;
    }
    out->links[out->link_count++] = compare_link(a, x, b, y);
    i += x != NULL;
    k += y != NULL;
  }
  return true;
}

/* --- the whole ------------------------------------------------------------------------------------------------------- */

static bt_compared_run run_of(const bt_accounting *run) {
  return (bt_compared_run){.stages = (int32_t)run->stage_count,
                           .chunks = run->chunks,
                           .microbatches = run->microbatches,
                           .ranks = run->ranks,
                           .replicas = run->replicas,
                           .steps = run->step_count};
}

static void compare_totals(const bt_accounting *a, const bt_accounting *b, bt_comparison *out) {
  int64_t x[BT_CLASS_COUNT];
  int64_t y[BT_CLASS_COUNT];
  classes_of(a, NULL, false, x);
  classes_of(b, NULL, false, y);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    out->classes[c] = change_of(x[c], y[c]);
  out->step = change_of(total(x, BT_CLASS_COUNT), total(y, BT_CLASS_COUNT));
  out->microbatch = change_of(a->microbatches > 0 ? share(out->step.a, a->microbatches) : BT_UNKNOWN,
                              b->microbatches > 0 ? share(out->step.b, b->microbatches) : BT_UNKNOWN);
  classes_of(a, NULL, true, x);
  classes_of(b, NULL, true, y);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    out->theory[c] = change_of(x[c], y[c]);
  out->theory_step = change_of(total(x, BT_CLASS_COUNT), total(y, BT_CLASS_COUNT));
  out->rate_window = rate_change(a->rate_window, b->rate_window);
  out->rate_span = rate_change(a->rate_span, b->rate_span);
  out->over_ideal = rate_change(a->over_ideal, b->over_ideal);
  out->ideal_rate_window = rate_change(a->ideal_rate_window, b->ideal_rate_window);
  out->ideal_rate_span = rate_change(a->ideal_rate_span, b->ideal_rate_span);
}

bt_status bt_compare(const bt_accounting *a, const bt_accounting *b, bt_comparison **comparison, bt_error *error) {
  *comparison = NULL;
  bt_comparison *out = calloc(1, sizeof *out);
  if (out == NULL || !compare_stages(a, b, out) || !compare_links(a, b, out)) {
    bt_comparison_free(out);
    return bt_fail(error, BT_ERR_NOMEM, "compare: out of memory");
  }
  out->a = run_of(a);
  out->b = run_of(b);
  compare_totals(a, b, out);
  bt_compare_verdict(out);
  *comparison = out;
  return BT_OK;
}

void bt_comparison_free(bt_comparison *comparison) {
  if (comparison == NULL) return;
  free(comparison->stages);
  free(comparison->links);
  free(comparison);
}
