/* Spans of the library's own making: their records, checked like those of the public calls, and one that begins with a
 * record made already. */
#ifndef BT_CAPTURE_SPAN_H
#define BT_CAPTURE_SPAN_H

#include "capture/producer.h"

/* False: nothing is to be recorded now (NULL session, between sampled steps), or the arguments make no sense, which is
 * counted. */
bool bt_span_record(bubbletop_session *session, bt_record *record, bubbletop_kind kind, bubbletop_where where);
bool bt_span_record_comm(bubbletop_session *session, bt_record *record, bubbletop_kind kind, bubbletop_where where,
                         const bubbletop_comm *comm);
bool bt_span_record_gate(bubbletop_session *session, bt_record *record, bubbletop_where where,
                         const bubbletop_gate_on *on);

bool bt_span_is_wanted(bubbletop_session *session);

/* Begins a host-timed span now. */
void bt_span_begin(bubbletop_session *session, bubbletop_span *span, bt_record record);

#endif
