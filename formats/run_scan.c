/* Finding the files of a run: directories are read without a stat of every file, new streams are opened and put where
 * they belong. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/array.h"
#include "formats/run_private.h"

static const int64_t second = 1000000000;
enum { RETRY_SECONDS = 5, FORCED_SECONDS = 10, SETTLED_SECONDS = 2 };

typedef struct candidate { /* a name that was not seen before */
  char *path;
  bt_file_key key;
  bt_known_name known;
  bool named; /* the key is from the name */
  bt_run_stream *stream; /* once opened */
} candidate;

typedef struct candidates {
  candidate *items;
  size_t count, capacity;
} candidates;

static bool parse_number(const char **text, uint64_t *number) {
  const char *at = *text;
  uint64_t value = 0;
  if (*at < '0' || *at > '9') return false;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (value > UINT32_MAX) return false;
    value = value * 10 + (uint64_t)(*at - '0');
  }
  *text = at;
  *number = value;
  return true;
}

/* rank-RRRRR.L.S.msgpack or rank-RRRRR.L.recovered.msgpack. Numbers out of range make the rank -1. */
bool bt_run_parse_name(const char *name, bt_file_key *key) {
  static const char prefix[] = "rank-";
  uint64_t rank, life;
  uint64_t segment = 0;
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  name += sizeof prefix - 1;
  if (!parse_number(&name, &rank) || *name++ != '.' || !parse_number(&name, &life) || *name++ != '.') return false;
  bool recovered = strncmp(name, "recovered", 9) == 0;
  if (recovered) {
    name += 9;
  } else if (!parse_number(&name, &segment)) {
    return false;
  }
  if (strcmp(name, ".msgpack") != 0) return false;
  bool sound = rank <= BT_MAX_RANK && life <= UINT32_MAX && segment <= UINT32_MAX;
  *key = (bt_file_key){sound ? (int32_t)rank : -1, (uint32_t)life, recovered, (uint32_t)segment};
  return true;
}

static int compare_keys(const bt_file_key *a, const bt_file_key *b) {
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->life != b->life) return a->life < b->life ? -1 : 1;
  if (a->recovered != b->recovered) return a->recovered ? 1 : -1;
  return a->segment == b->segment ? 0 : a->segment < b->segment ? -1 : 1;
}

static int compare_candidates(const void *left, const void *right) {
  return compare_keys(&((const candidate *)left)->key, &((const candidate *)right)->key);
}

static uint64_t hash_name(const char *name) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (; *name != '\0'; name++) {
    hash = (hash ^ (uint8_t)*name) * 1099511628211u;
  }
  return hash;
}

static int compare_known(const void *left, const void *right) {
  const bt_known_name *a = left;
  const bt_known_name *b = right;
  if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
  return a->inode == b->inode ? 0 : a->inode < b->inode ? -1 : 1;
}

static bool is_known(const bt_run_directory *directory, const bt_known_name *name) {
  return directory->known_count > 0 &&
         bsearch(name, directory->known, directory->known_count, sizeof *name, compare_known) != NULL;
}

static bool add_candidate(candidates *list, const char *directory, const char *name, const bt_known_name *known) {
  if (!bt_array_reserve(&list->items, &list->capacity, list->count + 1, sizeof(candidate))) return false;
  candidate *fresh = &list->items[list->count];
  *fresh = (candidate){.known = *known, .key = {.rank = -1}};
  const char *base = strrchr(name, '/');
  fresh->named = bt_run_parse_name(base != NULL ? base + 1 : name, &fresh->key);
  if (directory == NULL) {
    fresh->path = strdup(name);
  } else if (asprintf(&fresh->path, "%s/%s", directory, name) < 0) {
    fresh->path = NULL;
  }
  if (fresh->path == NULL) return false;
  list->count++;
  return true;
}

