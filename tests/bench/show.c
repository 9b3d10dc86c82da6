#include "tests/bench/show.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

pid_t show_run(const char *directory, int rows, int columns, int *terminal) {
  *terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (*terminal < 0 || grantpt(*terminal) != 0 || unlockpt(*terminal) != 0) return -1;
  struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
  ioctl(*terminal, TIOCSWINSZ, &size);
  const char *name = ptsname(*terminal);
  pid_t pid = fork();
  if (pid != 0) return pid;
  setsid();
  int tty = open(name, O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(tty, fd);
  setenv("TERM", "xterm-256color", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  execl("./bubbletop", "bubbletop", directory, (char *)NULL);
  _exit(127);
}
