#include "tui/screen/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t bt_time_sub(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_sub_overflow(a, b, &result)) return a < b ? INT64_MIN : INT64_MAX;
  return result;
}

int64_t bt_time_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return a < 0 ? INT64_MIN : INT64_MAX;
  return result;
}

int64_t bt_time_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return result;
}

int64_t bt_view_time(const bt_rank *rank, int64_t raw) {
  int64_t time = bt_time_add(raw, rank->offset_ns);
  if (rank->clock_rate == 0) return time;
  return bt_time_add(time, (int64_t)(rank->clock_rate * (double)bt_time_sub(raw, rank->clock_pivot)));
}

int64_t bt_raw_time(const bt_rank *rank, int64_t time) {
  int64_t raw = bt_time_sub(time, rank->offset_ns);
  if (rank->clock_rate == 0 || time == INT64_MAX) return raw;
  double since = (double)bt_time_sub(raw, rank->clock_pivot) / (1 + rank->clock_rate);
  return bt_time_sub(raw, (int64_t)(rank->clock_rate * since));
}

bool bt_text_parse_duration(const char *text, int64_t *ns) {
  char *end;
  double value = strtod(text, &end);
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (size_t i = 0; i < 4 && end != text; i++) {
    if (strcmp(end, units[i].unit) == 0 && value >= 0 && value * units[i].ns < 9e18) {
      *ns = (int64_t)(value * units[i].ns);
      return true;
    }
  }
  return false;
}

void bt_text_append(char *out, size_t room, const char *format, ...) {
  size_t length = strlen(out);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(out + length, room - length, format, args);
  va_end(args);
}

typedef struct bt_unit {
  int64_t ns;
  const char *name;
} bt_unit;

static const bt_unit units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};

static const bt_unit *unit_of(int64_t ns) {
  const bt_unit *unit = units;
  while (unit->ns > 1 && ns < unit->ns)
    unit++;
  return unit;
}

char *bt_text_duration(char *out, size_t room, int64_t ns) {
  const char *sign = ns < 0 ? "-" : "";
  if (ns < 0) ns = ns == INT64_MIN ? INT64_MAX : -ns;
  if (ns >= 120 * units[0].ns) {
    int64_t seconds = ns / units[0].ns;
    if (seconds < 7200)
      (void)snprintf(out, room, "%s%d m %02d s", sign, (int)(seconds / 60), (int)(seconds % 60));
    else
      (void)snprintf(out, room, "%s%lld h %02d m", sign, (long long)(seconds / 3600), (int)(seconds / 60 % 60));
    return out;
  }
  const bt_unit *unit = unit_of(ns);
  double value = (double)ns / (double)unit->ns;
  int decimals = unit->ns == 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  (void)snprintf(out, room, "%s%.*f %s", sign, decimals, value, unit->name);
  return out;
}

char *bt_text_range(char *out, size_t room, int64_t from, int64_t to, const char *dash) {
  int64_t low = from < 0 ? bt_time_sub(0, from) : from, high = to < 0 ? bt_time_sub(0, to) : to;
  const bt_unit *unit = unit_of(low > high ? low : high);
  int decimals = 0; /* so many that the length shows three figures */
  for (int64_t grain = unit->ns; grain > 1 && grain * 100 > bt_time_sub(to, from) && decimals < 9; grain /= 10)
    decimals++;
  (void)snprintf(out, room, "%.*f%s%.*f %s", decimals, (double)from / (double)unit->ns, dash, decimals,
                 (double)to / (double)unit->ns, unit->name);
  return out;
}

char *bt_text_tick(char *out, size_t room, int64_t ns, int64_t tick) {
  int64_t size = ns < 0 ? bt_time_sub(0, ns) : ns;
  const bt_unit *unit = unit_of(size > tick ? size : tick);
  int decimals = 0;
  for (int64_t step = unit->ns; step > tick && decimals < 6; step /= 10)
    decimals++;
  /* 2.5 of a unit needs its decimal too */
  int64_t grain = unit->ns;
  for (int i = 0; i < decimals; i++)
    grain /= 10;
  if (grain > 1 && tick % grain != 0 && decimals < 6) decimals++;
  (void)snprintf(out, room, "%s%.*f %s", ns < 0 ? "-" : "+", decimals, (double)size / (double)unit->ns, unit->name);
  return out;
}

char *bt_text_count(char *out, size_t room, int64_t value) {
  char digits[24];
  int length =
      snprintf(digits, sizeof digits, "%llu", value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value);
  size_t used = 0;
  if (value < 0 && used + 1 < room) out[used++] = '-';
  for (int i = 0; i < length && used + 2 < room; i++) {
    if (i > 0 && (length - i) % 3 == 0) out[used++] = ',';
    out[used++] = digits[i];
  }
  out[used] = 0;
  return out;
}

char *bt_text_bytes(char *out, size_t room, int64_t bytes) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = (double)bytes;
  unsigned unit = 0;
  while (value >= 1024 && unit < 6) {
    value /= 1024;
    unit++;
  }
  (void)snprintf(out, room, "%.*f %s", unit > 0 && value < 10 && value != (double)(int)value ? 1 : 0, value,
                 names[unit]);
  return out;
}
