/* Two tracepoints with the fields of a span, read several times by LTTng's macros. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bubbletop_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng_events.h"

#if !defined(BT_TESTS_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BT_TESTS_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(bubbletop_bench, begin,
  LTTNG_UST_TP_ARGS(int, kind, int, microbatch, int, chunk),
  LTTNG_UST_TP_FIELDS(
    lttng_ust_field_integer(int, kind, kind)
    lttng_ust_field_integer(int, microbatch, microbatch)
    lttng_ust_field_integer(int, chunk, chunk)))

LTTNG_UST_TRACEPOINT_EVENT(bubbletop_bench, end,
  LTTNG_UST_TP_ARGS(int, kind),
  LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, kind, kind)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
