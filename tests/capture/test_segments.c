/* Segments that stand alone, the flight recorder's cap, step sampling, and what the writer says of its own accord. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "tests/capture/support.h"

static void define(bubbletop_session *session) {
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  int32_t ranks[] = {0, 2, 4};
  layout.pp_rank = 2;
  layout.pp_size = 4;
  assert_int_equal(bubbletop_layout_set(session, &layout), BUBBLETOP_OK);
  assert_int_equal(bubbletop_group(session, BUBBLETOP_DP, ranks, 3), 1);
  assert_int_equal(bubbletop_meta(session, "model", "7b"), BUBBLETOP_OK);
}

/* Before its first span a segment has said everything that the run has said so far. */
static void check_stands_alone(const stream_run *run, const stream_file *file) {
  bool group = false, model = false;
  bt_layout layout;
  bt_layout_init(&layout);
  for (size_t i = 0; i < file->record_count; i++) {
    const record *each = &run->records[file->first_record + i];
    if (bt_code_is_span(each->event.code)) break;
    group |= each->event.code == BT_GROUP && each->event.group == 1 && each->event.count == 3;
    if (each->event.code != BT_META) continue;
    assert_int_equal(bt_layout_decode((const uint8_t *)each->text, each->event.text_length, &layout), BT_OK);
    model |= memcmp(each->text,
                    "\x81\xa5model\xa2"
                    "7b",
                    10) == 0;
  }
  assert_true(group && model && layout.pp_rank == 2 && layout.pp_size == 4);
  if (file->segment > 0) assert_int_equal(file->header.layout.pp_rank, 2);
}

static void test_segments(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.segment_bytes = 8192;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  define(session);
  assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  for (int i = 0; i < 10; i++) {
    record_spans(session, i * 1000, 1000);
    assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
  }
  char last[512];
  strcpy(last, stats_of(session).path);
  uint64_t written = stats_of(session).bytes_written;
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_true(run->file_count > 5);
  assert_int_equal(run_count(run, BT_F), 10000);
  assert_int_equal(run_count(run, BT_END_OF_STREAM), 1);
  assert_string_equal(strrchr(last, '/') + 1, run->files[run->file_count - 1].name);
  run_check_numbers(run);
  uint64_t size = 0;
  for (size_t i = 0; i < run->file_count; i++) {
    const stream_file *file = &run->files[i];
    assert_int_equal(file->segment, i);
    assert_int_equal(file->header.segment, i);
    assert_memory_equal(file->header.marker, run->files[0].header.marker, BT_MARKER_BYTES);
    assert_true(file->size < 8192 + 1024);
    check_stands_alone(run, file);
    size += file->size;
  }
  assert_true(size >= written && size < written + 200);
  run_free(run);
  scratch_remove(scratch);
}

static void test_flight_recorder(void **state) {
  (void)state;
  char *scratch = scratch_make();
  enum { CAP = 64 * 1024, SPANS = 60000 };
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.cap_bytes = CAP;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  define(session);
  for (int i = 0; i < SPANS / 1000; i++) {
    record_spans(session, i * 1000, 1000);
    assert_int_equal(bubbletop_flush(session, 10000), BUBBLETOP_OK);
    if (i % 10 != 0) continue;
    stream_run *run = run_read(scratch, false);
    uint64_t size = 0;
    for (size_t k = 0; k < run->file_count; k++)
      size += run->files[k].size;
    assert_true(size <= CAP + 2048);
    run_free(run);
  }
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_true(run->file_count >= 4 && run->files[1].segment > 5);
  assert_int_equal(run->files[0].segment, 0); /* its name holds the life number */
  assert_int_equal(run->files[0].record_count, 1); /* cap_bytes */
  size_t spans = run_count(run, BT_F);
  assert_true(spans > 1000 && spans < SPANS);
  for (size_t i = 0; i < spans; i++) /* the newest, without a gap */
    assert_int_equal(run_find(run, BT_F, i)->event.microbatch, SPANS - spans + i);
  for (size_t i = 1; i < run->file_count; i++)
    check_stands_alone(run, &run->files[i]);
  assert_memory_equal(run_meta(run, "cap_bytes"), "65536", 5);
  run_free(run);

  config.cap_bytes = 0;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK); /* a new life, not a deleted segment's name */
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  run = run_read(scratch, false);
  assert_string_equal(run->files[run->file_count - 1].name, "rank-00000.1.0.msgpack");
  run_free(run);
  scratch_remove(scratch);
}

