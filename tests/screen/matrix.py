"""What the matrix says of its worst cell, against the same worked out from the exported records."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ["top_builddir"], "bubbletop")
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def screen(run, keys):
    return subprocess.run([PROGRAM, "view", run, "--ascii", "--size", "160x30", "--script", keys, "--save-screen", "-"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def median(values):
    return sorted(values)[(len(values) - 1) // 2]


def reckon(lines, step):
    """(stage, replica) -> compute ns, delay ns of a step."""
    place, marks, ops = {}, {}, collections.defaultdict(list)
    for line in lines:
        record = json.loads(line)
        if record["type"] == "rank":
            place[record["rank"]] = (record["stage"], record["replica"])
        elif record["type"] == "step" and record["step"] == step:
            marks[record["rank"]] = (record["begin_ns"], record["end_ns"])
        elif record["type"] == "span" and record.get("lane") == "compute" and record["kind"] != "GATE":
            ops[record["rank"]].append(record)
    compute, done = {}, {}
    for rank, at in place.items():
        begin, end = marks[rank]
        own = [op for op in ops[rank] if begin <= op["start_ns"] < end]
        compute[at] = sum(op["duration_ns"] for op in own)
        done[at] = max(op["start_ns"] + op["duration_ns"] for op in own if op["kind"] in ("F", "B", "W", "BW")) - begin
    usual = {stage: median([ns for (s, _), ns in done.items() if s == stage]) for stage, _ in done}
    return compute, {at: ns - usual[at[0]] for at, ns in done.items()}


def check(text, mode, compute, delay):
    found = re.search(r"worst +stage (\d+) - replica (\d+) - rank \d+ - compute ([0-9.]+) (\w+) .* delay (-?[0-9.]+) (\w+)",
                      text)
    if not found:
        sys.exit(f"FAIL: no worst cell in\n{text}")
    at = int(found[1]), int(found[2])
    if mode[at] < max(mode.values()) - 100:  # cells hold single precision, and simulated replicas compute equally long
        sys.exit(f"FAIL: the worst is not {at} with {mode[at]} ns: there are {max(mode.values())} ns")
    for number, unit, ns in (found[3], found[4], compute[at]), (found[5], found[6], delay[at]):
        shown = float(number) * UNITS[unit]
        if abs(shown - ns) > abs(ns) * 0.006:  # three figures
            sys.exit(f"FAIL: {at}: {shown} ns is shown for {ns}")
    print("ok", found[0])


def main():
    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        subprocess.run([PROGRAM, "simulate", "--schedule", "1f1b", "--stages", "4", "--microbatches", "6", "--steps", "4",
                        "--dp", "24", "--jitter", "6", "--slow", "1:1.1", "--ranks-per-host", "96", "-o", run], check=True,
                       stdout=subprocess.DEVNULL)
        lines = subprocess.run([PROGRAM, "export", run, "--format", "jsonl", "-o", "-"], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.splitlines()
        compute, delay = reckon(lines, 3)
        check(screen(run, "V"), compute, compute, delay)
        check(screen(run, "V c c"), delay, compute, delay)


main()
