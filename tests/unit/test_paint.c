/* What is painted, on a small terminal of its own: it must show the wanted picture, for any two pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/screen/paint.h"

enum { ROWS = 9, COLUMNS = 31, PARAMETERS = 16 };

static const bt_theme theme = {.utf8 = true, .level = BT_LEVEL_256};

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

typedef struct seen { /* a cell as a person sees it */
  uint32_t glyph;
  int fg, bg;
  unsigned attributes;
} seen;

typedef struct terminal {
  seen cells[ROWS][COLUMNS];
  int row, column;
  seen pen;
} terminal;

static seen see(const bt_cell *cell) {
  return (seen){cell->glyph, bt_theme_number(&theme, (bt_color)cell->fg), bt_theme_number(&theme, (bt_color)cell->bg),
                cell->attributes};
}

static void set_color(int *color, const int *parameters, int count, int *at) {
  int number = parameters[*at];
  if (number % 10 == 9) {
    *color = -1;
  } else if (number % 10 == 8) {
    assert_true(*at + 2 < count && parameters[*at + 1] == 5);
    *color = parameters[*at += 2];
  } else {
    *color = number % 10 + (number >= 90 ? 8 : 0);
  }
}

static void rendition(terminal *t, const int *parameters, int count) {
  for (int i = 0; i < count; i++) {
    int number = parameters[i];
    switch (number) {
    case 0: t->pen = (seen){' ', -1, -1, 0}; break;
    case 1: t->pen.attributes |= BT_ATTR_BOLD; break;
    case 4: t->pen.attributes |= BT_ATTR_UNDERLINE; break;
    case 7: t->pen.attributes |= BT_ATTR_REVERSE; break;
    case 22: t->pen.attributes &= ~(unsigned)BT_ATTR_BOLD; break;
    case 24: t->pen.attributes &= ~(unsigned)BT_ATTR_UNDERLINE; break;
    case 27: t->pen.attributes &= ~(unsigned)BT_ATTR_REVERSE; break;
    default:
      assert_true((number >= 30 && number < 50) || (number >= 90 && number < 108));
      set_color(number / 10 % 2 == 1 ? &t->pen.fg : &t->pen.bg, parameters, count, &i);
    }
  }
}

static void control(terminal *t, char letter, const int *parameters, int count) {
  int first = parameters[0] == 0 ? 1 : parameters[0];
  switch (letter) {
  case 'm': rendition(t, parameters, count); return;
  case 'A': t->row -= first; break;
  case 'C': t->column += first; break;
  case 'D': t->column -= first; break;
  case 'd': t->row = first - 1; break;
  case 'H':
    assert_int_equal(count, 2);
    t->row = first - 1;
    t->column = parameters[1] - 1;
    break;
  default: fail_msg("ESC [ %c", letter);
  }
  assert_in_range(t->row, 0, ROWS - 1);
  assert_in_range(t->column, 0, COLUMNS - 1);
}

static const char *escape(terminal *t, const char *at) {
  int parameters[PARAMETERS] = {0}, count = 1;
  assert_int_equal(*at++, '[');
  for (; (*at >= '0' && *at <= '9') || *at == ';'; at++) {
    if (*at == ';') {
      assert_true(++count <= PARAMETERS);
    } else {
      parameters[count - 1] = parameters[count - 1] * 10 + (*at - '0');
    }
  }
  control(t, *at++, parameters, count);
  return at;
}

static const char *glyph(terminal *t, const char *at) {
  unsigned char first = (unsigned char)*at++;
  int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  t->pen.glyph = more == 0 ? first : first & (0x3Fu >> more);
  for (; more > 0; more--)
    t->pen.glyph = t->pen.glyph << 6 | ((unsigned char)*at++ & 0x3Fu);
  assert_in_range(t->column, 0, COLUMNS - 1); /* nothing is written where terminals differ */
  t->cells[t->row][t->column++] = t->pen;
  return at;
}

static void show(terminal *t, const bt_paint *paint) {
  const char *at = paint->bytes, *end = paint->bytes + paint->length;
  t->pen = (seen){' ', -1, -1, 0};
  while (at < end) {
    switch (*at) {
    case '\033': at = escape(t, at + 1); break;
    case '\n':
      assert_true(++t->row < ROWS);
      at++;
      break;
    case '\b':
      assert_true(t->column-- < COLUMNS && t->column >= 0);
      at++;
      break;
    default: at = glyph(t, at);
    }
  }
}

static void check(const terminal *t, const bt_grid *wanted) {
  for (int row = 0; row < ROWS; row++) {
    for (int column = 0; column < COLUMNS; column++) {
      seen is = t->cells[row][column], should = see(&wanted->cells[row * COLUMNS + column]);
      bool blank = should.glyph == ' ' && (should.attributes & ~(unsigned)BT_ATTR_BOLD) == 0;
      assert_int_equal(is.glyph, should.glyph);
      assert_int_equal(is.bg, should.bg);
      if (!blank) assert_int_equal(is.fg, should.fg);
      assert_int_equal(is.attributes, should.attributes);
    }
  }
}

