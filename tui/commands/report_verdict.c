/* The report's sentences below its first line: what the schedule has by itself, who causes the rest, what it costs. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tui/commands/report.h"

enum { MOST_CAUSES = 3 };

#define LEAST_SURPLUS 0.05 /* of a stage's work, from which on the balance is spoken of */

typedef struct page {
  const bt_report *report;
  const bt_accounting *a;
  const bt_report_look *look;
  FILE *out;
} page;

static void print_culprit(const page *p, const bt_account_cause *cause) {
  fputs(", most from ", p->out);
  switch (cause->kind) {
  case BT_CAUSE_STAGE: fprintf(p->out, "stage %d", cause->stage); break;
  case BT_CAUSE_LINK: fprintf(p->out, "the link %d > %d", cause->stage, cause->to_stage); break;
  case BT_CAUSE_MICROBATCH: fprintf(p->out, "microbatch %d", cause->microbatch); break;
  case BT_CAUSE_RANK: fprintf(p->out, "rank %d", cause->rank); break;
  case BT_CAUSE_PAUSE: fputs("one pause", p->out); break;
  case BT_CAUSE_HOST: fputs("the host", p->out); break;
  }
}

static void print_excess(const page *p) {
  const bt_accounting *a = p->a;
  if (isnan(a->ideal_rate_window) || isnan(a->rate_window)) return;
  double ideal = 100 * a->ideal_rate_window;
  double excess = 100 * a->rate_window - ideal;
  if (a->schedule.family != NULL) {
    fprintf(p->out, "%s p=%d m=%d", a->schedule.name, a->schedule.stages, a->schedule.microbatches);
    if (a->schedule.chunks > 1) fprintf(p->out, " v=%d", a->schedule.chunks);
  } else {
    fputs("the order of ops", p->out);
  }
  fprintf(p->out, " has %.1f %% by itself; ", ideal);
  if (excess > -0.05) {
    fprintf(p->out, "%.1f points are excess", fabs(excess));
  } else {
    fprintf(p->out, "it was %.1f points less", -excess);
  }
  if (excess >= 0.05 && a->cause_count > 0 && a->causes[0].share >= 0.5) print_culprit(p, &a->causes[0]);
  fputc('\n', p->out);
}

static void describe_cause(const bt_account_cause *cause, char *text, size_t room) {
  double slower = 100 * (cause->factor - 1);
  switch (cause->kind) {
  case BT_CAUSE_STAGE:
    (void)snprintf(text, room, "stage %d computes %.0f %% longer than its peers", cause->stage, slower);
    break;
  case BT_CAUSE_LINK:
    (void)snprintf(text, room, "messages from stage %d to %d take %.1f times the usual", cause->stage, cause->to_stage,
                   cause->factor);
    break;
  case BT_CAUSE_MICROBATCH:
    (void)snprintf(text, room, "microbatch %d takes %.0f %% longer in every stage", cause->microbatch, slower);
    break;
  case BT_CAUSE_RANK:
    (void)snprintf(text, room, "rank %d computes %.0f %% longer than the others of stage %d", cause->rank, slower,
                   cause->stage);
    break;
  case BT_CAUSE_PAUSE:
    (void)snprintf(text, room, "a pause of rank %d (stage %d) in step %" PRId64, cause->rank, cause->stage,
                   cause->step);
    break;
  case BT_CAUSE_HOST:
    if (cause->stage >= 0) {
      (void)snprintf(text, room, "ranks were ready and their host was not, mostly stage %d", cause->stage);
    } else {
      (void)snprintf(text, room, "ranks were ready and their host was not");
    }
    break;
  }
}

static void print_causes(const page *p) {
  for (size_t i = 0; i < p->a->cause_count && i < MOST_CAUSES; i++) {
    const bt_account_cause *cause = &p->a->causes[i];
    char what[160];
    char time[32];
    char line[256];
    describe_cause(cause, what, sizeof what);
    (void)bt_report_time(time, sizeof time, (double)cause->excess_ns / p->a->ranks);
    (void)snprintf(line, sizeof line, "%s: costs %s, %.0f %% of the excess", what, time, 100 * cause->share);
    if (p->look->color) fputs("\033[31m", p->out);
    fputs(i == 0 ? "cause: " : " also: ", p->out);
    if (p->look->color) fputs("\033[0m", p->out);
    bt_report_wrapped(p->out, line, 7, p->look->width);
  }
}

