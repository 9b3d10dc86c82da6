/* What NVTX's headers put into every shared object that uses them: a table of functions that an injection fills. Made
 * anew, so that the tests need no NVTX; tests/capture/nvtx_program.c uses the real headers where they are installed.
 */
#ifndef BT_TESTS_NVTX_CLIENT_H
#define BT_TESTS_NVTX_CLIENT_H

#include <stdbool.h>

#include "capture/nvtx_abi.h"

typedef struct nvtx_client {
  bt_nvtx_function core[BT_NVTX_CORE_SIZE], core2[BT_NVTX_CORE2_SIZE];
  bt_nvtx_function *core_places[BT_NVTX_CORE_SIZE + 1], *core2_places[BT_NVTX_CORE2_SIZE + 1];
  intptr_t payload[64];
} nvtx_client;

/* Loads the injection and lets it attach to the client, as a shared object's first range does; false: it does not. */
bool nvtx_attach(nvtx_client *client);

int nvtx_push(const nvtx_client *client, const char *text);
int nvtx_pop(const nvtx_client *client);
uint64_t nvtx_start(const nvtx_client *client, const char *text);
void nvtx_end(const nvtx_client *client, uint64_t id);
void nvtx_mark(const nvtx_client *client, const char *text);
bt_nvtx_domain_handle nvtx_domain(const nvtx_client *client, const char *name);
bt_nvtx_string_handle nvtx_string(const nvtx_client *client, bt_nvtx_domain_handle domain, const char *text);
int nvtx_domain_push(const nvtx_client *client, bt_nvtx_domain_handle domain, const char *text);
int nvtx_domain_push_string(const nvtx_client *client, bt_nvtx_domain_handle domain, bt_nvtx_string_handle string,
                            const bt_nvtx_payload *payload);
int nvtx_domain_push_wide(const nvtx_client *client, bt_nvtx_domain_handle domain, const wchar_t *text);
int nvtx_domain_pop(const nvtx_client *client, bt_nvtx_domain_handle domain);
int nvtx_domain_pop_payload(const nvtx_client *client, bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload);
uint64_t nvtx_schema(const nvtx_client *client, bt_nvtx_domain_handle domain, uint64_t id, const bt_nvtx_entry *entries,
                     size_t count);

#endif
