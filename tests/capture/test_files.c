/* Opening: configuration, directories, lives, file modes, planted links; and what cannot work says why. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/capture/support.h"

static bubbletop_status open_only(const bubbletop_config *config) {
  bubbletop_session *session = (void *)1;
  bubbletop_status status = bubbletop_open(config, &session);
  if (status == BUBBLETOP_OK)
    bubbletop_close(session, 0);
  else
    assert_null(session);
  return status;
}

static void expect_refusal(const bubbletop_config *config, bubbletop_status status, const char *says) {
  assert_int_equal(open_only(config), status);
  if (strstr(bubbletop_last_error(), says) == NULL) fail_msg("\"%s\" does not say %s", bubbletop_last_error(), says);
}

static void test_not_configured(void **state) {
  (void)state;
  char *scratch = scratch_make();
  assert_int_equal(open_only(NULL), BUBBLETOP_DISABLED);
  assert_string_equal(bubbletop_last_error(), "");
  setenv("BUBBLETOP_DIR", "", 1);
  assert_int_equal(open_only(NULL), BUBBLETOP_DISABLED);
  assert_int_equal(bubbletop_open(NULL, NULL), BUBBLETOP_ERR_ARG);
  scratch_remove(scratch);
}

static void *no_error_here(void *text) {
  strcpy(text, bubbletop_last_error());
  return NULL;
}

static void test_directories(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(path_in(scratch, "run"));
  assert_int_equal(open_only(&config), BUBBLETOP_OK); /* made */
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  config.directory = path_in(scratch, "missing/run");
  expect_refusal(&config, BUBBLETOP_ERR_IO, "its parent must exist");
  expect_refusal(&config, BUBBLETOP_ERR_IO, config.directory);
  char text[600] = "?";
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, no_error_here, text), 0);
  pthread_join(thread, NULL);
  assert_string_equal(text, ""); /* each thread has its own */
  int fd = open(path_in(scratch, "file"), O_CREAT | O_WRONLY, 0600);
  close(fd);
  config.directory = path_in(scratch, "file");
  expect_refusal(&config, BUBBLETOP_ERR_IO, "Not a directory");
  config.directory = "/proc/1"; /* even root creates no file there */
  expect_refusal(&config, BUBBLETOP_ERR_IO, "/proc/1");
  if (geteuid() != 0) {
    mkdir(path_in(scratch, "read-only"), 0555);
    config.directory = path_in(scratch, "read-only");
    expect_refusal(&config, BUBBLETOP_ERR_IO, "Permission denied");
  }
  config.directory = scratch;
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  assert_string_equal(bubbletop_last_error(), "");
  scratch_remove(scratch);
}

static void test_lives_and_modes(void **state) {
  (void)state;
  char *scratch = scratch_make();
  bubbletop_config config = config_in(scratch);
  struct stat status;
  config.rank = 7;
  mode_t before = umask(0);
  assert_int_equal(symlink("/tmp/bubbletop-planted", path_in(scratch, "rank-00007.1.0.msgpack")), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(open_only(&config), BUBBLETOP_OK);
  umask(0777);
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  umask(before);
  assert_int_equal(access("/tmp/bubbletop-planted", F_OK), -1); /* nothing was written through the link */
  assert_int_equal(unlink(path_in(scratch, "rank-00007.1.0.msgpack")), 0);
  for (int life = 0; life < 5; life++) {
    char name[64];
    snprintf(name, sizeof name, "rank-00007.%d.0.msgpack", life);
    if (life == 1) continue;
    assert_int_equal(stat(path_in(scratch, name), &status), 0);
    assert_int_equal(status.st_mode & 07777, life < 4 ? 0600 : 0);
  }
  assert_int_equal(chmod(path_in(scratch, "rank-00007.4.0.msgpack"), 0600), 0);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run->file_count, 4);
  static const uint32_t lives[] = {0, 2, 3, 4};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(run->files[i].header.life, lives[i]);
    assert_string_equal(run_end(run, lives[i]), "closed");
  }
  run_free(run);
  scratch_remove(scratch);
}

