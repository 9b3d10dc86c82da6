/* Inside the accounting: the run as flat arrays, built once from a trace and then read (and, for theory, replayed).
 *
 * Each rank owns a slice of every array, in order of start. Times are aligned. Passes fill it in this order:
 * ops (spans -> items), steps (items -> visits, windows), match (sends with receives, members of collectives),
 * waits (producers, E and R of every op), classify (every ns of the interval -> a class).
 * Everything here belongs to the bt_model and goes with bt_model_free.
 */
#ifndef BT_ANALYSIS_ACCOUNTING_MODEL_H
#define BT_ANALYSIS_ACCOUNTING_MODEL_H

#include "formats/array.h"
#include "tui/analysis/accounting.h"

enum { BT_NO_INDEX = -1 };

typedef struct bt_model_slice {
  int32_t first, count;
} bt_model_slice;

/* A compute span. */
typedef struct bt_model_op {
  int64_t start, end;
  int32_t rank; /* index of its rank in the model */
  int32_t visit;
  int32_t microbatch, microbatch_b;
  int32_t vstage, vstage_b; /* -1: not known */
  int16_t chunk, chunk_b;
  uint8_t kind, flags;
  int8_t stream;
  bool waits; /* for a producer on another rank */
  bool e_known, r_known; /* false: the data cannot tell */
  /* what it waited for: latest end of its cross-rank producers, when its data was there; INT64_MIN: nothing to wait for */
  int64_t e, r;
  int64_t send_until, collective_until; /* ends of its gates on sends and on collectives; INT64_MIN none */
  int32_t producer; /* the latest of its producers, BT_NO_INDEX */
  int32_t messages[2]; /* its receives: of the forward or only half, of an FB's backward half; BT_NO_INDEX none */
} bt_model_op;

/* A send or a receive. */
typedef struct bt_model_p2p {
  int64_t start, end;
  int64_t bytes, sequence;
  uint64_t group;
  int32_t rank, peer; /* indexes; peer BT_NO_INDEX: not in the trace */
  int32_t microbatch;
  int32_t vstage; /* of its own chunk */
  int32_t match; /* its other half */
  int32_t visit;
  int64_t transfer; /* T of its link and size; BT_UNKNOWN without a match */
  int64_t moved; /* as long as both sides were there; BT_UNKNOWN likewise */
  uint8_t kind, flags;
} bt_model_p2p;

typedef struct bt_model_collective {
  int64_t start, end;
  int64_t arrived; /* start of its last member; BT_UNKNOWN: not all members are known */
  int64_t sequence, bytes;
  uint64_t group; /* identity of its member list, 0 none */
  int32_t rank, members, visit;
  uint32_t call; /* equal for the members of one collective whose members are all known; 0 otherwise */
  uint8_t kind, flags, domain;
  int8_t stream;
} bt_model_collective;

typedef struct bt_model_gate {
  int64_t start, end;
  uint8_t on_code, flags;
  bool inside; /* an op: idle time of that op */
} bt_model_gate;

/* A rank in a step. */
typedef struct bt_model_visit {
  int64_t first, last; /* extent of its pipeline ops; first > last: none */
  int64_t begin, end; /* marks; BT_UNKNOWN */
  int64_t last_span; /* latest end of any span */
  int64_t first_b, last_f; /* start of its first B/BW/FB, end of its last F/FB; BT_UNKNOWN none */
  int64_t op_ns; /* sum of its pipeline ops */
  int64_t id, epoch; /* of its step; epoch counts restarts, so that a repeated number is another step */
  int32_t step, rank;
  int32_t f, b, w; /* ops: forward and backward halves, weight gradients */
  bool whole;
  bool comm_unknown; /* some message or collective lost its GPU time */
} bt_model_visit;

/* A piece of time after flattening: pieces of one rank do not overlap. */
typedef struct bt_model_piece {
  int64_t start, end;
  int32_t index; /* of the op, collective or message it is a piece of */
} bt_model_piece;

