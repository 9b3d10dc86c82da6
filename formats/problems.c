/* What is wrong with a run, and its files, for people and scripts. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/array.h"
#include "formats/join.h"
#include "formats/run_private.h"

enum { SILENT_SECONDS = 5, MAX_NAMED = 1000 };

const char *bt_problem_code(bt_problem_kind kind) {
  static const char *const codes[] = {
      [BT_PROBLEM_DAMAGE] = "damage",
      [BT_PROBLEM_TORN_TAIL] = "torn_tail",
      [BT_PROBLEM_NO_END] = "no_end",
      [BT_PROBLEM_RING_UNREAD] = "ring_unread",
      [BT_PROBLEM_RING_DEAD] = "ring_dead",
      [BT_PROBLEM_MISSING] = "missing",
      [BT_PROBLEM_DROPPED] = "dropped",
      [BT_PROBLEM_TWO_WRITERS] = "two_writers",
      [BT_PROBLEM_MIXED_RUNS] = "mixed_runs",
      [BT_PROBLEM_UNREADABLE] = "unreadable",
      [BT_PROBLEM_VERSION] = "version",
      [BT_PROBLEM_MISSING_RANKS] = "missing_ranks",
      [BT_PROBLEM_VANISHED] = "vanished",
      [BT_PROBLEM_COMMUNICATORS_INCOMPLETE] = "incomplete_communicators",
      [BT_PROBLEM_COMMUNICATORS_AMBIGUOUS] = "ambiguous_communicators",
  };
  return (size_t)kind < sizeof codes / sizeof *codes && codes[kind] != NULL ? codes[kind] : "?";
}

/* Names and texts come from files: nothing in them may move a terminal's cursor. */
static void make_printable(char *text) {
  for (; *text != '\0'; text++) {
    if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
  }
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

__attribute__((format(printf, 7, 8))) static void add(bt_run *run, bt_problem_kind kind, int32_t rank, const char *path,
                                                      uint64_t offset, uint64_t amount, const char *format, ...) {
  if (!bt_array_reserve(&run->problems, &run->problem_capacity, run->problem_count + 1, sizeof(bt_problem))) return;
  bt_problem *problem = &run->problems[run->problem_count++];
  *problem = (bt_problem){.kind = kind, .rank = rank, .offset = offset, .amount = amount};
  if (path != NULL) snprintf(problem->file, sizeof problem->file, "%s", base_name(path));
  va_list args;
  va_start(args, format);
  vsnprintf(problem->text, sizeof problem->text, format, args);
  va_end(args);
  make_printable(problem->file);
  make_printable(problem->text);
}

static void check_stream(bt_run *run, const bt_run_rank *rank, const bt_run_stream *stream) {
  const bt_stream *file = &stream->stream;
  const char *name = base_name(file->path);
  uint64_t torn = bt_stream_torn(file);
  if (file->damaged > 0) {
    add(run, BT_PROBLEM_DAMAGE, rank->rank, file->path, file->first_damage, file->damaged,
        "%s: %llu bytes are damaged, the first at %llu; the rest was read", name, (unsigned long long)file->damaged,
        (unsigned long long)file->first_damage);
  }
  if (stream->bad_blocks > 0 || stream->refused > 0) {
    add(run, BT_PROBLEM_DAMAGE, rank->rank, file->path, 0, stream->refused,
        "%s: %llu blocks and %llu records make no sense or exceed a limit", name,
        (unsigned long long)stream->bad_blocks, (unsigned long long)stream->refused);
  }
  if (torn > 0 && (stream->done || stream->stale)) {
    add(run, BT_PROBLEM_TORN_TAIL, rank->rank, file->path, file->size - torn, torn,
        "%s: ends inside a block at %llu (%llu bytes are of no use)", name, (unsigned long long)(file->size - torn),
        (unsigned long long)torn);
  }
  if (stream->vanished) {
    add(run, BT_PROBLEM_VANISHED, rank->rank, file->path, file->offset, 0,
        "%s: was removed or replaced while it was read; open the run again to see what took its place", name);
  } else if (stream->trouble[0] != '\0') {
    add(run, BT_PROBLEM_UNREADABLE, rank->rank, file->path, file->offset, 0, "%s", stream->trouble);
  }
}

static const bt_run_stream *last_stream(const bt_run_rank *rank, const bt_run_life *life) {
  for (size_t i = rank->stream_count; i-- > 0;) {
    if (rank->streams[i]->key.life == life->life) return rank->streams[i];
  }
  return NULL;
}

/* After "record". */
static const char *is_or_are(uint64_t count) {
  return count == 1 ? " is" : "s are";
}

static void check_end(bt_run *run, const bt_run_rank *rank, const bt_run_life *life) {
  const bt_run_stream *last = last_stream(rank, life);
  const char *path = last != NULL ? last->stream.path : NULL;
  bool alive = bt_run_life_alive(run, life);
  bool has_ring = life->header != NULL && life->header->ring_path[0] != '\0';
  if (!alive && life->has_recovered) {
    add(run, BT_PROBLEM_NO_END, rank->rank, path, 0, 0, "rank %d: was killed; what its ring held was recovered",
        rank->rank);
  } else if (!alive) {
    add(run, BT_PROBLEM_NO_END, rank->rank, path, 0, 0, "rank %d: did not end in good order (no end record)",
        rank->rank);
  }
  if (life->ring_dead) {
    add(run, BT_PROBLEM_RING_DEAD, rank->rank, life->header->ring_path, 0, life->ring_records,
        "rank %d: its writer died; %llu record%s only in %s: `bubbletop recover` saves what is there", rank->rank,
        (unsigned long long)life->ring_records, is_or_are(life->ring_records), life->header->ring_path);
  }
  if (has_ring && !life->has_recovered && !bt_run_is_local(run, life) &&
      bt_run_life_age(run, life) > SILENT_SECONDS * (int64_t)1000000000) {
    add(run, BT_PROBLEM_RING_UNREAD, rank->rank, path, 0, 0,
        "rank %d: its newest spans may lie in a ring on node %s: run `bubbletop recover` there", rank->rank,
        life->header->host);
  }
}

static void check_life(bt_run *run, const bt_run_rank *rank, const bt_run_life *life) {
  if (life->second_writer || life->kept_out > 0) {
    add(run, BT_PROBLEM_TWO_WRITERS, rank->rank, NULL, 0, life->kept_out,
        "rank %d: two processes wrote it at once; %llu record%s left out, of life %u (pid %lld on %s)", rank->rank,
        (unsigned long long)life->kept_out, is_or_are(life->kept_out), life->life,
        life->header != NULL ? (long long)life->header->pid : -1, life->header != NULL ? life->header->host : "?");
  }
  if (!life->second_writer && !life->ended) check_end(run, rank, life);
  uint64_t missing = 0;
  for (size_t i = 0; i < life->seen.count; i++) {
    missing += bt_seen_missing(&life->seen.rings[i], life->has_first);
  }
  if (missing > 0) {
    add(run, BT_PROBLEM_MISSING, rank->rank, NULL, 0, missing, "rank %d: %llu record%s missing (life %u)", rank->rank,
        (unsigned long long)missing, is_or_are(missing), life->life);
  }
}

static void check_rank(bt_run *run, const bt_run_rank *rank) {
  for (size_t i = 0; i < rank->stream_count; i++) {
    check_stream(run, rank, rank->streams[i]);
  }
  for (size_t i = 0; i < rank->life_count; i++) {
    check_life(run, rank, &rank->lives[i]);
  }
  const bt_rank *known = bt_trace_find(run->trace, rank->rank);
  if (known != NULL && known->dropped > 0) {
    add(run, BT_PROBLEM_DROPPED, rank->rank, NULL, 0, known->dropped, "rank %d: a full ring dropped %llu record%s",
        rank->rank, (unsigned long long)known->dropped, known->dropped == 1 ? "" : "s");
  }
}

static void check_world(bt_run *run) {
  int64_t world = run->trace->world_size;
  int64_t missing = 0;
  char list[120] = "";
  size_t at = 0;
  for (int64_t rank = 0; rank < world && rank <= BT_MAX_RANK; rank++) {
    while (at < run->rank_count && run->ranks[at].rank < rank)
      at++;
    if (at < run->rank_count && run->ranks[at].rank == rank) continue;
    size_t used = strlen(list);
    if (used < sizeof list - 16) {
      snprintf(list + used, sizeof list - used, "%s%lld", used > 0 ? ", " : "", (long long)rank);
    } else if (list[used - 1] != '.') {
      snprintf(list + used, sizeof list - used, ", ...");
    }
    missing++;
  }
  if (missing > 0) {
    add(run, BT_PROBLEM_MISSING_RANKS, -1, NULL, 0, (uint64_t)missing, "%lld of %lld ranks %s no file: %s",
        (long long)missing, (long long)world, missing == 1 ? "has" : "have", list);
  }
}

static void check_communicators(bt_run *run) {
  size_t part = bt_join_count(run->trace, BT_JOINED_IN_PART);
  size_t none = bt_join_count(run->trace, BT_JOINED_NOT);
  if (part > 0) {
    add(run, BT_PROBLEM_COMMUNICATORS_INCOMPLETE, -1, NULL, 0, part,
        "%zu of %zu communicators: some members have not said who they are; their messages have no peer", part,
        run->trace->joined_count);
  }
  if (none > 0) {
    add(run, BT_PROBLEM_COMMUNICATORS_AMBIGUOUS, -1, NULL, 0, none,
        "%zu of %zu communicators: ranks contradict each other on who is in them; their messages have no peers", none,
        run->trace->joined_count);
  }
}

const bt_problem *bt_run_problems(bt_run *run, size_t *count) {
  run->problem_count = 0;
  for (size_t i = 0; i < run->rejected_count; i++) {
    const bt_rejected *file = &run->rejected[i];
    const char *text =
        strncmp(file->text, file->path, strlen(file->path)) == 0 ? file->text + strlen(file->path) + 2 : file->text;
    add(run, file->kind, file->rank, file->path, 0, 0, "%s: %s", base_name(file->path), text);
  }
  if (run->rejected_more > 0 || run->limit_reached) {
    add(run, BT_PROBLEM_UNREADABLE, -1, NULL, 0, run->rejected_more, "there are more files than this program takes%s",
        run->limit_reached ? "; some were left out" : "");
  }
  if (run->mixed_files > 0) {
    add(run, BT_PROBLEM_MIXED_RUNS, -1, NULL, 0, run->mixed_files,
        "%zu files of other runs (%s) lie here; only run '%s' is read", run->mixed_files, run->mixed_ids, run->run_id);
  }
  for (size_t i = 0; i < run->rank_count && run->problem_count < MAX_NAMED; i++) {
    check_rank(run, &run->ranks[i]);
  }
  check_world(run);
  check_communicators(run);
  *count = run->problem_count;
  return run->problems;
}

const bt_file_info *bt_run_files(bt_run *run, size_t *count) {
  size_t at = 0;
  *count = 0;
  if (!bt_array_reserve(&run->files, &run->files_capacity, run->file_count, sizeof(bt_file_info))) return NULL;
  for (size_t i = 0; i < run->rank_count; i++) {
    for (size_t j = 0; j < run->ranks[i].stream_count; j++) {
      const bt_run_stream *stream = run->ranks[i].streams[j];
      run->files[at++] = (bt_file_info){.path = stream->stream.path,
                                        .rank = stream->key.rank,
                                        .life = stream->key.life,
                                        .segment = stream->key.segment,
                                        .recovered = stream->key.recovered,
                                        .ended = stream->ended,
                                        .torn = bt_stream_torn(&stream->stream) > 0,
                                        .bytes_read = stream->stream.bytes_read,
                                        .size = stream->stream.size,
                                        .blocks = stream->stream.blocks,
                                        .records = stream->stream.records,
                                        .header = stream->stream.header};
    }
  }
  *count = at;
  return run->files;
}
