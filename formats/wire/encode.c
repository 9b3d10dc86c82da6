#include "formats/wire/encode.h"

#include "formats/wire/context.h"
#include "formats/wire/frame.h"
#include "formats/wire/out.h"
#include "formats/wire/value.h"

/* A record of integers, before it is packed: elements that equal what the reader assumes are not set. */
typedef struct fields {
  int64_t value[BT_RECORD_FIELDS];
  uint32_t set;
} fields;

static void put(fields *record, unsigned at, int64_t value, int64_t unless) {
  if (value == unless) return;
  record->value[at] = value;
  record->set |= 1u << at;
}

/* An element that is always there. */
static void put_always(fields *record, unsigned at, int64_t value) {
  record->value[at] = value;
  record->set |= 1u << at;
}

static void pack_fields(bt_out *out, const fields *record) {
  unsigned count = 32u - (unsigned)__builtin_clz(record->set);
  msgpack_pack_array(&out->packer, count);
  for (unsigned i = 0; i < count; i++) {
    if (record->set >> i & 1)
      msgpack_pack_int64(&out->packer, record->value[i]);
    else
      msgpack_pack_nil(&out->packer);
  }
}

/* ---- spans: `next` becomes what the following record of that code is compared with ---- */

static void put_compute(fields *record, const bt_event *event, bt_previous *next) {
  put(record, AT_MICROBATCH, event->microbatch, -1);
  put(record, COMPUTE_CHUNK, event->chunk, next->chunk);
  put(record, COMPUTE_FLAGS, event->flags, next->flags);
  put(record, COMPUTE_LANE, event->lane, next->lane);
  put(record, COMPUTE_TOKENS, event->tokens, next->tokens);
}

static void put_fb(fields *record, const bt_event *event, bt_previous *next) {
  put(record, AT_MICROBATCH, event->microbatch, -1);
  put(record, FB_MICROBATCH_B, event->microbatch_b, -1);
  put(record, FB_CHUNK, event->chunk, next->chunk);
  put(record, FB_CHUNK_B, event->chunk_b, next->chunk_b);
  put(record, FB_FLAGS, event->flags, next->flags);
  put(record, FB_LANE, event->lane, next->lane);
  put(record, FB_TOKENS, event->tokens, next->tokens);
}

static void put_comm(fields *record, const bt_event *event, bt_previous *next) {
  put(record, AT_MICROBATCH, event->microbatch, -1);
  put(record, COMM_SEQUENCE, bt_wrap_subtract(event->sequence, bt_wrap_add(next->sequence, 1)), 0);
  put(record, COMM_CHUNK, event->chunk, next->chunk);
  put(record, COMM_PEER, event->peer, next->peer);
  put(record, COMM_BYTES, event->bytes, next->bytes);
  put(record, COMM_GROUP, event->group, next->group);
  put(record, COMM_FLAGS, event->flags, next->flags);
  put(record, COMM_LANE, event->lane, next->lane);
}

static void put_gate(fields *record, const bt_event *event, bt_previous *next) {
  put(record, AT_MICROBATCH, event->microbatch, -1);
  put(record, GATE_ON, event->on_code, 0);
  put(record, GATE_SEQUENCE, bt_wrap_subtract(event->sequence, bt_wrap_add(next->sequence, 1)), 0);
  put(record, GATE_CHUNK, event->chunk, next->chunk);
  put(record, GATE_PEER, event->peer, next->peer);
  put(record, GATE_COUNT, event->count, next->count);
  put(record, GATE_GROUP, event->group, next->group);
  put(record, GATE_FLAGS, event->flags, next->flags);
  put(record, GATE_LANE, event->lane, next->lane);
}

static void remember(bt_previous *previous, const bt_event *event) {
  previous->sequence = event->sequence;
  previous->bytes = event->bytes;
  previous->tokens = event->tokens;
  previous->peer = event->peer;
  previous->count = event->count;
  previous->group = event->group;
  previous->lane = event->lane;
  previous->chunk = event->chunk;
  previous->chunk_b = event->chunk_b;
  previous->flags = event->flags;
}

