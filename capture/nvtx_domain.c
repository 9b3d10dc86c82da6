#include "capture/nvtx_domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "capture/comm.h"

/* Puts a thing before the others of a list that only grows. */
#define PUSH(head, thing)                                                                                              \
  do {                                                                                                                 \
    (thing)->next = __atomic_load_n(head, __ATOMIC_RELAXED);                                                           \
    while (!__atomic_compare_exchange_n(head, &(thing)->next, thing, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))        \
      continue;                                                                                                        \
  } while (0)

bt_nvtx_domain_handle bt_nvtx_domain_new(bt_nvtx_domain_handle first, const char *name) {
  bt_nvtx_domain_handle domain = calloc(1, sizeof *domain);
  if (domain == NULL) return NULL;
  snprintf(domain->name, sizeof domain->name, "%s", name != NULL ? name : "");
  domain->is_nccl = strcmp(domain->name, "NCCL") == 0;
  PUSH(&first->next, domain);
  return domain;
}

void bt_nvtx_match_in(const bt_nvtx_rules *rules, bt_nvtx_domain_handle domain, const char *text,
                      bt_nvtx_match *match) {
  bt_nvtx_match_text(rules, domain->name, text, match);
  if (!domain->is_nccl || match->what != BT_NVTX_NOTHING) return;
  bubbletop_kind kind = BUBBLETOP_OTHER;
  match->what = BT_NVTX_NCCL;
  match->kind = (uint8_t)bt_comm_function_of(text, &kind);
  match->comm = (uint8_t)kind;
}

bt_nvtx_string_handle bt_nvtx_string_new(const bt_nvtx_rules *rules, bt_nvtx_domain_handle domain, const char *text) {
  bt_nvtx_string_handle string = calloc(1, sizeof *string);
  if (string == NULL) return NULL;
  bt_nvtx_match_in(rules, domain, text != NULL ? text : "", &string->match);
  PUSH(&domain->strings, string);
  return string;
}

static uint8_t size_of(uint64_t type) {
  switch (type) {
  case BT_NVTX_TYPE_INT:
  case BT_NVTX_TYPE_UINT:
  case BT_NVTX_TYPE_INT32:
  case BT_NVTX_TYPE_UINT32: return 4;
  case BT_NVTX_TYPE_LONG:
  case BT_NVTX_TYPE_ULONG:
  case BT_NVTX_TYPE_LONGLONG:
  case BT_NVTX_TYPE_ULONGLONG:
  case BT_NVTX_TYPE_INT64:
  case BT_NVTX_TYPE_UINT64:
  case BT_NVTX_TYPE_SIZE: return 8;
  default: return 0;
  }
}

static const uint64_t not_plain = 1 << 1 | 7 << 4; /* a pointer, an array */

/* NCCL's names of entries, in all versions so far. */
static int field_of(const char *name) {
  if (strcmp(name, "NCCL communicator ID") == 0 || strcmp(name, "communicator ID") == 0) return BT_NVTX_COMMUNICATOR;
  if (strncasecmp(name, "Message size", 12) == 0) return BT_NVTX_BYTES;
  if (strncasecmp(name, "Peer rank", 9) == 0) return BT_NVTX_PEER;
  if (strcasecmp(name, "Rank") == 0) return BT_NVTX_RANK;
  if (strcasecmp(name, "No. of ranks") == 0) return BT_NVTX_RANKS;
  return -1;
}

void bt_nvtx_schema_add(bt_nvtx_domain_handle domain, uint64_t id, const bt_nvtx_schema_attributes *attributes) {
  uint64_t needed = BT_NVTX_SCHEMA_HAS_ENTRIES | BT_NVTX_SCHEMA_HAS_COUNT;
  if ((attributes->fields & needed) != needed || attributes->entries == NULL) return;
  bt_nvtx_schema *schema = calloc(1, sizeof *schema);
  if (schema == NULL) return;
  schema->id = id;
  uint64_t end = 0;
  for (size_t i = 0; i < attributes->entry_count; i++) {
    const bt_nvtx_entry *entry = &attributes->entries[i];
    uint8_t bytes = (entry->flags & not_plain) == 0 ? size_of(entry->type) : 0;
    if (bytes == 0 && entry->offset == 0 && i > 0) break; /* what follows lies we know not where */
    /* an offset of 0 behind the first entry was left out: the natural one */
    uint64_t offset = i > 0 && entry->offset == 0 ? (end + bytes - 1) / bytes * bytes : entry->offset;
    end = offset + bytes;
    int field = entry->name != NULL ? field_of(entry->name) : -1;
    if (field >= 0 && bytes > 0 && end <= UINT16_MAX)
      schema->fields[field] = (bt_nvtx_field){.offset = (uint16_t)offset, .bytes = bytes};
  }
  PUSH(&domain->schemas, schema);
}

void bt_nvtx_payload_read(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload,
                          int64_t values[BT_NVTX_FIELDS]) {
  const bt_nvtx_schema *schema = __atomic_load_n(&domain->schemas, __ATOMIC_ACQUIRE);
  while (schema != NULL && schema->id != payload->schema)
    schema = schema->next;
  if (schema == NULL || payload->bytes == NULL) return;
  for (int i = 0; i < BT_NVTX_FIELDS; i++) {
    const bt_nvtx_field *field = &schema->fields[i];
    const char *from = (const char *)payload->bytes + field->offset;
    if (field->bytes == 0 || payload->size < (size_t)field->offset + field->bytes) continue;
    if (field->bytes == 4) {
      int32_t value;
      memcpy(&value, from, sizeof value);
      values[i] = value;
    } else {
      memcpy(&values[i], from, sizeof values[i]);
    }
  }
}

void bt_nvtx_narrow(char *out, size_t room, const wchar_t *text) {
  size_t used = 0;
  for (; text != NULL && *text != L'\0' && used + 5 < room; text++) {
    uint32_t c = (uint32_t)*text;
    if (c < 0x80) {
      out[used++] = (char)c;
    } else if (c < 0x800) {
      out[used++] = (char)(0xc0 | c >> 6);
      out[used++] = (char)(0x80 | (c & 0x3f));
    } else { /* no rule is about any of these */
      out[used++] = '?';
    }
  }
  out[used] = '\0';
}
