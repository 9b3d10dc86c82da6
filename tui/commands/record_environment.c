/* The variables that make a command's processes write streams, and where the libraries behind them are. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/commands/record.h"

/* Where things may lie, from the program's own folder: the build tree, an installation (moved or not). */
static bool find(const char *program_folder, const char *const *places, const char *name, char found[PATH_MAX]) {
  for (; *places != NULL; places++) {
    char path[PATH_MAX];
    int length = (*places)[0] == '/' ? snprintf(path, sizeof path, "%s/%s", *places, name)
                                     : snprintf(path, sizeof path, "%s/%s/%s", program_folder, *places, name);
    if (length > 0 && length < (int)sizeof path && access(path, R_OK) == 0 && realpath(path, found) != NULL)
      return true;
  }
  found[0] = '\0';
  return false;
}

static bool find_library(const char *folder, const char *name, char found[PATH_MAX]) {
  static const char *const places[] = {".libs", "../lib/" PACKAGE, "../lib", BT_LIBDIR "/" PACKAGE, BT_LIBDIR, NULL};
  return find(folder, places, name, found);
}

static bool find_program_folder(char folder[PATH_MAX]) {
  ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
  if (length <= 0) return false;
  folder[length] = '\0';
  char *slash = strrchr(folder, '/');
  if (slash == NULL) return false;
  *slash = '\0';
  return true;
}

static void set(const char *name, const char *value) {
  if (value != NULL) setenv(name, value, 1);
}

/* The folder of the import hook goes first on the path of Python's modules. */
static void add_python(const bt_record_options *options, const char *folder, bt_record_sources *sources) {
  static const char *const places[] = {"capture/python-tree", "../share/" PACKAGE "/python", BT_DATADIR "/python",
                                       NULL};
  char hook[PATH_MAX];
  if (options->no_python) {
    strcpy(sources->python, "turned off by --no-python");
  } else if (!find(folder, places, "hook", hook)) {
    strcpy(sources->python, "the Python module is not installed");
  } else {
    const char *before = getenv("PYTHONPATH");
    bool more = before != NULL && before[0] != '\0';
    size_t room = strlen(hook) + (more ? strlen(before) : 0) + 2;
    char *path = malloc(room);
    if (path == NULL) return;
    snprintf(path, room, "%s%s%s", hook, more ? ":" : "", more ? before : "");
    setenv("PYTHONPATH", path, 1);
    free(path);
  }
}

/* One tool can be injected: ours, which hands calls on to the one that was there. */
static void add_nvtx(const bt_record_options *options, const char *folder, bt_record_sources *sources) {
  static const char name[] = "NVTX_INJECTION64_PATH";
  char path[PATH_MAX];
  const char *before = getenv(name);
  if (options->no_nvtx) {
    strcpy(sources->nvtx, "turned off by --no-nvtx");
  } else if (!find_library(folder, "libbubbletop-nvtx.so", path)) {
    strcpy(sources->nvtx, "libbubbletop-nvtx.so is not installed");
  } else {
    if (before != NULL && before[0] != '\0' && strcmp(before, path) != 0) set("BUBBLETOP_NVTX_CHAIN", before);
    set(name, path);
  }
}

/* NCCL loads one profiler plugin a process, and ours cannot hand calls on: the other's interface may be of any version. */
static bt_status add_nccl(const bt_record_options *options, const char *folder, bt_record_sources *sources,
                          bt_error *error) {
  static const char name[] = "NCCL_PROFILER_PLUGIN";
  char path[PATH_MAX];
  const char *before = getenv(name);
  if (options->no_nccl) {
    strcpy(sources->nccl, "turned off by --no-nccl");
  } else if (!find_library(folder, "libnccl-profiler-bubbletop.so", path)) {
    strcpy(sources->nccl, "libnccl-profiler-bubbletop.so is not installed");
  } else if (before != NULL && strcmp(before, "none") == 0) {
    strcpy(sources->nccl, "turned off by NCCL_PROFILER_PLUGIN=none");
  } else if (before != NULL && before[0] != '\0' && strcmp(before, path) != 0) {
    return bt_fail(
        error, BT_ERR_ARG,
        "NCCL_PROFILER_PLUGIN=%s: NCCL loads one plugin only; unset it, or give --no-nccl to leave it in place",
        before);
  } else {
    set(name, path);
  }
  return BT_OK;
}

bt_status bt_record_environment(const bt_record_options *options, const bt_record_run *run, bt_record_sources *sources,
                                bt_error *error) {
  char folder[PATH_MAX];
  memset(sources, 0, sizeof *sources);
  if (!find_program_folder(folder)) return bt_fail(error, BT_ERR_IO, "cannot find out where this program is");
  set("BUBBLETOP_DIR", run->directory);
  set("BUBBLETOP_RUN_ID", run->run_id);
  set("BUBBLETOP_STEPS", options->steps);
  set("BUBBLETOP_EVERY", options->every);
  set("BUBBLETOP_RING_DIR", options->ring_directory);
  if (find_library(folder, "libbubbletop.so.0", sources->library)) set("BUBBLETOP_LIBRARY", sources->library);
  add_python(options, folder, sources);
  add_nvtx(options, folder, sources);
  return add_nccl(options, folder, sources, error);
}
