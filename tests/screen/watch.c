#include "tests/screen/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PERIOD = 10300000, FORWARD = 3000000, BACKWARD = 5000000 }; /* ns */

static void need(bool good) {
  if (good) return;
  fputs("a run to watch cannot be made\n", stderr);
  abort();
}

/* Adds what ended in [from, to). */
static void add(watch *f, bt_rank *rank, const bt_event *event, int64_t from, int64_t to) {
  int64_t end = event->start + event->duration;
  if (end >= from && end < to) need(bt_trace_add(f->trace, rank, 0, 1, event) == BT_OK);
}

/* A duration as this run has it. */
static int64_t varied(const watch *f, int64_t duration, int stage, int64_t op) {
  if (f->seed == 0) return duration;
  uint64_t mixed = ((uint64_t)op * 64 + (uint64_t)stage) * 0x9E3779B97F4A7C15u + f->seed * UINT64_C(0xD1B54A32D192ED03);
  mixed ^= mixed >> 29;
  return duration * (60 + (int64_t)(mixed * 0x9E3779B97F4A7C15u >> 40) % 81) / 100;
}

/* 1F1B-like: alternating F and B with bubbles, and the messages between stages. */
void watch_run_until(watch *f, int64_t from, int64_t to) {
  for (int stage = 0; stage < f->stages; stage++) {
    bt_rank *rank = bt_trace_rank(f->trace, stage);
    rank->layout.pp_rank = stage;
    rank->layout.pp_size = f->stages;
    for (int64_t i = from > PERIOD ? from / PERIOD - 1 : 0; i <= to / PERIOD; i++) {
      bt_event event;
      if (i % 16 == 0) { /* a step is 16 pairs of F and B */
        bt_event_init(&event, BT_STEP_END);
        event.start = i * PERIOD;
        event.step = i / 16 - 1;
        if (i > 0) add(f, rank, &event, from, to);
        event.code = BT_STEP_BEGIN;
        event.step++;
        add(f, rank, &event, from, to);
      }
      bt_event_init(&event, BT_F);
      event.start = i * PERIOD + stage * 120000;
      event.duration = varied(f, FORWARD, stage, 3 * i);
      event.microbatch = (int32_t)(i % 16);
      add(f, rank, &event, from, to);
      event.code = BT_B;
      event.start += FORWARD + 700000;
      event.duration = varied(f, f->seed == 0 ? BACKWARD : BACKWARD / 2, stage, 3 * i + 1);
      add(f, rank, &event, from, to);
      if (f->seed != 0) {
        bt_event weight = event;
        weight.code = BT_W;
        weight.start += event.duration;
        weight.duration = varied(f, BACKWARD / 2, stage, 3 * i + 2);
        add(f, rank, &weight, from, to);
      }
      if (stage + 1 == f->stages) continue;
      event.code = BT_SEND_F;
      event.duration = 300000;
      event.peer = stage + 1;
      event.start -= 700000;
      add(f, rank, &event, from, to);
    }
    need(bt_trace_settle(f->trace, rank, to - 2 * PERIOD) == BT_OK);
  }
}

bool watch_start(watch *f, int stages, int rows, int columns) {
  return watch_start_varied(f, stages, rows, columns, 0);
}

bool watch_start_varied(watch *f, int stages, int rows, int columns, uint32_t seed) {
  memset(f, 0, sizeof *f);
  f->seed = seed;
  f->stages = stages;
  f->rows = rows;
  f->columns = columns;
  f->out = tmpfile();
  f->in = fopen("/dev/null", "r");
  need(f->out != NULL);
  need(bt_trace_new(&f->trace) == BT_OK);
  for (int stage = 0; stage < stages; stage++)
    need(bt_trace_rank(f->trace, stage) != NULL);
  watch_run_until(f, 0, 2000000000);
  bt_error error = {BT_OK, ""};
  bt_theme theme = {.utf8 = true};
  bt_terminal_options options = {
      .out = f->out, .in = f->in, .type = "xterm-256color", .rows = rows, .columns = columns};
  if (bt_terminal_open(&options, &f->terminal, &theme.level, &error) != BT_OK) {
    fprintf(stderr, "%s\n", error.text);
    fclose(f->out);
    fclose(f->in);
    bt_trace_free(f->trace);
    return false;
  }
  need(theme.level == BT_LEVEL_256);
  bt_view_init(&f->view, &theme);
  f->view.feed.live = true;
  return true;
}

void watch_stop(watch *f) {
  bt_terminal_close(f->terminal, false);
  bt_view_free(&f->view);
  bt_grid_free(&f->grid);
  bt_lod_set_free(&f->lods);
  bt_trace_free(f->trace);
  fclose(f->out);
  fclose(f->in);
}

/* Draws a frame; the bytes that it took. */
long watch_frame(watch *f) {
  bool done;
  fflush(f->out);
  off_t before = lseek(fileno(f->out), 0, SEEK_END);
  need(bt_lod_set_update(&f->lods, f->trace, 0, &done) == BT_OK);
  f->view.trace = f->trace;
  f->view.lods = &f->lods;
  need(bt_screen_draw(&f->view, &f->grid, f->rows, f->columns) == BT_OK);
  need(bt_terminal_draw(f->terminal, &f->grid, &f->view.theme) == BT_OK);
  fflush(f->out);
  return (long)(lseek(fileno(f->out), 0, SEEK_END) - before);
}
