#include "tui/screen/theme.h"

typedef struct bt_shade {
  int16_t dark, light; /* 256 colours, on a dark and on a light background */
  int8_t sixteen, eight;
} bt_shade;

static const bt_shade shades[BT_COLOR_COUNT] = {
    [BT_COLOR_DEFAULT] = {-1, -1, -1, -1},
    [BT_COLOR_STRONG] = {-1, -1, -1, -1},
    [BT_COLOR_MUTED] = {245, 242, 8, -1},
    [BT_COLOR_FAINT] = {239, 250, 8, -1},
    [BT_COLOR_BAR] = {236, 253, 8, 4},
    [BT_COLOR_BAR_TEXT] = {253, 235, 15, 7},
    [BT_COLOR_BAR_MUTED] = {247, 241, 7, 7},
    [BT_COLOR_SELECT] = {255, 234, 15, 7},
    [BT_COLOR_LIGHT_TEXT] = {15, 15, 15, 7},
    [BT_COLOR_DARK_TEXT] = {0, 0, 0, 0},
    [BT_COLOR_F] = {32, 32, 4, 4},
    [BT_COLOR_F_ODD] = {26, 26, 4, 4},
    [BT_COLOR_F_ALT] = {62, 62, 12, 4},
    [BT_COLOR_F_ALT_ODD] = {61, 61, 12, 4},
    [BT_COLOR_B] = {36, 36, 2, 2},
    [BT_COLOR_B_ODD] = {29, 29, 2, 2},
    [BT_COLOR_B_ALT] = {30, 30, 10, 2},
    [BT_COLOR_B_ALT_ODD] = {23, 23, 10, 2},
    [BT_COLOR_W] = {214, 214, 3, 3},
    [BT_COLOR_W_ODD] = {178, 178, 3, 3},
    [BT_COLOR_W_ALT] = {172, 172, 11, 3},
    [BT_COLOR_W_ALT_ODD] = {136, 136, 11, 3},
    [BT_COLOR_FB] = {133, 133, 5, 5},
    [BT_COLOR_RECOMPUTE] = {67, 67, 12, 4},
    [BT_COLOR_OPTIMIZER] = {185, 185, 11, 3},
    [BT_COLOR_OTHER] = {245, 247, 7, 7},
    [BT_COLOR_P2P] = {74, 68, 14, 6},
    [BT_COLOR_COLLECTIVE] = {175, 175, 13, 5},
    [BT_COLOR_HOST] = {137, 137, 7, 7},
    [BT_COLOR_FILL] = {242, 248, 8, 0},
    [BT_COLOR_WAIT] = {131, 174, 5, 0},
    [BT_COLOR_DRAIN] = {239, 251, 6, 0},
    [BT_COLOR_MESSAGE] = {74, 117, 14, 0},
    [BT_COLOR_GROUP] = {132, 182, 13, 0},
    [BT_COLOR_LATE] = {94, 180, 7, 0},
    [BT_COLOR_HEAT] = {237, 254, 8, 4},
    [BT_COLOR_HEAT_1] = {94, 223, 4, 4},
    [BT_COLOR_HEAT_2] = {130, 216, 6, 6},
    [BT_COLOR_HEAT_3] = {172, 209, 3, 3},
    [BT_COLOR_HEAT_4] = {208, 202, 11, 3},
    [BT_COLOR_HEAT_5] = {203, 196, 9, 1},
    [BT_COLOR_HEAT_TEXT] = {0, 15, 0, 0},
    [BT_COLOR_BUBBLE] = {240, 249, 8, 0},
    [BT_COLOR_GOOD] = {114, 28, 10, 2},
    [BT_COLOR_ALERT] = {203, 160, 9, 1},
};

int bt_theme_number(const bt_theme *theme, bt_color color) {
  const bt_shade *shade = &shades[color];
  switch (theme->level) {
  case BT_LEVEL_256: return theme->light ? shade->light : shade->dark;
  case BT_LEVEL_16: return shade->sixteen;
  case BT_LEVEL_8: return shade->eight;
  default: return -1;
  }
}

bt_color bt_theme_block(unsigned kind, int chunk, int32_t microbatch) {
  bt_color color = bt_theme_kind(kind);
  if (color != BT_COLOR_F && color != BT_COLOR_B && color != BT_COLOR_W) return color;
  unsigned shade = (microbatch > 0 && microbatch % 2 == 1 ? 1u : 0u) + (chunk > 0 && chunk % 2 == 1 ? 2u : 0u);
  return (bt_color)(color + shade);
}

bt_color bt_theme_kind(unsigned kind) {
  switch (kind) {
  case BT_F: return BT_COLOR_F;
  case BT_B:
  case BT_BW: return BT_COLOR_B;
  case BT_W: return BT_COLOR_W;
  case BT_FB: return BT_COLOR_FB;
  case BT_RECOMPUTE: return BT_COLOR_RECOMPUTE;
  case BT_OPTIMIZER: return BT_COLOR_OPTIMIZER;
  case BT_HOST: return BT_COLOR_HOST;
  default:
    if (bt_code_is_p2p(kind)) return BT_COLOR_P2P;
    if (bt_code_is_collective(kind)) return BT_COLOR_COLLECTIVE;
    return BT_COLOR_OTHER;
  }
}

