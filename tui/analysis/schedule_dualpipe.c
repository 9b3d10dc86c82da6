/* DualPipe and DualPipeV: the eight steps of deepseek-ai/DualPipe (dualpipe.py, dualpipev.py; DeepSeek-V3, arXiv
 * 2412.19437), DualPipeV as PyTorch's ScheduleDualPipeV orders it. Phase 0 is the direction (or chunk) whose pipeline
 * begins nearer to this rank. */
#include "tui/analysis/schedule.h"

typedef struct writer {
  bt_schedule *schedule;
  int32_t stage;
  int32_t chunk_of[2]; /* phase -> chunk */
  int32_t first[2]; /* first microbatch of a chunk */
  int32_t f[2], b[2]; /* microbatches done, per chunk */
  size_t weights_from; /* B's before this op of the rank have had their W */
} writer;

static void forward(writer *to, int phase) {
  int32_t chunk = to->chunk_of[phase];
  bt_schedule_put(to->schedule, to->stage, BT_F, chunk, to->first[chunk] + to->f[chunk]++);
}

static void backward(writer *to, int phase, bool split) {
  int32_t chunk = to->chunk_of[phase], microbatch = to->first[chunk] + to->b[chunk]++;
  bt_schedule_put(to->schedule, to->stage, split ? BT_B : BT_BW, chunk, microbatch);
}

/* W of the oldest B that is still owed one: first in, first out, over both chunks. */
static void weight(writer *to) {
  size_t count;
  const bt_op *ops = bt_schedule_order(to->schedule, to->stage, &count);
  while (to->weights_from < count && ops[to->weights_from].kind != BT_B)
    to->weights_from++;
  if (to->weights_from == count) return;
  const bt_op *owed = &ops[to->weights_from++];
  bt_schedule_put(to->schedule, to->stage, BT_W, owed->chunk, owed->microbatch);
}

static void overlapped(writer *to, int phase_f, int phase_b) {
  int32_t f = to->chunk_of[phase_f], b = to->chunk_of[phase_b];
  bt_schedule_put_fb(to->schedule, to->stage, f, to->first[f] + to->f[f], b, to->first[b] + to->b[b]);
  to->f[f]++;
  to->b[b]++;
}

/* `half` ranks share the work; r is the rank's distance from the near end of the pipeline, m the microbatches of one
 * direction. */
static void eight_steps(writer *to, int32_t half, int32_t r, int32_t m) {
  for (int32_t i = 0; i < 2 * (half - r - 1); i++)
    forward(to, 0);
  for (int32_t i = 0; i <= r; i++) {
    forward(to, 0);
    forward(to, 1);
  }
  for (int32_t i = 0; i < half - r - 1; i++) {
    backward(to, 1, true);
    weight(to);
    forward(to, 1);
  }
  for (int32_t i = 0; i < m - 2 * half + r + 1; i++) {
    if (i == 0 && r == half - 1) { /* apart, which shortens the bubble */
      forward(to, 0);
      backward(to, 1, false);
    } else {
      overlapped(to, 0, 1);
    }
    overlapped(to, 1, 0);
  }
  for (int32_t i = 0; i < half - r - 1; i++) {
    backward(to, 1, false);
    overlapped(to, 1, 0);
  }
  bool split = false;
  for (int32_t i = 0; i <= r; i++) {
    if (i == (r + 1) / 2 && r % 2 == 1) split = true;
    backward(to, 1, split);
    if (i == (r + 1) / 2 && r % 2 == 0) split = true;
    backward(to, 0, split);
  }
  for (int32_t i = 0; i < half - r - 1; i++) {
    weight(to);
    backward(to, 0, true);
  }
  for (int32_t i = 0; i <= r; i++)
    weight(to);
}

bt_status bt_schedule_dualpipe(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  int32_t p = schedule->stages, m = schedule->microbatches;
  for (int32_t stage = 0; stage < p; stage++) {
    bool far = stage >= p / 2;
    writer to = {schedule, stage, {far, !far}, {0, m / 2}, {0, 0}, {0, 0}, 0};
    eight_steps(&to, p / 2, far ? p - 1 - stage : stage, m / 2);
  }
  return BT_OK;
}

bt_status bt_schedule_dualpipev(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  for (int32_t stage = 0; stage < schedule->stages; stage++) {
    writer to = {schedule, stage, {0, 1}, {0, 0}, {0, 0}, {0, 0}, 0};
    eight_steps(&to, schedule->stages, stage, schedule->microbatches);
  }
  return BT_OK;
}
