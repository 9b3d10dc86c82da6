/* Streams and rings -> trace, each record once. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "formats/run_private.h"

/* Records reach the file at most about this long after they end; open spans are reported after 1 s. */
static const int64_t unsettled = INT64_C(3000000000);

static void unlink_open(bt_run *run, bt_run_stream *stream) {
  if (stream->newer != NULL) stream->newer->older = stream->older;
  if (stream->older != NULL) stream->older->newer = stream->newer;
  if (run->newest == stream) run->newest = stream->older;
  if (run->oldest == stream) run->oldest = stream->newer;
  stream->newer = stream->older = NULL;
}

static bool is_listed(const bt_run *run, const bt_run_stream *stream) {
  return run->newest == stream || stream->newer != NULL;
}

void bt_run_let_go(bt_run *run, bt_run_stream *stream) {
  if (is_listed(run, stream)) {
    unlink_open(run, stream);
    run->open_count--;
  }
  bt_stream_rest_fd(&stream->stream);
}

void bt_run_touch(bt_run *run, bt_run_stream *stream) {
  if (is_listed(run, stream)) {
    unlink_open(run, stream);
  } else {
    run->open_count++;
  }
  stream->older = run->newest;
  if (run->newest != NULL) run->newest->newer = stream;
  run->newest = stream;
  if (run->oldest == NULL) run->oldest = stream;
  while (run->open_count > run->open_limit && run->oldest != stream) {
    bt_run_let_go(run, run->oldest);
  }
}

/* Behind the life's cutoff: some other life's time. */
static bool is_cut(const bt_run_life *life, const bt_event *event) {
  int64_t end;
  return __builtin_add_overflow(event->start, event->duration, &end) || end > life->cutoff;
}

static bt_status take_record(bt_merge *merge, const bt_event *event) {
  bt_run_life *life = merge->life;
  if (merge->cut && (life->second_writer || is_cut(life, event))) {
    life->kept_out++;
    return BT_OK;
  }
  bt_status status = bt_trace_add(merge->run->trace, merge->rank, life->life, merge->seen->ring, event);
  if (status == BT_ERR_NOMEM) return status;
  if (status != BT_OK) {
    if (merge->stream != NULL) merge->stream->refused++;
    return BT_OK;
  }
  merge->taken++;
  if (event->code == BT_END_OF_STREAM) {
    life->ended = true;
    if (merge->stream != NULL) merge->stream->ended = true;
  }
  return BT_OK;
}

static bt_status take_block_record(void *context, uint64_t number, const bt_event *event) {
  bt_merge *merge = context;
  if (!merge->filter || !bt_seen_has(merge->seen, number)) {
    bt_status status = take_record(merge, event);
    if (status != BT_OK) return status;
  }
  merge->next = number + 1;
  return BT_OK;
}

static bt_status merge_block(bt_merge *merge, const bt_block *block) {
  bt_run_stream *stream = merge->stream;
  uint64_t end = block->first + block->count;
  stream->stream.records += block->count;
  bt_seen_ring *seen = bt_seen_ring_of(&merge->life->seen, block->ring);
  if (seen == NULL) {
    stream->refused += block->count;
    return BT_OK;
  }
  int overlap = bt_seen_overlap(seen, block->first, end);
  if (end > seen->file_end) seen->file_end = end;
  if (overlap == 2) return BT_OK;
  merge->seen = seen;
  merge->filter = overlap == 1;
  merge->cut = merge->life->second_writer || block->max_end > merge->life->cutoff;
  merge->next = block->first;
  bt_status status = bt_block_records(block, take_block_record, merge);
  if (status == BT_DAMAGED) {
    stream->bad_blocks++;
    status = BT_OK;
  }
  if (status != BT_OK) end = merge->next; /* memory is short: what came is not to come again */
  if (end > block->first && !bt_seen_add(seen, block->first, end)) stream->refused += block->count;
  return status;
}

static bt_status take_block(void *context, const bt_block *block, uint64_t offset) {
  bt_merge *merge = context;
  (void)offset;
  if (!merge->locking) return merge_block(merge, block);
  bt_run_lock(merge->run);
  merge->rank = bt_trace_rank(merge->run->trace, merge->stream->key.rank);
  bt_status status = merge->rank == NULL ? BT_ERR_NOMEM : merge_block(merge, block);
  if (status == BT_OK) status = bt_run_settle(merge->run, merge->rank, false);
  bt_run_unlock(merge->run);
  return status;
}

