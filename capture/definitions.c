#include "capture/definitions.h"

#include <stdlib.h>
#include <string.h>

#include "formats/wire/encode.h"

void bt_definitions_init(bt_definitions *definitions) {
  memset(definitions, 0, sizeof *definitions);
  pthread_mutex_init(&definitions->lock, NULL);
  bt_layout_init(&definitions->layout);
}

void bt_definitions_free(bt_definitions *definitions) {
  for (size_t i = 0; i < definitions->count; i++)
    free(definitions->items[i].data);
  free(definitions->items);
  pthread_mutex_destroy(&definitions->lock);
}

/* A new last item with a copy of `data`; NULL: no memory. */
static bt_definition *append(bt_definitions *definitions, const void *data, size_t length) {
  if (definitions->count == definitions->capacity) {
    size_t capacity = definitions->capacity == 0 ? 8 : definitions->capacity * 2;
    bt_definition *items = realloc(definitions->items, capacity * sizeof *items);
    if (items == NULL) return NULL;
    definitions->items = items;
    definitions->capacity = capacity;
  }
  uint8_t *copy = malloc(length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, data, length);
  bt_definition *item = &definitions->items[definitions->count++];
  *item = (bt_definition){.data = copy, .length = (uint32_t)length};
  return item;
}

static bool same_group(const bt_definition *item, const bt_event *group, size_t length) {
  return item->code == BT_GROUP && item->domain == group->domain && item->count == group->count &&
         item->own_rank == group->own_rank && item->identity == group->number && item->length == length &&
         memcmp(item->data, group->runs, length) == 0;
}

uint32_t bt_definitions_group(bt_definitions *definitions, const bt_event *group, size_t *index, bool *known) {
  size_t length = group->run_count * sizeof *group->runs;
  uint32_t id = 0;
  *known = false;
  pthread_mutex_lock(&definitions->lock);
  for (size_t i = 0; i < definitions->count && !*known; i++) {
    *known = same_group(&definitions->items[i], group, length);
    if (*known) id = definitions->items[i].id;
  }
  bt_definition *item =
      !*known && definitions->groups < BT_MAX_GROUPS ? append(definitions, group->runs, length) : NULL;
  if (item != NULL) {
    id = ++definitions->groups;
    *index = definitions->count - 1;
    item->code = BT_GROUP;
    item->id = id;
    item->identity = group->number;
    item->domain = group->domain;
    item->own_rank = group->own_rank;
    item->count = group->count;
    item->run_count = group->run_count;
  }
  pthread_mutex_unlock(&definitions->lock);
  return id;
}

static bt_definition *find_key(bt_definitions *definitions, const uint8_t *map, size_t key_length) {
  for (size_t i = 0; i < definitions->count; i++) {
    bt_definition *item = &definitions->items[i];
    if (item->code == BT_META && item->key_length == key_length && memcmp(item->data, map, key_length) == 0)
      return item;
  }
  return NULL;
}

bt_status bt_definitions_meta(bt_definitions *definitions, const uint8_t *map, size_t length, size_t key_length,
                              size_t *index) {
  bt_status status = BT_OK;
  pthread_mutex_lock(&definitions->lock);
  bt_definition *item = find_key(definitions, map, key_length);
  if (item != NULL) {
    uint8_t *copy = malloc(length);
    if (copy != NULL) {
      memcpy(copy, map, length);
      free(item->data);
      item->data = copy;
      item->length = (uint32_t)length;
    } else {
      status = BT_ERR_NOMEM;
    }
  } else if (definitions->keys == BT_MAX_KEYS) {
    status = BT_ERR_LIMIT;
  } else if ((item = append(definitions, map, length)) != NULL) {
    definitions->keys++;
    item->code = BT_META;
    item->key_length = (uint32_t)key_length;
  } else {
    status = BT_ERR_NOMEM;
  }
  if (status == BT_OK) *index = (size_t)(item - definitions->items);
  pthread_mutex_unlock(&definitions->lock);
  return status;
}

static size_t put_string(uint8_t *out, const char *text, size_t length) {
  size_t head = 0;
  if (length < 32) {
    out[head++] = (uint8_t)(0xa0 | length);
  } else {
    out[head++] = 0xda;
    out[head++] = (uint8_t)(length >> 8);
    out[head++] = (uint8_t)length;
  }
  memcpy(out + head, text, length);
  return head + length;
}

