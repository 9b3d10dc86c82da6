#include "tui/analysis/accounting.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

static const struct {
  const char *key, *title, *meaning;
} classes[BT_CLASS_COUNT] = {
    [BT_CLASS_F] = {"f_ns", "F", "forward"},
    [BT_CLASS_B] = {"b_ns", "B", "backward for the input's gradient"},
    [BT_CLASS_W] = {"w_ns", "W", "backward for the weights' gradient"},
    [BT_CLASS_BW] = {"bw_ns", "BW", "backward, input's and weights' gradient in one"},
    [BT_CLASS_FB] = {"fb_ns", "FB", "a forward and a backward overlapped in one"},
    [BT_CLASS_RECOMPUTE] = {"recompute_ns", "recompute", "activations computed again for the backward"},
    [BT_CLASS_OTHER] = {"other_ns", "other", "other compute"},
    [BT_CLASS_OPTIMIZER] = {"optimizer_ns", "optimizer", "the optimizer's step"},
    [BT_CLASS_EXPOSED_P2P] = {"exposed_p2p_ns", "p2p",
                              "idle though the neighbour had finished: its message was on its way"},
    [BT_CLASS_LATE_RECEIVER] = {"late_receiver_ns", "late receiver", "blocked in a send until the neighbour took it"},
    [BT_CLASS_COLLECTIVE_WAIT] = {"collective_wait_ns", "collective wait",
                                  "in a collective before its last member arrived"},
    [BT_CLASS_EXPOSED_COLLECTIVE] = {"exposed_collective_ns", "collective",
                                     "in a collective after its last member arrived, nothing computed beside it"},
    [BT_CLASS_FILL] = {"fill_ns", "fill", "waiting for a neighbour's op before the first backward of the step"},
    [BT_CLASS_DRAIN] = {"drain_ns", "drain",
                        "waiting for a neighbour's op after the last forward of the step, or done"},
    [BT_CLASS_STEADY_WAIT] = {"steady_wait_ns", "wait", "waiting for a neighbour's op in between"},
    [BT_CLASS_TAIL_SYNC] = {"tail_sync_ns", "barrier", "done, and in a barrier across stages while others still work"},
    [BT_CLASS_HOST_GAP] = {"host_gap_ns", "host", "idle though all that the next op needs was there"},
    [BT_CLASS_BETWEEN_STEPS] = {"between_steps_ns", "between steps", "idle outside the pipeline part of the steps"},
    [BT_CLASS_UNATTRIBUTED] = {"unattributed_ns", "unattributed", "idle, and the records cannot tell why"},
};

const char *bt_class_key(bt_class c) {
  return classes[c].key;
}
const char *bt_class_title(bt_class c) {
  return classes[c].title;
}
const char *bt_class_meaning(bt_class c) {
  return classes[c].meaning;
}

const char *bt_cause_name(bt_cause_kind kind) {
  static const char *const names[] = {"stage", "link", "microbatch", "rank", "pause", "host"};
  return names[kind];
}

void bt_account_warn(bt_accounting *accounting, const char *code, int64_t count, const char *format, ...) {
  for (size_t i = 0; i < accounting->warning_count; i++) {
    bt_account_warning *known = &accounting->warnings[i];
    if (strcmp(known->code, code) != 0) continue;
    if (known->count != BT_UNKNOWN && count != BT_UNKNOWN) known->count += count;
    return;
  }
  if (!bt_array_reserve(&accounting->warnings, &accounting->warning_capacity, accounting->warning_count + 1,
                        sizeof *accounting->warnings)) {
    return; /* out of memory: the caller notices soon */
  }
  bt_account_warning *fresh = &accounting->warnings[accounting->warning_count++];
  fresh->code = code;
  fresh->count = count;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(fresh->text, sizeof fresh->text, format, arguments);
  va_end(arguments);
}

void bt_accounting_free(bt_accounting *accounting) {
  if (accounting == NULL) return;
  free(accounting->stages);
  free(accounting->rank_list);
  free(accounting->steps);
  free(accounting->links);
  free(accounting->causes);
  free(accounting->warnings);
  free(accounting);
}

/* --- what is known of the whole -------------------------------------------------------------------------------------- */

