/* What is seen, as a file: never over one that is there. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/export.h"
#include "tui/commands/range_json.h"
#include "tui/commands/view.h"
#include "tui/screen/pair.h"

enum { TRIES = 1000 };

/* A new file in the working directory: RUN.svg, RUN-2.svg, ... */
static FILE *create(const bt_view *view, const char *ending, char *name, size_t room) {
  char run[64];
  (void)snprintf(run, sizeof run, "%.63s", view->feed.name[0] != 0 ? view->feed.name : "run");
  for (char *p = run; *p != 0; p++) {
    if (!isalnum((unsigned char)*p) && strchr("-_.", *p) == NULL) *p = '_';
  }
  if (run[0] == '.' || run[0] == '-') run[0] = '_';
  for (int i = 1; i <= TRIES; i++) {
    if (i == 1)
      (void)snprintf(name, room, "%s.%s", run, ending);
    else
      (void)snprintf(name, room, "%s-%d.%s", run, i, ending);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) return fdopen(fd, "w");
    if (errno != EEXIST) return NULL;
  }
  return NULL;
}

/* What is chosen, else what is seen. */
static bt_export_range range_of(const bt_view *view) {
  bt_export_range range;
  if (!bt_view_range(view, &range.from, &range.to)) range = (bt_export_range){view->origin, bt_view_end(view)};
  if (range.from < view->first) range.from = view->first;
  if (range.to > view->last) range.to = view->last;
  return range;
}

static bt_status write_picture(const bt_view *view, FILE *out, bt_error *error) {
  bt_export_picture picture = {.range = range_of(view), .replica = view->replica, .title = view->feed.name};
  return bt_export_svg(view->trace, &picture, out, error);
}

static bt_status write_as(const bt_view *of, const char *ending, const bt_grid *grid, FILE *out, bt_error *error) {
  if (strcmp(ending, "svg") == 0) return write_picture(of, out, error);
  bt_range_json what = {.run = of->feed.name, .range = range_of(of), .replica = of->replica, .lods = of->lods};
  if (strcmp(ending, "json") == 0) return bt_range_json_write(of->trace, &what, out);
  return bt_grid_save(grid, &of->theme, 0, out);
}

void bt_view_save(bt_view *view, const bt_grid *grid) {
  const bt_view *of = bt_pair_focus(view);
  const char *ending = view->save_picture ? "svg" : view->save_json ? "json" : view->save_text ? "txt" : NULL;
  if (ending == NULL) return;
  view->save_picture = view->save_json = view->save_text = false;
  if (of->width == 0 && strcmp(ending, "txt") != 0) {
    bt_view_say(view, "nothing to see yet");
    return;
  }
  char name[96];
  bt_error error = {BT_OK, ""};
  FILE *out = create(of, ending, name, sizeof name);
  if (out == NULL) {
    bt_view_say(view, "%s: %s", name, strerror(errno));
    return;
  }
  bt_status status = write_as(of, ending, grid, out, &error);
  if (fclose(out) != 0 && status == BT_OK) status = bt_fail(&error, BT_ERR_IO, "%s: %s", name, strerror(errno));
  if (status != BT_OK) (void)unlink(name);
  if (status == BT_OK)
    bt_view_say(view, "wrote %s", name);
  else
    bt_view_say(view, "%s", error.text[0] != 0 ? error.text : "it could not be written");
}