static void test_header(void **state) {
  (void)state;
  char *scratch = scratch_make();
  char host[128] = "";
  gethostname(host, sizeof host - 1);
  setenv("BUBBLETOP_DIR", path_in(scratch, "run"), 1);
  setenv("RANK", "3", 1);
  setenv("SLURM_PROCID", "4", 1);
  setenv("SLURM_NTASKS", "64", 1);
  setenv("TORCHELASTIC_RUN_ID", "job-17", 1);
  assert_int_equal(open_only(NULL), BUBBLETOP_OK);
  setenv("BUBBLETOP_RANK", "5", 1);
  assert_int_equal(open_only(NULL), BUBBLETOP_OK);
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.rank = 6;
  config.world_size = 7;
  config.run_id = "mine";
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  stream_run *run = run_read(path_in(scratch, "run"), false);
  assert_int_equal(run->file_count, 3);
  int seen = 0;
  for (size_t i = 0; i < 3; i++) {
    const bt_header *header = &run->files[i].header;
    bool own = header->rank == 6;
    seen |= 1 << header->rank;
    assert_int_equal(header->version, BT_FORMAT_VERSION);
    assert_int_equal(header->world_size, own ? 7 : 64);
    assert_string_equal(header->run_id, own ? "mine" : "job-17");
    assert_string_equal(header->host, host);
    assert_int_equal(strlen(header->boot_id), 36);
    assert_int_equal(header->pid, getpid());
    assert_int_equal(header->segment, 0);
    assert_true(header->mono_ns > 0 && header->mono_ns <= bubbletop_now());
    assert_true(header->real_ns > INT64_C(1600000000000000000));
    assert_string_equal(header->writer, "libbubbletop 0.1.0");
  }
  assert_int_equal(seen, 1 << 3 | 1 << 5 | 1 << 6);
  run_free(run);
  scratch_remove(scratch);
}

static void test_bad_settings(void **state) {
  (void)state;
  static const struct {
    const char *name, *value;
  } bad[] = {
      {"BUBBLETOP_FLUSH_MS", "soon"},   {"BUBBLETOP_FLUSH_MS", "0"},      {"BUBBLETOP_RING_BYTES", "2M"},
      {"BUBBLETOP_RING_BYTES", "-1"},   {"BUBBLETOP_SEGMENT_BYTES", "1"}, {"BUBBLETOP_CAP_BYTES", "99999999999G"},
      {"BUBBLETOP_STEPS", "5..3"},      {"BUBBLETOP_STEPS", "1..2,"},     {"BUBBLETOP_STEPS", "a"},
      {"BUBBLETOP_STEPS", "1...2"},     {"BUBBLETOP_EVERY", "1.5"},       {"BUBBLETOP_RANK", "x"},
      {"BUBBLETOP_RANK", "3000000000"}, {"BUBBLETOP_WORLD_SIZE", "1 "},   {"BUBBLETOP_CLOSE_MS", "1h"},
  };
  char *scratch = scratch_make();
  bubbletop_config config = BUBBLETOP_CONFIG_INIT;
  config.directory = scratch;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    setenv(bad[i].name, bad[i].value, 1);
    expect_refusal(&config, BUBBLETOP_ERR_ARG, bad[i].name);
    unsetenv(bad[i].name);
  }
  setenv("RANK", "not a number", 1); /* others' variables are theirs */
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  char *long_path = malloc(5000);
  memset(long_path, 'a', 4999);
  long_path[4999] = '\0';
  config.directory = long_path;
  expect_refusal(&config, BUBBLETOP_ERR_ARG, "longer than");
  free(long_path);
  config.size = 0;
  expect_refusal(&config, BUBBLETOP_ERR_ARG, "size");
  /* an older caller's shorter struct */
  config = config_in(scratch);
  config.size = offsetof(bubbletop_config, run_id);
  config.run_id = (const char *)1;
  assert_int_equal(open_only(&config), BUBBLETOP_OK);
  scratch_remove(scratch);
}

/* No room for even the header, and a file size limit that would kill. */
static void test_full_at_once(void **state) {
  (void)state;
  char *scratch = scratch_make();
  struct rlimit before, none;
  bubbletop_config config = config_in(scratch);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  bubbletop_session *session = NULL;
  bubbletop_status status = bubbletop_open(&config, &session);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(status, BUBBLETOP_ERR_IO);
  assert_non_null(strstr(bubbletop_last_error(), strerror(EFBIG)));
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run->file_count, 0); /* nothing is left behind */
  run_free(run);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_not_configured),  cmocka_unit_test(test_directories),
      cmocka_unit_test(test_lives_and_modes), cmocka_unit_test(test_header),
      cmocka_unit_test(test_bad_settings),    cmocka_unit_test(test_full_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
