/* What the words of a report mean. */
#include <string.h>

#include "tui/commands/report.h"

void bt_report_wrapped(FILE *out, const char *text, int indent, int width) {
  int column = indent;
  while (*text != '\0') {
    int length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > width) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      fputc(' ', out);
      column++;
    }
    for (int i = 0; i < length; i++)
      fputc((unsigned char)text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i], out);
    column += length;
    text += length;
    while (*text == ' ')
      text++;
  }
  fputc('\n', out);
}

void bt_report_glossary(FILE *out, int width) {
  static const struct {
    const char *word, *meaning;
  } words[] = {
      {"stage", "a position of the pipeline axis; its figures are sums over its ranks"},
      {"step", "a training iteration; warm-up steps and steps that are not whole are left out of the averages"},
      {"window",
       "of a step: first start to last end of the pipeline ops of a replica's ranks; windows that overlap count once"},
      {"interval",
       "from the first reported window's start to the end of the last reported step; every nanosecond of it, "
       "on every rank, belongs to exactly one class"},
      {"rate_window", "1 - compute / time of all ranks, over the windows: the headline"},
      {"rate_span",
       "1 - largest compute / largest span of a rank (first start to last end), over the steps: comparable "
       "with Zero Bubble where stages are balanced; it falls when one stage is slow"},
      {"over_ideal", "bubble over compute, rate / (1 - rate): Megatron's"},
      {"excess", "measured less theory: the same order of ops replayed with the mean durations of all stages"},
      {"cause", "what the run would gain without it, by a replay of the run as it was"},
      {"balance, surplus", "a stage's pipeline compute against the mean of the other stages', less 1"},
      {"lost", "what the bubble costs all ranks together, over the rated steps"},
      {"transfer", "of a message: as long as the fastest message of that link and size had both sides there"},
      {"inner_idle", "blocked inside an op; outside the sum"},
      {"hidden_in_bubble", "collectives while the rank waited for its neighbours anyway; outside the sum"},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    fprintf(out, "%-18s ", words[i].word);
    bt_report_wrapped(out, words[i].meaning, 19, width);
  }
  fputs("\nThe classes, which add up:\n", out);
  for (int c = 0; c < BT_CLASS_COUNT; c++) {
    fprintf(out, "%-18s ", bt_class_title((bt_class)c));
    bt_report_wrapped(out, bt_class_meaning((bt_class)c), 19, width);
  }
}
