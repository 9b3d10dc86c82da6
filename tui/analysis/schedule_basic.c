/* Schedules with a fused backward: GPipe (arXiv 1811.06965), 1F1B (PipeDream-Flush, arXiv 2006.09503), interleaved 1F1B
 * (Megatron-LM, arXiv 2104.04473; group sizes as PyTorch has them where m is no multiple of p), looped breadth-first
 * (arXiv 2211.05953; microbatches backwards in reverse, as PyTorch runs them), and Chimera (arXiv 2107.06925). */
#include "tui/analysis/schedule.h"

static void all_backward(bt_schedule *schedule, int32_t stage, int32_t chunk, bool reversed) {
  int32_t m = schedule->microbatches;
  for (int32_t i = 0; i < m; i++)
    bt_schedule_put(schedule, stage, BT_BW, chunk, reversed ? m - 1 - i : i);
}

static void breadth_first(bt_schedule *schedule, bool reversed) {
  for (int32_t stage = 0; stage < schedule->stages; stage++) {
    for (int32_t chunk = 0; chunk < schedule->chunks; chunk++) {
      for (int32_t i = 0; i < schedule->microbatches; i++)
        bt_schedule_put(schedule, stage, BT_F, chunk, i);
    }
    for (int32_t chunk = schedule->chunks; chunk-- > 0;)
      all_backward(schedule, stage, chunk, reversed);
  }
}

bt_status bt_schedule_gpipe(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)error;
  breadth_first(schedule, params->reversed);
  return BT_OK;
}

bt_status bt_schedule_looped_bfs(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)error;
  breadth_first(schedule, !params->reversed);
  return BT_OK;
}

bt_status bt_schedule_1f1b(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)error;
  (void)params;
  int32_t m = schedule->microbatches;
  for (int32_t stage = 0; stage < schedule->stages; stage++) {
    int32_t warm = schedule->stages - 1 - stage;
    int32_t f = 0;
    while (f < warm && f < m)
      bt_schedule_put(schedule, stage, BT_F, 0, f++);
    for (int32_t b = 0; b < m; b++) {
      if (f < m) bt_schedule_put(schedule, stage, BT_F, 0, f++);
      bt_schedule_put(schedule, stage, BT_BW, 0, b);
    }
  }
  return BT_OK;
}

bt_status bt_schedule_interleaved(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  int32_t p = schedule->stages, m = schedule->microbatches, v = schedule->chunks;
  int32_t rounds = m / p > 1 ? m / p : 1, group = m / rounds; /* group = p where m is a multiple of p */
  for (int32_t stage = 0; stage < p; stage++) {
    int32_t warm = (v - 1) * group + 2 * (p - 1 - stage), f = 0;
    for (int32_t k = -warm; k < m * v; k++) {
      if (f < m * v && (k >= 0 || f < warm)) {
        bt_schedule_put(schedule, stage, BT_F, f / group % v, f / (group * v) * group + f % group);
        f++;
      }
      if (k < 0) continue;
      bt_schedule_put(schedule, stage, BT_BW, v - 1 - k / group % v, k / (group * v) * group + k % group);
    }
  }
  return BT_OK;
}

/* Two 1F1B pipelines of opposite direction, merged without conflict: with F and BW of one slot each, F of the i-th
 * microbatch of a unit runs on its s-th stage in slot s + 2i, its BW in 2p - 1 - s + 2i; units of p microbatches (half of
 * them each way) follow each other every 2p slots. Both directions then meet in slots of different parity. */
bt_status bt_schedule_chimera(bt_schedule *schedule, const bt_schedule_params *params, bt_error *error) {
  (void)params;
  (void)error;
  int32_t p = schedule->stages, half = p / 2, units = schedule->microbatches / p;
  for (int32_t stage = 0; stage < p; stage++) {
    for (int32_t slot = 0; slot < 2 * p * units + p; slot++) {
      for (int32_t way = 0; way < 2; way++) {
        int32_t s = way == 0 ? stage : p - 1 - stage;
        int32_t f = slot - s, b = slot - (2 * p - 1 - s);
        int32_t first = way * half;
        if (f >= 0 && f % 2 == 0 && f / (2 * p) < units && f % (2 * p) < p) {
          bt_schedule_put(schedule, stage, BT_F, way, f / (2 * p) * p + first + f % (2 * p) / 2);
        }
        if (b >= 0 && b % 2 == 0 && b / (2 * p) < units && b % (2 * p) < p) {
          bt_schedule_put(schedule, stage, BT_BW, way, b / (2 * p) * p + first + b % (2 * p) / 2);
        }
      }
    }
  }
  return BT_OK;
}
