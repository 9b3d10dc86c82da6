/* What the ranks of a simulated step would have recorded. */
#include <stdlib.h>

#include "tui/analysis/simulate_plan.h"

static bt_event *append(bt_simulation *simulation, bt_code code, int64_t start, int64_t end) {
  if (simulation->event_count == simulation->event_room) {
    size_t room = simulation->event_room * 2 + 256;
    bt_event *events = realloc(simulation->events, room * sizeof *events);
    if (events == NULL) return NULL;
    simulation->events = events;
    simulation->event_room = room;
  }
  bt_event *event = &simulation->events[simulation->event_count++];
  bt_event_init(event, code);
  event->start = start;
  event->duration = end - start;
  return event;
}

/* A message as seen from one of its sides; `half` is the consuming op's. */
typedef struct message_view {
  size_t half;
  bool backward;
  int32_t peer;
  const bt_op *op; /* the side's own */
} message_view;

static int64_t arrival_of(const bt_simulation *simulation, size_t half) {
  const bt_replay *replay = simulation->replay;
  const bt_op_cost *cost = &replay->costs[half / 2];
  return replay->times[replay->producer[half]].end + (half % 2 == 0 ? cost->transfer : cost->transfer_b);
}

static int64_t sequence_of(const bt_simulation *simulation, size_t half) {
  const bt_planned_message *message = &simulation->messages[half];
  return message->number + simulation->step * (int64_t)message->per_step;
}

static void describe_message(const bt_simulation *simulation, bt_event *event, const message_view *view) {
  bool of_backward_half = view->op->kind == BT_FB && view->backward;
  event->chunk = of_backward_half ? view->op->chunk_b : view->op->chunk;
  event->microbatch = of_backward_half ? view->op->microbatch_b : view->op->microbatch;
  event->peer = view->peer;
  event->group = GROUP_PP + 1;
  event->bytes = simulation->params.message_bytes / simulation->params.tp;
  event->sequence = sequence_of(simulation, view->half);
}

static bool send_halves(bt_simulation *simulation, size_t op) {
  const bt_replay *replay = simulation->replay;
  for (size_t slot = 2 * op; slot <= 2 * op + 1; slot++) {
    uint32_t half = simulation->consumer[slot];
    if (half == BT_NO_OP) continue;
    message_view view = {half, bt_half_is_backward(&replay->ops[half / 2], half), bt_rank_of_op(simulation, half / 2),
                         &replay->ops[op]};
    bt_event *event =
        append(simulation, view.backward ? BT_SEND_B : BT_SEND_F, replay->times[op].end, arrival_of(simulation, half));
    if (event == NULL) return false;
    describe_message(simulation, event, &view);
  }
  return true;
}

/* The messages an op needs, and what its lane was blocked on since `free_at`: in the order of their arrival. */
static bool receive_halves(bt_simulation *simulation, size_t op, int64_t *free_at) {
  const bt_replay *replay = simulation->replay;
  bool both = replay->producer[2 * op] != BT_NO_OP && replay->producer[2 * op + 1] != BT_NO_OP;
  bool swap = both && arrival_of(simulation, 2 * op + 1) < arrival_of(simulation, 2 * op);
  int64_t idle_since = *free_at;
  for (size_t i = 0; i < 2; i++) {
    size_t half = 2 * op + (swap ? 1 - i : i);
    if (replay->producer[half] == BT_NO_OP) continue;
    message_view view = {half, bt_half_is_backward(&replay->ops[op], half),
                         bt_rank_of_op(simulation, replay->producer[half]), &replay->ops[op]};
    bt_code code = view.backward ? BT_RECV_B : BT_RECV_F;
    int64_t sent = replay->times[replay->producer[half]].end, arrival = arrival_of(simulation, half);
    bt_event *event = append(simulation, code, idle_since < sent ? idle_since : sent, arrival);
    if (event == NULL) return false;
    describe_message(simulation, event, &view);
    if (arrival <= *free_at) continue;
    event = append(simulation, BT_GATE, *free_at, arrival);
    if (event == NULL) return false;
    describe_message(simulation, event, &view);
    event->bytes = -1;
    event->on_code = (uint8_t)code;
    event->count = 1;
    *free_at = arrival;
  }
  return true;
}

static bool collective_event(bt_simulation *simulation, const bt_planned_collective *collective, const bt_op_time *time,
                             const bt_stage_plan *plan) {
  bt_event *event = append(simulation, collective->code, time->start, time->end);
  if (event == NULL) return false;
  event->chunk = (int16_t)collective->chunk;
  event->microbatch = collective->microbatch;
  event->group = (uint32_t)collective->group + 1;
  event->bytes = collective->bytes;
  event->sequence = collective->number + simulation->step * (int64_t)plan->per_step[collective->group];
  return true;
}

