#define NDEBUG 1 /* msgpack's template asserts its arguments, and library code never aborts */
#include <endian.h>
#include <msgpack/unpack.h>
#include <msgpack/unpack_define.h>
#include <string.h>

#include "formats/wire/context.h"
#include "formats/wire/decode.h"
#include "formats/wire/value.h"

/* The elements of one record, by place. msgpack-c's unpack template drives the callbacks below, one a value, and they keep
 * what they see here; plain_record() does it faster for plain records. make_event() turns it into an event. */
typedef struct record_user {
  int64_t value[BT_RECORD_FIELDS]; /* integers; the bits of a double */
  uint32_t integers, bigs, reals; /* which of them are set, and how */
  uint32_t others, lists; /* elements of another type than nil and numbers; which are arrays */
  uint32_t at; /* the element that comes next */
  uint32_t text_at; /* the element that the text below is, 0 none */
  uint32_t text_length;
  const char *text;
  uint32_t run_integers; /* of a list of integers inside the record */
  bool open, list_broken;
  int32_t list[BT_MAX_RUNS * 3];
} record_user;

typedef enum object_kind { OBJECT_NIL, OBJECT_INT, OBJECT_BIG, OBJECT_REAL, OBJECT_TEXT, OBJECT_OTHER } object_kind;
/* Containers hold their depth above this. */
enum { OBJECT_RECORD = OBJECT_OTHER + 1, OBJECT_LIST };

typedef struct record_object {
  union {
    int64_t integer;
    const char *text;
  };
  uint32_t length; /* of the text */
  uint32_t kind;
} record_object;

#define msgpack_unpack_struct(name) struct record##name
#define msgpack_unpack_func(type, name) static inline type record##name
#define msgpack_unpack_callback(name) record_on##name
#define msgpack_unpack_object record_object
#define msgpack_unpack_user record_user

struct record_context;

static inline record_object record_on_root(record_user *user) {
  (void)user;
  return (record_object){.kind = OBJECT_NIL};
}

/* clang-format off */
#define RECORD_NUMBER(name, type, expression, kind_) \
  static inline int record_on##name(record_user *user, type d, record_object *object) { \
    (void)user; \
    object->integer = (expression); \
    object->kind = (kind_); \
    return 0; \
  }
RECORD_NUMBER(_uint8, uint8_t, d, OBJECT_INT)
RECORD_NUMBER(_uint16, uint16_t, d, OBJECT_INT)
RECORD_NUMBER(_uint32, uint32_t, d, OBJECT_INT)
RECORD_NUMBER(_uint64, uint64_t, (int64_t)d, d > INT64_MAX ? OBJECT_BIG : OBJECT_INT)
RECORD_NUMBER(_int8, int8_t, d, OBJECT_INT)
RECORD_NUMBER(_int16, int16_t, d, OBJECT_INT)
RECORD_NUMBER(_int32, int32_t, d, OBJECT_INT)
RECORD_NUMBER(_int64, int64_t, d, OBJECT_INT)
#undef RECORD_NUMBER
#define RECORD_PLAIN(name, kind_) \
  static inline int record_on##name(record_user *user, record_object *object) { \
    (void)user; \
    object->kind = (kind_); \
    return 0; \
  }
RECORD_PLAIN(_nil, OBJECT_NIL)
RECORD_PLAIN(_true, OBJECT_OTHER)
RECORD_PLAIN(_false, OBJECT_OTHER)
#undef RECORD_PLAIN
/* clang-format on */

static inline int record_on_double(record_user *user, double d, record_object *object) {
  (void)user;
  memcpy(&object->integer, &d, sizeof d);
  object->kind = OBJECT_REAL;
  return 0;
}

static inline int record_on_float(record_user *user, float d, record_object *object) {
  return record_on_double(user, (double)d, object);
}

static inline int record_on_str(record_user *user, const char *base, const char *bytes, unsigned length,
                                record_object *object) {
  (void)user, (void)base;
  object->text = length > 0 ? bytes : "";
  object->length = length;
  object->kind = OBJECT_TEXT;
  return 0;
}

static inline int record_on_bin(record_user *user, const char *base, const char *bytes, unsigned length,
                                record_object *object) {
  (void)user, (void)base, (void)bytes, (void)length;
  object->kind = OBJECT_OTHER;
  return 0;
}

