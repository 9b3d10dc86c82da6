/* The NVTX injection, driven as NVTX drives it. What is injected lasts as long as a process, so each scenario runs in a
 * child; the parent reads the stream. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/capture/nvtx_client.h"
#include "tests/capture/support.h"

/* In a child: a condition that must hold. */
static void expect(bool condition, int line) {
  if (condition) return;
  fprintf(stderr, "%s:%d: not as expected\n", __FILE__, line);
  _exit(1);
}
#define EXPECT(condition) expect(condition, __LINE__)

/* Runs `body` in a child that records into `directory`. */
static stream_run *recorded(const char *directory, void (*body)(void *), void *context) {
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("BUBBLETOP_FLUSH_MS", "5", 1);
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  assert_int_equal(in_child(body, context), 0);
  return run_read(directory, false);
}

static bool is_op(const bt_event *event) {
  return bt_code_is_span(event->code);
}

/* The n-th span in the order in which they ended. */
static const bt_event *span_at(const stream_run *run, size_t n) {
  for (size_t i = 0; i < run->record_count; i++) {
    if (is_op(&run->records[i].event) && n-- == 0) return &run->records[i].event;
  }
  fail_msg("there are not so many spans");
  return NULL;
}

static size_t span_count(const stream_run *run) {
  size_t count = 0;
  for (size_t i = 0; i < run->record_count; i++)
    count += is_op(&run->records[i].event);
  return count;
}

/* ---- names ---- */

static const struct name {
  const char *text;
  int code; /* 0: nothing is recorded */
  int microbatch, chunk;
} names[] = {
    {"F0.1.2", BT_F, 0, 1},
    {"B12.0.7", BT_B, 12, 0},
    {"W3.1.9", BT_W, 3, 1},
    {"BW3.1.9", BT_BW, 3, 1},
    {"R3.1.9", BT_RECOMPUTE, 3, 1},
    {"W_clear.1.9", BT_W, -1, 1},
    {"Optimizer", BT_OPTIMIZER, -1, -1},
    {"Forward 3", BT_F, 3, 0},
    {"Backward 4, seq = 12", BT_BW, 4, 0},
    {"Optimizer.step#AdamW.step", BT_OPTIMIZER, -1, -1},
    {"PP:7F3", BT_F, 3, 0},
    {"PP:9I3", BT_B, 3, 1},
    {"PP:7B3", BT_BW, 3, 0},
    {"PP:9W3, op_id = 3", BT_W, 3, 1},
    {"stage1 F mb0", BT_F, 0, 0},
    {"fwd_chunk1_mb3", BT_F, 3, 1},
    {"backward microbatch 3", BT_BW, 3, 0},
    {"wgrad mb=2 stage=3", BT_W, 2, 0},
    {"megatron.optimizer_step", BT_OPTIMIZER, -1, -1},
    {"megatron.core.pipeline_parallel.p2p_communication.recv_forward", BT_HOST, -1, -1},
    /* and what is none of them */
    {"", 0, 0, 0},
    {"F0.1", 0, 0, 0},
    {"F0.1.2x", 0, 0, 0},
    {"F99999999999.0.1", 0, 0, 0},
    {"aten::mm, seq = 3", 0, 0, 0},
    {"Forward", 0, 0, 0},
    {"Forward 3 of 4", 0, 0, 0},
    {"PP:0SEND_F3", 0, 0, 0},
    {"PP:0UNSHARD", 0, 0, 0},
    {"PP:", 0, 0, 0},
    {"mb0 of something F", 0, 0, 0},
    {"F B mb0", 0, 0, 0},
    {"loss mb0", 0, 0, 0},
};

static void push_names(void *context) {
  nvtx_client client;
  (void)context;
  EXPECT(nvtx_attach(&client));
  for (int round = 0; round < 2; round++) { /* the second time from the cache */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      EXPECT(nvtx_push(&client, names[i].text) == 0);
      EXPECT(nvtx_pop(&client) == 0);
    }
  }
  exit(0);
}