static void judge_clocks(bt_model *model, const bt_accounting_options *options) {
  bt_account_clock *clock = &model->out->clock;
  if (options->clock != NULL) {
    *clock = *options->clock;
  } else {
    clock->aligned = model->trace->host_count <= 1;
    clock->max_error_ns = clock->aligned ? 0 : BT_UNKNOWN;
    clock->likely_error_ns = clock->max_error_ns;
  }
  model->aligned = clock->aligned;
  if (!model->aligned) {
    bt_account_warn(model->out, "clocks_unaligned", (int64_t)model->trace->host_count,
                    "the clocks of %zu hosts are not aligned: rates and waits across ranks are withheld",
                    model->trace->host_count);
  }
  if (clock->bent) {
    bt_account_warn(model->out, "clocks_bent", BT_UNKNOWN,
                    "the clocks of some hosts did not run at a constant rate: how wrong times across hosts are is not "
                    "known");
  }
  if (clock->violations > 0) {
    bt_account_warn(
        model->out, "received_before_sent", (int64_t)clock->violations,
        "%zu messages end before they begin even with clocks aligned, the worst by %lld ns, from rank %d to "
        "rank %d",
        clock->violations, (long long)clock->worst_ns, clock->worst_from, clock->worst_to);
  }
}

/* Every stage of every replica must be there: a window is over all of its ranks. */
static bool judge_ranks(bt_model *model) {
  int32_t stages = 0;
  for (int32_t i = 0; i < model->rank_count; i++) {
    int32_t size = model->ranks[i].source->layout.pp_size;
    if (size > stages) stages = size;
    if (model->ranks[i].stage >= stages) stages = model->ranks[i].stage + 1;
  }
  model->stage_count = stages;
  if (stages > model->rank_count)
    stages = model->rank_count + 1; /* the number is not to be believed: some are missing */
  bool *present = calloc((size_t)stages * (size_t)model->replica_count + 1, sizeof *present);
  if (present == NULL) return false;
  int64_t found = 0;
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_model_rank *rank = &model->ranks[i];
    if (rank->stage >= stages || rank->ops.count == 0) continue;
    bool *place = &present[(size_t)rank->replica * (size_t)stages + (size_t)rank->stage];
    found += !*place;
    *place = true;
  }
  free(present);
  int64_t wanted = (int64_t)model->stage_count * model->replica_count;
  model->complete = found == wanted;
  int32_t world = model->trace->world_size;
  if (!model->complete) {
    bt_account_warn(model->out, "missing_stages", wanted - found,
                    "%lld of %lld pipeline stages %s no record: rates are withheld", (long long)(wanted - found),
                    (long long)wanted, wanted - found == 1 ? "has" : "have");
  } else if (world > model->rank_count) {
    bt_account_warn(model->out, "missing_ranks", world - model->rank_count,
                    "%d of %d ranks %s no record: the figures are those of the others", world - model->rank_count,
                    world, world - model->rank_count == 1 ? "has" : "have");
  }
  return true;
}

static void note_microbatches(bt_model *model) {
  int32_t highest = -1;
  int32_t chunks = 1;
  int64_t nameless = 0;
  int64_t chunkless = 0;
  int64_t pipeline = 0;
  int64_t host = 0;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (!bt_code_is_pipeline_op(op->kind)) continue;
    pipeline++;
    if (op->microbatch > highest) highest = op->microbatch;
    if (op->chunk + 1 > chunks) chunks = op->chunk + 1;
    nameless += op->microbatch < 0 && op->kind != BT_RECOMPUTE;
    chunkless += op->vstage < 0;
    host += model->gpu && (op->flags & BT_FLAG_GPU_TIMED) == 0;
  }
  for (int32_t i = 0; i < model->rank_count; i++) {
    const bt_layout *layout = &model->ranks[i].source->layout;
    if (layout->chunks > chunks) chunks = layout->chunks;
  }
  model->out->microbatches = highest < INT32_MAX ? highest + 1 : -1;
  if (highest < 0) model->out->microbatches = -1;
  model->out->chunks = chunks;
  if (nameless > 0) {
    bt_account_warn(model->out, "unknown_microbatch", nameless,
                    "%lld of %lld ops do not say their microbatch: what they waited for is not known",
                    (long long)nameless, (long long)pipeline);
  }
  if (chunkless > 0) {
    bt_account_warn(model->out, "unknown_chunk", chunkless,
                    "%lld of %lld ops do not say their chunk: what they waited for is not known", (long long)chunkless,
                    (long long)pipeline);
  }
  if (host > 0) {
    bt_account_warn(model->out, "compute_host_timed", host,
                    "%lld of %lld ops of this GPU run have host times only: rates of their steps are withheld",
                    (long long)host, (long long)pipeline);
  }
}

