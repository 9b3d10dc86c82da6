/* Threads that come, go and end each other's spans; two sessions in one process. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/wire/ring.h"
#include "tests/capture/support.h"

static void run_thread(void *(*body)(void *), void *context) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, context), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *ten_spans(void *session) {
  record_spans(session, 0, 10);
  return NULL;
}

static void test_a_finished_threads_ring_goes_on(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  for (int i = 0; i < 50; i++)
    run_thread(ten_spans, session);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 500);
  for (size_t i = 0; i < run->record_count; i++)
    assert_true(run->records[i].ring <= 1);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

typedef struct handing {
  bubbletop_session *session;
  bubbletop_span spans[40];
} handing;

static void *begin_all(void *context) {
  handing *with = context;
  for (int i = 0; i < 40; i++)
    bubbletop_begin(with->session, &with->spans[i], BUBBLETOP_B, bubbletop_at(i, 0));
  return NULL;
}

static void *end_all(void *context) {
  handing *with = context;
  for (int i = 0; i < 40; i++)
    bubbletop_end(&with->spans[i]);
  return NULL;
}

/* Begun by a thread that has ended, ended by this one, by a new one with a ring of its own, by the heir of the ring. */
static void test_spans_ended_by_others(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_session *session = session_in(scratch);
  handing *with = malloc(sizeof *with);
  with->session = session;
  for (int round = 0; round < 3; round++) { /* the open table is free again each time */
    run_thread(begin_all, with);
    if (round == 0) record_spans(session, 0, 1); /* this thread inherits ring 1 */
    end_all(with);
    begin_all(with);
    run_thread(end_all, with);
    run_thread(begin_all, with);
    run_thread(end_all, with);
  }
  assert_int_equal(stats_of(session).misuse + stats_of(session).double_ends + stats_of(session).unbegun_ends, 0);
  end_all(with);
  assert_int_equal(stats_of(session).double_ends, 40);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  free(with);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_B), 360);
  assert_int_equal(run_count(run, BT_OPEN), 0);
  int seen[40] = {0};
  for (size_t i = 0; i < run->record_count; i++) {
    if (run->records[i].event.code == BT_B) seen[run->records[i].event.microbatch]++;
  }
  for (int i = 0; i < 40; i++)
    assert_int_equal(seen[i], 9);
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

typedef struct crowd {
  bubbletop_session *sessions[2];
  int thread, rounds;
  bubbletop_span *mailbox; /* atomic: a span for whoever comes by to end */
} crowd;

/* Records into both sessions, ends what others began, asks for stats and flushes. */
static void *stress(void *context) {
  const crowd *with = context;
  for (int i = 0; i < with->rounds; i++) {
    bubbletop_span spans[2];
    bubbletop_comm message = BUBBLETOP_COMM_INIT;
    message.peer = with->thread;
    message.sequence = i;
    bubbletop_begin(with->sessions[0], &spans[0], BUBBLETOP_F, bubbletop_at(with->thread * with->rounds + i, 0));
    bubbletop_comm_begin(with->sessions[1], &spans[1], BUBBLETOP_SEND_F, bubbletop_at(i, 0), &message);
    bubbletop_end(&spans[i % 2]);
    bubbletop_end(&spans[1 - i % 2]);
    if (i % 64 == 0) bubbletop_instant(with->sessions[0], "sixty-four");
    if (i % 128 == 0) bubbletop_flush(with->sessions[i % 256 == 0], 10000);
    if (i % 100 == 0) stats_of(with->sessions[0]);
  }
  bubbletop_span *mine = malloc(sizeof *mine);
  bubbletop_begin(with->sessions[0], mine, BUBBLETOP_W, bubbletop_at(with->thread, 0));
  bubbletop_span *other = __atomic_exchange_n((bubbletop_span **)with->mailbox, mine, __ATOMIC_ACQ_REL);
  if (other != NULL) bubbletop_end(other);
  free(other);
  return NULL;
}

