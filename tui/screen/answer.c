#include "tui/screen/answer.h"

#include <stdlib.h>
#include <string.h>

enum { ESCAPE = 27, BELL = 7 };

/* 11;rgb:ffff/ffff/ffff, each of one to four digits. Light: more than half of the luminance of white (ITU-R BT.601). */
static void take(bt_answer *a) {
  double weights[] = {0.299, 0.587, 0.114}, luminance = 0;
  const char *at = strchr(a->text, ':');
  a->reading = false;
  if (strncmp(a->text, "11;rgb", 6) != 0 || at == NULL) return;
  a->awaited = false;
  for (size_t i = 0; i < 3; i++) {
    char *end;
    unsigned long value = strtoul(++at, &end, 16);
    size_t digits = (size_t)(end - at);
    if (digits < 1 || digits > 4 || (i < 2 && *end != '/')) return;
    luminance += weights[i] * (double)value / (double)((1u << (4 * digits)) - 1);
    at = end;
  }
  a->light = luminance > 0.5;
  a->known = true;
}

void bt_answer_read(bt_answer *a, uint32_t key) {
  if (key == BELL || (key == '\\' && a->length > 0 && a->text[a->length - 1] == ESCAPE)) {
    a->text[a->length] = 0;
    take(a);
  } else if (a->length + 1 == sizeof a->text) {
    a->reading = false;
  } else {
    a->text[a->length++] = key < 0x80 ? (char)key : '?';
  }
}
