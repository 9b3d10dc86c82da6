/* The line between two clocks: everything that satisfies all bounds, its middle, and how far that can be from the truth. */
#include <math.h>
#include <stdlib.h>

#include "tui/analysis/clocks_private.h"

enum { BINS = 32, SEARCH = 100 };

static const double steepest = BT_CLOCK_MOST_PPM * 1e-6;
static const double noise = 50; /* ns: residuals below it are as good as none */

/* Bounds of one side, turned so that the line must lie under the dots. */
typedef struct side {
  const bt_clock_dot *hull; /* the dots that a line can touch: convex from below */
  size_t count;
  bt_clock_dot bins[BINS]; /* the lowest dot of each part of the time */
  size_t bin_count;
} side;

static double cross(const bt_clock_dot *a, const bt_clock_dot *b, const bt_clock_dot *c) {
  return (b->x - a->x) * (c->y - a->y) - (b->y - a->y) * (c->x - a->x);
}

/* `turn` is -1 for dots that the line must lie over. */
static void make_hull(side *s, const bt_clock_dot *dots, size_t count, double turn, bt_clock_dot *hull) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    bt_clock_dot dot = {dots[i].x, turn * dots[i].y};
    if (kept > 0 && dot.x == hull[kept - 1].x) {
      if (dot.y >= hull[kept - 1].y) continue;
      kept--;
    }
    while (kept >= 2 && cross(&hull[kept - 2], &hull[kept - 1], &dot) <= 0)
      kept--;
    hull[kept++] = dot;
  }
  s->hull = hull;
  s->count = kept;
}

static void make_bins(side *s, const bt_clock_dot *dots, size_t count, double turn, double slope) {
  double first = dots[0].x;
  double width = (dots[count - 1].x - first) / BINS;
  size_t last = BINS;
  s->bin_count = 0;
  for (size_t i = 0; i < count; i++) {
    bt_clock_dot dot = {dots[i].x, turn * dots[i].y};
    size_t bin = width > 0 ? (size_t)((dot.x - first) / width) : 0;
    if (bin >= BINS) bin = BINS - 1;
    if (bin != last) {
      s->bins[s->bin_count++] = dot;
      last = bin;
    } else if (dot.y - slope * dot.x < s->bins[s->bin_count - 1].y - slope * s->bins[s->bin_count - 1].x) {
      s->bins[s->bin_count - 1] = dot;
    }
  }
}

