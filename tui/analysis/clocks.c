#include "tui/analysis/clocks.h"

#include <math.h>
#include <stdlib.h>

#include "tui/analysis/clocks_private.h"

#define CROOKED 1e15 /* ns: added to the error of a pair that no line fits, so that it is used last and known again */

/* A pair of hosts with messages in both directions. */
typedef struct edge {
  uint32_t a, b;
  size_t first, upper, lower; /* its points */
  bt_clock_fit fit;
} edge;

/* A host in the tree. Its clock at the reference's time x after the reference's pivot is x + line(x) after its own. */
typedef struct node {
  int64_t pivot; /* some time of its clock in the run */
  int64_t first, last; /* extent of its ranks; first > last: no rank */
  bt_clock_line line;
  double error, likely; /* along the path from the reference; INFINITY: not reached */
  uint32_t parent;
  uint32_t depth;
  double step_error, step_likely; /* of the edge to the parent */
  bool done;
} node;

struct bt_clocks {
  node *nodes; /* one a host */
  bt_clock_host *hosts;
  size_t host_count;
  edge *edges; /* sorted by a, b */
  size_t edge_count;
  bt_clocks_summary summary;
};

static double ahead(const bt_clock_line *line, double x) {
  return line->offset + line->rate * x;
}

/* ---- edges ---- */

static size_t count_side(const bt_clock_points *points, size_t from, bool upper) {
  size_t at = from;
  while (at < points->count && points->points[at].a == points->points[from].a &&
         points->points[at].b == points->points[from].b && points->points[at].upper == upper)
    at++;
  return at - from;
}

/* Pairs with messages in one direction only say nothing of an offset. */
static bool find_edges(bt_clocks *clocks, const bt_clock_points *points) {
  clocks->edges = malloc((points->count / 2 + 1) * sizeof *clocks->edges);
  if (clocks->edges == NULL) return false;
  for (size_t at = 0; at < points->count;) {
    edge found = {.a = points->points[at].a, .b = points->points[at].b, .first = at};
    if (points->points[at].upper) found.upper = count_side(points, at, true);
    at += found.upper;
    if (at < points->count && points->points[at].a == found.a && points->points[at].b == found.b)
      found.lower = count_side(points, at, false);
    at += found.lower;
    if (found.upper > 0 && found.lower > 0) clocks->edges[clocks->edge_count++] = found;
  }
  return true;
}

/* The range over which an edge must hold, in the time of its host `a` after the pivot: the run, as far as host a's clock
 * knows it now. */
typedef struct range {
  double begin, end;
} range;

static range range_of(const bt_clocks *clocks, const edge *e) {
  const node *a = &clocks->nodes[e->a];
  const bt_clocks_summary *run = &clocks->summary;
  if (run->from <= run->to && isfinite(a->error)) {
    int64_t pivot = clocks->nodes[run->reference].pivot;
    double begin = (double)(run->from - pivot);
    double end = (double)(run->to - pivot);
    return (range){begin + ahead(&a->line, begin), end + ahead(&a->line, end)};
  }
  return (range){(double)(a->first - a->pivot), (double)(a->last - a->pivot)};
}

static void fit_edge(const bt_clocks *clocks, const bt_clock_points *points, edge *e, bt_clock_dot *dots,
                     bt_clock_dot *scratch) {
  const node *a = &clocks->nodes[e->a];
  const node *b = &clocks->nodes[e->b];
  for (size_t i = 0; i < e->upper + e->lower; i++) {
    const bt_clock_point *point = &points->points[e->first + i];
    dots[i] = (bt_clock_dot){(double)(point->time - a->pivot),
                             (double)((int64_t)((uint64_t)point->bound - (uint64_t)b->pivot + (uint64_t)a->pivot))};
  }
  range over = range_of(clocks, e);
  bt_clock_dots in = {dots, e->upper, e->lower};
  e->fit = bt_clock_fit_line(&in, scratch, over.begin, over.end);
}

static bool fit_edges(bt_clocks *clocks, const bt_clock_points *points) {
  size_t most = 1;
  for (size_t i = 0; i < clocks->edge_count; i++) {
    size_t count = clocks->edges[i].upper + clocks->edges[i].lower;
    if (count > most) most = count;
  }
  bt_clock_dot *dots = malloc(2 * most * sizeof *dots);
  if (dots == NULL) return false;
  for (size_t i = 0; i < clocks->edge_count; i++)
    fit_edge(clocks, points, &clocks->edges[i], dots, dots + most);
  free(dots);
  return true;
}

