/* The comparison for a person: the verdict, then a table of where a step's time is in A and in B, stage by stage. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/compare.h"

enum { MOST_STAGES = 16, MOST_LINKS = 6, LEFT_COLUMNS = 10, COLUMN_WIDTH = 7, MOST_COLUMNS = 27, CLASS_REST = -1 };

static const char *const heads[BT_CLASS_COUNT] = {
    [BT_CLASS_F] = "F",
    [BT_CLASS_B] = "B",
    [BT_CLASS_W] = "W",
    [BT_CLASS_BW] = "BW",
    [BT_CLASS_FB] = "FB",
    [BT_CLASS_RECOMPUTE] = "recom.",
    [BT_CLASS_OTHER] = "other",
    [BT_CLASS_OPTIMIZER] = "optim.",
    [BT_CLASS_EXPOSED_P2P] = "p2p",
    [BT_CLASS_LATE_RECEIVER] = "late r",
    [BT_CLASS_COLLECTIVE_WAIT] = "coll w",
    [BT_CLASS_EXPOSED_COLLECTIVE] = "coll",
    [BT_CLASS_FILL] = "fill",
    [BT_CLASS_DRAIN] = "drain",
    [BT_CLASS_STEADY_WAIT] = "wait",
    [BT_CLASS_TAIL_SYNC] = "sync",
    [BT_CLASS_HOST_GAP] = "host",
    [BT_CLASS_BETWEEN_STEPS] = "betw.",
    [BT_CLASS_UNATTRIBUTED] = "?",
};

typedef struct page {
  const bt_compare_page *of;
  const bt_comparison *c;
  const bt_report_look *look;
  FILE *out;
  double unit; /* ns of one of the table's units */
  const char *unit_name;
  int columns[MOST_COLUMNS]; /* classes; CLASS_REST: the others together */
  int column_count;
} page;

static void bold(const page *p, bool on) {
  if (p->look->color) fputs(on ? "\033[1m" : "\033[0m", p->out);
}

/* --- the head -------------------------------------------------------------------------------------------------------- */

static void print_run(const page *p, int side) {
  const bt_compare_side *s = &p->of->sides[side];
  const bt_compared_run *run = side == 0 ? &p->c->a : &p->c->b;
  const char *schedule = bt_compare_schedule(s);
  char text[512];
  int used = snprintf(text, sizeof text, "%.300s: %s, %d stage%s", s->path,
                      schedule != NULL ? schedule : "unknown schedule", run->stages, run->stages == 1 ? "" : "s");
  if (run->chunks > 1) used += snprintf(text + used, sizeof text - (size_t)used, " x %d chunks", run->chunks);
  if (run->microbatches > 0)
    used += snprintf(text + used, sizeof text - (size_t)used, ", %d microbatches", run->microbatches);
  (void)snprintf(text + used, sizeof text - (size_t)used, ", %d rank%s, %zu step%s", run->ranks,
                 run->ranks == 1 ? "" : "s", run->steps, run->steps == 1 ? "" : "s");
  fputs(side == 0 ? "A  " : "B  ", p->out);
  bt_report_wrapped(p->out, text, 3, p->look->width);
}

static void print_time(const page *p, const char *name, const bt_change *change) {
  char a[32] = "--";
  char b[32] = "--";
  char by[32] = "--";
  char percent[32] = "";
  if (change->a != BT_UNKNOWN) (void)bt_report_time(a, sizeof a, (double)change->a);
  if (change->b != BT_UNKNOWN) (void)bt_report_time(b, sizeof b, (double)change->b);
  if (change->change != BT_UNKNOWN) {
    by[0] = change->change > 0 ? '+' : change->change < 0 ? '-' : ' ';
    (void)bt_report_time(by + 1, sizeof by - 1, fabs((double)change->change));
    if (change->a != 0) (void)snprintf(percent, sizeof percent, "%+.1f %%", 100 * bt_change_ratio(change));
  }
  fprintf(p->out, "%-30s %11s %11s %12s %10s\n", name, a, b, by, percent);
}

