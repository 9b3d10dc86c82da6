#include "samples/train/allreduce.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

struct ring {
  int next, prev; /* sockets */
  int position, size;
  float *data, *received;
  size_t count;
};

static size_t part_begin(const struct ring *r, int part) {
  return r->count * (size_t)part / (size_t)r->size;
}
static int wrap(const struct ring *r, int part) {
  return (part % r->size + r->size) % r->size;
}

/* Sends to the next while receiving from the one before, as both would fill up otherwise. */
static int exchange(const struct ring *r, const void *out, size_t out_bytes, void *in, size_t in_bytes) {
  size_t sent = 0, got = 0;
  while (sent < out_bytes || got < in_bytes) {
    struct pollfd fds[2] = {{.fd = sent < out_bytes ? r->next : -1, .events = POLLOUT},
                            {.fd = got < in_bytes ? r->prev : -1, .events = POLLIN}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents != 0) {
      ssize_t n = send(r->next, (const char *)out + sent, out_bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (n > 0) sent += (size_t)n;
    }
    if (fds[1].revents != 0) {
      ssize_t n = recv(r->prev, (char *)in + got, in_bytes - got, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return -1;
      if (n > 0) got += (size_t)n;
    }
  }
  return 0;
}

/* Sends one part on and receives another, which is added to ours or replaces it. */
static int pass_on(const struct ring *r, int out_part, int in_part, bool add) {
  int out = wrap(r, out_part), in = wrap(r, in_part);
  size_t out_at = part_begin(r, out), out_count = part_begin(r, out + 1) - out_at;
  size_t in_at = part_begin(r, in), in_count = part_begin(r, in + 1) - in_at;
  float *target = add ? r->received : r->data + in_at;
  if (exchange(r, r->data + out_at, out_count * sizeof(float), target, in_count * sizeof(float)) != 0) return -1;
  for (size_t i = 0; add && i < in_count; i++)
    r->data[in_at + i] += r->received[i];
  return 0;
}

static int ring_sum(const struct ring *r) {
  for (int i = 0; i < r->size - 1; i++)
    if (pass_on(r, r->position - i, r->position - i - 1, true) != 0) return -1;
  for (int i = 0; i < r->size - 1; i++)
    if (pass_on(r, r->position + 1 - i, r->position - i, false) != 0) return -1;
  return 0;
}

/* The span of a collective, and the gate of the training thread that waits for it. */
struct collective {
  bubbletop_span span, gate;
};

static void begin(struct collective *c, const struct trace *trace, uint32_t group, int64_t sequence, size_t bytes) {
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.group = group;
  comm.bytes = (int64_t)bytes;
  comm.sequence = sequence;
  bubbletop_comm_begin(trace->session, &c->span, BUBBLETOP_ALL_REDUCE, bubbletop_at(-1, -1), &comm);
  bubbletop_gate_on on = {
      .size = sizeof on, .kind = BUBBLETOP_ALL_REDUCE, .peer = -1, .group = group, .sequence = sequence, .count = 1};
  bubbletop_gate_begin(trace->session, &c->gate, bubbletop_at(-1, -1), &on);
}

static void end(struct collective *c) {
  bubbletop_end(&c->span);
  bubbletop_end(&c->gate);
}

int all_reduce_gradients(const struct mesh *mesh, const struct trace *trace, const struct options *o, int64_t sequence,
                         float *data, size_t count, struct failure *why) {
  size_t largest_part = count / (size_t)o->replicas + 1;
  struct ring r = {mesh->ring_next,
                   mesh->ring_prev,
                   replica_of(o, mesh->rank),
                   o->replicas,
                   data,
                   malloc(largest_part * sizeof(float)),
                   count};
  if (r.received == NULL) return failed(why, "out of memory");
  struct collective c;
  begin(&c, trace, trace->data, sequence, count * sizeof(float));
  int status = ring_sum(&r);
  end(&c);
  free(r.received);
  return status == 0 ? 0 : failed(why, "lost a replica of this stage during the all-reduce");
}

int all_reduce_world(const struct mesh *mesh, const struct trace *trace, int64_t sequence, double *value,
                     struct failure *why) {
  struct collective c;
  begin(&c, trace, trace->world, sequence, sizeof *value);
  int status = mesh_sum(mesh, value, why);
  end(&c);
  return status;
}
