#include "tests/capture/cuda_double.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 1, NOT_READY = 600, CAPTURE_IMPLICIT = 906, NONE = 0, ACTIVE = 1, STREAMS = 64, RELAXED = 2 };

typedef struct stream {
  int context;
  int64_t free_at;
  bool captured;
} stream;

typedef struct event {
  int64_t at; /* host time when it is through; INT64_MAX: never recorded */
} event;

static struct {
  pthread_mutex_t lock;
  stream streams[STREAMS];
  int stream_count, live, broken, failures, error;
  char failing[48];
  pthread_t failing_thread;
  int64_t offset, since;
  double drift;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .streams = {{.context = 1}}, .stream_count = 1 /* the default stream */};

static __thread int mode;
static __thread int current; /* context pushed */

extern const cuda_double cuda_double_control;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Lock held, and given up by leave(). */
static int enter(const char *function) {
  pthread_mutex_lock(&gpu.lock);
  if (gpu.failures == 0 || strcmp(gpu.failing, function) != 0) return OK;
  if (strcmp(function, "cuEventElapsedTime") != 0 && !pthread_equal(gpu.failing_thread, pthread_self())) return OK;
  gpu.failures--;
  return gpu.error;
}

static int leave(int status) {
  pthread_mutex_unlock(&gpu.lock);
  return status;
}

static stream *stream_of(void *handle) {
  return handle != NULL ? handle : &gpu.streams[0];
}

static bool anything_captured(void) {
  for (int i = 0; i < gpu.stream_count; i++) {
    if (gpu.streams[i].captured) return true;
  }
  return false;
}

/* What the GPU's clock shows at a host time, in its own steps. */
static int64_t gpu_time(int64_t host) {
  int64_t passed = host - gpu.since;
  return (host + gpu.offset + (int64_t)((double)passed * gpu.drift)) / 32 * 32;
}

int cuEventCreate(void **out, unsigned flags);
int cuEventCreate(void **out, unsigned flags) {
  (void)flags;
  int status = enter("cuEventCreate");
  event *made = status == OK ? malloc(sizeof *made) : NULL;
  if (made != NULL) {
    made->at = INT64_MAX;
    gpu.live++;
    *out = made;
  }
  return leave(status);
}

int cuEventDestroy_v2(void *handle);
int cuEventDestroy_v2(void *handle) {
  pthread_mutex_lock(&gpu.lock);
  gpu.live--;
  free(handle);
  return leave(OK);
}

int cuEventRecord(void *handle, void *where);
int cuEventRecord(void *handle, void *where) {
  int status = enter("cuEventRecord");
  stream *on = stream_of(where);
  if (on->captured) gpu.broken++; /* it would become a part of the graph */
  int64_t time = now();
  if (status == OK) ((event *)handle)->at = on->free_at > time ? on->free_at : time;
  return leave(status);
}

int cuEventQuery(void *handle);
int cuEventQuery(void *handle) {
  int status = enter("cuEventQuery");
  if (mode != RELAXED && anything_captured()) gpu.broken++;
  if (status == OK && ((event *)handle)->at > now()) status = NOT_READY;
  return leave(status);
}

int cuEventElapsedTime(float *ms, void *from, void *to);
int cuEventElapsedTime(float *ms, void *from, void *to) {
  int status = enter("cuEventElapsedTime");
  const event *a = from, *b = to;
  int64_t time = now();
  if (status == OK && (a->at > time || b->at > time)) status = NOT_READY;
  if (status == OK) *ms = (float)((double)(gpu_time(b->at) - gpu_time(a->at)) / 1e6);
  return leave(status);
}

int cuStreamCreate(void **out, unsigned flags);
int cuStreamCreate(void **out, unsigned flags) {
  (void)flags;
  int status = enter("cuStreamCreate");
  if (status == OK && gpu.stream_count == STREAMS) status = INVALID;
  if (status == OK) {
    gpu.streams[gpu.stream_count] = (stream){.context = current};
    *out = &gpu.streams[gpu.stream_count++];
  }
  return leave(status);
}

int cuStreamDestroy_v2(void *handle);
int cuStreamDestroy_v2(void *handle) {
  (void)handle;
  return OK;
}

int cuStreamIsCapturing(void *handle, int *status);
int cuStreamIsCapturing(void *handle, int *status) {
  int result = enter("cuStreamIsCapturing");
  if (result == OK && handle == NULL && anything_captured()) result = CAPTURE_IMPLICIT;
  *status = stream_of(handle)->captured ? ACTIVE : NONE;
  return leave(result);
}

int cuStreamGetCtx(void *handle, void **context);
int cuStreamGetCtx(void *handle, void **context) {
  int status = enter("cuStreamGetCtx");
  *context = (void *)(intptr_t)stream_of(handle)->context;
  return leave(status);
}

int cuCtxPushCurrent_v2(void *context);
int cuCtxPushCurrent_v2(void *context) {
  current = (int)(intptr_t)context;
  return OK;
}

int cuCtxPopCurrent_v2(void **context);
int cuCtxPopCurrent_v2(void **context) {
  *context = (void *)(intptr_t)current;
  current = 0;
  return OK;
}

int cuThreadExchangeStreamCaptureMode(int *wanted);
int cuThreadExchangeStreamCaptureMode(int *wanted) {
  int before = mode;
  mode = *wanted;
  *wanted = before;
  return OK;
}

/* ---- control ---- */

static void *new_stream(int context) {
  pthread_mutex_lock(&gpu.lock);
  stream *made = &gpu.streams[gpu.stream_count++];
  *made = (stream){.context = context};
  pthread_mutex_unlock(&gpu.lock);
  return made;
}

static int64_t kernel(void *handle, int64_t ns) {
  pthread_mutex_lock(&gpu.lock);
  stream *on = stream_of(handle);
  int64_t time = now();
  on->free_at = (on->free_at > time ? on->free_at : time) + ns;
  int64_t done = on->free_at;
  pthread_mutex_unlock(&gpu.lock);
  return done;
}

static void hold(void *handle, int64_t until) {
  pthread_mutex_lock(&gpu.lock);
  stream *on = stream_of(handle);
  if (on->free_at < until) on->free_at = until;
  pthread_mutex_unlock(&gpu.lock);
}

static void capture(void *handle, bool on) {
  pthread_mutex_lock(&gpu.lock);
  stream_of(handle)->captured = on;
  pthread_mutex_unlock(&gpu.lock);
}

static void fail_next(const char *function, int error, int count) {
  pthread_mutex_lock(&gpu.lock);
  strncpy(gpu.failing, function, sizeof gpu.failing - 1);
  gpu.failing_thread = pthread_self();
  gpu.error = error;
  gpu.failures = count;
  pthread_mutex_unlock(&gpu.lock);
}

static void set_clock(int64_t offset, double drift) {
  pthread_mutex_lock(&gpu.lock);
  gpu.offset = offset;
  gpu.drift = drift;
  gpu.since = now();
  pthread_mutex_unlock(&gpu.lock);
}

static int broken_captures(void) {
  pthread_mutex_lock(&gpu.lock);
  int count = gpu.broken;
  pthread_mutex_unlock(&gpu.lock);
  return count;
}

static int live_events(void) {
  pthread_mutex_lock(&gpu.lock);
  int count = gpu.live;
  pthread_mutex_unlock(&gpu.lock);
  return count;
}

const cuda_double cuda_double_control = {new_stream, kernel,          capture,     fail_next,
                                         set_clock,  broken_captures, live_events, hold};
