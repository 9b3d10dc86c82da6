/* The part of NVTX 3's binary interface that an injection library meets, declared anew so that no NVTX headers are
 * needed. tests/capture/check_nvtx_abi.c compares it with NVIDIA's headers where they are installed.
 *
 * Every shared object that uses NVTX has its own copy of NVTX's state, so the entry points are called once for each.
 */
#ifndef BT_CAPTURE_NVTX_ABI_H
#define BT_CAPTURE_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef struct bt_nvtx_domain *bt_nvtx_domain_handle; /* opaque to the program: ours */
typedef struct bt_nvtx_string *bt_nvtx_string_handle;

enum { BT_NVTX_MESSAGE_ASCII = 1, BT_NVTX_MESSAGE_UNICODE = 2, BT_NVTX_MESSAGE_REGISTERED = 3 };
enum { BT_NVTX_NO_PUSH_POP = -2 };
#define BT_NVTX_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009u)

typedef union bt_nvtx_message {
  const char *ascii;
  const wchar_t *unicode;
  bt_nvtx_string_handle registered;
} bt_nvtx_message;

typedef struct bt_nvtx_attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t payload_count; /* of extended payloads */
  uint64_t payload; /* extended: the address of a bt_nvtx_payload */
  int32_t message_type;
  bt_nvtx_message message;
} bt_nvtx_attributes;
_Static_assert(sizeof(bt_nvtx_attributes) == 48 && offsetof(bt_nvtx_attributes, payload) == 24 &&
                   offsetof(bt_nvtx_attributes, message) == 40,
               "nvtxEventAttributes_t");

/* ---- attaching: InitializeInjectionNvtx2(get_export_table) ---- */

enum { BT_NVTX_TABLE_CALLBACKS = 1 };
enum { BT_NVTX_MODULE_CORE = 1, BT_NVTX_MODULE_CORE2 = 5, BT_NVTX_MODULES = 7 };

typedef enum bt_nvtx_core {
  BT_NVTX_MARK_EX = 1,
  BT_NVTX_MARK_A,
  BT_NVTX_MARK_W,
  BT_NVTX_RANGE_START_EX,
  BT_NVTX_RANGE_START_A,
  BT_NVTX_RANGE_START_W,
  BT_NVTX_RANGE_END,
  BT_NVTX_RANGE_PUSH_EX,
  BT_NVTX_RANGE_PUSH_A,
  BT_NVTX_RANGE_PUSH_W,
  BT_NVTX_RANGE_POP,
  BT_NVTX_CORE_SIZE = 16
} bt_nvtx_core;

typedef enum bt_nvtx_core2 {
  BT_NVTX_DOMAIN_MARK_EX = 1,
  BT_NVTX_DOMAIN_RANGE_START_EX,
  BT_NVTX_DOMAIN_RANGE_END,
  BT_NVTX_DOMAIN_RANGE_PUSH_EX,
  BT_NVTX_DOMAIN_RANGE_POP,
  BT_NVTX_DOMAIN_RESOURCE_CREATE,
  BT_NVTX_DOMAIN_RESOURCE_DESTROY,
  BT_NVTX_DOMAIN_NAME_CATEGORY_A,
  BT_NVTX_DOMAIN_NAME_CATEGORY_W,
  BT_NVTX_DOMAIN_REGISTER_STRING_A,
  BT_NVTX_DOMAIN_REGISTER_STRING_W,
  BT_NVTX_DOMAIN_CREATE_A,
  BT_NVTX_DOMAIN_CREATE_W,
  BT_NVTX_DOMAIN_DESTROY,
  BT_NVTX_INITIALIZE,
  BT_NVTX_CORE2_SIZE = 16
} bt_nvtx_core2;

typedef void (*bt_nvtx_function)(void);
typedef bt_nvtx_function **bt_nvtx_table; /* of pointers to where a function's address is to be put */

typedef struct bt_nvtx_callbacks {
  size_t size;
  int (*get_table)(int module, bt_nvtx_table *table, unsigned *size);
} bt_nvtx_callbacks;

typedef const void *(*bt_nvtx_get_export)(uint32_t id);
typedef int (*bt_nvtx_initialize)(bt_nvtx_get_export get);

/* ---- the extension for payloads: InitializeInjectionNvtxExtension(module) ---- */

enum { BT_NVTX_EXTENSION_PAYLOAD = 2 };

typedef enum bt_nvtx_payload_slot {
  BT_NVTX_SCHEMA_REGISTER = 0,
  BT_NVTX_ENUM_REGISTER = 1,
  BT_NVTX_MARK_PAYLOAD = 2,
  BT_NVTX_PUSH_PAYLOAD = 3,
  BT_NVTX_POP_PAYLOAD = 4,
  BT_NVTX_START_PAYLOAD = 5,
  BT_NVTX_END_PAYLOAD = 6,
  BT_NVTX_DOMAIN_IS_ENABLED = 7
} bt_nvtx_payload_slot;

typedef struct bt_nvtx_segment {
  size_t id, slot_count;
  intptr_t *slots; /* 0: not set */
} bt_nvtx_segment;

typedef struct bt_nvtx_module {
  uint16_t version, size, id, compatible;
  size_t segment_count;
  bt_nvtx_segment *segments;
  intptr_t (*get_export)(uint32_t id);
  const void *info;
} bt_nvtx_module;
_Static_assert(sizeof(bt_nvtx_module) == 40, "nvtxExtModuleInfo_t");

typedef struct bt_nvtx_payload {
  uint64_t schema;
  size_t size; /* SIZE_MAX: as the schema says */
  const void *bytes;
} bt_nvtx_payload;
_Static_assert(sizeof(bt_nvtx_payload) == 24, "nvtxPayloadData_t");

typedef struct bt_nvtx_entry {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t detail, offset;
  const void *semantics, *reserved;
} bt_nvtx_entry;
_Static_assert(sizeof(bt_nvtx_entry) == 64, "nvtxPayloadSchemaEntry_t");

enum { BT_NVTX_SCHEMA_HAS_ENTRIES = 1 << 4, BT_NVTX_SCHEMA_HAS_COUNT = 1 << 5, BT_NVTX_SCHEMA_HAS_ID = 1 << 8 };
#define BT_NVTX_FIRST_DYNAMIC_SCHEMA (UINT64_C(1) << 32)

typedef struct bt_nvtx_schema_attributes {
  uint64_t fields;
  const char *name;
  uint64_t type, flags;
  const bt_nvtx_entry *entries;
  size_t entry_count, static_size, alignment;
  uint64_t id;
  void *extension;
} bt_nvtx_schema_attributes;
_Static_assert(sizeof(bt_nvtx_schema_attributes) == 80, "nvtxPayloadSchemaAttr_t");

/* Types of entries that stand for an integer. */
enum {
  BT_NVTX_TYPE_INT = 5,
  BT_NVTX_TYPE_UINT = 6,
  BT_NVTX_TYPE_LONG = 7,
  BT_NVTX_TYPE_ULONG = 8,
  BT_NVTX_TYPE_LONGLONG = 9,
  BT_NVTX_TYPE_ULONGLONG = 10,
  BT_NVTX_TYPE_INT32 = 15,
  BT_NVTX_TYPE_UINT32 = 16,
  BT_NVTX_TYPE_INT64 = 17,
  BT_NVTX_TYPE_UINT64 = 18,
  BT_NVTX_TYPE_SIZE = 22
};

#endif