/* A piece of an op; collectives cut out of it have their class here too. */
typedef struct bt_model_segment {
  int64_t start, end;
  int64_t busy_before; /* compute of the rank before `start` */
  int32_t op;
  uint8_t class;
} bt_model_segment;

typedef struct bt_model_rank {
  int32_t rank, stage, replica, host;
  int32_t row; /* of its stage, in the results */
  int32_t member; /* identity of its (tp, cp) place */
  int32_t usual_f, usual_b, usual_w; /* commonest numbers of ops in a step */
  int64_t wall; /* clocks that are not aligned: what brings raw times near those of other hosts; 0: bt_rank_time does */
  bt_model_slice ops, p2p, collectives, gates, visits, segments;
  bt_model_slice collective_pieces, send_pieces;
  int64_t from, to; /* raw: spans and marks that begin outside [from, to) are not looked at */
  int64_t anchor; /* raw start of its middle op */
  bool placed; /* it has ops, at a time near those of other ranks */
  bool gated; /* has gates: they alone say what blocks */
  bool host_timed_p2p; /* on a GPU run, and not for once */
  bool host_timed_collectives;
  const bt_rank *source;
} bt_model_rank;

typedef struct bt_model_window {
  int64_t start, end; /* start > end: no op */
} bt_model_window;

typedef struct bt_model_step {
  int64_t id;
  int64_t begin, end; /* first begin mark, last end mark; BT_UNKNOWN */
  int64_t last_span;
  bool whole, warmup, reported, rated;
} bt_model_step;

#define BT_ARRAY(type, name)                                                                                           \
  type *name;                                                                                                          \
  size_t name##_count, name##_capacity

typedef struct bt_model {
  const bt_trace *trace;
  bt_model_rank *ranks;
  int32_t rank_count, replica_count, stage_count, virtual_stages;
  BT_ARRAY(bt_model_op, ops);
  BT_ARRAY(bt_model_p2p, p2p);
  BT_ARRAY(bt_model_collective, collectives);
  BT_ARRAY(bt_model_gate, gates);
  BT_ARRAY(bt_model_visit, visits);
  BT_ARRAY(bt_model_segment, segments);
  BT_ARRAY(bt_model_piece, collective_pieces);
  BT_ARRAY(bt_model_piece, send_pieces);
  bt_model_step *steps;
  int32_t step_count;
  bt_model_window *windows; /* [replica * step_count + step] */
  bool gpu; /* some span is timed on a GPU */
  bool aligned;
  bool complete; /* every stage of every replica is there */
  int64_t start, end; /* the interval */
  int64_t anchor; /* a time of the run; once `placed` */
  bool placed;
  bt_accounting *out; /* warnings go here */
} bt_model;