static void print_rate(const page *p, const char *name, const bt_rate_change *rate) {
  char a[32] = "--";
  char b[32] = "--";
  char by[32] = "--";
  if (!isnan(rate->a)) (void)snprintf(a, sizeof a, "%.1f %%", 100 * rate->a);
  if (!isnan(rate->b)) (void)snprintf(b, sizeof b, "%.1f %%", 100 * rate->b);
  if (!isnan(rate->change)) (void)snprintf(by, sizeof by, "%+.1f points", 100 * rate->change);
  fprintf(p->out, "%-30s %11s %11s %12s\n", name, a, b, by);
}

static void print_head(const page *p) {
  bold(p, true);
  bt_report_wrapped(p->out, p->c->verdict, 0, p->look->width);
  bold(p, false);
  print_run(p, 0);
  print_run(p, 1);
  fprintf(p->out, "\n%-30s %11s %11s %12s\n", "", "A", "B", "change");
  print_time(p, "a step", &p->c->step);
  print_time(p, "without jitter and imbalance", &p->c->theory_step);
  if (p->c->a.microbatches != p->c->b.microbatches) print_time(p, "a microbatch", &p->c->microbatch);
  print_rate(p, "bubble (rate_window)", &p->c->rate_window);
  print_rate(p, "the order's own", &p->c->ideal_rate_window);
  print_rate(p, "rate_span", &p->c->rate_span);
  print_rate(p, "over_ideal", &p->c->over_ideal);
}

/* --- the table ------------------------------------------------------------------------------------------------------- */

static int64_t size_of(const bt_change *change) {
  int64_t a = change->a == BT_UNKNOWN ? 0 : llabs(change->a);
  int64_t b = change->b == BT_UNKNOWN ? 0 : llabs(change->b);
  return a > b ? a : b;
}

/* How much a column has to tell: the largest time or change in it. */
static int64_t weight(const page *p, int class) {
  int64_t most = size_of(&p->c->classes[class]);
  for (size_t i = 0; i < p->c->stage_count; i++) {
    const bt_change *change = &p->c->stages[i].ns[class];
    int64_t by = change->change == BT_UNKNOWN ? 0 : llabs(change->change);
    if (by > most) most = by;
  }
  return most;
}

static void choose_columns(page *p) {
  int fit = (p->look->width - LEFT_COLUMNS) / COLUMN_WIDTH;
  int64_t step = size_of(&p->c->step);
  bool shown[BT_CLASS_COUNT];
  bool rest = false;
  int count = 0;
  if (fit > MOST_COLUMNS) fit = MOST_COLUMNS;
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    shown[c] = weight(p, c) * 2000 > step;
    rest |= weight(p, c) > 0 && !shown[c];
    count += shown[c];
  }
  while (count > 0 && count + rest > fit) {
    int least = -1;
    for (int c = 0; c < BT_CLASS_COUNT; c++) {
      if (shown[c] && (least < 0 || weight(p, c) < weight(p, least))) least = c;
    }
    shown[least] = false;
    rest = true;
    count--;
  }
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    if (shown[c]) p->columns[p->column_count++] = c;
  }
  if (rest) p->columns[p->column_count++] = CLASS_REST;
}

static void choose_unit(page *p) {
  int64_t step = size_of(&p->c->step);
  p->unit = step >= 10000000000 ? 1e9 : step >= 10000000 ? 1e6 : step >= 10000 ? 1e3 : 1;
  p->unit_name = step >= 10000000000 ? "s" : step >= 10000000 ? "ms" : step >= 10000 ? "us" : "ns";
}

typedef enum part { PART_A, PART_B, PART_CHANGE } part;

static int64_t part_of(const bt_change *change, part which) {
  return which == PART_A ? change->a : which == PART_B ? change->b : change->change;
}

