#define _GNU_SOURCE
#include "tui/commands/simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/wire/encode.h"

enum { KEPT_OPEN = 256, PROGRAM_RING = 1 }; /* more ranks than that take turns with one block and one open file */

#define HEARTBEAT_EVERY INT64_C(2000000000)
#define CLOCK_EVERY INT64_C(10000000000)

/* What bt_simulation_random is asked for here; the simulation itself counts from 0. */
enum { RANDOM_MARKER = 100, RANDOM_BOOT };

typedef struct stream {
  int fd; /* -1: closed between turns */
  uint8_t marker[BT_MARKER_BYTES];
  bt_encoder *encoder; /* of the program's ring; shared when there are many ranks */
  uint64_t records, own_records; /* written or in the encoder, of the program's ring and the writer's */
  int64_t heartbeat, clock; /* true times of the last ones */
} stream;

typedef struct writer {
  bt_simulation *simulation;
  const bt_simulation_params *params;
  bt_simulate_output *output;
  stream *streams;
  int32_t ranks;
  bt_encoder *shared, *own; /* `own`: of the writer's ring, for one block at a time */
  uint8_t *block;
} writer;

static void stream_path(const writer *to, int32_t rank, char *path, size_t room) {
  snprintf(path, room, "%s/rank-%05d.0.0.msgpack", to->output->directory, rank);
}

