/* A plan laid over runs: order, what is missing and extra, lateness. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/simulated_trace.h"
#include "tui/analysis/plan.h"

static bt_plan_overlay *lay(const bt_trace *trace, const char *name) {
  bt_plan_source source = {.family = bt_schedule_find(name)};
  bt_plan_overlay *overlay = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_plan_lay(trace, NULL, &source, &overlay, &error) != BT_OK) fail_msg("%s: %s", name, error.text);
  return overlay;
}

static bt_plan_overlay *lay_csv(const bt_trace *trace, const char *text) {
  bt_schedule_csv *csv = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_schedule_csv_parse(text, strlen(text), &csv, &error) != BT_OK) fail_msg("%s", error.text);
  assert_int_equal(csv->error_count, 0);
  bt_plan_source source = {.csv = csv};
  bt_plan_overlay *overlay = NULL;
  if (bt_plan_lay(trace, NULL, &source, &overlay, &error) != BT_OK) fail_msg("%s", error.text);
  bt_schedule_csv_free(csv);
  return overlay;
}

static bool told(const bt_plan_overlay *overlay, const char *code) {
  for (size_t i = 0; i < overlay->warning_count; i++) {
    if (strcmp(overlay->warnings[i].code, code) == 0) return true;
  }
  return false;
}

static void assert_as_planned(const bt_plan_overlay *o) {
  assert_int_equal(o->displaced + o->missing + o->extra, 0);
  assert_int_equal(o->displaced_listed + o->missing_listed + o->extra_listed, 0);
  assert_int_equal(o->in_order, o->ops);
}

/* Every schedule, undisturbed: its own plan is what happened, to the nanosecond. */
static void test_own_plan(void **state) {
  (void)state;
  for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
    bt_simulation_params params = simulated_params(family->name, 4, 8);
    params.steps = 3;
    params.optimizer = 300000;
    bt_trace *trace = settled_trace(&params);
    bt_plan_overlay *o = lay(trace, family->name);
    if (o->displaced + o->missing + o->extra != 0 || o->late_ns != 0 || o->worst.ns != 0)
      fail_msg("%s: %d displaced, %d missing, %d extra, late by %lld ns, worst %lld ns", family->name,
               (int)o->displaced, (int)o->missing, (int)o->extra, (long long)o->late_ns, (long long)o->worst.ns);
    assert_as_planned(o);
    assert_string_equal(o->name, family->name);
    assert_int_equal(o->ops, 3 * o->planned_ops);
    assert_int_equal(o->step_count, 3);
    assert_int_equal(o->timed_steps, 3);
    assert_int_equal(o->worst.rank, -1);
    for (int32_t s = 0; s < o->stages; s++)
      assert_int_equal(o->stage_list[s].longer_ns, 0);
    assert_int_equal(o->warning_count, 0);
    bt_plan_overlay_free(o);
    bt_trace_free(trace);
  }
}

static void test_replicas_and_members(void **state) {
  (void)state;
  bt_simulation_params params = simulated_params("1f1b", 4, 8);
  params.dp = 2;
  params.tp = 2;
  params.steps = 2;
  bt_trace *trace = settled_trace(&params);
  bt_plan_overlay *o = lay(trace, "1f1b");
  assert_as_planned(o);
  assert_int_equal(o->ops, 2 * 4 * o->planned_ops);
  assert_int_equal(o->stage_list[2].ranks, 4);
  assert_int_equal(o->late_ns, 0);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

/* The stage whose ops take longer than planned is the slow one, at every place; the plan's end is before the run's. */
static void test_slow_stage(void **state) {
  (void)state;
  static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"};
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    for (int32_t slow = 0; slow < 4; slow++) {
      bt_simulation_params params = simulated_params(schedules[i], 4, 8);
      params.steps = 4;
      params.jitter = 0.05;
      params.seed = 3;
      params.slow_stages = (bt_disturbances){{{.where = slow, .factor = 1.3}}, 1};
      bt_trace *trace = settled_trace(&params);
      bt_plan_overlay *o = lay(trace, schedules[i]);
      assert_as_planned(o);
      assert_true(o->late_known && o->late_ns > 0);
      assert_true(o->late_ns == o->measured_ns - o->planned_ns);
      assert_true(o->worst.ns > 0 && o->worst.rank >= 0);
      for (int32_t s = 0; s < 4; s++) {
        const bt_plan_stage *stage = &o->stage_list[s];
        double longer = (double)stage->longer_ns / (double)stage->planned_ns;
        bool right = s == slow ? longer > 0.22 && longer < 0.38 : longer > -0.06 && longer < 0.06;
        if (!right) fail_msg("%s, stage %d slow: stage %d is %.3f longer", schedules[i], slow, s, longer);
      }
      bt_plan_overlay_free(o);
      bt_trace_free(trace);
    }
  }
}

