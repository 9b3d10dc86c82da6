#include "tui/analysis/schedule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *refuse_interleaved(const bt_schedule_params *params) {
  return params->microbatches % params->stages != 0 && !params->ragged
             ? "the number of microbatches must be a multiple of the number of stages"
             : NULL;
}

static const char *refuse_pytorch_zb(const bt_schedule_params *params) {
  int32_t rounds = params->microbatches / params->stages;
  return rounds > 1 && params->microbatches % rounds != 0
             ? "the number of microbatches must be a multiple of the rounds (microbatches / stages, rounded down)"
             : NULL;
}

static const char *refuse_interleaved_ragged(const bt_schedule_params *params) {
  const char *reason = refuse_interleaved(params);
  return reason != NULL ? reason : refuse_pytorch_zb(params);
}

static const char *refuse_zb_h1(const bt_schedule_params *params) {
  return params->microbatches < params->stages ? "at least as many microbatches as stages are needed" : NULL;
}

static const char *refuse_zb_h2(const bt_schedule_params *params) {
  return params->microbatches < 2 * params->stages - 1 ? "at least 2 x stages - 1 microbatches are needed" : NULL;
}

static const char *refuse_dualpipe(const bt_schedule_params *params) {
  if (params->stages % 2 != 0) return "the number of stages must be even";
  if (params->microbatches % 2 != 0) return "the number of microbatches must be even";
  return params->microbatches < 2 * params->stages ? "at least 2 x stages microbatches are needed" : NULL;
}

static const char *refuse_dualpipev(const bt_schedule_params *params) {
  return params->microbatches < 2 * params->stages ? "at least 2 x stages microbatches are needed" : NULL;
}

static const char *refuse_chimera(const bt_schedule_params *params) {
  if (params->stages % 2 != 0) return "the number of stages must be even";
  return params->microbatches % params->stages != 0
             ? "the number of microbatches must be a multiple of the number of stages"
             : NULL;
}

enum { MANY = BT_MAX_CHUNKS };

/* What W still needs of an activation after B: 32 h of 34 h + 5 a s a token (Zero Bubble, table 2) for models of 6 to 28
 * billion parameters. */
static const double usual_w_memory = 0.44;

const bt_schedule_family bt_schedule_families[] = {
    {"gpipe", "all forwards, then all backwards", BT_PLACE_LOOP, 1, 1, 1, false, false, NULL, bt_schedule_gpipe},
    {"1f1b", "one forward, one backward (PipeDream-Flush)", BT_PLACE_LOOP, 1, 1, 1, false, false, NULL,
     bt_schedule_1f1b},
    {"interleaved", "1F1B over several chunks a stage (Megatron-LM)", BT_PLACE_LOOP, 2, MANY, 2, false, false,
     refuse_interleaved_ragged, bt_schedule_interleaved},
    {"looped-bfs", "breadth-first over chunks, backwards in reverse (as PyTorch)", BT_PLACE_LOOP, 1, MANY, 2, false,
     false, NULL, bt_schedule_looped_bfs},
    {"zb-h1", "zero bubble within the memory of 1F1B, handcrafted", BT_PLACE_LOOP, 1, 1, 1, true, false, refuse_zb_h1,
     bt_schedule_zb_h1},
    {"zb-h2", "zero bubble with twice the memory, handcrafted", BT_PLACE_LOOP, 1, 1, 1, true, false, refuse_zb_h2,
     bt_schedule_zb_h2},
    {"pytorch-zb", "interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble)", BT_PLACE_LOOP, 1, MANY, 2, true,
     false, refuse_pytorch_zb, bt_schedule_pytorch_zb},
    {"zb-v", "zero bubble over two chunks in a V, handcrafted (as PyTorch)", BT_PLACE_V, 2, 2, 2, true, false, NULL,
     bt_schedule_zb_v},
    {"v-half", "two chunks in a V, half the activations of 1F1B", BT_PLACE_V, 2, 2, 2, true, false, NULL,
     bt_schedule_v_half},
    {"v-min", "two chunks in a V, a third of the activations of 1F1B", BT_PLACE_V, 2, 2, 2, true, false, NULL,
     bt_schedule_v_min},
    {"zeropp", "blockwise (ZeroPP-style: the paper's idea, not its tables)", BT_PLACE_LOOP, 1, MANY, 2, true, false,
     NULL, bt_schedule_zeropp},
    {"dualpipe", "two directions, forward and backward overlapped (DeepSeek)", BT_PLACE_BOTH, 2, 2, 2, true, false,
     refuse_dualpipe, bt_schedule_dualpipe},
    {"dualpipev", "DualPipe folded into a V", BT_PLACE_V, 2, 2, 2, true, false, refuse_dualpipev,
     bt_schedule_dualpipev},
    {"chimera", "two 1F1B pipelines of opposite direction, units directly concatenated", BT_PLACE_BOTH, 2, 2, 2, false,
     false, refuse_chimera, bt_schedule_chimera},
    {"zb-auto", "zero bubble by the authors' heuristic, for durations and memory (ZB-1p, ZB-2p)", BT_PLACE_LOOP, 1, 1,
     1, true, true, NULL, bt_schedule_zb_auto},
    {"zb-v-auto", "ZB-V by the authors' heuristic, for durations and memory", BT_PLACE_V, 2, 2, 2, true, true, NULL,
     bt_schedule_zb_v_auto},
    {NULL, NULL, BT_PLACE_LOOP, 0, 0, 0, false, false, NULL, NULL},
};

