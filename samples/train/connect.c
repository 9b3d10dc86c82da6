#define _GNU_SOURCE /* accept4 */

#include "samples/train/connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture/bubbletop.h"

enum { RENDEZVOUS_SECONDS = 30 };

enum purpose { PURPOSE_REPORT = 0x42540001, PURPOSE_PEER, PURPOSE_RING };

/* The first bytes on every connection. All ranks are assumed to run on machines of one byte order. */
struct hello {
  uint32_t purpose;
  int32_t rank;
  uint64_t token; /* drawn by rank 0: keeps connections of another run away */
  uint64_t fingerprint; /* of the options */
  int32_t port; /* PURPOSE_REPORT: where this rank listens */
  int32_t reserved;
};

/* What rank 0 tells everybody about each rank. */
struct address {
  char host[64];
  int32_t port;
};

static int64_t deadline_in(int seconds) {
  return bubbletop_now() + seconds * INT64_C(1000000000);
}

static int wait_for(int fd, short events, int64_t deadline) {
  for (;;) {
    int64_t left = (deadline - bubbletop_now()) / 1000000;
    struct pollfd item = {.fd = fd, .events = events};
    int ready = poll(&item, 1, left > 0 ? (int)left : 0);
    if (ready > 0) return 0;
    if (ready == 0) return errno = ETIMEDOUT, -1;
    if (errno != EINTR) return -1;
  }
}

static int read_all(int fd, void *data, size_t length, int64_t deadline) {
  for (size_t done = 0; done < length;) {
    if (deadline != 0 && wait_for(fd, POLLIN, deadline) != 0) return -1;
    ssize_t got = recv(fd, (char *)data + done, length - done, 0);
    if (got == 0) errno = ECONNRESET;
    if (got == 0 || (got < 0 && errno != EINTR)) return -1;
    if (got > 0) done += (size_t)got;
  }
  return 0;
}

static int write_all(int fd, const void *data, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t put = send(fd, (const char *)data + done, length - done, MSG_NOSIGNAL);
    if (put < 0 && errno != EINTR) return -1;
    if (put > 0) done += (size_t)put;
  }
  return 0;
}

static struct addrinfo *resolve(const char *host, int port, int flags) {
  char service[16];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL;
  snprintf(service, sizeof service, "%d", port);
  return getaddrinfo(host, service, &hints, &found) == 0 ? found : NULL;
}

int listen_on(const char *host, int port, struct failure *why) {
  struct addrinfo *found = resolve(host, port, AI_PASSIVE);
  if (found == NULL) return failed(why, "%s: no such host", host);
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool fine = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
  freeaddrinfo(found);
  if (fine) return fd;
  failed(why, "%s port %d: %s", host, port, strerror(errno));
  if (fd >= 0) close(fd);
  return -1;
}

int port_of(int fd) {
  struct sockaddr_storage own;
  socklen_t length = sizeof own;
  if (getsockname(fd, (struct sockaddr *)&own, &length) != 0) return -1;
  return ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                         : ((struct sockaddr_in *)&own)->sin_port);
}

static int host_of_peer(int fd, char *host, size_t room) {
  struct sockaddr_storage peer;
  socklen_t length = sizeof peer;
  if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0) return -1;
  return getnameinfo((struct sockaddr *)&peer, length, host, (socklen_t)room, NULL, 0, NI_NUMERICHOST);
}

static void no_delay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Tries until somebody listens there. */
static int connect_to(const char *host, int port, int64_t deadline, struct failure *why) {
  do {
    struct addrinfo *found = resolve(host, port, 0);
    if (found == NULL) return failed(why, "%s: no such host", host);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool fine = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    if (fine) return no_delay(fd), fd;
    if (fd >= 0) close(fd);
    usleep(20000);
  } while (bubbletop_now() < deadline);
  return failed(why, "%s port %d: nobody answers", host, port);
}

/* The next connection that begins with a hello; strangers are turned away. */
static int accept_hello(int listening, struct hello *hello, int64_t deadline) {
  for (;;) {
    if (wait_for(listening, POLLIN, deadline) != 0) return -1;
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && read_all(fd, hello, sizeof *hello, deadline) == 0 && hello->purpose >= PURPOSE_REPORT &&
        hello->purpose <= PURPOSE_RING)
      return no_delay(fd), fd;
    if (fd >= 0) close(fd);
  }
}

