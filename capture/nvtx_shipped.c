/* The names that frameworks give their ranges. A text that means nothing is told by its first bytes: under emit_nvtx
 * every operator is a range. */
#include <string.h>
#include <strings.h>

#include "capture/nvtx_rules.h"

/* %m microbatch, %c chunk, %i step, %d any number, %w any word; the text may go on behind a comma (emit_nvtx's
 * ", seq = 3"). */
static const struct shipped {
  const char *pattern;
  uint8_t what, kind;
  bool in_order; /* the microbatch, or the step, is counted */
} shipped[] = {
    /* zero-bubble: type, microbatch, chunk, sequence */
    {"F%m.%c.%d", BT_NVTX_SPAN, BUBBLETOP_F, false},
    {"B%m.%c.%d", BT_NVTX_SPAN, BUBBLETOP_B, false},
    {"W%m.%c.%d", BT_NVTX_SPAN, BUBBLETOP_W, false},
    {"BW%m.%c.%d", BT_NVTX_SPAN, BUBBLETOP_BW, false},
    {"R%m.%c.%d", BT_NVTX_SPAN, BUBBLETOP_RECOMPUTE, false},
    {"W_clear.%c.%d", BT_NVTX_SPAN, BUBBLETOP_W, false},
    {"iter_%d_%i", BT_NVTX_STEP, 0, false},
    {"Optimizer", BT_NVTX_SPAN, BUBBLETOP_OPTIMIZER, false},
    /* PyTorch */
    {"Forward %m", BT_NVTX_SPAN, BUBBLETOP_F, false},
    {"Backward %m", BT_NVTX_SPAN, BUBBLETOP_BW, false},
    {"Optimizer.step#%w.step", BT_NVTX_SPAN, BUBBLETOP_OPTIMIZER, false},
    {"ProfilerStep#%i", BT_NVTX_STEP, 0, false},
    /* Megatron: its telemetry and its p2p calls, whose ranges tell no microbatch; its other ranges are layers and
       phases, which hold neither a forward nor a backward */
    {"megatron.train_step", BT_NVTX_STEP, 0, true},
    {"megatron.microbatch.forward", BT_NVTX_SPAN, BUBBLETOP_F, true},
    {"megatron.microbatch.backward", BT_NVTX_SPAN, BUBBLETOP_BW, true},
    {"megatron.optimizer_step", BT_NVTX_SPAN, BUBBLETOP_OPTIMIZER, false},
    {"megatron.core.pipeline_parallel.p2p_communication.%w", BT_NVTX_SPAN, BUBBLETOP_HOST, false},
    /* timers of Megatron and veScale */
    {"forward-compute", BT_NVTX_SPAN, BUBBLETOP_F, true},
    {"backward-compute", BT_NVTX_SPAN, BUBBLETOP_BW, true},
    {"optimizer", BT_NVTX_SPAN, BUBBLETOP_OPTIMIZER, false},
    {"batch-generator", BT_NVTX_SPAN, BUBBLETOP_HOST, false},
};

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_';
}

/* A number of at most nine digits; false: there is none. */
static bool number(const char **at, int32_t *value) {
  const char *from = *at;
  int32_t sum = 0;
  while (is_digit(**at) && *at - from < 9)
    sum = sum * 10 + (*(*at)++ - '0');
  *value = sum;
  return *at != from && !is_digit(**at);
}

static bool at_end(const char *at) {
  return *at == '\0' || strncmp(at, ", ", 2) == 0;
}

static bool capture(char what, const char **at, bt_nvtx_match *match) {
  int32_t value = 0;
  if (what == 'w') {
    const char *from = *at;
    while (is_word(**at))
      (*at)++;
    return *at != from;
  }
  if (!number(at, &value)) return false;
  if (what == 'm') match->microbatch = value;
  if (what == 'c') match->chunk = (int16_t)(value <= INT16_MAX ? value : -1);
  if (what == 'i') match->step = value;
  return true;
}

static bool fits(const struct shipped *rule, const char *text, bt_nvtx_match *match) {
  for (const char *pattern = rule->pattern; *pattern != '\0'; pattern++) {
    if (*pattern == '%') {
      if (!capture(*++pattern, &text, match)) return false;
    } else if (*pattern != *text++) {
      return false;
    }
  }
  if (!at_end(text)) return false;
  match->what = rule->what;
  match->kind = rule->kind;
  if (rule->in_order && rule->what == BT_NVTX_STEP) match->step = BT_NVTX_IN_ORDER;
  if (rule->in_order && rule->what == BT_NVTX_SPAN) match->microbatch = BT_NVTX_IN_ORDER;
  if (rule->what == BT_NVTX_SPAN && match->chunk < 0 && match->kind <= BUBBLETOP_RECOMPUTE) match->chunk = 0;
  return true;
}

/* ---- torch.distributed.pipelining: PP:1F3, PP:(0F3;7B1)OVERLAP_F_B ---- */

