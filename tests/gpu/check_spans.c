/* What tests/gpu/run asserts of the runs it made. Exit 0: it holds, 1: it does not, with a line that says what.
 *   times RUN TRUTH PERCENT   spans F against what the kernels measured themselves: lines of rank, microbatch, start, length in
 *                             ns of the GPU's timer. Lengths agree to PERCENT and 20 us (two launches), all of a rank are off
 *                             from the GPU's timer by the same, and the ranks by the same as each other
 *   brackets RUN TRUTH        spans F lie between two looks at the host's clock: lines of microbatch, before, after
 *   anchors RUN MICROSECONDS  no anchor is wider
 *   messages RUN COUNT BYTES  so many sends and receives of the rank to itself, grouped, timed by the GPU; no collective
 *   ops RUN KIND COUNT        so many spans of the kind (F, B, …), all timed by the GPU
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"
#include "formats/join.h"
#include "formats/run.h"
#include "formats/wire/decode.h"

static const int64_t launches_ns = 20000; /* from an event to the kernel behind it, and back */
static const int64_t clocks_ns = 100000; /* what a GPU's timer and events may differ by, anchors included */

__attribute__((format(printf, 2, 3))) static void expect(bool condition, const char *format, ...) {
  if (condition) return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

static bt_run *open_run(const char *path) {
  const bt_run_options options = {.rings = false};
  bt_error error = {BT_OK, ""};
  bt_run *run = NULL;
  bt_status status = bt_run_open(&path, 1, &options, &run, &error);
  while (status == BT_OK)
    status = bt_run_poll(run, 0, &error);
  expect(status >= 0, "%s", error.text);
  return run;
}

static FILE *open_truth(const char *path) {
  FILE *file = fopen(path, "r");
  expect(file != NULL, "%s cannot be read", path);
  return file;
}

static const bt_span *find(const bt_rank *rank, bt_code kind, int32_t microbatch) {
  const bt_track *track = &rank->tracks[BT_LANE_COMPUTE];
  for (size_t i = 0; i < track->count; i++) {
    if (track->spans[i].kind == kind && track->spans[i].microbatch == microbatch) return &track->spans[i];
  }
  expect(false, "rank %" PRId32 " has no %s of microbatch %" PRId32, rank->rank, bt_code_name(kind), microbatch);
  return NULL;
}

static int compare_offsets(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* The middle offset of a rank's spans from the GPU's timer, from which none is far. */
static int64_t middle_of(int64_t *offsets, size_t count, int32_t rank) {
  expect(count > 0, "rank %" PRId32 " has nothing to compare", rank);
  qsort(offsets, count, sizeof *offsets, compare_offsets);
  int64_t middle = offsets[count / 2];
  printf("rank %" PRId32 ": %zu kernels, off from the GPU's timer by the same within %.1f us\n", rank, count,
         (double)(offsets[count - 1] - offsets[0]) / 1e3);
  expect(middle - offsets[0] <= clocks_ns && offsets[count - 1] - middle <= clocks_ns, "that is too much");
  return middle;
}

static void check_times(const bt_trace *trace, const char *truth, double percent) {
  FILE *file = open_truth(truth);
  int64_t *offsets = NULL, first_middle = 0, longest = 0;
  size_t count = 0, capacity = 0;
  long long rank, microbatch, start, length, last = -1;
  bool any = false, more = true;
  while (more) {
    more = fscanf(file, "%lld %lld %lld %lld", &rank, &microbatch, &start, &length) == 4;
    if (any && (!more || rank != last)) {
      int64_t middle = middle_of(offsets, count, (int32_t)last);
      if (first_middle == 0) first_middle = middle;
      expect(llabs(middle - first_middle) <= clocks_ns, "the ranks' clocks differ by %.1f us",
             (double)llabs(middle - first_middle) / 1e3);
      count = 0;
    }
    if (!more) break;
    any = true;
    last = rank;
    const bt_rank *of = bt_trace_find(trace, (int32_t)rank);
    expect(of != NULL, "rank %lld is not there", rank);
    const bt_span *span = find(of, BT_F, (int32_t)microbatch);
    int64_t duration = bt_span_duration(&of->tracks[BT_LANE_COMPUTE], span);
    expect((span->flags & BT_FLAG_GPU_TIMED) != 0, "microbatch %lld has no GPU time", microbatch);
    expect((double)llabs(duration - length) <= percent / 100 * (double)length + (double)launches_ns,
           "microbatch %lld: a kernel of %.1f us became %.1f us", microbatch, (double)length / 1e3,
           (double)duration / 1e3);
    if (duration - length > longest) longest = duration - length;
    expect(bt_array_reserve(&offsets, &capacity, count + 1, sizeof *offsets), "memory is short");
    offsets[count++] = span->start - start;
  }
  expect(any, "%s is empty", truth);
  printf("spans are at most %.1f us longer than their kernels\n", (double)longest / 1e3);
  free(offsets);
  fclose(file);
}

static void check_brackets(const bt_trace *trace, const char *truth) {
  FILE *file = open_truth(truth);
  long long microbatch, before, after;
  int64_t early = INT64_MAX, late = INT64_MAX;
  size_t count = 0;
  for (; fscanf(file, "%lld %lld %lld", &microbatch, &before, &after) == 3; count++) {
    const bt_rank *rank = &trace->ranks[0];
    const bt_span *span = find(rank, BT_F, (int32_t)microbatch);
    int64_t end = bt_span_end(&rank->tracks[BT_LANE_COMPUTE], span);
    expect((span->flags & BT_FLAG_GPU_TIMED) != 0, "microbatch %lld has no GPU time", microbatch);
    if (span->start - before < early) early = span->start - before;
    if (after - end < late) late = after - end;
  }
  expect(count > 0, "%s is empty", truth);
  printf("%zu spans between two looks at the host's clock: %.1f us behind the first and %.1f us before the second at "
         "least\n",
         count, (double)early / 1e3, (double)late / 1e3);
  expect(early >= -clocks_ns && late >= -clocks_ns, "the GPU's clock has drifted away");
  fclose(file);
}

typedef struct anchors {
  int64_t widest;
  size_t count;
} anchors;

static bt_status note_anchor(void *context, uint64_t number, const bt_event *event) {
  anchors *sum = context;
  (void)number;
  if (event->code != BT_ANCHOR) return BT_OK;
  sum->count++;
  if (event->real > sum->widest) sum->widest = event->real;
  return BT_OK;
}

static void read_anchors(const char *path, anchors *sum) {
  FILE *file = fopen(path, "r");
  expect(file != NULL && fseek(file, 0, SEEK_END) == 0, "%s cannot be read", path);
  long size = ftell(file);
  uint8_t *bytes = malloc((size_t)size + 1);
  rewind(file);
  expect(bytes != NULL && fread(bytes, 1, (size_t)size, file) == (size_t)size, "%s cannot be read", path);
  fclose(file);
  bt_header header;
  bt_block block;
  size_t used = 0;
  expect(bt_header_decode(bytes, (size_t)size, &header, &used, NULL) == BT_OK, "%s is no stream", path);
  for (size_t at = used; at < (size_t)size; at += used) {
    if (bt_block_decode(bytes + at, (size_t)size - at, header.marker, &block, &used) != BT_OK) break;
    (void)bt_block_records(&block, note_anchor, sum);
  }
  free(bytes);
}

static void check_anchors(bt_run *run, double microseconds) {
  anchors sum = {0, 0};
  size_t count;
  const bt_file_info *files = bt_run_files(run, &count);
  for (size_t i = 0; i < count; i++)
    read_anchors(files[i].path, &sum);
  printf("%zu anchors, the widest known to +-%.1f us\n", sum.count, (double)sum.widest / 1e3);
  expect(sum.count > 0 && (double)sum.widest <= microseconds * 1e3, "that is not enough");
}

static void check_messages(const bt_trace *trace, long count, long long bytes) {
  const bt_rank *rank = &trace->ranks[0];
  const bt_track *track = &rank->tracks[BT_LANE_P2P];
  long sends = 0, receives = 0;
  expect(bt_join_count(trace, BT_JOINED) == 1 && trace->joined_count == 1, "there is not one communicator, joined");
  for (size_t i = 0; i < track->count; i++) {
    const bt_span *span = &track->spans[i];
    const bt_span_more *more = bt_span_details(track, span);
    expect((span->flags & BT_FLAG_GPU_TIMED) != 0, "a message has no GPU time");
    expect((span->flags & BT_FLAG_GROUPED) != 0, "a message of a group does not say so");
    expect(bt_span_duration(track, span) > 0, "a message took no time");
    expect(more != NULL && more->bytes == bytes, "a message has another size");
    expect(bt_trace_peer(rank, more->group, more->peer) == rank->rank, "a message goes to somebody else");
    sends += bt_code_is_send(span->kind);
    receives += bt_code_is_receive(span->kind);
  }
  printf("%ld sends, %ld receives\n", sends, receives);
  expect(sends == count && receives == count, "%ld of each were made", count);
  expect(rank->tracks[BT_LANE_COLLECTIVE].count == 0, "a collective of one rank launches nothing, but is there");
}

static void check_ops(const bt_trace *trace, const char *kind, long count) {
  bt_code code = bt_code_from_name(kind);
  long found = 0;
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_track *track = &trace->ranks[r].tracks[bt_lane_of(code)];
    for (size_t i = 0; i < track->count; i++) {
      if (track->spans[i].kind != code) continue;
      found++;
      expect((track->spans[i].flags & BT_FLAG_GPU_TIMED) != 0, "a %s has no GPU time", kind);
    }
  }
  printf("%ld %s\n", found, kind);
  expect(found == count, "%ld were made", count);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (argc < 4) {
    fprintf(stderr, "usage: check_spans times|brackets|anchors|messages|ops RUN ...\n");
    return 2;
  }
  bt_run *run = open_run(argv[2]);
  const bt_trace *trace = bt_run_trace(run);
  expect(trace->rank_count > 0, "%s has no rank", argv[2]);
  if (strcmp(what, "times") == 0 && argc == 5)
    check_times(trace, argv[3], atof(argv[4]));
  else if (strcmp(what, "brackets") == 0)
    check_brackets(trace, argv[3]);
  else if (strcmp(what, "anchors") == 0)
    check_anchors(run, atof(argv[3]));
  else if (strcmp(what, "messages") == 0 && argc == 5)
    check_messages(trace, atol(argv[3]), atoll(argv[4]));
  else if (strcmp(what, "ops") == 0 && argc == 5)
    check_ops(trace, argv[3], atol(argv[4]));
  else
    return 2;
  bt_run_close(run);
  return 0;
}
