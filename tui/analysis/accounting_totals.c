/* Pieces -> the sums that a report shows: per stage, per step, and the rates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/analysis/accounting_model.h"

static int compare_int32(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a;
  int32_t y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* --- stages ---------------------------------------------------------------------------------------------------------- */

static bool make_stages(bt_model *model) {
  bt_accounting *out = model->out;
  size_t count = (size_t)model->rank_count;
  int32_t *all = malloc((count + 1) * sizeof *all);
  out->stages = calloc(count + 1, sizeof *out->stages);
  if (all == NULL || out->stages == NULL) {
    free(all);
    return false;
  }
  for (size_t i = 0; i < count; i++)
    all[i] = model->ranks[i].stage;
  qsort(all, count, sizeof *all, compare_int32);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || all[i] != all[i - 1]) out->stages[out->stage_count++].stage = all[i];
  }
  free(all);
  for (size_t i = 0; i < count; i++) {
    bt_model_rank *rank = &model->ranks[i];
    int32_t low = 0;
    int32_t high = (int32_t)out->stage_count - 1;
    while (low < high) {
      int32_t middle = low + (high - low) / 2;
      if (out->stages[middle].stage < rank->stage) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    rank->row = low;
  }
  return true;
}

static void note_vstage(bt_account_stage *stage, int32_t vstage) {
  if (vstage < 0) return;
  int32_t at = 0;
  while (at < stage->vstage_count && stage->vstages[at] < vstage)
    at++;
  if (at < stage->vstage_count && stage->vstages[at] == vstage) return;
  if (stage->vstage_count == BT_MAX_CHUNKS) return;
  memmove(&stage->vstages[at + 1], &stage->vstages[at], (size_t)(stage->vstage_count - at) * sizeof *stage->vstages);
  stage->vstages[at] = vstage;
  stage->vstage_count++;
}

/* --- one rank's interval --------------------------------------------------------------------------------------------- */

typedef struct rank_sum {
  const bt_model *model;
  bt_account_stage *stage;
  int32_t piece, piece_end; /* the rank's collectives, for what hides in the bubble */
} rank_sum;

static int64_t hidden_between(rank_sum *sum, int64_t start, int64_t end) {
  const bt_model *model = sum->model;
  int64_t hidden = 0;
  while (sum->piece < sum->piece_end && model->collective_pieces[sum->piece].end <= start)
    sum->piece++;
  for (int32_t k = sum->piece; k < sum->piece_end && model->collective_pieces[k].start < end; k++) {
    const bt_model_piece *piece = &model->collective_pieces[k];
    if (bt_is_barrier(&model->collectives[piece->index])) continue;
    int64_t from = piece->start > start ? piece->start : start;
    int64_t to = piece->end < end ? piece->end : end;
    hidden += to - from;
  }
  return hidden;
}

static void add_piece(void *context, bt_class class, int64_t start, int64_t end, int32_t op) {
  (void)op;
  rank_sum *sum = context;
  sum->stage->ns[class] += end - start;
  bool dependency = class >= BT_CLASS_FILL && class <= BT_CLASS_TAIL_SYNC;
  if (dependency) sum->stage->hidden_in_bubble_ns += hidden_between(sum, start, end);
}

static int64_t overlap(const bt_model *model, int64_t start, int64_t end) {
  if (start < model->start) start = model->start;
  if (end > model->end) end = model->end;
  return start < end ? end - start : 0;
}

static void add_inner_idle(const bt_model *model, const bt_model_rank *rank, bt_account_stage *stage) {
  int64_t until = INT64_MIN;
  for (int32_t i = rank->gates.first; i < rank->gates.first + rank->gates.count; i++) {
    const bt_model_gate *gate = &model->gates[i];
    if (!gate->inside) continue;
    int64_t start = gate->start > until ? gate->start : until;
    if (gate->end <= start) continue;
    stage->inner_idle_ns += overlap(model, start, gate->end);
    until = gate->end;
  }
}

static void add_peak_memory(const bt_model *model, const bt_model_rank *rank, bt_account_stage *stage) {
  const bt_rank *source = rank->source;
  for (size_t i = 0; i < source->mark_count; i++) {
    const bt_mark *mark = &source->marks[i];
    if (isnan(mark->value) || strstr(model->trace->names[mark->name], "mem") == NULL) continue;
    if (isnan(stage->peak_memory) || mark->value > stage->peak_memory) stage->peak_memory = mark->value;
  }
}