/* Changes some of the picture: single cells, stretches of a colour, columns. */
static void change(bt_grid *grid, uint64_t *seed) {
  static const uint32_t glyphs[] = {' ', ' ', ' ', 'x', '7', 0xE9, 0x2588, 0x258C, 0x1F600};
  for (uint32_t edits = next_random(seed) % 12; edits > 0; edits--) {
    int row = (int)(next_random(seed) % ROWS), column = (int)(next_random(seed) % COLUMNS);
    int width = next_random(seed) % 3 == 0 ? 1 : (int)(next_random(seed) % COLUMNS), height = 1;
    if (next_random(seed) % 4 == 0) {
      width = 1 + (int)(next_random(seed) % 2);
      height = ROWS;
    }
    bt_cell cell = {.glyph = glyphs[next_random(seed) % (sizeof glyphs / sizeof *glyphs)],
                    .fg = (uint8_t)(next_random(seed) % BT_COLOR_COUNT),
                    .bg = next_random(seed) % 3 == 0 ? (uint8_t)(next_random(seed) % BT_COLOR_COUNT) : 0,
                    .attributes = next_random(seed) % 4 == 0 ? next_random(seed) % 8 : 0};
    for (int y = row; y < row + height && y < ROWS; y++) {
      for (int x = column; x < column + width && x < COLUMNS; x++)
        *bt_grid_at(grid, y, x) = cell;
    }
  }
}

static void test_shows_what_is_wanted(void **unused) {
  (void)unused;
  uint64_t seed = 11;
  bt_grid shown = {0}, wanted = {0};
  bt_paint paint = {.bytes = NULL};
  static terminal t;
  assert_int_equal(bt_grid_resize(&shown, ROWS, COLUMNS), BT_OK);
  assert_int_equal(bt_grid_resize(&wanted, ROWS, COLUMNS), BT_OK);
  bt_grid_clear(&shown);
  bt_grid_clear(&wanted);
  for (int row = 0; row < ROWS; row++) {
    for (int column = 0; column < COLUMNS; column++)
      t.cells[row][column] = see(bt_grid_at(&shown, row, column));
  }
  for (int frame = 0; frame < 4000; frame++) {
    change(&wanted, &seed);
    paint.no_newline = frame % 3 == 0;
    t.row = t.column = 0;
    bt_paint_begin(&paint);
    assert_true(bt_paint_differences(&paint, &shown, &wanted, &theme));
    if (memcmp(shown.cells, wanted.cells, ROWS * COLUMNS * sizeof *shown.cells) == 0) assert_int_equal(paint.length, 0);
    if (paint.no_newline && paint.length > 0) assert_null(memchr(paint.bytes, '\n', paint.length));
    show(&t, &paint);
    check(&t, &wanted);
    memcpy(shown.cells, wanted.cells, ROWS * COLUMNS * sizeof *shown.cells);
  }
  bt_paint_free(&paint);
  bt_grid_free(&shown);
  bt_grid_free(&wanted);
}

/* A column of blocks in two colours: each colour is sent once. */
static void test_a_colour_is_sent_once(void **unused) {
  (void)unused;
  bt_grid shown = {0}, wanted = {0};
  bt_paint paint = {.bytes = NULL};
  assert_int_equal(bt_grid_resize(&shown, ROWS, COLUMNS), BT_OK);
  assert_int_equal(bt_grid_resize(&wanted, ROWS, COLUMNS), BT_OK);
  bt_grid_clear(&shown);
  bt_grid_clear(&wanted);
  for (int row = 0; row < ROWS; row++) {
    bt_grid_put(&wanted, row, 20, 0x2588, BT_COLOR_F, BT_COLOR_DEFAULT, 0);
    bt_grid_put(&wanted, row, 21, 0x2588, BT_COLOR_B, BT_COLOR_DEFAULT, 0);
  }
  bt_paint_begin(&paint);
  assert_true(bt_paint_differences(&paint, &shown, &wanted, &theme));
  int colors = 0;
  for (size_t i = 0; i < paint.length; i++)
    colors += paint.bytes[i] == 'm';
  assert_int_equal(colors, 2);
  assert_in_range(paint.length, 1, 2 * ROWS * 5 + 2 * 10 + 2 * 8);
  bt_paint_free(&paint);
  bt_grid_free(&shown);
  bt_grid_free(&wanted);
}

/* Characters of two columns, and such as the terminal has no bytes for, are left to curses. */
static void test_left_to_others(void **unused) {
  (void)unused;
  static const bt_theme ascii = {.utf8 = false, .level = BT_LEVEL_256};
  bt_grid shown = {0}, wanted = {0};
  bt_paint paint = {.bytes = NULL};
  assert_int_equal(bt_grid_resize(&shown, ROWS, COLUMNS), BT_OK);
  assert_int_equal(bt_grid_resize(&wanted, ROWS, COLUMNS), BT_OK);
  bt_grid_clear(&shown);
  bt_grid_clear(&wanted);
  bt_grid_put(&wanted, 2, 3, 0xE9, BT_COLOR_F, BT_COLOR_DEFAULT, 0);
  bt_paint_begin(&paint);
  assert_true(bt_paint_differences(&paint, &shown, &wanted, &theme));
  bt_paint_begin(&paint);
  assert_false(bt_paint_differences(&paint, &shown, &wanted, &ascii));
  bt_grid_put(&wanted, 2, 3, 0x4E2D, BT_COLOR_F, BT_COLOR_DEFAULT, 0);
  bt_grid_put(&wanted, 2, 4, 0, BT_COLOR_F, BT_COLOR_DEFAULT, 0);
  bt_paint_begin(&paint);
  assert_false(bt_paint_differences(&paint, &shown, &wanted, &theme));
  bt_paint_free(&paint);
  bt_grid_free(&shown);
  bt_grid_free(&wanted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shows_what_is_wanted),
      cmocka_unit_test(test_a_colour_is_sent_once),
      cmocka_unit_test(test_left_to_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
