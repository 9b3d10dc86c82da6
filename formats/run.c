/* Opening and polling a run. */
#include "config.h"

#include "formats/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "formats/array.h"
#include "formats/join.h"
#include "formats/run_private.h"

enum {
  STALE_SECONDS = 90,
  TAKEOVER_SECONDS = 5, /* silence of an earlier life after which the next one is taken (heartbeats come every 2 s) */
  REOPEN_SECONDS = 3, /* quiet remote files are opened again: that makes the client ask for the size */
  RARE_SECONDS = 8, /* between looks at a quiet rank that nobody watches */
  SPARE_FILES = 64, /* descriptors left to the rest of the program */
  MAX_OPEN = 8192,
  TURN_BYTES = 1 << 20 /* of one rank at a time, so that all come forward together */
};
static const int64_t second = 1000000000;

static int64_t clock_now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (int64_t)time.tv_sec * second + time.tv_nsec;
}

int64_t bt_run_now(void) {
  return clock_now(CLOCK_MONOTONIC);
}
int64_t bt_run_real_now(void) {
  return clock_now(CLOCK_REALTIME);
}

/* True for file systems whose sizes this kernel knows at once; all others count as remote. */
static bool is_local_file_system(const char *path) {
  static const unsigned long local[] = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794c7630, 0xF2F52010, 0x2FC12FC1};
  struct statfs status; /* ext, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs */
  if (statfs(path, &status) != 0) return false;
  for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
    if ((unsigned long)status.f_type == local[i]) return true;
  }
  return false;
}

static void learn_host(bt_run *run) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file != NULL) {
    if (fgets(run->boot_id, sizeof run->boot_id, file) == NULL) run->boot_id[0] = '\0';
    run->boot_id[strcspn(run->boot_id, "\n")] = '\0';
    fclose(file);
  }
  struct stat status;
  if (stat("/proc/self/ns/time", &status) == 0) run->time_namespace = status.st_ino;
}

static size_t descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > MAX_OPEN)
    return MAX_OPEN;
  return limit.rlim_cur > 2 * SPARE_FILES ? limit.rlim_cur - SPARE_FILES : SPARE_FILES / 2;
}

static bt_status add_path(bt_run *run, const char *path, bt_error *error) {
  bt_run_directory *directory = &run->directories[run->directory_count];
  *directory = (bt_run_directory){.path = strdup(path), .scanned = INT64_MIN / 2};
  if (directory->path == NULL) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  run->directory_count++;
  struct stat status;
  if (stat(path, &status) != 0) {
    if (errno != ENOENT || !run->options.follow) return bt_fail(error, BT_ERR_IO, "%s: %s", path, strerror(errno));
    directory->missing = true;
    return BT_OK;
  }
  directory->is_file = !S_ISDIR(status.st_mode);
  directory->remote = !is_local_file_system(path);
  return BT_OK;
}

/* Nothing could be taken: why, in one line. */
static bt_status explain_nothing(const bt_run *run, bt_error *error) {
  if (run->rejected_count > 0) {
    const bt_rejected *first = &run->rejected[0];
    const char *named = strstr(first->text, first->path);
    if (named != NULL) return bt_fail(error, first->status, "%s", first->text);
    return bt_fail(error, first->status, "%s: %s", first->path, first->text);
  }
  for (size_t i = 0; i < run->directory_count; i++) {
    const bt_run_directory *directory = &run->directories[i];
    if (directory->entries > 0) {
      return bt_fail(error, BT_ERR_EMPTY,
                     "%s: no capture in it (no rank-*.msgpack among its %zu files): is this the run directory?",
                     directory->path, directory->entries);
    }
  }
  return bt_fail(error, BT_ERR_EMPTY, "%s: the directory is empty: has the run begun?", run->directories[0].path);
}

static bt_status open_all(bt_run *run, const char *const *paths, size_t count, bt_error *error) {
  run->directories = calloc(count, sizeof *run->directories);
  if (run->directories == NULL || !bt_io_init(&run->io)) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  bt_status status = bt_trace_new(&run->trace);
  for (size_t i = 0; i < count && status == BT_OK; i++) {
    status = add_path(run, paths[i], error);
  }
  size_t found = 0;
  if (status == BT_OK) status = bt_run_scan(run, bt_run_now(), &found, error);
  if (status != BT_OK || found > 0) return status;
  bool may_come = run->options.follow; /* a run that has not begun: not among files of something else */
  for (size_t i = 0; i < run->directory_count; i++) {
    if (run->directories[i].entries > 0 && run->rejected_count == 0) may_come = false;
  }
  for (size_t i = 0; i < run->rejected_count; i++) {
    if (run->rejected[i].retry == INT64_MAX) may_come = false;
  }
  return may_come ? BT_OK : explain_nothing(run, error);
}

