/* What the files of the run reader share: run.c (opening, polling), run_scan.c (directories, new files), run_merge.c
 * (records -> trace), run_ring.c (live rings), problems.c. Private to formats. */
#ifndef BT_FORMATS_RUN_PRIVATE_H
#define BT_FORMATS_RUN_PRIVATE_H

#include <sys/types.h>

#include "formats/ring_file.h"
#include "formats/run.h"
#include "formats/seen.h"
#include "formats/stream.h"

enum {
  BT_RUN_MAX_FILES = 1 << 20, /* more are left out and reported */
  BT_RUN_MAX_REJECTED = 4096
};

/* Where a file stands in its rank: by life, the recovered file behind the life's segments. */
typedef struct bt_file_key {
  int32_t rank;
  uint32_t life;
  bool recovered;
  uint32_t segment;
} bt_file_key;

typedef struct bt_run_stream {
  bt_file_key key;
  bt_stream stream;
  bool done; /* nothing more will come of it */
  bool ended; /* holds the end record */
  bool stale; /* torn, and has not grown for long */
  bool vanished; /* its name is gone or leads to another file */
  char trouble[256]; /* why the last read failed, "" when it did not */
  uint64_t bad_blocks; /* whose records contradict them */
  uint64_t refused; /* records that make no sense or exceed a limit */
  struct bt_run_stream *newer, *older; /* list of open descriptors by use */
} bt_run_stream;

typedef struct bt_run_life {
  uint32_t life;
  const bt_header *header; /* of one of its streams; NULL: only damaged ones yet */
  uint8_t marker[BT_MARKER_BYTES];
  bool accepted; /* earlier lives of the rank are over: its records are taken */
  bool second_writer; /* an earlier life lives on beside it: its records are not taken */
  int64_t last; /* of its records, INT64_MIN: none yet */
  int64_t cutoff; /* records that end behind it are not taken: a later life has begun */
  bool ended, has_first, has_recovered;
  int64_t discovered;
  uint64_t kept_out; /* records not taken because of two writers */
  bt_seen seen;
  bt_ring_tap *ring; /* NULL: not open */
  uint64_t *ring_next; /* per ring, the slot to read next */
  size_t ring_count;
  bool ring_dead; /* the owner is gone */
  uint64_t ring_records; /* records that only the dead ring holds */
  int64_t ring_retry;
} bt_run_life;

typedef struct bt_run_rank {
  int32_t rank;
  bt_run_stream **streams; /* sorted by key */
  size_t stream_count, stream_capacity;
  size_t first_open; /* streams before it are done */
  bt_run_life *lives; /* sorted by number */
  size_t life_count, life_capacity;
  int64_t next_look, rare; /* when to poll, and (not watched) how long after that again */
  int64_t reopened; /* when a quiet remote file was opened again last */
  bool over; /* every life has ended and all is read */
} bt_run_rank;

typedef struct bt_known_name { /* a file that needs no second look */
  uint64_t hash;
  ino_t inode;
} bt_known_name;

typedef struct bt_run_directory {
  char *path;
  bt_known_name *known; /* sorted by hash */
  size_t known_count, known_capacity;
  int64_t changed; /* mtime, real ns, as of the last scan */
  int64_t scanned, forced; /* CLOCK_MONOTONIC of the last scan, of the last one that read all names */
  bool is_file, missing, scanned_once, remote;
  size_t entries; /* names seen in it */
} bt_run_directory;

typedef struct bt_rejected { /* a file that could not be taken */
  char *path;
  bt_problem_kind kind;
  bt_status status;
  char text[256];
  int32_t rank;
  int64_t retry; /* INT64_MAX: never */
  size_t directory;
} bt_rejected;

