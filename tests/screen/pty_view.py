"""bubbletop view on a pseudo terminal: what a test types and what comes back."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PROGRAM = os.path.join(os.environ["top_builddir"], "bubbletop")
TICK = os.sysconf("SC_CLK_TCK")


class View:
    def __init__(self, run, *options, **variables):
        environment = dict(os.environ, **{"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **variables})
        for name in "NO_COLOR", "COLORFGBG":
            environment.pop(name, None)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(PROGRAM, [PROGRAM, run, *options], environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.text = b""

    def read(self, seconds):
        """What comes within so many seconds."""
        got, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.terminal], [], [], left)[0]:
                try:
                    got += os.read(self.terminal, 65536)
                except OSError:
                    break
        self.text += got
        return got

    def wait_for(self, text):
        for _ in range(200):
            if text in self.text:
                return
            self.read(0.1)
        sys.exit(f"FAIL: {text!r} does not come; the last of what came: {self.text[-300:]!r}")

    def spent(self):
        """Processor time so far, in seconds; None: it has ended."""
        try:
            with open(f"/proc/{self.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            return None
        return None if fields[0] == "Z" else (int(fields[11]) + int(fields[12])) / TICK

    def ended(self):
        for _ in range(200):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                return status
            time.sleep(0.05)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit("FAIL: the view lives on")
