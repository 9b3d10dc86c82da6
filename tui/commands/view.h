/* Parts of `bubbletop view`: the thread that reads the run, and the loop that shows it. */
#ifndef BT_COMMANDS_VIEW_H
#define BT_COMMANDS_VIEW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "formats/run.h"
#include "tui/analysis/accounting.h"
#include "tui/analysis/lod.h"
#include "tui/screen/view.h"

typedef struct bt_view_options {
  const char *const *paths; /* of the run, or of the first of two */
  size_t path_count;
  const char *second; /* the other run; NULL: there is one */
  bool replay;
  double speed;
  const char *script, *save_screen;
  bool attributes;
  int rows, columns; /* of a saved screen */
  bool utf8, ascii, light, dark;
  const bt_plan_source *plan; /* borrowed; NULL: none */
  int fps;
  long bytes_per_second; /* at most about so many to the terminal; 0: no limit */
} bt_view_options;

enum {
  BT_FEEDER_MOST_SPANS = 4000000 /* that the accounting looks at while somebody waits */
};

/* Reads a run in a thread of its own, so that a slow file system never holds up a key. Everything below `mutex` belongs to
 * whoever holds it. */
typedef struct bt_feeder {
  bt_run *run; /* the thread's alone */
  pthread_t thread;
  bool started;
  int wake[2]; /* a byte is written after every change; non-blocking */
  atomic_bool stop;
  pthread_mutex_t mutex;
  bt_lod_set lods;
  bool loading, indexing, ended;
  bool failed;
  bt_error error;
  bool gone; /* no life has ended in good order, none lives */
  int32_t *watched; /* ranks on the screen, NULL: all */
  size_t watched_count;
  bool watch_changed;
  size_t problems;
  char problem[256];
  bool step_known; /* the step that the screen shows as the last one: it is accounted for when there is time */
  int64_t step;
  bool unaligned;
  bt_verdict verdict;
  bt_accounting *account; /* of the verdict's step, NULL none */
  bt_gaps_wanted gaps_wanted; /* by the screen */
  bt_gaps *gaps; /* NULL none */
  bool gaps_refused; /* too many spans */
  int64_t accounted_at, account_cost; /* ms; the thread's alone, like what follows */
  bt_account_clock clock;
  uint64_t aligned_spans; /* of the trace when the clocks were aligned last */
  size_t aligned_hosts;
  const bt_plan_source *plan_source; /* borrowed, NULL none */
  bt_plan_wanted plan_wanted; /* by the screen */
  bt_plan_overlay *plan; /* NULL none */
  bt_plan_mode plan_mode; /* of it, or of the problem */
  char plan_problem[256]; /* why there is none */
  uint64_t plan_generation; /* of the trace when it was laid; the thread's alone, like plan_tried */
  bt_plan_wanted plan_tried;
  uint64_t gaps_generation; /* of the trace when gaps were looked for last */
  bt_gaps_wanted gaps_tried;
} bt_feeder;

bt_status bt_feeder_open(bt_feeder *feeder, const char *const *paths, size_t path_count, bool follow, bt_error *error);
/* Starts the thread; it takes no signals. */
bt_status bt_feeder_start(bt_feeder *feeder, bt_error *error);
/* Reads all there is now, without a thread. */
bt_status bt_feeder_read_all(bt_feeder *feeder, bt_error *error);
/* Accounts for the step that the screen wants to know of, unless it has been. */
void bt_feeder_account(bt_feeder *feeder);
/* Chooses how many steps before those that are accounted for tell what is usual: as many as cost little. Returns how many
 * spans will be looked at. */
uint64_t bt_feeder_choose_context(const bt_trace *trace, bt_accounting_options *options);
/* Finds the gaps that the screen wants, unless it has them. */
void bt_feeder_find_gaps(bt_feeder *feeder);
/* Lays the plan over the steps that the screen wants, unless it has been. */
void bt_feeder_lay_plan(bt_feeder *feeder);
/* Takes what the screen wants to know. */
void bt_feeder_listen(bt_feeder *feeder, bt_view *view);
/* Stops the thread. If it hangs in the file system, it is left behind and nothing is freed. */
void bt_feeder_close(bt_feeder *feeder);

/* A run that is shown. */
typedef struct bt_viewed {
  const char *const *paths;
  size_t path_count;
  bt_feeder feeder;
  bt_view view;
} bt_viewed;

/* The one run or two that are shown. */
typedef struct bt_viewed_runs {
  bt_viewed runs[2];
  size_t count;
} bt_viewed_runs;

/* Opens what the options name, without views yet. What is open after a failure is to be closed too. */
bt_status bt_viewed_open(bt_viewed_runs *all, const bt_view_options *options, bool follow, bt_error *error);
/* Makes the views. */
bt_status bt_viewed_start(bt_viewed_runs *all, const bt_view_options *options, const bt_theme *theme);
/* The locks of all feeders, in order. */
void bt_viewed_lock(bt_viewed_runs *all);
void bt_viewed_unlock(bt_viewed_runs *all);
/* Gives the views what the feeders have; needs the locks. */
void bt_viewed_feed(bt_viewed_runs *all, const bt_view_options *options);
void bt_viewed_close(bt_viewed_runs *all);

/* Writes what a key asked for, the visible range as a picture or the screen as text, and says where. */
void bt_view_save(bt_view *view, const bt_grid *grid);

/* The interactive view. Returns the exit status. */
int bt_view_interactive(const bt_view_options *options);
bt_theme bt_view_theme(const bt_view_options *options);

#endif