static inline int record_on_ext(record_user *user, const char *base, const char *bytes, unsigned length,
                                record_object *object) {
  return record_on_bin(user, base, bytes, length, object);
}

static inline int record_on_array(record_user *user, unsigned items, record_object *object) {
  (void)items;
  object->kind = user->open ? OBJECT_LIST : OBJECT_RECORD;
  user->open = true;
  return 0;
}

static inline int record_on_map(record_user *user, unsigned pairs, record_object *object) {
  (void)pairs;
  object->kind = OBJECT_OTHER;
  return user->open ? 0 : -1; /* a record is an array */
}

static void list_item(record_user *user, const record_object *item) {
  if (user->at != GROUP_RUNS) /* some list that a newer writer added */
    return;
  if (item->kind != OBJECT_INT || item->integer != (int32_t)item->integer || user->run_integers == BT_MAX_RUNS * 3) {
    user->list_broken = true;
    return;
  }
  user->list[user->run_integers++] = (int32_t)item->integer;
}

static void rare_element(record_user *user, const record_object *item, uint32_t at) {
  uint32_t bit = 1u << at;
  switch (item->kind) {
  case OBJECT_NIL: break;
  case OBJECT_BIG:
    user->value[at] = item->integer;
    user->bigs |= bit;
    break;
  case OBJECT_REAL:
    user->value[at] = item->integer;
    user->reals |= bit;
    break;
  case OBJECT_TEXT:
    if (user->text_at == 0) {
      user->text = item->text;
      user->text_length = item->length;
      user->text_at = at;
    }
    user->others |= bit;
    break;
  case OBJECT_LIST: user->lists |= bit; /* fall through */
  default: user->others |= bit; break;
  }
}

static inline int record_on_array_item(record_user *user, record_object *array, record_object item) {
  if (array->kind != OBJECT_RECORD) {
    list_item(user, &item);
    return 0;
  }
  uint32_t at = user->at++;
  if (at >= BT_RECORD_FIELDS) return 0;
  if (item.kind == OBJECT_INT) {
    user->value[at] = item.integer;
    user->integers |= 1u << at;
  } else {
    rare_element(user, &item, at);
  }
  return 0;
}

static inline int record_on_map_item(record_user *user, record_object *map, record_object key, record_object item) {
  (void)user, (void)map, (void)key, (void)item;
  return 0;
}

#include <msgpack/unpack_template.h>

static inline void record_begin(record_user *user) {
  user->integers = user->bigs = user->reals = user->others = user->lists = 0;
  user->at = user->text_at = user->run_integers = 0;
  user->open = user->list_broken = false;
}

/* The same for the record that nearly all are: a short array of integers and nils, not at the very end of the payload.
 * The template takes every value through its state machine, which made up two thirds of the time of a span; this reads
 * it in a few instructions. False, with nothing moved: the template must read the record. */
static inline bool plain_record(record_user *user, const uint8_t *payload, size_t length, size_t *offset) {
  enum { WIDEST = 9 }; /* bytes of an element */
  const uint8_t *at = payload + *offset;
  uint32_t elements = at[0] & 0x0fu;
  if ((at[0] & 0xf0) != 0x90 || length - *offset <= (size_t)elements * WIDEST) return false;
  uint32_t integers = 0;
  at++;
  for (uint32_t i = 0; i < elements; i++) {
    uint8_t first = *at++;
    int64_t value = (int8_t)first; /* the fixed integers, of both signs */
    if (first >= 0xcc && first <= 0xd3) {
      uint64_t bits;
      memcpy(&bits, at, sizeof bits);
      bits = be64toh(bits);
      unsigned width = 1u << (first & 3), unused = 64 - 8 * width;
      value = first < 0xd0 ? (int64_t)(bits >> unused) : (int64_t)bits >> unused;
      if (first == 0xcf && value < 0) return false;
      at += width;
    } else if (first == 0xc0) {
      continue;
    } else if (first >= 0x80 && first < 0xe0) {
      return false;
    }
    user->value[i] = value;
    integers |= 1u << i;
  }
  user->integers = integers;
  user->open = true;
  *offset = (size_t)(at - payload);
  return true;
}

/* ---- one record -> one event ---- */

/* Gives elements out and notes when one is not what its place demands. */
typedef struct taker {
  const record_user *user;
  bool wrong;
} taker;

