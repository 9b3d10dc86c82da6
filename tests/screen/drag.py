"""The mouse chooses a range of time: the terminal is asked for motion while the button is down, and given back."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pty_view  # noqa: E402

pty_view.PROGRAM = os.path.abspath(pty_view.PROGRAM)


def written(view, name):
    """What the view has written, when it is whole."""
    for _ in range(200):
        try:
            with open(name) as file:
                return json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            view.read(0.1)
    sys.exit(f"FAIL: {name} is not written")


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    subprocess.run([pty_view.PROGRAM, "simulate", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "-o", "run"],
                   check=True, stdout=subprocess.DEVNULL)
    view = pty_view.View("run")
    view.wait_for(b"quit")
    os.write(view.terminal, b"x")
    view.wait_for(b"\033[?1002h")
    lengths = []
    for name, drag in (("run.json", (41, 43, 60)), ("run-2.json", (60, 55, 51)), ("run-3.json", (41,))):
        os.write(view.terminal, b"\033[<0;%d;4M" % drag[0])
        for column in drag[1:]:
            os.write(view.terminal, b"\033[<32;%d;4M" % column)
        os.write(view.terminal, b"\033[<0;%d;4m" % drag[-1] + b"ej")
        made = written(view, name)
        lengths.append(made["to_ns"] - made["from_ns"])
    assert lengths[0] == 2 * lengths[1], lengths  # 20 columns and 10
    assert lengths[2] > lengths[0], lengths  # a click alone takes the range away: all that is seen
    os.write(view.terminal, b"q")
    view.wait_for(b"\033[?1002l")
    assert view.ended() == 0
    os.chdir("/")
