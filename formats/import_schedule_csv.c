#include "formats/import_schedule_csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/array.h"

typedef enum action {
  ACTION_F,
  ACTION_I,
  ACTION_W,
  ACTION_B,
  ACTION_BW,
  ACTION_SEND_F,
  ACTION_RECV_F,
  ACTION_SEND_B,
  ACTION_RECV_B,
  ACTION_UNSHARD,
  ACTION_RESHARD,
  ACTION_REDUCE_GRAD,
  ACTION_COUNT
} action;

static const struct {
  const char *name;
  uint8_t kind; /* of B: once the whole file is known */
  bool microbatch; /* cannot do without */
} actions[ACTION_COUNT] = {
    [ACTION_F] = {"F", BT_F, true},
    [ACTION_I] = {"I", BT_B, true},
    [ACTION_W] = {"W", BT_W, true},
    [ACTION_B] = {"B", BT_BW, true},
    [ACTION_BW] = {"BW", BT_BW, true},
    [ACTION_SEND_F] = {"SEND_F", BT_SEND_F, true},
    [ACTION_RECV_F] = {"RECV_F", BT_RECV_F, true},
    [ACTION_SEND_B] = {"SEND_B", BT_SEND_B, true},
    [ACTION_RECV_B] = {"RECV_B", BT_RECV_B, true},
    [ACTION_UNSHARD] = {"UNSHARD", BT_ALL_GATHER, false},
    [ACTION_RESHARD] = {"RESHARD", BT_OTHER, false},
    [ACTION_REDUCE_GRAD] = {"REDUCE_GRAD", BT_REDUCE_SCATTER, false},
};

static const char overlap[] = "OVERLAP_F_B";

/* B, until the whole file is known: no other cell has this code. */
enum { BT_PLAIN_B = BT_HOST };

typedef struct slice {
  const char *at, *end;
} slice;

typedef struct parser {
  bt_schedule_csv *csv;
  size_t cell_count, cell_capacity, row_capacity;
  size_t *row_sizes; /* the rows' pointers are set when the cells no longer move */
  uint32_t row, column;
  bool has_i, has_w, has_bw;
} parser;

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static slice trim(slice of) {
  while (of.at < of.end && is_blank(*of.at))
    of.at++;
  while (of.at < of.end && is_blank(of.end[-1]))
    of.end--;
  return of;
}

/* --- cells ----------------------------------------------------------------------------------------------------------- */

/* Reads a number. False: there is none, or it is too large. */
static bool take_number(slice *from, int32_t *number) {
  int32_t value = 0;
  const char *at = from->at;
  for (; at < from->end && *at >= '0' && *at <= '9'; at++) {
    value = value * 10 + (*at - '0');
    if (value > BT_CSV_MOST_NUMBER) return false;
  }
  if (at == from->at) return false;
  from->at = at;
  *number = value;
  return true;
}

/* What is wrong with a plain token, or NULL. */
static const char *read_token(slice token, action *what, int32_t *stage, int32_t *microbatch) {
  token = trim(token);
  if (!take_number(&token, stage)) {
    return token.at < token.end && *token.at >= '0' && *token.at <= '9' ? "the stage is too large"
                                                                        : "it does not begin with a stage";
  }
  const char *name = token.at;
  while (token.at < token.end && ((*token.at >= 'A' && *token.at <= 'Z') || *token.at == '_'))
    token.at++;
  size_t length = (size_t)(token.at - name);
  int found = 0;
  while (found < ACTION_COUNT &&
         (strlen(actions[found].name) != length || memcmp(actions[found].name, name, length) != 0))
    found++;
  if (found == ACTION_COUNT) return "unknown action";
  *what = (action)found;
  *microbatch = -1;
  if (token.at == token.end) return actions[found].microbatch ? "no microbatch" : NULL;
  if (!take_number(&token, microbatch)) {
    return *token.at >= '0' && *token.at <= '9' ? "the microbatch is too large" : "the microbatch is no number";
  }
  return token.at == token.end ? NULL : "something follows the microbatch";
}

static void note(parser *p, action what) {
  p->has_i |= what == ACTION_I;
  p->has_w |= what == ACTION_W;
  p->has_bw |= what == ACTION_BW;
}

static bool is_backward(action what) {
  return what == ACTION_B || what == ACTION_BW || what == ACTION_I;
}