static void test_step_sampling(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.steps = "3..9,20,30..31";
  config.every = 2;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  record_spans(session, 1000, 1); /* before any step */
  define(session);
  bubbletop_span across;
  for (int step = 0; step < 40; step++) {
    bubbletop_step_begin(session, step);
    record_spans(session, step, 1);
    bubbletop_instant(session, "i");
    if (step == 9) bubbletop_begin(session, &across, BUBBLETOP_W, bubbletop_at(9, 0));
    bubbletop_step_end(session, step);
    if (step == 9) bubbletop_end(&across); /* begun in a sampled step */
    record_spans(session, 1000, 1); /* between steps */
  }
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  static const int sampled[] = {3, 5, 7, 9, 20, 30};
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 6);
  assert_int_equal(run_count(run, BT_W), 1);
  assert_int_equal(run_count(run, BT_INSTANT), 6);
  assert_int_equal(run_count(run, BT_STEP_BEGIN), 6);
  assert_int_equal(run_count(run, BT_STEP_END), 6);
  assert_int_equal(run_count(run, BT_GROUP), 1);
  for (size_t i = 0; i < 6; i++) {
    assert_int_equal(run_find(run, BT_F, i)->event.microbatch, sampled[i]);
    assert_int_equal(run_find(run, BT_STEP_BEGIN, i)->event.step, sampled[i]);
  }
  assert_memory_equal(run_meta(run, "sampled_steps"), "3..9,20,30..31", 14);
  assert_memory_equal(run_meta(run, "sampled_every"), "2", 1);
  run_free(run);
  scratch_remove(scratch);
}

static bool has_open_reports(void *directory) {
  stream_run *run = run_read(directory, true);
  bool has = run_count(run, BT_OPEN) >= 2 && run_count(run, BT_HEARTBEAT) >= 3;
  run_free(run);
  return has;
}

/* A hang is a block that grows; and a writer with nothing to write is heard all the same. */
static void test_open_spans_and_heartbeats(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  bubbletop_span hang, brief;
  bubbletop_comm message = BUBBLETOP_COMM_INIT;
  message.peer = 1;
  message.bytes = 4096;
  message.sequence = 17;
  bubbletop_comm_begin(session, &hang, BUBBLETOP_RECV_F, bubbletop_at(3, 1), &message);
  bubbletop_begin(session, &brief, BUBBLETOP_F, bubbletop_at(4, 1));
  bubbletop_end(&brief);
  assert_true(wait_until(has_open_reports, scratch));
  bubbletop_end(&hang);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  const bt_event *span = &run_find(run, BT_RECV_F, 0)->event;
  int64_t longest = 0;
  for (size_t i = 0; i < run_count(run, BT_OPEN); i++) {
    const bt_event *open = &run_find(run, BT_OPEN, i)->event;
    assert_int_equal(open->on_code, BT_RECV_F);
    assert_int_equal(open->ring, run_find(run, BT_RECV_F, 0)->ring);
    assert_int_equal(open->start, span->start);
    assert_int_equal(open->microbatch, 3);
    assert_int_equal(open->chunk, 1);
    assert_int_equal(open->peer, 1);
    assert_int_equal(open->bytes, 4096);
    assert_int_equal(open->sequence, 17);
    assert_true(open->duration > longest && open->duration >= 1000000000 && open->duration <= span->duration);
    longest = open->duration;
  }
  assert_int_equal(run_find(run, BT_HEARTBEAT, 1)->event.number, 1); /* the brief span */
  const record *clock = run_find(run, BT_CLOCK, 0);
  assert_int_equal(clock->ring, BT_WRITER_RING);
  int64_t real = clock->event.real - run->files[0].header.real_ns,
          mono = clock->event.start - run->files[0].header.mono_ns;
  assert_true(llabs(real - mono) < 1000000000); /* unless somebody sets the clock right now */
  run_free(run);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_segments),
      cmocka_unit_test(test_flight_recorder),
      cmocka_unit_test(test_step_sampling),
      cmocka_unit_test(test_open_spans_and_heartbeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
