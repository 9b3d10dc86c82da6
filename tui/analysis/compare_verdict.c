/* The sentence that a comparison begins with: how much, in which class, on which stages, and what computes otherwise. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/compare.h"

enum { MOST_RANGES = 4, COVERED_PERCENT = 80 };

static const double same_step = 0.0005; /* of a step: not told apart */
static const double least_compute = 0.03; /* change of a compute time that is told */
static const double least_of_step = 0.005; /* and how much of a step it has to be */
static const double least_small = 0.02; /* of a step: a class whose own change may be another */
static const double least_transfer = 0.25; /* change of a message's transfer that is told */

/* What is told apart: where one run divides an op that the other does in one, their parts are one class, kept in that of
 * the whole op. */
typedef enum division { ALIKE, BACKWARD_DIVIDED, OVERLAP_DIVIDED } division;

static __attribute__((format(printf, 2, 3))) void say(bt_comparison *to, const char *format, ...) {
  size_t used = strlen(to->verdict);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(to->verdict + used, sizeof to->verdict - used, format, arguments);
  va_end(arguments);
}

static void say_time(bt_comparison *to, int64_t ns) {
  double value = fabs((double)ns);
  if (value >= 1e9) {
    say(to, "%.2f s", value * 1e-9);
  } else if (value >= 1e6) {
    say(to, "%.*f ms", value >= 1e7 ? 1 : 2, value * 1e-6);
  } else if (value >= 1e3) {
    say(to, "%.1f us", value * 1e-3);
  } else {
    say(to, "%.0f ns", value);
  }
}

/* A class as the JSON writes it, without its unit: F, steady_wait. */
static void say_class(bt_comparison *to, bt_class c) {
  const char *key = c < BT_CLASS_COMPUTE_LIMIT ? bt_class_title(c) : bt_class_key(c);
  size_t length = strlen(key);
  bool unit = length > 3 && strcmp(key + length - 3, "_ns") == 0;
  say(to, "%.*s", (int)(unit ? length - 3 : length), key);
}

/* --- classes that mean the same ------------------------------------------------------------------------------------- */

/* Exactly one of the runs has the class. */
static bool in_one(const bt_comparison *of, bt_class c) {
  return (of->classes[c].a > 0) != (of->classes[c].b > 0);
}

static division divided(const bt_comparison *of) {
  if (in_one(of, BT_CLASS_FB)) return OVERLAP_DIVIDED;
  bool split = in_one(of, BT_CLASS_B) || in_one(of, BT_CLASS_W);
  return in_one(of, BT_CLASS_BW) && split ? BACKWARD_DIVIDED : ALIKE;
}

static void add(bt_change *to, bt_change *part) {
  if (part->a != BT_UNKNOWN && to->a != BT_UNKNOWN) to->a += part->a;
  if (part->b != BT_UNKNOWN && to->b != BT_UNKNOWN) to->b += part->b;
  if (part->change != BT_UNKNOWN && to->change != BT_UNKNOWN) to->change += part->change;
  *part = (bt_change){0, 0, 0};
}

static void unite(bt_change *classes, division how) {
  bt_change *whole = &classes[how == OVERLAP_DIVIDED ? BT_CLASS_FB : BT_CLASS_BW];
  if (how == ALIKE) return;
  add(whole, &classes[BT_CLASS_B]);
  add(whole, &classes[BT_CLASS_W]);
  if (how != OVERLAP_DIVIDED) return;
  add(whole, &classes[BT_CLASS_F]);
  add(whole, &classes[BT_CLASS_BW]);
}

/* --- where ----------------------------------------------------------------------------------------------------------- */

/* "stage 3", "stages 2-5, 7"; when they are too scattered: "12 stages". */
static void say_stages(bt_comparison *to, const bool *chosen, size_t count) {
  size_t ranges = 0;
  for (size_t i = 0; i < to->stage_count; i++)
    ranges += chosen[i] && (i == 0 || !chosen[i - 1]);
  if (ranges > MOST_RANGES) {
    say(to, "%zu stages", count);
    return;
  }
  say(to, count == 1 ? "stage" : "stages");
  const char *before = " ";
  for (size_t i = 0; i < to->stage_count; i++) {
    if (!chosen[i]) continue;
    size_t last = i;
    while (last + 1 < to->stage_count && chosen[last + 1])
      last++;
    say(to, "%s%d", before, to->stages[i].stage);
    if (last > i) say(to, "-%d", to->stages[last].stage);
    before = ", ";
    i = last;
  }
}