/* Highest offset of a line of this slope under all dots. */
static double highest(const side *s, double slope) {
  size_t low = 0;
  size_t high = s->count - 1; /* the hull's slopes grow: the dot is where they pass `slope` */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const bt_clock_dot *dot = &s->hull[middle];
    if (dot[1].y - dot[0].y < slope * (dot[1].x - dot[0].x)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return s->hull[low].y - slope * s->hull[low].x;
}

typedef struct pair {
  side upper, lower; /* `lower` is turned over: its lines have the negative offset and slope */
  double least, most; /* slopes of lines that satisfy all bounds */
} pair;

/* Room between the bounds for lines of this slope; negative: none. */
static double room(const pair *p, double slope) {
  return highest(&p->upper, slope) + highest(&p->lower, -slope);
}

typedef double slope_fn(const pair *p, double slope, double x);

static double top(const pair *p, double slope, double x) {
  return highest(&p->upper, slope) + slope * x;
}
static double turned_bottom(const pair *p, double slope, double x) {
  return highest(&p->lower, -slope) - slope * x;
}
static double room_at(const pair *p, double slope, double x) {
  (void)x;
  return room(p, slope);
}

/* Slope in [low, high] where a concave function is largest. */
static double find_largest(const pair *p, slope_fn *fn, double x, double low, double high) {
  for (int i = 0; i < SEARCH && high - low > 1e-16; i++) {
    double third = (high - low) / 3;
    if (fn(p, low + third, x) < fn(p, high - third, x)) {
      low += third;
    } else {
      high -= third;
    }
  }
  return (low + high) / 2;
}

/* Where the room ends between a slope that has some and one that may have none. */
static double find_limit(const pair *p, double inside, double outside) {
  if (room(p, outside) >= 0) return outside;
  for (int i = 0; i < SEARCH && fabs(outside - inside) > 1e-16; i++) {
    double middle = (inside + outside) / 2;
    if (room(p, middle) >= 0) {
      inside = middle;
    } else {
      outside = middle;
    }
  }
  return inside;
}

/* Mean height of the bins' dots over the highest line of this slope. */
static double looseness(const side *s, double slope) {
  double sum = 0;
  for (size_t i = 0; i < s->bin_count; i++)
    sum += s->bins[i].y - slope * s->bins[i].x;
  return sum / (double)s->bin_count - highest(s, slope);
}

/* Logarithm of how improbable the bins are under a slope, waiting times being exponential: the side whose fastest messages
 * follow each other closely decides. */
static double improbable(const pair *p, double slope) {
  return (double)p->upper.bin_count * log(looseness(&p->upper, slope) + noise) +
         (double)p->lower.bin_count * log(looseness(&p->lower, -slope) + noise);
}

static void try_slopes(const pair *p, const side *s, double sign, double *best, double *cost) {
  for (size_t i = 0; i + 1 < s->count; i++) {
    double slope = sign * (s->hull[i + 1].y - s->hull[i].y) / (s->hull[i + 1].x - s->hull[i].x);
    if (!(slope >= p->least && slope <= p->most)) continue;
    double own = improbable(p, slope);
    if (own < *cost) {
      *cost = own;
      *best = slope;
    }
  }
}

/* Of the slopes that satisfy all bounds the most probable: it is that of an edge of a hull, for between them the cost has no
 * minimum. The middle where nothing decides. */
static double best_slope(const pair *p) {
  double best = (p->least + p->most) / 2;
  double cost = improbable(p, best) - 1e-9;
  try_slopes(p, &p->upper, 1, &best, &cost);
  try_slopes(p, &p->lower, -1, &best, &cost);
  return best;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How far the fastest message of a side may be from the fastest possible one: the spacing of the fastest few. `span` gets
 * the time over which they are spread. */
static double spacing(const side *s, double slope, double *span) {
  double heights[BINS];
  double floor = highest(s, slope);
  for (size_t i = 0; i < s->bin_count; i++)
    heights[i] = s->bins[i].y - slope * s->bins[i].x - floor;
  *span = 0;
  if (s->bin_count < 3) return INFINITY;
  qsort(heights, s->bin_count, sizeof heights[0], compare_doubles);
  double between = heights[2] / 2;
  double first = INFINITY;
  double last = -INFINITY;
  for (size_t i = 0; i < s->bin_count; i++) {
    if (s->bins[i].y - slope * s->bins[i].x - floor > heights[2] + noise) continue;
    first = fmin(first, s->bins[i].x);
    last = fmax(last, s->bins[i].x);
  }
  *span = last - first;
  return between;
}

/* What the spacing of the fastest messages says, at the worse end of the run. The factors are such that about nine of ten
 * hosts of simulated runs are no farther off (test_clocks prints it). */
static double likely_error(const pair *p, const bt_clock_line *line, double begin, double end) {
  double upper_span;
  double lower_span;
  double upper = fmin(spacing(&p->upper, line->rate, &upper_span), room(p, line->rate));
  double lower = fmin(spacing(&p->lower, -line->rate, &lower_span), room(p, line->rate));
  double tilt = (p->most - p->least) / 2;
  if (upper_span > 0) tilt = fmin(tilt, 6 * (upper + noise) / upper_span);
  if (lower_span > 0) tilt = fmin(tilt, 6 * (lower + noise) / lower_span);
  return 1.5 * hypot(upper, lower) + tilt * (end - begin) / 2;
}

/* The largest distance from the line to any other that satisfies all bounds: it is at one of the ends. */
static double bound_at(const pair *p, const bt_clock_line *line, double x) {
  double own = line->offset + line->rate * x;
  double over = top(p, find_largest(p, top, x, p->least, p->most), x) - own;
  double under = own + turned_bottom(p, find_largest(p, turned_bottom, x, p->least, p->most), x);
  return fmax(over, under);
}

bt_clock_fit bt_clock_fit_line(const bt_clock_dots *in, bt_clock_dot *scratch, double begin, double end) {
  pair p = {.least = -steepest, .most = steepest};
  make_hull(&p.upper, in->dots, in->upper, 1, scratch);
  make_hull(&p.lower, in->dots + in->upper, in->lower, -1, scratch + in->upper);
  double roomiest = find_largest(&p, room_at, 0, -steepest, steepest);
  bt_clock_fit fit = {.straight = room(&p, roomiest) >= 0};
  if (!fit.straight) { /* the line that the bounds contradict least */
    fit.line.rate = roomiest;
    fit.line.offset = (highest(&p.upper, roomiest) - highest(&p.lower, -roomiest)) / 2;
    fit.error = fit.likely = -room(&p, roomiest);
    return fit;
  }
  p.least = find_limit(&p, roomiest, -steepest);
  p.most = find_limit(&p, roomiest, steepest);
  make_bins(&p.upper, in->dots, in->upper, 1, roomiest);
  make_bins(&p.lower, in->dots + in->upper, in->lower, -1, -roomiest);
  fit.line.rate = best_slope(&p);
  fit.line.offset = (highest(&p.upper, fit.line.rate) - highest(&p.lower, -fit.line.rate)) / 2;
  fit.error = fmax(bound_at(&p, &fit.line, begin), bound_at(&p, &fit.line, end));
  fit.likely = fmin(likely_error(&p, &fit.line, begin, end), fit.error);
  return fit;
}
