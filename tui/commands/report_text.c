/* The report for a person: the verdict in a sentence first, then who spent the time on what. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/commands/report.h"
#include "tui/commands/report_plan.h"

enum { MOST_ROWS = 16, MOST_LINKS = 8, LEFT_COLUMNS = 28, COLUMN_WIDTH = 6, MEMORY_WIDTH = 11, BAR_WIDTH = 10 };

#define LEAST_SPREAD 0.02 /* of a rate: what the line of steps shows at least from bottom to top */

/* Columns of the table: classes that a person reads together. */
typedef enum group {
  G_F,
  G_B,
  G_W,
  G_BW,
  G_FB,
  G_RECOMPUTE,
  G_OTHER,
  G_OPTIMIZER,
  G_P2P,
  G_COLLECTIVE,
  G_FILL,
  G_DRAIN,
  G_WAIT,
  G_SYNC,
  G_HOST,
  G_BETWEEN,
  G_UNKNOWN,
  GROUP_COUNT
} group;

static const struct {
  const char *head, *words;
  char letter;
  int color; /* of a terminal, 16 colours; 0 none */
} groups[GROUP_COUNT] = {
    [G_F] = {"F", "forward", 'F', 34},
    [G_B] = {"B", "backward", 'B', 36},
    [G_W] = {"W", "weight gradients", 'W', 33},
    [G_BW] = {"BW", "backward", 'B', 36},
    [G_FB] = {"FB", "forward and backward", 'X', 34},
    [G_RECOMPUTE] = {"recom", "recomputation", 'R', 35},
    [G_OTHER] = {"other", "other compute", 'o', 37},
    [G_OPTIMIZER] = {"optim", "optimizer", 'O', 37},
    [G_P2P] = {"p2p", "p2p", 'p', 35},
    [G_COLLECTIVE] = {"coll", "collectives", 'c', 35},
    [G_FILL] = {"fill", "fill", '.', 0},
    [G_DRAIN] = {"drain", "drain", '.', 0},
    [G_WAIT] = {"wait", "wait", '.', 0},
    [G_SYNC] = {"sync", "barrier", '.', 0},
    [G_HOST] = {"host", "host", 'h', 31},
    [G_BETWEEN] = {"betw.", "between steps", ' ', 0},
    [G_UNKNOWN] = {"?", "unattributed", '?', 0},
};

static const uint8_t group_of[BT_CLASS_COUNT] = {
    [BT_CLASS_F] = G_F,
    [BT_CLASS_B] = G_B,
    [BT_CLASS_W] = G_W,
    [BT_CLASS_BW] = G_BW,
    [BT_CLASS_FB] = G_FB,
    [BT_CLASS_RECOMPUTE] = G_RECOMPUTE,
    [BT_CLASS_OTHER] = G_OTHER,
    [BT_CLASS_OPTIMIZER] = G_OPTIMIZER,
    [BT_CLASS_EXPOSED_P2P] = G_P2P,
    [BT_CLASS_LATE_RECEIVER] = G_P2P,
    [BT_CLASS_COLLECTIVE_WAIT] = G_COLLECTIVE,
    [BT_CLASS_EXPOSED_COLLECTIVE] = G_COLLECTIVE,
    [BT_CLASS_FILL] = G_FILL,
    [BT_CLASS_DRAIN] = G_DRAIN,
    [BT_CLASS_STEADY_WAIT] = G_WAIT,
    [BT_CLASS_TAIL_SYNC] = G_SYNC,
    [BT_CLASS_HOST_GAP] = G_HOST,
    [BT_CLASS_BETWEEN_STEPS] = G_BETWEEN,
    [BT_CLASS_UNATTRIBUTED] = G_UNKNOWN,
};

typedef struct page {
  const bt_report *report;
  const bt_accounting *a;
  const bt_report_look *look;
  FILE *out;
  int64_t total[GROUP_COUNT]; /* over all stages */
  int64_t all;
} page;

static void color(const page *p, int code) {
  if (p->look->color) fprintf(p->out, code == 0 ? "\033[0m" : "\033[%dm", code);
}

const char *bt_report_time(char *text, size_t room, double ns) {
  static const struct {
    double limit, unit;
    const char *name;
  } units[] = {{1e3, 1, "ns"}, {1e6, 1e3, "us"}, {1e9, 1e6, "ms"}, {3.6e12, 1e9, "s"}, {INFINITY, 3.6e12, "h"}};
  size_t i = 0;
  while (fabs(ns) >= units[i].limit * 0.99995)
    i++;
  double value = ns / units[i].unit;
  (void)snprintf(text, room, "%.*f %s", i == 0 ? 0 : fabs(value) < 10 ? 2 : 1, value, units[i].name);
  return text;
}