static void test_names(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, push_names, NULL);
  size_t at = 0;
  (void)state;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      if (names[i].code == 0) continue;
      const bt_event *event = span_at(run, at++);
      if (event->code != names[i].code || event->microbatch != names[i].microbatch || event->chunk != names[i].chunk)
        fail_msg("%s became %s, microbatch %d, chunk %d", names[i].text, bt_code_name(event->code), event->microbatch,
                 event->chunk);
    }
  }
  assert_int_equal(span_count(run), at);
  run_check_numbers(run);
  assert_string_equal(run_meta(run, "source.nvtx"), "1");
  assert_int_equal(run->files[0].header.rank, 1);
  run_free(run);
  scratch_remove(directory);
}

static void push_overlapped(void *context) {
  nvtx_client client;
  (void)context;
  EXPECT(nvtx_attach(&client));
  nvtx_push(&client, "PP:(1F3;6B2)OVERLAP_F_B");
  nvtx_pop(&client);
  exit(0);
}

static void test_overlapped_and_stages(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, push_overlapped, NULL);
  bt_layout layout;
  (void)state;
  const bt_event *event = span_at(run, 0);
  assert_int_equal(event->code, BT_FB);
  assert_int_equal(event->microbatch, 3);
  assert_int_equal(event->chunk, 0);
  assert_int_equal(event->microbatch_b, 2);
  assert_int_equal(event->chunk_b, 1);
  bt_layout_init(&layout);
  for (size_t i = 0; i < run->record_count; i++) {
    const bt_event *meta = &run->records[i].event;
    if (meta->code == BT_META) bt_layout_decode((const uint8_t *)meta->text, meta->text_length, &layout);
  }
  assert_int_equal(layout.chunks, 2);
  assert_int_equal(layout.vstage[0], 1);
  assert_int_equal(layout.vstage[1], 6);
  run_free(run);
  scratch_remove(directory);
}

/* ---- nesting ---- */

static void push_nested(void *context) {
  nvtx_client client;
  (void)context;
  EXPECT(nvtx_attach(&client));
  bt_nvtx_domain_handle domain = nvtx_domain(&client, "trainer");
  bt_nvtx_string_handle string = nvtx_string(&client, domain, "W2.0.0");
  EXPECT(nvtx_pop(&client) == BT_NVTX_NO_PUSH_POP);
  EXPECT(nvtx_push(&client, "F0.0.0") == 0);
  EXPECT(nvtx_push(&client, "layer") == 1);
  EXPECT(nvtx_domain_push(&client, domain, "B1.0.0") == 0);
  EXPECT(nvtx_domain_push_string(&client, domain, string, NULL) == 1);
  EXPECT(nvtx_domain_push_wide(&client, domain, L"R3.0.0") == 2);
  EXPECT(nvtx_pop(&client) == 1);
  EXPECT(nvtx_pop(&client) == 0); /* F ends while the other domain is open */
  EXPECT(nvtx_pop(&client) == BT_NVTX_NO_PUSH_POP);
  EXPECT(nvtx_domain_pop(&client, domain) == 2);
  EXPECT(nvtx_domain_pop(&client, domain) == 1);
  EXPECT(nvtx_domain_pop(&client, domain) == 0);
  EXPECT(nvtx_domain_pop(&client, domain) == BT_NVTX_NO_PUSH_POP);
  /* deeper than there is room for */
  for (int i = 0; i < 700; i++)
    EXPECT(nvtx_push(&client, "F5.0.0") == i);
  for (int i = 699; i >= 0; i--)
    EXPECT(nvtx_pop(&client) == i);
  exit(0);
}

static void test_nesting(void **state) {
  static const int codes[] = {BT_F, BT_RECOMPUTE, BT_W, BT_B};
  char *directory = scratch_make();
  stream_run *run = recorded(directory, push_nested, NULL);
  (void)state;
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(span_at(run, i)->code, codes[i]);
  assert_int_equal(span_count(run), 4 + 32); /* of the deep ones the outermost */
  run_free(run);
  scratch_remove(directory);
}

/* ---- ranges across threads, steps ---- */

typedef struct across {
  const nvtx_client *client;
  uint64_t id;
} across;

static void *end_range(void *context) {
  across *to = context;
  nvtx_end(to->client, to->id);
  return NULL;
}

