/* Another injection library behind ours: BUBBLETOP_NVTX_CHAIN names it, and gets every call as well.
 *
 * It is attached to a shadow of the program's function table. Handles that the program sees are ours, so calls that take
 * one are translated. The modules CUDA, OpenCL and CUDART are passed on as they are; SYNC, whose calls take handles that
 * we do not have, is not.
 */
#ifndef BT_CAPTURE_NVTX_CHAIN_H
#define BT_CAPTURE_NVTX_CHAIN_H

#include <stdbool.h>

#include "capture/nvtx_abi.h"

enum { BT_NVTX_PAYLOAD_SLOTS = 64 };

typedef struct bt_nvtx_chain {
  bool loaded;
  bt_nvtx_initialize initialize;
  int (*initialize_extension)(bt_nvtx_module *module);
  bt_nvtx_function core[BT_NVTX_CORE_SIZE], core2[BT_NVTX_CORE2_SIZE]; /* NULL: it does not want that call */
  intptr_t payload[BT_NVTX_PAYLOAD_SLOTS];
} bt_nvtx_chain;

/* The process's one; all of it NULL when there is no other tool. */
extern bt_nvtx_chain bt_nvtx_chained __attribute__((visibility("hidden")));

/* Loads the library. Once. The reason in `error` when it cannot be loaded. */
void bt_nvtx_chain_load(const char *path, char *error, size_t room);
/* Lets it attach; once for each shared object of the program, one after the other. */
void bt_nvtx_chain_attach(bt_nvtx_get_export get);
void bt_nvtx_chain_attach_extension(const bt_nvtx_module *module);

/* The attributes with the other tool's string handle. */
const bt_nvtx_attributes *bt_nvtx_chain_translate(const bt_nvtx_attributes *attributes, bt_nvtx_attributes *copy);

#endif