static void note_host_timed_comm(const bt_model *model) {
  for (int32_t i = 0; i < model->rank_count; i++) {
    if (model->ranks[i].host_timed_p2p) {
      bt_account_warn(model->out, "p2p_host_timed", 1,
                      "messages of this GPU run have host times: they give peers, bytes and order, not waits");
    }
    if (model->ranks[i].host_timed_collectives) {
      bt_account_warn(model->out, "collectives_host_timed", 1,
                      "collectives of this GPU run have host times: what was waiting for them is unattributed");
    }
  }
}

static void note_doubts(const bt_model *model) {
  int64_t missing = 0;
  int64_t silent = 0;
  int64_t early = 0;
  for (size_t i = 0; i < model->ops_count; i++) {
    const bt_model_op *op = &model->ops[i];
    if (op->visit == BT_NO_INDEX || !model->steps[model->visits[op->visit].step].reported || !op->waits) continue;
    missing += !op->e_known;
    silent += op->e_known && !op->r_known;
    early += op->e_known && op->e > op->start;
  }
  if (missing > 0 && model->aligned) {
    bt_account_warn(model->out, "missing_producers", missing,
                    "%lld ops waited for an op that is not in the records: their waits are unattributed",
                    (long long)missing);
  }
  if (silent > 0) {
    bt_account_warn(model->out, "missing_messages", silent,
                    "%lld ops have no message that says when their data came: what followed is unattributed",
                    (long long)silent);
  }
  if (early > 0) {
    bt_account_warn(model->out, "order_violations", early,
                    "%lld ops began before what they depend on had ended: clocks or numbers are wrong",
                    (long long)early);
  }
}

static bt_status build(bt_model *model, const bt_accounting_options *options, bt_error *error) {
  bt_status status = bt_model_ops(model, options);
  if (status != BT_OK)
    return bt_fail(error, status, "accounting: %s", status == BT_ERR_NOMEM ? "out of memory" : "too many spans");
  if (!judge_ranks(model)) return bt_fail(error, BT_ERR_NOMEM, "accounting: out of memory");
  note_microbatches(model);
  note_host_timed_comm(model);
  status = bt_model_steps(model, options);
  if (status == BT_ERR_EMPTY) {
    return bt_fail(error, status, "no forward or backward op in the %s: nothing to account for",
                   options->bounded ? "chosen steps" : "run");
  }
  if (status == BT_OK) status = bt_model_match(model);
  if (status == BT_OK) status = bt_model_waits(model);
  if (status == BT_OK) status = bt_model_segments(model);
  if (status != BT_OK) return bt_fail(error, status, "accounting: out of memory");
  note_doubts(model);
  return BT_OK;
}

bt_status bt_model_build(bt_model *model, const bt_trace *trace, const bt_accounting_options *options,
                         bt_error *error) {
  static const bt_accounting_options defaults = {.bounded = false};
  *model = (bt_model){.trace = trace, .out = calloc(1, sizeof *model->out)};
  if (model->out == NULL) return bt_fail(error, BT_ERR_NOMEM, "accounting: out of memory");
  if (options == NULL) options = &defaults;
  judge_clocks(model, options);
  model->out->ideal_rate_window = (double)NAN;
  model->out->ideal_rate_span = (double)NAN;
  model->out->jitterless_rate_window = (double)NAN;
  return build(model, options, error);
}

bt_status bt_accounting_run(const bt_trace *trace, const bt_accounting_options *options, bt_accounting **accounting,
                            bt_error *error) {
  bt_model model;
  *accounting = NULL;
  bt_status status = bt_model_build(&model, trace, options, error);
  if (status == BT_OK) {
    status = bt_model_totals(&model);
    if (status == BT_OK) status = bt_model_links(&model);
    if (status == BT_OK) status = bt_model_theory(&model);
    if (status == BT_OK) status = bt_model_schedule(&model);
    if (status != BT_OK) (void)bt_fail(error, status, "accounting: out of memory");
  }
  bt_model_free(&model);
  if (status != BT_OK) {
    bt_accounting_free(model.out);
    return status;
  }
  *accounting = model.out;
  return BT_OK;
}
