#include "tui/screen/keys.h"

#include <stdio.h>
#include <string.h>

static const bt_binding moving[] = {
    {BT_ACTION_ZOOM_RANGE, "Z", "zoom to range",
     "zoom to the range of time from the mark to the cursor, or dragged with the mouse; so does Enter", false},
    {BT_ACTION_PAN_LEFT, "Left h", "pan", "pan in time; with a count, that many times", true},
    {BT_ACTION_PAN_RIGHT, "Right l", NULL, NULL, true},
    {BT_ACTION_PAGE_LEFT, "PageUp H S-Left", NULL, "a page earlier or later", true},
    {BT_ACTION_PAGE_RIGHT, "PageDown L S-Right", NULL, NULL, true},
    {BT_ACTION_ZOOM_IN, "+ =", "zoom", "zoom in or out at the cursor", true},
    {BT_ACTION_ZOOM_OUT, "-", NULL, NULL, true},
    {BT_ACTION_ROW_UP, "Up k", NULL, "row above or below", true},
    {BT_ACTION_ROW_DOWN, "Down j", NULL, NULL, true},
    {BT_ACTION_ROWS_UP, "C-u", NULL, "half a screen of rows", true},
    {BT_ACTION_ROWS_DOWN, "C-d", NULL, NULL, true},
    {BT_ACTION_START, "g Home", NULL, "start of the run, end of the run", false},
    {BT_ACTION_END, "G End", NULL, NULL, false},
    {BT_ACTION_FIT_STEP, "s", "fit step", "fit the step under the cursor into the screen", false},
    {BT_ACTION_FIT_RUN, "a", "fit all", "fit the whole run", false},
    {BT_ACTION_CENTRE, "z", NULL, "put the cursor into the middle", false},
    {BT_ACTION_NONE, NULL, NULL, NULL, false},
};

static const bt_binding jumping[] = {
    {BT_ACTION_NEXT_BLOCK, "w Tab", "block", "next, previous block of the row", true},
    {BT_ACTION_PREVIOUS_BLOCK, "b S-Tab", NULL, NULL, true},
    {BT_ACTION_NEXT_BUBBLE, "]", "bubble", "next, previous bubble of the row", true},
    {BT_ACTION_PREVIOUS_BUBBLE, "[", NULL, NULL, true},
    {BT_ACTION_LARGEST_BUBBLE, "B", "largest", "largest bubble of all rows in the visible range", false},
    {BT_ACTION_NEXT_STEP, "}", "step", "next, previous step", true},
    {BT_ACTION_PREVIOUS_STEP, "{", NULL, NULL, true},
    {BT_ACTION_PRODUCER, "p", "producer", "what the block under the cursor waited for", true},
    {BT_ACTION_FOLLOW_MICROBATCH, "m", "follow mb", "the same microbatch in the stage it goes to next", true},
    {BT_ACTION_MARK, "M", NULL,
     "set a mark: the range from there to the cursor is told of below; on the mark: take it away", false},
    {BT_ACTION_GO_TO_MARK, "'", NULL, "to the mark, which comes to where the cursor was", false},
    {BT_ACTION_CLEAR, "Escape", NULL, "take the range away; from other views back to the timeline", false},
    {BT_ACTION_BACK, "Backspace C-o u", NULL, "back to where the last jump began, and forth again", true},
    {BT_ACTION_FORTH, "U", NULL, NULL, true},
    {BT_ACTION_GO, ":", NULL, "go to a step (its number) or to a time since the run's start (12.5s)", false},
    {BT_ACTION_SEARCH, "/", "search", "search: kinds (F, B, RECV_F), mb3, stage4, rank7, >5ms; all must hold", false},
    {BT_ACTION_SEARCH_NEXT, "n", NULL, "next, previous hit", true},
    {BT_ACTION_SEARCH_PREVIOUS, "N", NULL, NULL, true},
    {BT_ACTION_NONE, NULL, NULL, NULL, false},
};

static const bt_binding showing[] = {
    {BT_ACTION_LANES, "Enter o", "lanes",
     "open the row into its lanes (compute, p2p, collective, host); views: open the timeline there", false},
    {BT_ACTION_ALL_LANES, "O", NULL, "open or close all rows", false},
    {BT_ACTION_NEXT_REPLICA, "r", NULL, "next, previous data-parallel replica", true},
    {BT_ACTION_PREVIOUS_REPLICA, "R", NULL, NULL, true},
    {BT_ACTION_NEXT_PAGE, "v", "views", "next, previous view: timeline, stages and links, steps, matrix", false},
    {BT_ACTION_PREVIOUS_PAGE, "V", NULL, NULL, false},
    {BT_ACTION_SCOPE, "c", "scope",
     "bubble % over: last step, last 10 steps, visible range; matrix: compute, bubble, delay", false},
    {BT_ACTION_WHY, "i", "why idle", "colour bubbles by their class: fill, wait, drain, p2p, collective, host", false},
    {BT_ACTION_PLAN, "P", "plan",
     "under every row: where the plan (--plan) has its ops; the run's own order in usual times; nothing", false},
    {BT_ACTION_OTHER_RUN, "W", "other run", "two runs: the cursor to the same op of the other one, or the same time",
     false},
    {BT_ACTION_BY_STAGE, "S", "by stage", "two runs: one above the other, or stage by stage", false},
    {BT_ACTION_TIMES, "t", NULL, "axis: time since the step's start, or since the run's", false},
    {BT_ACTION_NONE, NULL, NULL, NULL, false},
};

