#include "tui/commands/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

enum { DEEPEST = 16 };

typedef enum node_type { OBJECT, ARRAY, INTEGER, NUMBER, BOOLEAN, TEXT, NOTHING } node_type;

typedef struct node {
  node_type type;
  const char *key;
  union {
    int64_t integer;
    double number;
    char *text;
    size_t end; /* containers: index behind the last node inside */
  };
} node;

struct bt_json {
  node *nodes; /* in the order of writing; what a container holds follows it */
  size_t count, capacity;
  size_t open[DEEPEST];
  int depth;
  bool broken;
  node nowhere; /* takes what there is no memory for */
};

static node *add(bt_json *json, const char *key, node_type type) {
  if (!bt_array_reserve(&json->nodes, &json->capacity, json->count + 1, sizeof *json->nodes)) {
    json->broken = true;
    json->nowhere = (node){.type = NOTHING};
    return &json->nowhere;
  }
  node *fresh = &json->nodes[json->count++];
  *fresh = (node){.type = type, .key = key};
  return fresh;
}

static void open_container(bt_json *json, const char *key, node_type type) {
  if (json->depth == DEEPEST) {
    json->broken = true;
    return;
  }
  size_t index = json->count;
  (void)add(json, key, type);
  if (json->count > index) json->open[json->depth++] = index;
}

bt_json *bt_json_new(void) {
  bt_json *json = calloc(1, sizeof *json);
  if (json == NULL) return NULL;
  open_container(json, NULL, OBJECT);
  return json;
}

void bt_json_free(bt_json *json) {
  if (json == NULL) return;
  for (size_t i = 0; i < json->count; i++) {
    if (json->nodes[i].type == TEXT) free(json->nodes[i].text);
  }
  free(json->nodes);
  free(json);
}

bool bt_json_broken(const bt_json *json) {
  return json->broken;
}

void bt_json_open_object(bt_json *json, const char *key) {
  open_container(json, key, OBJECT);
}
void bt_json_open_array(bt_json *json, const char *key) {
  open_container(json, key, ARRAY);
}

void bt_json_close(bt_json *json) {
  if (json->depth > 0) json->nodes[json->open[--json->depth]].end = json->count;
}

void bt_json_integer(bt_json *json, const char *key, int64_t value) {
  add(json, key, INTEGER)->integer = value;
}
void bt_json_boolean(bt_json *json, const char *key, bool value) {
  add(json, key, BOOLEAN)->integer = value;
}
void bt_json_null(bt_json *json, const char *key) {
  (void)add(json, key, NOTHING);
}

void bt_json_number(bt_json *json, const char *key, double value) {
  if (isfinite(value)) {
    add(json, key, NUMBER)->number = value;
  } else {
    bt_json_null(json, key);
  }
}

void bt_json_text(bt_json *json, const char *key, const char *text) {
  char *copy = text != NULL ? strdup(text) : NULL;
  if (copy == NULL) {
    json->broken |= text != NULL;
    bt_json_null(json, key);
    return;
  }
  node *fresh = add(json, key, TEXT);
  if (fresh->type == TEXT) {
    fresh->text = copy;
  } else {
    free(copy);
  }
}

/* --- writing --------------------------------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at `text`, 0: it is none. */
static size_t sequence_length(const unsigned char *text) {
  if (text[0] < 0x80) return 1;
  size_t length = text[0] >= 0xC2 && text[0] < 0xE0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 : 0;
  if (text[0] >= 0xF0 && text[0] < 0xF5) length = 4;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  if (length == 3) { /* overlong forms and surrogates */
    if (text[0] == 0xE0 && text[1] < 0xA0) return 0;
    if (text[0] == 0xED && text[1] >= 0xA0) return 0;
  }
  if (length == 4) {
    if (text[0] == 0xF0 && text[1] < 0x90) return 0;
    if (text[0] == 0xF4 && text[1] >= 0x90) return 0;
  }
  return length;
}

static void write_text(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
    size_t length = sequence_length(at);
    if (length == 0) {
      fputs("\\ufffd", out);
      at++;
      continue;
    }
    if (*at == '"' || *at == '\\') {
      fprintf(out, "\\%c", *at);
    } else if (*at < 0x20 || *at == 0x7F) {
      fprintf(out, "\\u%04x", *at);
    } else if (*at == 0xC2 && at[1] < 0xA0) { /* control characters of the second block */
      fprintf(out, "\\u%04x", at[1]);
    } else {
      fwrite(at, 1, length, out);
    }
    at += length;
  }
  fputc('"', out);
}