static void pack_span(bt_out *out, bt_encoder *encoder, const bt_event *event, int64_t delta) {
  bool gate = event->code == BT_GATE;
  bt_previous *previous = bt_context_previous(&encoder->context, gate, gate ? event->on_code : event->code);
  fields record = {.set = 0};
  put_always(&record, AT_CODE, event->code);
  put_always(&record, AT_START, delta);
  put_always(&record, AT_DURATION, event->duration);
  if (gate)
    put_gate(&record, event, previous);
  else if (event->code == BT_FB)
    put_fb(&record, event, previous);
  else if (bt_code_is_comm(event->code))
    put_comm(&record, event, previous);
  else
    put_compute(&record, event, previous);
  pack_fields(out, &record);
  if (!out->full) remember(previous, event);
}

/* ---- marks ---- */

static void pack_mark(bt_out *out, const bt_event *event, int64_t delta, unsigned elements) {
  msgpack_pack_array(&out->packer, elements);
  msgpack_pack_uint8(&out->packer, event->code);
  msgpack_pack_int64(&out->packer, delta);
}

static void pack_text(bt_out *out, const bt_event *event) {
  msgpack_pack_str_with_body(&out->packer, event->text, event->text_length);
}

static void pack_instant(bt_out *out, const bt_event *event, int64_t delta) {
  unsigned elements = event->chunk != -1 ? 5 : event->microbatch != -1 ? 4 : 3;
  pack_mark(out, event, delta, elements);
  pack_text(out, event);
  if (elements > INSTANT_MICROBATCH) msgpack_pack_int32(&out->packer, event->microbatch);
  if (elements > INSTANT_CHUNK) msgpack_pack_int16(&out->packer, event->chunk);
}

static void pack_group(bt_out *out, const bt_event *event, int64_t delta) {
  pack_mark(out, event, delta, event->number != 0 ? 8 : 7);
  msgpack_pack_uint32(&out->packer, event->group);
  msgpack_pack_uint8(&out->packer, event->domain);
  msgpack_pack_int32(&out->packer, event->own_rank);
  msgpack_pack_int32(&out->packer, event->count);
  msgpack_pack_array(&out->packer, (size_t)event->run_count * 3);
  for (uint32_t i = 0; i < event->run_count; i++) {
    msgpack_pack_int32(&out->packer, event->runs[i].first);
    msgpack_pack_int32(&out->packer, event->runs[i].stride);
    msgpack_pack_int32(&out->packer, event->runs[i].count);
  }
  if (event->number != 0) msgpack_pack_uint64(&out->packer, event->number);
}

static void pack_open(bt_out *out, const bt_event *event, int64_t delta) {
  fields record = {.set = 0};
  put_always(&record, AT_CODE, event->code);
  put_always(&record, AT_START, delta);
  put_always(&record, AT_DURATION, event->duration);
  put_always(&record, OPEN_KIND, event->on_code);
  put_always(&record, OPEN_RING, event->ring);
  put(&record, OPEN_MICROBATCH, event->microbatch, -1);
  put(&record, OPEN_CHUNK, event->chunk, -1);
  put(&record, OPEN_PEER, event->peer, -1);
  put(&record, OPEN_SEQUENCE, event->sequence, -1);
  put(&record, OPEN_GROUP, event->group, 0);
  put(&record, OPEN_LANE, event->lane, -1);
  put(&record, OPEN_FLAGS, event->flags, 0);
  put(&record, OPEN_BYTES, event->bytes, -1);
  pack_fields(out, &record);
}

static void pack_other(bt_out *out, const bt_event *event, int64_t delta) {
  switch (event->code) {
  case BT_STEP_BEGIN:
  case BT_STEP_END:
    pack_mark(out, event, delta, 3);
    msgpack_pack_int64(&out->packer, event->step);
    break;
  case BT_INSTANT: pack_instant(out, event, delta); break;
  case BT_COUNTER:
    pack_mark(out, event, delta, 4);
    pack_text(out, event);
    msgpack_pack_double(&out->packer, event->value);
    break;
  case BT_GROUP: pack_group(out, event, delta); break;
  case BT_META:
    pack_mark(out, event, delta, 3);
    bt_out_write(out, event->text, event->text_length); /* a map already, checked */
    break;
  case BT_CLOCK:
    pack_mark(out, event, delta, 3);
    msgpack_pack_int64(&out->packer, event->real);
    break;
  case BT_ANCHOR:
    pack_mark(out, event, delta, 4);
    msgpack_pack_int64(&out->packer, event->real);
    msgpack_pack_uint64(&out->packer, event->number);
    break;
  case BT_OPEN: pack_open(out, event, delta); break;
  case BT_DROPPED:
    pack_mark(out, event, delta, 5);
    msgpack_pack_int64(&out->packer, event->duration);
    msgpack_pack_uint64(&out->packer, event->number);
    msgpack_pack_uint32(&out->packer, event->ring);
    break;
  case BT_HEARTBEAT:
    pack_mark(out, event, delta, 3);
    msgpack_pack_uint64(&out->packer, event->number);
    break;
  case BT_END_OF_STREAM:
    pack_mark(out, event, delta, 3);
    pack_text(out, event);
    break;
  default: break;
  }
}

