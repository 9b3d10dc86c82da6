/* Ranges of NVTX becoming spans: what is open on a thread, what is open across threads, steps, communicators.
 *
 * Push and pop nest per thread and domain; start and end go by an id and may be on different threads. A range that no
 * rule knows costs a look into the thread's cache of texts, and nothing is recorded.
 */
#ifndef BT_CAPTURE_NVTX_RANGE_H
#define BT_CAPTURE_NVTX_RANGE_H

#include "capture/nvtx_domain.h"

/* Once a process, before anything else; `rules` are kept. False: the system has no thread key left. */
bool bt_nvtx_ranges_prepare(const bt_nvtx_rules *rules, const char *rules_error);

/* The level of the range on this thread, from 0. `payload` may be NULL. */
int bt_nvtx_push(bt_nvtx_domain_handle domain, const bt_nvtx_match *match, const bt_nvtx_payload *payload);
/* The level of the range that ended; BT_NVTX_NO_PUSH_POP: there was none. A payload may tell more of it. */
int bt_nvtx_pop(bt_nvtx_domain_handle domain, const bt_nvtx_payload *payload);

/* The id of a range that another thread may end. `chained` is the other tool's id of it. */
uint64_t bt_nvtx_start(bt_nvtx_domain_handle domain, const bt_nvtx_match *match, const bt_nvtx_payload *payload,
                       uint64_t chained);
/* Ends it; the other tool's id, `id` itself for a range that we did not care for. */
uint64_t bt_nvtx_end(uint64_t id);

void bt_nvtx_mark(const bt_nvtx_match *match);

/* What the text means, from the thread's cache if it is there. Valid until the thread's next call. */
const bt_nvtx_match *bt_nvtx_match_cached(bt_nvtx_domain_handle domain, const char *text);

#endif