/* "(a;b)OVERLAP_F_B": one forward and one backward, in either order. */
static const char *read_overlap(parser *p, slice token, bt_csv_cell *cell) {
  const char *close = memchr(token.at, ')', (size_t)(token.end - token.at));
  const char *middle = memchr(token.at, ';', (size_t)(token.end - token.at));
  if (close == NULL) return "the parenthesis does not close";
  slice after = trim((slice){close + 1, token.end});
  if ((size_t)(after.end - after.at) != strlen(overlap) || memcmp(after.at, overlap, strlen(overlap)) != 0) {
    return "unknown action";
  }
  if (middle == NULL || middle > close) return "an overlap has two parts";
  slice parts[2] = {{token.at + 1, middle}, {middle + 1, close}};
  action what[2];
  int32_t stage[2];
  int32_t microbatch[2];
  for (int i = 0; i < 2; i++) {
    const char *wrong = read_token(parts[i], &what[i], &stage[i], &microbatch[i]);
    if (wrong != NULL) return wrong;
  }
  int f = what[0] == ACTION_F ? 0 : 1;
  if (what[f] != ACTION_F || !is_backward(what[1 - f])) return "an overlap is of one forward and one backward";
  note(p, what[1 - f]);
  *cell = (bt_csv_cell){BT_FB, stage[f], microbatch[f], stage[1 - f], microbatch[1 - f]};
  return NULL;
}

static const char *read_cell(parser *p, slice token, bt_csv_cell *cell) {
  *cell = (bt_csv_cell){BT_NONE, -1, -1, -1, -1};
  if (token.at == token.end) return NULL;
  if (*token.at == '(') return read_overlap(p, token, cell);
  action what;
  const char *wrong = read_token(token, &what, &cell->stage, &cell->microbatch);
  if (wrong != NULL) return wrong;
  note(p, what);
  cell->kind = what == ACTION_B ? BT_PLAIN_B : actions[what].kind;
  return NULL;
}

static void complain(parser *p, slice token, const char *wrong) {
  size_t index = p->csv->error_count++;
  if (index >= BT_CSV_ERRORS_KEPT) return;
  bt_csv_error *error = &p->csv->errors[index];
  char shown[33];
  size_t length = 0;
  for (const char *at = token.at; at < token.end && length < sizeof shown - 1; at++)
    shown[length++] = '!' <= *at && *at <= '~' ? *at : *at == ' ' ? ' ' : '?';
  shown[length] = '\0';
  error->row = p->row;
  error->column = p->column;
  (void)snprintf(error->text, sizeof error->text, "'%s': %s", shown, wrong);
}