bt_status bt_run_merge_ring(void *context, uint32_t ring, uint64_t number, const bt_event *event) {
  bt_merge *merge = context;
  if (event->code == BT_OPEN) {
    bt_status status = bt_trace_add(merge->run->trace, merge->rank, merge->life->life, ring, event);
    return status == BT_ERR_NOMEM ? status : BT_OK;
  }
  merge->seen = bt_seen_ring_of(&merge->life->seen, ring);
  if (merge->seen == NULL || bt_seen_has(merge->seen, number) || number == UINT64_MAX) return BT_OK;
  bt_status status = take_record(merge, event);
  if (status == BT_OK) (void)bt_seen_add(merge->seen, number, number + 1);
  return status;
}

/* No span that starts before it is expected any more. */
static int64_t horizon_of(const bt_rank *rank) {
  int64_t horizon = rank->heartbeat > INT64_MIN + unsettled ? rank->heartbeat - unsettled : INT64_MIN;
  for (size_t i = 0; i < rank->open_count; i++) {
    if (rank->open[i].event.start < horizon) horizon = rank->open[i].event.start;
  }
  return horizon;
}

bt_status bt_run_settle(bt_run *run, bt_rank *rank, bool over) {
  return bt_trace_settle(run->trace, rank, over ? INT64_MAX : horizon_of(rank));
}

void bt_run_note_last(bt_run_life *life, bt_rank *rank) {
  const bt_life *known = bt_trace_life(rank, life->life);
  if (known != NULL) life->last = known->last;
}

static bt_status parse(bt_run *run, bt_merge *merge, int64_t now) {
  bt_run_lock(run);
  merge->rank = bt_trace_rank(run->trace, merge->stream->key.rank);
  bt_status status = BT_ERR_NOMEM;
  if (merge->rank != NULL) {
    status = bt_stream_parse(&merge->stream->stream, &run->io, now, take_block, merge);
    bt_run_note_last(merge->life, merge->rank);
    bt_status settled = bt_trace_settle_lazily(run->trace, merge->rank, horizon_of(merge->rank));
    if (status == BT_OK) status = settled;
  }
  bt_run_unlock(run);
  return status;
}

/* No more comes for now: what was left pending is merged. */
static bt_status settle_rest(bt_run *run, const bt_run_rank *rank) {
  const bt_rank *known = bt_trace_find(run->trace, rank->rank);
  bool pending = false;
  for (int lane = 0; lane < BT_LANE_COUNT && known != NULL; lane++) {
    pending |= known->tracks[lane].pending > 0;
  }
  if (!pending) return BT_OK;
  bt_run_lock(run);
  bt_status status = bt_run_settle(run, bt_trace_rank(run->trace, rank->rank), false);
  bt_run_unlock(run);
  return status;
}

bt_status bt_run_read_stream(bt_run *run, bt_run_rank *rank, bt_run_life *life, bt_run_stream *stream, uint64_t *budget,
                             int64_t now, bt_error *error) {
  bt_merge merge = {.run = run, .life = life, .stream = stream};
  bt_status status = BT_OK;
  while (status == BT_OK && *budget > 0) {
    uint64_t before = stream->stream.bytes_read;
    bt_error detail = {BT_OK, ""};
    status = bt_stream_fetch(&stream->stream, &run->io, *budget, now, &detail);
    if (stream->stream.fd >= 0) bt_run_touch(run, stream);
    snprintf(stream->trouble, sizeof stream->trouble, "%.255s", status < 0 ? detail.text : "");
    if (status < 0 && error != NULL) *error = detail;
    if (status != BT_OK) break;
    uint64_t got = stream->stream.bytes_read - before;
    *budget -= got < *budget ? got : *budget;
    status = parse(run, &merge, now);
    if (status == BT_ERR_NOMEM) (void)bt_fail(error, status, "memory is short for this run");
  }
  if (status != BT_OK && status != BT_ERR_NOMEM && settle_rest(run, rank) != BT_OK)
    return bt_fail(error, BT_ERR_NOMEM, "memory is short for this run");
  if (status == BT_AGAIN && bt_stream_wants_heal(&stream->stream, now)) {
    merge.locking = true;
    bt_status healed = bt_stream_heal(&stream->stream, &run->io, now, take_block, &merge);
    if (healed == BT_ERR_NOMEM) return bt_fail(error, healed, "memory is short for this run");
    if (merge.taken > 0) status = BT_OK;
  }
  return status;
}