static const char *bytes_text(char *text, size_t room, double bytes) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  while (bytes >= 1024 && i + 1 < sizeof names / sizeof *names) {
    bytes /= 1024;
    i++;
  }
  (void)snprintf(text, room, "%.*f %s", i == 0 ? 0 : 1, bytes, names[i]);
  return text;
}

/* --- the verdict ----------------------------------------------------------------------------------------------------- */

static void sum_groups(page *p) {
  for (size_t i = 0; i < p->a->stage_count; i++) {
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      p->total[group_of[c]] += p->a->stages[i].ns[c];
    p->all += p->a->stages[i].interval_ns;
  }
}

/* What the bubble consists of, largest first, in points of all time, as far as the line has room. */
static void print_parts(const page *p, int column) {
  static const uint8_t idle[] = {G_FILL, G_DRAIN, G_WAIT, G_P2P, G_COLLECTIVE, G_HOST, G_SYNC, G_UNKNOWN};
  bool told[GROUP_COUNT] = {false};
  for (size_t n = 0; n < sizeof idle; n++) {
    int best = -1;
    for (size_t i = 0; i < sizeof idle; i++) {
      if (!told[idle[i]] && (best < 0 || p->total[idle[i]] > p->total[best])) best = idle[i];
    }
    char text[48];
    double points = 100 * (double)p->total[best] / (double)p->all;
    column += snprintf(text, sizeof text, "%s %s %.1f", n == 0 ? ":" : ",", groups[best].words, points);
    if (points < 0.05 || column > p->look->width) break;
    fputs(text, p->out);
    told[best] = true;
  }
}

static void print_bubble(const page *p) {
  const bt_accounting *a = p->a;
  color(p, 1);
  if (isnan(a->rate_window)) {
    fputs("bubble not known (see the warnings)", p->out);
    color(p, 0);
  } else {
    int column = fprintf(p->out, "bubble %.1f %% of stage time", 100 * a->rate_window);
    color(p, 0);
    print_parts(p, column);
  }
  fputc('\n', p->out);
}

/* --- the stages ------------------------------------------------------------------------------------------------------ */

static void print_bar(const page *p, double rate) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int cells = (int)lround(rate * BAR_WIDTH * 8);
  if (cells < 0 || isnan(rate)) cells = 0;
  if (cells > BAR_WIDTH * 8) cells = BAR_WIDTH * 8;
  if (!p->look->utf8) cells = (cells + 4) / 8 * 8;
  int used = cells / 8;
  for (int i = 0; i < used; i++)
    fputs(p->look->utf8 ? "█" : "#", p->out);
  if (cells % 8 > 0) {
    fputs(eighths[cells % 8], p->out);
    used++;
  }
  fprintf(p->out, "%*s", BAR_WIDTH - used, "");
}

/* Columns that have something to show; when there are more than fit, the smallest are summed under "rest". */
static int choose_columns(const page *p, bool memory, bool *shown, bool *rest) {
  int fit = (p->look->width - LEFT_COLUMNS - (memory ? MEMORY_WIDTH : 0)) / COLUMN_WIDTH;
  int count = 0;
  *rest = false;
  for (int g = 0; g < GROUP_COUNT; g++) {
    shown[g] = p->total[g] * 2000 > p->all;
    if (p->total[g] > 0 && !shown[g]) *rest = true;
    count += shown[g];
  }
  while (count > 0 && count + *rest > fit) {
    int least = -1;
    for (int g = 0; g < GROUP_COUNT; g++) {
      if (shown[g] && (least < 0 || p->total[g] < p->total[least])) least = g;
    }
    shown[least] = false;
    *rest = true;
    count--;
  }
  return count;
}

typedef struct row { /* of the table: some neighbouring stages together */
  int32_t first, last;
  int64_t interval, busy, window;
  int64_t sums[GROUP_COUNT];
  double memory;
} row;

