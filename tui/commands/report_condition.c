/* --fail-if: a number of the report against a bound. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/report.h"

static bool parse_bound(const char *text, double *bound) {
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"", 1}, {"%", 0.01}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char *end;
  double value = strtod(text, &end);
  if (end == text || !isfinite(value)) return false;
  while (isspace((unsigned char)*end))
    end++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit) != 0) continue;
    *bound = value * units[i].factor;
    return true;
  }
  return false;
}

bool bt_condition_parse(const char *text, bt_condition *condition) {
  while (isspace((unsigned char)*text))
    text++;
  size_t length = strcspn(text, "<>=! \t");
  if (length == 0 || length >= sizeof condition->path) return false;
  memcpy(condition->path, text, length);
  condition->path[length] = '\0';
  text += length;
  while (isspace((unsigned char)*text))
    text++;
  size_t comparison = strspn(text, "<>=!");
  if (comparison == 0 || comparison >= sizeof condition->comparison) return false;
  memcpy(condition->comparison, text, comparison);
  condition->comparison[comparison] = '\0';
  static const char *const known[] = {">", ">=", "<", "<=", "==", "!="};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(condition->comparison, known[i]) == 0) return parse_bound(text + comparison, &condition->bound);
  }
  return false;
}

typedef struct judgement {
  const bt_condition *condition;
  bool holds, unknown;
} judgement;

static void judge(void *context, double value) {
  judgement *j = context;
  const char *comparison = j->condition->comparison;
  double bound = j->condition->bound;
  if (isnan(value)) {
    j->unknown = true;
    return;
  }
  bool less = value < bound;
  bool more = value > bound;
  switch (comparison[0]) {
  case '>': j->holds |= more || (comparison[1] == '=' && !less); break;
  case '<': j->holds |= less || (comparison[1] == '=' && !more); break;
  case '=': j->holds |= !less && !more; break;
  default: j->holds |= less || more; break;
  }
}

bt_verdict bt_condition_judge(const bt_condition *condition, const bt_json *document) {
  static const char *const places[] = {"", "bubble.", "clock."};
  judgement j = {condition, false, false};
  size_t found = 0;
  for (size_t i = 0; found == 0 && i < sizeof places / sizeof *places; i++) {
    char path[sizeof condition->path + 16];
    (void)snprintf(path, sizeof path, "%s%s", places[i], condition->path);
    found = bt_json_each(document, path, judge, &j);
  }
  if (found == 0) return BT_VERDICT_NO_KEY;
  return j.holds ? BT_VERDICT_TRUE : j.unknown ? BT_VERDICT_UNKNOWN : BT_VERDICT_FALSE;
}
