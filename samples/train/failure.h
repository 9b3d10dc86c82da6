/* Errors as values: a function that can fail returns 0, or -1 with the reason in a `failure`. */
#ifndef TRAIN_FAILURE_H
#define TRAIN_FAILURE_H

struct failure {
  char text[320];
};

/* Writes the reason and returns -1, so that callers can write `return failed(why, ...)`. */
__attribute__((format(printf, 2, 3))) int failed(struct failure *why, const char *format, ...);

#endif