static void print_facts(const page *p) {
  const bt_accounting *a = p->a;
  char text[32];
  fprintf(p->out, "%zu stage%s", a->stage_count, a->stage_count == 1 ? "" : "s");
  if (a->chunks > 1) fprintf(p->out, " x %d chunks", a->chunks);
  if (a->microbatches > 0) fprintf(p->out, ", %d microbatch%s", a->microbatches, a->microbatches == 1 ? "" : "es");
  fprintf(p->out, ", %d rank%s", a->ranks, a->ranks == 1 ? "" : "s");
  if (a->replicas > 1) fprintf(p->out, " in %d replicas", a->replicas);
  if (a->step_count > 1) {
    fprintf(p->out, ", steps %" PRId64 "-%" PRId64, a->steps[0].step, a->steps[a->step_count - 1].step);
  } else {
    fprintf(p->out, ", step %" PRId64, a->steps[0].step);
  }
  fprintf(p->out, ": %s\n", bt_report_time(text, sizeof text, (double)a->interval_ns));
  if (!isnan(a->rate_span)) {
    fprintf(p->out, "as Zero Bubble counts %.1f %%, as Megatron counts %.1f %%\n", 100 * a->rate_span,
            100 * a->over_ideal);
  }
}

/* Who carries too much or too little of the model. */
static void print_balance(const page *p) {
  const bt_account_stage *heaviest = NULL;
  for (size_t i = 0; i < p->a->stage_count; i++) {
    const bt_account_stage *stage = &p->a->stages[i];
    if (!isnan(stage->surplus) && (heaviest == NULL || stage->surplus > heaviest->surplus)) heaviest = stage;
  }
  if (heaviest == NULL || heaviest->surplus < LEAST_SURPLUS) return;
  fprintf(p->out, "balance: stage %d carries %.2f of a stage's work too much", heaviest->stage, heaviest->surplus);
  if (heaviest->vstage_count > 1) {
    fprintf(p->out, ", %.2f of a chunk's", heaviest->surplus * heaviest->vstage_count);
  }
  fputc('\n', p->out);
}

static void print_lost(const page *p) {
  char text[2][32];
  if (p->a->bubble_ns == BT_UNKNOWN) return;
  fprintf(p->out, "lost: %s of %s time", bt_report_time(text[0], sizeof *text, (double)p->a->bubble_ns),
          p->a->gpu ? "GPU" : "the ranks'");
  if (p->a->excess_ns != BT_UNKNOWN && p->a->excess_ns > 0) {
    fprintf(p->out, ", %s of it excess", bt_report_time(text[1], sizeof *text, (double)p->a->excess_ns));
  }
  fputc('\n', p->out);
}

static void print_clock(const page *p) {
  const bt_account_clock *clock = &p->a->clock;
  size_t count = p->report->trace->host_count;
  char text[2][32];
  if (count < 2 || !clock->aligned) return;
  fprintf(p->out, "clocks of %zu hosts aligned", count);
  if (clock->likely_error_ns != BT_UNKNOWN) {
    fprintf(p->out, ": likely within %s", bt_report_time(text[0], sizeof *text, (double)clock->likely_error_ns));
  }
  if (clock->max_error_ns != BT_UNKNOWN) {
    fprintf(p->out, ", at most %s off", bt_report_time(text[1], sizeof *text, (double)clock->max_error_ns));
  }
  fputc('\n', p->out);
}

void bt_report_verdict(const bt_report *report, const bt_report_look *look, FILE *out) {
  page p = {.report = report, .a = report->accounting, .look = look, .out = out};
  print_excess(&p);
  print_causes(&p);
  print_balance(&p);
  print_facts(&p);
  print_lost(&p);
  print_clock(&p);
}