static int64_t cell(const page *p, const bt_change *classes, int column, part which) {
  if (p->columns[column] != CLASS_REST) return part_of(&classes[p->columns[column]], which);
  int64_t sum = 0;
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    bool apart = false;
    for (int k = 0; k < p->column_count; k++)
      apart |= p->columns[k] == c;
    int64_t value = part_of(&classes[c], which);
    if (!apart && value == BT_UNKNOWN) return BT_UNKNOWN;
    if (!apart) sum += value;
  }
  return sum;
}

static void print_row(const page *p, const char *name, const bt_change *classes, part which) {
  fprintf(p->out, "%-*s", LEFT_COLUMNS, name);
  for (int k = 0; k < p->column_count; k++) {
    int64_t value = cell(p, classes, k, which);
    double shown = (double)value / p->unit;
    int digits = fabs(shown) < 99.995 ? 2 : fabs(shown) < 9999.95 ? 1 : 0;
    if (value == BT_UNKNOWN) {
      fprintf(p->out, "%*s", COLUMN_WIDTH, "--");
    } else if (which == PART_CHANGE && value != 0) {
      fprintf(p->out, "%+*.*f", COLUMN_WIDTH, fabs(shown) < 99.995 ? digits : digits - 1 < 0 ? 0 : digits - 1, shown);
    } else {
      fprintf(p->out, "%*.*f", COLUMN_WIDTH, p->unit > 1 ? digits : 0, shown);
    }
  }
  fputc('\n', p->out);
}

static int64_t unrest(const bt_compared_stage *stage) {
  int64_t sum = 0;
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    sum += stage->ns[c].change == BT_UNKNOWN ? INT32_MAX : llabs(stage->ns[c].change);
  return sum;
}

static int compare_unrest(const void *a, const void *b) {
  const bt_compared_stage *x = *(const bt_compared_stage *const *)a;
  const bt_compared_stage *y = *(const bt_compared_stage *const *)b;
  int64_t p = unrest(x);
  int64_t q = unrest(y);
  if (p != q) return p < q ? 1 : -1;
  return (x->stage > y->stage) - (x->stage < y->stage);
}

static void print_stage(const page *p, const bt_compared_stage *stage) {
  char name[32];
  bool in_a = stage->step.a != BT_UNKNOWN;
  bool in_b = stage->step.b != BT_UNKNOWN;
  (void)snprintf(name, sizeof name, "%s %d%s", in_a && in_b ? "stage" : "st.", stage->stage,
                 in_a && in_b ? ""
                 : in_a       ? " (A)"
                              : " (B)");
  print_row(p, name, stage->ns, in_a && in_b ? PART_CHANGE : in_a ? PART_A : PART_B);
}

static void print_stages(const page *p) {
  size_t count = p->c->stage_count;
  const bt_compared_stage **sorted = malloc((count + 1) * sizeof *sorted);
  if (sorted == NULL) return;
  for (size_t i = 0; i < count; i++)
    sorted[i] = &p->c->stages[i];
  if (count > MOST_STAGES) qsort(sorted, count, sizeof *sorted, compare_unrest);
  for (size_t i = 0; i < count && i < MOST_STAGES; i++)
    print_stage(p, sorted[i]);
  if (count > MOST_STAGES)
    fprintf(p->out, "the %d stages that changed most of %zu; --json has all\n", MOST_STAGES, count);
  free(sorted);
}

static void print_table(const page *p) {
  fputc('\n', p->out);
  bold(p, true);
  char left[LEFT_COLUMNS + 1];
  (void)snprintf(left, sizeof left, "%s a step", p->unit_name);
  fprintf(p->out, "%-*s", LEFT_COLUMNS, left);
  for (int k = 0; k < p->column_count; k++)
    fprintf(p->out, "%*s", COLUMN_WIDTH, p->columns[k] == CLASS_REST ? "rest" : heads[p->columns[k]]);
  bold(p, false);
  fputc('\n', p->out);
  print_row(p, "A", p->c->classes, PART_A);
  print_row(p, "B", p->c->classes, PART_B);
  print_row(p, "change", p->c->classes, PART_CHANGE);
  print_stages(p);
}