/* The shortest of two forms that reads back as the same number. */
static void write_number(FILE *out, double value) {
  char text[40];
  (void)snprintf(text, sizeof text, "%.15g", value);
  if (strtod(text, NULL) != value) (void)snprintf(text, sizeof text, "%.17g", value);
  fputs(text, out);
}

static void write_node(const bt_json *json, FILE *out, size_t index, int depth, bool lines);

static void write_container(const bt_json *json, FILE *out, size_t index, int depth, bool lines) {
  const node *container = &json->nodes[index];
  size_t end = container->end > 0 ? container->end : json->count;
  bool broken_up = lines && depth < 2; /* the elements of an array of objects: one a line */
  fputc(container->type == OBJECT ? '{' : '[', out);
  bool first = true;
  for (size_t at = index + 1; at < end;) {
    if (!first) fputc(',', out);
    if (broken_up) fprintf(out, "\n%*s", 2 * (depth + 1), "");
    if (!broken_up && !first) fputc(' ', out);
    first = false;
    write_node(json, out, at, depth + 1, lines);
    bool inner = json->nodes[at].type == OBJECT || json->nodes[at].type == ARRAY;
    at = inner && json->nodes[at].end > at ? json->nodes[at].end : inner ? json->count : at + 1;
  }
  if (broken_up && !first) fprintf(out, "\n%*s", 2 * depth, "");
  fputc(container->type == OBJECT ? '}' : ']', out);
}

static void write_node(const bt_json *json, FILE *out, size_t index, int depth, bool lines) {
  const node *n = &json->nodes[index];
  if (n->key != NULL) {
    write_text(out, n->key);
    fputs(": ", out);
  }
  switch (n->type) {
  case OBJECT:
  case ARRAY: write_container(json, out, index, depth, lines); break;
  case INTEGER: fprintf(out, "%" PRId64, n->integer); break;
  case NUMBER: write_number(out, n->number); break;
  case BOOLEAN: fputs(n->integer != 0 ? "true" : "false", out); break;
  case TEXT: write_text(out, n->text); break;
  case NOTHING: fputs("null", out); break;
  }
}

void bt_json_write(const bt_json *json, FILE *out, bool lines) {
  if (json->count > 0) write_node(json, out, 0, 0, lines);
  fputc('\n', out);
}

/* --- looking --------------------------------------------------------------------------------------------------------- */

typedef struct search {
  const bt_json *json;
  void (*found)(void *context, double value);
  void *context;
  size_t count;
} search;

static size_t behind(const bt_json *json, size_t index) {
  const node *n = &json->nodes[index];
  if (n->type != OBJECT && n->type != ARRAY) return index + 1;
  return n->end > index ? n->end : json->count;
}

static void descend(search *s, size_t index, const char *path);

static void descend_array(search *s, size_t index, const char *path) {
  char *rest;
  bool all = path[1] == ']';
  unsigned long wanted = all ? 0 : strtoul(path + 1, &rest, 10);
  if (all) rest = (char *)path + 1;
  if (*rest != ']' || s->json->nodes[index].type != ARRAY) return;
  unsigned long position = 0;
  for (size_t at = index + 1; at < behind(s->json, index); at = behind(s->json, at), position++) {
    if (all || position == wanted) descend(s, at, rest + 1);
  }
}

/* The rest of a path, from the node at `index` on. */
static void descend(search *s, size_t index, const char *path) {
  const node *n = &s->json->nodes[index];
  if (*path == '\0') {
    if (n->type != INTEGER && n->type != NUMBER && n->type != NOTHING) return;
    s->found(s->context, n->type == INTEGER ? (double)n->integer : n->type == NUMBER ? n->number : (double)NAN);
    s->count++;
    return;
  }
  if (*path == '[') {
    descend_array(s, index, path);
    return;
  }
  if (*path == '.') path++;
  size_t length = strcspn(path, ".[");
  if (n->type != OBJECT || length == 0) return;
  for (size_t at = index + 1; at < behind(s->json, index); at = behind(s->json, at)) {
    const char *key = s->json->nodes[at].key;
    if (strncmp(key, path, length) == 0 && key[length] == '\0') descend(s, at, path + length);
  }
}

size_t bt_json_each(const bt_json *json, const char *path, void (*found)(void *context, double value), void *context) {
  search s = {json, found, context, 0};
  if (json->count > 0 && *path != '\0') descend(&s, 0, path);
  return s.count;
}
