/* What colours and glyphs mean, and which of them a terminal can show. No curses: numbers of the 256-colour palette (or of the
 * first 8 or 16), so that the cell grid stays pure.
 *
 * The palette is Okabe and Ito's, distinct without red-green vision; every kind has a letter as well as a colour.
 */
#ifndef BT_SCREEN_THEME_H
#define BT_SCREEN_THEME_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/wire/event.h"
#include "tui/analysis/accounting.h"

typedef enum bt_color {
  BT_COLOR_DEFAULT, /* the terminal's own */
  BT_COLOR_STRONG, /* text that matters */
  BT_COLOR_MUTED, /* text that does not */
  BT_COLOR_FAINT, /* dots of a bubble, rules */
  BT_COLOR_BAR, /* background of header and footer */
  BT_COLOR_BAR_TEXT,
  BT_COLOR_BAR_MUTED,
  BT_COLOR_SELECT, /* the block under the cursor */
  BT_COLOR_LIGHT_TEXT,
  BT_COLOR_DARK_TEXT,
  BT_COLOR_F,
  BT_COLOR_F_ODD, /* of an odd microbatch: so that neighbours are told apart */
  BT_COLOR_F_ALT, /* the same kind in an odd model chunk */
  BT_COLOR_F_ALT_ODD,
  BT_COLOR_B,
  BT_COLOR_B_ODD,
  BT_COLOR_B_ALT,
  BT_COLOR_B_ALT_ODD,
  BT_COLOR_W,
  BT_COLOR_W_ODD,
  BT_COLOR_W_ALT,
  BT_COLOR_W_ALT_ODD,
  BT_COLOR_FB,
  BT_COLOR_RECOMPUTE,
  BT_COLOR_OPTIMIZER,
  BT_COLOR_OTHER,
  BT_COLOR_P2P,
  BT_COLOR_COLLECTIVE,
  BT_COLOR_HOST,
  BT_COLOR_FILL, /* classes of idle time: grey what the schedule asks for, coloured what it does not */
  BT_COLOR_WAIT,
  BT_COLOR_DRAIN,
  BT_COLOR_MESSAGE,
  BT_COLOR_GROUP,
  BT_COLOR_LATE, /* the host, and what nothing explains */
  BT_COLOR_HEAT, /* six of them: from usual to bad */
  BT_COLOR_HEAT_1,
  BT_COLOR_HEAT_2,
  BT_COLOR_HEAT_3,
  BT_COLOR_HEAT_4,
  BT_COLOR_HEAT_5,
  BT_COLOR_HEAT_TEXT, /* on the selected one */
  BT_COLOR_BUBBLE, /* the share of bubble in bars */
  BT_COLOR_GOOD,
  BT_COLOR_ALERT,
  BT_COLOR_COUNT
} bt_color;

typedef enum bt_color_level { BT_LEVEL_MONO, BT_LEVEL_8, BT_LEVEL_16, BT_LEVEL_256 } bt_color_level;

typedef struct bt_theme {
  bool utf8;
  bool light; /* a light background */
  bt_color_level level;
} bt_theme;

/* The palette number of a colour, -1: the terminal's default. */
int bt_theme_number(const bt_theme *theme, bt_color color);

/* Sub-cell edges need UTF-8 and enough colour pairs; otherwise blocks are whole cells with a letter. */
static inline bool bt_theme_fine(const bt_theme *theme) {
  return theme->utf8 && theme->level == BT_LEVEL_256;
}

bt_color bt_theme_kind(unsigned kind);
/* The shade of a block: chunks and neighbouring microbatches differ (-1: none). */
bt_color bt_theme_block(unsigned kind, int chunk, int32_t microbatch);
/* Of a class of the accounting, and its mark where there are only letters. */
bt_color bt_theme_class(bt_class class);
char bt_theme_class_mark(bt_class class);
/* The colour of text on a block of this colour. */
bt_color bt_theme_text_on(bt_color block);
/* One letter a kind, for cells too small for more and terminals without colours. */
char bt_theme_letter(unsigned kind);

/* Left part of a cell filled by n eighths (1..8), lower part by n eighths, right part by 1 or 4 eighths. */
uint32_t bt_glyph_left(unsigned eighths);
uint32_t bt_glyph_lower(unsigned eighths);
uint32_t bt_glyph_right(unsigned eighths);

/* Glyphs with an ASCII stand-in. */
typedef enum bt_glyph {
  BT_GLYPH_DOT, /* idle */
  BT_GLYPH_DOWN, /* a message to the next row */
  BT_GLYPH_UP, /* a message to the row above */
  BT_GLYPH_BOTH,
  BT_GLYPH_POINTER, /* the row of the cursor */
  BT_GLYPH_CURSOR, /* the column of the cursor, on the axis */
  BT_GLYPH_MARK, /* a mark, on the axis */
  BT_GLYPH_RULE, /* horizontal */
  BT_GLYPH_STEP, /* a step's boundary */
  BT_GLYPH_LIVE,
  BT_GLYPH_PAUSED,
  BT_GLYPH_MIDDOT, /* between parts of a line */
  BT_GLYPH_MORE /* rows above or below */
} bt_glyph;
uint32_t bt_theme_glyph(const bt_theme *theme, bt_glyph glyph);

#endif
