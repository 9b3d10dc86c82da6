/* The JSON writer, and conditions on what it holds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/commands/report.h"

static char *written(const bt_json *json, bool lines) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  bt_json_write(json, out, lines);
  fclose(out);
  return text;
}

static bt_json *sample(void) {
  bt_json *json = bt_json_new();
  assert_non_null(json);
  bt_json_open_object(json, "bubble");
  bt_json_number(json, "rate_window", 0.25);
  bt_json_number(json, "rate_span", (double)NAN);
  bt_json_close(json);
  bt_json_open_array(json, "stages");
  for (int i = 0; i < 3; i++) {
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "busy_ns", 100 * i);
    bt_json_close(json);
  }
  bt_json_close(json);
  bt_json_open_array(json, "empty");
  bt_json_close(json);
  bt_json_boolean(json, "yes", true);
  bt_json_text(json, "nothing", NULL);
  return json;
}

static void writes(void **state) {
  (void)state;
  bt_json *json = sample();
  char *text = written(json, false);
  assert_string_equal(text,
                      "{\"bubble\": {\"rate_window\": 0.25, \"rate_span\": null}, \"stages\": [{\"busy_ns\": 0}, "
                      "{\"busy_ns\": 100}, {\"busy_ns\": 200}], \"empty\": [], \"yes\": true, \"nothing\": null}\n");
  free(text);
  text = written(json, true);
  assert_non_null(strstr(text, "\n  \"stages\": [\n    {\"busy_ns\": 0},\n"));
  free(text);
  assert_false(bt_json_broken(json));
  bt_json_free(json);
}

/* What an attacker may put in a name: nothing of it reaches a terminal as it is. */
static void hostile_text(void **state) {
  (void)state;
  bt_json *json = bt_json_new();
  bt_json_text(json, "a", "q\" b\\ \x1b[31m \x7f \xc2\x9b \xff\xc0\x80 \xed\xa0\x80 caf\xc3\xa9");
  char *text = written(json, false);
  assert_string_equal(text, "{\"a\": \"q\\\" b\\\\ \\u001b[31m \\u007f \\u009b \\ufffd\\ufffd\\ufffd "
                            "\\ufffd\\ufffd\\ufffd caf\xc3\xa9\"}\n");
  free(text);
  bt_json_free(json);
}

static void numbers_survive(void **state) {
  (void)state;
  static const double values[] = {0.1, 1.0 / 3, 1e300, -2.5e-10, 0.28315412186379929, 9007199254740993.0};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    bt_json *json = bt_json_new();
    bt_json_number(json, "x", values[i]);
    char *text = written(json, false);
    assert_true(strtod(text + 6, NULL) == values[i]);
    free(text);
    bt_json_free(json);
  }
}

static bt_verdict judge(const bt_json *json, const char *text) {
  bt_condition condition;
  if (!bt_condition_parse(text, &condition)) fail_msg("'%s' is no condition", text);
  return bt_condition_judge(&condition, json);
}

static void conditions(void **state) {
  (void)state;
  bt_json *json = sample();
  assert_int_equal(judge(json, "rate_window>0.2"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "bubble.rate_window > 25%"), BT_VERDICT_FALSE);
  assert_int_equal(judge(json, " rate_window >= 25 %"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "rate_window==0.25"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "rate_window!=0.25"), BT_VERDICT_FALSE);
  assert_int_equal(judge(json, "rate_window<0.2"), BT_VERDICT_FALSE);
  assert_int_equal(judge(json, "rate_window<=0.25"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "rate_span>0.2"), BT_VERDICT_UNKNOWN);
  assert_int_equal(judge(json, "stages[1].busy_ns>0.05us"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "stages[0].busy_ns>1ns"), BT_VERDICT_FALSE);
  assert_int_equal(judge(json, "stages[].busy_ns>150"), BT_VERDICT_TRUE);
  assert_int_equal(judge(json, "stages[].busy_ns>200"), BT_VERDICT_FALSE);
  static const char *const absent[] = {"stages[3].busy_ns>1", "rate>1",    "stages>1",        "yes>0",
                                       "empty[].x>0",         "bubble.>0", "rate_window.x>0", "stages[0>0",
                                       "stages[1]busy>0"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
    assert_int_equal(judge(json, absent[i]), BT_VERDICT_NO_KEY);
  bt_json_free(json);
}

static void no_conditions(void **state) {
  (void)state;
  static const char *const wrong[] = {"",    ">1",   "a",     "a>",    "a>b",   "a>1x", "a=>1",
                                      "a=1", "a><1", "a>1 2", "a>nan", "a>inf", "a>>>1"};
  bt_condition condition;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (bt_condition_parse(wrong[i], &condition)) fail_msg("'%s' was taken", wrong[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes),     cmocka_unit_test(hostile_text),  cmocka_unit_test(numbers_survive),
      cmocka_unit_test(conditions), cmocka_unit_test(no_conditions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
