#include "tests/capture/nvtx_client.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static nvtx_client *attaching; /* NVTX's functions take no context: there the table is a global of each object */

static int get_table(int module, bt_nvtx_table *table, unsigned *size) {
  bool core = module == BT_NVTX_MODULE_CORE;
  if (!core && module != BT_NVTX_MODULE_CORE2) return 0;
  *table = core ? attaching->core_places : attaching->core2_places;
  *size = core ? BT_NVTX_CORE_SIZE : BT_NVTX_CORE2_SIZE;
  return 1;
}

static const void *get_export(uint32_t id) {
  static const bt_nvtx_callbacks callbacks = {sizeof callbacks, get_table};
  return id == BT_NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

bool nvtx_attach(nvtx_client *client) {
  char path[1024];
  const char *build = getenv("top_builddir");
  snprintf(path, sizeof path, "%s/.libs/libbubbletop-nvtx.so", build != NULL ? build : ".");
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  bt_nvtx_initialize initialize = (bt_nvtx_initialize)dlsym(library, "InitializeInjectionNvtx2");
  int (*extension)(bt_nvtx_module *) = (int (*)(bt_nvtx_module *))dlsym(library, "InitializeInjectionNvtxExtension");
  *client = (nvtx_client){0};
  for (int i = 0; i < BT_NVTX_CORE_SIZE; i++) {
    client->core_places[i] = &client->core[i];
    client->core2_places[i] = &client->core2[i];
  }
  attaching = client;
  bt_nvtx_segment segment = {.slot_count = 63, .slots = client->payload};
  bt_nvtx_module module = {
      .version = 3, .size = sizeof module, .id = BT_NVTX_EXTENSION_PAYLOAD, .segment_count = 1, .segments = &segment};
  return initialize != NULL && extension != NULL && initialize(get_export) == 1 && extension(&module) == 1;
}

int nvtx_push(const nvtx_client *client, const char *text) {
  return ((int (*)(const char *))client->core[BT_NVTX_RANGE_PUSH_A])(text);
}

int nvtx_pop(const nvtx_client *client) {
  return ((int (*)(void))client->core[BT_NVTX_RANGE_POP])();
}

uint64_t nvtx_start(const nvtx_client *client, const char *text) {
  return ((uint64_t(*)(const char *))client->core[BT_NVTX_RANGE_START_A])(text);
}

void nvtx_end(const nvtx_client *client, uint64_t id) {
  ((void (*)(uint64_t))client->core[BT_NVTX_RANGE_END])(id);
}

void nvtx_mark(const nvtx_client *client, const char *text) {
  ((void (*)(const char *))client->core[BT_NVTX_MARK_A])(text);
}

bt_nvtx_domain_handle nvtx_domain(const nvtx_client *client, const char *name) {
  return ((bt_nvtx_domain_handle(*)(const char *))client->core2[BT_NVTX_DOMAIN_CREATE_A])(name);
}

bt_nvtx_string_handle nvtx_string(const nvtx_client *client, bt_nvtx_domain_handle domain, const char *text) {
  return ((bt_nvtx_string_handle(*)(bt_nvtx_domain_handle,
                                    const char *))client->core2[BT_NVTX_DOMAIN_REGISTER_STRING_A])(domain, text);
}

static int push(const nvtx_client *client, bt_nvtx_domain_handle domain, bt_nvtx_attributes *attributes,
                const bt_nvtx_payload *payload) {
  attributes->version = 3;
  attributes->size = sizeof *attributes;
  if (payload != NULL) {
    attributes->payload_type = BT_NVTX_PAYLOAD_EXTENDED;
    attributes->payload_count = 1;
    attributes->payload = (uint64_t)(uintptr_t)payload;
  }
  return ((int (*)(bt_nvtx_domain_handle, const bt_nvtx_attributes *))client->core2[BT_NVTX_DOMAIN_RANGE_PUSH_EX])(
      domain, attributes);
}

int nvtx_domain_push(const nvtx_client *client, bt_nvtx_domain_handle domain, const char *text) {
  bt_nvtx_attributes attributes = {.message_type = BT_NVTX_MESSAGE_ASCII, .message = {.ascii = text}};
  return push(client, domain, &attributes, NULL);
}

int nvtx_domain_push_string(const nvtx_client *client, bt_nvtx_domain_handle domain, bt_nvtx_string_handle string,
                            const bt_nvtx_payload *payload) {
  bt_nvtx_attributes attributes = {.message_type = BT_NVTX_MESSAGE_REGISTERED, .message = {.registered = string}};
  return push(client, domain, &attributes, payload);
}

int nvtx_domain_push_wide(const nvtx_client *client, bt_nvtx_domain_handle domain, const wchar_t *text) {
  bt_nvtx_attributes attributes = {.message_type = BT_NVTX_MESSAGE_UNICODE, .message = {.unicode = text}};
  return push(client, domain, &attributes, NULL);
}

int nvtx_domain_pop(const nvtx_client *client, bt_nvtx_domain_handle domain) {
  return ((int (*)(bt_nvtx_domain_handle))client->core2[BT_NVTX_DOMAIN_RANGE_POP])(domain);
}

int nvtx_domain_pop_payload(const nvtx_client *client, bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload) {
  return ((int (*)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t))client->payload[BT_NVTX_POP_PAYLOAD])(
      domain, payload, 1);
}

uint64_t nvtx_schema(const nvtx_client *client, bt_nvtx_domain_handle domain, uint64_t id, const bt_nvtx_entry *entries,
                     size_t count) {
  bt_nvtx_schema_attributes attributes = {.fields = BT_NVTX_SCHEMA_HAS_ENTRIES | BT_NVTX_SCHEMA_HAS_COUNT,
                                          .entries = entries,
                                          .entry_count = count,
                                          .id = id};
  if (id != 0) attributes.fields |= BT_NVTX_SCHEMA_HAS_ID;
  return (
      (uint64_t(*)(bt_nvtx_domain_handle, const bt_nvtx_schema_attributes *))client->payload[BT_NVTX_SCHEMA_REGISTER])(
      domain, &attributes);
}