size_t bt_meta_encode(uint8_t *map, const char *key, const char *value, size_t *key_length) {
  size_t key_bytes = strlen(key);
  size_t value_bytes = strlen(value);
  if (key_bytes > BT_MAX_TEXT || value_bytes > BT_MAX_META - BT_MAX_TEXT - 8) return 0;
  map[0] = 0x81;
  *key_length = 1 + put_string(map + 1, key, key_bytes);
  return *key_length + put_string(map + *key_length, value, value_bytes);
}

void bt_definitions_text(bt_definitions *definitions, const char *key, const char *value) {
  uint8_t map[BT_MAX_META];
  size_t key_length = 0;
  size_t index = 0;
  size_t length = bt_meta_encode(map, key, value, &key_length);
  if (length != 0 && bt_definitions_meta(definitions, map, length, key_length, &index) == BT_OK)
    bt_definitions_later(definitions, index);
}

static void take(int32_t *into, int32_t value) {
  if (value != -1) *into = value;
}

void bt_definitions_layout(bt_definitions *definitions, const bt_layout *layout) {
  pthread_mutex_lock(&definitions->lock);
  bt_layout *all = &definitions->layout;
  take(&all->pp_rank, layout->pp_rank);
  take(&all->pp_size, layout->pp_size);
  take(&all->tp_rank, layout->tp_rank);
  take(&all->tp_size, layout->tp_size);
  take(&all->dp_rank, layout->dp_rank);
  take(&all->dp_size, layout->dp_size);
  take(&all->cp_rank, layout->cp_rank);
  take(&all->cp_size, layout->cp_size);
  take(&all->ep_rank, layout->ep_rank);
  take(&all->ep_size, layout->ep_size);
  take(&all->chunks, layout->chunks);
  take(&all->microbatches, layout->microbatches);
  take(&all->virtual_stages, layout->virtual_stages);
  take(&all->zero_stage, layout->zero_stage);
  take(&all->w_separable, layout->w_separable);
  for (size_t i = 0; i < BT_MAX_CHUNKS; i++)
    take(&all->vstage[i], layout->vstage[i]);
  if (layout->schedule[0] != '\0') memcpy(all->schedule, layout->schedule, sizeof all->schedule);
  definitions->has_layout = true;
  pthread_mutex_unlock(&definitions->lock);
}

void bt_definitions_later(bt_definitions *definitions, size_t index) {
  pthread_mutex_lock(&definitions->lock);
  if (index == SIZE_MAX)
    definitions->layout_pending = true;
  else
    definitions->items[index].pending = true;
  pthread_mutex_unlock(&definitions->lock);
}

static bt_status add_layout(bt_definitions *definitions, bt_status (*add)(void *, const bt_event *), void *context,
                            int64_t now) {
  uint8_t map[BT_MAX_META];
  size_t length = 0;
  bt_event event;
  bt_event_init(&event, BT_META);
  bt_status status = bt_layout_encode(&definitions->layout, map, sizeof map, &length);
  event.start = now;
  event.text = (const char *)map;
  event.text_length = (uint32_t)length;
  if (status == BT_OK) status = add(context, &event);
  if (status == BT_OK) definitions->layout_pending = false;
  return status;
}

static bt_status add_item(bt_definition *item, bt_status (*add)(void *, const bt_event *), void *context, int64_t now) {
  bt_event event;
  bt_event_init(&event, (bt_code)item->code);
  event.start = now;
  if (item->code == BT_GROUP) {
    event.group = item->id;
    event.number = item->identity;
    event.domain = item->domain;
    event.own_rank = item->own_rank;
    event.count = item->count;
    event.run_count = item->run_count;
    event.runs = (const bt_run_of_ranks *)item->data;
  } else {
    event.text = (const char *)item->data;
    event.text_length = item->length;
  }
  bt_status status = add(context, &event);
  if (status == BT_OK) item->pending = false;
  return status;
}

bt_status bt_definitions_each(bt_definitions *definitions, bool all, size_t *from,
                              bt_status (*add)(void *context, const bt_event *event), void *context, int64_t now) {
  bt_status status = BT_OK;
  pthread_mutex_lock(&definitions->lock);
  if (*from == 0) {
    if (definitions->has_layout && (all || definitions->layout_pending))
      status = add_layout(definitions, add, context, now);
    if (status == BT_OK) (*from)++;
  }
  while (status == BT_OK && *from <= definitions->count) {
    bt_definition *item = &definitions->items[*from - 1];
    if (all || item->pending) status = add_item(item, add, context, now);
    if (status == BT_OK) (*from)++;
  }
  pthread_mutex_unlock(&definitions->lock);
  return status;
}
