#include "capture/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const rank_variables[] = {"BUBBLETOP_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                             "PMI_RANK"};
static const char *const world_variables[] = {"BUBBLETOP_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS",
                                              "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
static const char *const run_variables[] = {"BUBBLETOP_RUN_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *environment(const char *name) {
  const char *value = secure_getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool digits(const char *text, const char **end, uint64_t *value) {
  if (*text < '0' || *text > '9') return false;
  char *stop = NULL;
  errno = 0;
  *value = strtoull(text, &stop, 10);
  *end = stop;
  return errno == 0 && *value <= INT64_MAX;
}

/* A count with an optional k, M or G (of 1024). */
static bool size_of(const char *text, uint64_t *value) {
  const char *end = NULL;
  if (!digits(text, &end, value)) return false;
  unsigned shift = 0;
  if (*end == 'k' || *end == 'K') shift = 10;
  if (*end == 'M') shift = 20;
  if (*end == 'G') shift = 30;
  if (shift != 0) end++;
  if (*end != '\0' || *value > (uint64_t)INT64_MAX >> shift) return false;
  *value <<= shift;
  return true;
}

/* `given` if it is not 0, else the variable, else `fallback`; the result lies in [low, high]. */
static bubbletop_status number(uint64_t given, const char *variable, uint64_t fallback, uint64_t low, uint64_t high,
                               uint64_t *out, bt_error *error) {
  const char *text = given == 0 ? environment(variable) : NULL;
  *out = given != 0 ? given : fallback;
  if (text != NULL && !size_of(text, out)) {
    bt_fail(error, BT_ERR_ARG, "%s=%s: expected a number", variable, text);
    return BUBBLETOP_ERR_ARG;
  }
  if (*out < low || *out > high) {
    bt_fail(error, BT_ERR_ARG, "%s: %llu is not within %llu and %llu", variable, (unsigned long long)*out,
            (unsigned long long)low, (unsigned long long)high);
    return BUBBLETOP_ERR_ARG;
  }
  return BUBBLETOP_OK;
}

static bubbletop_status small_number(uint32_t given, const char *variable, uint32_t fallback, uint32_t low,
                                     uint32_t high, uint32_t *out, bt_error *error) {
  uint64_t value = 0;
  bubbletop_status status = number(given, variable, fallback, low, high, &value, error);
  *out = (uint32_t)value;
  return status;
}

static bubbletop_status text(char *out, size_t room, const char *value, const char *what, bt_error *error) {
  size_t length = strlen(value);
  if (length >= room) {
    bt_fail(error, BT_ERR_ARG, "%s is longer than %zu bytes", what, room - 1);
    return BUBBLETOP_ERR_ARG;
  }
  memcpy(out, value, length + 1);
  return BUBBLETOP_OK;
}

/* The first variable of the list that holds a number; our own must hold one if it is set. */
static bubbletop_status launcher_number(int32_t given, const char *const *variables, size_t count, int32_t fallback,
                                        int32_t *out, bt_error *error) {
  *out = given >= 0 ? given : fallback;
  for (size_t i = 0; given < 0 && i < count; i++) {
    const char *value = environment(variables[i]);
    const char *end = NULL;
    uint64_t parsed = 0;
    if (value == NULL) continue;
    if (digits(value, &end, &parsed) && *end == '\0' && parsed <= INT32_MAX) {
      *out = (int32_t)parsed;
      break;
    }
    if (i == 0) {
      bt_fail(error, BT_ERR_ARG, "%s=%s: expected a number", variables[i], value);
      return BUBBLETOP_ERR_ARG;
    }
  }
  return BUBBLETOP_OK;
}

/* "A..B[,C..D]", a single number standing for itself. */
static bool parse_ranges(bt_config *config, const char *at) {
  config->range_count = 0;
  while (*at != '\0') {
    if (config->range_count == BT_CONFIG_RANGES) return false;
    bt_step_range *range = &config->ranges[config->range_count++];
    uint64_t first = 0;
    uint64_t last = 0;
    if (!digits(at, &at, &first)) return false;
    last = first;
    if (at[0] == '.' && at[1] == '.' && !digits(at + 2, &at, &last)) return false;
    if (last < first) return false;
    range->first = (int64_t)first;
    range->last = (int64_t)last;
    if (*at == ',' && at[1] != '\0')
      at++;
    else if (*at != '\0')
      return false;
  }
  return true;
}

static bubbletop_status resolve_texts(bt_config *config, const bubbletop_config *given, bt_error *error) {
  const char *directory = given->directory != NULL ? given->directory : environment("BUBBLETOP_DIR");
  if (directory == NULL || directory[0] == '\0') return BUBBLETOP_DISABLED;
  bubbletop_status status = text(config->directory, sizeof config->directory, directory, "the run directory", error);
  if (status != BUBBLETOP_OK) return status;

  const char *rings = given->ring_directory != NULL ? given->ring_directory : environment("BUBBLETOP_RING_DIR");
  if (rings == NULL) rings = "/dev/shm";
  status = text(config->ring_directory, sizeof config->ring_directory, rings, "the ring directory", error);
  if (status != BUBBLETOP_OK) return status;

  const char *run = given->run_id;
  for (size_t i = 0; run == NULL && i < COUNT_OF(run_variables); i++)
    run = environment(run_variables[i]);
  status = text(config->run_id, sizeof config->run_id, run != NULL ? run : "", "the run id", error);
  if (status != BUBBLETOP_OK) return status;

  const char *steps = given->steps != NULL ? given->steps : environment("BUBBLETOP_STEPS");
  status = text(config->steps, sizeof config->steps, steps != NULL ? steps : "", "the list of steps", error);
  if (status == BUBBLETOP_OK && !parse_ranges(config, config->steps)) {
    bt_fail(error, BT_ERR_ARG, "BUBBLETOP_STEPS=%s: expected A..B[,C..D] with at most %d ranges", config->steps,
            BT_CONFIG_RANGES);
    return BUBBLETOP_ERR_ARG;
  }
  return status;
}

static bubbletop_status resolve_numbers(bt_config *config, const bubbletop_config *given, bt_error *error) {
  const struct {
    uint32_t given;
    const char *variable;
    uint32_t fallback, low, high;
    uint32_t *out;
  } numbers[] = {
      {given->flush_ms, "BUBBLETOP_FLUSH_MS", 100, 1, 60000, &config->flush_ms},
      {given->close_ms, "BUBBLETOP_CLOSE_MS", 2000, 1, 3600000, &config->close_ms},
      {given->ring_bytes, "BUBBLETOP_RING_BYTES", 256 * 1024, 1024, BT_RING_MAX_BYTES, &config->ring_bytes},
      {given->every, "BUBBLETOP_EVERY", 1, 1, INT32_MAX, &config->every},
      {given->write_bytes, "BUBBLETOP_WRITE_BYTES", INT32_MAX, 1, INT32_MAX, &config->write_bytes},
  };
  bubbletop_status status = BUBBLETOP_OK;
  for (size_t i = 0; status == BUBBLETOP_OK && i < COUNT_OF(numbers); i++)
    status = small_number(numbers[i].given, numbers[i].variable, numbers[i].fallback, numbers[i].low, numbers[i].high,
                          numbers[i].out, error);
  if (status == BUBBLETOP_OK)
    status = number(given->segment_bytes, "BUBBLETOP_SEGMENT_BYTES", 256 << 20, 4096, INT64_MAX, &config->segment_bytes,
                    error);
  if (status == BUBBLETOP_OK)
    status = number(given->cap_bytes, "BUBBLETOP_CAP_BYTES", 0, 0, INT64_MAX, &config->cap_bytes, error);
  if (status == BUBBLETOP_OK)
    status = launcher_number(given->rank, rank_variables, COUNT_OF(rank_variables), 0, &config->rank, error);
  if (status == BUBBLETOP_OK)
    status =
        launcher_number(given->world_size, world_variables, COUNT_OF(world_variables), -1, &config->world_size, error);
  return status;
}

bubbletop_status bt_config_resolve(bt_config *config, const bubbletop_config *given, bt_error *error) {
  bubbletop_config all = BUBBLETOP_CONFIG_INIT;
  if (given != NULL) {
    if (given->size < sizeof given->size) {
      bt_fail(error, BT_ERR_ARG, "bubbletop_config.size is not set");
      return BUBBLETOP_ERR_ARG;
    }
    memcpy(&all, given, given->size < sizeof all ? given->size : sizeof all);
  }
  memset(config, 0, sizeof *config);
  bubbletop_status status = resolve_texts(config, &all, error);
  if (status == BUBBLETOP_OK) status = resolve_numbers(config, &all, error);
  /* A cap is kept by deleting whole segments: at least four fit in it, so that at most a quarter is given away. */
  if (status == BUBBLETOP_OK && config->cap_bytes != 0 && config->segment_bytes > config->cap_bytes / 4)
    config->segment_bytes = config->cap_bytes / 4 > 4096 ? config->cap_bytes / 4 : 4096;
  return status;
}

bool bt_config_samples_all(const bt_config *config) {
  return config->range_count == 0 && config->every == 1;
}

bool bt_config_samples(const bt_config *config, int64_t step) {
  if (config->range_count == 0) return step % (int64_t)config->every == 0;
  for (size_t i = 0; i < config->range_count; i++) {
    const bt_step_range *range = &config->ranges[i];
    if (step >= range->first && step <= range->last) return (step - range->first) % (int64_t)config->every == 0;
  }
  return false;
}
