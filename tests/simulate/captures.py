#!/usr/bin/env python3
"""What `bubbletop simulate` writes, read by FORMAT.md alone: is it a run that could have happened, and the one asked for?"""
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests/wire"))
from test_format import read_stream  # noqa: E402 (skips where there is no msgpack)

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")
SPANS = {1: "F", 2: "B", 3: "W", 4: "BW", 5: "FB"}
SEND_F, RECV_F, SEND_B, RECV_B, GATE = 16, 17, 18, 19, 32
COLLECTIVES = range(24, 29)
MS = 10**6


def simulate(directory, name, *arguments):
    run = os.path.join(directory, name)
    words = [PROGRAM, "simulate", *map(str, arguments), "-o", run]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stderr)
    return run


def load(run):
    """{rank: (header, records)}, every record checked for the order of its ring."""
    ranks = {}
    for name in sorted(os.listdir(run)):
        if not name.startswith("rank-"):
            continue
        with open(os.path.join(run, name), "rb") as file:
            header, *found = read_stream(file.read())
        numbers = collections.defaultdict(list)
        for record in found:
            record["end"] = record["start"] + record["duration"]
            numbers[record["ring"]].append(record["number"])
        assert all(n == list(range(len(n))) for n in numbers.values()), "numbers of a ring have gaps"
        ranks[header["rank"]] = header, found
    return ranks


def compute(found):
    return sorted((r for r in found if r["code"] in SPANS), key=lambda r: r["start"])


def rate_span(ranks):
    busy = max(sum(r["duration"] for r in compute(found)) for _, found in ranks.values())
    spans = [compute(found) for _, found in ranks.values()]
    return 1 - busy / max(max(r["end"] for r in s) - s[0]["start"] for s in spans)


def check_lanes(found):
    lane = compute(found) + [r for r in found if r["code"] == GATE]
    lane.sort(key=lambda r: (r["start"], r["end"]))
    for before, after in zip(lane, lane[1:]):
        assert before["end"] <= after["start"], ("the compute lane does two things at once", before, after)


def check_messages(ranks):
    """Every message is sent once and received once, not before it was sent; sequences count up."""
    sent, received = {}, {}
    for rank, (_, found) in ranks.items():
        for r in found:
            if r["code"] in (SEND_F, SEND_B):
                key = rank, r["peer"], r["sequence"]
                assert key not in sent
                sent[key] = r
            if r["code"] in (RECV_F, RECV_B):
                key = r["peer"], rank, r["sequence"]
                assert key not in received
                received[key] = r
    assert sent.keys() == received.keys() and sent
    for key, send in sent.items():
        receive = received[key]
        assert receive["code"] == send["code"] + 1 and receive["microbatch"] == send["microbatch"]
        assert receive["end"] == send["end"] >= send["start"] >= receive["start"], (send, receive)
        assert receive["bytes"] == send["bytes"] > 0
    counts = collections.Counter(key[:2] for key in sent)
    for pair, count in counts.items():
        assert {key[2] for key in sent if key[:2] == pair} == set(range(count))
    return received


def check_gates(ranks, received):
    gates = 0
    for rank, (_, found) in ranks.items():
        ends = {(r["group"], r["code"], r["sequence"]): r["end"] for r in found if r["code"] in COLLECTIVES}
        for r in found:
            if r["code"] != GATE:
                continue
            gates += 1
            if r["kind"] in COLLECTIVES:
                assert ends[r["group"], r["kind"], r["sequence"]] == r["end"]
            else:
                message = received[r["peer"], rank, r["sequence"]]
                assert message["code"] == r["kind"] and message["end"] == r["end"]
    return gates


