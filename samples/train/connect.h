/* How the ranks find each other: everybody reports to rank 0, gets everybody's address, and connects to its peers. */
#ifndef TRAIN_CONNECT_H
#define TRAIN_CONNECT_H

#include "samples/train/schedule.h"

struct mesh {
  int rank, world;
  int *peers; /* a socket for pipeline messages, by rank; -1: none needed */
  int ring_next, ring_prev; /* among the replicas of a stage; -1: there is one replica */
  int *control; /* on rank 0 a socket to every rank; elsewhere control[0] leads to rank 0 */
};

/* A socket that listens on this port of the host (0: any). Returns it, or -1. */
int listen_on(const char *host, int port, struct failure *why);
/* The port it listens on. */
int port_of(int fd);

/* Rank 0 takes ownership of `listening` (-1: it opens the rendezvous itself); others pass -1. Waits at most 30 s. */
int mesh_connect(struct mesh *mesh, const struct options *o, const struct plan *plan, int listening,
                 struct failure *why);
void mesh_close(struct mesh *mesh);

/* A sum over all ranks through rank 0, in the order of ranks; nobody returns before everybody has called. */
int mesh_sum(const struct mesh *mesh, double *value, struct failure *why);

#endif
