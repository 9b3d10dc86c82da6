#include "samples/train/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FRAME_MAGIC = 0x4254464d };

/* What goes before the data of a message. */
struct frame {
  uint32_t magic;
  uint16_t chunk; /* the receiver's */
  uint8_t backward, flags;
  int32_t microbatch;
  uint32_t bytes;
  int64_t sequence;
};

struct outgoing {
  struct outgoing *next;
  struct frame frame;
  float *data;
  size_t done; /* bytes written, frame included */
  bubbletop_span span;
};

struct incoming {
  struct incoming *next;
  int64_t sequence;
  unsigned flags;
  bool arrived;
  float *data;
  bubbletop_span span;
};

/* One socket. The queue, the inbox and `gone` are under the lock; the rest belongs to the thread. */
struct channel {
  int rank, fd;
  struct outgoing *first, *last; /* to be sent */
  struct incoming *inbox; /* posted, arriving or arrived, and not taken yet */
  bool gone; /* the peer closed or failed */
  struct frame frame; /* being read */
  size_t done; /* bytes read, frame included */
  struct incoming *current; /* whose data is being read */
};

struct transport {
  const struct trace *trace;
  int wake; /* eventfd: something to send, or the end */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed; /* something arrived, was sent, or a peer is gone */
  bool stopping;
  struct transport_counts counts;
  int channel_count;
  struct channel *channels;
  struct pollfd *polled;
};

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static bubbletop_kind kind_of(bool receive, bool backward) {
  if (receive) return backward ? BUBBLETOP_RECV_B : BUBBLETOP_RECV_F;
  return backward ? BUBBLETOP_SEND_B : BUBBLETOP_SEND_F;
}

static void begin_span(const struct transport *t, bubbletop_span *span, bubbletop_kind kind,
                       const struct envelope *message) {
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  comm.peer = message->peer;
  comm.group = t->trace->pipeline;
  comm.bytes = (int64_t)(message->count * sizeof(float));
  comm.sequence = message->sequence;
  bubbletop_comm_begin(t->trace->session, span, kind, bubbletop_at(message->microbatch, (int16_t)message->chunk),
                       &comm);
}

static void begin_gate(const struct transport *t, bubbletop_span *span, const struct envelope *message) {
  bubbletop_gate_on on = {.size = sizeof on,
                          .kind = kind_of(true, message->backward),
                          .peer = message->peer,
                          .group = t->trace->pipeline,
                          .sequence = message->sequence,
                          .count = 1};
  bubbletop_gate_begin(t->trace->session, span, bubbletop_at(message->microbatch, (int16_t)message->chunk), &on);
}

/* ---- the thread that moves bytes -------------------------------------------------------------------------------- */

