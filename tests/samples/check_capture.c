/* Compares a run that the sample trainer captured with what its options say it must have done.
 * usage: check_capture RUN [OPTION OF THE TRAINER]...
 * Every op of every step is there, in the schedule's order; every message is on both sides with one sequence number;
 * no op starts before its message is in; marks, groups and layout are right; nothing was dropped. */
#include <stdio.h>
#include <stdlib.h>

#include "formats/run.h"
#include "samples/train/schedule.h"

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                           \
      printf(__VA_ARGS__);                                                                                             \
      printf("\n");                                                                                                    \
      return -1;                                                                                                       \
    }                                                                                                                  \
  } while (0)

struct run {
  struct options o;
  struct plan plan;
  bt_trace *trace;
};

static const bt_code codes[] = {[OP_F] = BT_F, [OP_B] = BT_B, [OP_W] = BT_W, [OP_BW] = BT_BW};

static bool is_op(const bt_span *span) {
  return bt_code_is_pipeline_op(span->kind);
}

static int check_order(const struct run *run, const bt_rank *rank) {
  const struct order *order = &run->plan.orders[stage_of(&run->o, rank->rank)];
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  int64_t seen = 0, optimizers = 0, expected = order->count * run->o.steps;
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    if (span->kind == BT_OPTIMIZER) optimizers++;
    if (!is_op(span)) continue;
    const struct op *op = &order->ops[seen++ % order->count];
    CHECK(span->kind == codes[op->kind] && span->microbatch == op->microbatch && span->chunk == op->chunk,
          "rank %d, op %lld is %s%d chunk %d", rank->rank, (long long)seen - 1, bt_code_name(span->kind),
          span->microbatch, span->chunk);
  }
  CHECK(seen == expected, "rank %d ran %lld ops, captured are %lld", rank->rank, (long long)expected, (long long)seen);
  CHECK(optimizers == (run->o.timed && run->o.optimizer_ns == 0 ? 0 : run->o.steps), "rank %d", rank->rank);
  return 0;
}

static bool is_send(unsigned kind) {
  return kind == BT_SEND_F || kind == BT_SEND_B;
}

/* The other side of a message; NULL: there is none, or more than one. */
static const bt_span *find_message(const bt_rank *rank, unsigned kind, int32_t peer, int64_t sequence) {
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  const bt_span *found = NULL;
  for (size_t i = 0; i < track->count; i++) {
    const bt_span_more *more = bt_span_details(track, &track->spans[i]);
    if (more == NULL || is_send(track->spans[i].kind) != is_send(kind)) continue;
    if (more->peer != peer || bt_span_sequence(track, &track->spans[i]) != sequence) continue;
    if (found != NULL || track->spans[i].kind != kind) return NULL;
    found = &track->spans[i];
  }
  return found;
}

static int check_messages(const struct run *run, const bt_rank *rank) {
  const struct order *order = &run->plan.orders[stage_of(&run->o, rank->rank)];
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  int64_t sends = 0, receives = 0, expected_sends = 0, expected_receives = 0;
  for (int i = 0; i < order->count; i++) {
    const struct op *op = &order->ops[i];
    expected_sends += op->to.stage >= 0 && op->to.stage != stage_of(&run->o, rank->rank) ? run->o.steps : 0;
    expected_receives += op->from.stage >= 0 ? run->o.steps : 0;
  }
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    CHECK(more != NULL && more->peer >= 0 && bt_span_sequence(track, span) >= 0 && more->group != 0, "rank %d",
          rank->rank);
    CHECK(more->bytes == (int64_t)run->o.batch * run->o.hidden * 4, "rank %d", rank->rank);
    *(is_send(span->kind) ? &sends : &receives) += 1;
    if (!is_send(span->kind)) continue;
    const bt_rank *peer = bt_trace_find(run->trace, more->peer);
    unsigned other = span->kind == BT_SEND_F ? BT_RECV_F : BT_RECV_B;
    const bt_span *receive = peer != NULL ? find_message(peer, other, rank->rank, bt_span_sequence(track, span)) : NULL;
    CHECK(receive != NULL && receive->microbatch == span->microbatch, "rank %d to %d, sequence %lld", rank->rank,
          more->peer, (long long)bt_span_sequence(track, span));
    CHECK(bt_span_end(&peer->tracks[BT_LANE_P2P], receive) >= span->start, "rank %d to %d", rank->rank, more->peer);
  }
  CHECK(sends == expected_sends && receives == expected_receives, "rank %d: %lld sends, %lld receives", rank->rank,
        (long long)sends, (long long)receives);
  return 0;
}