def check_collectives(ranks):
    """Members of a group end each of its collectives together, and not before the last of them began."""
    members = {}
    ends = collections.defaultdict(list)
    for rank, (_, found) in ranks.items():
        for r in found:
            if r["code"] == 68:
                first, stride, count = r["runs"]
                members[rank, r["group"]] = tuple(range(first, first + stride * count, stride))
                assert members[rank, r["group"]][r["own_rank"]] == rank and r["count"] == count
        for r in found:
            if r["code"] in COLLECTIVES:
                ends[members[rank, r["group"]], r["code"], r["group"], r["sequence"]].append((r["start"], r["end"]))
    for (who, *_), times in ends.items():
        assert len(times) == len(who)
        assert len({end for _, end in times}) == 1 and max(start for start, _ in times) <= times[0][1]
    return len(ends)


def check_dependencies(ranks, steps):
    """F after F of the virtual stage before, B after its own F and after B of the one behind, W after B."""
    for pipeline in {(h["layout"]["dp_rank"], h["layout"]["tp_rank"]) for h, _ in ranks.values()}:
        ends, starts = {}, {}
        for header, found in ranks.values():
            layout = header["layout"]
            if (layout["dp_rank"], layout["tp_rank"]) != pipeline:
                continue
            seen = collections.Counter()
            for r in compute(found):
                halves = [(SPANS[r["code"]], r["chunk"], r["microbatch"])]
                if r["code"] == 5:
                    halves = [("F",) + halves[0][1:], ("BW", r["chunk_b"], r["microbatch_b"])]
                for kind, chunk, microbatch in halves:
                    kind = "B" if kind == "BW" else kind
                    key = kind, layout["vstage"][chunk], microbatch
                    ends[(*key, seen[key])] = r["end"]
                    starts[(*key, seen[key])] = r["start"]
                    seen[key] += 1
        last = max(key[1] for key in ends)
        forwards = [key for key in ends if key[0] == "F"]
        assert {key[3] for key in forwards} == set(range(steps))
        for kind, vstage, microbatch, step in list(ends):
            needs = {"F": [("F", vstage - 1)], "B": [("B", vstage + 1), ("F", vstage)], "W": [("B", vstage)]}[kind]
            for need, where in needs:
                if 0 <= where <= last:
                    assert ends[need, where, microbatch, step] <= starts[kind, vstage, microbatch, step]


def test_schedules(directory):
    for number, schedule in enumerate("gpipe 1f1b interleaved looped-bfs zb-h1 zb-h2 pytorch-zb zb-v v-half v-min zeropp "
                                      "dualpipe dualpipev chimera zb-auto zb-v-auto".split()):
        parallel = [["--dp", 2], ["--tp", 2], ["--dp", 2, "--zero", 1], ["--dp", 2, "--zero", 2],
                    ["--dp", 2, "--zero", 3, "--tp", 2], []][number % 6]
        run = simulate(directory, schedule, "--schedule", schedule, "--stages", 4, "--microbatches", 8, "--comm", "300us",
                       "--jitter", 10, "--comm-jitter", 20, "--steps", 2, "--sync", "--optimizer", "4ms", "--pause", "1:9ms",
                       "--slow", "2:1.2", *parallel)
        ranks = load(run)
        words = dict(zip(parallel[::2], parallel[1::2]))
        assert len(ranks) == 4 * words.get("--dp", 1) * words.get("--tp", 1)
        for _, found in ranks.values():
            check_lanes(found)
            assert [r["step"] for r in found if r["code"] == 64] == [0, 1] == [r["step"] for r in found if r["code"] == 65]
            assert sum(r["code"] == 7 for r in found) == 2
            assert max(found, key=lambda r: r["end"])["code"] in (80, 85) and sum(r["code"] == 85 for r in found) == 1
        gates = check_gates(ranks, check_messages(ranks))
        collectives = check_collectives(ranks)
        check_dependencies(ranks, 2)
        assert gates > 8 and collectives >= 2
        assert all(header["layout"].get("schedule", "") == "" for header, _ in ranks.values())


def reported(run):
    done = subprocess.run([PROGRAM, "report", run, "--json"], stdout=subprocess.PIPE, text=True, timeout=60)
    return json.loads(done.stdout)["bubble"]


