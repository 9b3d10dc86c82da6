/* What is generated for others from the tables of commands and of keys: a part of the manual page, shell completion. */
#ifndef BT_COMMANDS_MANUAL_H
#define BT_COMMANDS_MANUAL_H

#include <stdio.h>

/* The sections COMMANDS and KEYS of bubbletop.1, in mdoc. */
void bt_manual_print(FILE *out);

/* Completion of commands, options and files, for bash. */
void bt_completion_print(FILE *out);

#endif
