/* Inside the recognition: knowing a timing-driven order by how its heuristic builds. */
#ifndef BT_ANALYSIS_RECOGNISE_BUILD_H
#define BT_ANALYSIS_RECOGNISE_BUILD_H

#include "tui/analysis/recognise.h"

/* The chunk of an op; -1, where there is but one, is 0. */
static inline int32_t bt_chunk_of(int16_t chunk) {
  return chunk < 0 ? 0 : chunk;
}

/* As the heuristics do: each kind takes a chunk's microbatches in order, W follows the B's; after the first B there is at
 * most one F between two B's; with one chunk no stage warms up longer than the one before. False where a stage has no ops. */
bool bt_built_by_rounds(const bt_observed_stage *stages, size_t stage_count, int32_t chunks);

/* Whether the virtual stages of both chunks lie in a V. */
bool bt_lies_in_a_v(const bt_observed_stage *stages, size_t stage_count);

#endif