/* ---- the tree ---- */

/* The line of the edge's far host, from that of its near one. */
static bt_clock_line compose(const bt_clock_line *near, const bt_clock_line *step, bool forward) {
  double rate = 1 + near->rate;
  if (forward) return (bt_clock_line){near->offset * (1 + step->rate) + step->offset, rate * (1 + step->rate) - 1};
  return (bt_clock_line){(near->offset - step->offset) / (1 + step->rate), rate / (1 + step->rate) - 1};
}

/* A crooked pair is used only where nothing else reaches: it has no bound. */
static double weight(const edge *e) {
  return e->fit.straight ? e->fit.error : e->fit.error + CROOKED;
}

typedef struct half_edge { /* the edges of a host lie together */
  uint32_t to;
  uint32_t edge;
} half_edge;

typedef struct neighbours {
  size_t *first; /* host_count + 1 */
  half_edge *list;
} neighbours;

static bool make_neighbours(const bt_clocks *clocks, neighbours *out) {
  out->first = calloc(clocks->host_count + 2, sizeof *out->first);
  out->list = malloc((2 * clocks->edge_count + 1) * sizeof *out->list);
  if (out->first == NULL || out->list == NULL) return false;
  for (size_t i = 0; i < clocks->edge_count; i++) {
    out->first[clocks->edges[i].a + 2]++;
    out->first[clocks->edges[i].b + 2]++;
  }
  for (size_t i = 2; i < clocks->host_count + 2; i++)
    out->first[i] += out->first[i - 1];
  for (size_t i = 0; i < clocks->edge_count; i++) {
    const edge *e = &clocks->edges[i];
    out->list[out->first[e->a + 1]++] = (half_edge){e->b, (uint32_t)i};
    out->list[out->first[e->b + 1]++] = (half_edge){e->a, (uint32_t)i};
  }
  return true;
}

static void relax(bt_clocks *clocks, uint32_t from, const half_edge *half) {
  const node *near = &clocks->nodes[from];
  node *far = &clocks->nodes[half->to];
  const edge *e = &clocks->edges[half->edge];
  double error = near->error + weight(e);
  if (far->done || error >= far->error) return;
  far->error = error;
  far->likely = hypot(near->likely, e->fit.likely);
  far->step_error = weight(e);
  far->step_likely = e->fit.likely;
  far->parent = from;
  far->depth = near->depth + 1;
  far->line = compose(&near->line, &e->fit.line, e->a == from);
}

/* Dijkstra from the reference, by error. Hosts are few: the nearest one is found by looking at all. */
static bool grow_tree(bt_clocks *clocks) {
  neighbours next = {NULL, NULL};
  bool fine = make_neighbours(clocks, &next);
  for (size_t i = 0; fine && i < clocks->host_count; i++) {
    clocks->nodes[i].error = clocks->nodes[i].likely = INFINITY;
    clocks->nodes[i].done = false;
  }
  node *root = &clocks->nodes[clocks->summary.reference];
  if (fine) root->error = root->likely = 0;
  while (fine) {
    uint32_t nearest = UINT32_MAX;
    for (uint32_t i = 0; i < clocks->host_count; i++) {
      const node *each = &clocks->nodes[i];
      if (!each->done && isfinite(each->error) && (nearest == UINT32_MAX || each->error < clocks->nodes[nearest].error))
        nearest = i;
    }
    if (nearest == UINT32_MAX) break;
    clocks->nodes[nearest].done = true;
    for (size_t i = next.first[nearest]; i < next.first[nearest + 1]; i++)
      relax(clocks, nearest, &next.list[i]);
  }
  free(next.first);
  free(next.list);
  return fine;
}

/* ---- the result ---- */

int64_t bt_clocks_time(const bt_clocks *clocks, uint32_t host, int64_t time) {
  const node *own = &clocks->nodes[host];
  const node *reference = &clocks->nodes[clocks->summary.reference];
  int64_t since, apart, result;
  /* what is no time (damage) can be near the ends of int64: it stays what it is */
  if (__builtin_sub_overflow(time, own->pivot, &since)) return time;
  if (__builtin_sub_overflow(reference->pivot, own->pivot, &apart)) return time;
  double x = ((double)since - own->line.offset) / (1 + own->line.rate);
  double shift = x - (double)since; /* rounded alone, so that long runs keep every ns */
  if (!(fabs(shift) < 0x1p62) || __builtin_add_overflow(time, apart, &result)) return time;
  return __builtin_add_overflow(result, (int64_t)llround(shift), &result) ? time : result;
}