static row row_of(const page *p, size_t first, size_t end) {
  row r = {.first = p->a->stages[first].stage, .last = p->a->stages[end - 1].stage, .memory = (double)NAN};
  for (size_t i = first; i < end; i++) {
    const bt_account_stage *stage = &p->a->stages[i];
    r.interval += stage->interval_ns;
    bool known = !isnan(stage->bubble_rate) && r.window != BT_UNKNOWN;
    r.window = known ? r.window + stage->window_ns : BT_UNKNOWN;
    r.busy += known ? stage->busy_ns : 0;
    if (isnan(r.memory) || stage->peak_memory > r.memory) r.memory = stage->peak_memory;
    for (int c = 0; c < BT_CLASS_COUNT; c++)
      r.sums[group_of[c]] += stage->ns[c];
  }
  return r;
}

static void print_row(const page *p, const row *r, bool memory, const bool *shown, bool rest) {
  char name[32];
  (void)snprintf(name, sizeof name, r->last > r->first ? "%d-%d" : "%d", r->first, r->last);
  bool known = r->window != BT_UNKNOWN && r->window > 0;
  double rate = known ? 1 - (double)r->busy / (double)r->window : (double)NAN;
  fprintf(p->out, "%7s  ", name);
  if (known) {
    fprintf(p->out, "%5.1f %% ", 100 * rate);
  } else {
    fputs("  --   ", p->out);
  }
  fputc(' ', p->out);
  print_bar(p, rate);
  double left = 0;
  for (int g = 0; g < GROUP_COUNT; g++) {
    double share = 100 * (double)r->sums[g] / (double)r->interval;
    if (!shown[g]) left += share;
    if (!shown[g]) continue;
    color(p, groups[g].color);
    fprintf(p->out, "%*.1f", COLUMN_WIDTH, share);
    color(p, 0);
  }
  if (rest) fprintf(p->out, "%*.1f", COLUMN_WIDTH, left);
  if (memory) {
    char text[32] = "--";
    if (!isnan(r->memory)) (void)bytes_text(text, sizeof text, r->memory);
    fprintf(p->out, "%*s", MEMORY_WIDTH, text);
  }
  fputc('\n', p->out);
}

static void print_stages(const page *p) {
  bool shown[GROUP_COUNT];
  bool rest;
  size_t count = p->a->stage_count;
  bool memory = false;
  for (size_t i = 0; i < count; i++)
    memory |= !isnan(p->a->stages[i].peak_memory);
  (void)choose_columns(p, memory, shown, &rest);
  fputc('\n', p->out);
  color(p, 1);
  fprintf(p->out, "  stage  bubble  %-*s", BAR_WIDTH, "");
  for (int g = 0; g < GROUP_COUNT; g++) {
    if (shown[g]) fprintf(p->out, "%*s", COLUMN_WIDTH, groups[g].head);
  }
  if (rest) fprintf(p->out, "%*s", COLUMN_WIDTH, "rest");
  if (memory) fprintf(p->out, "%*s", MEMORY_WIDTH, "peak mem");
  color(p, 0);
  fprintf(p->out, "\n");
  size_t together = (count + MOST_ROWS - 1) / MOST_ROWS;
  for (size_t i = 0; i < count; i += together) {
    row r = row_of(p, i, i + together < count ? i + together : count);
    print_row(p, &r, memory, shown, rest);
  }
  fputs("in % of all time of the stage's ranks", p->out);
  if (together > 1) fprintf(p->out, "; %zu stages together, --csv has each", together);
  fputc('\n', p->out);
}

/* Where all the time went, as one bar of letters. */
static void print_stack(const page *p) {
  int width = p->look->width - 2;
  int64_t sum = 0;
  int printed = 0;
  fputs("\n ", p->out);
  for (int g = 0; g < GROUP_COUNT; g++) {
    sum += p->total[g];
    int until = (int)((double)sum / (double)p->all * width + 0.5);
    if (until > printed) color(p, groups[g].color);
    for (; printed < until; printed++)
      fputc(groups[g].letter, p->out);
    color(p, 0);
  }
  fputs("\n", p->out);
}

/* --- links and steps ------------------------------------------------------------------------------------------------- */

static int compare_link_wait(const void *a, const void *b) {
  const bt_account_link *x = *(const bt_account_link *const *)a;
  const bt_account_link *y = *(const bt_account_link *const *)b;
  if (x->transfer_ns != y->transfer_ns) return x->transfer_ns < y->transfer_ns ? 1 : -1;
  return x < y ? -1 : x > y;
}

