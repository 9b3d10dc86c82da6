#include "capture/nvtx_chain.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "capture/nvtx_domain.h"

bt_nvtx_chain bt_nvtx_chained;

/* What the other tool attaches to while bt_nvtx_chain_attach runs (under the caller's lock). */
static bt_nvtx_get_export real_export;
static bt_nvtx_function *core_places[BT_NVTX_CORE_SIZE + 1];
static bt_nvtx_function *core2_places[BT_NVTX_CORE2_SIZE + 1];

static const bt_nvtx_callbacks *real_callbacks(void) {
  return real_export(BT_NVTX_TABLE_CALLBACKS);
}

static int get_shadow_table(int module, bt_nvtx_table *table, unsigned *size) {
  switch (module) {
  case BT_NVTX_MODULE_CORE:
    if (table != NULL) *table = core_places;
    if (size != NULL) *size = BT_NVTX_CORE_SIZE;
    return 1;
  case BT_NVTX_MODULE_CORE2:
    if (table != NULL) *table = core2_places;
    if (size != NULL) *size = BT_NVTX_CORE2_SIZE;
    return 1;
  case BT_NVTX_MODULES - 1: return 0; /* SYNC */
  default: return real_callbacks()->get_table(module, table, size);
  }
}

static const void *get_shadow_export(uint32_t id) {
  static const bt_nvtx_callbacks shadow = {sizeof shadow, get_shadow_table};
  return id == BT_NVTX_TABLE_CALLBACKS ? &shadow : real_export(id);
}

void bt_nvtx_chain_load(const char *path, char *error, size_t room) {
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    const char *reason = dlerror();
    snprintf(error, room, "%s", reason != NULL ? reason : path);
    return;
  }
  bt_nvtx_chained.initialize = (bt_nvtx_initialize)dlsym(library, "InitializeInjectionNvtx2");
  bt_nvtx_chained.initialize_extension = (int (*)(bt_nvtx_module *))dlsym(library, "InitializeInjectionNvtxExtension");
  bt_nvtx_chained.loaded = bt_nvtx_chained.initialize != NULL;
  if (!bt_nvtx_chained.loaded) snprintf(error, room, "%s is no NVTX injection", path);
  for (int i = 0; i < BT_NVTX_CORE_SIZE; i++)
    core_places[i] = &bt_nvtx_chained.core[i];
  for (int i = 0; i < BT_NVTX_CORE2_SIZE; i++)
    core2_places[i] = &bt_nvtx_chained.core2[i];
}

void bt_nvtx_chain_attach(bt_nvtx_get_export get) {
  if (!bt_nvtx_chained.loaded) return;
  real_export = get;
  bt_nvtx_chained.initialize(get_shadow_export);
}

void bt_nvtx_chain_attach_extension(const bt_nvtx_module *module) {
  if (bt_nvtx_chained.initialize_extension == NULL || module->id != BT_NVTX_EXTENSION_PAYLOAD) return;
  bt_nvtx_segment segment = {.id = 0, .slot_count = BT_NVTX_PAYLOAD_SLOTS - 1, .slots = bt_nvtx_chained.payload};
  bt_nvtx_module shadow = *module;
  shadow.segment_count = 1;
  shadow.segments = &segment;
  bt_nvtx_chained.initialize_extension(&shadow);
}

const bt_nvtx_attributes *bt_nvtx_chain_translate(const bt_nvtx_attributes *attributes, bt_nvtx_attributes *copy) {
  if (attributes == NULL || attributes->message_type != BT_NVTX_MESSAGE_REGISTERED ||
      attributes->message.registered == NULL || attributes->size < sizeof *attributes)
    return attributes;
  *copy = *attributes;
  copy->size = sizeof *copy;
  copy->message.registered = attributes->message.registered->chained;
  return copy;
}
