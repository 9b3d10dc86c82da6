/* What programs register with NVTX: domains, strings, payload schemas. Registered things live as long as the process, as
 * NVTX has it. Any thread.
 */
#ifndef BT_CAPTURE_NVTX_DOMAIN_H
#define BT_CAPTURE_NVTX_DOMAIN_H

#include "capture/nvtx_abi.h"
#include "capture/nvtx_rules.h"

/* What a schema's entries say that concerns us: where a number lies in the payload. */
typedef struct bt_nvtx_field {
  uint16_t offset;
  uint8_t bytes; /* 0: there is no such entry */
} bt_nvtx_field;

typedef enum bt_nvtx_field_name {
  BT_NVTX_COMMUNICATOR,
  BT_NVTX_BYTES,
  BT_NVTX_PEER,
  BT_NVTX_RANK,
  BT_NVTX_RANKS,
  BT_NVTX_FIELDS
} bt_nvtx_field_name;

typedef struct bt_nvtx_schema {
  uint64_t id;
  bt_nvtx_field fields[BT_NVTX_FIELDS];
  struct bt_nvtx_schema *next;
} bt_nvtx_schema;

struct bt_nvtx_domain {
  char name[64];
  bool is_nccl;
  bt_nvtx_schema *schemas; /* atomic heads of lists that only grow */
  bt_nvtx_string_handle strings; /* nobody reads it: it holds what programs may let go, so that it is no leak */
  bt_nvtx_domain_handle next; /* of the default domain: all others, for the same reason */
  bt_nvtx_domain_handle chained; /* the other tool's */
};

struct bt_nvtx_string {
  bt_nvtx_match match;
  bt_nvtx_string_handle next, chained;
};

/* NULL: no memory. The new domain is kept on the list of `first`. */
bt_nvtx_domain_handle bt_nvtx_domain_new(bt_nvtx_domain_handle first, const char *name);
bt_nvtx_string_handle bt_nvtx_string_new(const bt_nvtx_rules *rules, bt_nvtx_domain_handle domain, const char *text);

/* What a text means in a domain. */
void bt_nvtx_match_in(const bt_nvtx_rules *rules, bt_nvtx_domain_handle domain, const char *text, bt_nvtx_match *match);

/* Remembers a schema under `id`. */
void bt_nvtx_schema_add(bt_nvtx_domain_handle domain, uint64_t id, const bt_nvtx_schema_attributes *attributes);

/* Reads the numbers of a payload that its schema names; those that are missing stay as they are. */
void bt_nvtx_payload_read(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload, int64_t values[BT_NVTX_FIELDS]);

/* Wide text as UTF-8, cut to `room`. */
void bt_nvtx_narrow(char *out, size_t room, const wchar_t *text);

#endif