/* A gate ends when its message is in, and the op that waited for it follows. */
static int check_gates(const bt_rank *rank, size_t *gates) {
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE], *p2p = &rank->tracks[BT_LANE_P2P];
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *gate = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, gate);
    if (gate->kind != BT_GATE) continue;
    CHECK(more != NULL, "rank %d: a gate on nothing", rank->rank);
    if (bt_code_is_collective(more->on_code)) continue;
    const bt_span *receive = find_message(rank, more->on_code, more->peer, bt_span_sequence(track, gate));
    CHECK(receive != NULL && receive->microbatch == gate->microbatch, "rank %d", rank->rank);
    int64_t arrival = bt_span_end(p2p, receive);
    CHECK(gate->start <= arrival && bt_span_end(track, gate) >= arrival, "rank %d", rank->rank);
    CHECK(i + 1 < track->count && track->spans[i + 1].microbatch == gate->microbatch &&
              track->spans[i + 1].chunk == gate->chunk && track->spans[i + 1].start >= arrival,
          "rank %d: no op after the gate", rank->rank);
    ++*gates;
  }
  return 0;
}

static int check_marks(const struct run *run, const bt_rank *rank) {
  const struct options *o = &run->o;
  CHECK(rank->step_count == (size_t)o->steps, "rank %d: %zu steps", rank->rank, rank->step_count);
  for (size_t i = 0; i < rank->step_count; i++)
    CHECK(rank->steps[i].id == (int64_t)i && rank->steps[i].begin <= rank->steps[i].end, "rank %d", rank->rank);
  CHECK(rank->mark_count == (size_t)o->steps, "rank %d: %zu counter samples", rank->rank, rank->mark_count);
  const bt_track *collective = &rank->tracks[BT_LANE_COLLECTIVE];
  size_t collectives = (size_t)o->steps * ((o->replicas > 1) + (size_t)o->barrier);
  CHECK(collective->count == collectives, "rank %d: %zu collectives", rank->rank, collective->count);
  CHECK(rank->group_count == 1 + (size_t)(o->replicas > 1) + (size_t)o->barrier, "rank %d", rank->rank);
  CHECK(rank->life_count == 1 && rank->lives[0].ended, "rank %d did not end", rank->rank);
  CHECK(rank->dropped == 0 && rank->loss_count == 0 && rank->open_count == 0, "rank %d", rank->rank);
  return 0;
}

static int check_layout(const struct run *run, const bt_rank *rank) {
  const struct options *o = &run->o;
  const bt_layout *layout = &rank->layout;
  CHECK(layout->pp_rank == stage_of(o, rank->rank) && layout->pp_size == o->stages, "rank %d", rank->rank);
  CHECK(layout->dp_rank == replica_of(o, rank->rank) && layout->dp_size == o->replicas, "rank %d", rank->rank);
  CHECK(layout->chunks == o->chunks && layout->microbatches == o->microbatches, "rank %d", rank->rank);
  CHECK(layout->virtual_stages == o->stages * o->chunks, "rank %d", rank->rank);
  for (int chunk = 0; chunk < o->chunks; chunk++)
    CHECK(bt_rank_vstage(rank, chunk) == plan_vstage(o, layout->pp_rank, chunk), "rank %d", rank->rank);
  CHECK(layout->w_separable == run->plan.w_separable, "rank %d", rank->rank);
  CHECK((layout->schedule[0] != '\0') == o->declare, "rank %d: schedule %s", rank->rank, layout->schedule);
  return 0;
}

static int check(const struct run *run) {
  size_t gates = 0;
  CHECK(run->trace->rank_count == (size_t)options_world(&run->o), "%zu ranks", run->trace->rank_count);
  for (size_t i = 0; i < run->trace->rank_count; i++) {
    const bt_rank *rank = &run->trace->ranks[i];
    if (check_order(run, rank) != 0 || check_messages(run, rank) != 0 || check_gates(rank, &gates) != 0 ||
        check_marks(run, rank) != 0 || check_layout(run, rank) != 0)
      return -1;
  }
  CHECK(gates > 0 || run->o.stages == 1, "nobody ever waited");
  printf("%s: %llu spans as they were run, %zu waits\n", run->o.schedule, (unsigned long long)run->trace->span_count,
         gates);
  return 0;
}

int main(int argc, char **argv) {
  struct run run;
  struct failure why;
  bt_error error = {0};
  bt_run *reader = NULL;
  if (argc < 2 || options_parse(&run.o, argc - 1, argv + 1, &why) != 0 || plan_make(&run.plan, &run.o, &why) != 0)
    return 2;
  const char *path = argv[1];
  bt_status status = bt_run_open(&path, 1, &(bt_run_options){0}, &reader, &error);
  while (status == BT_OK || status == BT_DAMAGED)
    status = bt_run_poll(reader, 0, &error);
  if (status != BT_END) {
    printf("%s: %s\n", path, error.text);
    return 1;
  }
  run.trace = bt_run_trace(reader);
  int result = check(&run);
  bt_run_close(reader);
  plan_free(&run.plan);
  return result == 0 ? 0 : 1;
}
