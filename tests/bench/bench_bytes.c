/* The bytes that frames take on an xterm-256color: idle, live, moved, repainted. */
#include <locale.h>
#include <stdio.h>

#include "tests/screen/watch.h"

/* The most and the mean of live frames that moved by one to `cells` cells, of several runs. */
static void live(int stages, int rows, int columns, int cells, const char *target) {
  long most = 0, sum = 0, count = 0;
  for (uint32_t seed = 0; seed < 4; seed++) {
    watch f;
    if (!watch_start_varied(&f, stages, rows, columns, seed)) return;
    (void)watch_frame(&f);
    f.view.width = 2000000; /* five cells a pair of F and B */
    f.view.placed = true;
    (void)watch_frame(&f);
    for (int64_t i = 0, now = WATCH_START; i < 100; i++, now += cells * f.view.width) {
      watch_run_until(&f, now, now + cells * f.view.width);
      long bytes = watch_frame(&f);
      if (f.grid.shift.columns > cells || f.grid.shift.columns < 1) continue;
      if (bytes > most) most = bytes;
      sum += bytes;
      count++;
    }
    watch_stop(&f);
  }
  printf("bytes %dx%d, %d stages, live by up to %d cells: mean %ld, most %ld%s\n", columns, rows, stages, cells,
         count > 0 ? sum / count : 0, most, target);
}

static long moved(watch *f, int cells) {
  f->view.origin += cells * f->view.width;
  return watch_frame(f);
}

static void still(int stages, int rows, int columns) {
  watch f;
  if (!watch_start(&f, stages, rows, columns)) return;
  (void)watch_frame(&f);
  f.view.width = 2000000;
  f.view.placed = true;
  f.view.follow = false;
  f.view.origin = 400000000;
  (void)watch_frame(&f);
  bt_terminal_redraw(f.terminal);
  long full = watch_frame(&f), idle = watch_frame(&f);
  long one = moved(&f, 1), back = moved(&f, -1), page = moved(&f, f.view.columns - f.view.columns / 8),
       page_back = moved(&f, -f.view.columns - f.view.columns / 8);
  printf("bytes %dx%d, %d stages: idle %ld (target 0), one cell on %ld, back %ld, a page on %ld, back %ld, all %ld\n",
         columns, rows, stages, idle, one, back, page, page_back, full);
  watch_stop(&f);
}

int main(void) {
  if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) setlocale(LC_CTYPE, "en_US.UTF-8");
  live(8, 24, 80, 1, "");
  live(8, 24, 80, 6, " (target 1024)");
  live(20, 24, 80, 6, " (target 2048)");
  live(40, 50, 200, 1, "");
  live(40, 50, 200, 6, "");
  still(8, 24, 80);
  still(40, 50, 200);
  return 0;
}
