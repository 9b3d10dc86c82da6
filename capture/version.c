#include "capture/bubbletop.h"

const char *bubbletop_version(void) {
  return "0.1.0";
}
