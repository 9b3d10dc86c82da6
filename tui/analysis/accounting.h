/* The accounting: where every nanosecond of a run's reported steps went, on every rank, exactly once.
 *
 * Definitions are DESIGN's section 6; `bubbletop report --glossary` says them for a person. A stage's figures are sums
 * over its ranks, so its classes add up to ranks x interval. Pure: reads a trace, no I/O, no state between calls.
 *
 * Ownership: the caller owns the bt_accounting it gets and frees it with bt_accounting_free; it borrows nothing from
 * the trace. Thread-safe on distinct traces. Cost: n log n in the spans of the trace.
 */
#ifndef BT_ANALYSIS_ACCOUNTING_H
#define BT_ANALYSIS_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"
#include "formats/wire/status.h"
#include "tui/analysis/recognise.h"

/* The classes that add up. The order is that of the report. */
typedef enum bt_class {
  BT_CLASS_F,
  BT_CLASS_B,
  BT_CLASS_W,
  BT_CLASS_BW,
  BT_CLASS_FB,
  BT_CLASS_RECOMPUTE,
  BT_CLASS_OTHER,
  BT_CLASS_OPTIMIZER,
  BT_CLASS_EXPOSED_P2P,
  BT_CLASS_LATE_RECEIVER,
  BT_CLASS_COLLECTIVE_WAIT,
  BT_CLASS_EXPOSED_COLLECTIVE,
  BT_CLASS_FILL,
  BT_CLASS_DRAIN,
  BT_CLASS_STEADY_WAIT,
  BT_CLASS_TAIL_SYNC,
  BT_CLASS_HOST_GAP,
  BT_CLASS_BETWEEN_STEPS,
  BT_CLASS_UNATTRIBUTED,
  BT_CLASS_COUNT,
  BT_CLASS_COMPUTE_LIMIT = BT_CLASS_EXPOSED_P2P /* classes below it are compute: busy time */
} bt_class;

const char *bt_class_key(bt_class c); /* "fill_ns": the contract's key */
const char *bt_class_title(bt_class c); /* "fill": for a person */
const char *bt_class_meaning(bt_class c); /* one sentence, for the glossary */

/* Rates are NAN and times BT_UNKNOWN where the data cannot support them; a warning says why. */
#define BT_UNKNOWN INT64_MIN

typedef struct bt_account_stage {
  int32_t stage;
  int32_t ranks;
  int32_t vstage_count;
  int32_t vstages[BT_MAX_CHUNKS];
  int64_t interval_ns; /* ranks x interval; the classes add up to it */
  int64_t window_ns; /* its pipeline part */
  int64_t step_ns; /* sum of its ranks' own step marks */
  int64_t busy_ns; /* compute inside the pipeline part */
  int64_t ns[BT_CLASS_COUNT];
  int64_t inner_idle_ns; /* outside the sum: blocked inside an op */
  int64_t hidden_in_bubble_ns; /* outside the sum: collectives over dependency time */
  int64_t p2p_ns, p2p_wait_ns, p2p_transfer_ns, p2p_bytes;
  double bubble_rate;
  double surplus; /* its pipeline compute a rank against the mean of the other stages', less 1; NAN: not known */
  double peak_memory; /* largest sample of a memory counter; NAN: none */
  int64_t theory_ns[BT_CLASS_COUNT]; /* of the balanced replay; BT_UNKNOWN where there is none */
} bt_account_stage;

typedef struct bt_account_rank { /* of its stage's sums, what is the rank's own */
  int32_t rank;
  int64_t window_ns, busy_ns; /* BT_UNKNOWN: withheld */
} bt_account_rank;

typedef struct bt_account_step {
  int64_t step; /* its number; without marks counted from 0 */
  int64_t step_ns; /* the longest of its ranks' own marks, begin to end */
  int64_t window_ns; /* the longest of its replicas' windows */
  double rate_window, rate_span, over_ideal;
  bool rated; /* counted in the rates: whole, and no neighbour that is not whole overlaps it */
} bt_account_step;

typedef struct bt_account_link { /* messages between two stages, in one direction */
  int32_t from, to;
  int64_t messages;
  int64_t bytes; /* BT_UNKNOWN: a message without size */
  int64_t wait_ns; /* receives' time that was not transfer */
  int64_t transfer_ns; /* by the fastest message of the same pair of ranks and size */
} bt_account_link;