struct bt_run {
  bt_run_options options;
  bt_trace *trace;
  bt_io io;
  bt_run_directory *directories;
  size_t directory_count;
  bt_run_rank *ranks; /* sorted by rank */
  size_t rank_count, rank_capacity, cursor;
  size_t file_count;
  bt_rejected *rejected;
  size_t rejected_count, rejected_capacity, rejected_more;
  char run_id[64];
  bool run_id_known, limit_reached;
  size_t mixed_files;
  char mixed_ids[160];
  int32_t *watched;
  size_t watched_count;
  bool watch_all;
  bt_run_stream *newest, *oldest; /* open descriptors by use */
  size_t open_count, open_limit;
  uint64_t bytes; /* read by polls so far */
  char boot_id[64];
  uint64_t time_namespace;
  bt_problem *problems;
  size_t problem_count, problem_capacity;
  bt_file_info *files;
  size_t files_capacity;
};

int64_t bt_run_now(void); /* CLOCK_MONOTONIC */
int64_t bt_run_real_now(void); /* CLOCK_REALTIME */

static inline void bt_run_lock(const bt_run *run) {
  if (run->options.lock != NULL) run->options.lock(run->options.context);
}
static inline void bt_run_unlock(const bt_run *run) {
  if (run->options.unlock != NULL) run->options.unlock(run->options.context);
}

/* run_scan.c: looks for new files; `found` counts the streams that were added. BT_OK or an error of memory or limits. */
bt_status bt_run_scan(bt_run *run, int64_t now, size_t *found, bt_error *error);
bool bt_run_parse_name(const char *name, bt_file_key *key);
bt_run_rank *bt_run_find_rank(bt_run *run, int32_t rank);
bt_run_life *bt_run_find_life(bt_run_rank *rank, uint32_t life);

/* run_merge.c: takes what a stream has, at most `budget` bytes (counted down). BT_OK, BT_AGAIN, or an error. */
bt_status bt_run_read_stream(bt_run *run, bt_run_rank *rank, bt_run_life *life, bt_run_stream *stream, uint64_t *budget,
                             int64_t now, bt_error *error);
/* Where records go while one stream or ring is read. */
typedef struct bt_merge {
  bt_run *run;
  bt_rank *rank;
  bt_run_life *life;
  bt_run_stream *stream; /* NULL: a ring */
  bt_seen_ring *seen;
  bool filter; /* some records of the block are known */
  bool cut; /* some may lie behind the life's cutoff */
  bool locking; /* take the lock for each block */
  uint64_t next, taken;
} bt_merge;
/* A bt_ring_fn over a bt_merge. */
bt_status bt_run_merge_ring(void *context, uint32_t ring, uint64_t number, const bt_event *event);
/* Takes over from the trace when the life's newest record was. */
void bt_run_note_last(bt_run_life *life, bt_rank *rank);
/* Settles the rank's tracks as far as its records allow. */
bt_status bt_run_settle(bt_run *run, bt_rank *rank, bool over);
/* Closes a stream's descriptor and takes it out of the list of open ones. */
void bt_run_let_go(bt_run *run, bt_run_stream *stream);
/* The stream has an open descriptor: it is the last one to be closed when there are too many. */
void bt_run_touch(bt_run *run, bt_run_stream *stream);

/* run_ring.c: reads the rings of an accepted life, if they are on this host. `taken` counts up. Before its files, so that
 * no record can move from the one to the other unseen. */
bt_status bt_run_read_ring(bt_run *run, const bt_run_rank *rank, bt_run_life *life, int64_t now, uint64_t *taken);
void bt_run_close_ring(bt_run_life *life);
/* True when the clock and the kernel of this life are the ones of this process. */
bool bt_run_is_local(const bt_run *run, const bt_run_life *life);
/* True when the life has not ended and its process lives, as far as can be told. */
bool bt_run_life_alive(const bt_run *run, const bt_run_life *life);
/* Time since its newest record by the best clock there is; INT64_MAX when nothing is known. */
int64_t bt_run_life_age(const bt_run *run, const bt_run_life *life);

#endif
