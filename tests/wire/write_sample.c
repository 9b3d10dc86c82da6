/* write_sample STREAM FIELDS: writes a stream with records of every kind, and what it wrote as one JSON object a line, for
 * test_format.py. Deterministic. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/wire/sample.h"

enum { RECORDS = 6000, RINGS = 3 };

typedef struct writer {
  FILE *stream, *fields;
  uint8_t marker[BT_MARKER_BYTES];
  bt_encoder encoder[RINGS];
  uint8_t bytes[BT_BLOCK_MAX];
} writer;

static void print_header(FILE *out, const bt_header *header) {
  const bt_layout *layout = &header->layout;
  fprintf(out, "{\"rank\":%d,\"world_size\":%d,\"host\":\"%s\",\"boot_id\":\"%s\",\"time_ns\":%" PRIu64, header->rank,
          header->world_size, header->host, header->boot_id, header->time_namespace);
  fprintf(out,
          ",\"pid\":%" PRId64 ",\"run_id\":\"%s\",\"life\":%u,\"segment\":%u,\"mono\":%" PRId64 ",\"real\":%" PRId64,
          header->pid, header->run_id, header->life, header->segment, header->mono_ns, header->real_ns);
  fprintf(out, ",\"ring_path\":\"%s\",\"ring_inode\":%" PRIu64 ",\"recoverable\":%d,\"recovered\":%d,\"writer\":\"%s\"",
          header->ring_path, header->ring_inode, header->recoverable, header->recovered, header->writer);
  fprintf(out, ",\"pp_rank\":%d,\"pp_size\":%d,\"dp_rank\":%d,\"schedule\":\"%s\",\"vstage\":[%d,%d]}\n",
          layout->pp_rank, layout->pp_size, layout->dp_rank, layout->schedule, layout->vstage[0], layout->vstage[1]);
}

static bt_status write_header(writer *to) {
  bt_header header;
  bt_header_init(&header);
  memcpy(header.marker, to->marker, sizeof to->marker);
  header.rank = 5;
  header.world_size = 8;
  header.layout.pp_rank = 1;
  header.layout.pp_size = 4;
  header.layout.vstage[0] = 1;
  header.layout.vstage[1] = 6;
  strcpy(header.layout.schedule, "zb-v");
  strcpy(header.host, "node17");
  strcpy(header.boot_id, "5c7bb3d0-95a6-4a41-a6d5-5f0b3cf5d9d1");
  header.time_namespace = 4026531834;
  header.pid = 4711;
  strcpy(header.run_id, "run-1");
  header.life = 2;
  header.segment = 1;
  header.mono_ns = -5;
  header.real_ns = INT64_C(1700000000123456789);
  strcpy(header.ring_path, "/dev/shm/bubbletop-0/5.2.ring");
  header.ring_inode = UINT64_MAX;
  header.recoverable = 1;
  strcpy(header.writer, "write_sample");
  size_t length = 0;
  bt_status status = bt_header_encode(&header, to->bytes, sizeof to->bytes, &length, NULL);
  if (status != BT_OK) return status;
  fwrite(to->bytes, 1, length, to->stream);
  print_header(to->fields, &header);
  return BT_OK;
}

static void print_event(FILE *out, const bt_event *event, uint64_t number, uint32_t ring) {
  fprintf(out, "{\"ring\":%u,\"number\":%" PRIu64 ",\"code\":%d,\"start\":%" PRId64 ",\"duration\":%" PRId64, ring,
          number, event->code, event->start, event->duration);
  fprintf(out, ",\"flags\":%d,\"lane\":%d,\"chunk\":%d,\"chunk_b\":%d,\"microbatch\":%d,\"microbatch_b\":%d",
          event->flags, event->lane, event->chunk, event->chunk_b, event->microbatch, event->microbatch_b);
  fprintf(out, ",\"tokens\":%" PRId64 ",\"peer\":%d,\"group\":%u,\"bytes\":%" PRId64 ",\"sequence\":%" PRId64,
          event->tokens, event->peer, event->group, event->bytes, event->sequence);
  fprintf(out, ",\"kind\":%d,\"count\":%d,\"step\":%" PRId64 ",\"real\":%" PRId64 ",\"value\":%.17g,\"n\":%" PRIu64,
          event->on_code, event->count, event->step, event->real, event->value, event->number);
  fprintf(out, ",\"of_ring\":%u,\"domain\":%d,\"own_rank\":%d,\"runs\":[", event->ring, event->domain, event->own_rank);
  for (uint32_t i = 0; i < event->run_count; i++)
    fprintf(out, "%s%d,%d,%d", i > 0 ? "," : "", event->runs[i].first, event->runs[i].stride, event->runs[i].count);
  if (event->code == BT_META) {
    fprintf(out, "],\"map\":\"");
    for (uint32_t i = 0; i < event->text_length; i++)
      fprintf(out, "%02x", (uint8_t)event->text[i]);
    fprintf(out, "\"}\n");
  } else {
    fprintf(out, "],\"text\":\"%.*s\"}\n", (int)event->text_length, event->text_length > 0 ? event->text : "");
  }
}

static void flush(writer *to, uint32_t ring) {
  bt_encoder *encoder = &to->encoder[ring];
  size_t length = bt_encoder_finish(encoder, to->marker, to->bytes);
  fwrite(to->bytes, 1, length, to->stream);
  bt_encoder_begin(encoder, ring, encoder->first + encoder->count);
}

static bt_status write_records(writer *to, sample *one) {
  sample_random random = {2026};
  int64_t clock = INT64_C(100000000000);
  for (uint32_t ring = 0; ring < RINGS; ring++)
    bt_encoder_begin(&to->encoder[ring], ring, ring == 2 ? UINT64_MAX - RECORDS : 0);
  for (uint32_t i = 0; i < RECORDS; i++) {
    bt_code code = (bt_code)sample_codes[i < SAMPLE_CODES ? i : sample_below(&random, SAMPLE_CODES)];
    uint32_t ring = sample_below(&random, RINGS);
    bt_encoder *encoder = &to->encoder[ring];
    sample_make(one, &random, code, &clock, ring == 2);
    uint64_t number = encoder->first + encoder->count;
    bt_status status = bt_encoder_add(encoder, &one->event);
    if (status == BT_FULL) {
      flush(to, ring);
      status = bt_encoder_add(encoder, &one->event);
    }
    if (status != BT_OK) return status;
    print_event(to->fields, &one->event, number, ring);
    if (sample_below(&random, 200) == 0) flush(to, ring);
  }
  for (uint32_t ring = 0; ring < RINGS; ring++)
    flush(to, ring);
  return BT_OK;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  writer *to = calloc(1, sizeof *to);
  sample *one = malloc(sizeof *one);
  if (to == NULL || one == NULL) return 1;
  memcpy(to->marker, "\xb7\x98\xc4\x08\x01\x02\x03\x04", BT_MARKER_BYTES);
  to->stream = fopen(argv[1], "wb");
  to->fields = fopen(argv[2], "w");
  bool good = to->stream != NULL && to->fields != NULL && write_header(to) == BT_OK && write_records(to, one) == BT_OK;
  good = good && fclose(to->stream) == 0 && fclose(to->fields) == 0;
  free(one);
  free(to);
  return good ? 0 : 1;
}
