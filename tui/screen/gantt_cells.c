/* What one cell of the timeline shows. */
#include "tui/screen/gantt_cells.h"

#include "tui/screen/text.h"

/* The same in all rows of cells. */
void bt_cells_put(bt_painter *p, int x, uint32_t glyph, bt_color fg, bt_color bg, unsigned attributes) {
  for (int y = p->top; y < p->top + p->height; y++)
    bt_grid_put(p->grid, y, x, glyph, fg, bg, attributes);
}

/* Why the rank is idle in the middle of a column: a class, BT_CLASS_COUNT when that is not known or not asked. */
static bt_class why_idle(const bt_painter *p, int column) {
  const bt_gaps *gaps = p->view->show_why ? p->view->feed.gaps : NULL;
  if (gaps == NULL || p->row->is_lane) return BT_CLASS_COUNT;
  int64_t time = bt_time_add(p->view->origin, bt_time_mul(p->view->width, column) + p->view->width / 2);
  size_t count;
  const bt_gap *gap = bt_gaps_from(gaps, p->rank->rank, time, &count);
  return count > 0 && gap->start <= time ? gap->class : BT_CLASS_COUNT;
}

void bt_cells_idle(bt_painter *p, int column) {
  if (column < p->dots_from || column >= p->dots_to) return;
  bt_class why = why_idle(p, column);
  if (why != BT_CLASS_COUNT && !p->fine) {
    bt_color color = bt_theme_class(why);
    bt_cells_put(p, p->view->left + column, (uint32_t)bt_theme_class_mark(why), color, BT_COLOR_DEFAULT, 0);
    return;
  }
  if (p->row->is_lane && p->row->lane != BT_LANE_COMPUTE) return; /* an idle link is no bubble */
  bt_grid_put(p->grid, p->y, p->view->left + column, bt_theme_glyph(&p->view->theme, BT_GLYPH_DOT), BT_COLOR_FAINT,
              BT_COLOR_DEFAULT, 0);
}

/* A block that begins within a cell: the left part of the cell in reverse video. Switching that on and off takes more bytes
 * than the rest of the cell, so while the picture runs, starts are drawn with the glyphs that fill a right part: those of
 * a half and of an eighth. In high rows too: where a font's blocks do not fill the cell, reverse video leaves lines. */
static void put_start(bt_painter *p, int x, unsigned split, bt_color color) {
  bool coarse = p->running || p->height > 1;
  if (split == 1 && coarse)
    bt_cells_put(p, x, ' ', BT_COLOR_DEFAULT, color, 0);
  else if (coarse || split == 4)
    bt_cells_put(p, x, bt_glyph_right(split == 7 ? 1 : 4), color, BT_COLOR_DEFAULT, 0);
  else
    bt_cells_put(p, x, bt_glyph_left(split), color, BT_COLOR_DEFAULT, BT_ATTR_REVERSE);
}

/* The two-part picture that is nearest to eight eighths: left colour up to `split`, then the right one. */
void bt_cells_eighths(bt_painter *p, int column, const uint8_t *eighths) {
  bool uniform = true;
  for (unsigned i = 1; i < 8; i++)
    uniform = uniform && eighths[i] == eighths[0];
  int x = p->view->left + column;
  if (uniform) {
    if (eighths[0] == BT_NOTHING)
      bt_cells_idle(p, column);
    else
      bt_cells_put(p, x, ' ', BT_COLOR_DEFAULT, (bt_color)eighths[0], 0);
    return;
  }
  unsigned best = 9, split = 0;
  uint8_t left = 0, right = 0;
  for (unsigned s = 1; s < 8; s++) {
    uint8_t l = eighths[s - 1], r = eighths[s];
    if (l == r) continue;
    unsigned wrong = 0;
    for (unsigned i = 0; i < 8; i++)
      wrong += eighths[i] != (i < s ? l : r);
    if (wrong < best) {
      best = wrong;
      split = s;
      left = l;
      right = r;
    }
  }
  if (left == BT_NOTHING)
    put_start(p, x, split, (bt_color)right);
  else
    bt_cells_put(p, x, bt_glyph_left(split), (bt_color)left, (bt_color)right, 0);
}