static inline bool is_set(const record_user *user, unsigned at) {
  return ((user->integers | user->bigs | user->reals | user->others) >> at & 1) != 0;
}

static inline int64_t take(taker *from, unsigned at, int64_t unless, int64_t low, int64_t high) {
  uint32_t bit = 1u << at;
  if ((from->user->integers & bit) == 0) {
    from->wrong |= is_set(from->user, at);
    return unless;
  }
  int64_t value = from->user->value[at];
  from->wrong |= value < low || value > high;
  return value;
}

static inline int64_t take64(taker *from, unsigned at, int64_t unless) {
  return take(from, at, unless, INT64_MIN, INT64_MAX);
}
static inline int32_t take32(taker *from, unsigned at, int32_t unless) {
  return (int32_t)take(from, at, unless, INT32_MIN, INT32_MAX);
}
static inline uint32_t take_u32(taker *from, unsigned at, uint32_t unless) {
  return (uint32_t)take(from, at, unless, 0, UINT32_MAX);
}
static inline int16_t take16(taker *from, unsigned at, int16_t unless) {
  return (int16_t)take(from, at, unless, INT16_MIN, INT16_MAX);
}
static inline uint8_t take8(taker *from, unsigned at, uint8_t unless) {
  return (uint8_t)take(from, at, unless, 0, UINT8_MAX);
}
/* Bits that a newer writer added are ignored. */
static inline uint8_t take_flags(taker *from, unsigned at, uint8_t unless) {
  return (uint8_t)take(from, at, unless, 0, UINT32_MAX);
}

static uint64_t take_u64(taker *from, unsigned at) {
  if (from->user->bigs >> at & 1) return (uint64_t)from->user->value[at];
  return (uint64_t)take(from, at, 0, 0, INT64_MAX);
}

static void take_text(taker *from, bt_event *event) {
  const record_user *user = from->user;
  event->text = "";
  if (user->text_at == AT_TEXT) {
    event->text = user->text;
    event->text_length = user->text_length;
    from->wrong |= user->text_length > BT_MAX_TEXT;
  } else {
    from->wrong |= is_set(user, AT_TEXT);
  }
}

static inline void compute(taker *from, bt_event *event, bt_previous *previous) {
  event->microbatch = take32(from, AT_MICROBATCH, -1);
  event->chunk = previous->chunk = take16(from, COMPUTE_CHUNK, previous->chunk);
  event->flags = previous->flags = take_flags(from, COMPUTE_FLAGS, previous->flags);
  event->lane = previous->lane = take16(from, COMPUTE_LANE, previous->lane);
  event->tokens = previous->tokens = take64(from, COMPUTE_TOKENS, previous->tokens);
}

static void overlapped(taker *from, bt_event *event, bt_previous *previous) {
  event->microbatch = take32(from, AT_MICROBATCH, -1);
  event->microbatch_b = take32(from, FB_MICROBATCH_B, -1);
  event->chunk = previous->chunk = take16(from, FB_CHUNK, previous->chunk);
  event->chunk_b = previous->chunk_b = take16(from, FB_CHUNK_B, previous->chunk_b);
  event->flags = previous->flags = take_flags(from, FB_FLAGS, previous->flags);
  event->lane = previous->lane = take16(from, FB_LANE, previous->lane);
  event->tokens = previous->tokens = take64(from, FB_TOKENS, previous->tokens);
}

static inline void comm(taker *from, bt_event *event, bt_previous *previous) {
  event->microbatch = take32(from, AT_MICROBATCH, -1);
  previous->sequence = bt_wrap_add(bt_wrap_add(previous->sequence, 1), take64(from, COMM_SEQUENCE, 0));
  event->sequence = previous->sequence;
  event->chunk = previous->chunk = take16(from, COMM_CHUNK, previous->chunk);
  event->peer = previous->peer = take32(from, COMM_PEER, previous->peer);
  event->bytes = previous->bytes = take64(from, COMM_BYTES, previous->bytes);
  event->group = previous->group = take_u32(from, COMM_GROUP, previous->group);
  event->flags = previous->flags = take_flags(from, COMM_FLAGS, previous->flags);
  event->lane = previous->lane = take16(from, COMM_LANE, previous->lane);
}

