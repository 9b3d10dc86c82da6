/* Recognition: every schedule over a grid of sizes is known again; departures are found; what differs in nothing that
 * matters is not minded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/analysis/recognise.h"

enum { MOST_STAGES = 32 };

typedef struct copy { /* of a schedule, to be tampered with */
  int32_t stages, chunks;
  bt_op *ops[MOST_STAGES];
  bt_observed_stage seen[MOST_STAGES];
} copy;

static copy *copy_of(const char *name, int32_t p, int32_t m, int32_t v) {
  bt_schedule_params params = {.stages = p, .microbatches = m, .chunks = v, .forward = 10, .backward = 10, .weight = 8};
  bt_schedule *schedule = NULL;
  bt_error error = {0};
  if (bt_schedule_make(bt_schedule_find(name), &params, &schedule, &error) != BT_OK) fail_msg("%s", error.text);
  copy *out = calloc(1, sizeof *out);
  out->stages = p;
  out->chunks = schedule->chunks;
  for (int32_t stage = 0; stage < p; stage++) {
    size_t count;
    const bt_op *ops = bt_schedule_order(schedule, stage, &count);
    out->ops[stage] = malloc(count * sizeof *ops);
    memcpy(out->ops[stage], ops, count * sizeof *ops);
    out->seen[stage].ops = out->ops[stage];
    out->seen[stage].count = count;
  }
  bt_schedule_free(schedule);
  return out;
}

static void copy_free(copy *of) {
  for (int32_t stage = 0; stage < of->stages; stage++)
    free(of->ops[stage]);
  free(of);
}

static bt_recognition recognise(const copy *of, const bt_observed_times *times) {
  bt_recognition result;
  bt_error error = {0};
  if (bt_recognise(of->seen, (size_t)of->stages, times, &result, &error) != BT_OK) fail_msg("%s", error.text);
  return result;
}

static bool named(const bt_recognition *result, const char *name) {
  if (strcmp(result->name, name) == 0) return true;
  for (size_t i = 0; i < result->alias_count; i++) {
    if (strcmp(result->aliases[i], name) == 0) return true;
  }
  return false;
}

/* The name is the family's own, or that of a simpler one with the same order, which then names this one as an alias. */
static void every_family_is_known_again(void **state) {
  (void)state;
  static const bt_observed_times times = {10, 10, 8, 0};
  size_t tried = 0;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    for (int32_t p = 2; p <= 8; p += 2) {
      for (int32_t m = 2 * p; m <= 4 * p; m += p) {
        for (int32_t v = family->least_chunks; v <= family->most_chunks && v <= 3; v++) {
          copy *of = copy_of(family->name, p, m, v);
          bt_recognition result = recognise(of, &times);
          if (!named(&result, family->name)) {
            fail_msg("%s with p %d, m %d, v %d is taken for %s: %s", family->name, p, m, v, result.name, result.text);
          }
          assert_int_equal(result.stages, p);
          assert_int_equal(result.chunks, v);
          assert_int_equal(result.microbatches, m);
          assert_int_equal(result.missing, 0);
          copy_free(of);
          tried++;
        }
      }
    }
  }
  assert_true(tried > 200);
}

/* Big enough to be told apart, each has its own name. */
static void names_are_distinct(void **state) {
  (void)state;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    if (family->timed) continue;
    copy *of = copy_of(family->name, 4, 16, family->most_chunks > 1 ? 2 : 1);
    bt_recognition result = recognise(of, NULL);
    assert_string_equal(result.name, family->name);
    copy_free(of);
  }
}

static void timing_driven_without_times(void **state) {
  (void)state;
  copy *of = copy_of("zb-auto", 4, 12, 1);
  bt_recognition result = recognise(of, NULL);
  assert_true(named(&result, "zb-auto") || named(&result, "zb-h1"));
  copy_free(of);
  bt_schedule_params params = {
      .stages = 8, .microbatches = 32, .forward = 18513, .backward = 18086, .weight = 9331, .comm = 626, .memory = 16};
  bt_schedule *schedule = NULL;
  assert_int_equal(bt_schedule_make(bt_schedule_find("zb-auto"), &params, &schedule, NULL), BT_OK);
  bt_observed_stage seen[8];
  for (int32_t stage = 0; stage < 8; stage++)
    seen[stage].ops = bt_schedule_order(schedule, stage, &seen[stage].count);
  assert_int_equal(bt_recognise(seen, 8, NULL, &result, NULL), BT_OK);
  assert_string_equal(result.name, "zb-auto");
  assert_true(result.by_build);
  bt_observed_times times = {18513, 18086, 9331, 626};
  assert_int_equal(bt_recognise(seen, 8, &times, &result, NULL), BT_OK);
  assert_string_equal(result.name, "zb-auto");
  assert_false(result.by_build);
  assert_true(result.memory == 16);
  bt_schedule_free(schedule);
}