/* --- links and warnings ---------------------------------------------------------------------------------------------- */

static int64_t link_unrest(const bt_compared_link *link) {
  int64_t transfer = link->transfer.change == BT_UNKNOWN ? 0 : llabs(link->transfer.change);
  int64_t wait = link->wait.change == BT_UNKNOWN ? 0 : llabs(link->wait.change);
  return transfer + wait;
}

static int compare_links(const void *a, const void *b) {
  const bt_compared_link *x = *(const bt_compared_link *const *)a;
  const bt_compared_link *y = *(const bt_compared_link *const *)b;
  int64_t p = link_unrest(x);
  int64_t q = link_unrest(y);
  if (p != q) return p < q ? 1 : -1;
  return x < y ? -1 : x > y;
}

static void print_change(const page *p, const bt_change *change) {
  char a[32] = "--";
  char b[32] = "--";
  char by[32] = "";
  if (change->a != BT_UNKNOWN) (void)bt_report_time(a, sizeof a, (double)change->a);
  if (change->b != BT_UNKNOWN) (void)bt_report_time(b, sizeof b, (double)change->b);
  if (change->change != BT_UNKNOWN && change->a != 0)
    (void)snprintf(by, sizeof by, "%+.0f %%", 100 * bt_change_ratio(change));
  fprintf(p->out, "%10s >%9s %7s", a, b, by);
}

static void print_links(const page *p) {
  size_t count = p->c->link_count;
  const bt_compared_link **sorted = malloc((count + 1) * sizeof *sorted);
  if (sorted == NULL || count == 0) {
    free(sorted);
    return;
  }
  for (size_t i = 0; i < count; i++)
    sorted[i] = &p->c->links[i];
  if (count > MOST_LINKS) qsort(sorted, count, sizeof *sorted, compare_links);
  bold(p, true);
  fprintf(p->out, "\n%10s  %29s %29s", "link", "transfer of a message, A > B", "waiting a step, A > B");
  bold(p, false);
  fputc('\n', p->out);
  for (size_t i = 0; i < count && i < MOST_LINKS; i++) {
    fprintf(p->out, "%5d > %-4d", sorted[i]->from, sorted[i]->to);
    print_change(p, &sorted[i]->message);
    print_change(p, &sorted[i]->wait);
    fputc('\n', p->out);
  }
  if (count > MOST_LINKS) fprintf(p->out, "the %d links that changed most of %zu; --json has all\n", MOST_LINKS, count);
  free(sorted);
}

static void print_warning(const page *p, int side, const char *text) {
  fputs(side == 0 ? "! A: " : "! B: ", p->out);
  bt_report_wrapped(p->out, text, 5, p->look->width);
}

static void print_warnings(const page *p) {
  bool first = true;
  for (int s = 0; s < 2; s++) {
    const bt_compare_side *side = &p->of->sides[s];
    size_t count;
    const bt_problem *problems = bt_run_problems(side->run, &count);
    if (first && count + side->accounting->warning_count > 0) {
      fputc('\n', p->out);
      first = false;
    }
    for (size_t i = 0; i < count; i++)
      print_warning(p, s, problems[i].text);
    for (size_t i = 0; i < side->accounting->warning_count; i++)
      print_warning(p, s, side->accounting->warnings[i].text);
  }
}

void bt_compare_text(const bt_compare_page *of, const bt_report_look *look, FILE *out) {
  page p = {.of = of, .c = of->comparison, .look = look, .out = out};
  choose_unit(&p);
  choose_columns(&p);
  print_head(&p);
  print_table(&p);
  print_links(&p);
  print_warnings(&p);
}
