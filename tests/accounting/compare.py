#!/usr/bin/env python3
"""`bubbletop report --json` against the brute-force accounting, on simulated runs and on random ones.

Exits 77 (skipped) where no Python here has the msgpack module.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import msgpack
except ImportError:
    other = "/usr/bin/python3"
    if os.path.exists(other) and os.path.realpath(sys.executable) != os.path.realpath(other):
        os.execv(other, [other] + sys.argv)
    print("no msgpack module")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder may be read-only
os.environ.setdefault("top_srcdir", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests/accounting"))
import brute  # noqa: E402
import random_run  # noqa: E402

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")

SIMULATED = [
    "--schedule gpipe --stages 3 --microbatches 3 --steps 2",
    "--schedule 1f1b --stages 4 --microbatches 5 --steps 2 --jitter 20% --comm-jitter 30% --sync --optimizer 3us",
    "--schedule 1f1b --stages 2 --microbatches 3 --dp 2 --zero 1 --steps 3 --jitter 20% --optimizer 3us",
    "--schedule interleaved --stages 2 --microbatches 4 --dp 2 --zero 3 --jitter 20% --steps 2 --sync",
    "--schedule zb-h1 --stages 3 --microbatches 4 --tp 2 --steps 2 --jitter 20% --slow 1:1.3",
    "--schedule zb-h2 --stages 2 --microbatches 4 --steps 3 --jitter 20% --pause 1:50us",
    "--schedule zb-v --stages 2 --microbatches 4 --steps 2 --jitter 10% --slow-link 0-1:3",
    "--schedule dualpipe --stages 2 --microbatches 4 --steps 2 --jitter 20%",
    "--schedule dualpipev --stages 2 --microbatches 4 --steps 2 --jitter 20% --dp 2",
    "--schedule chimera --stages 2 --microbatches 4 --steps 2 --jitter 20%",
]


def fail(name, what):
    print("%s: %s" % (name, what))
    sys.exit(1)


def report(directory):
    done = subprocess.run([PROGRAM, "report", "--json", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in (0, 1):
        fail(directory, "status %d: %s" % (done.returncode, done.stderr.decode()))
    return json.loads(done.stdout)


def compare_stages(name, got, stages):
    for stage in got["stages"]:
        wanted = stages[stage["stage"]]
        if sum(stage[key] for key in got["classes"]) != stage["interval_ns"]:
            fail(name, "the classes of stage %d do not add up" % stage["stage"])
        for key in got["classes"] + ["interval_ns", "window_ns", "busy_ns", "hidden_in_bubble_ns"]:
            if stage[key] != wanted[key]:
                fail(name, "stage %d %s is %s, by brute force %s" % (stage["stage"], key, stage[key], wanted[key]))
    if len(got["stages"]) != len(stages):
        fail(name, "%d stages, by brute force %d" % (len(got["stages"]), len(stages)))


def compare(name, directory):
    got = report(directory)
    run = brute.Run(directory)
    stages = run.account()
    compare_stages(name, got, stages)
    for key, rate in zip(("rate_window", "rate_span"), run.rates(stages)):
        if abs(got["bubble"][key] - rate) > 1e-12:
            fail(name, "%s is %s, by brute force %s" % (key, got["bubble"][key], rate))
    links = {(link["from"], link["to"]): [link[k] for k in ("messages", "bytes", "wait_ns", "transfer_ns")]
             for link in got["links"]}
    if links != dict(run.links()):
        fail(name, "links are %s, by brute force %s" % (links, dict(run.links())))


def permuted(directory, target):
    """The same streams under other file names (lives), so that they are found in another order."""
    for place, name in enumerate(sorted(os.listdir(directory), reverse=True)):
        if name.endswith(".msgpack"):
            os.symlink(os.path.join(directory, name), os.path.join(target, "rank-%05d.0.0.msgpack" % place))


def test_order(name, directory):
    with tempfile.TemporaryDirectory() as other:
        permuted(directory, other)
        a, b = report(directory), report(other)
        for key in ("stages", "bubble", "steps", "links", "causes"):
            if a[key] != b[key]:
                fail(name, "%s differ when the files come in another order" % key)


def main():
    with tempfile.TemporaryDirectory() as directory:
        for place, options in enumerate(SIMULATED):
            run = os.path.join(directory, "simulated-%d" % place)
            times = "--forward 10us --backward 12us --weight 8us --comm 1300ns --ranks-per-host 64 --seed 5"
            subprocess.run([PROGRAM, "simulate", "-o", run] + options.split() + times.split(), check=True,
                           stdout=subprocess.DEVNULL)
            compare(options, run)
            test_order(options, run)
        seeds = range(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else range(60)
        for seed in seeds:
            run = os.path.join(directory, "random-%d" % seed)
            random_run.write(run, random.Random(seed))
            compare("random run %d" % seed, run)
    print("%d simulated and %d random runs agree" % (len(SIMULATED), len(seeds)))


main()
