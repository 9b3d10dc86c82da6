#include "capture/nvtx_rules.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = 256, MAX_GROUPS = 10, LINE_BYTES = 1024, IGNORE = 255 };

/* Which parenthesis tells a number; 0 none, IN_ORDER counted. */
enum { FROM_MICROBATCH, FROM_MICROBATCH_B, FROM_CHUNK, FROM_CHUNK_B, FROM_STAGE, FROM_STEP, FROM_PEER, FROM_COUNT };
enum { IN_ORDER = 255 };

typedef struct rule {
  uint8_t what, kind;
  uint8_t from[FROM_COUNT];
  char domain[32]; /* "" any */
  regex_t regex;
} rule;

struct bt_nvtx_rules {
  size_t count;
  rule rules[MAX_RULES];
};

static const struct {
  const char *name;
  uint8_t what, kind;
} kinds[] = {
    {"F", BT_NVTX_SPAN, BUBBLETOP_F},
    {"B", BT_NVTX_SPAN, BUBBLETOP_B},
    {"W", BT_NVTX_SPAN, BUBBLETOP_W},
    {"BW", BT_NVTX_SPAN, BUBBLETOP_BW},
    {"FB", BT_NVTX_SPAN, BUBBLETOP_FB},
    {"RECOMPUTE", BT_NVTX_SPAN, BUBBLETOP_RECOMPUTE},
    {"OPTIMIZER", BT_NVTX_SPAN, BUBBLETOP_OPTIMIZER},
    {"OTHER", BT_NVTX_SPAN, BUBBLETOP_OTHER},
    {"HOST", BT_NVTX_SPAN, BUBBLETOP_HOST},
    {"SEND_F", BT_NVTX_COMM, BUBBLETOP_SEND_F},
    {"RECV_F", BT_NVTX_COMM, BUBBLETOP_RECV_F},
    {"SEND_B", BT_NVTX_COMM, BUBBLETOP_SEND_B},
    {"RECV_B", BT_NVTX_COMM, BUBBLETOP_RECV_B},
    {"SEND", BT_NVTX_COMM, BUBBLETOP_SEND},
    {"RECV", BT_NVTX_COMM, BUBBLETOP_RECV},
    {"ALL_REDUCE", BT_NVTX_COMM, BUBBLETOP_ALL_REDUCE},
    {"REDUCE_SCATTER", BT_NVTX_COMM, BUBBLETOP_REDUCE_SCATTER},
    {"ALL_GATHER", BT_NVTX_COMM, BUBBLETOP_ALL_GATHER},
    {"ALL_TO_ALL", BT_NVTX_COMM, BUBBLETOP_ALL_TO_ALL},
    {"BROADCAST", BT_NVTX_COMM, BUBBLETOP_BROADCAST},
    {"step", BT_NVTX_STEP, 0},
    {"ignore", IGNORE, 0},
};

static const char *const keys[FROM_COUNT] = {"microbatch", "microbatch_b", "chunk", "chunk_b", "stage", "step", "peer"};

/* The next word of the line, ended in place; NULL: none. */
static char *word(char **at) {
  *at += strspn(*at, " \t");
  if (**at == '\0') return NULL;
  char *from = *at;
  *at += strcspn(*at, " \t");
  if (**at != '\0') *(*at)++ = '\0';
  return from;
}

/* Is `text` a setting? Then it is taken, or `wrong` says why not. */
static bool setting(rule *out, char *text, const char **wrong) {
  char *equals = strchr(text, '=');
  if (equals == NULL) return false;
  size_t length = (size_t)(equals - text);
  const char *value = equals + 1;
  if (length == 6 && strncmp(text, "domain", 6) == 0) {
    if (strlen(value) >= sizeof out->domain) *wrong = "a domain name of at most 31 bytes";
    if (*wrong == NULL) memcpy(out->domain, value, strlen(value) + 1);
    return true;
  }
  for (size_t i = 0; i < FROM_COUNT; i++) {
    if (strlen(keys[i]) != length || strncmp(text, keys[i], length) != 0) continue;
    bool counted = strcmp(value, "order") == 0 && (i == FROM_MICROBATCH || i == FROM_STEP);
    if (!counted && (value[0] < '1' || value[0] > '9' || value[1] != '\0'))
      *wrong = "a number of a parenthesis, 1 to 9";
    out->from[i] = counted ? IN_ORDER : (uint8_t)(value[0] - '0');
    return true;
  }
  return false;
}