static void start_and_end(void *context) {
  nvtx_client client;
  (void)context;
  EXPECT(nvtx_attach(&client));
  nvtx_push(&client, "iter_1_7");
  for (int i = 0; i < 3000; i++) { /* more than can be open at a time */
    across to = {&client, nvtx_start(&client, "F1.0.0")};
    uint64_t other = nvtx_start(&client, "something else");
    pthread_t thread;
    EXPECT(other != to.id);
    if (i < 3) {
      pthread_create(&thread, NULL, end_range, &to);
      pthread_join(thread, NULL);
    } else {
      end_range(&to);
    }
    nvtx_end(&client, to.id); /* a second time */
    nvtx_end(&client, other);
  }
  nvtx_end(&client, 12345);
  nvtx_end(&client, UINT64_MAX);
  nvtx_pop(&client);
  nvtx_mark(&client, "iter_1_8");
  nvtx_push(&client, "forward-compute");
  nvtx_pop(&client);
  nvtx_push(&client, "forward-compute");
  nvtx_pop(&client);
  nvtx_mark(&client, "iter_1_9");
  nvtx_push(&client, "forward-compute");
  nvtx_pop(&client);
  exit(0);
}

static void test_start_end_and_steps(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, start_and_end, NULL);
  (void)state;
  assert_int_equal(span_count(run), 3003);
  assert_int_equal(run_find(run, BT_STEP_BEGIN, 0)->event.step, 7);
  assert_int_equal(run_find(run, BT_STEP_END, 0)->event.step, 7);
  assert_int_equal(run_find(run, BT_STEP_BEGIN, 2)->event.step, 9);
  size_t n = 0;
  int order[3] = {-1, -1, -1};
  for (size_t i = 0; i < run->record_count; i++) {
    const bt_event *event = &run->records[i].event;
    if (event->code == BT_F && event->start >= run_find(run, BT_STEP_BEGIN, 1)->event.start)
      order[n++] = event->microbatch;
  }
  assert_int_equal(n, 3);
  assert_int_equal(order[0], 0);
  assert_int_equal(order[1], 1);
  assert_int_equal(order[2], 0); /* a new step */
  run_check_numbers(run);
  run_free(run);
  scratch_remove(directory);
}

/* ---- own rules ---- */

static void push_own(void *context) {
  static const char *const texts[] = {"train mb=3 part 1", "F0.0.0", "exchange with 2", "epoch 12", "mine", "pair 3 4"};
  nvtx_client client;
  (void)context;
  EXPECT(nvtx_attach(&client));
  bt_nvtx_domain_handle domain = nvtx_domain(&client, "other");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    nvtx_push(&client, texts[i]);
    nvtx_pop(&client);
  }
  nvtx_domain_push(&client, domain, "mine");
  nvtx_domain_pop(&client, domain);
  exit(0);
}

static void test_own_rules(void **state) {
  char *directory = scratch_make();
  const char *path = path_in(directory, "rules");
  FILE *out = fopen(path, "w");
  (void)state;
  assert_non_null(out);
  fputs("# comment\n\n"
        "BW microbatch=1 chunk=2 ^train mb=([0-9]+) part ([0-9]+)$\n"
        "ignore ^F\n"
        "SEND_F peer=1 exchange with ([0-9]+)\n"
        "NONSENSE x\n"
        "F (\n"
        "step step=1 ^epoch ([0-9]+)\n"
        "FB microbatch=1 microbatch_b=2 ^pair ([0-9]+) ([0-9]+)$\n"
        "RECOMPUTE domain=other microbatch=order ^mine$\n",
        out);
  fclose(out);
  setenv("BUBBLETOP_NVTX_RULES", path, 1);
  stream_run *run = recorded(directory, push_own, NULL);
  unsetenv("BUBBLETOP_NVTX_RULES");
  assert_int_equal(span_count(run), 4);
  const bt_event *event = span_at(run, 0);
  assert_int_equal(event->code, BT_BW);
  assert_int_equal(event->microbatch, 3);
  assert_int_equal(event->chunk, 1);
  event = span_at(run, 1);
  assert_int_equal(event->code, BT_SEND_F);
  assert_int_equal(event->peer, 2);
  event = span_at(run, 2);
  assert_int_equal(event->code, BT_FB);
  assert_int_equal(event->microbatch_b, 4);
  event = span_at(run, 3);
  assert_int_equal(event->code, BT_RECOMPUTE);
  assert_int_equal(event->microbatch, 0);
  assert_int_equal(run_find(run, BT_STEP_BEGIN, 0)->event.step, 12);
  assert_memory_equal(run_meta(run, "nvtx_rules_error"), "line 6: there must be a kind", 28);
  run_free(run);
  scratch_remove(directory);
}

