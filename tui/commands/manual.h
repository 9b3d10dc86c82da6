/* What is generated from the command table for others: the commands of the manual page, shell completion. */
#ifndef BT_COMMANDS_MANUAL_H
#define BT_COMMANDS_MANUAL_H

#include <stdio.h>

/* The list of commands and their options, in mdoc: a part of bubbletop.1. */
void bt_manual_print(FILE *out);

/* Completion of commands, options and files, for bash. */
void bt_completion_print(FILE *out);

#endif
