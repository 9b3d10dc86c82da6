/* A trace, or a range of it, written for other programs and for people.
 *
 * Times in the files are on the clock that all ranks share (bt_rank_time); csv and jsonl give ns as they are, chrome and svg
 * count from the start of the range. Names from captures are cleaned: they may hold any bytes. Nothing is owned or kept.
 */
#ifndef BT_FORMATS_EXPORT_H
#define BT_FORMATS_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/trace.h"

typedef struct bt_export_range {
  int64_t from, to; /* what overlaps [from, to); INT64_MIN and INT64_MAX: everything */
} bt_export_range;

/* Chrome's trace events, as Perfetto and chrome://tracing read them: a process a rank, threads for its lanes. */
bt_status bt_export_chrome(const bt_trace *trace, const bt_export_range *range, FILE *out);
/* A line a span, after a line of titles. */
bt_status bt_export_csv(const bt_trace *trace, const bt_export_range *range, FILE *out);
/* An object a line: {"type":"span"|"step"|"rank", ...}; what is not known is left out. */
bt_status bt_export_jsonl(const bt_trace *trace, const bt_export_range *range, FILE *out);

typedef struct bt_export_picture {
  bt_export_range range; /* of finite ends */
  int32_t replica;
  const char *title; /* NULL: none */
} bt_export_picture;

/* The Gantt of one replica as a picture. BT_ERR_LIMIT: more blocks than a picture can hold; BT_ERR_EMPTY: none. */
bt_status bt_export_svg(const bt_trace *trace, const bt_export_picture *picture, FILE *out, bt_error *error);

/* From the first start to the last end of the pipeline ops of steps first..last of a replica (< 0: of all replicas). False:
 * there is no such step with ops. */
bool bt_export_steps(const bt_trace *trace, int32_t replica, int64_t first, int64_t last, bt_export_range *range);
/* The newest step that every rank of the replica has begun and ended. False: none. */
bool bt_export_last_step(const bt_trace *trace, int32_t replica, int64_t *step);

/* Shared by the writers. */

/* Writes a text as the inside of a JSON string, or of an XML element: valid UTF-8, control characters replaced. */
void bt_export_json_text(FILE *out, const char *text);
void bt_export_xml_text(FILE *out, const char *text);
/* bt_rank_time, held within int64. */
int64_t bt_export_time(const bt_rank *rank, int64_t raw);
/* The first span of a track that may overlap the range, the first that begins after it. Raw times. */
void bt_export_spans(const bt_rank *rank, const bt_track *track, const bt_export_range *range, size_t *first,
                     size_t *end);
/* Whether a span overlaps the range; a span without length does where it lies. */
bool bt_export_within(const bt_rank *rank, const bt_track *track, const bt_span *span, const bt_export_range *range);

#endif