/* Stage, letters, microbatch. PyTorch's B is a whole backward, its I the one for the input. */
static bool action(const char **at, int32_t *stage, uint8_t *kind, int32_t *microbatch) {
  if (!number(at, stage)) return false;
  switch (*(*at)++) {
  case 'F': *kind = BUBBLETOP_F; break;
  case 'B': *kind = BUBBLETOP_BW; break;
  case 'I': *kind = BUBBLETOP_B; break;
  case 'W': *kind = BUBBLETOP_W; break;
  default: return false;
  }
  return number(at, microbatch);
}

static bool overlapped(const char *at, bt_nvtx_match *match) {
  uint8_t first = 0;
  uint8_t second = 0;
  if (!action(&at, &match->stage, &first, &match->microbatch) || *at++ != ';' ||
      !action(&at, &match->stage_b, &second, &match->microbatch_b) || *at++ != ')' || first != BUBBLETOP_F ||
      second != BUBBLETOP_BW)
    return false;
  match->what = BT_NVTX_SPAN;
  match->kind = BUBBLETOP_FB;
  return true;
}

static bool torch_action(const char *text, bt_nvtx_match *match) {
  if (strncmp(text, "PP:", 3) != 0) return false;
  text += 3;
  if (*text == '(') return overlapped(text + 1, match);
  match->what = BT_NVTX_SPAN;
  return action(&text, &match->stage, &match->kind, &match->microbatch) && at_end(text);
}

/* ---- in words: "stage1 F mb0", "fwd_chunk1_mb3", "backward microbatch 3" ---- */

enum word { WORD_UNKNOWN, WORD_KIND, WORD_MICROBATCH, WORD_CHUNK, WORD_STAGE, WORD_NUMBER };

static enum word word_of(const char *from, size_t length, uint8_t *kind) {
  static const struct {
    const char *text;
    enum word word;
    uint8_t kind;
  } words[] = {
      {"F", WORD_KIND, BUBBLETOP_F},
      {"B", WORD_KIND, BUBBLETOP_B},
      {"W", WORD_KIND, BUBBLETOP_W},
      {"BW", WORD_KIND, BUBBLETOP_BW},
      {"forward", WORD_KIND, BUBBLETOP_F},
      {"fwd", WORD_KIND, BUBBLETOP_F},
      {"backward", WORD_KIND, BUBBLETOP_BW},
      {"bwd", WORD_KIND, BUBBLETOP_BW},
      {"dgrad", WORD_KIND, BUBBLETOP_B},
      {"wgrad", WORD_KIND, BUBBLETOP_W},
      {"recompute", WORD_KIND, BUBBLETOP_RECOMPUTE},
      {"mb", WORD_MICROBATCH, 0},
      {"microbatch", WORD_MICROBATCH, 0},
      {"ubatch", WORD_MICROBATCH, 0},
      {"chunk", WORD_CHUNK, 0},
      {"stage", WORD_STAGE, 0},
      {"pp", WORD_STAGE, 0},
      {"rank", WORD_STAGE, 0},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strlen(words[i].text) != length) continue;
    /* one capital letter is a kind, a small one may be anything */
    if (length <= 2 && words[i].word == WORD_KIND ? strncmp(words[i].text, from, length) != 0
                                                  : strncasecmp(words[i].text, from, length) != 0)
      continue;
    *kind = words[i].kind;
    return words[i].word;
  }
  return WORD_UNKNOWN;
}

static bool is_gap(char c) {
  return c == ' ' || c == '_' || c == '-' || c == '.' || c == ':' || c == '=' || c == '/' || c == '[' || c == ']';
}

/* The text is a kind and a microbatch, and perhaps a chunk and a stage (this process's, so it says nothing new); with any
 * other word it is something else. */
static bool in_words(const char *at, bt_nvtx_match *match) {
  enum word last = WORD_UNKNOWN;
  uint8_t kind = 0;
  while (!at_end(at)) {
    if (is_gap(*at)) {
      at++;
    } else if (is_digit(*at)) {
      int32_t value = 0;
      if (!number(&at, &value)) return false;
      if (last == WORD_MICROBATCH)
        match->microbatch = value;
      else if (last == WORD_CHUNK && value <= INT16_MAX)
        match->chunk = (int16_t)value;
      else if (last != WORD_STAGE)
        return false;
      last = WORD_NUMBER;
    } else {
      const char *from = at;
      while (is_letter(*at))
        at++;
      last = at == from ? WORD_UNKNOWN : word_of(from, (size_t)(at - from), &kind);
      if (last == WORD_UNKNOWN || (last == WORD_KIND && match->kind != 0)) return false;
      if (last == WORD_KIND) match->kind = kind;
    }
  }
  if (match->kind == 0 || match->microbatch < 0) return false;
  match->what = BT_NVTX_SPAN;
  if (match->chunk < 0) match->chunk = 0;
  return true;
}

bool bt_nvtx_match_shipped(const char *text, bt_nvtx_match *match) {
  for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
    const char *pattern = shipped[i].pattern;
    if (*pattern != *text) continue;
    bt_nvtx_match_init(match);
    if (fits(&shipped[i], text, match)) return true;
  }
  bt_nvtx_match_init(match);
  if (torch_action(text, match)) return true;
  bt_nvtx_match_init(match);
  if (in_words(text, match)) return true;
  bt_nvtx_match_init(match);
  return false;
}