static int64_t towards(const bt_change *change, bool slower) {
  if (change->change == BT_UNKNOWN) return 0;
  return slower ? change->change : -change->change;
}

/* The stages with the largest changes, enough for most of the class's change. Returns how many. */
static size_t choose_stages(const bt_comparison *of, bt_class c, bool slower, bool *chosen) {
  int64_t all = 0;
  int64_t covered = 0;
  size_t count = 0;
  for (size_t i = 0; i < of->stage_count; i++) {
    int64_t by = towards(&of->stages[i].ns[c], slower);
    all += by > 0 ? by : 0;
    chosen[i] = false;
  }
  while (covered * 100 < all * COVERED_PERCENT) {
    size_t best = of->stage_count;
    for (size_t i = 0; i < of->stage_count; i++) {
      if (chosen[i]) continue;
      if (best == of->stage_count || towards(&of->stages[i].ns[c], slower) > towards(&of->stages[best].ns[c], slower))
        best = i;
    }
    if (best == of->stage_count) break;
    chosen[best] = true;
    covered += towards(&of->stages[best].ns[c], slower);
    count++;
  }
  return count;
}

static void say_where(bt_comparison *to, bool slower, bool *chosen) {
  int best = 0;
  for (int c = 1; c < BT_CLASS_COUNT; c++) {
    if (towards(&to->classes[c], slower) > towards(&to->classes[best], slower)) best = c;
  }
  int64_t by = towards(&to->classes[best], slower);
  int64_t step = towards(&to->step, slower);
  if (by <= 0) return;
  say(to, by * 2 > step ? "; most of it " : "; the largest part ");
  say_class(to, (bt_class)best);
  size_t count = choose_stages(to, (bt_class)best, slower, chosen);
  if (count == 0 || count == to->stage_count) return;
  say(to, " of ");
  say_stages(to, chosen, count);
}

/* --- why ------------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How much longer the same work takes: of a microbatch, where the runs have different numbers of them. */
static double slowdown(const bt_comparison *of, const bt_change *change) {
  double scale = 1;
  if (of->a.microbatches > 0 && of->b.microbatches > 0) scale = (double)of->a.microbatches / (double)of->b.microbatches;
  if (change->change == BT_UNKNOWN || change->a == 0) return (double)NAN;
  return (double)change->b * scale / (double)change->a - 1;
}

/* Lower median of the stages' slowdown in compute; NAN: there is none. */
static double usual_slowdown(const bt_comparison *of, double *room) {
  size_t count = 0;
  for (size_t i = 0; i < of->stage_count; i++) {
    double ratio = slowdown(of, &of->stages[i].compute);
    if (!isnan(ratio)) room[count++] = ratio;
  }
  if (count == 0) return (double)NAN;
  qsort(room, count, sizeof *room, by_value);
  return room[(count - 1) / 2];
}

/* The compute class that changed most on a stage, when the others did not change alike; -1: they did. */
static int odd_class(const bt_comparison *of, const bt_compared_stage *stage, double all) {
  int most = -1;
  bool alike = true;
  for (int c = 0; c < BT_CLASS_COMPUTE_LIMIT; c++) {
    double ratio = slowdown(of, &stage->ns[c]);
    if (isnan(ratio)) continue;
    double of_step = (double)(stage->ns[c].a > stage->ns[c].b ? stage->ns[c].a : stage->ns[c].b) / (double)of->step.a;
    alike &= of_step < least_small || fabs(ratio - all) < least_compute;
    if (most < 0 || llabs(stage->ns[c].change) > llabs(stage->ns[most].change)) most = c;
  }
  return alike ? -1 : most;
}

static void say_ratio(bt_comparison *to, double ratio) {
  if (ratio >= 1) {
    say(to, "takes %.1f times as long", 1 + ratio);
  } else {
    say(to, "is %.0f %% %s", 100 * fabs(ratio), ratio > 0 ? "slower" : "faster");
  }
}

