/* Prints what a run holds, a line a span in order of start, for the tests in Python:
 * rank, kind, start, duration, chunk, microbatch, peer, bytes, sequence, group, chunk_b, microbatch_b, flags, kind waited for.
 * Then "step RANK ID BEGIN END", "layout RANK KEY VALUE...", "mark RANK NAME", "problem TEXT". */
#include <inttypes.h>
#include <stdio.h>

#include "formats/run.h"

static void print_spans(const bt_rank *rank, const bt_track *track) {
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more none = {.bytes = -1, .peer = -1, .microbatch_b = -1};
    const bt_span_more *more = bt_span_details(track, span);
    if (more == NULL) more = &none;
    printf("span %d %s %" PRId64 " %" PRId64 " %d %d %d %" PRId64 " %" PRId64 " %u %d %d %u %s\n", rank->rank,
           bt_code_name(span->kind), span->start, bt_span_duration(track, span), span->chunk, span->microbatch,
           more->peer, more->bytes, bt_span_sequence(track, span), more->group, more->chunk_b, more->microbatch_b,
           (unsigned)span->flags, more->on_code != BT_NONE ? bt_code_name(more->on_code) : "-");
  }
}

static void print_rank(const bt_trace *trace, const bt_rank *rank) {
  const bt_layout *layout = &rank->layout;
  for (int lane = 0; lane < BT_LANE_COUNT; lane++)
    print_spans(rank, &rank->tracks[lane]);
  for (size_t i = 0; i < rank->step_count; i++)
    printf("step %d %" PRId64 " %" PRId64 " %" PRId64 "\n", rank->rank, rank->steps[i].id, rank->steps[i].begin,
           rank->steps[i].end);
  printf("layout %d pp %d %d dp %d %d chunks %d microbatches %d virtual %d separable %d schedule %s vstages",
         rank->rank, layout->pp_rank, layout->pp_size, layout->dp_rank, layout->dp_size, layout->chunks,
         layout->microbatches, layout->virtual_stages, layout->w_separable,
         layout->schedule[0] != '\0' ? layout->schedule : "-");
  for (int chunk = 0; chunk < layout->chunks; chunk++)
    printf(" %d", bt_rank_vstage(rank, chunk));
  printf("\n");
  for (size_t i = 0; i < rank->mark_count; i++)
    printf("mark %d %s\n", rank->rank, trace->names[rank->marks[i].name]);
}

int main(int argc, char **argv) {
  const char *path = argc == 2 ? argv[1] : ".";
  const bt_run_options options = {.rings = false};
  bt_error error = {BT_OK, ""};
  bt_run *run = NULL;
  bt_status status = bt_run_open(&path, 1, &options, &run, &error);
  while (status == BT_OK)
    status = bt_run_poll(run, 0, &error);
  if (status < 0) {
    fprintf(stderr, "%s\n", error.text);
    return 3;
  }
  const bt_trace *trace = bt_run_trace(run);
  for (size_t i = 0; i < trace->rank_count; i++)
    print_rank(trace, &trace->ranks[i]);
  size_t count;
  const bt_problem *problems = bt_run_problems(run, &count);
  for (size_t i = 0; i < count; i++)
    printf("problem %s\n", problems[i].text);
  bt_run_close(run);
  return 0;
}