static bt_status failed(const char *path, const char *what, bt_error *error) {
  if (errno == EEXIST) {
    return bt_fail(error, BT_ERR_IO, "%s is there already: choose a directory without a run in it", path);
  }
  return bt_fail(error, BT_ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static bt_status write_all(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t wrote = write(fd, bytes, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return BT_ERR_IO;
    bytes += wrote;
    length -= (size_t)wrote;
  }
  return BT_OK;
}

static bt_status put_bytes(writer *to, int32_t rank, const uint8_t *bytes, size_t length, bool create,
                           bt_error *error) {
  stream *of = &to->streams[rank];
  char path[PATH_MAX];
  stream_path(to, rank, path, sizeof path);
  if (of->fd < 0) {
    of->fd = open(path, (create ? O_CREAT | O_EXCL : O_APPEND) | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (of->fd < 0) return failed(path, "write", error);
  }
  bt_status status = write_all(of->fd, bytes, length);
  if (status != BT_OK) return failed(path, "write", error);
  to->output->bytes += length;
  if (to->ranks <= KEPT_OPEN) return BT_OK;
  int closed = close(of->fd);
  of->fd = -1;
  return closed == 0 ? BT_OK : failed(path, "write", error);
}

static bt_status flush(writer *to, int32_t rank, const bt_encoder *encoder, bt_error *error) {
  size_t length = bt_encoder_finish(encoder, to->streams[rank].marker, to->block);
  return length == 0 ? BT_OK : put_bytes(to, rank, to->block, length, false, error);
}

/* Adds a record in true time to the program's ring; a full block is written out. */
static bt_status add(writer *to, int32_t rank, const bt_event *event, bt_error *error) {
  stream *of = &to->streams[rank];
  bt_event local = *event;
  local.start = bt_simulation_reading(to->simulation, rank, event->start);
  local.duration = bt_simulation_reading(to->simulation, rank, bt_event_end(event)) - local.start;
  bt_status status = bt_encoder_add(of->encoder, &local);
  if (status == BT_FULL) {
    status = flush(to, rank, of->encoder, error);
    if (status != BT_OK) return status;
    bt_encoder_begin(of->encoder, PROGRAM_RING, of->records);
    status = bt_encoder_add(of->encoder, &local);
  }
  if (status != BT_OK) return bt_fail(error, status, "a %s cannot be written", bt_code_name(event->code));
  of->records++;
  to->output->spans += bt_code_is_span(event->code);
  return BT_OK;
}

static bt_status turn_ends(writer *to, int32_t rank, bt_error *error) {
  if (to->ranks <= KEPT_OPEN) return BT_OK;
  stream *of = &to->streams[rank];
  bt_status status = flush(to, rank, of->encoder, error);
  bt_encoder_begin(of->encoder, PROGRAM_RING, of->records);
  return status;
}

/* --- the writer's own ring ---------------------------------------------------------------------------------------- */

static void add_own(writer *to, int32_t rank, const bt_event *event) {
  if (bt_encoder_add(to->own, event) == BT_OK) to->streams[rank].own_records++;
}

static void add_clock(writer *to, int32_t rank, int64_t time) {
  bt_event clock;
  bt_event_init(&clock, BT_CLOCK);
  clock.start = bt_simulation_reading(to->simulation, rank, time);
  clock.real = clock.start + BT_SIMULATE_EPOCH; /* the wall clock is off as the other one is */
  add_own(to, rank, &clock);
  to->streams[rank].clock = time;
}

static void add_heartbeat(writer *to, int32_t rank, int64_t time) {
  bt_event beat;
  bt_event_init(&beat, BT_HEARTBEAT);
  beat.start = bt_simulation_reading(to->simulation, rank, time);
  beat.number = to->streams[rank].records;
  add_own(to, rank, &beat);
  to->streams[rank].heartbeat = time;
}

static void add_end(writer *to, int32_t rank, int64_t time) {
  bt_event end;
  bt_event_init(&end, BT_END_OF_STREAM);
  end.start = bt_simulation_reading(to->simulation, rank, time);
  end.text = "closed";
  end.text_length = 6;
  add_own(to, rank, &end);
}

/* What the writer thread would have put in by true time `now`. */
static bt_status own_records(writer *to, int32_t rank, int64_t now, bool last, bt_error *error) {
  stream *of = &to->streams[rank];
  bt_encoder_begin(to->own, BT_WRITER_RING, of->own_records);
  if (of->own_records == 0) add_clock(to, rank, BT_SIMULATE_BEGIN);
  while (of->heartbeat + HEARTBEAT_EVERY <= now) {
    add_heartbeat(to, rank, of->heartbeat + HEARTBEAT_EVERY);
    if (of->clock + CLOCK_EVERY <= of->heartbeat) add_clock(to, rank, of->heartbeat);
  }
  if (last) {
    add_clock(to, rank, now);
    add_end(to, rank, now);
  }
  return flush(to, rank, to->own, error);
}

/* --- header, steps, end ------------------------------------------------------------------------------------------- */

static bt_status write_header(writer *to, int32_t rank, bt_error *error) {
  const bt_simulation_params *params = to->params;
  int32_t host = bt_simulation_host_of(to->simulation, rank);
  uint64_t boot[2];
  for (uint64_t i = 0; i < 2; i++)
    boot[i] = bt_simulation_random(params->seed, RANDOM_BOOT, (uint64_t)host, i);
  bt_header header;
  bt_header_init(&header);
  memcpy(header.marker, to->streams[rank].marker, BT_MARKER_BYTES);
  header.rank = rank;
  header.world_size = to->ranks;
  bt_simulation_layout(to->simulation, rank, &header.layout);
  if (to->output->declare) {
    snprintf(header.layout.schedule, sizeof header.layout.schedule, "%s", params->family->name);
  }
  snprintf(header.host, sizeof header.host, "node-%04d", host);
  snprintf(header.boot_id, sizeof header.boot_id, "%08x-%04x-4%03x-a%03x-%012" PRIx64, (unsigned)(boot[0] >> 32),
           (unsigned)(boot[0] >> 16 & 0xffff), (unsigned)(boot[0] & 0xfff), (unsigned)(boot[1] >> 52),
           boot[1] & 0xffffffffffff);
  header.pid = 1000 + rank;
  snprintf(header.run_id, sizeof header.run_id, "simulated-%" PRIu64, params->seed);
  header.mono_ns = bt_simulation_reading(to->simulation, rank, BT_SIMULATE_BEGIN);
  header.real_ns = header.mono_ns + BT_SIMULATE_EPOCH;
  snprintf(header.writer, sizeof header.writer, "bubbletop simulate");
  size_t used = 0;
  bt_status status = bt_header_encode(&header, to->block, BT_BLOCK_MAX, &used, error);
  return status == BT_OK ? put_bytes(to, rank, to->block, used, true, error) : status;
}

static bt_status begin_stream(writer *to, int32_t rank, bt_error *error) {
  stream *of = &to->streams[rank];
  uint64_t marker = bt_simulation_random(to->params->seed, RANDOM_MARKER, (uint64_t)rank, 0);
  memcpy(of->marker, &marker, sizeof of->marker);
  of->heartbeat = of->clock = BT_SIMULATE_BEGIN;
  bt_status status = write_header(to, rank, error);
  if (status == BT_OK) status = own_records(to, rank, BT_SIMULATE_BEGIN, false, error);
  bt_encoder_begin(of->encoder, PROGRAM_RING, 0);
  size_t count;
  const bt_event *groups = bt_simulation_groups(to->simulation, rank, &count);
  for (size_t i = 0; status == BT_OK && i < count; i++)
    status = add(to, rank, &groups[i], error);
  return status == BT_OK ? turn_ends(to, rank, error) : status;
}

static bt_status write_step(writer *to, int32_t rank, bt_error *error) {
  size_t count;
  const bt_event *events = bt_simulation_events(to->simulation, rank, &count);
  if (events == NULL) return bt_fail(error, BT_ERR_NOMEM, "no memory for a step's records");
  if (to->ranks > KEPT_OPEN) bt_encoder_begin(to->shared, PROGRAM_RING, to->streams[rank].records);
  bt_status status = BT_OK;
  for (size_t i = 0; status == BT_OK && i < count; i++)
    status = add(to, rank, &events[i], error);
  if (status == BT_OK) status = turn_ends(to, rank, error);
  int64_t now = bt_simulation_step_end(to->simulation, rank);
  if (status != BT_OK || to->streams[rank].heartbeat + HEARTBEAT_EVERY > now) return status;
  if (to->ranks <= KEPT_OPEN) { /* a heartbeat says that what was before it is written: so it is */
    stream *of = &to->streams[rank];
    status = flush(to, rank, of->encoder, error);
    bt_encoder_begin(of->encoder, PROGRAM_RING, of->records);
  }
  if (status == BT_OK) status = own_records(to, rank, now, false, error);
  return status;
}

static bt_status end_stream(writer *to, int32_t rank, bt_error *error) {
  bt_status status = BT_OK;
  if (to->ranks <= KEPT_OPEN) status = flush(to, rank, to->streams[rank].encoder, error);
  int64_t last = bt_simulation_step_end(to->simulation, rank) + 1000000; /* the program took a moment to close */
  return status == BT_OK ? own_records(to, rank, last, true, error) : status;
}

static bt_status write_run(writer *to, bt_error *error) {
  bt_status status = BT_OK;
  for (int32_t rank = 0; status == BT_OK && rank < to->ranks; rank++)
    status = begin_stream(to, rank, error);
  while (status == BT_OK && bt_simulation_step(to->simulation)) {
    for (int32_t rank = 0; status == BT_OK && rank < to->ranks; rank++)
      status = write_step(to, rank, error);
  }
  for (int32_t rank = 0; status == BT_OK && rank < to->ranks; rank++)
    status = end_stream(to, rank, error);
  return status;
}

static bool allocate(writer *to) {
  bool shared = to->ranks > KEPT_OPEN;
  to->streams = calloc((size_t)to->ranks, sizeof *to->streams);
  to->shared = shared ? malloc(sizeof *to->shared) : NULL;
  to->own = malloc(sizeof *to->own);
  to->block = malloc(BT_BLOCK_MAX);
  if (to->streams == NULL || to->own == NULL || to->block == NULL || (shared && to->shared == NULL)) return false;
  for (int32_t rank = 0; rank < to->ranks; rank++) {
    to->streams[rank].fd = -1;
    to->streams[rank].encoder = shared ? to->shared : malloc(sizeof *to->shared);
    if (to->streams[rank].encoder == NULL) return false;
  }
  return true;
}

static bt_status release(writer *to, bt_status status, bt_error *error) {
  for (int32_t rank = 0; to->streams != NULL && rank < to->ranks; rank++) {
    stream *of = &to->streams[rank];
    char path[PATH_MAX];
    stream_path(to, rank, path, sizeof path);
    if (of->fd >= 0 && close(of->fd) != 0 && status == BT_OK) status = failed(path, "write", error);
    if (of->encoder != to->shared) free(of->encoder);
  }
  free(to->streams);
  free(to->shared);
  free(to->own);
  free(to->block);
  return status;
}

/* --- the truth ---------------------------------------------------------------------------------------------------- */

static void truth_list(FILE *out, const char *name, const char *where, const bt_disturbances *list, bool time) {
  fprintf(out, ",\n  \"%s\": [", name);
  for (size_t i = 0; i < list->count; i++) {
    const bt_disturbance *each = &list->items[i];
    fprintf(out, "%s{\"%s\": %d", i == 0 ? "" : ", ", where, each->where);
    if (strcmp(where, "from") == 0) fprintf(out, ", \"to\": %d", each->to);
    if (time) {
      fprintf(out, ", \"time_ns\": %" PRId64 "}", each->time);
    } else {
      fprintf(out, ", \"factor\": %.17g}", each->factor);
    }
  }
  fputs("]", out);
}

static void truth(FILE *out, const writer *to) {
  const bt_simulation_params *params = to->params;
  const bt_schedule *schedule = bt_simulation_schedule(to->simulation);
  fprintf(out, "{\n  \"schedule\": {\"name\": \"%s\", \"stages\": %d, \"microbatches\": %d, \"chunks\": %d},\n",
          params->family->name, schedule->stages, schedule->microbatches, schedule->chunks);
  fprintf(out, "  \"seed\": %" PRIu64 ",\n  \"begin_ns\": %" PRId64 ",\n  \"clocks\": [", params->seed,
          BT_SIMULATE_BEGIN);
  for (int32_t host = 0; host < bt_simulation_hosts(to->simulation); host++) {
    const bt_simulated_host *clock = bt_simulation_host(to->simulation, host);
    fprintf(out, "%s\n    {\"host\": \"node-%04d\", \"skew_ns\": %" PRId64 ", \"drift_ppm\": %.17g}",
            host == 0 ? "" : ",", host, clock->skew, clock->drift * 1e6 + 0.0);
  }
  fputs("]", out);
  truth_list(out, "slow_stages", "stage", &params->slow_stages, false);
  truth_list(out, "slow_ranks", "rank", &params->slow_ranks, false);
  truth_list(out, "slow_links", "from", &params->slow_links, false);
  truth_list(out, "slow_microbatches", "microbatch", &params->slow_microbatches, false);
  truth_list(out, "pauses", "stage", &params->pauses, true);
  fputs("\n}\n", out);
}

static bt_status write_truth(const writer *to, bt_error *error) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/truth.json", to->output->directory);
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (out == NULL) return failed(path, "write", error);
  truth(out, to);
  bool bad = ferror(out) != 0;
  return fclose(out) == 0 && !bad ? BT_OK : failed(path, "write", error);
}

bt_status bt_simulate_write(bt_simulation *simulation, const bt_simulation_params *params, bt_simulate_output *output,
                            bt_error *error) {
  output->spans = output->bytes = 0;
  if (strlen(output->directory) > PATH_MAX - 64) return bt_fail(error, BT_ERR_ARG, "the directory's name is too long");
  if (mkdir(output->directory, 0777) != 0 && errno != EEXIST) return failed(output->directory, "make", error);
  writer to = {simulation, params, output, NULL, bt_simulation_ranks(simulation), NULL, NULL, NULL};
  bt_status status = allocate(&to) ? write_truth(&to, error) : bt_fail(error, BT_ERR_NOMEM, "no memory for the files");
  if (status == BT_OK) status = write_run(&to, error);
  return release(&to, status, error);
}