bt_color bt_theme_class(bt_class class) {
  static const uint8_t colors[BT_CLASS_COUNT] = {
      [BT_CLASS_F] = BT_COLOR_F,
      [BT_CLASS_B] = BT_COLOR_B,
      [BT_CLASS_W] = BT_COLOR_W,
      [BT_CLASS_BW] = BT_COLOR_B,
      [BT_CLASS_FB] = BT_COLOR_FB,
      [BT_CLASS_RECOMPUTE] = BT_COLOR_RECOMPUTE,
      [BT_CLASS_OTHER] = BT_COLOR_OTHER,
      [BT_CLASS_OPTIMIZER] = BT_COLOR_OPTIMIZER,
      [BT_CLASS_EXPOSED_P2P] = BT_COLOR_MESSAGE,
      [BT_CLASS_LATE_RECEIVER] = BT_COLOR_MESSAGE,
      [BT_CLASS_COLLECTIVE_WAIT] = BT_COLOR_GROUP,
      [BT_CLASS_EXPOSED_COLLECTIVE] = BT_COLOR_COLLECTIVE,
      [BT_CLASS_FILL] = BT_COLOR_FILL,
      [BT_CLASS_DRAIN] = BT_COLOR_DRAIN,
      [BT_CLASS_STEADY_WAIT] = BT_COLOR_WAIT,
      [BT_CLASS_TAIL_SYNC] = BT_COLOR_DRAIN,
      [BT_CLASS_HOST_GAP] = BT_COLOR_LATE,
      [BT_CLASS_BETWEEN_STEPS] = BT_COLOR_BAR,
      [BT_CLASS_UNATTRIBUTED] = BT_COLOR_BAR,
  };
  return (bt_color)colors[class];
}

char bt_theme_class_mark(bt_class class) {
  static const char marks[BT_CLASS_COUNT] = {
      [BT_CLASS_EXPOSED_P2P] = '>',        [BT_CLASS_LATE_RECEIVER] = '<', [BT_CLASS_COLLECTIVE_WAIT] = '~',
      [BT_CLASS_EXPOSED_COLLECTIVE] = '=', [BT_CLASS_FILL] = '/',          [BT_CLASS_DRAIN] = '\\',
      [BT_CLASS_STEADY_WAIT] = ':',        [BT_CLASS_TAIL_SYNC] = '_',     [BT_CLASS_HOST_GAP] = '"',
      [BT_CLASS_BETWEEN_STEPS] = '.',      [BT_CLASS_UNATTRIBUTED] = '?',
  };
  return marks[class] != 0 ? marks[class] : ' ';
}

bt_color bt_theme_text_on(bt_color block) {
  switch (block) {
  case BT_COLOR_F:
  case BT_COLOR_F_ODD:
  case BT_COLOR_F_ALT:
  case BT_COLOR_F_ALT_ODD:
  case BT_COLOR_B_ODD:
  case BT_COLOR_B_ALT:
  case BT_COLOR_B_ALT_ODD:
  case BT_COLOR_FB:
  case BT_COLOR_RECOMPUTE: return BT_COLOR_LIGHT_TEXT;
  case BT_COLOR_FILL:
  case BT_COLOR_WAIT:
  case BT_COLOR_DRAIN:
  case BT_COLOR_GROUP:
  case BT_COLOR_LATE:
  case BT_COLOR_BUBBLE: return BT_COLOR_BAR_TEXT;
  default: return BT_COLOR_DARK_TEXT;
  }
}

char bt_theme_letter(unsigned kind) {
  switch (kind) {
  case BT_F: return 'F';
  case BT_B: return 'B';
  case BT_W: return 'W';
  case BT_BW: return 'D';
  case BT_FB: return 'X';
  case BT_RECOMPUTE: return 'R';
  case BT_OPTIMIZER: return 'O';
  case BT_OTHER: return 'o';
  case BT_SEND_F:
  case BT_SEND_B:
  case BT_SEND: return '>';
  case BT_RECV_F:
  case BT_RECV_B:
  case BT_RECV: return '<';
  case BT_ALL_REDUCE: return 'A';
  case BT_REDUCE_SCATTER: return 'S';
  case BT_ALL_GATHER: return 'G';
  case BT_ALL_TO_ALL: return 'T';
  case BT_BROADCAST: return 'C';
  case BT_GATE: return '.';
  case BT_HOST: return 'H';
  default: return '?';
  }
}

uint32_t bt_glyph_left(unsigned eighths) {
  return eighths >= 8 ? 0x2588 : 0x2590u - eighths;
}

uint32_t bt_glyph_lower(unsigned eighths) {
  return eighths >= 8 ? 0x2588 : 0x2580u + eighths;
}

uint32_t bt_glyph_right(unsigned eighths) {
  return eighths == 1 ? 0x2595 : 0x2590;
}

uint32_t bt_theme_glyph(const bt_theme *theme, bt_glyph glyph) {
  static const struct {
    uint32_t utf8;
    char ascii;
  } glyphs[] = {
      [BT_GLYPH_DOT] = {0xB7, '.'},    [BT_GLYPH_DOWN] = {0x25BE, 'v'},    [BT_GLYPH_UP] = {0x25B4, '^'},
      [BT_GLYPH_BOTH] = {0x2195, 'x'}, [BT_GLYPH_POINTER] = {0x25B8, '>'}, [BT_GLYPH_CURSOR] = {0x25BE, 'v'},
      [BT_GLYPH_MARK] = {0x25C6, '#'}, [BT_GLYPH_RULE] = {0x2500, '-'},    [BT_GLYPH_STEP] = {0x2502, '|'},
      [BT_GLYPH_LIVE] = {0x25CF, '*'}, [BT_GLYPH_PAUSED] = {0x2016, '='},  [BT_GLYPH_MIDDOT] = {0xB7, '-'},
      [BT_GLYPH_MORE] = {0x2026, '~'},
  };
  return theme->utf8 ? glyphs[glyph].utf8 : (uint32_t)glyphs[glyph].ascii;
}
