/* What the text of a range means: shipped rules, and those of a file.
 *
 * Shipped rules know the names of zero-bubble (F3.0.7), of torch.distributed.pipelining under emit_nvtx (PP:1F3,
 * Forward 3, Optimizer.step#Adam.step), of trainers that say it in words (stage1 F mb0, backward microbatch 3), of
 * Megatron's telemetry, and of timers (forward-compute). Others are written into the file that BUBBLETOP_NVTX_RULES
 * names, one a line, the first that matches wins, before the shipped ones:
 *
 *   KIND [KEY=VALUE ...] REGEX
 *
 * KIND is F, B, W, BW, FB, RECOMPUTE, OPTIMIZER, OTHER, HOST, a kind of message or collective (SEND_F, ALL_REDUCE, …),
 * step (the range is a training iteration), or ignore. REGEX is POSIX extended, to the end of the line, and need not
 * match from the start. KEY=VALUE take numbers from the text: microbatch=1 the first parenthesis of REGEX; so do chunk,
 * stage (a virtual stage, instead of chunk), step, peer (a global rank) and for FB microbatch_b, chunk_b.
 * microbatch=order counts the ranges of the kind since the step began; so does step=order. domain=NAME: of that NVTX
 * domain alone. Lines that begin with # are comments.
 */
#ifndef BT_CAPTURE_NVTX_RULES_H
#define BT_CAPTURE_NVTX_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/bubbletop.h"

typedef enum bt_nvtx_what { BT_NVTX_NOTHING, BT_NVTX_SPAN, BT_NVTX_COMM, BT_NVTX_STEP, BT_NVTX_NCCL } bt_nvtx_what;

enum { BT_NVTX_NONE = -1, BT_NVTX_IN_ORDER = -2 /* microbatch, step: count them */ };

typedef struct bt_nvtx_match {
  uint8_t what; /* bt_nvtx_what */
  uint8_t kind; /* bubbletop_kind; BT_NVTX_NCCL: bt_comm_function, and below what it is recorded as */
  uint8_t comm;
  int16_t chunk, chunk_b;
  int32_t microbatch, microbatch_b;
  int32_t stage, stage_b; /* virtual stages, from which chunks follow; -1: the chunk stands above */
  int32_t peer;
  int64_t step;
} bt_nvtx_match;

typedef struct bt_nvtx_rules bt_nvtx_rules;

/* Reads the file; NULL path: shipped rules alone. Never fails: lines that make no sense are left out, and `error` (of
 * `room` bytes, "" none) tells the first of them. NULL: no memory, then shipped rules hold. */
bt_nvtx_rules *bt_nvtx_rules_read(const char *path, char *error, size_t room);

/* `rules` NULL: shipped ones. `domain` is the domain's name, "" the default one. */
void bt_nvtx_match_text(const bt_nvtx_rules *rules, const char *domain, const char *text, bt_nvtx_match *match);

/* The shipped rules alone. False: none fits. */
bool bt_nvtx_match_shipped(const char *text, bt_nvtx_match *match);

static inline void bt_nvtx_match_init(bt_nvtx_match *match) {
  *match = (bt_nvtx_match){.chunk = -1,
                           .chunk_b = -1,
                           .microbatch = -1,
                           .microbatch_b = -1,
                           .stage = -1,
                           .stage_b = -1,
                           .peer = -1,
                           .step = -1};
}

#endif
