#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/analysis/clocks.h"
#include "tui/commands/view.h"
#include "tui/screen/text.h"

enum {
  READ_BYTES = 4 << 20, /* between two looks at the lock */
  INDEX_SPANS = 500000, /* indexed under one hold of the lock: some milliseconds */
  POLL_MS = 50, /* between polls once all is read */
  MANY_RANKS = 256, /* of more than these, each is looked at less often: */
  MANY_POLL_MS = 200,
  PROBLEMS_EVERY_MS = 1000
};

static void lock(void *context) {
  pthread_mutex_lock(&((bt_feeder *)context)->mutex);
}
static void unlock(void *context) {
  pthread_mutex_unlock(&((bt_feeder *)context)->mutex);
}

static void wake(bt_feeder *feeder) {
  ssize_t written = write(feeder->wake[1], "", 1);
  (void)written; /* full: it is awake already */
}

/* The screen updates the index too (what is new is drawn at once); this is for the bulk. */
static void index_all(bt_feeder *feeder) {
  bool done = false;
  while (!done && !feeder->stop) {
    lock(feeder);
    bt_status status = bt_lod_set_update(&feeder->lods, bt_run_trace(feeder->run), INDEX_SPANS, &done);
    feeder->indexing = !done;
    unlock(feeder);
    if (status != BT_OK) return;
    if (!done) wake(feeder);
  }
}

/* Both lists go by rank, so the search goes on where it was. */
static bool is_dead(const bt_problem *problems, size_t count, int32_t rank, size_t *at) {
  for (size_t i = 0; i < count; i++, *at = *at + 1 < count ? *at + 1 : 0) {
    if (problems[*at].kind == BT_PROBLEM_NO_END && problems[*at].rank == rank) return true;
  }
  return false;
}

/* Whether every rank that has not ended is known to have died. A first one that lives answers it. */
static bool is_gone(const bt_trace *trace, const bt_problem *problems, size_t count) {
  bool any = false;
  size_t at = 0;
  for (size_t i = 0; i < trace->rank_count; i++) {
    const bt_rank *rank = &trace->ranks[i];
    if (rank->life_count == 0 || rank->lives[rank->life_count - 1].ended) continue;
    if (!is_dead(problems, count, rank->rank, &at)) return false;
    any = true;
  }
  return any;
}