bt_status bt_run_open(const char *const *paths, size_t count, const bt_run_options *options, bt_run **run,
                      bt_error *error) {
  static const bt_run_options defaults;
  *run = NULL;
  if (count == 0) return bt_fail(error, BT_ERR_ARG, "no run is named");
  bt_run *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  fresh->options = options != NULL ? *options : defaults;
  if (fresh->options.stale_after <= 0) fresh->options.stale_after = STALE_SECONDS * second;
  fresh->watch_all = true;
  fresh->open_limit = descriptor_limit();
  learn_host(fresh);
  bt_status status = open_all(fresh, paths, count, error);
  if (status != BT_OK) {
    bt_run_close(fresh);
    return status;
  }
  *run = fresh;
  return BT_OK;
}

static void free_rank(bt_run_rank *rank) {
  for (size_t i = 0; i < rank->stream_count; i++) {
    bt_stream_close(&rank->streams[i]->stream);
    free(rank->streams[i]);
  }
  for (size_t i = 0; i < rank->life_count; i++) {
    bt_seen_free(&rank->lives[i].seen);
    bt_run_close_ring(&rank->lives[i]);
    free(rank->lives[i].ring_next);
  }
  free(rank->streams);
  free(rank->lives);
}

void bt_run_close(bt_run *run) {
  if (run == NULL) return;
  for (size_t i = 0; i < run->rank_count; i++) {
    free_rank(&run->ranks[i]);
  }
  for (size_t i = 0; i < run->directory_count; i++) {
    free(run->directories[i].path);
    free(run->directories[i].known);
  }
  for (size_t i = 0; i < run->rejected_count; i++) {
    free(run->rejected[i].path);
  }
  bt_trace_free(run->trace);
  bt_io_free(&run->io);
  free(run->directories);
  free(run->ranks);
  free(run->rejected);
  free(run->watched);
  free(run->problems);
  free(run->files);
  free(run);
}

bt_trace *bt_run_trace(bt_run *run) {
  return run->trace;
}

static int compare_ranks(const void *left, const void *right) {
  int32_t a = *(const int32_t *)left;
  int32_t b = *(const int32_t *)right;
  return a == b ? 0 : a < b ? -1 : 1;
}

void bt_run_watch(bt_run *run, const int32_t *ranks, size_t count) {
  free(run->watched);
  run->watched = NULL;
  run->watched_count = 0;
  run->watch_all = ranks == NULL;
  if (ranks == NULL || count == 0) return;
  run->watched = malloc(count * sizeof *ranks);
  if (run->watched == NULL) { /* then all are watched: slower, not wrong */
    run->watch_all = true;
    return;
  }
  memcpy(run->watched, ranks, count * sizeof *ranks);
  qsort(run->watched, count, sizeof *ranks, compare_ranks);
  run->watched_count = count;
}

static bool is_watched(const bt_run *run, int32_t rank) {
  if (run->watch_all) return true;
  return run->watched_count > 0 && bsearch(&rank, run->watched, run->watched_count, sizeof rank, compare_ranks) != NULL;
}

/* The start of `later` in the clock of `earlier`; INT64_MAX when it cannot be told. */
static int64_t start_in_clock(const bt_header *later, const bt_header *earlier) {
  if (later->mono_ns == 0) return INT64_MAX;
  if (strcmp(later->boot_id, earlier->boot_id) == 0 && later->time_namespace == earlier->time_namespace)
    return later->mono_ns;
  int64_t start;
  if (later->real_ns == 0 || earlier->real_ns == 0 ||
      __builtin_sub_overflow(later->real_ns, earlier->real_ns, &start) ||
      __builtin_add_overflow(start, earlier->mono_ns, &start) || __builtin_add_overflow(start, second, &start)) {
    return INT64_MAX; /* a second of grace: these are two wall clocks */
  }
  return start;
}

