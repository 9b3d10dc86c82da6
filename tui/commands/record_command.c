/* The command of a record: started, signals handed on, waited for. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tui/commands/record.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128, DRAIN_TRIES = 50 };

/* What schedulers and people send to a job: to end it, and to make it save (Slurm's --signal=USR1@60). */
static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static sigset_t awaited(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
    sigaddset(&set, handed_on[i]);
  return set;
}

/* A person at a terminal: the command stays in our process group, so that it may read the terminal and Ctrl-C and Ctrl-Z
 * reach it directly. */
static bool at_terminal(void) {
  int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
  bool foreground = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
  if (terminal >= 0) close(terminal);
  return foreground;
}

/* In the child: never returns. Why exec failed goes through the pipe, which a successful exec closes. */
static void become(char *const *command, bool own_group, const sigset_t *mask, int pipe_end) {
  if (own_group) setpgid(0, 0);
  sigprocmask(SIG_SETMASK, mask, NULL);
  execvp(command[0], command);
  int problem = errno;
  ssize_t told = write(pipe_end, &problem, sizeof problem);
  (void)told;
  _exit(problem == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

/* Waits for the end and hands on what others send to us. The terminal's own signals have reached the command's processes
 * already when they are in our group. */
static int wait_for_end(pid_t child, bool own_group, const sigset_t *set) {
  for (;;) {
    siginfo_t info;
    int status;
    int number = sigwaitinfo(set, &info);
    if (number == SIGCHLD || number < 0) {
      if (waitpid(child, &status, WNOHANG) != child) continue;
      return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
    bool from_terminal = info.si_code == SI_KERNEL;
    if (own_group)
      kill(-child, number);
    else if (!from_terminal)
      kill(child, number);
  }
}

bt_status bt_record_command(char *const *command, int *exit_status, bt_error *error) {
  sigset_t set = awaited();
  sigset_t before;
  int ends[2];
  bool own_group = !at_terminal();
  *exit_status = NOT_EXECUTABLE;
  signal(SIGCHLD, SIG_DFL); /* an inherited "ignore" would hide the exit status */
  sigprocmask(SIG_BLOCK, &set, &before);
  if (pipe2(ends, O_CLOEXEC) != 0) return bt_fail(error, BT_ERR_IO, "no pipe: %s", strerror(errno));
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) become(command, own_group, &before, ends[1]);
  int problem = child < 0 ? errno : 0;
  close(ends[1]);
  if (child > 0) {
    if (own_group) setpgid(child, child); /* both do it, so that neither depends on the other's haste */
    if (read(ends[0], &problem, sizeof problem) != sizeof problem) problem = 0;
  }
  close(ends[0]);
  if (child > 0) *exit_status = wait_for_end(child, own_group, &set);
  if (problem != 0) return bt_fail(error, BT_ERR_IO, "cannot run %s: %s", command[0], strerror(problem));
  return BT_OK;
}

void bt_record_drain(const char *directory, bt_recover_report *report) {
  const struct timespec pause = {0, 100000000};
  sigset_t set = awaited();
  sigdelset(&set, SIGCHLD);
  bt_recover_report sum = {.rings_found = 0};
  for (int i = 0;; i++) {
    bt_recover(directory, report, NULL);
    sum.recovered += report->recovered;
    sum.records += report->records;
    if (report->alive == 0 || i == DRAIN_TRIES || sigtimedwait(&set, NULL, &pause) > 0) break;
  }
  report->recovered = sum.recovered;
  report->records = sum.records;
}