static void test_a_crowd_and_two_sessions(void **state) {
  (void)state;
  enum { THREADS = 8, ROUNDS = 1000 };
  char *scratch = scratch_make();
  bubbletop_session *one = session_in(scratch), *two = session_in(scratch);
  pthread_t threads[THREADS];
  crowd with[THREADS];
  bubbletop_span *mailbox = NULL;
  for (int i = 0; i < THREADS; i++) {
    with[i] = (crowd){{one, two}, i, ROUNDS, (bubbletop_span *)&mailbox};
    assert_int_equal(pthread_create(&threads[i], NULL, stress, &with[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  bubbletop_end(mailbox);
  free(mailbox);
  assert_int_equal(stats_of(one).dropped + stats_of(two).dropped, 0);
  assert_int_equal(bubbletop_close(two, 0), BUBBLETOP_OK);
  record_spans(one, THREADS * ROUNDS, 5);
  assert_int_equal(bubbletop_close(one, 0), BUBBLETOP_OK);

  stream_run *run = run_read(scratch, false);
  assert_int_equal(run->file_count, 2);
  assert_int_equal(run_count(run, BT_F), THREADS * ROUNDS + 5);
  assert_int_equal(run_count(run, BT_SEND_F), THREADS * ROUNDS);
  assert_int_equal(run_count(run, BT_W), THREADS);
  assert_int_equal(run_count(run, BT_INSTANT), THREADS * ((ROUNDS + 63) / 64));
  char *seen = calloc(1, THREADS * ROUNDS + 5);
  for (size_t i = 0; i < run->record_count; i++) {
    const record *each = &run->records[i];
    if (each->event.code == BT_F) assert_int_equal(seen[each->event.microbatch]++, 0);
    if (bt_code_is_span(each->event.code)) assert_int_equal(each->life, each->event.code == BT_SEND_F);
  }
  free(seen);
  assert_string_equal(run_end(run, 0), "closed");
  assert_string_equal(run_end(run, 1), "closed");
  run_check_numbers(run);
  run_free(run);
  scratch_remove(scratch);
}

/* A thread keeps what it knows of a closed session until it comes by again. */
static void test_sessions_one_after_the_other(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_span late;
  for (int i = 0; i < 20; i++) {
    bubbletop_session *session = session_in(scratch);
    record_spans(session, i, 1);
    bubbletop_begin(session, &late, BUBBLETOP_W, bubbletop_at(i, 0));
    assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
    bubbletop_end(&late); /* harmless, and not counted anywhere */
  }
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run->file_count, 20);
  assert_int_equal(run_count(run, BT_F), 20);
  assert_int_equal(run_count(run, BT_W), 0);
  assert_int_equal(run_count(run, BT_OPEN), 20); /* how it was at the close */
  for (uint32_t i = 0; i < 20; i++)
    assert_int_equal(run_find(run, BT_F, i)->event.microbatch, i);
  run_free(run);
  scratch_remove(scratch);
}

typedef struct meeting {
  bubbletop_session *session;
  pthread_barrier_t *here;
} meeting;

static void *one_span_and_wait(void *context) {
  const meeting *with = context;
  record_spans(with->session, 0, 1);
  pthread_barrier_wait(with->here); /* all have recorded, and none has ended */
  return NULL;
}

/* Rings run out: what the others record is dropped and counted, and nothing else happens. */
static void test_more_threads_than_rings(void **state) {
  (void)state;
  enum { THREADS = BT_RING_MAX_RINGS + 6 };
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  bubbletop_session *session = NULL;
  config.ring_bytes = 1024;
  assert_int_equal(bubbletop_open(&config, &session), BUBBLETOP_OK);
  pthread_barrier_t here;
  pthread_barrier_init(&here, NULL, THREADS);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 * 1024);
  pthread_t *threads = malloc(THREADS * sizeof *threads);
  meeting with = {session, &here};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], &small, one_span_and_wait, &with), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  free(threads);
  pthread_attr_destroy(&small);
  pthread_barrier_destroy(&here);
  assert_int_equal(stats_of(session).recorded, BT_RING_MAX_RINGS);
  assert_int_equal(stats_of(session).dropped, 6);
  record_spans(session, 0, 1); /* the dead left theirs */
  assert_int_equal(stats_of(session).recorded, BT_RING_MAX_RINGS + 1);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  uint64_t dropped = 0;
  for (size_t i = 0; i < run_count(run, BT_DROPPED); i++)
    dropped += run_find(run, BT_DROPPED, i)->event.number;
  assert_int_equal(dropped, 6);
  run_free(run);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_finished_threads_ring_goes_on), cmocka_unit_test(test_spans_ended_by_others),
      cmocka_unit_test(test_a_crowd_and_two_sessions),        cmocka_unit_test(test_sessions_one_after_the_other),
      cmocka_unit_test(test_more_threads_than_rings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
