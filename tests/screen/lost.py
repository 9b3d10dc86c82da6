"""bubbletop on a terminal that is lost, slow or idle: it ends by itself, skips frames, and costs nothing."""
import os
import subprocess
import sys
import tempfile
import time

from pty_view import PROGRAM, View

REPLAYED = 8  # seconds: longer than the replay of the test
MOST_WAITING = 1 << 17  # bytes: what a pseudo terminal holds, and as much again
LAST_STEP = b"step 59"


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


def replay(run, reads):
    """A replay to its end, on a terminal that is read all the time or only afterwards: bytes, and what the screen shows then."""
    view = View(run, "--replay=5", "--fps=60")
    view.wait_for(b"quit")
    begin = time.monotonic()
    size = 0
    while time.monotonic() - begin < REPLAYED:
        if reads:
            size += len(view.read(0.2))
        else:
            time.sleep(0.2)
    for _ in range(200):  # until nothing waits and nothing comes
        got = len(view.read(0.5))
        size += got
        if got == 0:
            break
    else:
        sys.exit("FAIL: a replay that has ended writes on")
    os.write(view.terminal, b"\x0c")  # all of it anew
    screen = view.read(1)
    os.write(view.terminal, b"q")
    view.read(0.5)
    view.ended()
    return size, screen


def slow(run):
    """Nobody reads the terminal while a replay runs: frames are left out, and what is shown afterwards is the newest."""
    followed, screen = replay(run, True)
    if LAST_STEP not in screen:
        sys.exit(f"FAIL: the replay does not come to its last step: {screen[:400]!r}")
    behind, screen = replay(run, False)
    print(f"a replay takes {followed} bytes; on a terminal that nobody reads {behind} wait")
    if behind >= followed or behind > MOST_WAITING:
        sys.exit("FAIL: frames are not left out")
    if LAST_STEP not in screen:
        sys.exit(f"FAIL: what is shown in the end is not the newest: {screen[:400]!r}")


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