typedef enum bt_cause_kind {
  BT_CAUSE_STAGE, /* slower compute than its peers */
  BT_CAUSE_LINK, /* slower messages than other links */
  BT_CAUSE_MICROBATCH, /* slow in every stage */
  BT_CAUSE_RANK, /* a tp or dp member slower than its peers of the same stage */
  BT_CAUSE_PAUSE, /* a one-off */
  BT_CAUSE_HOST /* launch-bound: ready but not started */
} bt_cause_kind;

const char *bt_cause_name(bt_cause_kind kind);

typedef struct bt_account_cause {
  bt_cause_kind kind;
  int32_t stage, to_stage, rank, microbatch; /* -1: does not apply */
  int64_t step; /* pauses: where it was; BT_UNKNOWN otherwise */
  double factor; /* how many times the usual it takes; NAN: does not apply */
  int64_t excess_ns; /* time that the run would gain, summed over ranks */
  double share; /* of all excess */
} bt_account_cause;

typedef struct bt_account_warning {
  const char *code; /* "missing_ranks", … : stable, for scripts */
  char text[240];
  int64_t count; /* how many (steps, ranks, messages, …); BT_UNKNOWN: not a count */
} bt_account_warning;

/* What is known of the clocks of the trace (bt_clocks_solve); the corrections are in its ranks (bt_clocks_apply). */
typedef struct bt_account_clock {
  bool aligned;
  int64_t max_error_ns, likely_error_ns; /* BT_UNKNOWN: not known */
  bool bent; /* no constant rate explains the messages of some pair of hosts: max_error_ns is not known */
  size_t violations; /* messages received before they were sent, after correction */
  int64_t worst_ns; /* by how much the worst of them; from which rank to which */
  int32_t worst_from, worst_to;
} bt_account_clock;

typedef struct bt_accounting_options {
  bool bounded; /* only steps first_step..last_step (their numbers, inclusive) */
  int64_t first_step, last_step;
  bool warmup; /* count warm-up steps too */
  int32_t
      context; /* bounded: look at so many steps before them too (and a few after), for what is usual; 0: at all there are */
  const bt_account_clock *clock; /* NULL: aligned when the trace has one clock domain */
} bt_accounting_options;

typedef struct bt_accounting {
  int64_t start, end; /* the interval, on the aligned clock */
  int64_t interval_ns;
  int32_t ranks, replicas;
  bool gpu; /* some span is timed on a GPU */
  int32_t microbatches; /* per step and replica; -1 unknown */
  int32_t chunks; /* most chunks of a rank */
  int32_t virtual_stages;
  double rate_window, rate_span, over_ideal;
  double ideal_rate_window, ideal_rate_span; /* of the same order with the means over all stages: the schedule's own */
  int64_t bubble_ns, excess_ns; /* what the rated steps' bubble costs all ranks, and what of it is not the schedule's */
  double jitterless_rate_window; /* of the same order with each stage's own means */
  bt_recognition schedule; /* from the order of ops of one whole step; its texts are static or inside */
  bt_account_clock clock;
  bt_account_stage *stages; /* sorted by stage */
  size_t stage_count;
  bt_account_rank *rank_list; /* sorted by rank; `ranks` of them */
  bt_account_step *steps; /* the reported ones, in order */
  size_t step_count;
  size_t steps_rated, steps_left_out; /* left out: warm-up or not whole */
  bt_account_link *links; /* sorted by from, to */
  size_t link_count;
  bt_account_cause *causes; /* largest first */
  size_t cause_count;
  bt_account_warning *warnings;
  size_t warning_count, warning_capacity;
} bt_accounting;

/* How many spans an accounting with these options looks at: what it costs, about 0.4 us and 150 bytes a span. */
uint64_t bt_accounting_spans(const bt_trace *trace, const bt_accounting_options *options);

/* NULL options: all steps. BT_OK (warnings say what is withheld), BT_ERR_EMPTY: no pipeline op in the (chosen) steps,
 * BT_ERR_NOMEM. */
bt_status bt_accounting_run(const bt_trace *trace, const bt_accounting_options *options, bt_accounting **accounting,
                            bt_error *error);
void bt_accounting_free(bt_accounting *accounting);

#endif
