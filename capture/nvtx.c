/* libbubbletop-nvtx.so, the NVTX injection: NVTX_INJECTION64_PATH names it, and every shared object that uses NVTX calls
 * its two entry points when it makes its first range. */
#include <pthread.h>
#include <stdlib.h>

#include "capture/nvtx_chain.h"
#include "capture/nvtx_range.h"

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(bt_nvtx_get_export get);
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(bt_nvtx_module *module);

static struct {
  pthread_once_t once;
  pthread_mutex_t attaching;
  bool ready;
  const bt_nvtx_rules *rules;
  struct bt_nvtx_domain default_domain;
  char error[256];
  uint64_t next_id; /* atomic: of ranges, while nobody else gives ids */
  uint64_t next_schema; /* atomic */
} injection = {.once = PTHREAD_ONCE_INIT,
               .attaching = PTHREAD_MUTEX_INITIALIZER,
               .next_id = 1,
               .next_schema = BT_NVTX_FIRST_DYNAMIC_SCHEMA};

/* Calls the other tool, if it wants the call. */
#define CHAINED(table, id, type) ((type)bt_nvtx_chained.table[id])

static bt_nvtx_domain_handle known(bt_nvtx_domain_handle domain) {
  return domain != NULL ? domain : &injection.default_domain;
}
static bt_nvtx_domain_handle theirs(bt_nvtx_domain_handle domain) {
  return domain != NULL ? domain->chained : NULL;
}

/* ---- what a range says ---- */

static const bt_nvtx_match *match_of_text(bt_nvtx_domain_handle domain, const char *text) {
  return bt_nvtx_match_cached(domain, text);
}

static const bt_nvtx_match *match_of_wide(bt_nvtx_domain_handle domain, const wchar_t *text) {
  char narrow[256];
  bt_nvtx_narrow(narrow, sizeof narrow, text);
  return bt_nvtx_match_cached(domain, narrow);
}

static const bt_nvtx_match *match_of(bt_nvtx_domain_handle domain, const bt_nvtx_attributes *attributes) {
  int32_t type = attributes != NULL && attributes->size >= sizeof *attributes ? attributes->message_type : 0;
  switch (type) {
  case BT_NVTX_MESSAGE_ASCII: return match_of_text(domain, attributes->message.ascii);
  case BT_NVTX_MESSAGE_UNICODE: return match_of_wide(domain, attributes->message.unicode);
  case BT_NVTX_MESSAGE_REGISTERED:
    if (attributes->message.registered != NULL) return &attributes->message.registered->match;
    break;
  default: break;
  }
  return match_of_text(domain, NULL);
}

static const bt_nvtx_payload *payload_of(const bt_nvtx_attributes *attributes) {
  if (attributes == NULL || attributes->size < sizeof *attributes ||
      attributes->payload_type != BT_NVTX_PAYLOAD_EXTENDED || attributes->payload_count < 1)
    return NULL;
  return (const bt_nvtx_payload *)(uintptr_t)attributes->payload;
}

/* ---- CORE: the default domain ---- */

static int push_a(const char *text) {
  int level = bt_nvtx_push(&injection.default_domain, match_of_text(&injection.default_domain, text), NULL);
  int (*other)(const char *) = CHAINED(core, BT_NVTX_RANGE_PUSH_A, int (*)(const char *));
  return other != NULL ? other(text) : level;
}

static int push_w(const wchar_t *text) {
  int level = bt_nvtx_push(&injection.default_domain, match_of_wide(&injection.default_domain, text), NULL);
  int (*other)(const wchar_t *) = CHAINED(core, BT_NVTX_RANGE_PUSH_W, int (*)(const wchar_t *));
  return other != NULL ? other(text) : level;
}

