/* Frame time at 200x50 over 10 thousand and over 10 million spans, at several zooms: level of detail makes them alike.
 * Frames that pan keep the columns they know; the first frame after a zoom knows nothing. Times are of the processor. */
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

typedef struct figures { /* of the slowest of five zooms, each the median of its frames; zoom 0: the whole run */
  double panned, zoomed, index, bytes;
} figures;

static double median_frame(bt_view *view, bt_grid *grid, bool zooming) {
  double times[FRAMES];
  for (int i = 0; i < FRAMES; i++) {
    if (zooming) view->width++; /* another scale: nothing is kept */
    view->origin += view->width * 3;
    double start = now();
    if (bt_screen_draw(view, grid, 50, 200) != BT_OK) exit(1);
    times[i] = now() - start;
  }
  qsort(times, FRAMES, sizeof times[0], compare);
  return times[FRAMES / 2];
}

static figures frame_times(long spans) {
  bt_trace *trace;
  bt_lod_set lods = {0};
  bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};
  bt_view view;
  bt_grid grid = {0};
  bool done;
  figures out = {0, 0, 0, 0};
  if (bt_trace_new(&trace) != BT_OK) exit(1);
  make(trace, spans);
  double start = now();
  if (bt_lod_set_update(&lods, trace, 0, &done) != BT_OK) exit(1);
  out.index = now() - start;
  for (int r = 0; r < RANKS; r++)
    out.bytes += (double)bt_lod_bytes(&lods.ranks[r].lanes[BT_LANE_COMPUTE]) / (double)spans;
  bt_view_init(&view, &theme);
  view.trace = trace;
  view.lods = &lods;
  if (bt_screen_draw(&view, &grid, 50, 200) != BT_OK) exit(1);
  int64_t whole = (view.last - view.first) / view.columns + 1;
  view.placed = true;
  view.follow = false;
  for (int zoom = 0; zoom < ZOOMS; zoom++) {
    view.width = whole;
    for (int i = 0; i < zoom; i++)
      view.width = view.width / 8 + 1;
    view.cursor.time = view.origin = view.first + (zoom > 0 ? (view.last - view.first) / 3 : 0);
    double zoomed = median_frame(&view, &grid, true), panned = median_frame(&view, &grid, false);
    if (zoomed > out.zoomed) out.zoomed = zoomed;
    if (panned > out.panned) out.panned = panned;
  }
  bt_view_free(&view);
  bt_grid_free(&grid);
  bt_lod_set_free(&lods);
  bt_trace_free(trace);
  return out;
}

int main(void) {
  figures small = frame_times(10000), large = frame_times(10000000);
  printf("frame at 200x50 that pans: 10 k spans %.2f ms, 10 M %.2f ms (target 10), %.2f times (target 2)\n",
         small.panned * 1e3, large.panned * 1e3, large.panned / small.panned);
  printf("the first one after a zoom: 10 k spans %.2f ms, 10 M %.2f ms (target 10), %.2f times\n", small.zoomed * 1e3,
         large.zoomed * 1e3, large.zoomed / small.zoomed);
  printf("index of 10 M spans: %.2f s, %.1f bytes a span (target 4)\n", large.index, large.bytes);
  return 0;
}
