/* Frame time at 200x50 over 10 thousand and over 10 million spans, at several zooms: level of detail makes them alike. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tui/analysis/lod.h"
#include "tui/screen/screen.h"

enum { RANKS = 40, FRAMES = 15, ZOOMS = 5 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); /* others on this machine do not count */
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void make(bt_trace *trace, long spans) {
  for (int r = 0; r < RANKS; r++) {
    (void)bt_trace_rank(trace, r);
  }
  for (int r = 0; r < RANKS; r++) {
    bt_rank *rank = bt_trace_rank(trace, r);
    unsigned random = (unsigned)r * 7919 + 1;
    int64_t time = r * 500;
    bt_event event;
    for (long i = 0; i < spans / RANKS; i++) {
      random = random * 1664525 + 1013904223;
      bt_event_init(&event, (bt_code)(BT_F + i % 3));
      event.start = time + (random >> 16) % 600;
      event.duration = 2000 + (random >> 8) % 1000;
      event.microbatch = (int32_t)(i % 12);
      time = event.start + event.duration;
      if (bt_trace_add(trace, rank, 0, 1, &event) != BT_OK) exit(1);
    }
    if (bt_trace_settle(trace, rank, INT64_MAX) != BT_OK) exit(1);
  }
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The slowest of five zooms, each the median of its frames; 0: the whole run. */
static double frame_time(long spans, double *index_time, double *bytes) {
  bt_trace *trace;
  bt_lod_set lods = {0};
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  bt_view view;
  bt_grid grid = {0};
  bool done;
  if (bt_trace_new(&trace) != BT_OK) exit(1);
  make(trace, spans);
  double start = now();
  if (bt_lod_set_update(&lods, trace, 0, &done) != BT_OK) exit(1);
  *index_time = now() - start;
  size_t held = 0;
  for (int r = 0; r < RANKS; r++)
    held += bt_lod_bytes(&lods.ranks[r].lanes[BT_LANE_COMPUTE]);
  *bytes = (double)held / (double)spans;
  bt_view_init(&view, &theme);
  view.trace = trace;
  view.lods = &lods;
  if (bt_screen_draw(&view, &grid, 50, 200) != BT_OK) exit(1);
  double slowest = 0;
  int64_t whole = (view.last - view.first) / view.columns + 1;
  for (int zoom = 0; zoom < ZOOMS; zoom++) {
    double times[FRAMES];
    view.width = whole;
    for (int i = 0; i < zoom; i++)
      view.width = view.width / 8 + 1;
    view.cursor.time = view.origin = view.first + (view.last - view.first) / 3;
    if (zoom == 0) view.origin = view.first;
    view.placed = true;
    view.follow = false;
    for (int i = 0; i < FRAMES; i++) {
      view.origin += view.width * 3;
      start = now();
      if (bt_screen_draw(&view, &grid, 50, 200) != BT_OK) exit(1);
      times[i] = now() - start;
    }
    qsort(times, FRAMES, sizeof times[0], compare);
    if (times[FRAMES / 2] > slowest) slowest = times[FRAMES / 2];
  }
  bt_view_free(&view);
  bt_grid_free(&grid);
  bt_lod_set_free(&lods);
  bt_trace_free(trace);
  return slowest;
}

int main(void) {
  double index_small, index_large, bytes_small, bytes_large;
  double small = frame_time(10000, &index_small, &bytes_small),
         large = frame_time(10000000, &index_large, &bytes_large);
  printf("frame at 200x50, 10 k spans        %8.2f ms\n", small * 1e3);
  printf("frame at 200x50, 10 M spans        %8.2f ms   target: under 10\n", large * 1e3);
  printf("frame, 10 M over 10 k spans        %8.2f x    target: at most 2\n", large / small);
  printf("index of 10 M spans                %8.2f s, %.1f bytes a span   target: 4 bytes\n", index_large, bytes_large);
  return 0;
}