static int push_ex(const bt_nvtx_attributes *attributes) {
  bt_nvtx_domain_handle domain = &injection.default_domain;
  int level = bt_nvtx_push(domain, match_of(domain, attributes), payload_of(attributes));
  int (*other)(const bt_nvtx_attributes *) = CHAINED(core, BT_NVTX_RANGE_PUSH_EX, int (*)(const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  return other != NULL ? other(bt_nvtx_chain_translate(attributes, &copy)) : level;
}

static int pop(void) {
  int level = bt_nvtx_pop(&injection.default_domain, NULL);
  int (*other)(void) = CHAINED(core, BT_NVTX_RANGE_POP, int (*)(void));
  return other != NULL ? other() : level;
}

static uint64_t new_id(void) {
  return __atomic_fetch_add(&injection.next_id, 1, __ATOMIC_RELAXED);
}

static uint64_t start_a(const char *text) {
  uint64_t (*other)(const char *) = CHAINED(core, BT_NVTX_RANGE_START_A, uint64_t(*)(const char *));
  uint64_t id = other != NULL ? other(text) : new_id();
  return bt_nvtx_start(&injection.default_domain, match_of_text(&injection.default_domain, text), NULL, id);
}

static uint64_t start_w(const wchar_t *text) {
  uint64_t (*other)(const wchar_t *) = CHAINED(core, BT_NVTX_RANGE_START_W, uint64_t(*)(const wchar_t *));
  uint64_t id = other != NULL ? other(text) : new_id();
  return bt_nvtx_start(&injection.default_domain, match_of_wide(&injection.default_domain, text), NULL, id);
}

static uint64_t start_ex(const bt_nvtx_attributes *attributes) {
  bt_nvtx_domain_handle domain = &injection.default_domain;
  uint64_t (*other)(const bt_nvtx_attributes *) =
      CHAINED(core, BT_NVTX_RANGE_START_EX, uint64_t(*)(const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  uint64_t id = other != NULL ? other(bt_nvtx_chain_translate(attributes, &copy)) : new_id();
  return bt_nvtx_start(domain, match_of(domain, attributes), payload_of(attributes), id);
}

static void end(uint64_t id) {
  uint64_t chained = bt_nvtx_end(id);
  void (*other)(uint64_t) = CHAINED(core, BT_NVTX_RANGE_END, void (*)(uint64_t));
  if (other != NULL) other(chained);
}

static void mark_a(const char *text) {
  bt_nvtx_mark(match_of_text(&injection.default_domain, text));
  void (*other)(const char *) = CHAINED(core, BT_NVTX_MARK_A, void (*)(const char *));
  if (other != NULL) other(text);
}

static void mark_ex(const bt_nvtx_attributes *attributes) {
  bt_nvtx_mark(match_of(&injection.default_domain, attributes));
  void (*other)(const bt_nvtx_attributes *) = CHAINED(core, BT_NVTX_MARK_EX, void (*)(const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  if (other != NULL) other(bt_nvtx_chain_translate(attributes, &copy));
}

/* ---- CORE2: named domains ---- */

static int domain_push(bt_nvtx_domain_handle domain, const bt_nvtx_attributes *attributes) {
  bt_nvtx_domain_handle own = known(domain);
  int level = bt_nvtx_push(own, match_of(own, attributes), payload_of(attributes));
  int (*other)(bt_nvtx_domain_handle, const bt_nvtx_attributes *) =
      CHAINED(core2, BT_NVTX_DOMAIN_RANGE_PUSH_EX, int (*)(bt_nvtx_domain_handle, const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  return other != NULL ? other(theirs(domain), bt_nvtx_chain_translate(attributes, &copy)) : level;
}

static int domain_pop(bt_nvtx_domain_handle domain) {
  int level = bt_nvtx_pop(known(domain), NULL);
  int (*other)(bt_nvtx_domain_handle) = CHAINED(core2, BT_NVTX_DOMAIN_RANGE_POP, int (*)(bt_nvtx_domain_handle));
  return other != NULL ? other(theirs(domain)) : level;
}

static uint64_t domain_start(bt_nvtx_domain_handle domain, const bt_nvtx_attributes *attributes) {
  bt_nvtx_domain_handle own = known(domain);
  uint64_t (*other)(bt_nvtx_domain_handle, const bt_nvtx_attributes *) =
      CHAINED(core2, BT_NVTX_DOMAIN_RANGE_START_EX, uint64_t(*)(bt_nvtx_domain_handle, const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  uint64_t id = other != NULL ? other(theirs(domain), bt_nvtx_chain_translate(attributes, &copy)) : new_id();
  return bt_nvtx_start(own, match_of(own, attributes), payload_of(attributes), id);
}

static void domain_end(bt_nvtx_domain_handle domain, uint64_t id) {
  uint64_t chained = bt_nvtx_end(id);
  void (*other)(bt_nvtx_domain_handle, uint64_t) =
      CHAINED(core2, BT_NVTX_DOMAIN_RANGE_END, void (*)(bt_nvtx_domain_handle, uint64_t));
  if (other != NULL) other(theirs(domain), chained);
}

static void domain_mark(bt_nvtx_domain_handle domain, const bt_nvtx_attributes *attributes) {
  bt_nvtx_mark(match_of(known(domain), attributes));
  void (*other)(bt_nvtx_domain_handle, const bt_nvtx_attributes *) =
      CHAINED(core2, BT_NVTX_DOMAIN_MARK_EX, void (*)(bt_nvtx_domain_handle, const bt_nvtx_attributes *));
  bt_nvtx_attributes copy;
  if (other != NULL) other(theirs(domain), bt_nvtx_chain_translate(attributes, &copy));
}

static bt_nvtx_domain_handle domain_create_a(const char *name) {
  bt_nvtx_domain_handle domain = bt_nvtx_domain_new(&injection.default_domain, name);
  bt_nvtx_domain_handle (*other)(const char *) =
      CHAINED(core2, BT_NVTX_DOMAIN_CREATE_A, bt_nvtx_domain_handle(*)(const char *));
  if (domain != NULL && other != NULL) domain->chained = other(name);
  return domain;
}

static bt_nvtx_domain_handle domain_create_w(const wchar_t *name) {
  char narrow[sizeof injection.default_domain.name];
  bt_nvtx_narrow(narrow, sizeof narrow, name);
  return domain_create_a(narrow);
}

static void domain_destroy(bt_nvtx_domain_handle domain) {
  void (*other)(bt_nvtx_domain_handle) = CHAINED(core2, BT_NVTX_DOMAIN_DESTROY, void (*)(bt_nvtx_domain_handle));
  if (other != NULL && domain != NULL) other(domain->chained);
}

static bt_nvtx_string_handle register_a(bt_nvtx_domain_handle domain, const char *text) {
  bt_nvtx_string_handle string = bt_nvtx_string_new(injection.rules, known(domain), text);
  bt_nvtx_string_handle (*other)(bt_nvtx_domain_handle, const char *) =
      CHAINED(core2, BT_NVTX_DOMAIN_REGISTER_STRING_A, bt_nvtx_string_handle(*)(bt_nvtx_domain_handle, const char *));
  if (string != NULL && other != NULL) string->chained = other(theirs(domain), text);
  return string;
}

static bt_nvtx_string_handle register_w(bt_nvtx_domain_handle domain, const wchar_t *text) {
  char narrow[256];
  bt_nvtx_narrow(narrow, sizeof narrow, text);
  return register_a(domain, narrow);
}

/* Nothing of ours, but the handle is. */
static void *resource_create(bt_nvtx_domain_handle domain, void *attributes) {
  void *(*other)(bt_nvtx_domain_handle, void *) =
      CHAINED(core2, BT_NVTX_DOMAIN_RESOURCE_CREATE, void *(*)(bt_nvtx_domain_handle, void *));
  return other != NULL ? other(theirs(domain), attributes) : NULL;
}

static void name_category_a(bt_nvtx_domain_handle domain, uint32_t category, const char *name) {
  void (*other)(bt_nvtx_domain_handle, uint32_t, const char *) =
      CHAINED(core2, BT_NVTX_DOMAIN_NAME_CATEGORY_A, void (*)(bt_nvtx_domain_handle, uint32_t, const char *));
  if (other != NULL) other(theirs(domain), category, name);
}

static void name_category_w(bt_nvtx_domain_handle domain, uint32_t category, const wchar_t *name) {
  void (*other)(bt_nvtx_domain_handle, uint32_t, const wchar_t *) =
      CHAINED(core2, BT_NVTX_DOMAIN_NAME_CATEGORY_W, void (*)(bt_nvtx_domain_handle, uint32_t, const wchar_t *));
  if (other != NULL) other(theirs(domain), category, name);
}

/* ---- payloads ---- */

static uint64_t schema_register(bt_nvtx_domain_handle domain, const bt_nvtx_schema_attributes *attributes) {
  uint64_t (*other)(bt_nvtx_domain_handle, const bt_nvtx_schema_attributes *) =
      CHAINED(payload, BT_NVTX_SCHEMA_REGISTER, uint64_t(*)(bt_nvtx_domain_handle, const bt_nvtx_schema_attributes *));
  uint64_t id = other != NULL ? other(theirs(domain), attributes) : 0;
  if (attributes == NULL) return id;
  if (id == 0) {
    bool has_id = (attributes->fields & BT_NVTX_SCHEMA_HAS_ID) != 0 && attributes->id != 0;
    id = has_id ? attributes->id : __atomic_fetch_add(&injection.next_schema, 1, __ATOMIC_RELAXED);
  }
  bt_nvtx_schema_add(known(domain), id, attributes);
  return id;
}

static uint64_t enum_register(bt_nvtx_domain_handle domain, const void *attributes) {
  uint64_t (*other)(bt_nvtx_domain_handle, const void *) =
      CHAINED(payload, BT_NVTX_ENUM_REGISTER, uint64_t(*)(bt_nvtx_domain_handle, const void *));
  uint64_t id = other != NULL ? other(theirs(domain), attributes) : 0;
  return id != 0 ? id : __atomic_fetch_add(&injection.next_schema, 1, __ATOMIC_RELAXED);
}

/* Ranges whose name lies in the payload: no rule is about them, but they nest. */
static int push_payload(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload, size_t count) {
  int level = bt_nvtx_push(known(domain), match_of_text(known(domain), NULL), count > 0 ? payload : NULL);
  int (*other)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t) =
      CHAINED(payload, BT_NVTX_PUSH_PAYLOAD, int (*)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t));
  return other != NULL ? other(theirs(domain), payload, count) : level;
}

static int pop_payload(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload, size_t count) {
  int level = bt_nvtx_pop(known(domain), count > 0 ? payload : NULL);
  int (*other)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t) =
      CHAINED(payload, BT_NVTX_POP_PAYLOAD, int (*)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t));
  return other != NULL ? other(theirs(domain), payload, count) : level;
}

static void mark_payload(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload, size_t count) {
  void (*other)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t) =
      CHAINED(payload, BT_NVTX_MARK_PAYLOAD, void (*)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t));
  if (other != NULL) other(theirs(domain), payload, count);
}

static uint64_t start_payload(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload, size_t count) {
  uint64_t (*other)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t) =
      CHAINED(payload, BT_NVTX_START_PAYLOAD, uint64_t(*)(bt_nvtx_domain_handle, const bt_nvtx_payload *, size_t));
  return other != NULL ? other(theirs(domain), payload, count) : new_id();
}

static void end_payload(bt_nvtx_domain_handle domain, uint64_t id, const bt_nvtx_payload *payload, size_t count) {
  uint64_t chained = bt_nvtx_end(id);
  void (*other)(bt_nvtx_domain_handle, uint64_t, const bt_nvtx_payload *, size_t) =
      CHAINED(payload, BT_NVTX_END_PAYLOAD, void (*)(bt_nvtx_domain_handle, uint64_t, const bt_nvtx_payload *, size_t));
  if (other != NULL) other(theirs(domain), chained, payload, count);
}

static uint8_t domain_is_enabled(bt_nvtx_domain_handle domain) {
  (void)domain;
  return 1;
}

/* ---- attaching ---- */

static void forked(void) {
  pthread_mutex_init(&injection.attaching, NULL);
}

static void prepare(void) {
  const char *chain = getenv("BUBBLETOP_NVTX_CHAIN");
  injection.rules = bt_nvtx_rules_read(getenv("BUBBLETOP_NVTX_RULES"), injection.error, sizeof injection.error);
  if (chain != NULL && chain[0] != '\0') bt_nvtx_chain_load(chain, injection.error, sizeof injection.error);
  injection.ready = bt_nvtx_ranges_prepare(injection.rules, injection.error) && pthread_atfork(NULL, NULL, forked) == 0;
}

static bool is_ready(void) {
  pthread_once(&injection.once, prepare);
  return injection.ready;
}

#define FUNCTION(function) ((bt_nvtx_function)(function))

static const bt_nvtx_function core[BT_NVTX_CORE_SIZE] = {
    [BT_NVTX_MARK_EX] = FUNCTION(mark_ex),         [BT_NVTX_MARK_A] = FUNCTION(mark_a),
    [BT_NVTX_RANGE_START_EX] = FUNCTION(start_ex), [BT_NVTX_RANGE_START_A] = FUNCTION(start_a),
    [BT_NVTX_RANGE_START_W] = FUNCTION(start_w),   [BT_NVTX_RANGE_END] = FUNCTION(end),
    [BT_NVTX_RANGE_PUSH_EX] = FUNCTION(push_ex),   [BT_NVTX_RANGE_PUSH_A] = FUNCTION(push_a),
    [BT_NVTX_RANGE_PUSH_W] = FUNCTION(push_w),     [BT_NVTX_RANGE_POP] = FUNCTION(pop),
};

static const bt_nvtx_function core2[BT_NVTX_CORE2_SIZE] = {
    [BT_NVTX_DOMAIN_MARK_EX] = FUNCTION(domain_mark),
    [BT_NVTX_DOMAIN_RANGE_START_EX] = FUNCTION(domain_start),
    [BT_NVTX_DOMAIN_RANGE_END] = FUNCTION(domain_end),
    [BT_NVTX_DOMAIN_RANGE_PUSH_EX] = FUNCTION(domain_push),
    [BT_NVTX_DOMAIN_RANGE_POP] = FUNCTION(domain_pop),
    [BT_NVTX_DOMAIN_RESOURCE_CREATE] = FUNCTION(resource_create),
    [BT_NVTX_DOMAIN_NAME_CATEGORY_A] = FUNCTION(name_category_a),
    [BT_NVTX_DOMAIN_NAME_CATEGORY_W] = FUNCTION(name_category_w),
    [BT_NVTX_DOMAIN_REGISTER_STRING_A] = FUNCTION(register_a),
    [BT_NVTX_DOMAIN_REGISTER_STRING_W] = FUNCTION(register_w),
    [BT_NVTX_DOMAIN_CREATE_A] = FUNCTION(domain_create_a),
    [BT_NVTX_DOMAIN_CREATE_W] = FUNCTION(domain_create_w),
    [BT_NVTX_DOMAIN_DESTROY] = FUNCTION(domain_destroy),
};

/* Our functions, and the other tool's where we have none. */
static void fill(const bt_nvtx_callbacks *callbacks, int module, const bt_nvtx_function *functions,
                 const bt_nvtx_function *others, unsigned count) {
  bt_nvtx_table table = NULL;
  unsigned size = 0;
  if (!callbacks->get_table(module, &table, &size) || table == NULL) return;
  /* some versions tell the size in entries, some in bytes; no table is smaller than the first version's */
  for (unsigned i = 1; i < count && i < size; i++) {
    bt_nvtx_function function = functions[i] != NULL ? functions[i] : others[i];
    if (function != NULL && table[i] != NULL) *table[i] = function;
  }
}

int InitializeInjectionNvtx2(bt_nvtx_get_export get) {
  const bt_nvtx_callbacks *callbacks = get(BT_NVTX_TABLE_CALLBACKS);
  if (callbacks == NULL || callbacks->size < sizeof *callbacks || !is_ready()) return 0;
  pthread_mutex_lock(&injection.attaching);
  bt_nvtx_chain_attach(get);
  fill(callbacks, BT_NVTX_MODULE_CORE, core, bt_nvtx_chained.core, BT_NVTX_CORE_SIZE);
  fill(callbacks, BT_NVTX_MODULE_CORE2, core2, bt_nvtx_chained.core2, BT_NVTX_CORE2_SIZE);
  pthread_mutex_unlock(&injection.attaching);
  return 1;
}

int InitializeInjectionNvtxExtension(bt_nvtx_module *module) {
  static const bt_nvtx_function functions[] = {
      [BT_NVTX_SCHEMA_REGISTER] = FUNCTION(schema_register), [BT_NVTX_ENUM_REGISTER] = FUNCTION(enum_register),
      [BT_NVTX_MARK_PAYLOAD] = FUNCTION(mark_payload),       [BT_NVTX_PUSH_PAYLOAD] = FUNCTION(push_payload),
      [BT_NVTX_POP_PAYLOAD] = FUNCTION(pop_payload),         [BT_NVTX_START_PAYLOAD] = FUNCTION(start_payload),
      [BT_NVTX_END_PAYLOAD] = FUNCTION(end_payload),         [BT_NVTX_DOMAIN_IS_ENABLED] = FUNCTION(domain_is_enabled),
  };
  if (module == NULL || !is_ready()) return 0;
  if (module->id != BT_NVTX_EXTENSION_PAYLOAD || module->segment_count < 1) return 1;
  pthread_mutex_lock(&injection.attaching);
  bt_nvtx_chain_attach_extension(module);
  const bt_nvtx_segment *segment = &module->segments[0];
  for (size_t i = 0; i < sizeof functions / sizeof *functions && i < segment->slot_count; i++)
    segment->slots[i] = (intptr_t)functions[i];
  pthread_mutex_unlock(&injection.attaching);
  return 1;
}
