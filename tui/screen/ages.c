#include "tui/screen/ages.h"

#include <stdlib.h>
#include <string.h>

#include "tui/screen/text.h"

void bt_ages_free(bt_ages *ages) {
  free(ages->heartbeats);
  free(ages->behind);
  memset(ages, 0, sizeof *ages);
}

static bool grow(int64_t **items, size_t *count, size_t wanted, int64_t fill) {
  if (*count >= wanted) return true;
  int64_t *grown = realloc(*items, wanted * sizeof *grown);
  if (grown == NULL) return false;
  for (size_t i = *count; i < wanted; i++)
    grown[i] = fill;
  *items = grown;
  *count = wanted;
  return true;
}

/* By its clock, right or wrong. */
static int64_t age_by_clock(const bt_rank *rank, int64_t time, int64_t now) {
  const bt_clock_pair *pair = &rank->clocks[rank->clock_count - 1];
  return bt_time_sub(now, bt_time_add(bt_time_sub(time, pair->mono), pair->real));
}

bt_status bt_ages_update(bt_ages *ages, const bt_trace *trace, int64_t now, bool old) {
  ages->now = now;
  if (now == INT64_MIN) return BT_OK;
  bool same = !old && ages->rank_count == trace->rank_count; /* otherwise they may have moved */
  if (!grow(&ages->heartbeats, &ages->rank_count, trace->rank_count, INT64_MIN) ||
      !grow(&ages->behind, &ages->host_count, trace->host_count, INT64_MAX))
    return BT_ERR_NOMEM;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    bool news = same && ages->heartbeats[i] != INT64_MIN && rank->heartbeat > ages->heartbeats[i];
    ages->heartbeats[i] = rank->heartbeat;
    if (!news || rank->clock_count == 0 || rank->host >= ages->host_count) continue;
    int64_t age = age_by_clock(rank, rank->heartbeat, now);
    if (age < ages->behind[rank->host]) ages->behind[rank->host] = age;
  }
  return BT_OK;
}

int64_t bt_ages_of(const bt_ages *ages, const bt_rank *rank, int64_t time) {
  if (ages->now == INT64_MIN || rank->clock_count == 0 || time == INT64_MIN) return -1;
  int64_t age = age_by_clock(rank, time, ages->now);
  if (rank->host < ages->host_count && ages->behind[rank->host] != INT64_MAX)
    age = bt_time_sub(age, ages->behind[rank->host]);
  return age < 0 ? 0 : age;
}

int64_t bt_ages_least(const bt_ages *ages, const bt_trace *trace) {
  int64_t least = -1;
  for (size_t i = 0; i < trace->rank_count; i++) {
    int64_t age = bt_ages_of(ages, &trace->ranks[i], trace->ranks[i].heartbeat);
    if (age >= 0 && (least < 0 || age < least)) least = age;
  }
  return least;
}
