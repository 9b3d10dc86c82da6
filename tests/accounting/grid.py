#!/usr/bin/env python3
"""How often `report` recognises a schedule, and names what was made slow: simulated runs over a grid.

Without arguments the small grid that must come out perfect; `--all` prints the whole tables (minutes).
"""
import concurrent.futures
import itertools
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")

# chunks, how many microbatches at least for p stages, and what they are a multiple of
SCHEDULES = {
    "gpipe": (1, lambda p: 1, 1), "1f1b": (1, lambda p: 1, 1), "interleaved": (2, lambda p: p, 0),
    "looped-bfs": (2, lambda p: 1, 1), "zb-h1": (1, lambda p: p, 1), "zb-h2": (1, lambda p: 2 * p - 1, 1),
    "zb-auto": (1, lambda p: p, 1), "zb-v": (2, lambda p: p, 1), "zb-v-auto": (2, lambda p: p, 1),
    "v-half": (2, lambda p: p, 1), "v-min": (2, lambda p: p, 1), "zeropp": (2, lambda p: 1, 1),
    "dualpipe": (2, lambda p: 2 * p, 2), "dualpipev": (2, lambda p: 2 * p, 1), "chimera": (2, lambda p: p, 0),
    "pytorch-zb": (2, lambda p: p, 0),
}
TIMES = "--forward 10ms --backward 12ms --weight 8ms --comm 300us --ranks-per-host 64".split()


def run(directory, name, options):
    path = os.path.join(directory, name)
    done = subprocess.run([PROGRAM, "simulate", "-o", path] + options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 2:
        return None  # a size that this schedule does not have
    text = subprocess.run([PROGRAM, "report", "--json", path], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["rm", "-r", path], check=True)
    return json.loads(text)


def size(schedule, stages, factor):
    chunks, least, multiple = SCHEDULES[schedule]
    multiple = multiple or stages
    microbatches = max(least(stages), stages * factor)
    microbatches += -microbatches % multiple
    options = ["--schedule", schedule, "--stages", str(stages), "--microbatches", str(microbatches)]
    return options + (["--chunks", str(chunks)] if schedule in ("interleaved", "looped-bfs", "zeropp", "pytorch-zb") else [])


def recognise(directory, schedule, stages, factor, jitter, seed):
    name = "r-%s-%d-%d-%d-%d" % (schedule, stages, factor, jitter, seed)
    report = run(directory, name, size(schedule, stages, factor) + TIMES +
                 ["--jitter", "%d%%" % jitter, "--seed", str(seed), "--steps", "2"])
    if report is None:
        return None
    found = report["schedule"]
    right = schedule == found["name"] or schedule in found["aliases"]
    return right, "%s p=%d x%d, %d %% jitter: %s (%s)" % (schedule, stages, factor, jitter, found["name"], found["text"])


def recognition(directory, pool, stages, factors, jitters, seeds):
    wrong = 0
    print("recognised, by jitter in %%:%s" % "".join("%10d" % jitter for jitter in jitters))
    for schedule in SCHEDULES:
        line = "%-28s" % schedule
        misses = []
        for jitter in jitters:
            jobs = [pool.submit(recognise, directory, schedule, p, factor, jitter, seed)
                    for p, factor, seed in itertools.product(stages, factors, seeds)]
            results = [job.result() for job in jobs]
            results = [result for result in results if result is not None]
            misses += [text for right, text in results if not right]
            line += "%10s" % ("%d/%d" % (sum(right for right, _ in results), len(results)))
        print(line)
        for text in misses:
            print("   ", text)
        wrong += len(misses)
    return wrong


def disturbances(stages, microbatches):
    for stage in range(stages):
        yield "stage", {"stage": stage}, ["--slow", "%d:1.3" % stage]
        yield "pause", {"stage": stage}, ["--pause", "%d:150ms" % stage]
    for a in range(stages - 1):
        yield "link", {"stage": a, "to_stage": a + 1}, ["--slow-link", "%d-%d:30" % (a, a + 1)]
        yield "link", {"stage": a + 1, "to_stage": a}, ["--slow-link", "%d-%d:30" % (a + 1, a)]
    for microbatch in range(microbatches):
        yield "microbatch", {"microbatch": microbatch}, ["--slow-mb", "%d:1.5" % microbatch]
    for rank in range(stages):
        yield "rank", {"rank": 2 * rank + 1}, ["--tp", "2", "--slow-rank", "%d:1.3" % (2 * rank + 1)]


def accuse(directory, schedule, place, kind, where, options):
    report = run(directory, "c-%s-%d" % (schedule, place),
                 size(schedule, 4, 2) + TIMES + options + ["--jitter", "5%", "--steps", "4"])
    first = report["causes"][0] if report["causes"] else {"kind": None}
    right = first["kind"] == kind and all(first[key] == value for key, value in where.items())
    return right, "%s, seeded %s %s: %s" % (schedule, kind, where, {k: first[k] for k in ["kind"] + [
        key for key in where if key in first]})


def causes(directory, pool, schedules, seeds):
    wrong = 0
    kinds = ["stage", "link", "microbatch", "rank", "pause"]
    print("\nnamed first of all seeded at 5 %% jitter:%s   false at 10 %%" % "".join("%11s" % kind for kind in kinds))
    for schedule in schedules:
        microbatches = int(size(schedule, 4, 2)[5])
        jobs = [(kind, pool.submit(accuse, directory, schedule, place, kind, where, options))
                for place, (kind, where, options) in enumerate(disturbances(4, microbatches))]
        results = [(kind, job.result()) for kind, job in jobs]
        clean = [pool.submit(run, directory, "n-%s-%d" % (schedule, seed), size(schedule, 4, 2) + TIMES + [
            "--jitter", "10%", "--comm-jitter", "10%", "--steps", "4", "--seed", str(seed)]) for seed in seeds]
        false = [cause for job in clean for cause in job.result()["causes"]]
        line = "%-39s" % schedule
        for kind in kinds:
            of_kind = [right for k, (right, _) in results if k == kind]
            line += "%11s" % ("%d/%d" % (sum(of_kind), len(of_kind)))
        print(line + "%13s" % ("%d/%d" % (len(false), len(clean))))
        misses = [text for _, (right, text) in results if not right] + [str(cause) for cause in false]
        for text in misses:
            print("   ", text)
        wrong += len(misses)
    return wrong


def main():
    everything = "--all" in sys.argv
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        if everything:
            wrong = recognition(directory, pool, (2, 3, 4, 8), (1, 2, 4), (0, 5, 20), (1, 2))
            wrong += causes(directory, pool, ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev"), range(20))
        else:
            wrong = recognition(directory, pool, (2, 4), (2,), (0, 20), (1,))
            wrong += causes(directory, pool, ("1f1b",), range(3))
    print("%d wrong" % wrong)
    sys.exit(wrong > 0 and not everything)


main()