/* Other names of the families, as frameworks and papers write them; letters and digits only, lower case. */
static const struct {
  const char *alias, *name;
} aliases[] = {
    {"pipedreamflush", "1f1b"},
    {"interleaved1f1b", "interleaved"},
    {"1f1bi", "interleaved"},
    {"1f1binterleaved", "interleaved"},
    {"vpp", "interleaved"},
    {"loopedbreadthfirst", "looped-bfs"},
    {"breadthfirst", "looped-bfs"},
    {"zerobubbleh1", "zb-h1"},
    {"zerobubbleh2", "zb-h2"},
    {"interleavedzerobubble", "pytorch-zb"},
    {"zbvzerobubble", "zb-v"},
    {"zbvhandcrafted", "zb-v"},
    {"zb1p", "zb-auto"},
    {"zb2p", "zb-auto"},
    {"zerobubble", "zb-auto"},
    {"zbv", "zb-v"},
    {"vzb", "zb-v-auto"},
    {"zeroppstyle", "zeropp"},
};

static void squeeze(const char *name, char *out, size_t room) {
  size_t used = 0;
  for (; *name != 0 && used + 1 < room; name++) {
    if (isalnum((unsigned char)*name)) out[used++] = (char)tolower((unsigned char)*name);
  }
  out[used] = 0;
}

static const bt_schedule_family *find_squeezed(const char *wanted) {
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    char name[64];
    squeeze(family->name, name, sizeof name);
    if (strcmp(name, wanted) == 0) return family;
  }
  return NULL;
}

const bt_schedule_family *bt_schedule_find(const char *name) {
  char wanted[64];
  squeeze(name, wanted, sizeof wanted);
  const bt_schedule_family *family = find_squeezed(wanted);
  for (size_t i = 0; family == NULL && i < sizeof aliases / sizeof *aliases; i++) {
    char target[64];
    squeeze(aliases[i].name, target, sizeof target);
    if (strcmp(aliases[i].alias, wanted) == 0) family = find_squeezed(target);
  }
  return family;
}

static bt_status check(const bt_schedule_family *family, const bt_schedule_params *params, bt_error *error) {
  if (params->stages < 1 || params->microbatches < 1 || params->chunks < 0) {
    return bt_fail(error, BT_ERR_ARG, "stages and microbatches must be at least 1");
  }
  if (params->forward < 0 || params->backward < 0 || params->weight < 0 || params->comm < 0) {
    return bt_fail(error, BT_ERR_ARG, "durations must not be negative");
  }
  if (!(params->memory > 0) || !(params->w_memory > 0 && params->w_memory <= 1)) {
    return bt_fail(error, BT_ERR_ARG, "memory must be over 0, and W's share of it over 0 and at most 1");
  }
  if (params->chunks < family->least_chunks || params->chunks > family->most_chunks) {
    if (family->least_chunks == family->most_chunks) {
      return bt_fail(error, BT_ERR_ARG, "%s has %d chunk%s a stage, not %d", family->name, family->most_chunks,
                     family->most_chunks == 1 ? "" : "s", params->chunks);
    }
    return bt_fail(error, BT_ERR_ARG, "%s needs %d to %d chunks a stage, not %d", family->name, family->least_chunks,
                   family->most_chunks, params->chunks);
  }
  int64_t ops = (int64_t)params->stages * params->microbatches * params->chunks * 3;
  if (params->stages > BT_SCHEDULE_MAX_STAGES || params->microbatches > BT_SCHEDULE_MAX_OPS ||
      ops > BT_SCHEDULE_MAX_OPS) {
    return bt_fail(error, BT_ERR_LIMIT, "%d stages with %d microbatches are more than the %d ops a step can have here",
                   params->stages, params->microbatches, BT_SCHEDULE_MAX_OPS);
  }
  const char *reason = family->refuse == NULL ? NULL : family->refuse(params);
  if (reason != NULL) {
    return bt_fail(error, BT_ERR_ARG, "%s with %d stages and %d microbatches: %s", family->name, params->stages,
                   params->microbatches, reason);
  }
  return BT_OK;
}

