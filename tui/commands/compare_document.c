/* The comparison as one JSON object. Times are of a rank in a step, except of links: of a replica in a step. */
#include <math.h>

#include "tui/commands/compare.h"

static void time_or_null(bt_json *json, const char *key, int64_t value) {
  if (value == BT_UNKNOWN) {
    bt_json_null(json, key);
  } else {
    bt_json_integer(json, key, value);
  }
}

static void add_change(bt_json *json, const char *key, const bt_change *change) {
  bt_json_open_object(json, key);
  time_or_null(json, "a", change->a);
  time_or_null(json, "b", change->b);
  time_or_null(json, "change", change->change);
  bt_json_number(json, "ratio", change->change == 0 ? 0 : bt_change_ratio(change));
  bt_json_close(json);
}

static void add_rate(bt_json *json, const char *key, const bt_rate_change *rate) {
  bt_json_open_object(json, key);
  bt_json_number(json, "a", rate->a);
  bt_json_number(json, "b", rate->b);
  bt_json_number(json, "change", rate->change);
  bt_json_close(json);
}

static void add_classes(bt_json *json, const char *key, const bt_change *classes) {
  bt_json_open_object(json, key);
  for (int c = 0; c < BT_CLASS_COUNT; c++)
    add_change(json, bt_class_key((bt_class)c), &classes[c]);
  bt_json_close(json);
}

static void add_run(bt_json *json, const char *key, const bt_compare_side *side, const bt_compared_run *run) {
  const bt_accounting *a = side->accounting;
  bt_json_open_object(json, key);
  bt_json_text(json, "path", side->path);
  bt_json_text(json, "schedule", bt_compare_schedule(side));
  bt_json_integer(json, "stages", run->stages);
  bt_json_integer(json, "chunks", run->chunks);
  time_or_null(json, "microbatches", run->microbatches >= 0 ? run->microbatches : BT_UNKNOWN);
  bt_json_integer(json, "ranks", run->ranks);
  bt_json_integer(json, "replicas", run->replicas);
  bt_json_integer(json, "steps", (int64_t)run->steps);
  bt_json_integer(json, "first_step", a->steps[0].step);
  bt_json_integer(json, "last_step", a->steps[a->step_count - 1].step);
  bt_json_close(json);
}

static void add_stages(bt_json *json, const bt_comparison *of) {
  bt_json_open_array(json, "stages");
  for (size_t i = 0; i < of->stage_count; i++) {
    const bt_compared_stage *stage = &of->stages[i];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "stage", stage->stage);
    add_change(json, "step_ns", &stage->step);
    add_change(json, "compute_ns", &stage->compute);
    add_rate(json, "bubble_rate", &stage->bubble_rate);
    add_classes(json, "classes", stage->ns);
    add_classes(json, "theoretical", stage->theory);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_links(bt_json *json, const bt_comparison *of) {
  bt_json_open_array(json, "links");
  for (size_t i = 0; i < of->link_count; i++) {
    const bt_compared_link *link = &of->links[i];
    bt_json_open_object(json, NULL);
    bt_json_integer(json, "from", link->from);
    bt_json_integer(json, "to", link->to);
    add_change(json, "messages", &link->messages);
    add_change(json, "bytes", &link->bytes);
    add_change(json, "wait_ns", &link->wait);
    add_change(json, "transfer_ns", &link->transfer);
    add_change(json, "message_ns", &link->message);
    bt_json_close(json);
  }
  bt_json_close(json);
}

static void add_warning(bt_json *json, const char *run, const char *code, const char *text) {
  bt_json_open_object(json, NULL);
  bt_json_text(json, "run", run);
  bt_json_text(json, "code", code);
  bt_json_text(json, "text", text);
  bt_json_close(json);
}

static void add_warnings(bt_json *json, const bt_compare_page *page) {
  bt_json_open_array(json, "warnings");
  for (int s = 0; s < 2; s++) {
    const bt_compare_side *side = &page->sides[s];
    const char *run = s == 0 ? "a" : "b";
    size_t count;
    const bt_problem *problems = bt_run_problems(side->run, &count);
    for (size_t i = 0; i < count; i++)
      add_warning(json, run, bt_problem_code(problems[i].kind), problems[i].text);
    for (size_t i = 0; i < side->accounting->warning_count; i++)
      add_warning(json, run, side->accounting->warnings[i].code, side->accounting->warnings[i].text);
  }
  bt_json_close(json);
}

bt_json *bt_compare_document(const bt_compare_page *page) {
  const bt_comparison *of = page->comparison;
  bt_json *json = bt_json_new();
  if (json == NULL) return NULL;
  bt_json_text(json, "verdict", of->verdict);
  add_run(json, "a", &page->sides[0], &of->a);
  add_run(json, "b", &page->sides[1], &of->b);
  add_change(json, "step_ns", &of->step);
  add_change(json, "microbatch_ns", &of->microbatch);
  add_change(json, "theoretical_step_ns", &of->theory_step);
  bt_json_open_object(json, "bubble");
  add_rate(json, "rate_window", &of->rate_window);
  add_rate(json, "rate_span", &of->rate_span);
  add_rate(json, "over_ideal", &of->over_ideal);
  add_rate(json, "ideal_rate_window", &of->ideal_rate_window);
  add_rate(json, "ideal_rate_span", &of->ideal_rate_span);
  bt_json_close(json);
  add_classes(json, "classes", of->classes);
  add_classes(json, "theoretical", of->theory);
  add_stages(json, of);
  add_links(json, of);
  add_warnings(json, page);
  if (!bt_json_broken(json)) return json;
  bt_json_free(json);
  return NULL;
}
