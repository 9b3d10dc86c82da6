#include "formats/wire/status.h"

#include <stdio.h>

bt_status bt_fail(bt_error *error, bt_status code, const char *format, ...) {
  if (error != NULL) {
    va_list args;
    va_start(args, format);
    error->code = code;
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
  }
  return code;
}
