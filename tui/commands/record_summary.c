/* What a record says when its command has ended: what is in the run, and what is not and why. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/run.h"
#include "tui/commands/open_run.h"
#include "tui/commands/record.h"

enum { NOTES = 16, PROBLEMS = 5 };
static const uint64_t most_read = 512 << 20; /* bytes of streams that are counted record by record */

typedef struct counts {
  uint64_t spans[BT_CODE_SPAN_LIMIT]; /* by kind */
  uint64_t dropped;
  int64_t first_step, last_step; /* first > last: none */
  size_t lives;
  const char *notes[NOTES]; /* what adapters say of themselves, each once */
  size_t note_count;
} counts;

static void count_notes(counts *all, const bt_trace *trace, const bt_rank *rank) {
  for (size_t i = 0; i < rank->mark_count; i++) {
    const char *name = trace->names[rank->marks[i].name];
    if (strncmp(name, "capture: ", 9) != 0) continue;
    bool known = false;
    for (size_t k = 0; !known && k < all->note_count; k++)
      known = strcmp(all->notes[k], name + 9) == 0;
    if (!known && all->note_count < NOTES) all->notes[all->note_count++] = name + 9;
  }
}

static void count(counts *all, const bt_trace *trace) {
  memset(all, 0, sizeof *all);
  all->first_step = INT64_MAX;
  all->last_step = INT64_MIN;
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    all->dropped += rank->dropped;
    all->lives += rank->life_count;
    for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
      for (size_t i = 0; i < rank->tracks[lane].count; i++)
        all->spans[rank->tracks[lane].spans[i].kind]++;
    }
    for (size_t i = 0; i < rank->step_count; i++) {
      if (rank->steps[i].id < all->first_step) all->first_step = rank->steps[i].id;
      if (rank->steps[i].id > all->last_step) all->last_step = rank->steps[i].id;
    }
    count_notes(all, trace, rank);
  }
}

static uint64_t spans_between(const counts *all, int first, int last) {
  uint64_t sum = 0;
  for (int kind = first; kind <= last; kind++)
    sum += all->spans[kind];
  return sum;
}

static void say(const char *name, uint64_t spans) {
  if (spans > 0) fprintf(stderr, ", %s %" PRIu64, name, spans);
}

static void print_safely(const char *text) {
  for (; *text != '\0'; text++)
    fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, stderr);
}

static void print_counts(const bt_trace *trace, const counts *all) {
  fprintf(stderr, "bubbletop record: %zu rank%s", trace->rank_count, trace->rank_count == 1 ? "" : "s");
  if (trace->world_size > 0 && (size_t)trace->world_size != trace->rank_count)
    fprintf(stderr, " of %d", trace->world_size);
  fprintf(stderr, ", %zu stream%s", all->lives, all->lives == 1 ? "" : "s");
  if (all->first_step <= all->last_step)
    fprintf(stderr, ", steps %" PRId64 "..%" PRId64, all->first_step, all->last_step);
  fprintf(stderr, "\nbubbletop record: %" PRIu64 " spans", spans_between(all, 0, BT_CODE_SPAN_LIMIT - 1));
  say("F", all->spans[BT_F]);
  say("B", all->spans[BT_B]);
  say("W", all->spans[BT_W]);
  say("BW", all->spans[BT_BW]);
  say("FB", all->spans[BT_FB]);
  say("other compute", spans_between(all, BT_RECOMPUTE, BT_OTHER));
  say("p2p", spans_between(all, BT_SEND_F, BT_RECV));
  say("collectives", spans_between(all, BT_ALL_REDUCE, BT_BROADCAST));
  say("gates", all->spans[BT_GATE]);
  say("host", all->spans[BT_HOST]);
  fputc('\n', stderr);
  if (all->dropped > 0)
    fprintf(stderr,
            "bubbletop record: %" PRIu64 " records dropped: rings were full (BUBBLETOP_RING_BYTES makes them larger)\n",
            all->dropped);
  for (size_t i = 0; i < all->note_count; i++) {
    fprintf(stderr, "bubbletop record: ");
    print_safely(all->notes[i]);
    fputc('\n', stderr);
  }
}

static void print_missing(const char *what, const char *why) {
  if (why[0] != '\0') fprintf(stderr, "bubbletop record: not captured: %s: %s\n", what, why);
}

static void print_nothing(const bt_record_options *options, const bt_record_sources *sources) {
  fprintf(stderr, "bubbletop record: nothing was captured: no process wrote a stream into %s\n", options->run);
  if (sources->library[0] == '\0') {
    fprintf(stderr, "bubbletop record: libbubbletop.so.0 was not found beside this program: install it\n");
    return;
  }
  fprintf(stderr, "bubbletop record: a stream begins with the first step of torch.distributed.pipelining, "
                  "Megatron-core's schedules or\n"
                  "bubbletop record: DeepSpeed's pipeline engine, or the first call of the C or Python API;\n"
                  "bubbletop record: another trainer needs these calls: bubbletop(3), `python: import bubbletop`\n");
}

/* Counting reads all of it into memory: of a large run only the size is told. */
static void print_run(const bt_record_run *run) {
  const bt_run_options reading = {.rings = true};
  const char *path = run->directory;
  bt_error error = {BT_OK, ""};
  bt_run *opened = NULL;
  size_t file_count = 0;
  uint64_t bytes = 0;
  counts all;
  bt_status status = bt_run_open(&path, 1, &reading, &opened, &error);
  if (status == BT_OK) {
    const bt_file_info *files = bt_run_files(opened, &file_count);
    struct stat about;
    for (size_t i = 0; i < file_count; i++)
      bytes += stat(files[i].path, &about) == 0 ? (uint64_t)about.st_size : 0;
  }
  if (bytes > most_read) {
    fprintf(stderr, "bubbletop record: %zu files, %.1f GiB\n", file_count, (double)bytes / (1 << 30));
    bt_run_close(opened);
    return;
  }
  while (status == BT_OK)
    status = bt_run_poll(opened, 0, &error);
  if (status < 0) {
    fprintf(stderr, "bubbletop record: %s\n", error.text);
  } else {
    count(&all, bt_run_trace(opened));
    print_counts(bt_run_trace(opened), &all);
    fflush(stderr);
    bt_print_problems(stderr, "bubbletop record: ", opened, PROBLEMS);
  }
  bt_run_close(opened);
}

void bt_record_summary(const bt_record_options *options, const bt_record_run *run, const bt_record_sources *sources,
                       const bt_recover_report *drained) {
  bool streams = bt_record_has_streams(run->directory);
  if (!streams) print_nothing(options, sources);
  if (streams) print_run(run);
  if (drained->recovered > 0)
    fprintf(stderr, "bubbletop record: saved %" PRIu64 " records of %zu killed process%s\n", drained->records,
            drained->recovered, drained->recovered == 1 ? "" : "es");
  if (drained->alive > 0)
    fprintf(stderr, "bubbletop record: %zu process%s still write%s: `bubbletop recover %s` when they have ended\n",
            drained->alive, drained->alive == 1 ? "" : "es", drained->alive == 1 ? "s" : "", options->run);
  print_missing("Python frameworks", sources->python);
  print_missing("NVTX ranges", sources->nvtx);
  print_missing("NCCL", sources->nccl);
  if (streams) fprintf(stderr, "bubbletop record: bubbletop %s\n", options->run);
}
