/* An injection library of somebody else, for the tests of chaining: counts calls and answers with numbers of its own. */
#include "capture/nvtx_abi.h"

int InitializeInjectionNvtx2(bt_nvtx_get_export get);
int InitializeInjectionNvtxExtension(bt_nvtx_module *module);

int probe_seen;

static int own_domain, own_string; /* their addresses are the handles */

static int push(const char *text) {
  (void)text;
  probe_seen++;
  return 100;
}
static int pop(void) {
  probe_seen++;
  return 100;
}
static uint64_t start(const char *text) {
  (void)text;
  probe_seen++;
  return 4711;
}
static void end(uint64_t id) {
  probe_seen += id == 4711;
}
static void *create(const char *name) {
  (void)name;
  return &own_domain;
}
static void *register_string(void *domain, const char *text) {
  (void)text;
  return domain == &own_domain ? &own_string : NULL;
}
static int domain_push(void *domain, const bt_nvtx_attributes *attributes) {
  probe_seen++;
  return domain == &own_domain && (void *)attributes->message.registered == &own_string ? 200 : -1;
}
static int domain_pop(void *domain) {
  probe_seen++;
  return domain == &own_domain ? 200 : -1;
}
static uint64_t schema(void *domain, const void *attributes) {
  (void)attributes;
  return domain == &own_domain ? 77 : 0;
}

int InitializeInjectionNvtx2(bt_nvtx_get_export get) {
  const bt_nvtx_callbacks *callbacks = get(BT_NVTX_TABLE_CALLBACKS);
  bt_nvtx_table table;
  unsigned size;
  callbacks->get_table(BT_NVTX_MODULE_CORE, &table, &size);
  *table[BT_NVTX_RANGE_PUSH_A] = (bt_nvtx_function)push;
  *table[BT_NVTX_RANGE_POP] = (bt_nvtx_function)pop;
  *table[BT_NVTX_RANGE_START_A] = (bt_nvtx_function)start;
  *table[BT_NVTX_RANGE_END] = (bt_nvtx_function)end;
  callbacks->get_table(BT_NVTX_MODULE_CORE2, &table, &size);
  *table[BT_NVTX_DOMAIN_CREATE_A] = (bt_nvtx_function)create;
  *table[BT_NVTX_DOMAIN_REGISTER_STRING_A] = (bt_nvtx_function)register_string;
  *table[BT_NVTX_DOMAIN_RANGE_PUSH_EX] = (bt_nvtx_function)domain_push;
  *table[BT_NVTX_DOMAIN_RANGE_POP] = (bt_nvtx_function)domain_pop;
  return 1;
}

int InitializeInjectionNvtxExtension(bt_nvtx_module *module) {
  module->segments[0].slots[BT_NVTX_SCHEMA_REGISTER] = (intptr_t)schema;
  return 1;
}