def test_golden(directory):
    """Rows of Zero Bubble's table 5 and exact fractions, from the files and as `report` tells them."""
    rows = [(8, 24, 18.522, 18.086, 9.337, .601, {"1f1b": .2431, "zb-h1": .1585, "zb-h2": .1083, "zb-auto": .1585}),
            (8, 24, 29.718, 29.444, 19.927, .527, {"1f1b": .2347, "zb-h1": .1323, "zb-h2": .0698, "zb-auto": .1323})]
    for p, m, f, b, w, c, wanted in rows:
        for schedule, rate in wanted.items():
            run = simulate(directory, f"golden-{schedule}-{f}", "--schedule", schedule, "--stages", p, "--microbatches", m,
                           "--forward", f"{f}ms", "--backward", f"{b}ms", "--weight", f"{w}ms", "--comm", f"{c}ms")
            assert abs(rate_span(load(run)) - rate) < .00005001, schedule
            assert abs(reported(run)["rate_span"] - rate) < .00005001, schedule
    for schedule, p, m in (("gpipe", 4, 8), ("1f1b", 8, 32), ("1f1b", 16, 64)):
        run = simulate(directory, f"exact-{schedule}-{p}", "--schedule", schedule, "--stages", p, "--microbatches", m,
                       "--ranks-per-host", p)
        bubble = reported(run)
        assert abs(bubble["rate_window"] - (p - 1) / (m + p - 1)) < 1e-9, bubble
        assert abs(bubble["over_ideal"] - (p - 1) / m) < 1e-9, bubble


def test_disturbances(directory):
    def run(name, *arguments):
        words = ["--schedule", "1f1b", "--stages", 4, "--microbatches", 8, "--steps", 2, "--comm", "1ms", *arguments]
        ranks = load(simulate(directory, name, *words))
        return [ranks[rank][1] for rank in sorted(ranks)]

    def durations(found, **wanted):
        return {r["duration"] for r in compute(found) if all(r[k] == v for k, v in wanted.items())}
    slow = run("slow", "--slow", "2:1.5")
    assert [durations(found, code=1) for found in slow] == [{10 * MS}, {10 * MS}, {15 * MS}, {10 * MS}]
    assert durations(slow[2], code=4) == {30 * MS}
    slow = run("slow-mb", "--slow-mb", "3:2")
    assert all(durations(found, code=1, microbatch=m) == {10 * MS * (1 + (m == 3))} for found in slow for m in range(8))
    slow = run("slow-link", "--slow-link", "1-2:5")
    transfers = [{r["duration"] for r in found if r["code"] in (SEND_F, SEND_B)} for found in slow]
    assert transfers == [{MS}, {MS, 5 * MS}, {MS}, {MS}]
    slow = run("slow-rank", "--dp", 2, "--tp", 2, "--slow-rank", "5:2")
    own = [{r["start"] for r in found if r["code"] == 24 and r["group"] == 2} for found in slow]
    assert durations(slow[4], code=1) == durations(slow[5], code=1) == {19 * MS} and durations(slow[6], code=1) == {10 * MS}
    assert min(own[4]) + 9 * MS == min(own[5])
    pause = run("pause", "--pause", "2:70ms")
    lane = compute(pause[2])
    gaps = [after["start"] - before["end"] for before, after in zip(lane, lane[1:])]
    assert max(gaps) >= 70 * MS
    gates = [r for r in pause[2] if r["code"] == GATE]
    assert max(r["duration"] for r in gates) < 70 * MS, "a pause is no wait for a message"


def test_seed(directory):
    def content(name, *arguments):
        run = simulate(directory, name, "--schedule", "zb-h1", "--stages", 3, "--microbatches", 6, "--jitter", 5, "--skew", "1ms",
                       *arguments)
        return [open(os.path.join(run, each), "rb").read() for each in sorted(os.listdir(run))]
    assert content("seed-a", "--seed", 7) == content("seed-b", "--seed", 7)
    assert content("seed-c", "--seed", 8) != content("seed-d", "--seed", 7)


