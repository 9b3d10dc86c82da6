#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "samples/train/connect.h"
#include "samples/train/rank.h"

enum { PATIENCE_SECONDS = 10 }; /* for the other ranks to notice that one has failed */

struct children {
  pid_t *pids; /* by rank, 0: has ended */
  int count, alive;
  bool failed;
  int waited; /* seconds since the first failure */
};

static void tell_children(const struct children *c, int number) {
  for (int rank = 0; rank < c->count; rank++)
    if (c->pids[rank] > 0) kill(c->pids[rank], number);
}

static void reap(struct children *c) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    for (int rank = 0; rank < c->count; rank++) {
      if (c->pids[rank] != pid) continue;
      c->pids[rank] = 0;
      c->alive--;
      if (WIFSIGNALED(status))
        fprintf(stderr, "pipeline_train: rank %d was ended by signal %d (%s)\n", rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
      if (status != 0) c->failed = true;
    }
}

/* Waits for children and signals. A signal that a terminal sent has reached the ranks already. */
static void watch(struct children *c, const sigset_t *signals) {
  while (c->alive > 0) {
    siginfo_t info;
    int number = sigtimedwait(signals, &info, &(struct timespec){.tv_sec = 1});
    if ((number == SIGINT || number == SIGTERM) && info.si_code != SI_KERNEL) tell_children(c, number);
    if (number < 0 && errno == EAGAIN && c->failed && ++c->waited >= PATIENCE_SECONDS)
      tell_children(c, c->waited < 2 * PATIENCE_SECONDS ? SIGTERM : SIGKILL);
    reap(c);
  }
}

static void become_rank(const struct options *o, int rank, int listening, int port, const sigset_t *before) {
  struct options own = *o;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigprocmask(SIG_SETMASK, before, NULL);
  own.rank = rank;
  own.master_host = "127.0.0.1";
  own.master_port = port;
  if (rank != 0) close(listening);
  exit(rank_run(&own, rank == 0 ? listening : -1));
}

static void describe(const struct options *o) {
  printf("%s, %d stages, %d replicas, %d microbatches, %d chunks: %s\n", o->schedule, o->stages, o->replicas,
         o->microbatches, o->chunks, o->timed ? "timed waits instead of arithmetic" : "real arithmetic");
  fflush(stdout);
}

int launch(const struct options *o) {
  struct plan plan = {0};
  struct failure why;
  int status = plan_make(&plan, o, &why), listening = -1;
  plan_free(&plan);
  if (status == 0) status = listening = listen_on("127.0.0.1", 0, &why);
  struct children c = {.count = options_world(o), .pids = calloc((size_t)options_world(o), sizeof(pid_t))};
  if (status < 0 || c.pids == NULL) {
    fprintf(stderr, "pipeline_train: %s\n", status < 0 ? why.text : "out of memory");
    free(c.pids);
    return listening < 0 ? 2 : 1;
  }
  describe(o);
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, &before);
  for (int rank = 0; rank < c.count && !c.failed; rank++) {
    pid_t pid = fork();
    if (pid == 0) become_rank(o, rank, listening, port_of(listening), &before);
    if (pid > 0)
      c.alive++;
    else
      c.failed = true;
    c.pids[rank] = pid > 0 ? pid : 0;
  }
  close(listening);
  watch(&c, &signals);
  free(c.pids);
  return c.failed ? 1 : 0;
}