/* True when nothing was added to the directory since the last scan. */
static bool is_unchanged(bt_run_directory *directory, int fd, int64_t now) {
  struct stat status;
  if (fstat(fd, &status) != 0) return false;
  int64_t changed = (int64_t)status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec;
  bool same =
      directory->scanned_once && changed == directory->changed && now - directory->forced < FORCED_SECONDS * second;
  /* a change within the clock's grain of the scan would not show in the time */
  directory->changed = bt_run_real_now() - changed < SETTLED_SECONDS * second ? INT64_MIN : changed;
  return same;
}

static bt_status list_directory(bt_run *run, bt_run_directory *directory, int64_t now, candidates *list,
                                bt_error *error) {
  DIR *stream = opendir(directory->path);
  if (stream == NULL) {
    directory->missing = errno == ENOENT;
    return bt_fail(error, BT_ERR_IO, "%s: %s", directory->path, strerror(errno));
  }
  directory->missing = false;
  directory->scanned = now;
  if (is_unchanged(directory, dirfd(stream), now)) {
    closedir(stream);
    return BT_OK;
  }
  directory->scanned_once = true;
  directory->forced = now;
  directory->entries = 0;
  bt_status status = BT_OK;
  const struct dirent *entry;
  while (status == BT_OK && (entry = readdir(stream)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    directory->entries++;
    bt_file_key key;
    bt_known_name known = {hash_name(entry->d_name), entry->d_ino};
    if (!bt_run_parse_name(entry->d_name, &key) || is_known(directory, &known)) continue;
    if (run->file_count + list->count >= BT_RUN_MAX_FILES) {
      run->limit_reached = true;
      break;
    }
    if (!add_candidate(list, directory->path, entry->d_name, &known)) status = BT_ERR_NOMEM;
  }
  closedir(stream);
  return status == BT_OK ? BT_OK : bt_fail(error, status, "memory is short");
}

static bt_status reject(bt_run *run, size_t directory, const char *path, int32_t rank, bt_problem_kind kind,
                        bt_status status, const char *text, int64_t retry) {
  for (size_t i = 0; i < run->rejected_count; i++) {
    if (strcmp(run->rejected[i].path, path) == 0) {
      run->rejected[i].retry = retry;
      return BT_OK;
    }
  }
  if (run->rejected_count == BT_RUN_MAX_REJECTED) {
    run->rejected_more++;
    return BT_OK;
  }
  if (!bt_array_reserve(&run->rejected, &run->rejected_capacity, run->rejected_count + 1, sizeof(bt_rejected))) {
    return BT_ERR_NOMEM;
  }
  bt_rejected *fresh = &run->rejected[run->rejected_count];
  *fresh = (bt_rejected){
      .path = strdup(path), .kind = kind, .status = status, .rank = rank, .retry = retry, .directory = directory};
  if (fresh->path == NULL) return BT_ERR_NOMEM;
  snprintf(fresh->text, sizeof fresh->text, "%s", text);
  run->rejected_count++;
  return BT_OK;
}

static void forget_rejected(bt_run *run, const char *path) {
  for (size_t i = 0; i < run->rejected_count; i++) {
    if (strcmp(run->rejected[i].path, path) != 0) continue;
    free(run->rejected[i].path);
    run->rejected[i] = run->rejected[--run->rejected_count];
    return;
  }
}

static void free_stream(bt_run *run, bt_run_stream *stream) {
  if (stream == NULL) return;
  bt_run_let_go(run, stream);
  bt_stream_close(&stream->stream);
  free(stream);
}

/* Opens one candidate; what cannot be taken is noted and leaves item->stream NULL. */
static bt_status open_candidate(bt_run *run, size_t directory, candidate *item, int64_t now) {
  bool follow = run->options.follow;
  if (item->named && item->key.rank < 0) {
    return reject(run, directory, item->path, -1, BT_PROBLEM_UNREADABLE, BT_ERR_LIMIT,
                  "its rank, life or segment number is out of range", INT64_MAX);
  }
  bt_run_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return BT_ERR_NOMEM;
  bt_error detail = {BT_OK, ""};
  bt_status status = bt_stream_open(&stream->stream, item->path, follow, &run->io, now, &detail);
  if (status != BT_OK) {
    free(stream);
    if (status == BT_ERR_NOMEM) return status;
    int64_t retry =
        follow && (status == BT_AGAIN || status == BT_ERR_IO) ? now + RETRY_SECONDS * second / 5 : INT64_MAX;
    const char *text = status == BT_AGAIN ? "it ends inside its header" : detail.text;
    bt_problem_kind kind = status == BT_ERR_VERSION ? BT_PROBLEM_VERSION : BT_PROBLEM_UNREADABLE;
    return reject(run, directory, item->path, item->key.rank, kind, status == BT_AGAIN ? BT_ERR_FORMAT : status, text,
                  retry);
  }
  const bt_header *header = &stream->stream.header;
  if (!stream->stream.header_damaged && header->rank >= 0 && header->rank <= BT_MAX_RANK) {
    item->key = (bt_file_key){header->rank, header->life, header->recovered != 0, header->segment};
  } else if (!item->named || (header->rank > BT_MAX_RANK && !stream->stream.header_damaged)) {
    bt_stream_close(&stream->stream);
    free(stream);
    return reject(run, directory, item->path, -1, BT_PROBLEM_UNREADABLE, BT_ERR_FORMAT,
                  "its header tells no sensible rank, nor does its name", INT64_MAX);
  }
  forget_rejected(run, item->path);
  stream->key = item->key;
  item->stream = stream;
  bt_run_touch(run, stream);
  return BT_OK;
}

static const char *run_id_of(const candidate *item) {
  return item->stream == NULL || item->stream->stream.header_damaged ? NULL : item->stream->stream.header.run_id;
}

/* The newest run among what was found first is the one to read. */
static void choose_run(bt_run *run, const candidates *list, int64_t *newest) {
  for (size_t i = 0; i < list->count; i++) {
    const char *id = run_id_of(&list->items[i]);
    if (id == NULL) continue;
    int64_t real = list->items[i].stream->stream.header.real_ns;
    if (run->run_id_known && real <= *newest) continue;
    *newest = real;
    run->run_id_known = true;
    snprintf(run->run_id, sizeof run->run_id, "%s", id);
  }
}

static void note_mixed(bt_run *run, const char *id) {
  run->mixed_files++;
  if (strstr(run->mixed_ids, id) != NULL) return;
  size_t used = strlen(run->mixed_ids);
  snprintf(run->mixed_ids + used, sizeof run->mixed_ids - used, "%s'%s'", used > 0 ? ", " : "", id);
}

bt_run_rank *bt_run_find_rank(bt_run *run, int32_t rank) {
  size_t low = 0;
  size_t high = run->rank_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (run->ranks[middle].rank < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < run->rank_count && run->ranks[low].rank == rank ? &run->ranks[low] : NULL;
}

bt_run_life *bt_run_find_life(bt_run_rank *rank, uint32_t life) {
  for (size_t i = rank->life_count; i-- > 0;) {
    if (rank->lives[i].life == life) return &rank->lives[i];
  }
  return NULL;
}

static bt_run_rank *make_rank(bt_run *run, int32_t number) {
  bt_run_rank *found = bt_run_find_rank(run, number);
  if (found != NULL) return found;
  if (!bt_array_reserve(&run->ranks, &run->rank_capacity, run->rank_count + 1, sizeof(bt_run_rank))) return NULL;
  bt_run_lock(run);
  bool made = bt_trace_rank(run->trace, number) != NULL;
  bt_run_unlock(run);
  if (!made) return NULL;
  size_t place = run->rank_count;
  while (place > 0 && run->ranks[place - 1].rank > number)
    place--;
  memmove(&run->ranks[place + 1], &run->ranks[place], (run->rank_count - place) * sizeof(bt_run_rank));
  run->ranks[place] = (bt_run_rank){.rank = number};
  run->rank_count++;
  return &run->ranks[place];
}

static bt_run_life *make_life(bt_run_rank *rank, uint32_t number, int64_t now) {
  bt_run_life *found = bt_run_find_life(rank, number);
  if (found != NULL) return found;
  if (rank->life_count == BT_MAX_LIVES) return NULL;
  if (!bt_array_reserve(&rank->lives, &rank->life_capacity, rank->life_count + 1, sizeof(bt_run_life))) return NULL;
  size_t place = rank->life_count;
  while (place > 0 && rank->lives[place - 1].life > number)
    place--;
  memmove(&rank->lives[place + 1], &rank->lives[place], (rank->life_count - place) * sizeof(bt_run_life));
  rank->lives[place] = (bt_run_life){.life = number, .discovered = now, .last = INT64_MIN, .cutoff = INT64_MAX};
  rank->life_count++;
  return &rank->lives[place];
}

/* Sets what the life knows from one of its streams. False: the stream is another writer's. */
static bool join_life(bt_run *run, bt_run_life *life, const bt_run_stream *stream) {
  const bt_header *header = &stream->stream.header;
  static const uint8_t none[BT_MARKER_BYTES];
  if (memcmp(life->marker, none, sizeof none) == 0) memcpy(life->marker, header->marker, sizeof life->marker);
  if (memcmp(life->marker, header->marker, sizeof life->marker) != 0) return false;
  life->has_recovered |= stream->key.recovered;
  life->has_first |= !stream->key.recovered && stream->key.segment == 0;
  if (stream->stream.header_damaged) return true;
  if (life->header == NULL) life->header = header;
  if (life->accepted) {
    bt_run_lock(run);
    bt_rank *rank = bt_trace_rank(run->trace, stream->key.rank);
    if (rank != NULL) (void)bt_trace_header(run->trace, rank, header);
    bt_run_unlock(run);
  }
  return true;
}

static bt_status place_stream(bt_run *run, size_t directory, candidate *item, int64_t now, size_t *found) {
  bt_run_stream *stream = item->stream;
  item->stream = NULL;
  bt_run_rank *rank = make_rank(run, stream->key.rank);
  if (rank == NULL ||
      !bt_array_reserve(&rank->streams, &rank->stream_capacity, rank->stream_count + 1, sizeof(bt_run_stream *))) {
    free_stream(run, stream);
    return BT_ERR_NOMEM;
  }
  size_t place = rank->stream_count;
  while (place > 0 && compare_keys(&rank->streams[place - 1]->key, &stream->key) >= 0) {
    const bt_stream *other = &rank->streams[--place]->stream;
    if (other->device == stream->stream.device && other->inode == stream->stream.inode) {
      free_stream(run, stream); /* named twice */
      return BT_OK;
    }
  }
  bt_run_life *life = make_life(rank, stream->key.life, now);
  if (life == NULL || !join_life(run, life, stream)) {
    const char *text =
        life == NULL ? "this rank has too many lives" : "it belongs to another run: same rank and life, other writer";
    bt_status status =
        reject(run, directory, item->path, rank->rank, life == NULL ? BT_PROBLEM_UNREADABLE : BT_PROBLEM_MIXED_RUNS,
               life == NULL ? BT_ERR_LIMIT : BT_ERR_FORMAT, text, INT64_MAX);
    free_stream(run, stream);
    return status;
  }
  memmove(&rank->streams[place + 1], &rank->streams[place], (rank->stream_count - place) * sizeof *rank->streams);
  rank->streams[place] = stream;
  rank->stream_count++;
  if (place < rank->first_open) rank->first_open = place;
  /* the one before will not grow any more: opened again, its size is fresh */
  if (place > 0 && run->options.follow) bt_run_let_go(run, rank->streams[place - 1]);
  rank->over = false;
  rank->next_look = 0;
  run->file_count++;
  (*found)++;
  return BT_OK;
}

static bt_status remember(bt_run_directory *directory, const candidates *list) {
  if (!bt_array_reserve(&directory->known, &directory->known_capacity, directory->known_count + list->count,
                        sizeof(bt_known_name))) {
    return BT_ERR_NOMEM;
  }
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].known.hash != 0) directory->known[directory->known_count++] = list->items[i].known;
  }
  if (directory->known_count > 0) qsort(directory->known, directory->known_count, sizeof(bt_known_name), compare_known);
  return BT_OK;
}

