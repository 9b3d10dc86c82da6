/* A small JSON document: built front to back, looked into by path, written once it is whole.
 *
 * Keys are borrowed (string literals); texts are copied. Numbers that are not finite become null, so that "not known"
 * has one spelling. Building never fails visibly: bt_json_broken tells at the end whether memory ran out.
 */
#ifndef BT_COMMANDS_JSON_H
#define BT_COMMANDS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bt_json bt_json;

bt_json *bt_json_new(void); /* an open object; NULL: no memory */
void bt_json_free(bt_json *json);
bool bt_json_broken(const bt_json *json);

/* A member of the open object, or, with a NULL key, an element of the open array. */
void bt_json_open_object(bt_json *json, const char *key);
void bt_json_open_array(bt_json *json, const char *key);
void bt_json_close(bt_json *json);
void bt_json_integer(bt_json *json, const char *key, int64_t value);
void bt_json_number(bt_json *json, const char *key, double value);
void bt_json_boolean(bt_json *json, const char *key, bool value);
void bt_json_text(bt_json *json, const char *key, const char *text); /* NULL: null */
void bt_json_null(bt_json *json, const char *key);

/* Writes the document, closing what is open; `lines`: on several lines, else on one. Bytes that are no UTF-8 and control
 * characters never come out as they are. */
void bt_json_write(const bt_json *json, FILE *out, bool lines);

/* Calls `found` for every number or null (then NAN) that `path` names: "bubble.rate_window", "stages[3].busy_ns",
 * "stages[].bubble_rate" (each element). Returns how many. */
size_t bt_json_each(const bt_json *json, const char *path, void (*found)(void *context, double value), void *context);

#endif
