#include "tests/capture/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/wire/ring.h"

static void clear_environment(void) {
  static const char *const names[] = {
      "BUBBLETOP_DIR",
      "BUBBLETOP_RANK",
      "BUBBLETOP_RUN_ID",
      "BUBBLETOP_FLUSH_MS",
      "BUBBLETOP_RING_BYTES",
      "BUBBLETOP_RING_DIR",
      "BUBBLETOP_STEPS",
      "BUBBLETOP_SEGMENT_BYTES",
      "BUBBLETOP_CAP_BYTES",
      "BUBBLETOP_EVERY",
      "BUBBLETOP_CLOSE_MS",
      "BUBBLETOP_WRITE_BYTES",
      "BUBBLETOP_WORLD_SIZE",
      "RANK",
      "WORLD_SIZE",
      "SLURM_PROCID",
      "SLURM_NTASKS",
      "SLURM_JOB_ID",
      "PMI_RANK",
      "PMI_SIZE",
      "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      "TORCHELASTIC_RUN_ID",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    unsetenv(names[i]);
}

char *scratch_make(void) {
  const char *base = getenv("TMPDIR");
  char *directory = malloc(512);
  assert_non_null(directory);
  snprintf(directory, 512, "%s/bubbletop-test-XXXXXX", base != NULL ? base : "/tmp");
  assert_non_null(mkdtemp(directory));
  clear_environment();
  return directory;
}

char *scratch_rings(void) {
  struct statfs status;
  if (statfs("/dev/shm", &status) != 0 || (uint32_t)status.f_type != TMPFS_MAGIC) skip();
  char *directory = strdup("/dev/shm/bubbletop-test-XXXXXX");
  assert_non_null(directory);
  if (mkdtemp(directory) == NULL) {
    free(directory);
    skip();
  }
  setenv("BUBBLETOP_RING_DIR", directory, 1);
  return directory;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where) {
  (void)status, (void)type, (void)where;
  return remove(path);
}

void scratch_remove(char *directory) {
  nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  free(directory);
}

const char *path_in(const char *directory, const char *name) {
  static char buffers[4][1024];
  static unsigned next;
  char *buffer = buffers[next++ % 4];
  snprintf(buffer, sizeof buffers[0], "%s/%s", directory, name);
  return buffer;
}

/* ---- reading back ---- */

static int by_life_and_segment(const void *left, const void *right) {
  const stream_file *a = left, *b = right;
  if (a->life != b->life) return a->life < b->life ? -1 : 1;
  return a->segment < b->segment ? -1 : a->segment > b->segment;
}

static void list_files(stream_run *run, const char *directory) {
  DIR *folder = opendir(directory);
  size_t capacity = 0;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    stream_file file = {.life = 0};
    int rank = 0, used = 0;
    if (sscanf(entry->d_name, "rank-%d.%u.%u.msgpack%n", &rank, &file.life, &file.segment, &used) < 3 || used == 0 ||
        entry->d_name[used] != '\0')
      continue;
    assert_true(strlen(entry->d_name) < sizeof file.name);
    strcpy(file.name, entry->d_name);
    if (run->file_count == capacity) {
      capacity = capacity == 0 ? 64 : capacity * 2;
      run->files = realloc(run->files, capacity * sizeof file);
      assert_non_null(run->files);
    }
    run->files[run->file_count++] = file;
  }
  closedir(folder);
  if (run->file_count > 0) qsort(run->files, run->file_count, sizeof *run->files, by_life_and_segment);
}

static uint8_t *load(const char *path, size_t *length) {
  struct stat status;
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0 && fstat(fd, &status) == 0);
  *length = (size_t)status.st_size;
  uint8_t *bytes = malloc(*length + 1);
  assert_non_null(bytes);
  assert_int_equal(read(fd, bytes, *length), *length);
  close(fd);
  return bytes;
}

typedef struct adding {
  stream_run *run;
  const stream_file *file;
  uint32_t ring;
} adding;

static bt_status add_record(void *context, uint64_t number, const bt_event *event) {
  adding *to = context;
  stream_run *run = to->run;
  if (run->record_count == run->record_capacity) {
    run->record_capacity = run->record_capacity == 0 ? 1024 : run->record_capacity * 2;
    run->records = realloc(run->records, run->record_capacity * sizeof *run->records);
    assert_non_null(run->records);
  }
  record *added = &run->records[run->record_count++];
  *added = (record){.event = *event, .life = to->file->life, .segment = to->file->segment, .ring = to->ring};
  added->number = number;
  added->text = calloc(1, event->text_length + 1);
  if (event->text_length > 0) memcpy(added->text, event->text, event->text_length);
  added->event.text = added->text;
  if (event->run_count > 0) {
    added->runs = malloc(event->run_count * sizeof *added->runs);
    memcpy(added->runs, event->runs, event->run_count * sizeof *added->runs);
    added->event.runs = added->runs;
  }
  return BT_OK;
}

static void read_file(stream_run *run, stream_file *file, const char *directory, bool torn) {
  size_t length = 0;
  uint8_t *bytes = load(path_in(directory, file->name), &length);
  bt_error error = {.text = ""};
  size_t used = 0;
  bt_status status = bt_header_decode(bytes, length, &file->header, &used, &error);
  if (status != BT_OK) fail_msg("%s: header: %d %s", file->name, status, error.text);
  file->header.raw = NULL;
  file->size = length;
  file->first_record = run->record_count;
  for (size_t at = used; at < length; at += used) {
    bt_block block;
    status = bt_block_decode(bytes + at, length - at, file->header.marker, &block, &used);
    if (status == BT_AGAIN && torn) break;
    if (status != BT_OK) fail_msg("%s: block at %zu: %d", file->name, at, status);
    adding to = {run, file, block.ring};
    assert_int_equal(bt_block_records(&block, add_record, &to), BT_OK);
    file->blocks++;
  }
  file->record_count = run->record_count - file->first_record;
  free(bytes);
}

