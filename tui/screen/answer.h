/* What a terminal answers when it is asked for its background: it comes in among the keys, ESC ] 11;rgb:... ended by BEL or
 * ESC \. No curses. */
#ifndef BT_SCREEN_ANSWER_H
#define BT_SCREEN_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bt_answer {
  bool awaited; /* it was asked, and has not answered */
  bool reading; /* between ESC ] and the end */
  bool known, light; /* what it said of the background */
  size_t length;
  char text[48];
} bt_answer;

/* A character of the answer. One that never ends is given up. */
void bt_answer_read(bt_answer *a, uint32_t key);

#endif
