/* Handcrafted schedules with B and W apart: ZB-H1 and ZB-H2 (Zero Bubble, arXiv 2401.10241, §2 and the order in the
 * authors' efficiency.py), interleaved zero bubble as PyTorch's ScheduleInterleavedZeroBubble orders it, and ZB-V as
 * PyTorch's ScheduleZBVZeroBubble does. */
#include "tui/analysis/schedule.h"

/* `warm` forwards a hop away from the last stage before the first B; W begins once as many B are done as rank 0 warms up
 * longer than this one, so that all stages end together. */
static void handcrafted(bt_schedule *schedule, int32_t warm_a_hop) {
  int32_t p = schedule->stages, m = schedule->microbatches;
  for (int32_t stage = 0; stage < p; stage++) {
    int32_t warm = warm_a_hop * (p - 1 - stage), f = 0, w = 0;
    while (f < warm && f < m)
      bt_schedule_put(schedule, stage, BT_F, 0, f++);
    for (int32_t b = 0; b < m; b++) {
      if (f < m) bt_schedule_put(schedule, stage, BT_F, 0, f++);
      bt_schedule_put(schedule, stage, BT_B, 0, b);
      if (b >= warm_a_hop * stage) bt_schedule_put(schedule, stage, BT_W, 0, w++);
    }
    while (w < m)
      bt_schedule_put(schedule, stage, BT_W, 0, w++);
  }
}

bt_status bt_schedule_zb_h1(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  handcrafted(schedule, 1);
  return BT_OK;
}

bt_status bt_schedule_zb_h2(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  handcrafted(schedule, 2);
  return BT_OK;
}

bt_status bt_schedule_pytorch_zb(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  int32_t p = schedule->stages, m = schedule->microbatches, v = schedule->chunks;
  int32_t rounds = m / p > 1 ? m / p : 1, group = m / rounds;
  for (int32_t stage = 0; stage < p; stage++) {
    int32_t warm = (v - 1) * group + (p - 1 - stage), f = 0, w = 0;
    for (int32_t k = -warm; k < m * v + stage; k++) {
      if (f < m * v && (k >= 0 || f < warm)) {
        bt_schedule_put(schedule, stage, BT_F, f / group % v, f / (group * v) * group + f % group);
        f++;
      }
      if (k >= 0 && k < m * v) {
        bt_schedule_put(schedule, stage, BT_B, v - 1 - k / group % v, k / (group * v) * group + k % group);
      }
      if (k < stage) continue;
      bt_schedule_put(schedule, stage, BT_W, v - 1 - w / group % v, w / (group * v) * group + w % group);
      w++;
    }
  }
  return BT_OK;
}

/* ZB-V counts microbatches per chunk and kind; those beyond m only pad the pattern and are left out. */
typedef struct v_writer {
  bt_schedule *schedule;
  int32_t stage;
  int32_t f[2], b[2], w[2];
} v_writer;

static void v_put(v_writer *writer, bt_code kind, int32_t chunk) {
  int32_t *counts = kind == BT_F ? writer->f : kind == BT_B ? writer->b : writer->w;
  int32_t microbatch = counts[chunk]++;
  if (microbatch < writer->schedule->microbatches) {
    bt_schedule_put(writer->schedule, writer->stage, kind, chunk, microbatch);
  }
}

static void v_put_fbw(v_writer *writer, int32_t chunk, bool forward) {
  if (forward) v_put(writer, BT_F, chunk);
  v_put(writer, BT_B, chunk);
  v_put(writer, BT_W, chunk);
}

static void zb_v_stage(v_writer *writer, int32_t p, int32_t m) {
  int32_t r = writer->stage;
  for (int32_t i = 0; i < 2 * (p - r) - 1; i++)
    v_put(writer, BT_F, 0);
  for (int32_t i = 0; i < r; i++) {
    v_put(writer, BT_F, 1);
    v_put(writer, BT_F, 0);
  }
  for (int32_t i = 0; i < p - r; i++)
    v_put_fbw(writer, 1, true);
  while (writer->f[1] < writer->f[0] || writer->f[0] < m) {
    v_put_fbw(writer, 0, writer->f[0] < m);
    v_put_fbw(writer, 1, true);
  }
  for (int32_t i = 0; i < r; i++) {
    v_put(writer, BT_B, 0);
    v_put(writer, BT_B, 1);
  }
  for (int32_t i = 0; i < p - r; i++) {
    v_put(writer, BT_B, 0);
    v_put(writer, BT_W, 0);
  }
  while (writer->w[1] < writer->b[1])
    v_put(writer, BT_W, 1);
  while (writer->w[0] < writer->b[0])
    v_put(writer, BT_W, 0);
}

bt_status bt_schedule_zb_v(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  int32_t p = schedule->stages, least = 2 * p - 1;
  for (int32_t stage = 0; stage < p; stage++) {
    v_writer writer = {schedule, stage, {0, 0}, {0, 0}, {0, 0}};
    zb_v_stage(&writer, p, schedule->microbatches > least ? schedule->microbatches : least);
  }
  return BT_OK;
}
