#!/usr/bin/env python3
"""Skewed and drifting clocks of a simulated run change nothing in its report, and every printed offset is within its bound."""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")
if not os.access(PROGRAM, os.X_OK):
    print("no program")
    sys.exit(77)


def simulate(directory, seed, *more):
    subprocess.run([PROGRAM, "simulate", "--schedule", "1f1b", "--stages", "8", "--microbatches", "16", "--steps", "3",
                    "--comm", "0.5ms", "--jitter", "5", "--comm-jitter", "5", "--seed", str(seed), "-o", directory, *more],
                   check=True, stdout=subprocess.DEVNULL)
    report = subprocess.run([PROGRAM, "report", "--json", directory], check=True, stdout=subprocess.PIPE)
    return json.loads(report.stdout)


def check(scratch, seed):
    plain = simulate(os.path.join(scratch, "plain-%d" % seed), seed)
    directory = os.path.join(scratch, "skewed-%d" % seed)
    skewed = simulate(directory, seed, "--skew", "50ms", "--drift", "50")
    clock = skewed["clock"]
    assert clock["aligned"] and 0 < clock["likely_error_ns"] <= clock["max_error_ns"], clock
    assert clock["likely_error_ns"] < 30000, clock
    with open(os.path.join(directory, "truth.json"), encoding="ascii") as file:
        truth = {each["host"]: each["skew_ns"] for each in json.load(file)["clocks"]}
    assert len(clock["hosts"]) == len(truth) == 8
    for host in clock["hosts"]:
        off = host["offset_ns"] - (truth[host["host"]] - truth["node-0000"])
        assert abs(off) <= host["error_ns"], (host, off)
    for rate in ("rate_window", "rate_span", "over_ideal"):
        assert abs(skewed["bubble"][rate] - plain["bubble"][rate]) < 1e-3, (rate, skewed["bubble"], plain["bubble"])
    for one, other in zip(skewed["stages"], plain["stages"]):
        for key in ("busy_ns", "fill_ns", "drain_ns", "steady_wait_ns", "exposed_p2p_ns"):
            # per op no more than the clocks' likely error several times over; there are 3 x 16 x 2 ops a stage
            assert abs(one[key] - other[key]) <= 4 * 96 * clock["likely_error_ns"] + 1e-3 * other[key], (key, one, other)
    assert not [w for w in skewed["warnings"] if w["code"].startswith("clocks")], skewed["warnings"]
    print("seed %d: likely error %d ns, bound %d ns" % (seed, clock["likely_error_ns"], clock["max_error_ns"]))


with tempfile.TemporaryDirectory() as directory:
    for number in (1, 2, 3):
        check(directory, number)