/* Streams of the run that is read go to their places; those of other runs are closed and counted. */
static bt_status place_all(bt_run *run, size_t directory, candidates *list, int64_t now, size_t *found) {
  bt_status status = BT_OK;
  for (size_t i = 0; i < list->count && status == BT_OK; i++) {
    candidate *item = &list->items[i];
    const char *id = run_id_of(item);
    if (item->stream == NULL) continue;
    if (id != NULL && strcmp(id, run->run_id) != 0) {
      note_mixed(run, id);
      continue; /* closed with the list */
    }
    status = place_stream(run, directory, item, now, found);
  }
  return status;
}

static void free_candidates(bt_run *run, candidates *list) {
  for (size_t i = 0; i < list->count; i++) {
    free_stream(run, list->items[i].stream);
    free(list->items[i].path);
  }
  free(list->items);
}

/* Files that were refused and may be readable by now. */
static bt_status add_retries(bt_run *run, size_t directory, int64_t now, candidates *list) {
  for (size_t i = 0; i < run->rejected_count; i++) {
    bt_rejected *rejected = &run->rejected[i];
    bt_known_name nobody = {0, 0};
    if (rejected->directory != directory || rejected->retry > now) continue;
    rejected->retry = now + RETRY_SECONDS * second;
    if (!add_candidate(list, NULL, rejected->path, &nobody)) return BT_ERR_NOMEM;
  }
  return BT_OK;
}