/* ---- the block ---- */

static bool has_duration(unsigned code) {
  return bt_code_is_span(code) || code == BT_OPEN || code == BT_DROPPED;
}

/* What a reader would refuse must not be written. */
static bool is_sound(const bt_event *event) {
  if (!bt_code_is_known(event->code)) return false;
  if (event->duration < 0 || (event->duration > 0 && !has_duration(event->code)) ||
      (event->start > 0 && event->duration > INT64_MAX - event->start))
    return false;
  switch (event->code) {
  case BT_GATE: return event->on_code < BT_CODE_SPAN_LIMIT && event->count >= 0;
  case BT_OPEN: return bt_code_is_span(event->on_code);
  case BT_GROUP: return event->count >= 0 && bt_runs_are_sound(event->runs, event->run_count, event->count);
  case BT_META:
    return event->text_length <= BT_MAX_META && bt_value_is_map((const uint8_t *)event->text, event->text_length);
  case BT_INSTANT:
  case BT_COUNTER:
  case BT_END_OF_STREAM: return event->text_length <= BT_MAX_TEXT;
  default: return true;
  }
}

void bt_encoder_begin(bt_encoder *encoder, uint32_t ring, uint64_t first) {
  encoder->ring = ring;
  encoder->first = first;
  encoder->count = 0;
  encoder->previous_end = 0;
  encoder->min_start = INT64_MAX;
  encoder->max_end = INT64_MIN;
  encoder->length = 0;
  bt_context_begin(&encoder->context);
}

bt_status bt_encoder_add(bt_encoder *encoder, const bt_event *event) {
  if (!is_sound(event)) return BT_ERR_ARG;
  bt_out out;
  bt_out_init(&out, encoder->payload, encoder->length, sizeof encoder->payload);
  int64_t delta = bt_wrap_subtract(event->start, encoder->previous_end), end = bt_event_end(event);
  if (bt_code_is_span(event->code))
    pack_span(&out, encoder, event, delta);
  else
    pack_other(&out, event, delta);
  if (out.full) return BT_FULL;
  encoder->length = out.length;
  encoder->count++;
  encoder->previous_end = bt_code_is_span(event->code) ? end : event->start;
  if (event->start < encoder->min_start) encoder->min_start = event->start;
  if (end > encoder->max_end) encoder->max_end = end;
  return BT_OK;
}

size_t bt_encoder_finish(const bt_encoder *encoder, const uint8_t marker[BT_MARKER_BYTES], uint8_t *bytes) {
  if (encoder->count == 0) return 0;
  bt_out out;
  bt_out_init(&out, bytes, 0, BT_BLOCK_MAX);
  msgpack_pack_array(&out.packer, 8);
  msgpack_pack_bin_with_body(&out.packer, marker, BT_MARKER_BYTES);
  msgpack_pack_uint32(&out.packer, encoder->ring);
  msgpack_pack_uint64(&out.packer, encoder->first);
  msgpack_pack_uint32(&out.packer, encoder->count);
  msgpack_pack_int64(&out.packer, encoder->min_start);
  msgpack_pack_int64(&out.packer, encoder->max_end);
  size_t crc_at = out.length + 1;
  msgpack_pack_fix_uint32(&out.packer, 0);
  msgpack_pack_bin_with_body(&out.packer, encoder->payload, encoder->length);
  bt_frame_seal(bytes, out.length, crc_at);
  return out.length;
}
