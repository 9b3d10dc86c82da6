/* Bytes a span in the streams that the sample trainer writes, flushing live at about 1,000 spans a second and rank.
 *
 * A span's bytes are its record and its share of the blocks' overhead. Targets: 14 a compute span, 22 a comm span. */
#include <dirent.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/wire/decode.h"
#include "formats/wire/encode.h"

#define TRAINER                                                                                                        \
  "samples/pipeline_train --compute timed --schedule zb-h1 --stages 4 --microbatches 8 --steps 50"                     \
  " --forward 1500us --backward 1500us --weight 1500us --jitter 5 --out '%s' >/dev/null"

struct totals {
  uint64_t compute_bytes, compute, comm_bytes, comm, records, block_bytes, payload_bytes;
  int64_t first, last;
};

/* The records of a block, measured one by one. */
static void count_records(const bt_block *block, struct totals *totals) {
  msgpack_unpacked record;
  size_t offset = 0, before = 0;
  msgpack_unpacked_init(&record);
  while (msgpack_unpack_next(&record, (const char *)block->payload, block->payload_length, &offset) ==
         MSGPACK_UNPACK_SUCCESS) {
    unsigned code = (unsigned)record.data.via.array.ptr[0].via.u64;
    totals->records++;
    if (bt_code_is_compute(code)) {
      totals->compute++;
      totals->compute_bytes += offset - before;
    } else if (bt_code_is_comm(code)) {
      totals->comm++;
      totals->comm_bytes += offset - before;
    }
    before = offset;
  }
  msgpack_unpacked_destroy(&record);
  totals->payload_bytes += block->payload_length;
  if (totals->first == 0 || block->min_start < totals->first) totals->first = block->min_start;
  if (block->max_end > totals->last) totals->last = block->max_end;
}

static int count_file(const char *path, struct totals *totals) {
  enum { ROOM = 8 << 20 };
  uint8_t *bytes = malloc(ROOM);
  FILE *file = fopen(path, "rb");
  bt_header header;
  bt_block block;
  bt_error error;
  size_t used = 0, at = 0;
  size_t length = bytes != NULL && file != NULL ? fread(bytes, 1, ROOM, file) : 0;
  int status = bt_header_decode(bytes, length, &header, &used, &error) == BT_OK ? 0 : -1;
  for (at = used; status == 0 && at < length; at += used) {
    if (bt_block_decode(bytes + at, length - at, header.marker, &block, &used) != BT_OK) break;
    totals->block_bytes += used;
    count_records(&block, totals);
  }
  if (file != NULL) fclose(file);
  free(bytes);
  return status == 0 && at == length ? 0 : -1;
}

/* Counts and removes the streams in a folder. */
static int count_folder(const char *folder, struct totals *totals) {
  DIR *entries = opendir(folder);
  int files = 0;
  for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
    char path[4096];
    if (strncmp(entry->d_name, "rank-", 5) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (count_file(path, totals) == 0) files++;
    unlink(path);
  }
  if (entries != NULL) closedir(entries);
  rmdir(folder);
  return files;
}

int main(void) {
  char folder[] = "/tmp/bubbletop-bench-XXXXXX", command[1024];
  struct totals totals = {0};
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(command, sizeof command, TRAINER, folder);
  int status = system(command), files = count_folder(folder, &totals);
  if (status != 0 || files != 4 || totals.compute == 0 || totals.comm == 0) {
    printf("the sample trainer left no capture\n");
    return 1;
  }
  double overhead = (double)(totals.block_bytes - totals.payload_bytes) / (double)totals.records;
  double rate = (double)(totals.compute + totals.comm) / files / ((double)(totals.last - totals.first) / 1e9);
  printf("sample run: %.0f spans/s a rank, %.1f bytes of block overhead a record\n", rate, overhead);
  printf("sample run: %.1f bytes a compute span (target 14), %.1f a comm span (target 22)\n",
         (double)totals.compute_bytes / (double)totals.compute + overhead,
         (double)totals.comm_bytes / (double)totals.comm + overhead);
  return 0;
}