static void note_problems(bt_feeder *feeder) {
  size_t count;
  const bt_problem *problems = bt_run_problems(feeder->run, &count);
  bool gone = is_gone(bt_run_trace(feeder->run), problems, count);
  lock(feeder);
  bool news = feeder->gone != gone;
  feeder->gone = gone;
  feeder->problems = count;
  if (count > 0) memcpy(feeder->problem, problems[0].text, sizeof feeder->problem);
  feeder->problem[sizeof feeder->problem - 1] = 0;
  unlock(feeder);
  if (news) wake(feeder);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- what the numbers mean ------------------------------------------------------------------------------------------ */

enum { ACCOUNT_SHARE = 20 }; /* at most a twentieth of the thread's time */

/* Several hosts: brings their clocks onto one, and again when there is a tenth more to go by, so that all of it costs no more
 * than eleven times the last. The thread alone changes the trace, so it may read it without the lock. */
static void align(bt_feeder *feeder) {
  bt_trace *trace = bt_run_trace(feeder->run);
  bt_clocks *clocks = NULL;
  bool more = trace->span_count - feeder->aligned_spans > feeder->aligned_spans / 10;
  if (trace->host_count == feeder->aligned_hosts && !more) return;
  feeder->aligned_hosts = trace->host_count;
  feeder->aligned_spans = trace->span_count;
  feeder->clock = (bt_account_clock){.aligned = true};
  if (trace->host_count < 2 || bt_clocks_solve(trace, &clocks, NULL) != BT_OK) return;
  const bt_clocks_summary *found = bt_clocks_summary_of(clocks);
  feeder->clock = (bt_account_clock){.aligned = found->aligned,
                                     .max_error_ns = found->aligned && !found->bent ? found->max_error_ns : BT_UNKNOWN,
                                     .likely_error_ns = found->aligned ? found->likely_error_ns : BT_UNKNOWN,
                                     .bent = found->bent};
  lock(feeder);
  bt_clocks_apply(clocks, trace);
  feeder->unaligned = !found->aligned;
  unlock(feeder);
  bt_clocks_free(clocks);
}

static void say_cause(const bt_accounting *a, bt_verdict *verdict) {
  const bt_account_cause *cause = &a->causes[0];
  char *out = verdict->cause;
  size_t room = sizeof verdict->cause;
  double slower = 100 * (cause->factor - 1);
  switch (cause->kind) {
  case BT_CAUSE_STAGE:
    (void)snprintf(out, room, "stage %d is %.0f %% slower than its peers", (int)cause->stage, slower);
    break;
  case BT_CAUSE_LINK:
    (void)snprintf(out, room, "messages from stage %d to %d take %.1f times the usual", (int)cause->stage,
                   (int)cause->to_stage, cause->factor);
    break;
  case BT_CAUSE_MICROBATCH:
    (void)snprintf(out, room, "microbatch %d takes %.0f %% longer in every stage", (int)cause->microbatch, slower);
    break;
  case BT_CAUSE_RANK:
    (void)snprintf(out, room, "rank %d computes %.0f %% longer than the others of stage %d", (int)cause->rank, slower,
                   (int)cause->stage);
    break;
  case BT_CAUSE_PAUSE:
    (void)snprintf(out, room, "a pause of rank %d (stage %d)", (int)cause->rank, (int)cause->stage);
    break;
  case BT_CAUSE_HOST: (void)snprintf(out, room, "ops start late though all is ready (launch-bound)"); break;
  }
  char text[32];
  int64_t each = a->ranks > 0 ? cause->excess_ns / a->ranks : 0, window = 0;
  for (size_t i = 0; i < a->stage_count; i++)
    window += a->stages[i].window_ns;
  double share = window > 0 ? 100 * (double)cause->excess_ns / (double)window : 0;
  (void)snprintf(verdict->cost, sizeof verdict->cost, ": costs %s a step (%.1f %%), %.0f %% of the excess",
                 bt_text_duration(text, sizeof text, each), share, 100 * cause->share);
}

uint64_t bt_feeder_choose_context(const bt_trace *trace, bt_accounting_options *options) {
  enum { MANY = 16, FEW_SPANS = 500000 };
  uint64_t spans = 0;
  for (options->context = MANY; options->context > 0; options->context /= 4) {
    spans = bt_accounting_spans(trace, options);
    if (spans <= FEW_SPANS || options->context == 1) break;
  }
  return spans;
}

void bt_feeder_account(bt_feeder *feeder) {
  bt_trace *trace = bt_run_trace(feeder->run);
  lock(feeder);
  bool wanted = feeder->step_known && !(feeder->verdict.known && feeder->verdict.step == feeder->step);
  int64_t step = feeder->step, start = now_ms();
  unlock(feeder);
  if (!wanted) return;
  if (feeder->accounted_at != 0 && start - feeder->accounted_at < feeder->account_cost * ACCOUNT_SHARE) return;
  bt_accounting_options options = {
      .bounded = true, .first_step = step, .last_step = step, .warmup = true, .clock = &feeder->clock};
  bt_verdict verdict = {.known = true, .step = step, .bubble = NAN, .theory = NAN};
  bt_accounting *a = NULL;
  align(feeder);
  if (bt_feeder_choose_context(trace, &options) > BT_FEEDER_MOST_SPANS) {
    (void)snprintf(verdict.cost, sizeof verdict.cost, "a step has too many records to be accounted for while you wait");
  } else if (bt_accounting_run(trace, &options, &a, NULL) == BT_OK) {
    verdict.bubble = a->rate_window;
    verdict.theory = a->ideal_rate_window;
    if (a->schedule.family != NULL) (void)snprintf(verdict.schedule, sizeof verdict.schedule, "%s", a->schedule.name);
    if (a->cause_count > 0)
      say_cause(a, &verdict);
    else if (!isnan(verdict.theory))
      (void)snprintf(verdict.cost, sizeof verdict.cost, "no stage, link or microbatch stands out");
  }
  lock(feeder);
  bt_accounting *old = feeder->account;
  feeder->verdict = verdict;
  feeder->account = a;
  unlock(feeder);
  bt_accounting_free(old);
  feeder->accounted_at = now_ms();
  feeder->account_cost = feeder->accounted_at - start;
  wake(feeder);
}

/* Ranks that nobody sees are looked at rarely. */
static void watch(bt_feeder *feeder) {
  lock(feeder);
  bool changed = feeder->watch_changed;
  if (changed) bt_run_watch(feeder->run, feeder->watched, feeder->watched_count);
  feeder->watch_changed = false;
  unlock(feeder);
}

/* Between two polls. */
static void rest(bt_feeder *feeder) {
  lock(feeder);
  size_t ranks = feeder->watched != NULL ? feeder->watched_count : bt_run_trace(feeder->run)->rank_count;
  unlock(feeder);
  struct timespec pause = {.tv_nsec = (feeder->ended || ranks > MANY_RANKS ? MANY_POLL_MS : POLL_MS) * 1000000L};
  nanosleep(&pause, NULL);
}

/* Ranks write one after the other, so of many there always is one with news: that all was read shows by how little came. */
static bool came_little(const bt_feeder *feeder, bt_status status, uint64_t before) {
  return status == BT_OK && bt_run_bytes(feeder->run) - before < READ_BYTES / 4;
}

static void *feed(void *context) {
  bt_feeder *feeder = context;
  int64_t problems_at = INT64_MIN;
  bool little = false;
  while (!feeder->stop) {
    uint64_t before = bt_run_bytes(feeder->run);
    bt_error error = {BT_OK, ""};
    watch(feeder);
    bt_status status = feeder->ended ? BT_END : bt_run_poll(feeder->run, READ_BYTES, &error);
    bool news = !feeder->ended;
    if (news) index_all(feeder);
    bool had_little = little;
    little = came_little(feeder, status, before);
    bool all = status != BT_OK || (little && had_little); /* once only: the end of the run may follow */
    int64_t now = now_ms();
    if (all && news && now >= problems_at) {
      note_problems(feeder);
      problems_at = now + PROBLEMS_EVERY_MS;
    }
    lock(feeder);
    bool changed = status == BT_OK || feeder->loading;
    if (all) feeder->loading = false;
    feeder->ended = status == BT_END;
    feeder->failed = status < 0;
    if (status < 0) feeder->error = error;
    unlock(feeder);
    if (changed || (status == BT_END && news) || status < 0) wake(feeder);
    if (status < 0) return NULL;
    if (all) {
      bt_feeder_account(feeder);
      bt_feeder_find_gaps(feeder);
      bt_feeder_lay_plan(feeder);
      rest(feeder);
    }
  }
  return NULL;
}

bt_status bt_feeder_open(bt_feeder *feeder, const char *const *paths, size_t path_count, bool follow, bt_error *error) {
  memset(feeder, 0, sizeof *feeder);
  feeder->loading = true;
  if (pthread_mutex_init(&feeder->mutex, NULL) != 0) return bt_fail(error, BT_ERR_NOMEM, "no memory");
  if (pipe2(feeder->wake, O_NONBLOCK | O_CLOEXEC) != 0) return bt_fail(error, BT_ERR_IO, "pipe: %s", strerror(errno));
  bt_run_options run_options = {.follow = follow, .rings = true, .lock = lock, .unlock = unlock, .context = feeder};
  return bt_run_open(paths, path_count, &run_options, &feeder->run, error);
}

bt_status bt_feeder_start(bt_feeder *feeder, bt_error *error) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&feeder->thread, NULL, feed, feeder);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed != 0) return bt_fail(error, BT_ERR_NOMEM, "thread: %s", strerror(failed));
  feeder->started = true;
  return BT_OK;
}

bt_status bt_feeder_read_all(bt_feeder *feeder, bt_error *error) {
  bt_status status;
  do {
    status = bt_run_poll(feeder->run, 0, error);
  } while (status == BT_OK);
  if (status < 0) return status;
  align(feeder);
  index_all(feeder);
  note_problems(feeder);
  feeder->loading = false;
  feeder->ended = true;
  return BT_OK;
}

void bt_feeder_close(bt_feeder *feeder) {
  if (feeder->started) {
    feeder->stop = true;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      until.tv_sec++;
    }
    if (pthread_timedjoin_np(feeder->thread, NULL, &until) != 0) return; /* hangs in the file system */
  }
  if (feeder->run != NULL) bt_run_close(feeder->run);
  free(feeder->watched);
  bt_lod_set_free(&feeder->lods);
  bt_accounting_free(feeder->account);
  bt_gaps_free(feeder->gaps);
  bt_plan_overlay_free(feeder->plan);
  close(feeder->wake[0]);
  close(feeder->wake[1]);
  pthread_mutex_destroy(&feeder->mutex);
}
