/* pipeline_train: pipeline-parallel training of a small MLP in C, captured with libbubbletop.
 *
 * To instrument a trainer of your own, read trace.c (the session), stage.c (compute), transport.c (messages) and
 * allreduce.c (collectives), in this order. The other files are the trainer itself: schedule.c (who does what when),
 * model.c (the arithmetic), data.c (the task), connect.c and launch.c (processes that find each other).
 */
#include <stdio.h>

#include "samples/train/rank.h"

int main(int argc, char **argv) {
  struct options o;
  struct failure why;
  int status = options_parse(&o, argc, argv, &why);
  if (status > 0) {
    options_help();
    return 0;
  }
  if (status < 0) {
    fprintf(stderr, "pipeline_train: %s\n", why.text);
    return 2;
  }
  if (o.reference) return reference_run(&o);
  return o.rank >= 0 ? rank_run(&o, -1) : launch(&o);
}