/* ---- several objects, fork ---- */

static void *push_many(void *context) {
  const nvtx_client *client = context;
  for (int i = 0; i < 100; i++) {
    nvtx_push(client, "F1.0.0");
    nvtx_pop(client);
  }
  return NULL;
}

static void push_twice(void *context) {
  static nvtx_client one, two;
  pthread_t thread;
  bubbletop_session *own = NULL;
  (void)context;
  EXPECT(nvtx_attach(&one) && nvtx_attach(&two));
  nvtx_push(&one, "F1.0.0");
  nvtx_push(&two, "B1.0.0");
  nvtx_pop(&one); /* of one thread: whoever pops, the last goes */
  nvtx_pop(&two);
  pthread_create(&thread, NULL, push_many, &two);
  push_many(&one);
  pthread_join(thread, NULL);
  /* a program that opens its own session gets the same one, and its close leaves it to the injection */
  EXPECT(bubbletop_open(NULL, &own) == BUBBLETOP_OK);
  record_spans(own, 1000, 1);
  EXPECT(bubbletop_close(own, 0) == BUBBLETOP_OK);
  nvtx_push(&one, "F2000.0.0");
  pid_t child = fork(); /* a data loader: silent, and harmless for what is open */
  if (child == 0) {
    nvtx_pop(&one);
    nvtx_push(&one, "F3000.0.0");
    nvtx_pop(&one);
    exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  nvtx_pop(&one);
  exit(0);
}

static void test_objects_and_fork(void **state) {
  char *directory = scratch_make();
  stream_run *run = recorded(directory, push_twice, NULL);
  (void)state;
  assert_int_equal(run->file_count, 1);
  assert_int_equal(span_count(run), 2 + 200 + 2);
  assert_int_equal(span_at(run, span_count(run) - 1)->microbatch, 2000);
  assert_string_equal(run_end(run, 0), "exit");
  run_free(run);
  scratch_remove(directory);
}

/* ---- NCCL's ranges ---- */

typedef struct send_payload {
  uint64_t communicator;
  size_t bytes;
  int32_t peer;
} send_payload;

typedef struct init_payload {
  uint64_t communicator;
  int32_t ranks, rank, device;
} init_payload;

static const bt_nvtx_entry send_entries[] = {
    {.type = BT_NVTX_TYPE_UINT64, .name = "NCCL communicator ID", .offset = 0},
    {.type = BT_NVTX_TYPE_SIZE, .name = "Message size [bytes]", .offset = 8},
    {.type = BT_NVTX_TYPE_INT, .name = "Peer rank"}, /* no offset: behind the last */
};
static const bt_nvtx_entry init_entries[] = {
    {.type = BT_NVTX_TYPE_UINT64, .name = "NCCL communicator ID"},
    {.type = BT_NVTX_TYPE_INT, .name = "No. of ranks", .offset = 8},
    {.type = BT_NVTX_TYPE_INT, .name = "Rank", .offset = 12},
    {.type = BT_NVTX_TYPE_INT, .name = "CUDA device", .offset = 16},
};

typedef struct nccl_script {
  nvtx_client client;
  bt_nvtx_domain_handle domain;
  uint64_t send_schema, init_schema;
} nccl_script;

static void init_communicator(nccl_script *to, uint64_t id, int32_t ranks, int32_t rank) {
  init_payload bytes = {id, ranks, rank, 0};
  bt_nvtx_payload payload = {to->init_schema, sizeof bytes, &bytes};
  nvtx_domain_push_string(&to->client, to->domain, nvtx_string(&to->client, to->domain, "ncclCommInitRank"), NULL);
  nvtx_domain_pop_payload(&to->client, to->domain, &payload);
}

static void call(nccl_script *to, const char *function, uint64_t id, size_t size, int32_t peer) {
  send_payload bytes = {id, size, peer};
  bt_nvtx_payload payload = {to->send_schema, sizeof bytes, &bytes};
  nvtx_domain_push_string(&to->client, to->domain, nvtx_string(&to->client, to->domain, function), &payload);
  nvtx_domain_pop(&to->client, to->domain);
}

static void call_nccl(void *context) {
  static nccl_script script;
  (void)context;
  EXPECT(nvtx_attach(&script.client));
  script.domain = nvtx_domain(&script.client, "NCCL");
  script.send_schema = nvtx_schema(&script.client, script.domain, 1 << 24, send_entries, 3);
  script.init_schema = nvtx_schema(&script.client, script.domain, 0, init_entries, 4);
  EXPECT(script.send_schema == 1 << 24 && script.init_schema >= BT_NVTX_FIRST_DYNAMIC_SCHEMA);
  init_communicator(&script, 0xabc, 4, 1); /* the world, in some order */
  init_communicator(&script, 0xdef, 3, 1); /* some three */
  call(&script, "ncclSend", 0xabc, 4096, 2);
  call(&script, "ncclRecv", 0xabc, 4096, 0);
  call(&script, "ncclSend", 0xabc, 4096, 0);
  call(&script, "ncclSend", 0xabc, 4096, 2);
  call(&script, "ncclSend", 0xdef, 1, 0);
  call(&script, "ncclAllReduce", 0xdef, 77, 0);
  call(&script, "ncclRecv", 0x123, 5, 3); /* never heard of */
  call(&script, "ncclGroupStart", 0, 0, 0);
  nvtx_domain_push(&script.client, script.domain, "ncclSend"); /* without payload */
  nvtx_domain_pop(&script.client, script.domain);
  exit(0);
}

static void test_nccl_ranges(void **state) {
  static const struct {
    int code, peer;
    int64_t bytes;
    int group; /* which GROUP record */
    int64_t sequence;
  } wanted[] = {{BT_SEND, 2, 4096, 0, 0}, {BT_RECV, 0, 4096, 0, 0}, {BT_SEND, 0, 4096, 0, 0},
                {BT_SEND, 2, 4096, 0, 1}, {BT_SEND, 0, 1, 1, 0},    {BT_ALL_REDUCE, -1, 77, 1, -1},
                {BT_RECV, 3, 5, 2, -1}};
  char *directory = scratch_make();
  stream_run *run = recorded(directory, call_nccl, NULL);
  (void)state;
  assert_int_equal(span_count(run), 7);
  for (size_t i = 0; i < 7; i++) {
    const bt_event *event = span_at(run, i);
    assert_int_equal(event->code, wanted[i].code);
    assert_int_equal(event->peer, wanted[i].peer);
    assert_int_equal(event->bytes, wanted[i].bytes);
    assert_int_equal(event->group, run_find(run, BT_GROUP, (size_t)wanted[i].group)->event.group);
    assert_int_equal(event->sequence, wanted[i].sequence);
  }
  const bt_event *world = &run_find(run, BT_GROUP, 0)->event;
  assert_int_equal(world->number, 0xabc);
  assert_int_equal(world->own_rank, 1);
  assert_int_equal(world->run_count, 0);
  const bt_event *other = &run_find(run, BT_GROUP, 1)->event;
  assert_int_equal(other->number, 0xdef);
  assert_int_equal(other->own_rank, 1);
  assert_int_equal(other->count, 3);
  assert_int_equal(other->run_count, 0);
  run_free(run);
  scratch_remove(directory);
}

/* ---- the real libnccl, the real NVTX headers, and another tool ---- */

static const char *built(const char *name) {
  const char *build = getenv("top_builddir");
  return path_in(build != NULL ? build : ".", name);
}

static void run_program(void *context) {
  (void)context;
  setenv("NVTX_INJECTION64_PATH", built(".libs/libbubbletop-nvtx.so"), 1);
  execl(built("tests/capture/nvtx_nccl"), "nvtx_nccl", (char *)NULL);
  _exit(98);
}

static void test_real_nccl(void **state) {
  char *directory = scratch_make();
  (void)state;
  setenv("BUBBLETOP_DIR", directory, 1);
  setenv("RANK", "1", 1);
  int status = in_child(run_program, NULL);
  if (status == 77) { /* it is not installed */
    scratch_remove(directory);
    skip();
  }
  assert_int_equal(status, 0);
  stream_run *run = run_read(directory, false);
  size_t sends = 0;
  size_t receives = 0;
  for (size_t i = 0; i < run->record_count; i++) {
    const bt_event *event = &run->records[i].event;
    bool send = event->code == BT_SEND;
    if (!send && event->code != BT_RECV) continue;
    assert_int_equal(event->peer, send ? 3 : 2);
    assert_int_equal(event->bytes, send ? 64 : 32);
    assert_int_equal(event->group, run_find(run, BT_GROUP, 0)->event.group);
    sends += send;
    receives += !send;
  }
  assert_int_equal(sends, 5);
  assert_int_equal(receives, 5);
  assert_int_equal(run_find(run, BT_ALL_REDUCE, 0)->event.bytes, 64);
  assert_int_equal(run_find(run, BT_GROUP, 0)->event.number, UINT64_C(0xabababababababab));
  /* the program's own ranges, if it was built with NVTX's headers: another object with a table of its own */
  assert_true(run_count(run, BT_F) == 0 || run_count(run, BT_F) == 5);
  assert_int_equal(run->file_count, 1);
  run_free(run);
  scratch_remove(directory);
}

static void push_chained(void *context) {
  nvtx_client client;
  const char *probe = context;
  setenv("BUBBLETOP_NVTX_CHAIN", probe, 1);
  EXPECT(nvtx_attach(&client));
  void *library = dlopen(probe, RTLD_NOW);
  EXPECT(library != NULL);
  const int *seen = dlsym(library, "probe_seen");
  EXPECT(seen != NULL);
  bt_nvtx_domain_handle domain = nvtx_domain(&client, "probe");
  bt_nvtx_string_handle string = nvtx_string(&client, domain, "F1.0.0");
  EXPECT(nvtx_push(&client, "F0.0.0") == 100); /* the other tool's levels */
  EXPECT(nvtx_pop(&client) == 100);
  EXPECT(nvtx_domain_push_string(&client, domain, string, NULL) == 200); /* which it says if the handles are its own */
  EXPECT(nvtx_domain_pop(&client, domain) == 200);
  uint64_t mine = nvtx_start(&client, "F2.0.0");
  uint64_t its = nvtx_start(&client, "nothing");
  EXPECT(mine != 4711 && its == 4711);
  nvtx_end(&client, mine);
  nvtx_end(&client, its);
  EXPECT(*seen == 8);
  EXPECT(nvtx_schema(&client, domain, 0, init_entries, 4) == 77);
  exit(0);
}

static void test_chain(void **state) {
  char *directory = scratch_make();
  (void)state;
  stream_run *run = recorded(directory, push_chained, (void *)(uintptr_t)built("tests/capture/.libs/nvtx_probe.so"));
  assert_int_equal(span_count(run), 3);
  run_free(run);
  scratch_remove(directory);
  /* one that is not there: said, and harmless */
  directory = scratch_make();
  setenv("BUBBLETOP_NVTX_CHAIN", "/nowhere/tool.so", 1);
  run = recorded(directory, push_overlapped, NULL);
  unsetenv("BUBBLETOP_NVTX_CHAIN");
  assert_non_null(strstr(run_meta(run, "nvtx_rules_error"), "/nowhere/tool.so"));
  run_free(run);
  scratch_remove(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),       cmocka_unit_test(test_overlapped_and_stages),
      cmocka_unit_test(test_nesting),     cmocka_unit_test(test_start_end_and_steps),
      cmocka_unit_test(test_own_rules),   cmocka_unit_test(test_objects_and_fork),
      cmocka_unit_test(test_nccl_ranges), cmocka_unit_test(test_real_nccl),
      cmocka_unit_test(test_chain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
