/* A lasting change in a row of bubble rates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tui/screen/steps.h"

static double noise(uint64_t *state) { /* -1 to 1 */
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 33) / (double)(UINT64_C(1) << 30) - 1;
}

static void fill(double *bubbles, size_t count, double level, double spread, uint64_t *seed) {
  for (size_t i = 0; i < count; i++)
    bubbles[i] = level + spread * noise(seed);
}

static void test_found(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed < 200; seed++) {
    uint64_t state = seed;
    size_t first = 4 + seed % 40, second = 4 + seed / 3 % 40, at;
    double bubbles[100], before, after;
    fill(bubbles, first, 0.249, 0.004, &state);
    fill(bubbles + first, second, 0.31, 0.004, &state);
    bubbles[seed % first] = (double)NAN;
    assert_true(bt_steps_change(bubbles, first + second, &at, &before, &after));
    assert_int_equal(at, first);
    assert_true(fabs(before - 0.249) < 0.004 && fabs(after - 0.31) < 0.004);
  }
}

/* Noise, a single slow step, a change too small to matter, and too little to go by are no change. */
static void test_none(void **unused) {
  (void)unused;
  size_t at;
  double bubbles[100], before, after;
  int false_alarms = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    uint64_t state = seed;
    fill(bubbles, 60, 0.25, 0.02, &state);
    false_alarms += bt_steps_change(bubbles, 60, &at, &before, &after);
    fill(bubbles, 60, 0.25, 0.004, &state);
    bubbles[seed % 60] = 0.29;
    assert_false(bt_steps_change(bubbles, 60, &at, &before, &after));
    fill(bubbles, 30, 0.25, 0.0005, &state);
    fill(bubbles + 30, 30, 0.257, 0.0005, &state);
    assert_false(bt_steps_change(bubbles, 60, &at, &before, &after));
  }
  assert_int_equal(false_alarms, 0);
  bubbles[0] = bubbles[1] = 0.1;
  bubbles[2] = bubbles[3] = 0.3;
  assert_false(bt_steps_change(bubbles, 4, &at, &before, &after));
  assert_false(bt_steps_change(bubbles, 0, &at, &before, &after));
  for (int i = 0; i < 10; i++)
    bubbles[i] = (double)NAN;
  assert_false(bt_steps_change(bubbles, 10, &at, &before, &after));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found),
      cmocka_unit_test(test_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
