/* The state of the view: what part of which run is on the screen, and how. Plain data, changed by navigate.c and by the
 * program that feeds it, read by the drawing. All times are on the aligned clock (raw time plus bt_rank.offset_ns).
 */
#ifndef BT_SCREEN_VIEW_H
#define BT_SCREEN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/trace.h"
#include "tui/analysis/accounting.h"
#include "tui/analysis/gaps.h"
#include "tui/analysis/lod.h"
#include "tui/analysis/lod_memo.h"
#include "tui/analysis/plan.h"
#include "tui/screen/ages.h"
#include "tui/screen/grid.h"
#include "tui/screen/keys.h"
#include "tui/screen/rows.h"
#include "tui/screen/steps.h"
#include "tui/screen/theme.h"

typedef enum bt_page { BT_PAGE_TIMELINE, BT_PAGE_STAGES, BT_PAGE_STEPS, BT_PAGE_MATRIX, BT_PAGE_COUNT } bt_page;

typedef struct bt_matrix bt_matrix; /* matrix.h */

typedef enum bt_matrix_mode { BT_MATRIX_COMPUTE, BT_MATRIX_BUBBLE, BT_MATRIX_DELAY, BT_MATRIX_MODES } bt_matrix_mode;

/* What is laid over the rows: nothing, the plan that was given, the run's own order in usual times. */
typedef enum bt_plan_mode { BT_PLAN_NONE, BT_PLAN_GIVEN, BT_PLAN_THEORY } bt_plan_mode;

typedef enum bt_scope { BT_SCOPE_STEP, BT_SCOPE_STEPS, BT_SCOPE_VISIBLE, BT_SCOPE_COUNT } bt_scope;

enum {
  BT_SCOPE_STEPS_COUNT = 10,
  BT_VIEW_MIN_COLUMNS = 40,
  BT_VIEW_MIN_ROWS = 10,
  BT_VIEW_HISTORY = 32,
  BT_VIEW_QUERY = 80,
  BT_VIEW_ROW_HEIGHT = 5 /* cells at most */
};

/* What the accounting says of one step. */
typedef struct bt_verdict {
  bool known;
  int64_t step;
  double bubble, theory; /* 0..1; theory: of the schedule's own order; NAN unknown */
  char schedule[32]; /* as it was recognised; empty: it was not */
  char cause[128]; /* what costs most, in words: "stage 5 computes 18 % longer than its peers" */
  char cost[128]; /* ": costs 12.3 ms a step (4.1 %), 64 % of the excess" */
} bt_verdict;

/* What the program knows of the run beside the trace. */
typedef struct bt_feed {
  char name[128]; /* of the run */
  bool live; /* followed, and not all lives have ended or died */
  bool loading; /* a first pass over the files is going on */
  bool indexing;
  bool gone; /* followed and not ended, but those that wrote it are no more */
  int64_t now; /* real time of day, ns; INT64_MIN: the run is not followed */
  char newest[16]; /* time of day of the newest record, for a person; empty: unknown */
  size_t problems; /* as `info` lists them */
  char problem[256]; /* the first one, for a person */
  bool unaligned; /* ranks of several hosts whose clocks could not be brought together */
  bt_verdict verdict;
  const bt_accounting *account; /* of the verdict's step, NULL: none yet; borrowed like the trace */
  bool gaps_refused; /* those steps have too many spans for it */
  bool plan_given; /* there is one */
  const bt_plan_overlay *plan; /* of view->plan and the steps that bt_view_wants_plan names, NULL: none yet; borrowed */
  const char *plan_problem; /* why there is none; empty: nothing is wrong; borrowed */
  const bt_gaps *gaps; /* of the steps that bt_view_wants_gaps names, NULL: none yet; borrowed likewise */
} bt_feed;

/* Steps whose gaps are to be told apart. */
typedef struct bt_gaps_wanted {
  bool wanted;
  bool bounded; /* false: the run has no step marks */
  int64_t first_step, last_step;
} bt_gaps_wanted;

typedef struct bt_plan_wanted {
  bt_plan_mode mode;
  bt_gaps_wanted steps;
} bt_plan_wanted;

typedef struct bt_cursor {
  int32_t stage, rank; /* rank: of a lane row; -1: the stage's own row */
  bt_lane lane;
  int64_t time;
} bt_cursor;

typedef struct bt_place { /* for history */
  int64_t origin, width;
  bt_cursor cursor;
  int32_t replica;
} bt_place;