static void lose(struct transport *t, struct channel *channel) {
  pthread_mutex_lock(&t->lock);
  channel->gone = true;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

static struct incoming *find_incoming(const struct channel *channel, int64_t sequence) {
  struct incoming *found = channel->inbox;
  while (found != NULL && found->sequence != sequence)
    found = found->next;
  return found;
}

/* The inbox entry of a message; made, with its span begun, by whoever is first: the poster or the arriving data. */
static struct incoming *want(struct transport *t, struct channel *channel, const struct envelope *message) {
  struct incoming *entry = find_incoming(channel, message->sequence);
  if (entry != NULL) return entry;
  entry = calloc(1, sizeof *entry);
  if (entry == NULL) return NULL;
  entry->sequence = message->sequence;
  entry->next = channel->inbox;
  channel->inbox = entry;
  begin_span(t, &entry->span, kind_of(true, message->backward), message);
  return entry;
}

/* A frame is complete: make room for its data. */
static int begin_data(struct transport *t, struct channel *channel) {
  const struct frame *frame = &channel->frame;
  if (frame->magic != FRAME_MAGIC || frame->bytes % sizeof(float) != 0) return -1;
  struct envelope message = {.peer = channel->rank,
                             .sequence = frame->sequence,
                             .backward = frame->backward,
                             .microbatch = frame->microbatch,
                             .chunk = frame->chunk,
                             .count = frame->bytes / sizeof(float)};
  pthread_mutex_lock(&t->lock);
  struct incoming *entry = want(t, channel, &message);
  if (entry != NULL && !entry->arrived && entry->data == NULL) {
    entry->flags = frame->flags;
    entry->data = malloc(frame->bytes);
    channel->current = entry;
  }
  pthread_mutex_unlock(&t->lock);
  return channel->current != NULL && channel->current->data != NULL ? 0 : -1;
}

static void finish_data(struct transport *t, struct channel *channel) {
  pthread_mutex_lock(&t->lock);
  bubbletop_end(&channel->current->span); /* under the lock: no gate begins after its message has come */
  channel->current->arrived = true;
  t->counts.received++;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  channel->current = NULL;
  channel->done = 0;
}

static void read_some(struct transport *t, struct channel *channel) {
  for (;;) {
    bool in_frame = channel->done < sizeof channel->frame;
    size_t offset = in_frame ? channel->done : channel->done - sizeof channel->frame;
    size_t left = (in_frame ? sizeof channel->frame : channel->frame.bytes) - offset;
    char *place = in_frame ? (char *)&channel->frame : (char *)channel->current->data;
    ssize_t got = recv(channel->fd, place + offset, left, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(t, channel);
    channel->done += (size_t)got;
    if (channel->done == sizeof channel->frame && begin_data(t, channel) != 0) return lose(t, channel);
    if (channel->done == sizeof channel->frame + channel->frame.bytes) finish_data(t, channel);
  }
}

static void finish_send(struct transport *t, struct channel *channel, struct outgoing *sent) {
  bubbletop_end(&sent->span);
  pthread_mutex_lock(&t->lock);
  channel->first = sent->next;
  if (channel->first == NULL) channel->last = NULL;
  t->counts.sent++;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  free(sent->data);
  free(sent);
}

static struct outgoing *next_to_send(struct transport *t, const struct channel *channel) {
  pthread_mutex_lock(&t->lock);
  struct outgoing *next = channel->first;
  pthread_mutex_unlock(&t->lock);
  return next;
}

static void write_some(struct transport *t, struct channel *channel) {
  for (struct outgoing *out; (out = next_to_send(t, channel)) != NULL;) {
    size_t in_frame = out->done < sizeof out->frame ? out->done : sizeof out->frame, in_data = out->done - in_frame;
    struct iovec parts[2] = {{(char *)&out->frame + in_frame, sizeof out->frame - in_frame},
                             {(char *)out->data + in_data, out->frame.bytes - in_data}};
    ssize_t put = sendmsg(channel->fd, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 2}, MSG_NOSIGNAL);
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (put < 0) return lose(t, channel);
    out->done += (size_t)put;
    if (out->done == sizeof out->frame + out->frame.bytes) finish_send(t, channel, out);
  }
}

/* Fills the poll list; false when the transport is to stop. */
static bool prepare_poll(struct transport *t) {
  pthread_mutex_lock(&t->lock);
  bool go_on = !t->stopping;
  for (int i = 0; i < t->channel_count; i++) {
    struct channel *channel = &t->channels[i];
    short events = (short)(POLLIN | (channel->first != NULL ? POLLOUT : 0));
    t->polled[i] = (struct pollfd){.fd = channel->gone ? -1 : channel->fd, .events = events};
  }
  pthread_mutex_unlock(&t->lock);
  t->polled[t->channel_count] = (struct pollfd){.fd = t->wake, .events = POLLIN};
  return go_on;
}

static void *move_bytes(void *argument) {
  struct transport *t = argument;
  while (prepare_poll(t)) {
    uint64_t drained;
    if (poll(t->polled, (nfds_t)t->channel_count + 1, -1) < 0) continue;
    if (t->polled[t->channel_count].revents != 0 && read(t->wake, &drained, sizeof drained) < 0 && errno != EAGAIN)
      break;
    for (int i = 0; i < t->channel_count; i++) {
      if (t->polled[i].revents & (POLLIN | POLLHUP | POLLERR)) read_some(t, &t->channels[i]);
      if (t->polled[i].revents & POLLOUT) write_some(t, &t->channels[i]);
    }
  }
  return NULL;
}

/* ---- what the training thread calls ----------------------------------------------------------------------------- */

static void wake(struct transport *t) {
  uint64_t one = 1;
  if (write(t->wake, &one, sizeof one) < 0) return; /* the counter is full: it is awake */
}

static struct channel *channel_to(struct transport *t, int rank) {
  for (int i = 0; i < t->channel_count; i++)
    if (t->channels[i].rank == rank) return &t->channels[i];
  return NULL;
}

int transport_send(struct transport *t, const struct envelope *message, float *data, struct failure *why) {
  struct channel *channel = channel_to(t, message->peer);
  struct outgoing *out = calloc(1, sizeof *out);
  if (out == NULL || data == NULL || channel == NULL) {
    free(out);
    free(data);
    return failed(why, "no memory to send to rank %d", message->peer);
  }
  out->data = data;
  out->frame = (struct frame){.magic = FRAME_MAGIC,
                              .chunk = (uint16_t)message->to_chunk,
                              .backward = message->backward,
                              .flags = (uint8_t)message->flags,
                              .microbatch = message->microbatch,
                              .bytes = (uint32_t)(message->count * sizeof(float)),
                              .sequence = message->sequence};
  begin_span(t, &out->span, kind_of(false, message->backward), message);
  pthread_mutex_lock(&t->lock);
  bool gone = channel->gone;
  if (channel->last != NULL)
    channel->last->next = out;
  else
    channel->first = out;
  channel->last = out;
  pthread_mutex_unlock(&t->lock);
  wake(t);
  return gone ? failed(why, "lost rank %d", message->peer) : 0;
}

int transport_post(struct transport *t, const struct envelope *message, struct failure *why) {
  pthread_mutex_lock(&t->lock);
  struct incoming *entry = want(t, channel_to(t, message->peer), message);
  pthread_mutex_unlock(&t->lock);
  return entry != NULL ? 0 : failed(why, "no memory to receive from rank %d", message->peer);
}

static void unlink_incoming(struct channel *channel, struct incoming *entry) {
  struct incoming **place = &channel->inbox;
  while (*place != entry)
    place = &(*place)->next;
  *place = entry->next;
}

int transport_take(struct transport *t, const struct envelope *message, float **data, unsigned *flags,
                   struct failure *why) {
  struct channel *channel = channel_to(t, message->peer);
  pthread_mutex_lock(&t->lock);
  struct incoming *entry = find_incoming(channel, message->sequence);
  if (!entry->arrived) {
    bubbletop_span gate;
    begin_gate(t, &gate, message);
    while (!entry->arrived && !channel->gone)
      pthread_cond_wait(&t->changed, &t->lock);
    bubbletop_end(&gate);
    t->counts.blocked++;
  }
  bool arrived = entry->arrived;
  if (arrived) unlink_incoming(channel, entry);
  pthread_mutex_unlock(&t->lock);
  if (!arrived) return failed(why, "lost rank %d while waiting for microbatch %d", message->peer, message->microbatch);
  *data = entry->data;
  *flags = entry->flags;
  free(entry);
  return 0;
}

/* ---- start and stop --------------------------------------------------------------------------------------------- */

static void release(struct transport *t) {
  for (int i = 0; t->channels != NULL && i < t->channel_count; i++) {
    for (struct outgoing *out = t->channels[i].first, *next; out != NULL; out = next) {
      next = out->next;
      free(out->data);
      free(out);
    }
    for (struct incoming *in = t->channels[i].inbox, *next; in != NULL; in = next) {
      next = in->next;
      free(in->data);
      free(in);
    }
  }
  if (t->wake >= 0) close(t->wake);
  free(t->channels);
  free(t->polled);
  free(t);
}

/* The signals of the program are for the training thread. */
static int start_thread(struct transport *t) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = pthread_create(&t->thread, NULL, move_bytes, t);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

int transport_start(struct transport **out, const struct mesh *mesh, const struct trace *trace, struct failure *why) {
  struct transport *t = calloc(1, sizeof *t);
  if (t == NULL) return failed(why, "out of memory");
  t->trace = trace;
  t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  t->channels = calloc((size_t)mesh->world, sizeof *t->channels);
  t->polled = calloc((size_t)mesh->world + 1, sizeof *t->polled);
  for (int rank = 0; t->channels != NULL && rank < mesh->world; rank++)
    if (mesh->peers[rank] >= 0) {
      t->channels[t->channel_count++] = (struct channel){.rank = rank, .fd = mesh->peers[rank]};
      fcntl(mesh->peers[rank], F_SETFL, O_NONBLOCK);
    }
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  if (t->wake < 0 || t->channels == NULL || t->polled == NULL || start_thread(t) != 0) {
    release(t);
    return failed(why, "the transport cannot start: %s", strerror(errno));
  }
  *out = t;
  return 0;
}

int transport_stop(struct transport *t, bool drain, struct transport_counts *counts, struct failure *why) {
  int lost = -1;
  pthread_mutex_lock(&t->lock);
  for (int i = 0; drain && i < t->channel_count; i++) {
    while (t->channels[i].first != NULL && !t->channels[i].gone)
      pthread_cond_wait(&t->changed, &t->lock);
    if (t->channels[i].first != NULL) lost = t->channels[i].rank;
  }
  t->stopping = true;
  *counts = t->counts;
  pthread_mutex_unlock(&t->lock);
  wake(t);
  pthread_join(t->thread, NULL);
  release(t);
  return lost < 0 ? 0 : failed(why, "lost rank %d", lost);
}