/* Rank 0: takes everybody's report, then sends the token and all addresses to everybody. */
static int gather(struct mesh *mesh, const struct options *o, int listening, struct address *all, uint64_t *token,
                  struct failure *why) {
  int64_t deadline = deadline_in(RENDEZVOUS_SECONDS);
  if (getrandom(token, sizeof *token, 0) != sizeof *token) return failed(why, "no random numbers: %s", strerror(errno));
  for (int come = 1; come < mesh->world; come++) {
    struct hello caller;
    int fd = accept_hello(listening, &caller, deadline);
    if (fd < 0) return failed(why, "%d of %d ranks came to the rendezvous: %s", come, mesh->world, strerror(errno));
    bool known = caller.purpose == PURPOSE_REPORT && caller.rank > 0 && caller.rank < mesh->world;
    if (!known || mesh->control[caller.rank] >= 0 || caller.fingerprint != options_fingerprint(o)) {
      close(fd);
      return failed(why, "rank %d was started twice or with other options", caller.rank);
    }
    mesh->control[caller.rank] = fd;
    all[caller.rank].port = caller.port;
    if (host_of_peer(fd, all[caller.rank].host, sizeof all->host) != 0)
      return failed(why, "rank %d: no address: %s", caller.rank, strerror(errno));
  }
  for (int rank = 1; rank < mesh->world; rank++)
    if (write_all(mesh->control[rank], token, sizeof *token) != 0 ||
        write_all(mesh->control[rank], all, (size_t)mesh->world * sizeof *all) != 0)
      return failed(why, "rank %d left during the rendezvous", rank);
  return 0;
}

/* Other ranks: report to rank 0 and read what it answers. */
static int report(struct mesh *mesh, const struct options *o, int port, struct address *all, uint64_t *token,
                  struct failure *why) {
  int64_t deadline = deadline_in(RENDEZVOUS_SECONDS);
  int fd = mesh->control[0] = connect_to(o->master_host, o->master_port, deadline, why);
  struct hello own = {
      .purpose = PURPOSE_REPORT, .rank = mesh->rank, .fingerprint = options_fingerprint(o), .port = port};
  if (fd < 0) return -1;
  if (write_all(fd, &own, sizeof own) != 0 || read_all(fd, token, sizeof *token, deadline) != 0 ||
      read_all(fd, all, (size_t)mesh->world * sizeof *all, deadline) != 0)
    return failed(why, "rank 0 gave up the rendezvous: %s", strerror(errno));
  for (int rank = 1; rank < mesh->world; rank++)
    all[rank].host[sizeof all->host - 1] = '\0';
  return 0;
}

static const char *host_of(const struct options *o, const struct address *all, int rank) {
  return rank == 0 ? o->master_host : all[rank].host;
}

static int call(const struct mesh *mesh, const struct options *o, const struct address *all, int rank, uint32_t purpose,
                uint64_t token, struct failure *why) {
  struct hello own = {.purpose = purpose, .rank = mesh->rank, .token = token};
  int fd = connect_to(host_of(o, all, rank), all[rank].port, deadline_in(RENDEZVOUS_SECONDS), why);
  if (fd >= 0 && write_all(fd, &own, sizeof own) != 0) {
    close(fd);
    return failed(why, "rank %d left during the rendezvous", rank);
  }
  return fd;
}

static bool are_peers(const struct options *o, const struct plan *plan, int a, int b) {
  int from = stage_of(o, a), to = stage_of(o, b);
  return a != b && replica_of(o, a) == replica_of(o, b) && plan->messages[from][to] + plan->messages[to][from] > 0;
}