static void gate(taker *from, bt_event *event, bt_context *context) {
  event->microbatch = take32(from, AT_MICROBATCH, -1);
  event->on_code = (uint8_t)take(from, GATE_ON, 0, 0, BT_CODE_SPAN_LIMIT - 1);
  if (from->wrong) return;
  bt_previous *previous = bt_context_previous(context, true, event->on_code);
  previous->sequence = bt_wrap_add(bt_wrap_add(previous->sequence, 1), take64(from, GATE_SEQUENCE, 0));
  event->sequence = previous->sequence;
  event->chunk = previous->chunk = take16(from, GATE_CHUNK, previous->chunk);
  event->peer = previous->peer = take32(from, GATE_PEER, previous->peer);
  event->count = previous->count = (int32_t)take(from, GATE_COUNT, previous->count, 0, INT32_MAX);
  event->group = previous->group = take_u32(from, GATE_GROUP, previous->group);
  event->flags = previous->flags = take_flags(from, GATE_FLAGS, previous->flags);
  event->lane = previous->lane = take16(from, GATE_LANE, previous->lane);
}

static inline void span(taker *from, bt_event *event, bt_context *context) {
  event->duration = take(from, AT_DURATION, 0, 0, INT64_MAX);
  if (event->code == BT_GATE)
    gate(from, event, context);
  else if (event->code == BT_FB)
    overlapped(from, event, bt_context_previous(context, false, BT_FB));
  else if (bt_code_is_comm(event->code))
    comm(from, event, bt_context_previous(context, false, event->code));
  else
    compute(from, event, bt_context_previous(context, false, event->code));
}

static void counter(taker *from, bt_event *event) {
  take_text(from, event);
  if (from->user->reals >> COUNTER_VALUE & 1)
    memcpy(&event->value, &from->user->value[COUNTER_VALUE], sizeof event->value);
  else
    event->value = (double)take64(from, COUNTER_VALUE, 0);
}

static void group(taker *from, bt_event *event) {
  const record_user *user = from->user;
  event->group = take_u32(from, GROUP_ID, 0);
  event->domain = take8(from, GROUP_DOMAIN, 0);
  event->own_rank = take32(from, GROUP_OWN_RANK, -1);
  event->count = (int32_t)take(from, GROUP_COUNT, 0, 0, INT32_MAX);
  event->number = take_u64(from, GROUP_IDENTITY);
  event->run_count = user->run_integers / 3;
  event->runs = event->run_count > 0 ? (const bt_run_of_ranks *)(const void *)user->list : NULL;
  from->wrong |= user->list_broken || user->run_integers % 3 != 0 ||
                 (is_set(user, GROUP_RUNS) && (user->lists >> GROUP_RUNS & 1) == 0) ||
                 !bt_runs_are_sound(event->runs, event->run_count, event->count);
}

/* The map is the third element; its bytes are found by walking the record again. */
static void meta(taker *from, bt_event *event, const uint8_t *record, size_t length) {
  bt_value value;
  size_t offset = 0;
  if (bt_value_read(record, length, &offset, &value) != BT_OK || value.kind != BT_VALUE_ARRAY || value.length < 3) {
    from->wrong = true;
    return;
  }
  offset = (size_t)(value.data - record);
  for (int i = 0; i < 3; i++) {
    if (bt_value_read(record, length, &offset, &value) != BT_OK) break;
  }
  from->wrong |= value.kind != BT_VALUE_MAP || value.object_bytes > BT_MAX_META;
  event->text = (const char *)value.object;
  event->text_length = (uint32_t)value.object_bytes;
}

static void open_span(taker *from, bt_event *event) {
  event->duration = take(from, AT_DURATION, 0, 0, INT64_MAX);
  event->on_code = (uint8_t)take(from, OPEN_KIND, 0, BT_NONE + 1, BT_CODE_SPAN_LIMIT - 1);
  event->ring = take_u32(from, OPEN_RING, 0);
  event->microbatch = take32(from, OPEN_MICROBATCH, -1);
  event->chunk = take16(from, OPEN_CHUNK, -1);
  event->peer = take32(from, OPEN_PEER, -1);
  event->sequence = take64(from, OPEN_SEQUENCE, -1);
  event->group = take_u32(from, OPEN_GROUP, 0);
  event->lane = take16(from, OPEN_LANE, -1);
  event->flags = take_flags(from, OPEN_FLAGS, 0);
  event->bytes = take64(from, OPEN_BYTES, -1);
  from->wrong |= event->on_code == BT_NONE;
}