static bool gate_on_collective(bt_simulation *simulation, const bt_op *op, const bt_planned_collective *collective,
                               const bt_stage_plan *plan, int64_t end, int64_t *free_at) {
  if (end <= *free_at) return true;
  bt_event *event = append(simulation, BT_GATE, *free_at, end);
  if (event == NULL) return false;
  event->chunk = op->chunk;
  event->microbatch = op->microbatch;
  event->group = (uint32_t)collective->group + 1;
  event->sequence = collective->number + simulation->step * (int64_t)plan->per_step[collective->group];
  event->on_code = (uint8_t)collective->code;
  event->count = 1;
  *free_at = end;
  return true;
}

static bool compute_event(bt_simulation *simulation, const bt_op *op, const bt_op_time *time, const bt_stage_plan *plan,
                          uint32_t *reduced) {
  if (op->kind == BT_NONE || op->kind == BT_HOST) return true;
  bt_event *event;
  if (simulation->params.tp > 1 && bt_ends_in_tp_reduce(op->kind)) {
    bt_planned_collective reduce = {
        BT_ALL_REDUCE, GROUP_TP,    op->chunk, op->microbatch, simulation->params.message_bytes, 0,
        BT_NO_OP,      (*reduced)++};
    bt_op_time shared = {time->own_end, time->end, time->end, 0, 0};
    if (!collective_event(simulation, &reduce, &shared, plan)) return false;
  }
  event = append(simulation, (bt_code)op->kind, time->start, time->end);
  if (event == NULL) return false;
  event->chunk = op->chunk;
  event->microbatch = op->microbatch;
  if (op->kind == BT_FB) {
    event->chunk_b = op->chunk_b;
    event->microbatch_b = op->microbatch_b;
  }
  return true;
}

static bool compute_lane(bt_simulation *simulation, int32_t rank, const bt_stage_plan *plan) {
  const bt_replay *replay = simulation->replay;
  size_t first = replay->first[rank], collectives = replay->first[simulation->ranks + rank];
  uint32_t reduced = 0;
  int64_t free_at = simulation->begin[rank];
  for (size_t i = 0; i < plan->op_count; i++) {
    size_t op = first + i;
    if (plan->waits[i] != BT_NO_OP) {
      int64_t end = replay->times[collectives + plan->waits[i]].end;
      if (!gate_on_collective(simulation, &replay->ops[op], &plan->collectives[plan->waits[i]], plan, end, &free_at)) {
        return false;
      }
    }
    if (!receive_halves(simulation, op, &free_at)) return false;
    if (!compute_event(simulation, &replay->ops[op], &replay->times[op], plan, &reduced)) return false;
    if (!send_halves(simulation, op)) return false;
    free_at = replay->times[op].end;
  }
  return true;
}

/* By end, as the records of a thread come; a part before the whole. */
static int by_end(const void *a, const void *b) {
  const bt_event *x = a, *y = b;
  int64_t end_x = bt_event_end(x), end_y = bt_event_end(y);
  if (end_x != end_y) return end_x < end_y ? -1 : 1;
  if (x->start != y->start) return x->start > y->start ? -1 : 1;
  return (x->code > y->code) - (x->code < y->code);
}

static bool mark(bt_simulation *simulation, bt_code code, int64_t time) {
  bt_event *event = append(simulation, code, time, time);
  if (event != NULL) event->step = simulation->step;
  return event != NULL;
}

const bt_event *bt_simulation_events(bt_simulation *simulation, int32_t rank, size_t *count) {
  const bt_stage_plan *plan = &simulation->plans[bt_place_of(simulation, rank).stage];
  const bt_op_time *collectives = &simulation->replay->times[simulation->replay->first[simulation->ranks + rank]];
  simulation->event_count = 0;
  bool ok = mark(simulation, BT_STEP_BEGIN, simulation->begin[rank]) && compute_lane(simulation, rank, plan);
  for (size_t i = 0; ok && i < plan->collective_count; i++)
    ok = collective_event(simulation, &plan->collectives[i], &collectives[i], plan);
  if (!ok) return NULL;
  qsort(simulation->events + 1, simulation->event_count - 1, sizeof *simulation->events, by_end);
  if (!mark(simulation, BT_STEP_END, simulation->end[rank])) return NULL;
  *count = simulation->event_count;
  return simulation->events;
}