static void print_link(const page *p, const bt_account_link *link) {
  char bytes[32] = "--";
  char wait[32] = "--";
  char transfer[32] = "--";
  char speed[48] = "--";
  double n = (double)link->messages;
  if (link->bytes != BT_UNKNOWN) (void)bytes_text(bytes, sizeof bytes, (double)link->bytes / n);
  if (link->wait_ns != BT_UNKNOWN) (void)bt_report_time(wait, sizeof wait, (double)link->wait_ns / n);
  if (link->transfer_ns != BT_UNKNOWN) (void)bt_report_time(transfer, sizeof transfer, (double)link->transfer_ns / n);
  if (link->bytes != BT_UNKNOWN && link->transfer_ns > 0) {
    char rate[32];
    (void)bytes_text(rate, sizeof rate, (double)link->bytes / ((double)link->transfer_ns * 1e-9));
    (void)snprintf(speed, sizeof speed, "%s/s", rate);
  }
  fprintf(p->out, "%5d > %-4d %9" PRId64 " %12s %12s %12s %14s\n", link->from, link->to, link->messages, bytes, wait,
          transfer, speed);
}

static void print_links(const page *p) {
  size_t count = p->a->link_count;
  if (count == 0) return;
  const bt_account_link **sorted = malloc(count * sizeof *sorted);
  if (sorted == NULL) return;
  for (size_t i = 0; i < count; i++)
    sorted[i] = &p->a->links[i];
  if (count > MOST_LINKS) qsort(sorted, count, sizeof *sorted, compare_link_wait);
  fputc('\n', p->out);
  color(p, 1);
  fprintf(p->out, "%-12s %9s %12s %12s %12s %14s", "   link", "messages", "size", "wait", "transfer", "speed");
  color(p, 0);
  fputc('\n', p->out);
  for (size_t i = 0; i < count && i < MOST_LINKS; i++)
    print_link(p, sorted[i]);
  if (count > MOST_LINKS) {
    fprintf(p->out, "the %d links with the most transfer of %zu; --json has all\n", MOST_LINKS, count);
  }
  free(sorted);
}

static void print_steps(const page *p) {
  static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  size_t count = p->a->step_count;
  if (count < 2) return;
  size_t cells = (size_t)p->look->width - 20;
  if (cells > count) cells = count;
  double low = INFINITY;
  double high = -INFINITY;
  for (size_t i = 0; i < count; i++) {
    double rate = p->a->steps[i].rate_window;
    if (rate < low) low = rate;
    if (rate > high) high = rate;
  }
  if (!isfinite(low) || !isfinite(high)) return;
  double spread = high - low > LEAST_SPREAD ? high - low : LEAST_SPREAD;
  fputs("\nsteps ", p->out);
  for (size_t cell = 0; cell < cells; cell++) {
    double worst = -INFINITY;
    for (size_t i = cell * count / cells; i < (cell + 1) * count / cells; i++) {
      if (p->a->steps[i].rate_window > worst) worst = p->a->steps[i].rate_window;
    }
    int level = isfinite(worst) ? (int)((worst - low) / spread * 7.999) : 0;
    if (p->look->utf8) {
      fputs(isfinite(worst) ? levels[level] : " ", p->out);
    } else {
      fputc(isfinite(worst) ? '0' + level : ' ', p->out);
    }
  }
  fprintf(p->out, " %.1f-%.1f %%\n", 100 * low, 100 * high);
}

/* --- warnings -------------------------------------------------------------------------------------------------------- */

static void print_warnings(const page *p) {
  if (p->a->warning_count + p->report->problem_count == 0) return;
  fputc('\n', p->out);
  for (size_t i = 0; i < p->report->problem_count; i++) {
    fputs("! ", p->out);
    bt_report_wrapped(p->out, p->report->problems[i].text, 2, p->look->width);
  }
  for (size_t i = 0; i < p->a->warning_count; i++) {
    fputs("! ", p->out);
    bt_report_wrapped(p->out, p->a->warnings[i].text, 2, p->look->width);
  }
}

void bt_report_text(const bt_report *report, const bt_report_look *look, FILE *out) {
  page p = {.report = report, .a = report->accounting, .look = look, .out = out};
  sum_groups(&p);
  print_bubble(&p);
  bt_report_verdict(report, look, out);
  print_stages(&p);
  print_stack(&p);
  print_links(&p);
  print_steps(&p);
  if (report->plan != NULL) bt_report_plan_text(report, look, out);
  print_warnings(&p);
}
