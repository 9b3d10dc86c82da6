"""The view asks the terminal for its background and takes the palette that fits, whatever the answer and whenever it comes."""
import os
import subprocess
import sys
import tempfile

from pty_view import PROGRAM, View

QUESTION = b"\033]11;?\007"
LIGHT_BAR, DARK_BAR = b"48;5;253m", b"48;5;236m"  # the header's background in either palette


def fail(text, view):
    sys.exit(f"FAIL: {text}; what came: {view.text[-400:]!r}")


def leave(view):
    os.write(view.terminal, b"q")
    view.read(0.3)
    view.ended()


def answers(run, name, pieces, light):
    """An answer in pieces, then a key, which must still arrive as one."""
    view = View(run)
    view.wait_for(QUESTION)
    view.wait_for(b"quit")
    view.text = b""
    for piece in pieces:
        os.write(view.terminal, piece)
        view.read(0.1)
    os.write(view.terminal, b"t")  # absolute times: says so
    view.wait_for(b"run's start")
    if (LIGHT_BAR in view.text) != light:
        fail(f"{name}: the palette is {'dark' if light else 'light'}", view)
    print("ok", name)
    leave(view)


def unasked(run, name, bar, *options, **variables):
    view = View(run, *options, **variables)
    view.wait_for(b"quit")
    if QUESTION in view.text:
        fail(f"{name}: it asks", view)
    if bar is not None and bar not in view.text:
        fail(f"{name}: not the palette that was wanted", view)
    print("ok", name)
    leave(view)


def main():
    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        subprocess.run([PROGRAM, "simulate", "--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--steps", "3",
                        "-o", run], check=True, stdout=subprocess.DEVNULL)
        white = b"\033]11;rgb:fdfd/f6f6/e3e3"
        answers(run, "light, ended by BEL", [white + b"\007"], True)
        answers(run, "light, ended by ESC \\", [white + b"\033\\"], True)
        answers(run, "light, two digits, in pieces", [b"\033]11;rgb:f", b"f/ff/f", b"f\007"], True)
        answers(run, "dark", [b"\033]11;rgb:1010/1010/1414\007"], False)
        answers(run, "an answer to something else", [b"\033]52;c;Zm9v\007"], False)
        answers(run, "no colour", [b"\033]11;rgb:zz/zz/zz\007"], False)
        answers(run, "one that is too long", [b"\033]11;" + b"x" * 60], False)
        answers(run, "none", [], False)
        unasked(run, "--dark", DARK_BAR, "--dark")
        unasked(run, "--light", LIGHT_BAR, "--light")
        unasked(run, "Linux console", None, TERM="linux")


main()