static void place(bt_schedule *schedule) {
  int32_t p = schedule->stages, v = schedule->chunks;
  bt_placement placement = schedule->family->placement;
  schedule->virtual_stages = placement == BT_PLACE_BOTH ? p : p * v;
  for (int32_t stage = 0; stage < p; stage++) {
    for (int32_t chunk = 0; chunk < v; chunk++) {
      int32_t mirrored = schedule->virtual_stages - 1 - stage;
      bool back = placement != BT_PLACE_LOOP && chunk == 1;
      schedule->vstage[stage * v + chunk] = back ? mirrored : placement == BT_PLACE_LOOP ? chunk * p + stage : stage;
    }
  }
}

bt_status bt_schedule_make(const bt_schedule_family *family, const bt_schedule_params *params, bt_schedule **out,
                           bt_error *error) {
  *out = NULL;
  bt_schedule_params used = *params;
  if (used.chunks == 0) used.chunks = family->usual_chunks;
  if (used.memory == 0) used.memory = used.stages;
  if (used.w_memory == 0) used.w_memory = usual_w_memory;
  if (used.forward + used.backward + used.weight + used.comm == 0) used.forward = used.backward = used.weight = 1;
  bt_status status = check(family, &used, error);
  if (status != BT_OK) return status;
  bt_schedule *schedule = calloc(1, sizeof *schedule);
  if (schedule == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for a schedule");
  schedule->family = family;
  schedule->params = used;
  schedule->stages = used.stages;
  schedule->chunks = used.chunks;
  schedule->microbatches = used.microbatches;
  schedule->room = (size_t)used.microbatches * (size_t)used.chunks * 3;
  schedule->vstage = calloc((size_t)(used.stages * used.chunks), sizeof *schedule->vstage);
  schedule->ops = malloc((size_t)used.stages * schedule->room * sizeof *schedule->ops);
  schedule->counts = calloc((size_t)used.stages, sizeof *schedule->counts);
  if (schedule->vstage == NULL || schedule->ops == NULL || schedule->counts == NULL) {
    bt_schedule_free(schedule);
    return bt_fail(error, BT_ERR_NOMEM, "no memory for a schedule of %d microbatches", used.microbatches);
  }
  place(schedule);
  status = family->make(schedule, &used, error);
  if (status == BT_OK) {
    *out = schedule;
  } else {
    bt_schedule_free(schedule);
  }
  return status;
}

void bt_schedule_free(bt_schedule *schedule) {
  if (schedule == NULL) return;
  free(schedule->vstage);
  free(schedule->ops);
  free(schedule->counts);
  free(schedule);
}

void bt_schedule_put(bt_schedule *schedule, int32_t stage, bt_code kind, int32_t chunk, int32_t microbatch) {
  bt_op *op = &schedule->ops[(size_t)stage * schedule->room + schedule->counts[stage]++];
  *op = bt_op_make(kind, chunk, schedule->vstage[stage * schedule->chunks + chunk], microbatch);
}

void bt_schedule_put_fb(bt_schedule *schedule, int32_t stage, int32_t chunk, int32_t microbatch, int32_t chunk_b,
                        int32_t microbatch_b) {
  bt_schedule_put(schedule, stage, BT_FB, chunk, microbatch);
  bt_op *op = &schedule->ops[(size_t)stage * schedule->room + schedule->counts[stage] - 1];
  op->chunk_b = (int16_t)chunk_b;
  op->vstage_b = schedule->vstage[stage * schedule->chunks + chunk_b];
  op->microbatch_b = microbatch_b;
}
