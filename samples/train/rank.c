#include "samples/train/rank.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "samples/train/stage.h"

/* Set by SIGINT and SIGTERM: the run ends in good order after the next step. A second signal ends the process. */
static volatile sig_atomic_t stop_requested;

static void request_stop(int number) {
  (void)number;
  stop_requested = 1;
}

static void catch_signals(void) {
  struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESETHAND | SA_RESTART};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

struct progress {
  int64_t steps, began;
  double first_loss;
  struct stage_report report;
};

static void print_step(const struct options *o, const struct progress *p, int64_t step) {
  if (p->report.has_loss && replica_of(o, o->rank) == 0 && o->print_loss) {
    printf("step %" PRId64 " loss %.9g\n", step, p->report.loss);
    fflush(stdout);
  }
}

static void print_end(const struct options *o, const struct progress *p, const struct transport_counts *moved,
                      bool fine) {
  double ms = p->steps > 0 ? (double)(bubbletop_now() - p->began) / 1e6 / (double)p->steps : 0;
  if (o->stats)
    printf("rank %d ran: steps=%" PRId64 " F=%" PRIu64 " B=%" PRIu64 " W=%" PRIu64 " BW=%" PRIu64 " sent=%" PRIu64
           " received=%" PRIu64 " blocked=%" PRIu64 "\n",
           o->rank, p->steps, p->report.forwards, p->report.backwards, p->report.weights, p->report.fused, moved->sent,
           moved->received, moved->blocked);
  if (!fine || !p->report.has_loss || replica_of(o, o->rank) != 0) return;
  if (o->timed)
    printf("%" PRId64 " steps of %.1f ms, timed waits: nothing was trained\n", p->steps, ms);
  else
    printf("%" PRId64 " steps of %.1f ms, loss %.6g -> %.6g\n", p->steps, ms, p->first_loss, p->report.loss);
}

static int train(const struct options *o, struct stage *stage, struct progress *p, struct failure *why) {
  p->began = bubbletop_now();
  for (; p->steps < o->steps && !p->report.last; p->steps++) {
    if (stage_step(stage, p->steps, &p->report, why) != 0) return -1;
    if (p->steps == 0) p->first_loss = p->report.loss;
    print_step(o, p, p->steps);
  }
  return o->dump_gradients != NULL ? stage_dump(stage, o->dump_gradients, why) : 0;
}

static int run_connected(const struct options *o, const struct plan *plan, const struct mesh *mesh,
                         const struct trace *trace, struct failure *why) {
  struct transport *transport;
  struct stage *stage = NULL;
  struct progress p = {0};
  struct transport_counts moved;
  struct failure end;
  if (transport_start(&transport, mesh, trace, why) != 0) return -1;
  int status = stage_make(&stage, o, plan, mesh, transport, trace, &stop_requested, why);
  if (status == 0) status = train(o, stage, &p, why);
  if (transport_stop(transport, status == 0, &moved, &end) != 0 && status == 0) status = failed(why, "%s", end.text);
  if (stage != NULL) stage_free(stage);
  print_end(o, &p, &moved, status == 0);
  return status;
}

int rank_run(const struct options *o, int listening) {
  struct plan plan;
  struct trace trace;
  struct mesh mesh;
  struct failure why;
  if (plan_make(&plan, o, &why) != 0) {
    fprintf(stderr, "pipeline_train: %s\n", why.text);
    return 2;
  }
  catch_signals();
  if (o->timed) prctl(PR_SET_TIMERSLACK, 1); /* waits end when they should */
  trace_open(&trace, o, &plan);
  int status = mesh_connect(&mesh, o, &plan, listening, &why);
  if (status == 0) status = run_connected(o, &plan, &mesh, &trace, &why);
  mesh_close(&mesh);
  trace_close(&trace, o);
  plan_free(&plan);
  if (status != 0) fprintf(stderr, "pipeline_train: rank %d: %s\n", o->rank, why.text);
  return status == 0 ? 0 : 1;
}