stream_run *run_read(const char *directory, bool torn) {
  stream_run *run = calloc(1, sizeof *run);
  assert_non_null(run);
  list_files(run, directory);
  for (size_t i = 0; i < run->file_count; i++)
    read_file(run, &run->files[i], directory, torn);
  return run;
}

void run_free(stream_run *run) {
  for (size_t i = 0; i < run->record_count; i++) {
    free(run->records[i].text);
    free(run->records[i].runs);
  }
  free(run->records);
  free(run->files);
  free(run);
}

size_t run_count(const stream_run *run, unsigned code) {
  size_t count = 0;
  for (size_t i = 0; i < run->record_count; i++)
    count += run->records[i].event.code == code;
  return count;
}

const record *run_find(const stream_run *run, unsigned code, size_t n) {
  for (size_t i = 0; i < run->record_count; i++) {
    if (run->records[i].event.code == code && n-- == 0) return &run->records[i];
  }
  fail_msg("no such record of code %u", code);
  return NULL;
}

const char *run_end(const stream_run *run, uint32_t life) {
  for (size_t i = 0; i < run->record_count; i++) {
    if (run->records[i].life == life && run->records[i].event.code == BT_END_OF_STREAM) return run->records[i].text;
  }
  return NULL;
}

const char *run_meta(const stream_run *run, const char *key) {
  const char *found = NULL;
  size_t length = strlen(key);
  assert_true(length < 32);
  for (size_t i = 0; i < run->record_count; i++) {
    const record *each = &run->records[i];
    const uint8_t *map = (const uint8_t *)each->text;
    if (each->event.code != BT_META || each->event.text_length < length + 3 || map[0] != 0x81) continue;
    if (map[1] != (0xa0 | length) || memcmp(map + 2, key, length) != 0) continue;
    const uint8_t *value = map + 2 + length;
    found = (const char *)value + (*value == 0xda ? 3 : *value == 0xd9 ? 2 : 1);
  }
  return found;
}

static int by_identity(const void *left, const void *right) {
  const record *const *a = left, *const *b = right;
  if ((*a)->life != (*b)->life) return (*a)->life < (*b)->life ? -1 : 1;
  if ((*a)->ring != (*b)->ring) return (*a)->ring < (*b)->ring ? -1 : 1;
  return (*a)->number < (*b)->number ? -1 : (*a)->number > (*b)->number;
}

void run_check_numbers(const stream_run *run) {
  const record **sorted = malloc((run->record_count + 1) * sizeof *sorted);
  assert_non_null(sorted);
  for (size_t i = 0; i < run->record_count; i++)
    sorted[i] = &run->records[i];
  qsort(sorted, run->record_count, sizeof *sorted, by_identity);
  for (size_t i = 0; i < run->record_count; i++) {
    bool first = i == 0 || sorted[i - 1]->life != sorted[i]->life || sorted[i - 1]->ring != sorted[i]->ring;
    assert_int_equal(sorted[i]->number, first ? 0 : sorted[i - 1]->number + 1);
  }
  free(sorted);
}

void mark_run(const stream_run *run, uint32_t life, uint8_t *seen, size_t count) {
  for (size_t i = 0; i < run->record_count; i++) {
    const record *each = &run->records[i];
    if (each->life != life || each->event.code != BT_F) continue;
    assert_true(each->event.microbatch >= 0 && (size_t)each->event.microbatch < count);
    seen[each->event.microbatch] = 1;
  }
}

void mark_ring(const char *path, uint8_t *seen, size_t count) {
  size_t length = 0;
  uint8_t *bytes = load(path, &length);
  bt_ring_map map;
  assert_int_equal(bt_ring_map_check(&map, bytes, length, NULL), BT_OK);
  bt_ring_reader *reader = malloc(sizeof *reader);
  assert_non_null(reader);
  for (uint32_t i = 0; i < map.ring_count; i++) {
    uint64_t number = 0;
    bt_event event;
    assert_int_equal(bt_ring_reader_begin(reader, &map, i), BT_OK);
    while (bt_ring_reader_next(reader, &number, &event) == BT_OK) {
      if (event.code != BT_F) continue;
      assert_true(event.microbatch >= 0 && (size_t)event.microbatch < count);
      seen[event.microbatch] = 1;
    }
  }
  free(reader);
  free(bytes);
}

/* ---- sessions ---- */

bubbletop_config config_in(const char *directory) {
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.directory = directory;
  config.rank = 0;
  config.flush_ms = 5;
  return config;
}

bool wait_until(bool (*condition)(void *), void *context) {
  for (int i = 0; i < 20000; i++) {
    if (condition(context)) return true;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return false;
}

int status_of(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_child(void (*body)(void *), void *context) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(120); /* one that hangs fails its test, and not the whole run */
    body(context);
    _exit(99); /* bodies end the process themselves */
  }
  return status_of(child);
}

size_t ring_files(const char *directory, char *path, size_t room) {
  char mine[32];
  size_t count = 0;
  snprintf(mine, sizeof mine, "bubbletop-%u-", (unsigned)geteuid());
  DIR *folder = opendir(directory);
  if (folder == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (strncmp(entry->d_name, mine, strlen(mine)) != 0) continue;
    snprintf(path, room, "%s/%s", directory, entry->d_name);
    count++;
  }
  closedir(folder);
  return count;
}