/* A pause on a stage: its step, and no other, is late by about it. */
static void test_pause(void **state) {
  (void)state;
  bt_simulation_params params = simulated_params("1f1b", 4, 8);
  params.steps = 5;
  params.pauses = (bt_disturbances){{{.where = 2, .factor = 1, .time = 40000000}}, 1};
  bt_trace *trace = settled_trace(&params);
  bt_plan_overlay *o = lay(trace, "1f1b");
  assert_int_equal(o->step_count, 5);
  for (size_t i = 0; i < 5; i++) {
    const bt_plan_step *step = &o->steps[i];
    if (i == 2) {
      assert_in_range(step->late_ns, 30000000, 40000000);
      assert_true(step->worst.ns >= step->late_ns);
    } else {
      assert_int_equal(step->late_ns, 0);
    }
  }
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

/* The pairs of a stage's common ops that are the other way round in the run, by brute force; every such pair needs one of
 * its ops displaced. */
static void check_displaced(const bt_trace *trace, const bt_plan_overlay *o, const bt_schedule *plan) {
  for (int32_t s = 0; s < plan->stages; s++) {
    size_t count;
    const bt_op *order = bt_schedule_order(plan, s, &count);
    const bt_track *track = &trace->ranks[s].tracks[BT_LANE_COMPUTE];
    int places[256];
    size_t ran = 0;
    for (size_t i = 0; i < track->count; i++) {
      const bt_span *span = &track->spans[i];
      for (size_t k = 0; k < count; k++) {
        if (order[k].kind == span->kind && order[k].microbatch == span->microbatch) places[ran++] = (int)k;
      }
    }
    assert_int_equal(ran, count);
    int best[256]; /* longest increasing subsequence that ends here, the quadratic way */
    int longest = 0;
    for (size_t i = 0; i < ran; i++) {
      best[i] = 1;
      for (size_t k = 0; k < i; k++) {
        if (places[k] < places[i] && best[k] + 1 > best[i]) best[i] = best[k] + 1;
      }
      if (best[i] > longest) longest = best[i];
    }
    assert_int_equal(o->stage_list[s].displaced, (int)count - longest);
    bool moved[256] = {false};
    for (size_t i = 0; i < o->displaced_listed; i++) {
      const bt_plan_deviation *d = &o->displaced_list[i];
      if (d->stage != s) continue;
      moved[d->planned_place] = true;
      assert_int_equal(places[d->place], d->planned_place); /* it ran where the list says */
      assert_int_equal(order[d->planned_place].kind, d->op.kind);
      assert_int_equal(order[d->planned_place].microbatch, d->op.microbatch);
    }
    int last = -1;
    for (size_t i = 0; i < ran; i++) {
      if (moved[places[i]]) continue;
      assert_true(places[i] > last); /* without them all is in order */
      last = places[i];
    }
  }
}

static void test_other_order(void **state) {
  (void)state;
  bt_simulation_params params = simulated_params("zb-h2", 4, 12);
  bt_trace *trace = settled_trace(&params);
  bt_plan_overlay *o = lay(trace, "zb-h1");
  assert_true(o->displaced > 0);
  assert_int_equal(o->missing + o->extra, 0);
  assert_int_equal(o->displaced + o->in_order, o->ops);
  assert_int_equal(o->displaced_listed, o->displaced); /* one step */
  bt_schedule *plan = NULL;
  assert_int_equal(bt_schedule_make(bt_schedule_find("zb-h1"), &params.schedule, &plan, NULL), BT_OK);
  check_displaced(trace, o, plan);
  assert_true(o->late_ns < 0); /* zb-h2 is the faster one */
  bt_schedule_free(plan);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

/* --- places ---------------------------------------------------------------------------------------------------------- */

static bt_plan_overlay *lay_places(const bt_trace *trace, const char *name) {
  bt_plan_source source = {.places = true, .own = name == NULL};
  if (name != NULL) source.family = bt_schedule_find(name);
  bt_plan_overlay *overlay = NULL;
  bt_error error = {BT_OK, ""};
  if (bt_plan_lay(trace, NULL, &source, &overlay, &error) != BT_OK) fail_msg("%s", error.text);
  return overlay;
}

/* Places are sorted, add up to the counts, and what is asked for from a time on is what a walk through all of them finds. */
static void check_places(const bt_trace *trace, const bt_plan_overlay *o) {
  int64_t displaced = 0, missing = 0;
  for (size_t i = 0; i < o->place_count; i++) {
    const bt_plan_place *place = &o->places[i];
    displaced += place->displaced;
    missing += place->place < 0;
    assert_int_equal(place->place < 0, place->ran_start == BT_UNKNOWN);
    if (i == 0) continue;
    assert_true(place[-1].rank < place->rank || (place[-1].rank == place->rank && place[-1].start <= place->start));
  }
  assert_int_equal(displaced, o->displaced);
  assert_int_equal(missing, o->missing);
  for (size_t r = 0; r < trace->rank_count; r++) {
    const bt_rank *rank = &trace->ranks[r];
    for (int64_t time = rank->first - 1000; time <= rank->last + 1000; time += (rank->last - rank->first) / 23 + 1) {
      size_t count, wanted = 0, first = SIZE_MAX;
      const bt_plan_place *from = bt_plan_places_from(o, rank->rank, time, &count);
      for (size_t i = 0; i < o->place_count; i++) {
        if (o->places[i].rank != rank->rank || (first == SIZE_MAX && o->places[i].end <= time)) continue;
        if (first == SIZE_MAX) first = i;
        wanted++;
      }
      assert_int_equal(count, wanted);
      if (count > 0) assert_ptr_equal(from, &o->places[first]);
    }
  }
}

static void test_places(void **state) {
  (void)state;
  static const char *const schedules[] = {"1f1b", "zb-h1", "interleaved", "dualpipev"};
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    bt_simulation_params params = simulated_params(schedules[i], 4, 8);
    params.steps = 3;
    params.dp = 2;
    bt_trace *trace = settled_trace(&params);
    for (int own = 0; own < 2; own++) { /* undisturbed: all is where it should be */
      bt_plan_overlay *o = lay_places(trace, own ? NULL : schedules[i]);
      assert_int_equal(o->place_count, 3 * 2 * o->planned_ops);
      for (size_t k = 0; k < o->place_count; k++) {
        const bt_plan_place *place = &o->places[k];
        assert_int_equal(place->start, place->ran_start);
        assert_int_equal(place->end, place->ran_end);
        assert_int_equal(place->place, place->planned_place);
      }
      assert_as_planned(o);
      check_places(trace, o);
      bt_plan_overlay_free(o);
    }
    bt_trace_free(trace);
  }
}

/* The run's own order, with a slow stage: nothing is displaced, and the time that it costs is all there is to tell. */
static void test_own_order(void **state) {
  (void)state;
  bt_simulation_params params = simulated_params("1f1b", 4, 8);
  params.steps = 3;
  params.slow_stages = (bt_disturbances){{{.where = 1, .factor = 1.4}}, 1};
  bt_trace *trace = settled_trace(&params);
  bt_plan_overlay *own = lay_places(trace, NULL), *named = lay_places(trace, "1f1b");
  assert_as_planned(own);
  assert_string_equal(own->name, "own order");
  assert_true(own->late_ns > 0);
  assert_int_equal(own->late_ns, named->late_ns); /* for it ran in that order */
  check_places(trace, own);
  for (size_t i = 0; i < own->place_count; i++)
    assert_int_equal(own->places[i].start, named->places[i].start);
  bt_plan_overlay_free(named);
  named = lay_places(trace, "gpipe"); /* another order: some are displaced */
  assert_true(named->displaced > 0);
  check_places(trace, named);
  bt_plan_overlay_free(named);
  bt_plan_overlay_free(own);
  bt_trace_free(trace);
}

/* --- by hand --------------------------------------------------------------------------------------------------------- */

/* Two stages, two microbatches, F 10, BW 20, no messages: 1F1B. Stage 1 begins `late` after that. */
static bt_trace *two_stages(int64_t late) {
  bt_trace *trace = new_trace(2);
  op(trace, 0, BT_F, 0, 0, 10);
  op(trace, 0, BT_F, 1, 10, 20);
  op(trace, 1, BT_F, 0, 10 + late, 20 + late);
  op(trace, 1, BT_BW, 0, 20 + late, 40 + late);
  op(trace, 0, BT_BW, 0, 40 + late, 60 + late);
  op(trace, 1, BT_F, 1, 40 + late, 50 + late);
  op(trace, 1, BT_BW, 1, 50 + late, 70 + late);
  op(trace, 0, BT_BW, 1, 70 + late, 90 + late);
  for (int32_t r = 0; r < 2; r++)
    assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, r), INT64_MAX), BT_OK);
  return trace;
}

