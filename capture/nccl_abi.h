/* NCCL's profiler plugin interface, versions 4 and 5, declared anew: what a plugin is told, and the table that it exports.
 * Version 6 has the same layout with more members of the union, which stand at the end here.
 * Callers come from the program's threads, from CUDA's callback thread and from NCCL's proxy threads.
 */
#ifndef BT_CAPTURE_NCCL_ABI_H
#define BT_CAPTURE_NCCL_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum bt_nccl_event {
  BT_NCCL_GROUP = 1 << 0,
  BT_NCCL_COLL = 1 << 1,
  BT_NCCL_P2P = 1 << 2,
  BT_NCCL_PROXY_OP = 1 << 3,
  BT_NCCL_PROXY_STEP = 1 << 4,
  BT_NCCL_PROXY_CTRL = 1 << 5,
  BT_NCCL_KERNEL_CH = 1 << 6,
  BT_NCCL_NET_PLUGIN = 1 << 7,
  BT_NCCL_GROUP_API = 1 << 8,
  BT_NCCL_COLL_API = 1 << 9,
  BT_NCCL_P2P_API = 1 << 10,
  BT_NCCL_KERNEL_LAUNCH = 1 << 11
} bt_nccl_event;

enum { BT_NCCL_SUCCESS = 0, BT_NCCL_KERNEL_CH_STOP = 22 /* a state of record_state */ };

/* What record_state is told with it: the GPU's globaltimer. */
typedef struct bt_nccl_kernel_state {
  uint64_t timer;
} bt_nccl_kernel_state;

typedef struct bt_nccl_coll {
  uint64_t sequence;
  const char *function;
  const void *send;
  void *receive;
  size_t count;
  int root;
  const char *datatype;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void *group; /* version 5 */
} bt_nccl_coll;

typedef struct bt_nccl_p2p {
  const char *function;
  void *buffer;
  const char *datatype;
  size_t count;
  int peer; /* in the communicator */
  uint8_t channels;
  void *group; /* version 5 */
} bt_nccl_p2p;

typedef struct bt_nccl_p2p_api {
  const char *function;
  size_t count;
  const char *datatype;
  void *stream;
  bool captured;
} bt_nccl_p2p_api;

typedef struct bt_nccl_coll_api {
  const char *function;
  size_t count;
  const char *datatype;
  int root;
  void *stream;
  bool captured;
} bt_nccl_coll_api;

/* Version 5 and later. */
typedef struct bt_nccl_descriptor {
  uint64_t type;
  void *parent;
  int rank;
  union {
    struct {
      bool captured;
      int depth;
    } group_api;
    bt_nccl_coll_api coll_api;
    bt_nccl_p2p_api p2p_api;
    struct {
      void *stream;
    } kernel_launch;
    bt_nccl_coll coll;
    bt_nccl_p2p p2p;
    struct {
      pid_t pid;
      uint8_t channel;
      int peer, steps, chunk_bytes, is_send;
    } proxy_op;
    struct {
      uint8_t channel;
      uint64_t timer; /* the GPU's globaltimer at the start */
    } kernel_channel;
  };
} bt_nccl_descriptor;
_Static_assert(sizeof(bt_nccl_descriptor) == 112 && offsetof(bt_nccl_descriptor, rank) == 16 &&
                   offsetof(bt_nccl_descriptor, coll) == 24,
               "ncclProfilerEventDescr_v5_t");
_Static_assert(offsetof(bt_nccl_p2p, peer) == 32 && offsetof(bt_nccl_p2p, group) == 40, "its p2p");
_Static_assert(offsetof(bt_nccl_coll, root) == 40 && offsetof(bt_nccl_coll, datatype) == 48 &&
                   offsetof(bt_nccl_coll, group) == 80,
               "its coll");
_Static_assert(offsetof(bt_nccl_p2p_api, stream) == 24 && offsetof(bt_nccl_coll_api, stream) == 32, "its API calls");

/* Version 4: a narrow type, and what a call was launched with is not told. */
typedef struct bt_nccl_descriptor_4 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      uint64_t sequence;
      const char *function;
      const void *send;
      void *receive;
      size_t count;
      int root;
      const char *datatype;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } coll;
    struct {
      const char *function;
      void *buffer;
      const char *datatype;
      size_t count;
      int peer;
      uint8_t channels;
    } p2p;
  };
} bt_nccl_descriptor_4;
_Static_assert(sizeof(bt_nccl_descriptor_4) == 104 && offsetof(bt_nccl_descriptor_4, rank) == 16 &&
                   offsetof(bt_nccl_descriptor_4, p2p) == 24,
               "ncclProfilerEventDescr_v4_t");

typedef void (*bt_nccl_log)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

typedef struct bt_nccl_profiler {
  const char *name;
  int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
              bt_nccl_log log);
  int (*start)(void *context, void **handle, bt_nccl_descriptor *descriptor);
  int (*stop)(void *handle);
  int (*record_state)(void *handle, int state, void *arguments);
  int (*finalize)(void *context);
} bt_nccl_profiler;

typedef struct bt_nccl_profiler_4 {
  const char *name;
  int (*init)(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
              bt_nccl_log log);
  int (*start)(void *context, void **handle, bt_nccl_descriptor_4 *descriptor);
  int (*stop)(void *handle);
  int (*record_state)(void *handle, int state, void *arguments);
  int (*finalize)(void *context);
} bt_nccl_profiler_4;

#endif