static void add_marks(const bt_model *model, const bt_model_rank *rank, bt_account_stage *stage) {
  for (int32_t i = rank->visits.first; i < rank->visits.first + rank->visits.count; i++) {
    const bt_model_visit *visit = &model->visits[i];
    if (!model->steps[visit->step].reported || stage->step_ns == BT_UNKNOWN) continue;
    if (visit->begin == BT_UNKNOWN || visit->end == BT_UNKNOWN) {
      stage->step_ns = BT_UNKNOWN;
    } else {
      stage->step_ns += visit->end - visit->begin;
    }
  }
}

static void add_rank(const bt_model *model, int32_t index, const bt_model_window *parts, int32_t part_count,
                     const bt_model_window *rated, int32_t rated_count) {
  const bt_model_rank *rank = &model->ranks[index];
  bt_account_stage *stage = &model->out->stages[rank->row];
  rank_sum sum = {model, stage, rank->collective_pieces.first,
                  rank->collective_pieces.first + rank->collective_pieces.count};
  stage->ranks++;
  stage->interval_ns += model->end - model->start;
  bt_model_classify(model, index, parts, part_count, add_piece, &sum);
  bt_account_rank *own = &model->out->rank_list[index];
  own->rank = rank->source->rank;
  for (int32_t i = 0; i < rated_count; i++) {
    own->window_ns += rated[i].end - rated[i].start;
    own->busy_ns += bt_model_busy_until(model, index, rated[i].end) - bt_model_busy_until(model, index, rated[i].start);
  }
  stage->window_ns += own->window_ns;
  stage->busy_ns += own->busy_ns;
  add_inner_idle(model, rank, stage);
  add_peak_memory(model, rank, stage);
  add_marks(model, rank, stage);
  for (int32_t i = rank->ops.first; i < rank->ops.first + rank->ops.count; i++) {
    if (!bt_code_is_pipeline_op(model->ops[i].kind)) continue;
    note_vstage(stage, model->ops[i].vstage);
    note_vstage(stage, model->ops[i].vstage_b);
  }
}

static bool add_stages(bt_model *model) {
  size_t room = (size_t)model->step_count + 1;
  bt_model_window *parts = malloc(room * sizeof *parts);
  bt_model_window *rated = malloc(room * sizeof *rated);
  model->out->rank_list = calloc((size_t)model->rank_count + 1, sizeof *model->out->rank_list);
  bool fine = parts != NULL && rated != NULL && model->out->rank_list != NULL && make_stages(model);
  for (size_t i = 0; fine && i < model->out->stage_count; i++) {
    model->out->stages[i].peak_memory = (double)NAN;
    model->out->stages[i].bubble_rate = (double)NAN;
    for (int k = 0; k < BT_CLASS_COUNT; k++)
      model->out->stages[i].theory_ns[k] = BT_UNKNOWN;
  }
  int32_t replica = -1;
  int32_t part_count = 0;
  int32_t rated_count = 0;
  for (int32_t i = 0; fine && i < model->rank_count; i++) {
    if (model->ranks[i].replica != replica) {
      replica = model->ranks[i].replica;
      part_count = bt_model_parts(model, replica, false, parts);
      rated_count = bt_model_parts(model, replica, true, rated);
    }
    add_rank(model, i, parts, part_count, rated, rated_count);
  }
  free(parts);
  free(rated);
  return fine;
}

/* --- steps and rates ------------------------------------------------------------------------------------------------- */

static double rate(double busy, double time) {
  return time > 0 ? 1 - busy / time : (double)NAN;
}

typedef struct step_sum {
  int64_t busy, time; /* of all ranks, in their replica's window */
  int64_t most_busy, longest; /* over ranks: their own extents */
  int64_t window, step; /* the longest; step: BT_UNKNOWN where a rank lacks a mark */
} step_sum;

static void sum_steps(const bt_model *model, step_sum *sums) {
  for (size_t i = 0; i < model->visits_count; i++) {
    const bt_model_visit *visit = &model->visits[i];
    step_sum *sum = &sums[visit->step];
    if (visit->begin == BT_UNKNOWN || visit->end == BT_UNKNOWN) {
      sum->step = BT_UNKNOWN;
    } else if (sum->step != BT_UNKNOWN && visit->end - visit->begin > sum->step) {
      sum->step = visit->end - visit->begin;
    }
    bt_model_window window = *bt_model_window_of(model, model->ranks[visit->rank].replica, visit->step);
    if (!model->steps[visit->step].reported || visit->first > visit->last) continue;
    sum->time += window.end - window.start;
    sum->busy +=
        bt_model_busy_until(model, visit->rank, window.end) - bt_model_busy_until(model, visit->rank, window.start);
    int64_t own =
        bt_model_busy_until(model, visit->rank, visit->last) - bt_model_busy_until(model, visit->rank, visit->first);
    if (own > sum->most_busy) sum->most_busy = own;
    if (visit->last - visit->first > sum->longest) sum->longest = visit->last - visit->first;
    if (window.end - window.start > sum->window) sum->window = window.end - window.start;
  }
}