static void find_extents(bt_clocks *clocks, const bt_trace *trace) {
  for (size_t i = 0; i < clocks->host_count; i++)
    clocks->nodes[i] = (node){.first = INT64_MAX, .last = INT64_MIN, .error = INFINITY};
  clocks->summary.reference = UINT32_MAX;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    if (rank->host >= clocks->host_count || rank->first > rank->last) continue;
    node *own = &clocks->nodes[rank->host];
    if (rank->first < own->first) own->first = rank->first;
    if (rank->last > own->last) own->last = rank->last;
    clocks->hosts[rank->host].present = true;
    if (clocks->summary.reference == UINT32_MAX) clocks->summary.reference = rank->host;
  }
  for (size_t i = 0; i < clocks->host_count; i++)
    clocks->nodes[i].pivot = clocks->hosts[i].present ? clocks->nodes[i].first : 0;
}

/* The run on the reference's clock. */
static void find_run(bt_clocks *clocks) {
  clocks->summary.from = INT64_MAX;
  clocks->summary.to = INT64_MIN;
  for (uint32_t i = 0; i < clocks->host_count; i++) {
    const node *each = &clocks->nodes[i];
    if (!clocks->hosts[i].present || !isfinite(each->error)) continue;
    int64_t from = bt_clocks_time(clocks, i, each->first);
    int64_t to = bt_clocks_time(clocks, i, each->last);
    if (from < clocks->summary.from) clocks->summary.from = from;
    if (to > clocks->summary.to) clocks->summary.to = to;
  }
}

static int64_t rounded_up(double ns) {
  return ns < 9e18 ? (int64_t)ceil(ns) + 1 : INT64_MAX; /* the result's own rounding counts too */
}

static void tell_hosts(bt_clocks *clocks) {
  bt_clocks_summary *summary = &clocks->summary;
  const node *reference = &clocks->nodes[summary->reference];
  summary->aligned = true;
  for (uint32_t i = 0; i < clocks->host_count; i++) {
    bt_clock_host *host = &clocks->hosts[i];
    const node *own = &clocks->nodes[i];
    host->known = host->present && isfinite(own->error);
    if (host->present && !host->known) summary->aligned = false;
    if (!host->known) continue;
    host->bounded = own->error < CROOKED;
    double x = (double)(summary->from - reference->pivot);
    host->offset_ns = own->pivot - reference->pivot + (int64_t)llround(ahead(&own->line, x));
    host->drift_ppm = own->line.rate * 1e6;
    if (i == summary->reference) continue;
    host->error_ns = rounded_up(own->error);
    host->likely_error_ns = rounded_up(own->likely);
    if (host->error_ns > summary->max_error_ns) summary->max_error_ns = host->error_ns;
    if (host->likely_error_ns > summary->likely_error_ns) summary->likely_error_ns = host->likely_error_ns;
    if (!host->bounded) summary->bent = true;
  }
}

/* Points of messages whose receive is before its send on the common clock. */
static void find_violations(bt_clocks *clocks, const bt_clock_points *points) {
  bt_clocks_summary *summary = &clocks->summary;
  for (size_t i = 0; i < points->count; i++) {
    const bt_clock_point *point = &points->points[i];
    if (point->collective || !clocks->hosts[point->a].known || !clocks->hosts[point->b].known) continue;
    int64_t at_a = bt_clocks_time(clocks, point->a, point->time);
    int64_t other, by;
    if (__builtin_add_overflow(point->time, point->bound, &other)) continue;
    int64_t at_b = bt_clocks_time(clocks, point->b, other);
    bool absurd = point->upper ? __builtin_sub_overflow(at_a, at_b, &by) : __builtin_sub_overflow(at_b, at_a, &by);
    if (absurd || by <= 0) continue;
    size_t kept = summary->violations < BT_CLOCK_VIOLATIONS ? summary->violations : BT_CLOCK_VIOLATIONS;
    summary->violations++;
    size_t place = kept;
    while (place > 0 && summary->worst[place - 1].by_ns < by)
      place--;
    if (place == BT_CLOCK_VIOLATIONS) continue;
    for (size_t k = kept < BT_CLOCK_VIOLATIONS ? kept : BT_CLOCK_VIOLATIONS - 1; k > place; k--)
      summary->worst[k] = summary->worst[k - 1];
    int64_t sent = point->upper ? point->time : point->time + point->bound;
    summary->worst[place] = (bt_clock_violation){point->from, point->to, sent, by};
  }
}