static void say_compute(bt_comparison *to, double *room) {
  double usual = usual_slowdown(to, room);
  const bt_compared_stage *odd = NULL;
  double most = 0;
  for (size_t i = 0; i < to->stage_count; i++) {
    const bt_compared_stage *stage = &to->stages[i];
    for (int c = 0; c < BT_CLASS_COMPUTE_LIMIT; c++) {
      double beyond = slowdown(to, &stage->ns[c]) - usual;
      double of_step = fabs(beyond) * (double)stage->ns[c].a / (double)to->step.a;
      if (isnan(beyond) || fabs(beyond) < least_compute || of_step < least_of_step || of_step <= most) continue;
      most = of_step;
      odd = stage;
    }
  }
  bool all = fabs(usual) >= least_compute;
  if (all) say(to, ", and compute is %.0f %% %s on most stages", 100 * fabs(usual), usual > 0 ? "slower" : "faster");
  if (odd == NULL) return;
  double ratio = slowdown(to, &odd->compute);
  int class = odd_class(to, odd, ratio);
  say(to, ", and stage %d's ", odd->stage);
  if (class >= 0) {
    say_class(to, (bt_class) class);
    ratio = slowdown(to, &odd->ns[class]);
  } else {
    say(to, "compute");
  }
  say(to, " ");
  say_ratio(to, ratio);
}

static void say_link(bt_comparison *to) {
  const bt_compared_link *odd = NULL;
  for (size_t i = 0; i < to->link_count; i++) {
    const bt_compared_link *link = &to->links[i];
    double ratio = bt_change_ratio(&link->message);
    if (isnan(ratio) || fabs(ratio) < least_transfer || link->transfer.change == BT_UNKNOWN) continue;
    if (fabs((double)link->transfer.change) < least_of_step * (double)to->step.a) continue;
    if (odd == NULL || llabs(link->message.change) > llabs(odd->message.change)) odd = link;
  }
  if (odd == NULL) return;
  say(to, ", and a message %d > %d ", odd->from, odd->to);
  say_ratio(to, bt_change_ratio(&odd->message));
}

static void say_shape(bt_comparison *to) {
  const bt_compared_run *a = &to->a;
  const bt_compared_run *b = &to->b;
  if (a->stages != b->stages) {
    say(to, "; A has %d stages, B %d: stages are compared by number as far as both have them", a->stages, b->stages);
  } else if (a->chunks != b->chunks) {
    say(to, "; A has %d chunks a stage, B %d", a->chunks, b->chunks);
  }
  if (a->microbatches == b->microbatches || to->microbatch.change == BT_UNKNOWN) return;
  say(to, "; A has %d microbatches a step, B %d: ", a->microbatches, b->microbatches);
  say_time(to, to->microbatch.a);
  say(to, " and ");
  say_time(to, to->microbatch.b);
  say(to, " a microbatch");
}

/* "a, and b, and c" -> "a; b, and c". */
static void join_clauses(char *text) {
  static const char between[] = ", and ";
  char *at = strstr(text, between);
  for (char *next; at != NULL; at = next) {
    next = strstr(at + 1, between);
    if (next == NULL) break;
    *at = ';';
    at[1] = ' ';
    memmove(at + 2, at + sizeof between - 1, strlen(at + sizeof between - 1) + 1);
    next -= sizeof between - 3;
  }
}

/* `of` is a copy that the classes may be united in; its verdict is written. */
static void say_changes(bt_comparison *of, division how, bool slower) {
  bool *chosen = calloc(of->stage_count + 1, sizeof *chosen);
  double *room = calloc(of->stage_count + 1, sizeof *room);
  if (chosen != NULL && room != NULL) {
    unite(of->classes, how);
    for (size_t i = 0; i < of->stage_count; i++)
      unite(of->stages[i].ns, how);
    say_where(of, slower, chosen);
    say_compute(of, room);
    say_link(of);
    join_clauses(of->verdict);
  }
  free(chosen);
  free(room);
}

void bt_compare_verdict(bt_comparison *comparison) {
  double ratio = bt_change_ratio(&comparison->step);
  bool same = fabs(ratio) < same_step;
  comparison->verdict[0] = '\0';
  if (same) {
    say(comparison, "a step of B takes as long as one of A (");
    say_time(comparison, comparison->step.b);
    say(comparison, ")");
  } else {
    say(comparison, "B is ");
    say_time(comparison, comparison->step.change);
    say(comparison, " a step (%.1f %%) %s", 100 * fabs(ratio), ratio > 0 ? "slower" : "faster");
  }
  bt_comparison copy = *comparison;
  copy.stages = malloc((copy.stage_count + 1) * sizeof *copy.stages);
  if (copy.stages != NULL && !same && copy.a.stages == copy.b.stages) {
    memcpy(copy.stages, comparison->stages, copy.stage_count * sizeof *copy.stages);
    say_changes(&copy, divided(comparison), ratio > 0);
    memcpy(comparison->verdict, copy.verdict, sizeof copy.verdict);
  }
  free(copy.stages);
  say_shape(comparison);
}
