/* The run directory of a record: made, tried, and marked as taken. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tui/commands/record.h"

/* A dot file: readers of runs pass it over. Its lines: run id, host, pid of the record that made it. */
static const char mark_name[] = ".bubbletop-record";
enum { LINE = 128 };

typedef struct mark {
  char run_id[LINE], host[LINE], pid[LINE];
} mark;

/* The id that all records of one run agree on without being told, or a new one. */
static bt_status choose_id(const bt_record_options *options, bt_record_run *run, bt_error *error) {
  const char *given = options->run_id != NULL ? options->run_id : getenv("BUBBLETOP_RUN_ID");
  const char *job = getenv("SLURM_JOB_ID");
  const char *step = getenv("SLURM_STEP_ID");
  if (given != NULL && given[0] != '\0') {
    if (strlen(given) >= sizeof run->run_id || strchr(given, '\n') != NULL)
      return bt_fail(error, BT_ERR_ARG, "the run id is longer than %zu bytes or has lines", sizeof run->run_id - 1);
    strcpy(run->run_id, given);
  } else if (job != NULL && step != NULL) {
    if (snprintf(run->run_id, sizeof run->run_id, "slurm-%s.%s", job, step) >= (int)sizeof run->run_id)
      return bt_fail(error, BT_ERR_ARG, "SLURM_JOB_ID and SLURM_STEP_ID are too long: give --run-id");
  } else {
    time_t now = time(NULL);
    struct tm local;
    unsigned chance = 0;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance) chance = (unsigned)getpid();
    localtime_r(&now, &local);
    size_t length = strftime(run->run_id, sizeof run->run_id, "%Y%m%d-%H%M%S", &local);
    snprintf(run->run_id + length, sizeof run->run_id - length, "-%08x", chance);
  }
  return BT_OK;
}

static void read_line(FILE *file, char line[LINE]) {
  if (fgets(line, LINE, file) == NULL) line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
}

static bool read_mark(const char *path, mark *out) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  read_line(file, out->run_id);
  read_line(file, out->host);
  read_line(file, out->pid);
  fclose(file);
  return true;
}

static bool is_alive(const mark *one) {
  char host[LINE] = "";
  gethostname(host, sizeof host - 1);
  long pid = strtol(one->pid, NULL, 10);
  return strcmp(host, one->host) == 0 && pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

/* Only one of several that try at once gets the name, with its whole content: a link does that, on NFS too. */
static bt_status make_mark(const bt_record_run *run, const char *path, bool *made, bt_error *error) {
  char temporary[PATH_MAX + 64];
  char host[LINE] = "";
  gethostname(host, sizeof host - 1);
  snprintf(temporary, sizeof temporary, "%s.%s.%ld", path, host, (long)getpid());
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return bt_fail(error, BT_ERR_IO, "cannot write to %s: %s", run->directory, strerror(errno));
  bool written = dprintf(fd, "%s\n%s\n%ld\n", run->run_id, host, (long)getpid()) > 0;
  int problem = errno;
  written &= close(fd) == 0;
  *made = written && link(temporary, path) == 0;
  bool taken = written && !*made && errno == EEXIST;
  if (written && !*made) problem = errno;
  unlink(temporary);
  return *made || taken ? BT_OK
                        : bt_fail(error, BT_ERR_IO, "cannot write to %s: %s", run->directory, strerror(problem));
}

bool bt_record_has_streams(const char *directory) {
  DIR *listing = opendir(directory);
  bool found = false;
  if (listing == NULL) return false;
  for (struct dirent *entry; !found && (entry = readdir(listing)) != NULL;) {
    size_t length = strlen(entry->d_name);
    found =
        strncmp(entry->d_name, "rank-", 5) == 0 && length > 8 && strcmp(entry->d_name + length - 8, ".msgpack") == 0;
  }
  closedir(listing);
  return found;
}

static bt_status make_directory(const bt_record_options *options, bt_record_run *run, bt_error *error) {
  struct stat about;
  run->made = mkdir(options->run, 0777) == 0;
  if (!run->made && errno == ENOENT)
    return bt_fail(error, BT_ERR_IO, "cannot make %s: the directory that it is to be in does not exist", options->run);
  if (!run->made && errno != EEXIST)
    return bt_fail(error, BT_ERR_IO, "cannot make %s: %s", options->run, strerror(errno));
  if (stat(options->run, &about) != 0 || realpath(options->run, run->directory) == NULL)
    return bt_fail(error, BT_ERR_IO, "cannot write to %s: %s", options->run, strerror(errno));
  if (!S_ISDIR(about.st_mode)) return bt_fail(error, BT_ERR_IO, "%s is no directory", options->run);
  return BT_OK;
}

static bt_status refuse(const bt_record_options *options, const mark *other, bt_error *error) {
  if (other != NULL && is_alive(other))
    return bt_fail(error, BT_ERR_ARG, "%s is being written by another record (pid %s): give each its own directory",
                   options->run, other->pid);
  return bt_fail(error, BT_ERR_ARG, "%s holds a capture already%s%s: choose another directory, or remove it",
                 options->run, other != NULL ? ", run id " : "", other != NULL ? other->run_id : "");
}

bt_status bt_record_take(const bt_record_options *options, bt_record_run *run, bt_error *error) {
  char path[PATH_MAX + sizeof mark_name + 1];
  mark other;
  *run = (bt_record_run){.owner = false};
  bt_status status = choose_id(options, run, error);
  if (status == BT_OK) status = make_directory(options, run, error);
  if (status != BT_OK) return status;
  snprintf(path, sizeof path, "%s/%s", run->directory, mark_name);
  bool streams = bt_record_has_streams(run->directory);
  if (streams && !read_mark(path, &other)) return refuse(options, NULL, error);
  status = make_mark(run, path, &run->owner, error);
  if (status != BT_OK) {
    if (run->made) rmdir(run->directory);
    return status;
  }
  if (!run->owner && (!read_mark(path, &other) || strcmp(other.run_id, run->run_id) != 0)) {
    if (streams || is_alive(&other)) return refuse(options, &other, error);
    /* Left by a record that was killed before any stream came: the next one takes over. */
    unlink(path);
    status = make_mark(run, path, &run->owner, error);
    if (status == BT_OK && !run->owner) return refuse(options, read_mark(path, &other) ? &other : NULL, error);
  }
  return status;
}

void bt_record_release(const bt_record_run *run) {
  char path[PATH_MAX + sizeof mark_name + 1];
  if (!run->owner || bt_record_has_streams(run->directory)) return;
  snprintf(path, sizeof path, "%s/%s", run->directory, mark_name);
  unlink(path);
  if (run->made) rmdir(run->directory);
}