static bool solve(bt_clocks *clocks, const bt_trace *trace, bt_clock_points *points) {
  clocks->summary = (bt_clocks_summary){.from = INT64_MAX, .to = INT64_MIN};
  find_extents(clocks, trace);
  if (clocks->summary.reference == UINT32_MAX) { /* nothing recorded */
    clocks->summary = (bt_clocks_summary){.aligned = true};
    return true;
  }
  if (bt_clock_points_collect(trace, points) != BT_OK) return false;
  clocks->summary.messages = points->messages;
  if (!find_edges(clocks, points)) return false;
  for (int pass = 0; pass < 2; pass++) { /* the second one knows how long the run is on every clock */
    if (!fit_edges(clocks, points) || !grow_tree(clocks)) return false;
    find_run(clocks);
  }
  tell_hosts(clocks);
  find_violations(clocks, points);
  return true;
}

bt_status bt_clocks_solve(const bt_trace *trace, bt_clocks **out, bt_error *error) {
  bt_clocks *clocks = calloc(1, sizeof *clocks);
  bt_clock_points points = {.points = NULL};
  bool fine = clocks != NULL;
  if (fine) {
    clocks->host_count = trace->host_count;
    clocks->nodes = calloc(trace->host_count + 1, sizeof *clocks->nodes);
    clocks->hosts = calloc(trace->host_count + 1, sizeof *clocks->hosts);
    fine = clocks->nodes != NULL && clocks->hosts != NULL && solve(clocks, trace, &points);
  }
  bt_clock_points_free(&points);
  if (!fine) {
    bt_clocks_free(clocks);
    return bt_fail(error, BT_ERR_NOMEM, "no memory to align the clocks of %zu hosts", trace->host_count);
  }
  *out = clocks;
  return BT_OK;
}

void bt_clocks_free(bt_clocks *clocks) {
  if (clocks == NULL) return;
  free(clocks->nodes);
  free(clocks->hosts);
  free(clocks->edges);
  free(clocks);
}

const bt_clock_host *bt_clocks_hosts(const bt_clocks *clocks, size_t *count) {
  *count = clocks->host_count;
  return clocks->hosts;
}

const bt_clocks_summary *bt_clocks_summary_of(const bt_clocks *clocks) {
  return &clocks->summary;
}

/* Both ways lead over the last host that the two paths share. */
void bt_clocks_pair(const bt_clocks *clocks, uint32_t a, uint32_t b, int64_t *error_ns, int64_t *likely_ns) {
  double error = 0;
  double likely = 0;
  while (a != b) {
    uint32_t *deeper = clocks->nodes[a].depth > clocks->nodes[b].depth ? &a : &b;
    const node *step = &clocks->nodes[*deeper];
    error += step->step_error;
    likely = hypot(likely, step->step_likely);
    *deeper = step->parent;
  }
  *error_ns = error > 0 ? rounded_up(error) : 0;
  *likely_ns = error > 0 ? rounded_up(likely) : 0;
}

void bt_clocks_apply(const bt_clocks *clocks, bt_trace *trace) {
  int64_t zero = clocks->nodes[clocks->summary.reference].pivot; /* there is one node more than hosts: never none */
  for (size_t i = 0; i < trace->rank_count; i++) {
    bt_rank *rank = &trace->ranks[i];
    rank->offset_ns = 0;
    rank->clock_rate = 0;
    if (rank->host >= clocks->host_count || !clocks->hosts[rank->host].known) continue;
    const node *own = &clocks->nodes[rank->host];
    double shift = own->line.offset / (1 + own->line.rate);
    int64_t offset;
    if (!(fabs(shift) < 0x1p62) || __builtin_sub_overflow(zero, own->pivot, &offset) ||
        __builtin_sub_overflow(offset, (int64_t)llround(shift), &offset))
      continue;
    rank->clock_pivot = own->pivot;
    rank->clock_rate = -own->line.rate / (1 + own->line.rate);
    rank->offset_ns = offset;
  }
}