static bool add_steps(bt_model *model, double *rate_span) {
  bt_accounting *out = model->out;
  step_sum *sums = calloc((size_t)model->step_count + 1, sizeof *sums);
  out->steps = calloc((size_t)model->step_count + 1, sizeof *out->steps);
  if (sums == NULL || out->steps == NULL) {
    free(sums);
    return false;
  }
  sum_steps(model, sums);
  double busy = 0;
  double span = 0;
  for (int32_t i = 0; i < model->step_count; i++) {
    const bt_model_step *step = &model->steps[i];
    if (!step->reported) {
      out->steps_left_out++;
      continue;
    }
    bt_account_step *row = &out->steps[out->step_count++];
    row->step = step->id;
    row->step_ns = sums[i].step;
    row->window_ns = model->aligned ? sums[i].window : BT_UNKNOWN;
    row->rated = step->rated;
    bool whole = step->whole && model->complete;
    row->rate_window =
        step->rated && whole && model->aligned ? rate((double)sums[i].busy, (double)sums[i].time) : (double)NAN;
    row->rate_span = whole ? rate((double)sums[i].most_busy, (double)sums[i].longest) : (double)NAN;
    row->over_ideal = row->rate_window / (1 - row->rate_window);
    if (!step->rated) continue;
    out->steps_rated++;
    busy += (double)sums[i].most_busy;
    span += (double)sums[i].longest;
  }
  *rate_span = rate(busy, span);
  free(sums);
  return true;
}

/* How much more a stage's ranks compute for the pipeline than those of the others; only where nothing is missing. */
static void add_surplus(const bt_model *model) {
  bt_accounting *out = model->out;
  bool whole = model->complete;
  for (int32_t i = 0; i < model->step_count; i++)
    whole &= model->steps[i].whole || !model->steps[i].reported;
  double *work = calloc(out->stage_count + 1, sizeof *work);
  double all = 0;
  for (size_t i = 0; i < out->stage_count; i++) {
    bt_account_stage *stage = &out->stages[i];
    stage->surplus = (double)NAN;
    for (int c = BT_CLASS_F; work != NULL && c <= BT_CLASS_RECOMPUTE; c++)
      work[i] += (double)stage->ns[c] / stage->ranks;
    if (work != NULL) all += work[i];
  }
  for (size_t i = 0; work != NULL && whole && i < out->stage_count && out->stage_count > 1; i++) {
    double peers = (all - work[i]) / (double)(out->stage_count - 1);
    if (peers > 0) out->stages[i].surplus = work[i] / peers - 1;
  }
  free(work);
}

static void add_rates(bt_model *model, double rate_span) {
  bt_accounting *out = model->out;
  int64_t busy = 0;
  int64_t window = 0;
  for (size_t i = 0; i < out->stage_count; i++) {
    bt_account_stage *stage = &out->stages[i];
    busy += stage->busy_ns;
    window += stage->window_ns;
    if (model->aligned && stage->window_ns > 0)
      stage->bubble_rate = rate((double)stage->busy_ns, (double)stage->window_ns);
    if (!model->aligned || out->steps_rated == 0) {
      stage->window_ns = BT_UNKNOWN;
      stage->busy_ns = BT_UNKNOWN;
      stage->bubble_rate = (double)NAN;
    }
    if (!model->complete) stage->bubble_rate = (double)NAN;
  }
  for (int32_t i = 0; i < out->ranks && (!model->aligned || out->steps_rated == 0); i++)
    out->rank_list[i].window_ns = out->rank_list[i].busy_ns = BT_UNKNOWN;
  bool known = out->steps_rated > 0 && model->complete;
  out->bubble_ns = known && model->aligned ? window - busy : BT_UNKNOWN;
  out->excess_ns = BT_UNKNOWN; /* theory will tell */
  out->rate_window = known && model->aligned ? rate((double)busy, (double)window) : (double)NAN;
  out->rate_span = known ? rate_span : (double)NAN;
  out->over_ideal = out->rate_window / (1 - out->rate_window);
}

bt_status bt_model_totals(bt_model *model) {
  bt_accounting *out = model->out;
  double rate_span = (double)NAN;
  out->start = model->start;
  out->end = model->end;
  out->interval_ns = model->end - model->start;
  out->ranks = model->rank_count;
  out->replicas = model->replica_count;
  out->gpu = model->gpu;
  out->virtual_stages = model->virtual_stages;
  if (!add_stages(model) || !add_steps(model, &rate_span)) return BT_ERR_NOMEM;
  add_rates(model, rate_span);
  add_surplus(model);
  return BT_OK;
}
