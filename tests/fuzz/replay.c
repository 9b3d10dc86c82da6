/* Runs a fuzz target (LLVMFuzzerTestOneInput) over a corpus without a fuzzer: every file of the directories and files given
 * (default: this target's corpus in the source tree) as it is, and then with a fixed number of mutations that are the same
 * on every run. A finding is a crash or a sanitizer's report. With clang, the target can be linked with -fsanitize=fuzzer
 * instead of this file. */
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 1 << 16, MUTATIONS = 1500 };

typedef struct input {
  uint8_t bytes[INPUT_MAX];
  size_t size;
} input;

static uint64_t next(uint64_t *state) { /* splitmix64 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void mutate_once(input *in, uint64_t *state) {
  static const uint8_t liked[] = {0x00, 0x7f, 0x80, 0x90, 0x9f, 0xc0, 0xc1, 0xc6,
                                  0xcb, 0xcf, 0xd3, 0xdb, 0xdd, 0xdf, 0xff};
  size_t at = in->size > 0 ? next(state) % in->size : 0;
  switch (next(state) % 6) {
  case 0: in->size = at; break;
  case 1:
    if (in->size > 0) in->bytes[at] ^= (uint8_t)(1u << next(state) % 8);
    break;
  case 2:
    if (in->size > 0) in->bytes[at] = liked[next(state) % sizeof liked];
    break;
  case 3:
    if (in->size > 0) in->bytes[at] = (uint8_t)next(state);
    break;
  case 4: /* a byte more */
    if (in->size == INPUT_MAX) break;
    memmove(in->bytes + at + 1, in->bytes + at, in->size - at);
    in->bytes[at] = liked[next(state) % sizeof liked];
    in->size++;
    break;
  default: { /* some bytes a second time */
    size_t length = next(state) % 32;
    if (length > in->size - at || in->size + length > INPUT_MAX) break;
    memmove(in->bytes + at + length, in->bytes + at, in->size - at);
    in->size += length;
  }
  }
}

/* In a buffer of its own size, so that a read behind the end is seen. */
static void run(const uint8_t *bytes, size_t size) {
  uint8_t *exact = malloc(size > 0 ? size : 1);
  if (exact == NULL) return;
  memcpy(exact, bytes, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

static int replay_file(const char *path) {
  input *original = malloc(sizeof *original), *mutant = malloc(sizeof *mutant);
  FILE *file = fopen(path, "rb");
  if (original == NULL || mutant == NULL || file == NULL) {
    fprintf(stderr, "%s: cannot be read\n", path);
    if (file != NULL) fclose(file);
    free(original);
    free(mutant);
    return -1;
  }
  original->size = fread(original->bytes, 1, INPUT_MAX, file);
  fclose(file);
  run(original->bytes, original->size);
  uint64_t state = original->size;
  for (int i = 0; i < MUTATIONS; i++) {
    *mutant = *original;
    for (uint64_t n = 1 + next(&state) % 4; n > 0; n--)
      mutate_once(mutant, &state);
    run(mutant->bytes, mutant->size);
  }
  free(original);
  free(mutant);
  return 0;
}

/* Returns the files replayed, -1 after a failure. */
static int replay(const char *path) {
  DIR *directory = opendir(path);
  if (directory == NULL) return replay_file(path) == 0 ? 1 : -1;
  int count = 0;
  for (struct dirent *entry; count >= 0 && (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    char file[4096];
    int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    int one = length < (int)sizeof file ? replay(file) : -1;
    count = one < 0 ? -1 : count + one;
  }
  closedir(directory);
  return count;
}

int main(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc && count >= 0; i++) {
    int one = replay(argv[i]);
    count = one < 0 ? -1 : count + one;
  }
  if (argc == 1) {
    const char *source = getenv("top_srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", source != NULL ? source : ".", FUZZ_CORPUS);
    count = replay(path);
  }
  if (count > 0) printf("%s: %d files, %d mutations of each\n", FUZZ_CORPUS, count, MUTATIONS);
  return count > 0 ? 0 : 1;
}
