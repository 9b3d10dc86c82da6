/* Where rings live: on tmpfs with a lock as the sign of life; smaller or in ordinary memory where that cannot be. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/wire/ring.h"
#include "tests/capture/support.h"

/* Stands before libc's: `foreseen` makes the marker, and with it the ring's name, known beforehand. */
static bool foreseen;

ssize_t getrandom(void *bytes, size_t length, unsigned flags) {
  if (!foreseen) return syscall(SYS_getrandom, bytes, length, flags);
  memset(bytes, 0xab, length);
  return (ssize_t)length;
}

/* 10: somebody else holds the lock. */
static void ask_for_lock(void *path) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDWR);
  if (fd < 0 || fcntl(fd, F_GETLK, &whole) != 0) _exit(1);
  _exit(whole.l_type == F_UNLCK ? 0 : whole.l_pid == getppid() ? 10 : 2);
}

static void test_a_ring_file(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  bubbletop_session *session = session_in(scratch);
  assert_int_equal(ring_files(rings, path, sizeof path), 1);
  record_spans(session, 0, 10);
  bubbletop_span hanging;
  bubbletop_begin(session, &hanging, BUBBLETOP_W, bubbletop_at(77, 3));
  assert_int_equal(stats_of(session).recoverable, 1);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0600);
  assert_int_equal(status.st_blocks * 512, status.st_size); /* all of it is there already */
  assert_int_equal(in_child(ask_for_lock, path), 10);

  /* what a reader sees */
  stream_run *run = run_read(scratch, true);
  const bt_header *header = &run->files[0].header;
  assert_string_equal(header->ring_path, path);
  assert_int_equal(header->ring_inode, status.st_ino);
  assert_int_equal(header->recoverable, 1);
  /* the descriptor stays open: closing it would take this process's lock away */
  int fd = open(path, O_RDONLY);
  void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
  assert_true(bytes != MAP_FAILED);
  bt_ring_map map;
  bt_event event;
  assert_int_equal(bt_ring_map_check(&map, bytes, (size_t)status.st_size, NULL), BT_OK);
  assert_int_equal(map.ring_count, 1);
  assert_int_equal(map.pid, getpid());
  assert_int_equal(map.clean, 0);
  assert_memory_equal(map.marker, header->marker, BT_MARKER_BYTES);
  assert_string_equal(map.directory, scratch);
  bt_ring_reader *reader = malloc(sizeof *reader);
  assert_int_equal(bt_ring_reader_begin(reader, &map, 0), BT_OK);
  assert_int_equal(bt_ring_open_span(reader->ring, 0, &event), BT_OK);
  assert_int_equal(event.on_code, BT_W);
  assert_int_equal(event.microbatch, 77);
  assert_int_equal(event.chunk, 3);
  bubbletop_end(&hanging);
  assert_int_equal(bt_ring_open_span(reader->ring, 0, &event), BT_AGAIN);
  free(reader);
  munmap(bytes, (size_t)status.st_size);
  run_free(run);

  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  assert_int_equal(ring_files(rings, path, sizeof path), 0);
  close(fd);
  scratch_remove(rings);
  scratch_remove(scratch);
}

static int recoverable_in(const char *directory) {
  stream_run *run = run_read(directory, true);
  int recoverable = run->files[run->file_count - 1].header.recoverable;
  assert_int_equal(recoverable, run->files[run->file_count - 1].header.ring_path[0] != '\0');
  run_free(run);
  return recoverable;
}

static void test_no_tmpfs(void **state) {
  (void)state;
  char *scratch = scratch_make();
  setenv("BUBBLETOP_RING_DIR", "/proc", 1); /* some other file system */
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(stats_of(session).recoverable, 0);
  assert_int_equal(recoverable_in(scratch), 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  setenv("BUBBLETOP_RING_DIR", "/dev/shm/there-is-no-such-folder", 1);
  session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(recoverable_in(scratch), 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 200);
  run_free(run);
  scratch_remove(scratch);
}

/* Somebody has put a link, or a file, where the ring's name will be: it is not followed, and not written over. */
static void test_planted_names(void **state) {
  (void)state;
  char *scratch = scratch_make();
  char *rings = scratch_rings();
  char planted[512];
  const char *target = path_in(scratch, "target");
  snprintf(planted, sizeof planted, "%s/bubbletop-%u-abababababababab.ring", rings, (unsigned)geteuid());
  foreseen = true;
  for (int round = 0; round < 2; round++) {
    if (round == 0)
      assert_int_equal(symlink(target, planted), 0);
    else
      close(open(planted, O_CREAT | O_WRONLY, 0600));
    bubbletop_session *session = session_in(scratch);
    record_spans(session, 0, 10);
    assert_int_equal(stats_of(session).recoverable, 0);
    assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
    struct stat status;
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(lstat(planted, &status), 0); /* still there: it is not ours */
    if (round == 1) assert_int_equal(status.st_size, 0);
    assert_int_equal(unlink(planted), 0);
  }
  bubbletop_session *session = session_in(scratch);
  assert_int_equal(access(planted, F_OK), 0); /* this is the name */
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  foreseen = false;
  scratch_remove(rings);
  scratch_remove(scratch);
}

static void limit_file_size(rlim_t bytes, struct rlimit *before) {
  assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
  struct rlimit low = {.rlim_cur = bytes, .rlim_max = before->rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
}

/* A file size limit fails posix_fallocate as a small tmpfs does. */
static void test_little_room(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  struct rlimit before;
  struct stat status;
  limit_file_size(100 * 1024, &before);
  bubbletop_session *session = session_in(scratch);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(ring_files(rings, path, sizeof path), 1);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, 4096 + 4096 + 64 * 1024); /* the largest that fits */
  record_spans(session, 0, 100);
  assert_int_equal(recoverable_in(scratch), 1);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);

  limit_file_size(12 * 1024, &before);
  session = session_in(scratch);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(ring_files(rings, path, sizeof path), 0);
  record_spans(session, 0, 100);
  assert_int_equal(stats_of(session).recoverable, 0);
  assert_int_equal(recoverable_in(scratch), 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 200);
  run_free(run);
  scratch_remove(rings);
  scratch_remove(scratch);
}

static void *some_spans(void *session) {
  record_spans(session, 100, 100);
  return NULL;
}

/* The file system fills up later: the next thread's ring is ordinary memory, and the stream says so. */
static void test_no_room_for_another_ring(void **state) {
  (void)state;
  char *scratch = scratch_make(), path[512];
  char *rings = scratch_rings();
  struct rlimit before;
  struct stat status;
  bubbletop_session *session = session_in(scratch);
  record_spans(session, 0, 100);
  assert_int_equal(ring_files(rings, path, sizeof path), 1);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(stats_of(session).recoverable, 1);
  limit_file_size((rlim_t)status.st_size, &before);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, some_spans, session), 0);
  pthread_join(thread, NULL);
  assert_int_equal(stats_of(session).recoverable, 0);
  assert_int_equal(bubbletop_close(session, 0), BUBBLETOP_OK);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 200);
  assert_non_null(run_meta(run, "ring_anonymous"));
  run_free(run);
  scratch_remove(rings);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_planted_names),
      cmocka_unit_test(test_a_ring_file),
      cmocka_unit_test(test_no_tmpfs),
      cmocka_unit_test(test_little_room),
      cmocka_unit_test(test_no_room_for_another_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