static void simpler_name_first(void **state) {
  (void)state;
  copy *of = copy_of("pytorch-zb", 4, 8, 1);
  bt_recognition result = recognise(of, NULL);
  assert_string_equal(result.name, "zb-h1");
  assert_true(named(&result, "pytorch-zb"));
  copy_free(of);
  of = copy_of("1f1b", 4, 1, 1);
  result = recognise(of, NULL);
  assert_string_equal(result.name, "gpipe");
  assert_true(named(&result, "1f1b"));
  copy_free(of);
}

static void numbering_does_not_matter(void **state) {
  (void)state;
  copy *of = copy_of("dualpipe", 4, 12, 2);
  for (int32_t stage = 0; stage < 4; stage++) { /* each direction from 100 on, and virtual stages unknown */
    for (size_t i = 0; i < of->seen[stage].count; i++) {
      bt_op *op = &of->ops[stage][i];
      op->microbatch = op->microbatch % 6 + 100;
      if (op->kind == BT_FB) op->microbatch_b = op->microbatch_b % 6 + 100;
      op->vstage = -1;
    }
  }
  bt_recognition result = recognise(of, NULL);
  assert_string_equal(result.name, "dualpipe");
  assert_int_equal(result.microbatches, 12);
  copy_free(of);
  of = copy_of("1f1b", 4, 8, 1);
  for (int32_t stage = 0; stage < 4; stage++) {
    for (size_t i = 0; i < of->seen[stage].count; i++)
      of->ops[stage][i].chunk = -1;
  }
  result = recognise(of, NULL);
  assert_string_equal(result.name, "1f1b");
  copy_free(of);
}

static void reversed_backwards(void **state) {
  (void)state;
  copy *of = copy_of("looped-bfs", 4, 8, 1); /* GPipe as its paper draws it */
  bt_recognition result = recognise(of, NULL);
  assert_string_equal(result.name, "gpipe");
  assert_true(result.reversed);
  assert_true(named(&result, "looped-bfs"));
  copy_free(of);
}

static void lost_ops_and_stages(void **state) {
  (void)state;
  copy *of = copy_of("zb-h1", 4, 16, 1);
  memmove(of->ops[2] + 5, of->ops[2] + 6, (of->seen[2].count - 6) * sizeof *of->ops[2]);
  of->seen[2].count--;
  bt_recognition result = recognise(of, NULL);
  assert_string_equal(result.name, "zb-h1");
  assert_int_equal(result.missing, 1);
  of->seen[1].count = 0; /* a rank that was not recorded */
  result = recognise(of, NULL);
  assert_string_equal(result.name, "zb-h1");
  copy_free(of);
}

static void departures(void **state) {
  (void)state;
  copy *of = copy_of("1f1b", 4, 8, 1);
  bt_op swap = of->ops[1][4]; /* F0 F1 F2 BW0 F3 BW1 …: BW1 comes before F3 now */
  of->ops[1][4] = of->ops[1][5];
  of->ops[1][5] = swap;
  bt_recognition result = recognise(of, NULL);
  assert_string_equal(result.name, "unknown");
  assert_null(result.family);
  assert_string_equal(result.nearest->name, "1f1b");
  assert_int_equal(result.moved, 1);
  assert_int_equal(result.departs_stage, 1);
  assert_int_equal(result.departs_at, 4);
  assert_non_null(strstr(result.text, "BW of microbatch 1 where F of 3 is due"));
  copy_free(of);
  of = copy_of("zb-h1", 4, 8, 1);
  swap = of->ops[0][7];
  of->ops[0][7] = of->ops[0][8];
  of->ops[0][8] = swap;
  result = recognise(of, NULL);
  assert_string_equal(result.nearest->name, "zb-h1");
  assert_string_equal(result.name, "unknown");
  copy_free(of);
}

static void nothing_and_nonsense(void **state) {
  (void)state;
  bt_recognition result;
  bt_error error = {0};
  bt_observed_stage none[2] = {{NULL, 0}, {NULL, 0}};
  assert_int_equal(bt_recognise(none, 2, NULL, &result, &error), BT_ERR_EMPTY);
  assert_int_equal(bt_recognise(NULL, 0, NULL, &result, &error), BT_ERR_EMPTY);
  bt_op twice[] = {bt_op_make(BT_F, 0, 0, 5), bt_op_make(BT_F, 0, 0, 5), bt_op_make(BT_W, 3, 7, -9),
                   bt_op_make(BT_OPTIMIZER, -1, -1, -1)};
  bt_observed_stage odd = {twice, 4};
  assert_int_equal(bt_recognise(&odd, 1, NULL, &result, &error), BT_OK);
  assert_string_equal(result.name, "unknown");
  twice[0].chunk = 1000;
  assert_int_equal(bt_recognise(&odd, 1, NULL, &result, &error), BT_ERR_ARG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_family_is_known_again), cmocka_unit_test(names_are_distinct),
      cmocka_unit_test(timing_driven_without_times), cmocka_unit_test(simpler_name_first),
      cmocka_unit_test(numbering_does_not_matter),   cmocka_unit_test(reversed_backwards),
      cmocka_unit_test(lost_ops_and_stages),         cmocka_unit_test(departures),
      cmocka_unit_test(nothing_and_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