typedef struct bt_view {
  /* the trace, borrowed: set before every call, valid while the caller holds its lock */
  const bt_trace *trace;
  const bt_lod_set *lods;
  bt_feed feed;
  bt_theme theme;

  /* the picture */
  int64_t origin, width; /* ns at the left edge, ns a column; width 0: not placed yet */
  bool placed; /* by a whole step, the whole run, or by hand: from then on it moves on keys and follow only */
  bool fitted; /* the picture was made to fit the screen: so it does after a resize */
  bool follow; /* keep the newest data at the right edge */
  bool paused;
  bool parked; /* the picture followed on and left the cursor behind: it shows again with the next move */
  bool absolute; /* times on the axis since the run's start */
  bool show_why; /* bubbles have the colour of their class */
  bt_plan_mode plan;
  bt_scope scope;
  int32_t replica;
  bt_cursor cursor;
  int32_t *open_stages; /* rows that are opened into lanes */
  size_t open_count, open_capacity;
  size_t top_row;

  /* two runs, one above the other (pair.h); `other` is set by the program before the first frame */
  struct bt_view *other; /* the second run's, borrowed; NULL: one run, or this is the second one */
  char sign; /* 'A', 'B': of the run among the two; 0: there is one */
  bool unfocused; /* the cursor is in the other run */
  bool by_stage; /* rows stage by stage, otherwise run by run */
  bool realign; /* moved to a step, at which the other run is to be aligned */
  struct bt_pair *pair; /* of the first run's view */
  bool twinned; /* the other run's op that is under the cursor: it is shown here too */
  size_t twin_rank, twin_span;
  char note[96]; /* of the op under the cursor, for the line that tells of it; empty: none */

  /* other views than the timeline: what is selected in each */
  bt_page page;
  bool page_fresh; /* just come to: the selection goes to where the timeline's cursor is */
  size_t page_at[BT_PAGE_COUNT], page_top[BT_PAGE_COUNT], page_column;
  bt_matrix_mode matrix_mode; /* what its cells are coloured by */

  /* replay */
  bool replaying;
  int64_t clock; /* nothing after it is shown; INT64_MAX when not replaying */
  double speed;

  /* keys */
  unsigned count; /* a count being typed, 0 none */
  bool help;
  int help_top;
  bool asking; /* a line is being typed: a place to go to, or what to search for */
  bool asking_place;
  char place[BT_VIEW_QUERY], query[BT_VIEW_QUERY];
  char message[200];
  bool quit, suspend, redraw;
  bool mouse; /* wanted from the terminal */
  bool save_picture, save_text; /* for the program, which clears them */
  bool choosing; /* what to write is being asked for */
  bool save_json; /* like save_picture */
  bool marked;
  int64_t mark; /* a time that others are measured from: the range goes to the cursor, ... */
  bool range_fixed; /* ... or to here: it was dragged with the mouse */
  int64_t range_end;
  bool dragging; /* the button is down, since it was over `mark` */
  bt_place history[BT_VIEW_HISTORY], undone[BT_VIEW_HISTORY]; /* where jumps began, and where going back did */
  size_t history_count, undone_count;

  /* derived, kept between frames */
  bt_rows rows;
  bt_steps steps;
  bt_ages ages;
  int64_t first, last; /* extent of the replica's data, `last` cut at the clock; first > last: none */
  int64_t drawn_origin, drawn_width; /* of the frame before, for the scroll hint */
  size_t drawn_top;
  bt_matrix *matrix;
  /* layout of the last frame */
  int screen_rows, screen_columns;
  int left, columns; /* the timeline: first column, how many */
  int area_top, area_rows;
  int height, spacing; /* of a row; what is left between rows shows the plan, then messages */
  int plan_lines; /* of that: 1 or 0 */
  /* scratch of the drawing */
  bt_lod_memo *memos; /* one a line of the screen */
  size_t memo_count;
  const bt_lod_sum *sums; /* of the row that is being drawn */
  uint8_t *eighths; /* 8 a column */
  size_t scratch_columns;
  bt_lod_segments segments;
} bt_view;

void bt_view_init(bt_view *view, const bt_theme *theme);
void bt_view_free(bt_view *view);

/* Brings rows, steps and extent up to the trace, places the picture at first, follows. Call before keys and drawing. */
bt_status bt_view_update(bt_view *view, int screen_rows, int screen_columns);

/* The end of the visible range. */
int64_t bt_view_end(const bt_view *view);
/* The column of a time, clamped to [-1, columns]. */
int bt_view_column(const bt_view *view, int64_t time);
/* The row of the cursor, or NULL. */
const bt_row *bt_view_row(const bt_view *view);
/* Whether the cursor is to be seen in that row. */
bool bt_view_is_here(const bt_view *view, const bt_row *row);
/* The range of time that is chosen, by a mark or the mouse. False: none, or it is empty. */
bool bt_view_range(const bt_view *view, int64_t *from, int64_t *to);
/* Takes mark and range away. */
void bt_view_clear_range(bt_view *view);
/* Opens a stage's row into its lanes, or closes it. */
void bt_view_open(bt_view *view, int32_t stage, bool open);
/* Advances the replay clock by real time. True when something changed. */
bool bt_view_tick(bt_view *view, int64_t elapsed);

__attribute__((format(printf, 2, 3))) void bt_view_say(bt_view *view, const char *format, ...);

/* The range over which bubble rates are taken now; false: there is none yet. `label` says which. */
typedef struct bt_rate {
  double bubble; /* 0..1 */
  uint64_t total; /* ranks x time */
  uint64_t busy[BT_LOD_SLOTS]; /* of the compute lane, by kind */
} bt_rate;
/* The newest whole step, by its number. False: there is none. */
bool bt_view_last_step(bt_view *view, int64_t *id);
/* Of one stage, or of all (stage < 0). False: no data. */
bool bt_view_rate(bt_view *view, int32_t stage, bt_rate *rate);
const char *bt_view_scope_label(bt_view *view);
/* What the feed's gaps, and its plan, should be of now. */
bt_gaps_wanted bt_view_wants_gaps(bt_view *view);
bt_plan_wanted bt_view_wants_plan(bt_view *view);
/* Heights of rows, so that `rows` of them fit into `lines` as well as they can. */
void bt_view_set_heights(bt_view *view, size_t rows, int lines);
/* Where the time of the last step went, if that is known and what the screen is about; NULL otherwise. */
const bt_accounting *bt_view_account(bt_view *view);

#endif
