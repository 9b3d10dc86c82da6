/* Moves of the picture and of the cursor. Each says in the message line why it could not. */
#ifndef BT_SCREEN_NAVIGATE_H
#define BT_SCREEN_NAVIGATE_H

#include "tui/screen/view.h"

void bt_navigate(bt_view *view, bt_action action, unsigned count);
/* What is shown, whether it runs, what is written. */
void bt_navigate_change(bt_view *view, bt_action action, unsigned count);
/* From block to block, bubble to bubble, hit to hit, and back. */
void bt_jump(bt_view *view, bt_action action, unsigned count);
/* Puts the cursor on a time, and moves the picture only as far as needed. */
void bt_navigate_to(bt_view *view, int64_t time);
/* Shows a step whole, the cursor at its begin. */
void bt_navigate_step(bt_view *view, size_t index);
/* Whether an action means something in the view that is shown. */
bool bt_action_works(const bt_view *view, bt_action action);
/* Remembers where the view is, for `back`. */
void bt_navigate_remember(bt_view *view);
/* To where the last jump began, or forth to where that was left. False: there is no such place. */
bool bt_navigate_history(bt_view *view, bool forth);
/* To a step, by its number, or to a time since the run's start ("12.5s"). */
void bt_navigate_place(bt_view *view, const char *text);

#endif