static bt_status list_candidates(bt_run *run, size_t index, int64_t now, candidates *list, bt_error *error) {
  bt_run_directory *directory = &run->directories[index];
  bt_status status = add_retries(run, index, now, list);
  if (status != BT_OK || now - directory->scanned < second) return status;
  if (!directory->is_file) return list_directory(run, directory, now, list, error);
  directory->scanned = now;
  bt_known_name name = {1, 1};
  if (is_known(directory, &name)) return BT_OK;
  return add_candidate(list, NULL, directory->path, &name) ? BT_OK : BT_ERR_NOMEM;
}

bt_status bt_run_scan(bt_run *run, int64_t now, size_t *found, bt_error *error) {
  bt_status status = BT_OK;
  candidates *lists = calloc(run->directory_count, sizeof *lists);
  if (lists == NULL) return bt_fail(error, BT_ERR_NOMEM, "memory is short");
  for (size_t i = 0; i < run->directory_count && status == BT_OK; i++) {
    status = list_candidates(run, i, now, &lists[i], error);
    if (status == BT_ERR_IO && run->options.follow) status = BT_OK;
    if (lists[i].count > 1) qsort(lists[i].items, lists[i].count, sizeof(candidate), compare_candidates);
    for (size_t j = 0; j < lists[i].count && status == BT_OK; j++) {
      status = open_candidate(run, i, &lists[i].items[j], now);
    }
  }
  bool chosen = run->run_id_known;
  int64_t newest = INT64_MIN;
  for (size_t i = 0; i < run->directory_count && !chosen; i++) {
    choose_run(run, &lists[i], &newest);
  }
  for (size_t i = 0; i < run->directory_count; i++) {
    if (status == BT_OK) status = place_all(run, i, &lists[i], now, found);
    if (status == BT_OK) status = remember(&run->directories[i], &lists[i]);
    free_candidates(run, &lists[i]);
  }
  free(lists);
  if (status == BT_ERR_NOMEM) return bt_fail(error, status, "memory is short for this run");
  return status;
}
