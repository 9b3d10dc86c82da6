/* Inside the alignment of clocks: what messages say of a pair of hosts, and the line through it. */
#ifndef BT_ANALYSIS_CLOCKS_PRIVATE_H
#define BT_ANALYSIS_CLOCKS_PRIVATE_H

#include "tui/analysis/clocks.h"

/* Bounds how far clock b is ahead of clock a when clock a reads `time`: at most (upper) or at least `bound`. a < b. */
typedef struct bt_clock_point {
  uint32_t a, b;
  bool upper;
  bool collective;
  int32_t from, to; /* ranks */
  int64_t time, bound;
} bt_clock_point;

typedef struct bt_clock_points {
  bt_clock_point *points; /* sorted by a, b, upper, time */
  size_t count, capacity;
  size_t messages;
} bt_clock_points;

/* What the trace's matched messages and collectives between hosts say. BT_OK, BT_ERR_NOMEM. */
bt_status bt_clock_points_collect(const bt_trace *trace, bt_clock_points *points);
void bt_clock_points_free(bt_clock_points *points);

/* y = offset + rate * x: how far b is ahead of a (less the difference of their pivots) at a's time x after a's pivot. */
typedef struct bt_clock_line {
  double offset, rate;
} bt_clock_line;

/* A point of a pair, relative to pivots. */
typedef struct bt_clock_dot {
  double x, y;
} bt_clock_dot;

typedef struct bt_clock_fit {
  bt_clock_line line;
  double error, likely; /* at the worse end of the range */
  bool straight; /* some line satisfies all bounds */
} bt_clock_fit;

/* The dots of a pair: first those that the line must lie under, then those that it must lie over, both sorted by x. */
typedef struct bt_clock_dots {
  const bt_clock_dot *dots;
  size_t upper, lower; /* how many; neither is 0 */
} bt_clock_dots;

/* Fits a line for x in [begin, end]. `scratch` has room for all dots. */
bt_clock_fit bt_clock_fit_line(const bt_clock_dots *dots, bt_clock_dot *scratch, double begin, double end);

#endif
