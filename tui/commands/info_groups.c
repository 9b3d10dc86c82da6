#include "tui/commands/info_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/array.h"

enum { MEMBERS_LISTED = 64, KINDS_LISTED = 8 };

typedef struct known_group {
  uint64_t identity; /* equal for what several ranks name */
  int32_t count;
  uint8_t domain;
  bool whole; /* all its members are known */
} known_group;

typedef struct kind { /* groups of a domain and size */
  int32_t count, groups;
  uint8_t domain;
  bool whole;
} kind;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

static known_group known(const bt_group_info *group) {
  known_group result = {group->identity, group->count, group->domain, group->run_count > 0};
  if (group->identity != 0) {
    result.whole = group->joined != NULL && group->joined->state == BT_JOINED;
    if (group->joined != NULL) result.count = group->joined->count;
    return result;
  }
  for (uint32_t i = 0; i < group->run_count; i++) {
    const bt_run_of_ranks *run = &group->runs[i];
    result.identity = mix(mix(result.identity, (uint32_t)run->first), (uint64_t)(uint32_t)run->stride << 32);
    result.identity = mix(result.identity, (uint32_t)run->count);
  }
  return result;
}

static int compare_groups(const void *left, const void *right) {
  const known_group *a = left;
  const known_group *b = right;
  if (a->domain != b->domain) return b->domain - a->domain; /* the world first, what is unknown last */
  if (a->count != b->count) return a->count > b->count ? -1 : 1;
  if (a->whole != b->whole) return a->whole ? -1 : 1;
  return (a->identity > b->identity) - (a->identity < b->identity);
}

/* The groups of all ranks, each once, by kind. NULL: memory is short. */
static kind *gather(const bt_trace *trace, size_t *count) {
  known_group *all = NULL;
  size_t groups = 0, capacity = 0;
  for (size_t r = 0; r < trace->rank_count; r++) {
    for (size_t g = 0; g < trace->ranks[r].group_count; g++) {
      if (!bt_array_reserve(&all, &capacity, groups + 1, sizeof *all)) return free(all), NULL;
      all[groups++] = known(&trace->ranks[r].groups[g]);
    }
  }
  kind *kinds = calloc(groups + 1, sizeof *kinds);
  *count = 0;
  if (groups > 0) qsort(all, groups, sizeof *all, compare_groups);
  for (size_t i = 0; kinds != NULL && i < groups; i++) {
    if (i > 0 && compare_groups(&all[i - 1], &all[i]) == 0) continue;
    kind *last = *count > 0 ? &kinds[*count - 1] : NULL;
    if (last == NULL || last->domain != all[i].domain || last->count != all[i].count || last->whole != all[i].whole) {
      last = &kinds[(*count)++];
      *last = (kind){all[i].count, 0, all[i].domain, all[i].whole};
    }
    last->groups++;
  }
  free(all);
  return kinds;
}

bool bt_print_groups(const bt_trace *trace) {
  size_t count;
  kind *kinds = gather(trace, &count);
  if (kinds == NULL) return false;
  for (size_t i = 0; i < count && i < KINDS_LISTED; i++) {
    const char *domain = kinds[i].domain == BT_DOMAIN_UNKNOWN ? "other" : bt_domain_name(kinds[i].domain);
    printf("%s%" PRId32 " %s of %" PRId32 "%s", i == 0 ? "groups       " : ", ", kinds[i].groups, domain,
           kinds[i].count, kinds[i].whole ? "" : " (members unknown)");
  }
  if (count > 0) printf("%s\n", count > KINDS_LISTED ? ", ..." : "");
  free(kinds);
  return true;
}

static void write_communicator(bt_json *json, const bt_joined *joined) {
  static const char *const states[] = {"joined", "incomplete", "ambiguous"};
  char identity[24];
  snprintf(identity, sizeof identity, "%016" PRIx64, joined->identity);
  bt_json_open_object(json, NULL);
  bt_json_text(json, "identity", identity);
  bt_json_text(json, "state", states[joined->state]);
  bt_json_text(json, "domain", joined->domain == BT_DOMAIN_UNKNOWN ? NULL : bt_domain_name(joined->domain));
  bt_json_integer(json, "size", joined->count);
  bt_json_open_array(json, "members");
  for (int32_t place = 0; place < joined->count && place < MEMBERS_LISTED; place++) {
    int32_t rank = bt_joined_member(joined, place);
    if (rank >= 0)
      bt_json_integer(json, NULL, rank);
    else
      bt_json_null(json, NULL);
  }
  bt_json_close(json);
  bt_json_close(json);
}

bool bt_write_groups(bt_json *json, const bt_trace *trace) {
  size_t count;
  kind *kinds = gather(trace, &count);
  if (kinds == NULL) return false;
  bt_json_open_array(json, "groups");
  for (size_t i = 0; i < count; i++) {
    bt_json_open_object(json, NULL);
    bt_json_text(json, "domain", kinds[i].domain == BT_DOMAIN_UNKNOWN ? NULL : bt_domain_name(kinds[i].domain));
    bt_json_integer(json, "size", kinds[i].count);
    bt_json_integer(json, "groups", kinds[i].groups);
    bt_json_boolean(json, "members_known", kinds[i].whole);
    bt_json_close(json);
  }
  bt_json_close(json);
  bt_json_open_array(json, "communicators");
  for (size_t i = 0; i < trace->joined_count; i++)
    write_communicator(json, &trace->joined[i]);
  bt_json_close(json);
  free(kinds);
  return true;
}
