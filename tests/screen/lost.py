"""bubbletop on a terminal that is lost, slow or idle: it ends by itself, skips frames, and costs nothing."""
import os
import subprocess
import sys
import tempfile
import time

from pty_view import PROGRAM, View


def lost(run):
    """ssh drops: the other side of the terminal is closed."""
    view = View(run)
    view.wait_for(b"quit")
    begin = time.monotonic()
    os.close(view.terminal)
    status = view.ended()
    print(f"lost terminal: ended after {time.monotonic() - begin:.2f} s with status {status:#x}")
    if os.WIFSIGNALED(status):
        sys.exit(f"FAIL: it was ended by signal {os.WTERMSIG(status)}")


def idle(run):
    view = View(run)
    view.wait_for(b"quit")
    view.wait_for(b"ended")
    view.read(1)
    before = view.spent()
    got = view.read(3)
    cost = view.spent() - before
    print(f"idle for 3 s: {len(got)} bytes, {cost * 1000:.0f} ms of processor time")
    if got:
        sys.exit(f"FAIL: it writes though nothing changes: {got!r}")
    if cost > 0.5:
        sys.exit("FAIL: it works though nothing changes")
    os.write(view.terminal, b"q")
    view.read(0.2)
    view.ended()


def slow(run):
    """Nobody reads the terminal while a replay runs: frames are left out, and keys still answered."""
    view = View(run, "--replay", "--fps=60")
    view.wait_for(b"quit")
    time.sleep(2)
    size = len(view.read(0.3))
    print(f"slow terminal: {size} bytes wait after 2 s")
    os.write(view.terminal, b"q")
    view.read(0.5)
    view.ended()


def limited(run):
    view = View(run, "--replay=0.2", "--fps=60", "--max-bytes-per-second", "3000")
    view.wait_for(b"quit")
    view.read(6)  # the first frame is paid off
    size = len(view.read(4))
    print(f"limit of 3000 bytes a second: {size / 4:.0f} a second were sent")
    if not 0 < size <= 4 * 3000 * 2:
        sys.exit("FAIL: the limit does not hold")
    os.write(view.terminal, b"q")
    view.read(0.5)
    view.ended()


def main():
    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        subprocess.run([PROGRAM, "simulate", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--steps",
                        "60", "-o", run], check=True, stdout=subprocess.DEVNULL)
        lost(run)
        idle(run)
        slow(run)
        limited(run)


main()