def test_clocks(directory):
    words = ["--schedule", "1f1b", "--stages", 4, "--microbatches", 4, "--steps", 40, "--comm", "1ms"]
    plain = load(simulate(directory, "plain", *words))
    run = simulate(directory, "skewed", *words, "--skew", "50ms", "--drift", 50, "--ranks-per-host", 2, "--declare")
    skewed = load(run)
    with open(os.path.join(run, "truth.json"), encoding="ascii") as file:
        truth = json.load(file)
    clocks = truth["clocks"]
    assert len(clocks) == 2 and all(abs(c["skew_ns"]) <= 50 * MS and abs(c["drift_ppm"]) <= 50 for c in clocks)
    assert clocks[0]["skew_ns"] != clocks[1]["skew_ns"]
    assert truth["schedule"]["name"] == skewed[0][0]["layout"]["schedule"] == "1f1b"
    assert len({header["boot_id"] for header, _ in skewed.values()}) == 2
    for rank, (header, found) in skewed.items():
        clock = clocks[rank // 2]
        for r, true in zip(compute(found), compute(plain[rank][1])):
            drifted = clock["drift_ppm"] * 1e-6 * (true["start"] - truth["begin_ns"])
            assert abs(r["start"] - true["start"] - clock["skew_ns"] - drifted) <= 1
        beats = sorted(r["start"] for r in found if r["code"] == 84)
        assert beats and all(b - a < 2.1e9 for a, b in zip(beats, beats[1:]))
        assert len({r["real"] - r["start"] for r in found if r["code"] == 80} | {header["real"] - header["mono"]}) == 1


def test_usage(directory):
    base = ["--schedule", "1f1b", "--stages", "4", "--microbatches", "8"]
    wrong = [
        (["--schedule", "nonsense", "--stages", "4", "--microbatches", "8"], "zb-auto"),
        (base[2:], "--schedule is needed"),
        (base[:4], "--microbatches is needed"),
        (base + ["--forward", "11"], "11.347ms"),
        (base + ["--forward", "-3ms"], "--forward"),
        (base + ["--comm"], "--comm needs"),
        (base + ["--bogus"], "no option '--bogus'"),
        (base + ["--sync=1"], "takes no value"),
        (base + ["--slow", "4:2"], "slow stages"),
        (base + ["--slow", "1:0"], "factor"),
        (base + ["--slow-link", "1:2"], "--slow-link"),
        (base + ["--zero", "1"], "replicas"),
        (base + ["--dp", "2", "--zero", "4"], "ZeRO"),
        (base + ["--jitter", "100"], "jitter"),
        (base + ["--memory", "0"], "--memory"),
        (base + ["--dp", "1000000"], "more than"),
        (base[:5] + ["1000000000"], "more than"),
        (["--schedule", "interleaved", "--stages", "4", "--microbatches", "6"], "multiple of the number of stages"),
        (["--schedule", "zb-h1", "--stages", "4", "--microbatches", "3"], "as many microbatches as stages"),
        (["--schedule", "dualpipe", "--stages", "3", "--microbatches", "8"], "even"),
    ]
    for arguments, message in wrong:
        run = os.path.join(directory, "never")
        done = subprocess.run([PROGRAM, "simulate", *arguments] + (["-o", run] if arguments[-1] != "--comm" else []),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if arguments[-1] == "--comm":
            assert done.returncode == 2, arguments
            continue
        assert done.returncode == 2 and message in done.stderr, (arguments, done.returncode, done.stderr)
        assert not os.path.exists(run), arguments
    done = subprocess.run([PROGRAM, "simulate", *base], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and "-o RUN" in done.stderr
    run = simulate(directory, "twice", *base)
    done = subprocess.run([PROGRAM, "simulate", *base, "-o", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    assert done.returncode == 3 and "there already" in done.stderr


with tempfile.TemporaryDirectory() as scratch:
    test_schedules(scratch)
    test_golden(scratch)
    test_disturbances(scratch)
    test_seed(scratch)
    test_clocks(scratch)
    test_usage(scratch)
print("simulated captures hold together")