static void test_by_hand(void **state) {
  (void)state;
  bt_trace *trace = two_stages(7);
  bt_plan_overlay *o = lay_csv(trace, "0F0,0F1,,,0B0,,,0B1\n,1F0,1B0,,1F1,1B1\n");
  assert_null(o->name);
  assert_as_planned(o);
  assert_int_equal(o->planned_ops, 8);
  assert_int_equal(o->planned_ns, 90);
  assert_int_equal(o->measured_ns, 97);
  assert_int_equal(o->late_ns, 7);
  assert_int_equal(o->worst.ns, 7);
  assert_int_equal(o->worst.rank, 1); /* of the equally late ones the first of the first rank that has one */
  assert_int_equal(o->stage_list[1].late_ns, 7);
  assert_true(told(o, "transfer_unknown"));
  bt_plan_overlay_free(o);
  /* GPipe planned, 1F1B run: stage 1's B0 ran too early, or its F1 too late; one op explains it */
  o = lay_csv(trace, "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  assert_int_equal(o->displaced, 1);
  assert_int_equal(o->in_order, 7);
  assert_int_equal(o->displaced_list[0].rank, 1);
  assert_int_equal(o->displaced_list[0].steps, 1);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

static void test_missing_and_extra(void **state) {
  (void)state;
  bt_trace *trace = two_stages(0);
  bt_plan_overlay *o = lay_csv(trace, "0F0,0F1,0B0\n1F0,1B0,1F1,1B1,1W1\n"); /* W: B is the input gradient */
  assert_true(told(o, "backward_whole")); /* the run has BW: B is compared as that, W left out */
  assert_int_equal(o->missing, 0);
  assert_int_equal(o->extra, 1);
  assert_int_equal(o->extra_list[0].op.kind, BT_BW);
  assert_int_equal(o->extra_list[0].rank, 0);
  assert_int_equal(o->extra_list[0].op.microbatch, 1);
  assert_int_equal(o->extra_list[0].place, 3);
  assert_false(o->late_known);
  assert_int_equal(o->late_ns, BT_UNKNOWN);
  assert_int_equal(o->stage_list[0].longer_ns, BT_UNKNOWN);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
  trace = new_trace(2);
  op(trace, 0, BT_F, 0, 0, 10);
  op(trace, 0, BT_F, 1, 10, 20);
  op(trace, 0, BT_F, 1, 20, 30); /* again: steps are marked, so it is the same step */
  op(trace, 1, BT_F, 0, 10, 20);
  op(trace, 1, BT_BW, 0, 20, 40);
  op(trace, 1, BT_F, 1, 40, 50); /* its backward is missing, and so are both of stage 0 */
  for (int32_t r = 0; r < 2; r++) {
    step(trace, r, 5, 0, 100);
    assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, r), INT64_MAX), BT_OK);
  }
  o = lay_csv(trace, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  assert_int_equal(o->extra, 1);
  assert_int_equal(o->extra_list[0].op.kind, BT_F);
  assert_int_equal(o->extra_list[0].place, 2);
  assert_int_equal(o->missing, 3);
  assert_int_equal(o->missing_list[2].rank, 1);
  assert_int_equal(o->missing_list[2].place, -1);
  assert_int_equal(o->missing_list[2].planned_place, 3);
  assert_int_equal(o->missing_list[2].step, 5);
  assert_int_equal(o->ops, o->in_order + o->displaced + o->extra);
  assert_false(o->late_known); /* the step is not whole */
  assert_true(told(o, "no_whole_step"));
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

/* Microbatches counted on through the steps are the plan's by their order. */
static void test_running_numbers(void **state) {
  (void)state;
  bt_trace *trace = new_trace(1);
  for (int32_t s = 0; s < 3; s++) {
    op(trace, 0, BT_F, 2 * s, 100 * s, 100 * s + 10);
    op(trace, 0, BT_F, 2 * s + 1, 100 * s + 10, 100 * s + 20);
    op(trace, 0, BT_BW, s == 1 ? 3 : 2 * s, 100 * s + 20, 100 * s + 40); /* step 1: the other way round */
    op(trace, 0, BT_BW, s == 1 ? 2 : 2 * s + 1, 100 * s + 40, 100 * s + 60);
    step(trace, 0, s, 100 * s, 100 * s + 60);
  }
  assert_int_equal(bt_trace_settle(trace, bt_trace_rank(trace, 0), INT64_MAX), BT_OK);
  bt_plan_overlay *o = lay_csv(trace, "0F0,0F1,0B0,0B1\n");
  assert_int_equal(o->displaced, 1);
  assert_int_equal(o->missing + o->extra, 0);
  assert_int_equal(o->steps[1].displaced, 1);
  assert_int_equal(o->displaced_list[0].step, 1);
  assert_int_equal(o->worst.ns, 20); /* the one that should have ended 20 ns before */
  assert_int_equal(o->late_ns, 0);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

static void test_own_order_as_csv(void **state) {
  (void)state;
  static const char *const schedules[] = {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev", "looped-bfs"};
  for (size_t n = 0; n < sizeof schedules / sizeof *schedules; n++) {
    bt_simulation_params params = simulated_params(schedules[n], 4, 8);
    bt_trace *trace = settled_trace(&params);
    bt_schedule *schedule = NULL;
    assert_int_equal(bt_schedule_make(params.family, &params.schedule, &schedule, NULL), BT_OK);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int32_t s = 0; s < schedule->stages; s++) {
      size_t count;
      const bt_op *ops = bt_schedule_order(schedule, s, &count);
      for (size_t i = 0; i < count; i++) {
        const bt_op *one = &ops[i];
        static const char *const names[] = {"F", "I", "W", "B"};
        if (one->kind == BT_FB)
          fprintf(out, "(%dF%d;%dB%d)OVERLAP_F_B,", one->vstage, one->microbatch, one->vstage_b, one->microbatch_b);
        else
          fprintf(out, "%d%s%d,", one->vstage, names[one->kind - BT_F], one->microbatch);
      }
      fputc('\n', out);
    }
    assert_int_equal(fclose(out), 0);
    bt_plan_overlay *o = lay_csv(trace, text);
    assert_as_planned(o);
    assert_int_equal(o->late_ns, 0);
    bt_plan_overlay_free(o);
    free(text);
    bt_schedule_free(schedule);
    bt_trace_free(trace);
  }
}

static void refuses(const bt_trace *trace, const bt_plan_source *source, const char *because) {
  bt_plan_overlay *overlay = NULL;
  bt_error error = {BT_OK, ""};
  assert_int_equal(bt_plan_lay(trace, NULL, source, &overlay, &error), BT_ERR_ARG);
  assert_null(overlay);
  if (strstr(error.text, because) == NULL) fail_msg("'%s' does not say '%s'", error.text, because);
  assert_null(strchr(error.text, '\n'));
}

static void test_does_not_fit(void **state) {
  (void)state;
  static const struct {
    const char *text, *because;
  } plans[] = {
      {"0F0,0F1,0B0,0B1\n", "1 stages, 1 chunks a stage and 2 microbatches, the run has 2, 1 and 2"},
      {"0F0,0B0\n1F0,1B0\n", "1 microbatches"},
      {"0F0,0F1,2F0,2F1\n1F0,1F1,3F0,3F1\n", "2 chunks"},
      {"1F0,1F1,1B0,1B1\n0F0,0F1,0B0,0B1\n", "virtual stage 0 is on stage 0 in the run"},
      {"0F0,0F1,0F0\n1F0,1F1\n", "twice"},
      {"0UNSHARD\n1UNSHARD\n", "no forward"},
  };
  bt_trace *trace = two_stages(0);
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    bt_schedule_csv *csv = NULL;
    assert_int_equal(bt_schedule_csv_parse(plans[i].text, strlen(plans[i].text), &csv, NULL), BT_OK);
    refuses(trace, &(bt_plan_source){.csv = csv}, plans[i].because);
    bt_schedule_csv_free(csv);
  }
  refuses(trace, &(bt_plan_source){.family = bt_schedule_find("zb-h2")}, "2 x stages - 1 microbatches");
  refuses(trace, &(bt_plan_source){.family = bt_schedule_find("dualpipe")}, "2 chunks");
  bt_trace_free(trace);
}

/* A plan in which ranks wait for each other for ever still has an order. */
static void test_plan_that_cannot_run(void **state) {
  (void)state;
  bt_trace *trace = two_stages(0);
  bt_plan_overlay *o = lay_csv(trace, "0B0,0F0,0F1,0B1\n1F0,1B0,1F1,1B1\n");
  assert_true(told(o, "plan_untimed"));
  assert_false(o->late_known);
  assert_int_equal(o->displaced, 1);
  bt_plan_overlay_free(o);
  bt_trace_free(trace);
}

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int64_t one_of(uint64_t *state, int64_t low, int64_t count) {
  return low + (int64_t)((next_random(state) >> 8) % (uint64_t)count);
}

/* Ops that fit a plan at times, and extremes now and then. */
static bt_trace *any_run(uint64_t seed) {
  static const int64_t odd[] = {INT64_MIN / 2, INT64_MAX / 2, -1, 1 << 20, INT32_MAX};
  uint64_t random = seed * 0x9E3779B97F4A7C15u;
  bt_trace *trace = new_trace((int32_t)one_of(&random, 1, 4));
  int64_t chunks = one_of(&random, 1, 2);
  for (int i = 0; i < 120; i++) {
    bt_event event;
    bt_event_init(&event, (bt_code)(one_of(&random, 0, 10) > 0 ? one_of(&random, 1, 8) : BT_RECV_F));
    bool extreme = one_of(&random, 0, 40) == 0;
    event.start = extreme ? odd[one_of(&random, 0, 5)] : one_of(&random, 0, 1000);
    event.duration = extreme ? odd[one_of(&random, 1, 4)] & INT64_MAX : one_of(&random, 0, 50);
    event.microbatch = (int32_t)(extreme ? odd[one_of(&random, 2, 3)] : one_of(&random, 0, 3));
    event.chunk = (int16_t)(chunks > 1 || extreme ? one_of(&random, 0, chunks) : -1);
    event.microbatch_b = (int32_t)one_of(&random, -1, 4);
    event.chunk_b = (int16_t)one_of(&random, -1, 3);
    event.peer = (int32_t)one_of(&random, -1, 4);
    (void)bt_trace_add(trace, bt_trace_rank(trace, (int32_t)one_of(&random, 0, (int64_t)trace->rank_count)), 0, 1,
                       &event);
  }
  for (size_t r = 0; r < trace->rank_count; r++) {
    trace->ranks[r].layout.chunks = (int32_t)chunks;
    if (one_of(&random, 0, 8) == 0) trace->ranks[r].layout.dp_rank = (int32_t)one_of(&random, 0, 3);
    if (one_of(&random, 0, 8) == 0) trace->ranks[r].layout.pp_rank = (int32_t)one_of(&random, 0, 3);
    for (int s = 0; s < 3 && seed % 2 == 0; s++)
      step(trace, (int32_t)r, s, 300 * s, 300 * s + 290);
    assert_int_equal(bt_trace_settle(trace, &trace->ranks[r], INT64_MAX), BT_OK);
  }
  return trace;
}

/* Whatever the run says: an answer, whose numbers agree with each other. */
static void test_any_run(void **state) {
  (void)state;
  int laid = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    bt_trace *trace = any_run(seed);
    for (const bt_schedule_family *family = bt_schedule_families; family->name != NULL; family++) {
      bt_plan_source source = {.family = family};
      bt_plan_overlay *o = NULL;
      bt_error error = {BT_OK, ""};
      bt_status status = bt_plan_lay(trace, NULL, &source, &o, &error);
      assert_true(status == BT_OK || (o == NULL && error.text[0] != '\0'));
      if (status != BT_OK) continue;
      laid++;
      assert_int_equal(o->ops, o->in_order + o->displaced + o->extra);
      int64_t displaced = 0;
      int64_t missing = 0;
      for (size_t i = 0; i < o->displaced_listed; i++)
        displaced += o->displaced_list[i].steps;
      for (size_t i = 0; i < o->missing_listed; i++)
        missing += o->missing_list[i].steps;
      assert_int_equal(displaced, o->displaced);
      assert_int_equal(missing, o->missing);
      for (int32_t s = 0; s < o->stages; s++)
        displaced -= o->stage_list[s].displaced;
      assert_int_equal(displaced, 0);
      bt_plan_overlay_free(o);
    }
    bt_trace_free(trace);
  }
  assert_true(laid > 100); /* the runs are not all beyond planning */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_own_order),
      cmocka_unit_test(test_own_plan),
      cmocka_unit_test(test_replicas_and_members),
      cmocka_unit_test(test_slow_stage),
      cmocka_unit_test(test_pause),
      cmocka_unit_test(test_other_order),
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_missing_and_extra),
      cmocka_unit_test(test_running_numbers),
      cmocka_unit_test(test_own_order_as_csv),
      cmocka_unit_test(test_does_not_fit),
      cmocka_unit_test(test_plan_that_cannot_run),
      cmocka_unit_test(test_any_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