static const bt_binding running[] = {
    {BT_ACTION_PAUSE, "Space", "pause", "pause, go on", false},
    {BT_ACTION_FOLLOW, "f", "follow", "follow the newest data", false},
    {BT_ACTION_STEP_ONCE, ".", NULL, "replay: one step further", true},
    {BT_ACTION_SLOWER, "<", NULL, "replay: half or double speed", true},
    {BT_ACTION_FASTER, ">", NULL, NULL, true},
    {BT_ACTION_SAVE, "e", NULL,
     "write what is seen, or the range, into this directory: asks whether as a picture (SVG), JSON or text", false},
    {BT_ACTION_SAVE_TEXT, "y", NULL, "write the screen as text into this directory", false},
    {BT_ACTION_MOUSE, "x", NULL,
     "mouse on or off: wheel zooms, with Shift pans, click selects, dragging chooses a range; off leaves copying to "
     "the terminal",
     false},
    {BT_ACTION_HELP, "?", "help", "this help", false},
    {BT_ACTION_REDRAW, "C-l", NULL, "draw the whole screen again", false},
    {BT_ACTION_SUSPEND, "C-z", NULL, "suspend", false},
    {BT_ACTION_QUIT, "q C-c", "quit", "quit", false},
    {BT_ACTION_NONE, NULL, NULL, NULL, false},
};

const bt_key_group bt_key_groups[] = {
    {"Moving", moving}, {"Jumping", jumping}, {"What is shown", showing}, {"Run and program", running}, {NULL, NULL},
};

static const struct {
  const char *name;
  bt_key key;
} key_names[] = {
    {"Left", BT_KEY_LEFT},
    {"Right", BT_KEY_RIGHT},
    {"Up", BT_KEY_UP},
    {"Down", BT_KEY_DOWN},
    {"Home", BT_KEY_HOME},
    {"End", BT_KEY_END},
    {"PageUp", BT_KEY_PAGE_UP},
    {"PageDown", BT_KEY_PAGE_DOWN},
    {"S-Tab", BT_KEY_BACK_TAB},
    {"Tab", BT_KEY_TAB},
    {"Enter", BT_KEY_ENTER},
    {"Escape", BT_KEY_ESCAPE},
    {"Backspace", BT_KEY_BACKSPACE},
    {"Delete", BT_KEY_DELETE},
    {"S-Left", BT_KEY_SHIFT_LEFT},
    {"S-Right", BT_KEY_SHIFT_RIGHT},
    {"Space", ' '},
};

bt_key bt_key_from_name(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof key_names / sizeof key_names[0]; i++) {
    if (strlen(key_names[i].name) == length && memcmp(key_names[i].name, name, length) == 0) return key_names[i].key;
  }
  if (length == 3 && name[0] == 'C' && name[1] == '-' && name[2] >= 'a' && name[2] <= 'z')
    return (bt_key)(name[2] - 'a' + 1);
  return length == 1 && name[0] > ' ' && name[0] < 0x7F ? (bt_key)name[0] : BT_KEY_NONE;
}

char *bt_key_name(bt_key key, char out[16]) {
  out[0] = 0;
  for (size_t i = 0; i < sizeof key_names / sizeof key_names[0]; i++) {
    if (key_names[i].key == key) (void)snprintf(out, 16, "%s", key_names[i].name);
  }
  if (out[0] != 0) return out;
  if (key > ' ' && key < 0x7F)
    (void)snprintf(out, 16, "%c", (int)key);
  else if (key > 0 && key < ' ')
    (void)snprintf(out, 16, "C-%c", (int)('a' + key - 1));
  else
    (void)snprintf(out, 16, "that key");
  return out;
}

static bool has_key(const bt_binding *binding, bt_key key) {
  for (const char *p = binding->keys; *p != 0;) {
    size_t length = strcspn(p, " ");
    if (bt_key_from_name(p, length) == key) return true;
    p += length;
    p += strspn(p, " ");
  }
  return false;
}

const bt_binding *bt_binding_of_key(bt_key key) {
  if (key == BT_KEY_NONE) return NULL;
  for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
    for (const bt_binding *binding = group->bindings; binding->action != BT_ACTION_NONE; binding++) {
      if (has_key(binding, key)) return binding;
    }
  }
  return NULL;
}

const bt_binding *bt_binding_of_action(bt_action action) {
  for (const bt_key_group *group = bt_key_groups; group->title != NULL; group++) {
    for (const bt_binding *binding = group->bindings; binding->action != BT_ACTION_NONE; binding++) {
      if (binding->action == action) return binding;
    }
  }
  return NULL;
}