/* Calls peers of lower rank and the next replica, then answers peers of higher rank and the replica before. */
static int meet(struct mesh *mesh, const struct options *o, const struct plan *plan, int listening,
                const struct address *all, uint64_t token, struct failure *why) {
  int missing = o->replicas > 1, stage = stage_of(o, mesh->rank), replica = replica_of(o, mesh->rank);
  for (int rank = 0; rank < mesh->world; rank++) {
    if (!are_peers(o, plan, mesh->rank, rank)) continue;
    if (rank > mesh->rank)
      missing++;
    else if ((mesh->peers[rank] = call(mesh, o, all, rank, PURPOSE_PEER, token, why)) < 0)
      return -1;
  }
  if (o->replicas > 1) {
    int next = rank_of(o, stage, (replica + 1) % o->replicas);
    if ((mesh->ring_next = call(mesh, o, all, next, PURPOSE_RING, token, why)) < 0) return -1;
  }
  for (int64_t deadline = deadline_in(RENDEZVOUS_SECONDS); missing > 0;) {
    struct hello caller;
    int fd = accept_hello(listening, &caller, deadline), *place = NULL;
    if (fd < 0) return failed(why, "%d peers did not connect: %s", missing, strerror(errno));
    if (caller.purpose == PURPOSE_RING)
      place = &mesh->ring_prev;
    else if (caller.rank >= 0 && caller.rank < mesh->world)
      place = &mesh->peers[caller.rank];
    if (caller.token != token || place == NULL || *place >= 0) {
      close(fd);
      continue;
    }
    *place = fd;
    missing--;
  }
  return 0;
}

static int exchange_addresses(struct mesh *mesh, const struct options *o, const struct plan *plan, int rendezvous,
                              struct failure *why) {
  uint64_t token = 0;
  struct address *all = calloc((size_t)mesh->world, sizeof *all);
  /* peers come in on the interface that leads to rank 0: on one machine that is the loopback */
  bool local = strncmp(o->master_host, "127.", 4) == 0 || strcmp(o->master_host, "localhost") == 0;
  int own = all == NULL ? failed(why, "out of memory") : listen_on(local ? o->master_host : NULL, 0, why), result = -1;
  if (own >= 0) {
    all[mesh->rank].port = port_of(own);
    result = mesh->rank == 0 ? gather(mesh, o, rendezvous, all, &token, why)
                             : report(mesh, o, all[mesh->rank].port, all, &token, why);
    if (result == 0) result = meet(mesh, o, plan, own, all, token, why);
    close(own);
  }
  free(all);
  return result;
}

int mesh_connect(struct mesh *mesh, const struct options *o, const struct plan *plan, int listening,
                 struct failure *why) {
  size_t world = (size_t)options_world(o);
  *mesh = (struct mesh){o->rank, (int)world, malloc(world * sizeof(int)), -1, -1, malloc(world * sizeof(int))};
  for (size_t i = 0; mesh->peers != NULL && mesh->control != NULL && i < world; i++)
    mesh->peers[i] = mesh->control[i] = -1;
  if (o->rank == 0 && listening < 0) listening = listen_on(o->master_host, o->master_port, why);
  int result = mesh->peers == NULL || mesh->control == NULL ? failed(why, "out of memory")
               : o->rank == 0 && listening < 0              ? -1
                                                            : exchange_addresses(mesh, o, plan, listening, why);
  if (listening >= 0) close(listening);
  return result;
}

void mesh_close(struct mesh *mesh) {
  for (int rank = 0; rank < mesh->world; rank++) {
    if (mesh->peers != NULL && mesh->peers[rank] >= 0) close(mesh->peers[rank]);
    if (mesh->control != NULL && mesh->control[rank] >= 0) close(mesh->control[rank]);
  }
  if (mesh->ring_next >= 0) close(mesh->ring_next);
  if (mesh->ring_prev >= 0) close(mesh->ring_prev);
  free(mesh->peers);
  free(mesh->control);
}

int mesh_sum(const struct mesh *mesh, double *value, struct failure *why) {
  if (mesh->rank != 0) {
    if (write_all(mesh->control[0], value, sizeof *value) != 0 ||
        read_all(mesh->control[0], value, sizeof *value, 0) != 0)
      return failed(why, "lost rank 0 at the barrier");
    return 0;
  }
  for (int rank = 1; rank < mesh->world; rank++) {
    double other;
    if (read_all(mesh->control[rank], &other, sizeof other, 0) != 0)
      return failed(why, "lost rank %d at the barrier", rank);
    *value += other;
  }
  for (int rank = 1; rank < mesh->world; rank++)
    if (write_all(mesh->control[rank], value, sizeof *value) != 0)
      return failed(why, "lost rank %d at the barrier", rank);
  return 0;
}