/* A new element at the end of an array of the model, not initialised; NULL: memory is short. */
#define BT_PUSH(model, name)                                                                                           \
  (bt_array_reserve(&(model)->name, &(model)->name##_capacity, (model)->name##_count + 1, sizeof *(model)->name)       \
       ? &(model)->name[(model)->name##_count++]                                                                       \
       : NULL)

void bt_model_free(bt_model *model);

/* How far from a rank's middle op times are believed, ns (52 days): sums of what is nearer cannot overflow in practice. */
#define BT_REACH (INT64_C(1) << 52)

/* Whether a raw time of the rank is near enough to its ops to be one. */
static inline bool bt_model_believes(const bt_model_rank *rank, int64_t raw) {
  int64_t distance;
  return rank->placed && !__builtin_sub_overflow(raw, rank->anchor, &distance) && distance <= BT_REACH &&
         distance >= -BT_REACH;
}

/* The model's time of a raw time of the rank. Unknown ends of time stay what they are. */
static inline int64_t bt_model_time(const bt_model_rank *rank, int64_t raw) {
  if (raw == INT64_MIN || raw == INT64_MAX) return raw;
  return rank->wall != 0 ? raw + rank->wall : bt_rank_time(rank->source, raw);
}

/* All passes below up to the segments, with the warnings they have to give in `out`; NULL options: all steps. Errors as of
 * bt_accounting_run. In any case the model is the caller's (bt_model_free), and `out` too (bt_accounting_free). */
bt_status bt_model_build(bt_model *model, const bt_trace *trace, const bt_accounting_options *options, bt_error *error);

/* The passes. BT_OK or BT_ERR_NOMEM. */
bt_status bt_model_ops(bt_model *model, const bt_accounting_options *options);
bt_status bt_model_steps(bt_model *model, const bt_accounting_options *options);
bt_status bt_model_choose(bt_model *model, const bt_accounting_options *options); /* the end of it; or BT_ERR_EMPTY */
bt_status bt_model_match(bt_model *model);
bt_status bt_model_derive(bt_model *model); /* in the midst of it: once messages with numbers are joined */
bt_status bt_model_waits(bt_model *model);
bt_status bt_model_segments(bt_model *model);

/* Cuts spans, sorted by start, into pieces that do not overlap: where several are active the latest begun wins. `pieces`
 * has room for twice `count`, `stack` for `count`. Returns how many pieces. */
size_t bt_flatten(const bt_model_piece *spans, size_t count, bt_model_piece *pieces, int32_t *stack);

/* Compute of a rank before `time`. */
int64_t bt_model_busy_until(const bt_model *model, int32_t rank, int64_t time);

/* The union of the windows of a replica's reported (or only rated) steps, clipped to the interval: sorted, disjoint.
 * `parts` has room for step_count. Returns how many. */
int32_t bt_model_parts(const bt_model *model, int32_t replica, bool rated, bt_model_window *parts);

/* Delivers the interval of a rank in pieces, in order, without overlap or hole. `op`: the op that runs, or the one that
 * the gap leads to; BT_NO_INDEX none. */
typedef void bt_class_fn(void *context, bt_class class, int64_t start, int64_t end, int32_t op);
void bt_model_classify(const bt_model *model, int32_t rank, const bt_model_window *parts, int32_t part_count,
                       bt_class_fn *deliver, void *context);

/* A collective that ranks of several stages take part in: nobody passes before all have arrived. */
static inline bool bt_is_barrier(const bt_model_collective *collective) {
  return collective->domain == BT_DOMAIN_PP || collective->domain == BT_DOMAIN_WORLD;
}

bt_status bt_model_totals(bt_model *model);
bt_status bt_model_links(bt_model *model);
bt_status bt_model_theory(bt_model *model);
bt_status bt_model_schedule(bt_model *model);

/* Works out anew, from the times of the ops and collectives, the extents of visits and windows. */
void bt_model_extents(bt_model *model);

static inline bt_model_window *bt_model_window_of(const bt_model *model, int32_t replica, int32_t step) {
  return &model->windows[(size_t)replica * (size_t)model->step_count + (size_t)step];
}
/* Between ranks of one stage, of no known direction: no message of the pipeline (ring attention sends such). */
static inline bool bt_is_within_stage(const bt_model *model, const bt_model_p2p *p2p) {
  bool plain = p2p->kind == BT_SEND || p2p->kind == BT_RECV;
  return plain && p2p->peer != BT_NO_INDEX && model->ranks[p2p->peer].stage == model->ranks[p2p->rank].stage;
}
static inline int64_t bt_visit_start(const bt_model_visit *visit) {
  return visit->begin != BT_UNKNOWN ? visit->begin : visit->first;
}
static inline bool bt_kind_has_forward(unsigned kind) {
  return kind == BT_F || kind == BT_FB;
}
static inline bool bt_kind_has_backward(unsigned kind) {
  return kind == BT_B || kind == BT_BW || kind == BT_FB;
}

/* Adds a warning once per code: later ones add to its count (when both have one) and keep the first text. */
__attribute__((format(printf, 4, 5))) void bt_account_warn(bt_accounting *accounting, const char *code, int64_t count,
                                                           const char *format, ...);

#endif
