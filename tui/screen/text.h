/* Numbers as people read them, into caller's buffers; and arithmetic of times that any capture may hold. */
#ifndef BT_SCREEN_TEXT_H
#define BT_SCREEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"

/* "131 ns", "4.1 ms", "2.50 s", "3 m 20 s": three figures or so. Returns `out`. */
char *bt_text_duration(char *out, size_t room, int64_t ns);
/* A time on the axis, given the distance between ticks: "+50 ms" needs no decimals, "+1.25 ms" does. */
char *bt_text_tick(char *out, size_t room, int64_t ns, int64_t tick);
/* "131.2-141.2 ms" with the given dash: two times since the same zero, in one unit. */
char *bt_text_range(char *out, size_t room, int64_t from, int64_t to, const char *dash);
/* "1,284" */
char *bt_text_count(char *out, size_t room, int64_t value);
/* "64 MiB" */
char *bt_text_bytes(char *out, size_t room, int64_t bytes);
/* "5ms", "1.5s", "20us", "7ns". False: something else. */
bool bt_text_parse_duration(const char *text, int64_t *ns);
/* Appends with the format to what is in `out` already; cut when there is no room. */
__attribute__((format(printf, 3, 4))) void bt_text_append(char *out, size_t room, const char *format, ...);

/* a - b and a + b, held within int64. */
int64_t bt_time_sub(int64_t a, int64_t b);
int64_t bt_time_add(int64_t a, int64_t b);
int64_t bt_time_mul(int64_t a, int64_t b);

/* The aligned time of a rank's raw time, and back: bt_rank_time held within int64. */
int64_t bt_view_time(const bt_rank *rank, int64_t raw);
int64_t bt_raw_time(const bt_rank *rank, int64_t time);

#endif
