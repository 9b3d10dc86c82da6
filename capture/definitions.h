/* What a stream says about itself while it runs: groups, layout, meta. Each goes through the caller's ring like any
 * record (so it survives a kill), and is kept here so that every later segment can begin with it.
 * Safe from any thread.
 */
#ifndef BT_CAPTURE_DEFINITIONS_H
#define BT_CAPTURE_DEFINITIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "formats/wire/status.h"

enum { BT_MAX_GROUPS = 65535, BT_MAX_KEYS = 1024 };

typedef struct bt_definition {
  uint8_t code; /* BT_GROUP or BT_META */
  uint8_t domain;
  int32_t own_rank, count;
  uint32_t id; /* groups */
  uint64_t identity; /* groups whose members are not known */
  uint32_t run_count;
  uint32_t length; /* bytes of data */
  uint32_t key_length; /* BT_META of one key: where its value begins */
  bool pending; /* could not go through a ring: the writer writes it */
  uint8_t *data; /* owned: bt_run_of_ranks entries or a msgpack map */
} bt_definition;

typedef struct bt_definitions {
  pthread_mutex_t lock;
  bt_layout layout; /* all that was set, the last wins */
  bool layout_pending, has_layout;
  bt_definition *items; /* owned */
  size_t count, capacity;
  uint32_t groups; /* ids given */
  uint32_t keys;
} bt_definitions;

void bt_definitions_init(bt_definitions *definitions);
void bt_definitions_free(bt_definitions *definitions);

/* The group's id: an equal group has the same id as before (`known`). 0: no memory, or too many groups. `index` tells
 * which definition it is. */
uint32_t bt_definitions_group(bt_definitions *definitions, const bt_event *group, size_t *index, bool *known);

/* Remembers `map`, a msgpack map of one key whose value begins at key_length; replaces the value of an equal key. */
bt_status bt_definitions_meta(bt_definitions *definitions, const uint8_t *map, size_t length, size_t key_length,
                              size_t *index);

/* Encodes {key: value} into `map` (BT_MAX_META bytes); returns its length, 0 when it does not fit. */
size_t bt_meta_encode(uint8_t *map, const char *key, const char *value, size_t *key_length);

/* A meta text of the library's own, for the writer to write. */
void bt_definitions_text(bt_definitions *definitions, const char *key, const char *value);

/* Lays the known fields of `layout` over what was set before. */
void bt_definitions_layout(bt_definitions *definitions, const bt_layout *layout);

/* The ring had no room for the record: the writer is to write it. SIZE_MAX: the layout. */
void bt_definitions_later(bt_definitions *definitions, size_t index);

/* Calls `add` for definition number `from` and those after it, all or the pending ones, until it returns other than
 * BT_OK; number 0 is the layout. `from` moves behind the last that was added, which is then no longer pending.
 * BT_OK: all are done. */
bt_status bt_definitions_each(bt_definitions *definitions, bool all, size_t *from,
                              bt_status (*add)(void *context, const bt_event *event), void *context, int64_t now);

#endif