static bt_status add_cell(parser *p, slice token) {
  bt_csv_cell cell;
  token = trim(token);
  const char *wrong = read_cell(p, token, &cell);
  if (wrong != NULL) complain(p, token, wrong);
  if (wrong != NULL) return BT_OK;
  if (p->cell_count == BT_CSV_MOST_CELLS) return BT_ERR_LIMIT;
  if (!bt_array_reserve(&p->csv->cells, &p->cell_capacity, p->cell_count + 1, sizeof cell)) return BT_ERR_NOMEM;
  p->csv->cells[p->cell_count++] = cell;
  p->row_sizes[p->row - 1]++;
  return BT_OK;
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

static bt_status add_row(parser *p, slice line) {
  if (p->row == BT_CSV_MOST_ROWS) return BT_ERR_LIMIT;
  if (!bt_array_reserve(&p->row_sizes, &p->row_capacity, (size_t)p->row + 1, sizeof *p->row_sizes)) return BT_ERR_NOMEM;
  p->row_sizes[p->row++] = 0;
  slice blank = trim(line);
  if (blank.at == blank.end) return BT_OK; /* a rank that does nothing */
  p->column = 0;
  bt_status status = BT_OK;
  for (bool more = true; more && status == BT_OK;) {
    const char *comma = memchr(line.at, ',', (size_t)(line.end - line.at));
    more = comma != NULL;
    p->column++;
    status = add_cell(p, (slice){line.at, more ? comma : line.end});
    line.at = more ? comma + 1 : line.end;
  }
  return status;
}

static bt_status read_rows(parser *p, slice text) {
  if (text.end - text.at >= 3 && memcmp(text.at, "\xEF\xBB\xBF", 3) == 0) text.at += 3;
  bt_status status = BT_OK;
  while (text.at < text.end && status == BT_OK) {
    const char *newline = memchr(text.at, '\n', (size_t)(text.end - text.at));
    status = add_row(p, (slice){text.at, newline != NULL ? newline : text.end});
    text.at = newline != NULL ? newline + 1 : text.end;
  }
  return status;
}

/* Now that the whole file is known: what B means, and where the rows lie. */
static bool settle(parser *p) {
  bt_schedule_csv *csv = p->csv;
  csv->mixed = p->has_i && p->has_bw;
  bool input_only = !p->has_i && (p->has_bw || p->has_w);
  for (size_t i = 0; i < p->cell_count; i++) {
    if (csv->cells[i].kind == BT_PLAIN_B) csv->cells[i].kind = input_only ? BT_B : BT_BW;
  }
  while (p->row > 0 && p->row_sizes[p->row - 1] == 0)
    p->row--; /* empty lines at the end */
  csv->rows = calloc((size_t)p->row + 1, sizeof *csv->rows);
  if (csv->rows == NULL) return false;
  bt_csv_cell *next = csv->cells;
  for (; csv->row_count < p->row; csv->row_count++) {
    csv->rows[csv->row_count] = (bt_csv_row){next, p->row_sizes[csv->row_count]};
    next += p->row_sizes[csv->row_count];
  }
  return true;
}

bt_status bt_schedule_csv_parse(const char *text, size_t size, bt_schedule_csv **csv, bt_error *error) {
  *csv = NULL;
  if (size > BT_CSV_MOST_BYTES) return bt_fail(error, BT_ERR_LIMIT, "schedule: more than %d bytes", BT_CSV_MOST_BYTES);
  if (size > 0 && memchr(text, '\0', size) != NULL) return bt_fail(error, BT_ERR_FORMAT, "schedule: not a text file");
  parser p = {.csv = calloc(1, sizeof *p.csv)};
  if (p.csv == NULL) return bt_fail(error, BT_ERR_NOMEM, "schedule: out of memory");
  bt_status status = read_rows(&p, (slice){text, text + size});
  if (status == BT_OK && p.cell_count == 0 && p.csv->error_count == 0) {
    status = bt_fail(error, BT_ERR_EMPTY, "schedule: no cells");
  } else if (status == BT_ERR_LIMIT) {
    (void)bt_fail(error, status, "schedule: more than %d rows or %d cells", BT_CSV_MOST_ROWS, BT_CSV_MOST_CELLS);
  } else if (status != BT_OK || !settle(&p)) {
    status = bt_fail(error, BT_ERR_NOMEM, "schedule: out of memory");
  }
  free(p.row_sizes);
  if (status == BT_OK) {
    *csv = p.csv;
  } else {
    bt_schedule_csv_free(p.csv);
  }
  return status;
}

/* --- files ----------------------------------------------------------------------------------------------------------- */

/* Whatever it is (a pipe, a device): no more than one byte over the limit is read. */
static bt_status read_all(FILE *file, char **text, size_t *size) {
  size_t capacity = 0;
  for (;;) {
    if (!bt_array_reserve(text, &capacity, *size + (1 << 16), 1)) return BT_ERR_NOMEM;
    size_t room = (size_t)BT_CSV_MOST_BYTES + 1 - *size;
    size_t got = fread(*text + *size, 1, room < 1 << 16 ? room : 1 << 16, file);
    *size += got;
    if (ferror(file)) return BT_ERR_IO;
    if (got == 0 || *size > BT_CSV_MOST_BYTES) return BT_OK;
  }
}

bt_status bt_schedule_csv_read(const char *path, bt_schedule_csv **csv, bt_error *error) {
  *csv = NULL;
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return bt_fail(error, BT_ERR_IO, "%s: %s", path, strerror(errno));
  char *text = NULL;
  size_t size = 0;
  bt_status status = read_all(file, &text, &size);
  int reason = errno;
  (void)fclose(file);
  bt_error inner = {BT_OK, ""};
  if (status == BT_ERR_IO) {
    (void)bt_fail(error, status, "%s: %s", path, strerror(reason));
  } else if (status == BT_ERR_NOMEM) {
    (void)bt_fail(error, status, "%s: out of memory", path);
  } else {
    status = bt_schedule_csv_parse(text, size, csv, &inner);
    if (status != BT_OK) (void)bt_fail(error, status, "%.300s: %s", path, inner.text);
  }
  free(text);
  return status;
}

void bt_schedule_csv_free(bt_schedule_csv *csv) {
  if (csv == NULL) return;
  free(csv->rows);
  free(csv->cells);
  free(csv);
}