/* True when nothing more is expected of `earlier`, now that `later` has begun. */
static bool is_over(const bt_run *run, const bt_run_life *earlier, const bt_run_life *later, int64_t now) {
  if (!run->options.follow || earlier->ended || earlier->has_recovered || earlier->ring_dead) return true;
  if (earlier->header == NULL || later->header == NULL) return true;
  return now - later->discovered >= TAKEOVER_SECONDS * second ||
         bt_run_real_now() - later->header->real_ns >= TAKEOVER_SECONDS * second;
}

static bt_status accept(bt_run *run, const bt_run_rank *rank, bt_run_life *life) {
  life->accepted = true;
  bt_status status = BT_OK;
  bt_run_lock(run);
  bt_rank *target = bt_trace_rank(run->trace, rank->rank);
  if (target == NULL) status = BT_ERR_NOMEM;
  for (size_t i = 0; i < rank->stream_count && status == BT_OK; i++) {
    const bt_run_stream *stream = rank->streams[i];
    if (stream->key.life != life->life || stream->stream.header_damaged) continue;
    status = bt_trace_header(run->trace, target, &stream->stream.header);
    if (status == BT_ERR_LIMIT) status = BT_OK; /* host names are for display */
  }
  bt_run_unlock(run);
  return status;
}

/* Decides whether the records of a life are taken: one process at a time writes a rank's truth. Earlier lives have been
 * read as far as they go. BT_AGAIN: cannot be told yet. */
static bt_status decide(bt_run *run, bt_run_rank *rank, bt_run_life *life, int64_t now) {
  if (life->accepted || life->second_writer) return BT_OK;
  bool wait = false;
  for (bt_run_life *earlier = rank->lives; earlier < life; earlier++) {
    if (earlier->second_writer) continue;
    if (earlier->header != NULL && life->header != NULL &&
        earlier->last > start_in_clock(life->header, earlier->header)) {
      life->second_writer = true;
      return BT_OK;
    }
    if (!is_over(run, earlier, life, now)) wait = true;
  }
  if (wait) return BT_AGAIN;
  for (bt_run_life *earlier = rank->lives; earlier < life; earlier++) {
    if (earlier->header == NULL || life->header == NULL) continue;
    int64_t start = start_in_clock(life->header, earlier->header);
    if (start < earlier->cutoff) earlier->cutoff = start;
  }
  return accept(run, rank, life);
}

/* Nothing more will come of the stream at `index`, which was read to its end. */
static bool is_final(const bt_run *run, const bt_run_rank *rank, size_t index, const bt_run_life *life, int64_t now) {
  const bt_run_stream *stream = rank->streams[index];
  if (!run->options.follow || stream->ended || stream->key.recovered || life->ended) return true;
  bool quiet = now - stream->stream.last_growth > run->options.stale_after;
  if (index + 1 < rank->stream_count) {
    const bt_run_stream *next = rank->streams[index + 1];
    if (next->key.life == life->life) return true;
    const bt_run_life *after = bt_run_find_life((bt_run_rank *)rank, next->key.life);
    if (after != NULL && (after->accepted || after->second_writer)) return quiet;
  }
  return stream->vanished && quiet;
}

static void look_after(bt_run *run, bt_run_rank *rank, size_t index, const bt_run_life *life, int64_t now) {
  bt_run_stream *stream = rank->streams[index];
  if (stream->stream.unlinked) stream->vanished = true;
  if (is_final(run, rank, index, life, now)) {
    bt_stream_finish(&stream->stream);
    bt_run_let_go(run, stream);
    stream->done = true;
    return;
  }
  int64_t quiet = now - stream->stream.last_growth;
  stream->stale = quiet > run->options.stale_after;
  bool remote = false;
  for (size_t i = 0; i < run->directory_count; i++) {
    remote |= run->directories[i].remote;
  }
  if (remote && quiet > REOPEN_SECONDS * second && now - rank->reopened > REOPEN_SECONDS * second) {
    rank->reopened = now;
    bt_run_let_go(run, stream);
  }
}

static bt_status no_memory(bt_error *error) {
  return bt_fail(error, BT_ERR_NOMEM, "memory is short for this run");
}

static bt_status poll_ring(bt_run *run, const bt_run_rank *rank, bt_run_life *life, int64_t now, bool *news) {
  uint64_t taken = 0;
  bt_status status = run->options.rings ? bt_run_read_ring(run, rank, life, now, &taken) : BT_OK;
  if (taken > 0) *news = true;
  return status == BT_ERR_NOMEM ? status : BT_OK;
}

