/* Joins communicators over ranks.
 *
 * NCCL tells a process a communicator's identity, its size and the process's own place in it, never who else is in it.
 * Streams record just that (a GROUP with an identity), and peers as places in the communicator. Here the places that all
 * ranks tell are put together: member lists in global ranks (bt_trace.joined), which bt_trace_peer reads; the domain, from
 * the members' places in the layout; and the direction of messages that are recorded as SEND or RECV. Whoever goes to the
 * next virtual stage is forward, whoever goes to the one before is backward; where a rank has several chunks, its peer can
 * be both, and then it stays SEND or RECV.
 *
 * Nothing is guessed. Ranks that have not told their place are -1 until they do. When two ranks claim one place, one rank
 * claims two, or the sizes differ (a hash that came twice), nobody's place is believed.
 */
#ifndef BT_FORMATS_JOIN_H
#define BT_FORMATS_JOIN_H

#include "formats/trace.h"

/* Brings bt_trace.joined, the groups' domains and the messages' directions up to date: call it after records were settled.
 * Cheap when nothing changed; the cost is in the communicators when one came or the layout changed, and in the messages
 * that came since. BT_OK or BT_ERR_NOMEM. */
bt_status bt_join(bt_trace *trace);

/* How many communicators have the state. */
size_t bt_join_count(const bt_trace *trace, bt_joined_state state);

#endif
