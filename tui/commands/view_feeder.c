#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/commands/view.h"

enum {
  READ_BYTES = 4 << 20, /* between two looks at the lock */
  INDEX_SPANS = 500000, /* indexed under one hold of the lock: some milliseconds */
  POLL_MS = 50, /* between polls while nothing comes */
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

static void note_problems(bt_feeder *feeder) {
  size_t count;
  const bt_problem *problems = bt_run_problems(feeder->run, &count);
  lock(feeder);
  feeder->problems = count;
  if (count > 0) memcpy(feeder->problem, problems[0].text, sizeof feeder->problem);
  feeder->problem[sizeof feeder->problem - 1] = 0;
  unlock(feeder);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *feed(void *context) {
  bt_feeder *feeder = context;
  int64_t problems_at = INT64_MIN;
  while (!feeder->stop) {
    bt_error error = {BT_OK, ""};
    bt_status status = bt_run_poll(feeder->run, READ_BYTES, &error);
    index_all(feeder);
    int64_t now = now_ms();
    if (status != BT_OK && now >= problems_at) {
      note_problems(feeder);
      problems_at = now + PROBLEMS_EVERY_MS;
    }
    lock(feeder);
    bool changed = status == BT_OK || feeder->loading;
    if (status != BT_OK) feeder->loading = false;
    feeder->ended = status == BT_END;
    feeder->failed = status < 0;
    if (status < 0) feeder->error = error;
    unlock(feeder);
    if (changed || status == BT_END || status < 0) wake(feeder);
    if (status == BT_END || status < 0) return NULL;
    if (status == BT_AGAIN) {
      struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
      nanosleep(&pause, NULL);
    }
  }
  return NULL;
}

bt_status bt_feeder_open(bt_feeder *feeder, const bt_view_options *options, bool follow, bt_error *error) {
  memset(feeder, 0, sizeof *feeder);
  feeder->loading = true;
  if (pthread_mutex_init(&feeder->mutex, NULL) != 0) return bt_fail(error, BT_ERR_NOMEM, "no memory");
  if (pipe2(feeder->wake, O_NONBLOCK | O_CLOEXEC) != 0) return bt_fail(error, BT_ERR_IO, "pipe: %s", strerror(errno));
  bt_run_options run_options = {.follow = follow, .rings = true, .lock = lock, .unlock = unlock, .context = feeder};
  return bt_run_open(options->paths, options->path_count, &run_options, &feeder->run, error);
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
  bt_lod_set_free(&feeder->lods);
  close(feeder->wake[0]);
  close(feeder->wake[1]);
  pthread_mutex_destroy(&feeder->mutex);
}