void bt_cells_letter(bt_painter *p, int column, unsigned kind, bt_color color, char letter) {
  unsigned attributes = p->view->theme.level == BT_LEVEL_MONO && kind != BT_GATE ? BT_ATTR_REVERSE : 0;
  bool mono = p->view->theme.level == BT_LEVEL_MONO;
  for (int y = p->top; y < p->top + p->height; y++) {
    uint32_t glyph = y == p->y ? (uint32_t)letter : mono ? '-' : ' ';
    bt_grid_put(p->grid, y, p->view->left + column, glyph, bt_theme_text_on(color), color, attributes);
  }
}

/* The two largest kinds of a sum; gates do not count. Returns how many there are (0, 1, 2). */
static unsigned largest_kinds(const bt_lod_sum *sum, bt_lane lane, unsigned *first, unsigned *second) {
  *first = *second = BT_LOD_SLOTS;
  for (unsigned slot = 0; slot < BT_LOD_SLOTS; slot++) {
    uint64_t busy = lane == BT_LANE_COMPUTE && slot == BT_LOD_GATE ? 0 : sum->busy[slot];
    if (busy == 0) continue;
    if (*first == BT_LOD_SLOTS || busy > sum->busy[*first]) {
      *second = *first;
      *first = slot;
    } else if (*second == BT_LOD_SLOTS || busy > sum->busy[*second]) {
      *second = slot;
    }
  }
  return (*first != BT_LOD_SLOTS) + (*second != BT_LOD_SLOTS);
}

/* A column with many spans. Idle is exact: the busy share stands on the ground in the colour of its largest kind. Where
 * there is no idle to see, the two largest kinds share the cell. */
void bt_cells_shares(bt_painter *p, int column, const bt_lod_sum *sum) {
  bt_lane lane = p->row->is_lane ? p->row->lane : BT_LANE_COMPUTE;
  unsigned first, second, kinds = largest_kinds(sum, lane, &first, &second);
  if (kinds == 0) {
    bt_cells_idle(p, column);
    return;
  }
  unsigned kind = bt_lod_kind(lane, first);
  bt_color color = bt_theme_kind(kind), above = BT_COLOR_DEFAULT;
  double busy = (double)bt_lod_busy(sum, lane) / (double)p->view->width;
  if (!p->fine) {
    char letter = bt_theme_letter(kind);
    if (busy < 0.5 && letter >= 'A' && letter <= 'Z') letter = (char)(letter + 'a' - 'A');
    if (busy < 0.125)
      bt_cells_idle(p, column);
    else
      bt_cells_letter(p, column, kind, color, letter);
    return;
  }
  bt_class why = why_idle(p, column);
  if (why != BT_CLASS_COUNT) above = bt_theme_class(why);
  int all = p->height * 8, height = (int)(busy * all + 0.5);
  if (height >= all && kinds == 2) {
    double share = (double)sum->busy[first] / (double)(sum->busy[first] + sum->busy[second]);
    height = (int)(share * all + 0.5);
    above = bt_theme_kind(bt_lod_kind(lane, second));
  }
  if (height == 0) height = 1;
  for (int y = p->top + p->height - 1; y >= p->top; y--, height -= 8) {
    int x = p->view->left + column;
    if (height >= 8)
      bt_grid_put(p->grid, y, x, ' ', BT_COLOR_DEFAULT, color, 0);
    else if (height > 0)
      bt_grid_put(p->grid, y, x, bt_glyph_lower((unsigned)height), color, above, 0);
    else
      bt_grid_put(p->grid, y, x, ' ', BT_COLOR_DEFAULT, above, 0);
  }
}

/* While the picture runs every byte counts: a few whole cells beside partial ones are drawn in the foreground, as those are,
 * instead of as background. `hidden`: what of the first block has left already, in eighths. */
void bt_cells_economize(bt_painter *p, int y, int hidden) {
  enum { FEW = 4 };
  int end = p->view->left + p->view->columns;
  hidden /= 8;
  for (int x = p->view->left; x < end;) {
    const bt_cell *cell = bt_grid_at(p->grid, y, x);
    uint8_t color = cell->bg;
    int run = 0;
    bool blank = true;
    while (x + run < end && cell[run].bg == color && !(cell[run].attributes & BT_ATTR_REVERSE)) {
      blank = blank && cell[run].glyph == ' ' && cell[run].fg == BT_COLOR_DEFAULT;
      run++;
    }
    if (run == 0) run = 1;
    if (color != BT_COLOR_DEFAULT && blank && run + hidden <= FEW) {
      bt_grid_fill(p->grid, y, x, run, bt_glyph_left(8), (bt_color)color, BT_COLOR_DEFAULT, 0);
    }
    x += run;
    hidden = 0;
  }
}
