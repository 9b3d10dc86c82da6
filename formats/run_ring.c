/* Live rings of writers on this host, and whether a writer lives. */
#include <stdlib.h>
#include <string.h>

#include "formats/run_private.h"

enum { RETRY_SECONDS = 2 };
static const int64_t second = 1000000000;

bool bt_run_is_local(const bt_run *run, const bt_run_life *life) {
  return life->header != NULL && run->boot_id[0] != '\0' && strcmp(life->header->boot_id, run->boot_id) == 0;
}

static void open_ring(bt_run *run, bt_run_life *life, int64_t now) {
  if (now < life->ring_retry) return;
  life->ring_retry = now + RETRY_SECONDS * second;
  if (life->header == NULL || life->header->ring_path[0] != '/' || !bt_run_is_local(run, life)) return;
  bt_ring_tap *tap = malloc(sizeof *tap);
  if (tap == NULL) return;
  if (bt_ring_tap_open(tap, life->header->ring_path, life->header->ring_inode, NULL) != BT_OK) {
    free(tap);
    return;
  }
  life->ring = tap;
  if (memcmp(tap->file.marker, life->marker, BT_MARKER_BYTES) != 0) {
    bt_run_close_ring(life);
    life->ring_retry = INT64_MAX;
  }
}

void bt_run_close_ring(bt_run_life *life) {
  if (life->ring == NULL) return;
  bt_ring_tap_close(life->ring);
  free(life->ring);
  life->ring = NULL;
}

static bool reserve_cursors(bt_run_life *life, size_t count) {
  if (count <= life->ring_count) return true;
  uint64_t *grown = realloc(life->ring_next, count * sizeof *grown);
  if (grown == NULL) return false;
  memset(grown + life->ring_count, 0, (count - life->ring_count) * sizeof *grown);
  life->ring_next = grown;
  life->ring_count = count;
  return true;
}

/* All rings of one life: their new records, and the spans that are open now. */
static bt_status read_life(bt_run *run, const bt_run_rank *rank, bt_run_life *life, uint64_t *taken) {
  bool same_clock = life->header->time_namespace == run->time_namespace;
  uint32_t rings = life->ring->file.ring_count;
  if (!reserve_cursors(life, rings)) return BT_ERR_NOMEM;
  bt_rank *target = bt_trace_rank(run->trace, rank->rank);
  if (target == NULL) return BT_ERR_NOMEM;
  bt_merge merge = {.run = run, .life = life, .rank = target, .cut = life->cutoff != INT64_MAX || life->second_writer};
  bt_status status = BT_OK;
  for (uint32_t i = 0; i < rings && status != BT_ERR_NOMEM; i++) {
    status = bt_ring_tap_read(life->ring, i, &life->ring_next[i], bt_run_merge_ring, &merge);
    if (status != BT_OK || !same_clock) continue;
    bt_trace_forget_open(target, life->life, life->ring->head.id);
    if (!life->ring_dead && !life->second_writer) {
      status = bt_ring_tap_open_spans(life->ring, bt_run_now(), bt_run_merge_ring, &merge);
    }
  }
  if (life->ring_dead) life->ring_records += merge.taken;
  *taken += merge.taken;
  bt_run_note_last(life, target);
  bt_status settled = bt_run_settle(run, target, false);
  return status == BT_ERR_NOMEM ? status : settled;
}

bt_status bt_run_read_ring(bt_run *run, const bt_run_rank *rank, bt_run_life *life, int64_t now, uint64_t *taken) {
  if (life->ended || life->has_recovered) {
    bt_run_close_ring(life);
    life->ring_dead = false;
    return BT_OK;
  }
  if (!life->accepted) return BT_OK;
  if (life->ring == NULL) open_ring(run, life, now);
  if (life->ring == NULL || bt_ring_tap_refresh(life->ring, NULL) != BT_OK) return BT_OK;
  /* asked before reading: what a dead writer left is final */
  bool dead = !bt_ring_tap_owned(life->ring);
  if (life->ring_dead && dead) return BT_OK;
  life->ring_dead = dead && !life->ring->file.clean;
  bt_run_lock(run);
  bt_status status = read_life(run, rank, life, taken);
  bt_run_unlock(run);
  return status;
}

int64_t bt_run_life_age(const bt_run *run, const bt_run_life *life) {
  if (life->header == NULL) return INT64_MAX;
  int64_t last = life->last != INT64_MIN ? life->last : life->header->mono_ns;
  int64_t now = bt_run_now();
  int64_t age;
  if (!bt_run_is_local(run, life) || life->header->time_namespace != run->time_namespace) {
    int64_t real;
    now = bt_run_real_now();
    if (__builtin_sub_overflow(last, life->header->mono_ns, &real) ||
        __builtin_add_overflow(real, life->header->real_ns, &last)) {
      return INT64_MAX;
    }
  }
  return __builtin_sub_overflow(now, last, &age) ? INT64_MAX : age;
}

bool bt_run_life_alive(const bt_run *run, const bt_run_life *life) {
  if (life->ended || life->has_recovered) return false;
  if (life->ring != NULL) return !life->ring_dead && bt_ring_tap_owned(life->ring);
  int64_t age = bt_run_life_age(run, life);
  return age < run->options.stale_after && age > -run->options.stale_after;
}