static void mark(taker *from, bt_event *event, const uint8_t *record, size_t length) {
  switch (event->code) {
  case BT_STEP_BEGIN:
  case BT_STEP_END: event->step = take64(from, AT_MARK, 0); break;
  case BT_INSTANT:
    take_text(from, event);
    event->microbatch = take32(from, INSTANT_MICROBATCH, -1);
    event->chunk = take16(from, INSTANT_CHUNK, -1);
    break;
  case BT_COUNTER: counter(from, event); break;
  case BT_GROUP: group(from, event); break;
  case BT_META: meta(from, event, record, length); break;
  case BT_CLOCK: event->real = take64(from, AT_MARK, 0); break;
  case BT_ANCHOR:
    event->real = take64(from, AT_MARK, 0);
    event->number = take_u64(from, ANCHOR_BASE);
    break;
  case BT_OPEN: open_span(from, event); break;
  case BT_DROPPED:
    event->duration = take(from, AT_DURATION, 0, 0, INT64_MAX);
    event->number = take_u64(from, DROPPED_COUNT);
    event->ring = take_u32(from, DROPPED_RING, 0);
    break;
  case BT_HEARTBEAT: event->number = take_u64(from, AT_MARK); break;
  case BT_END_OF_STREAM: take_text(from, event); break;
  default: break;
  }
}

/* ---- the block ---- */

typedef struct block_state {
  const bt_block *block;
  bt_context context;
  int64_t previous_end;
} block_state;

/* Codes that this program does not know keep the chain of starts going: those of spans have a duration. */
static bt_status skip_unknown(block_state *state, taker *from, int64_t code) {
  int64_t start = bt_wrap_add(state->previous_end, take64(from, AT_START, 0));
  bool is_span = code > BT_NONE && code < BT_CODE_SPAN_LIMIT;
  int64_t duration = is_span ? take64(from, AT_DURATION, 0) : 0;
  state->previous_end = bt_wrap_add(start, duration);
  return from->wrong ? BT_DAMAGED : BT_AGAIN;
}

/* BT_OK: `event` holds the record. BT_AGAIN: one to skip. BT_DAMAGED. */
static inline bt_status make_event(block_state *state, const record_user *user, const uint8_t *record, size_t length,
                                   bt_event *event) {
  taker from = {.user = user};
  if (!user->open || (user->integers & 1) == 0) return BT_DAMAGED;
  int64_t code = user->value[AT_CODE];
  if (code < 0 || code > UINT8_MAX || !bt_code_is_known((unsigned)code)) return skip_unknown(state, &from, code);
  bt_event_init(event, (bt_code)code);
  event->start = bt_wrap_add(state->previous_end, take64(&from, AT_START, 0));
  if (bt_code_is_span((unsigned)code))
    span(&from, event, &state->context);
  else
    mark(&from, event, record, length);
  if (from.wrong || event->start < state->block->min_start || event->start > state->block->max_end ||
      (uint64_t)event->duration > (uint64_t)state->block->max_end - (uint64_t)event->start)
    return BT_DAMAGED;
  state->previous_end = bt_code_is_span((unsigned)code) ? bt_event_end(event) : event->start;
  return BT_OK;
}

bt_status bt_block_records(const bt_block *block, bt_record_fn *fn, void *context_) {
  block_state state;
  state.block = block;
  state.previous_end = 0;
  bt_context_begin(&state.context);
  struct record_context context;
  bt_event event;
  size_t offset = 0;
  for (uint32_t i = 0; i < block->count; i++) {
    size_t begin = offset;
    if (offset >= block->payload_length) return BT_DAMAGED;
    record_begin(&context.user);
    if (!plain_record(&context.user, block->payload, block->payload_length, &offset)) {
      record_init(&context);
      if (record_execute(&context, (const char *)block->payload, block->payload_length, &offset) != 1)
        return BT_DAMAGED;
    }
    bt_status status = make_event(&state, &context.user, block->payload + begin, offset - begin, &event);
    if (status == BT_OK)
      status = fn(context_, block->first + i, &event);
    else if (status == BT_AGAIN)
      status = BT_OK;
    if (status != BT_OK) return status;
  }
  return offset == block->payload_length ? BT_OK : BT_DAMAGED;
}
