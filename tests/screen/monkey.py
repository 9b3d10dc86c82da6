"""Random keys on runs of every shape, at every size, in every theme: nothing crashes, hangs or draws outside the screen.

Arguments: seeds to try (default: a few). A failure prints the command that repeats it."""
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

PROGRAM = os.path.join(os.environ["top_builddir"], "bubbletop")
KEYS = ("Left Right Up Down Home End PageUp PageDown Tab S-Tab Enter Escape Backspace S-Left S-Right Space C-u C-d C-o C-l + - = "
        "0 1 2 3 7 9 ] [ } { B a b c e f g G h i j k l m M ' n N o O p q r R s t u U v V w W x z . < > ? / : y "
        "d D P T E S X Y Z ; ! @ # $ % ^ & * ( ) _ | \\ ~ `").split()
LINES = [": 2 Enter", ": 0 . 0 1 s Enter", ": 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 Enter", ": x Enter", "/ F Enter", "/ m b 3 Enter",
         "/ > 1 m s Enter", "/ s t a g e 1 Space W Enter", "/ Escape", "9 9 9 9 9 9 9 +", "9 9 9 9 -", "5 0 Right", "9 9 }"]
RUNS = {
    "zb": "--schedule zb-h1 --stages 4 --microbatches 8 --steps 5 --comm 0.5ms --jitter 5",
    "interleaved": "--schedule interleaved --stages 2 --chunks 3 --microbatches 4 --steps 3 --dp 3 --tp 2 --sync --zero 1 "
                   "--optimizer 3ms --comm 0.2ms",
    "dualpipe": "--schedule dualpipe --stages 4 --microbatches 8 --steps 2 --comm 0.1ms",
    "wide": "--schedule gpipe --stages 40 --microbatches 2 --steps 1 --dp 8 --skew 5ms --drift 20",
    "one": "--schedule gpipe --stages 1 --microbatches 1 --steps 1",
}
SIZES = ["80x24", "120x36", "40x10", "41x11", "200x50", "300x80", "39x9", "1x1", "70x12", "69x20", "1000x12"]


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def try_seed(seed, runs, directory):
    dice = random.Random(seed)
    keys = []
    for _ in range(dice.randint(1, 60)):
        keys.append(dice.choice(LINES) if dice.random() < 0.15 else dice.choice(KEYS))
    keys = [key for key in keys if key not in ("e", "y", "q")] or ["w"]  # files, and the end
    size = dice.choice(SIZES)
    command = [PROGRAM, "view", dice.choice(runs), "--size", size, dice.choice(["--utf8", "--ascii"]), "--script",
               " ".join(keys), "--save-screen", "-"]
    if dice.random() < 0.2:
        command.insert(3, "--replay")
    elif dice.random() < 0.25:
        command[3:3] = ["--with", dice.choice(runs)]
    if dice.random() < 0.3:
        command[3:3] = ["--plan", dice.choice(["1f1b", "zb-h1", "interleaved", "gpipe", "dualpipe"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, cwd=directory)
    repeat = " ".join(f"'{word}'" if " " in word or not word.isalnum() else word for word in command)
    if done.returncode not in (0, 1):
        sys.exit(f"FAIL: seed {seed}: status {done.returncode}: {done.stderr.decode()[-2000:]}\n{repeat}")
    columns, rows = map(int, size.split("x"))
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) != rows or any(width(line) > columns for line in lines):
        sys.exit(f"FAIL: seed {seed}: {len(lines)} lines, the longest {max(map(width, lines))}, at {size}\n{repeat}")
    if any(not character.isprintable() for line in lines for character in line):
        sys.exit(f"FAIL: seed {seed}: a character that is no text\n{repeat}")


def main():
    seeds = range(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else range(40)
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for name, options in RUNS.items():
            runs.append(os.path.join(directory, name))
            subprocess.run([PROGRAM, "simulate", *options.split(), "-o", runs[-1]], check=True, stdout=subprocess.DEVNULL)
        for seed in seeds:
            try_seed(seed, runs, directory)
    print(len(seeds), "seeds")


main()
