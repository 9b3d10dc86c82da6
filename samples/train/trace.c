#include "samples/train/trace.h"

#include <inttypes.h>
#include <stdio.h>

/* What bubbletop needs to know to draw ranks as stages. All of it can also be said later, or left out. */
static void say_layout(const struct trace *trace, const struct options *o, const struct plan *plan) {
  int32_t vstages[MAX_CHUNKS];
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  for (int chunk = 0; chunk < o->chunks; chunk++)
    vstages[chunk] = plan_vstage(o, stage_of(o, o->rank), chunk);
  layout.pp_rank = stage_of(o, o->rank);
  layout.pp_size = o->stages;
  layout.dp_rank = replica_of(o, o->rank);
  layout.dp_size = o->replicas;
  layout.chunks = o->chunks;
  layout.microbatches = o->microbatches;
  layout.virtual_stages = plan_vstages(plan);
  layout.vstages = vstages;
  layout.w_separable = plan->w_separable;
  layout.schedule = o->declare ? o->schedule : NULL; /* bubbletop finds it out from the order of the ops */
  bubbletop_layout_set(trace->session, &layout);
}

/* The communicators that the comm spans name. */
static void say_groups(struct trace *trace, const struct options *o) {
  int32_t members[MAX_STAGES * MAX_REPLICAS];
  for (int stage = 0; stage < o->stages; stage++)
    members[stage] = rank_of(o, stage, replica_of(o, o->rank));
  trace->pipeline = bubbletop_group(trace->session, BUBBLETOP_PP, members, (size_t)o->stages);
  for (int replica = 0; replica < o->replicas; replica++)
    members[replica] = rank_of(o, stage_of(o, o->rank), replica);
  if (o->replicas > 1) trace->data = bubbletop_group(trace->session, BUBBLETOP_DP, members, (size_t)o->replicas);
  for (int rank = 0; rank < options_world(o); rank++)
    members[rank] = rank;
  if (o->barrier) trace->world = bubbletop_group(trace->session, BUBBLETOP_WORLD, members, (size_t)options_world(o));
}

void trace_open(struct trace *trace, const struct options *o, const struct plan *plan) {
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.directory = o->out;
  config.rank = o->rank;
  config.world_size = options_world(o);
  *trace = (struct trace){0};
  bubbletop_status status = bubbletop_open(&config, &trace->session);
  if (status < 0) fprintf(stderr, "pipeline_train: rank %d: no capture: %s\n", o->rank, bubbletop_last_error());
  say_layout(trace, o, plan);
  say_groups(trace, o);
  char model[64];
  snprintf(model, sizeof model, "MLP, %d layers of %d", o->layers, o->hidden);
  bubbletop_meta(trace->session, "model", model);
  bubbletop_meta(trace->session, "compute", o->timed ? "timed waits" : "real arithmetic");
}

static void print_stats(const struct trace *trace, int rank) {
  bubbletop_stats stats = {.size = sizeof stats};
  if (bubbletop_get_stats(trace->session, &stats) != BUBBLETOP_OK) return;
  printf("rank %d captured: records=%" PRIu64 " dropped=%" PRIu64 " misuse=%" PRIu64 " bytes=%" PRIu64 " file=%s\n",
         rank, stats.recorded, stats.dropped, stats.misuse + stats.double_ends + stats.unbegun_ends,
         stats.bytes_written, stats.path);
}

void trace_close(struct trace *trace, const struct options *o) {
  if (trace->session == NULL) return;
  bubbletop_status status = bubbletop_flush(trace->session, 2000);
  if (o->stats) print_stats(trace, o->rank);
  if (bubbletop_close(trace->session, 0) < 0 || status < 0)
    fprintf(stderr, "pipeline_train: rank %d: the end of the capture could not be written in time\n", o->rank);
  trace->session = NULL;
}
