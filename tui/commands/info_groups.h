/* The groups of a run, for `bubbletop info`. */
#ifndef BT_COMMANDS_INFO_GROUPS_H
#define BT_COMMANDS_INFO_GROUPS_H

#include "formats/trace.h"
#include "tui/commands/json.h"

/* One line: how many groups of each domain and size; nothing for a run without groups. False: memory is short. */
bool bt_print_groups(const bt_trace *trace);
/* The same as "groups", and as "communicators" what was joined, with members by place (64 at most). */
bool bt_write_groups(bt_json *json, const bt_trace *trace);

#endif