/* Reads one rank as far as `budget` goes. `news` is set when something came. */
static bt_status poll_rank(bt_run *run, bt_run_rank *rank, uint64_t *budget, int64_t now, bool *news, bt_error *error) {
  for (size_t i = 0; i < rank->life_count; i++) {
    if (poll_ring(run, rank, &rank->lives[i], now, news) != BT_OK) return no_memory(error);
  }
  for (size_t i = rank->first_open; i < rank->stream_count; i++) {
    bt_run_stream *stream = rank->streams[i];
    if (stream->done) continue;
    bt_run_life *life = bt_run_find_life(rank, stream->key.life);
    bool undecided = !life->accepted;
    bt_status status = decide(run, rank, life, now);
    if (status == BT_AGAIN) break;
    if (status == BT_OK && undecided) status = poll_ring(run, rank, life, now, news);
    if (status == BT_ERR_NOMEM) return no_memory(error);
    uint64_t before = *budget;
    status = bt_run_read_stream(run, rank, life, stream, budget, now, error);
    if (before != *budget || status == BT_OK) *news = true;
    if (status == BT_ERR_NOMEM) return status;
    if (status == BT_OK && *budget == 0) return BT_OK;
    if (status == BT_ERR_IO) {
      stream->vanished |= stream->stream.unlinked || access(stream->stream.path, F_OK) != 0;
      if (!run->options.follow) stream->done = true;
    }
    look_after(run, rank, i, life, now);
  }
  while (rank->first_open < rank->stream_count && rank->streams[rank->first_open]->done)
    rank->first_open++;
  if (rank->first_open == rank->stream_count && !rank->over) {
    rank->over = true;
    bt_run_lock(run);
    bt_rank *target = bt_trace_rank(run->trace, rank->rank);
    bt_status status = target == NULL ? BT_ERR_NOMEM : bt_run_settle(run, target, true);
    bt_run_unlock(run);
    if (status != BT_OK) return no_memory(error);
  }
  return BT_OK;
}

/* When to look at the rank again: at once if it is watched, else the rarer the longer nothing came. */
static void plan(const bt_run *run, bt_run_rank *rank, bool news, int64_t now) {
  if (is_watched(run, rank->rank)) {
    rank->next_look = now;
    return;
  }
  rank->rare = news || rank->rare < second ? second : rank->rare * 2;
  if (rank->rare > RARE_SECONDS * second) rank->rare = RARE_SECONDS * second;
  rank->next_look = now + rank->rare;
}

static bool all_over(const bt_run *run) {
  for (size_t i = 0; i < run->rank_count; i++) {
    if (!run->ranks[i].over) return false;
  }
  if (!run->options.follow) return true;
  return run->rank_count > 0 && (int64_t)run->rank_count >= run->trace->world_size;
}

static bt_status join(bt_run *run) {
  bt_run_lock(run);
  bt_status status = bt_join(run->trace);
  bt_run_unlock(run);
  return status;
}

uint64_t bt_run_bytes(const bt_run *run) {
  return run->bytes;
}

bt_status bt_run_poll(bt_run *run, uint64_t budget, bt_error *error) {
  int64_t now = bt_run_now();
  bool bounded = budget > 0;
  if (!bounded) budget = UINT64_MAX;
  size_t found = 0;
  bool news = false;
  if (run->options.follow) {
    bt_status status = bt_run_scan(run, now, &found, error);
    if (status != BT_OK) return status;
  }
  bool round_news = true;
  while (round_news && budget > 0) {
    round_news = false;
    for (size_t i = 0; i < run->rank_count && budget > 0; i++) {
      if (run->cursor >= run->rank_count) run->cursor = 0;
      bt_run_rank *rank = &run->ranks[run->cursor++];
      if (rank->over || (rank->next_look > now && !is_watched(run, rank->rank))) continue;
      uint64_t turn = !bounded ? UINT64_MAX : budget < TURN_BYTES ? budget : TURN_BYTES;
      uint64_t left = turn;
      bool came = false;
      bt_status status = poll_rank(run, rank, &left, now, &came, error);
      if (status != BT_OK) return status;
      run->bytes += turn - left;
      budget -= turn - left < budget ? turn - left : budget;
      plan(run, rank, came, now);
      round_news |= left == 0;
      news |= came;
    }
  }
  if (join(run) != BT_OK) return no_memory(error);
  if (news || found > 0) return BT_OK;
  return all_over(run) ? BT_END : BT_AGAIN;
}
