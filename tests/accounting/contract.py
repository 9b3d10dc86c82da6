#!/usr/bin/env python3
"""Every key of the report's contract is there, of the right type, whatever run is read; classes add up; excesses sum."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")
SOURCE = os.environ.get("top_srcdir", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

CLASSES = ("f b w bw fb recompute other optimizer exposed_p2p late_receiver collective_wait exposed_collective fill drain "
           "steady_wait tail_sync host_gap between_steps unattributed")
CLASSES = [name + "_ns" for name in CLASSES.split()]
NUMBER, TEXT, LIST, OBJECT, FLAG = (int, float), str, list, dict, bool
# "name?" may be null
CONTRACT = {
    "schedule": {"name?": TEXT, "aliases": LIST, "stages": NUMBER, "chunks": NUMBER, "microbatches?": NUMBER,
                 "source?": TEXT},
    "bubble": {key: NUMBER for key in
               "rate_window? rate_span? over_ideal? ideal_rate_window? ideal_rate_span?".split()},
    "clock": {"aligned": FLAG, "max_error_ns?": NUMBER, "likely_error_ns?": NUMBER, "hosts": LIST},
    "lost": {key: NUMBER for key in "bubble_ns? excess_ns? gpu_hours? excess_gpu_hours?".split()},
}
ROWS = {
    ("clock", "hosts"): {"host": TEXT, "offset_ns?": NUMBER, "drift_ppm?": NUMBER, "error_ns?": NUMBER,
                         "likely_error_ns?": NUMBER},
    ("steps",): {"step": NUMBER, "step_ns?": NUMBER, "window_ns?": NUMBER, "rate_window?": NUMBER, "rate_span?": NUMBER,
                 "over_ideal?": NUMBER},
    ("causes",): {"kind": TEXT, "stage?": NUMBER, "to_stage?": NUMBER, "rank?": NUMBER, "microbatch?": NUMBER,
                  "excess_ns": NUMBER, "share": NUMBER},
    ("links",): {"from": NUMBER, "to": NUMBER, "messages": NUMBER, "bytes?": NUMBER, "wait_ns?": NUMBER,
                 "transfer_ns?": NUMBER},
    ("stages",): dict({key: NUMBER for key in CLASSES},
                      **{"stage": NUMBER, "vstages": LIST, "ranks": NUMBER, "interval_ns": NUMBER, "window_ns?": NUMBER,
                         "step_ns?": NUMBER, "busy_ns?": NUMBER, "inner_idle_ns": NUMBER, "hidden_in_bubble_ns": NUMBER,
                         "p2p_ns?": NUMBER, "p2p_wait_ns?": NUMBER, "p2p_transfer_ns?": NUMBER, "p2p_bytes?": NUMBER,
                         "bubble_rate?": NUMBER, "surplus?": NUMBER, "peak_memory?": NUMBER, "theoretical": OBJECT,
                         "excess": OBJECT}),
    ("warnings",): {"code": TEXT, "text": TEXT},
}


def fail(name, what):
    print("%s: %s" % (name, what))
    sys.exit(1)


def check_object(name, place, value, keys):
    for key, kind in keys.items():
        bare = key.rstrip("?")
        if bare not in value:
            fail(name, "no key %s in %s" % (bare, place))
        if value[bare] is None and key.endswith("?"):
            continue
        if not isinstance(value[bare], kind) or (isinstance(value[bare], bool) and kind is not FLAG):
            fail(name, "%s of %s is %r" % (bare, place, value[bare]))


def check_stage(name, report, stage):
    if sum(stage[key] for key in CLASSES) != stage["interval_ns"]:
        fail(name, "classes of stage %d do not add up" % stage["stage"])
    for key in CLASSES:
        theory, excess = stage["theoretical"][key], stage["excess"][key]
        if (theory is None) != (excess is None) or (theory is not None and theory + excess != stage[key]):
            fail(name, "theory and excess of %s of stage %d do not add up" % (key, stage["stage"]))


def unknown_constant(text):
    raise ValueError("%s is no JSON" % text)


def report(name, arguments, statuses):
    done = subprocess.run([PROGRAM, "report", "--json"] + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in statuses:
        fail(name, "exit status %d: %s" % (done.returncode, done.stderr.decode()))
    value = json.loads(done.stdout, parse_constant=unknown_constant)
    for key, keys in CONTRACT.items():
        if key not in value:
            fail(name, "no key " + key)
        check_object(name, key, value[key], keys)
    if value.get("classes") != CLASSES:
        fail(name, "classes are %s" % value.get("classes"))
    for path, keys in ROWS.items():
        rows = value
        for key in path:
            if key not in rows:
                fail(name, "no key " + key)
            rows = rows[key]
        for place, row in enumerate(rows):
            check_object(name, "%s[%d]" % (".".join(path), place), row, keys)
    for stage in value["stages"]:
        check_stage(name, value, stage)
    withheld = [key for key, rate in value["bubble"].items() if rate is None]
    if withheld and not value["warnings"]:
        fail(name, "%s withheld without a warning" % withheld)
    text = subprocess.run([PROGRAM, "report"] + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shown = text.stdout.decode()
    if text.returncode != done.returncode:
        fail(name, "the text's exit status is %d, JSON's %d" % (text.returncode, done.returncode))
    for word in ("nan", "inf ", "-9223372036854775808", "(null)"):
        if word in shown.lower():
            fail(name, "'%s' in the text:\n%s" % (word, shown))
    if any(len(line) > 80 for line in shown.splitlines()):
        fail(name, "wider than 80 columns:\n" + shown)
    return value


def simulate(directory, name, options):
    run = os.path.join(directory, name)
    subprocess.run([PROGRAM, "simulate", "-o", run] + options.split(), check=True, stdout=subprocess.DEVNULL)
    return run


def ranks_of(run):
    return sorted(glob.glob(os.path.join(run, "*.msgpack")))


def main():
    times = " --forward 10ms --backward 12ms --weight 8ms --comm 300us --jitter 5% --steps 3"
    with tempfile.TemporaryDirectory() as directory:
        run = simulate(directory, "plain", "--schedule 1f1b --stages 4 --microbatches 8 --slow 2:1.3 --skew 50ms" + times)
        value = report("a slow stage", [run], (0,))
        if not value["causes"] or value["causes"][0]["kind"] != "stage" or len(value["clock"]["hosts"]) != 4:
            fail("a slow stage", "cause or hosts are missing")
        heaviest = max(value["stages"], key=lambda stage: stage["surplus"])
        if heaviest["stage"] != 2 or abs(heaviest["surplus"] - 0.3) > 0.03:
            fail("a slow stage", "the surplus is %s" % heaviest["surplus"])
        if not 0 < value["lost"]["excess_ns"] < value["lost"]["bubble_ns"]:
            fail("a slow stage", "lost is %s" % value["lost"])
        replicas = simulate(directory, "replicas", "--schedule interleaved --chunks 2 --stages 2 --microbatches 4 --dp 2 "
                            "--tp 2 --zero 3 --sync --optimizer 2ms --declare" + times)
        report("replicas", [replicas], (0,))
        report("one rank of four", ranks_of(run)[1:2], (0, 1))
        report("three ranks of four", ranks_of(run)[:3], (0, 1))
        report("one replica of two", [path for path in ranks_of(replicas) if int(os.path.basename(path)[5:10]) % 4 < 2],
               (0, 1))
        report("one rank without a pipeline", [simulate(directory, "one", "--schedule gpipe --stages 1 --microbatches 2")],
               (0,))
        cut = os.path.join(directory, "cut")
        shutil.copytree(simulate(directory, "long", "--schedule 1f1b --stages 4 --microbatches 8 --steps 300"), cut)
        for place, path in enumerate(ranks_of(cut)):
            os.truncate(path, os.path.getsize(path) * (80 - 10 * place) // 100)
        report("torn files", [cut], (1,))
        shipped = sorted(glob.glob(os.path.join(SOURCE, "samples", "captures", "*")))
        for path in shipped:
            if os.path.isdir(path) and ranks_of(path):
                report(path, [path], (0, 1))
    print("the report's contract holds")


main()
