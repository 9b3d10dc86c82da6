/* The library as a plugin sees it: dlopened late, used, dlclosed while its thread lives, and ended by exit. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/capture/support.h"

typedef struct library {
  bubbletop_status (*open)(const bubbletop_config *, bubbletop_session **);
  void (*begin)(bubbletop_session *, bubbletop_span *, bubbletop_kind, bubbletop_where);
  void (*end)(bubbletop_span *);
} library;

static const char *library_path(void) {
  static char path[1024];
  const char *top = getenv("top_builddir");
  snprintf(path, sizeof path, "%s/.libs/libbubbletop.so", top != NULL ? top : ".");
  return path;
}

static void *symbol(void *handle, const char *name) {
  void *found = dlsym(handle, name);
  if (found == NULL) _exit(3);
  return found;
}

static void use_and_unload(void *directory) {
  bubbletop_session *session = NULL;
  bubbletop_config config = config_in(directory);
  for (int round = 0; round < 3; round++) {
    void *handle = dlopen(library_path(), RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) _exit(2);
    library calls;
    *(void **)&calls.open = symbol(handle, "bubbletop_open");
    *(void **)&calls.begin = symbol(handle, "bubbletop_begin");
    *(void **)&calls.end = symbol(handle, "bubbletop_end");
    if (session == NULL && calls.open(&config, &session) != BUBBLETOP_OK) _exit(4);
    for (int i = 0; i < 10; i++) {
      bubbletop_span span;
      calls.begin(session, &span, BUBBLETOP_F, bubbletop_at(round * 10 + i, 0));
      calls.end(&span);
    }
    if (dlclose(handle) != 0) _exit(5);
    usleep(20000); /* the writer runs */
  }
  exit(0);
}

static void test_dlopen(void **state) {
  (void)state;
  if (access(library_path(), R_OK) != 0) skip();
  char *scratch = scratch_make();
  assert_int_equal(in_child(use_and_unload, scratch), 0);
  stream_run *run = run_read(scratch, false);
  assert_int_equal(run_count(run, BT_F), 30);
  assert_string_equal(run_end(run, 0), "exit");
  run_free(run);
  scratch_remove(scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dlopen)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