/* One line into a rule, whose regex is compiled last. NULL: fine, or what is wrong. */
static const char *parse(rule *out, char *line) {
  const char *wrong = NULL;
  *out = (rule){0};
  char *name = word(&line);
  size_t kind = 0;
  while (kind < sizeof kinds / sizeof *kinds && strcmp(kinds[kind].name, name) != 0)
    kind++;
  if (kind == sizeof kinds / sizeof *kinds) return "a kind (F, B, W, BW, step, ignore, …)";
  out->what = kinds[kind].what;
  out->kind = kinds[kind].kind;
  line += strspn(line, " \t");
  while (wrong == NULL) {
    char copy[LINE_BYTES];
    char *rest = copy;
    memcpy(copy, line, strlen(line) + 1);
    char *text = word(&rest);
    if (text == NULL) return "a regular expression";
    if (!setting(out, text, &wrong)) break; /* the regex may have an '=' as well */
    line += rest - copy;
    line += strspn(line, " \t");
  }
  if (wrong != NULL) return wrong;
  return regcomp(&out->regex, line, REG_EXTENDED) == 0 ? NULL : "a regular expression that compiles";
}

static void read_lines(bt_nvtx_rules *rules, FILE *in, char *error, size_t room) {
  char line[LINE_BYTES];
  for (int number = 1; fgets(line, sizeof line, in) != NULL; number++) {
    line[strcspn(line, "\r\n")] = '\0';
    char *at = line + strspn(line, " \t");
    if (*at == '\0' || *at == '#') continue;
    const char *wrong = rules->count < MAX_RULES ? parse(&rules->rules[rules->count], at) : "at most 256 rules";
    if (wrong == NULL)
      rules->count++;
    else if (error[0] == '\0')
      snprintf(error, room, "line %d: there must be %s", number, wrong);
  }
}

bt_nvtx_rules *bt_nvtx_rules_read(const char *path, char *error, size_t room) {
  error[0] = '\0';
  if (path == NULL) return NULL;
  FILE *in = fopen(path, "re");
  if (in == NULL) {
    snprintf(error, room, "%s: %s", path, strerror(errno));
    return NULL;
  }
  bt_nvtx_rules *rules = calloc(1, sizeof *rules);
  if (rules != NULL) read_lines(rules, in, error, room);
  fclose(in);
  return rules;
}

/* The number in a parenthesis; -1: none, or too large. */
static int32_t group_number(const char *text, const regmatch_t *group) {
  int64_t value = 0;
  if (group->rm_so < 0 || group->rm_so == group->rm_eo) return -1;
  for (regoff_t i = group->rm_so; i < group->rm_eo; i++) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
    if (value > INT32_MAX) return -1;
  }
  return (int32_t)value;
}

static int32_t number_from(const rule *by, int what, const char *text, const regmatch_t *groups) {
  uint8_t from = by->from[what];
  if (from == IN_ORDER) return BT_NVTX_IN_ORDER;
  return from == 0 ? -1 : group_number(text, &groups[from]);
}

static int16_t chunk_from(int32_t value) {
  return (int16_t)(value <= INT16_MAX ? value : -1);
}

static bool apply(const rule *by, const char *text, bt_nvtx_match *match) {
  regmatch_t groups[MAX_GROUPS];
  if (regexec(&by->regex, text, MAX_GROUPS, groups, 0) != 0) return false;
  bt_nvtx_match_init(match);
  if (by->what == IGNORE) return true;
  match->what = by->what;
  match->kind = by->kind;
  match->microbatch = number_from(by, FROM_MICROBATCH, text, groups);
  match->microbatch_b = number_from(by, FROM_MICROBATCH_B, text, groups);
  match->chunk = chunk_from(number_from(by, FROM_CHUNK, text, groups));
  match->chunk_b = chunk_from(number_from(by, FROM_CHUNK_B, text, groups));
  match->stage = number_from(by, FROM_STAGE, text, groups);
  match->step = number_from(by, FROM_STEP, text, groups);
  match->peer = number_from(by, FROM_PEER, text, groups);
  bool op = by->what == BT_NVTX_SPAN && by->kind <= BUBBLETOP_RECOMPUTE;
  if (op && by->from[FROM_CHUNK] == 0) match->chunk = 0;
  if (op && by->kind == BUBBLETOP_FB && by->from[FROM_CHUNK_B] == 0) match->chunk_b = 0;
  if (by->what == BT_NVTX_STEP && match->step < 0) match->step = BT_NVTX_IN_ORDER;
  return true;
}

void bt_nvtx_match_text(const bt_nvtx_rules *rules, const char *domain, const char *text, bt_nvtx_match *match) {
  for (size_t i = 0; rules != NULL && i < rules->count; i++) {
    const rule *each = &rules->rules[i];
    if (each->domain[0] != '\0' && strcmp(each->domain, domain) != 0) continue;
    if (apply(each, text, match)) return;
  }
  bt_nvtx_match_shipped(text, match);
}
