#!/usr/bin/env python3
"""Runs that are not as they should be: what is withheld, what is still told, the exit status, and no number that is none.

Exits 77 (skipped) where no Python here has the msgpack module. With -v prints what a person sees.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import msgpack  # noqa: F401
except ImportError:
    other = "/usr/bin/python3"
    if os.path.exists(other) and os.path.realpath(sys.executable) != os.path.realpath(other):
        os.execv(other, [other] + sys.argv)
    print("no msgpack module")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder may be read-only
os.environ.setdefault("top_srcdir", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "tests/accounting"))
from random_run import BW, F, Stream  # noqa: E402

PROGRAM = os.path.join(os.environ.get("top_builddir", "."), "bubbletop")
MS = 1000000
STEP_BEGIN, STEP_END, DROPPED, END = 64, 65, 83, 85
STAGES, MICROBATCHES, STEPS = 3, 4, 5
GPU = 1


def order_of(stage):
    """1F1B."""
    warm = min(STAGES - 1 - stage, MICROBATCHES)
    order = [(F, m) for m in range(warm)]
    for m in range(MICROBATCHES - warm):
        order += [(F, m + warm), (BW, m)]
    return order + [(BW, m) for m in range(MICROBATCHES - warm, MICROBATCHES)]


def times(code):
    return 10 * MS if code == F else 20 * MS


def step_times(begin, late=0):
    """(stage, code, microbatch) -> (start, end)."""
    done, at, clock = {}, [0] * STAGES, [begin] * STAGES
    while len(done) < STAGES * MICROBATCHES * 2:
        for stage in range(STAGES):
            order = order_of(stage)
            while at[stage] < len(order):
                code, m = order[at[stage]]
                source = stage + (-1 if code == F else 1)
                if 0 <= source < STAGES and (source, code, m) not in done:
                    break
                ready = done[source, code, m][1] + MS // 2 + late * (source == 1) if 0 <= source < STAGES else begin
                start = max(clock[stage], ready)
                clock[stage] = start + times(code)
                done[stage, code, m] = (start, clock[stage])
                at[stage] += 1
    return done, max(clock)


def make(replicas=1, sent=True, flags=0, comm_flags=0, steps=STEPS, late=0):
    """Per rank a list of records: (code, start, duration, microbatch, chunk, flags) of compute, (code, start, duration,
    microbatch, sequence, chunk, peer, bytes, group, flags) of messages, (code, start, step) of marks."""
    ranks = [[] for _ in range(STAGES * replicas)]
    for replica in range(replicas):
        begin, sequence = 1000 * MS, {}
        for step in range(steps):
            done, end = step_times(begin, late)
            for stage in range(STAGES):
                ranks[stage * replicas + replica] += [(STEP_BEGIN, begin, step), (STEP_END, end, step)]
            for (stage, code, m), (start, stop) in sorted(done.items(), key=lambda item: item[1]):
                rank = stage * replicas + replica
                ranks[rank].append((code, start, stop - start, m, 0, flags))
                target = stage + (1 if code == F else -1)
                if not sent or not 0 <= target < STAGES:
                    continue
                peer = target * replicas + replica
                sequence[rank, peer] = sequence.get((rank, peer), -1) + 1
                message = (m, sequence[rank, peer], 0)
                kind = 16 if code == F else 18
                stop += late * (stage == 1)
                ranks[rank].append((kind, stop, MS // 2) + message + (peer, 1000, 0, comm_flags))
                ranks[peer].append((kind + 1, stop, MS // 2) + message + (rank, 1000, 0, comm_flags))
            begin = end + MS
    return ranks


def write(directory, ranks, replicas=1, layouts=None, world=None):
    os.makedirs(directory)
    for rank, records in enumerate(ranks):
        if records is None:
            continue
        layout = {"pp_rank": rank // replicas, "pp_size": STAGES, "dp_rank": rank % replicas, "dp_size": replicas}
        layout.update((layouts or {}).get(rank, {}))
        stream = Stream(rank, world or len(ranks), layout)
        for record in sorted(records, key=lambda r: r[1] + (r[2] if r[0] < 64 else 0)):
            stream.add(0 if record[0] < 64 else 1, *record)
        stream.add(1, END, max(r[1] + (r[2] if r[0] < 64 else 0) for r in records) + 1)
        with open(os.path.join(directory, "rank-%05d.0.0.msgpack" % rank), "wb") as file:
            file.write(stream.data)


def fail(name, what, shown=""):
    print("%s: %s\n%s" % (name, what, shown))
    sys.exit(1)


def no_constant(text):
    raise ValueError(text)


def look(name, directory, statuses, codes, known):
    """`codes`: warnings that must be there; `known`: whether rate_window is."""
    text = subprocess.run([PROGRAM, "report", directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = text.stdout.decode()
    if "-v" in sys.argv:
        print("=== %s (status %d)\n%s" % (name, text.returncode, shown))
    if text.returncode not in statuses:
        fail(name, "exit status %d" % text.returncode, shown)
    if any(word in shown.lower() for word in ("nan", " inf", "-92233", "(null)")):
        fail(name, "a number that is none", shown)
    if any(len(line) > 80 for line in shown.splitlines()):
        fail(name, "wider than 80 columns", shown)
    done = subprocess.run([PROGRAM, "report", "--json", directory], stdout=subprocess.PIPE)
    value = json.loads(done.stdout, parse_constant=no_constant)
    found = [warning["code"] for warning in value["warnings"]]
    for code in codes:
        if code not in found:
            fail(name, "no warning %s in %s" % (code, found), shown)
    if not codes and found:
        fail(name, "warnings %s" % found, shown)
    if (value["bubble"]["rate_window"] is not None) != known:
        fail(name, "rate_window is %s" % value["bubble"]["rate_window"], shown)
    for stage in value["stages"]:
        if sum(stage[key] for key in value["classes"]) != stage["interval_ns"]:
            fail(name, "classes do not add up", shown)


def look_at_late_sends(scratch):
    """What lies between a producer's end and its late message is the sender's."""
    directory = os.path.join(scratch, "late")
    write(directory, make(late=6 * MS))
    done = subprocess.run([PROGRAM, "report", "--json", directory], stdout=subprocess.PIPE)
    causes = json.loads(done.stdout)["causes"]
    if [(cause["kind"], cause["stage"]) for cause in causes] != [("host", 1)]:
        fail("late sends", "causes are %s" % causes)


def without(ranks, drop):
    """Without the records for which drop(rank, record, number) holds."""
    return [[r for number, r in enumerate(records) if not drop(rank, r, number)] for rank, records in enumerate(ranks)]


def step_of(record):
    done, end = step_times(0)
    return (record[1] - 1000 * MS) // (end + MS)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        def case(name, ranks, statuses, codes, known, **more):
            directory = os.path.join(scratch, name.replace(" ", "-"))
            write(directory, ranks, **more)
            look(name, directory, statuses, codes, known)

        case("as it should be", make(), (0,), [], True)
        case("a missing rank", [records if rank != 1 else None for rank, records in enumerate(make())], (1,),
             ["missing_stages"], False)
        case("a missing replica's rank", [records if rank != 1 else None for rank, records in enumerate(make(2))], (1,),
             ["missing_stages"], False, replicas=2)
        case("a missing microbatch", without(make(), lambda rank, r, n: r[0] in (F, BW) and rank == 1 and r[3] == 2 and
                                             step_of(r) == 2), (0, 1), ["incomplete_steps"], True)
        lossy = make()
        begin = lossy[1][len(lossy[1]) // 2][1]
        lossy[1] = [r for r in lossy[1] if not begin <= r[1] < begin + 60 * MS or r[0] >= 64]
        lossy[1].append((DROPPED, begin, 60 * MS, 9, 0))
        case("lost events", lossy, (1,), ["incomplete_steps", "dropped"], True)
        case("a step cut at the start", without(make(), lambda rank, r, n: step_of(r) == 0 and r[1] < 1060 * MS),
             (0, 1), ["incomplete_steps"], True)
        case("a step cut at the end", without(make(), lambda rank, r, n: r[1] > 1000 * MS + 4.5 * 190 * MS), (0, 1),
             ["incomplete_steps"], True)
        longer = [[r if r[0] != F else r[:2] + (r[2] + 7 * MS,) + r[3:] for r in records] for records in make()]
        case("overlapping spans", longer, (0, 1), ["order_violations"], True)
        odd = [[r if r[0] != F or r[3] != 1 else r[:4] + (7,) + r[5:] for r in records] for records in make()]
        case("chunks not told", [[r if r[0] not in (F, BW) else r[:4] + (-1,) + r[5:] for r in records]
                                 for records in make()], (0, 1), ["unknown_chunk"], True,
             layouts={rank: {"chunks": 2} for rank in range(3)})
        case("an unheard-of chunk", odd, (0, 1), ["missing_producers"], True)
        case("two replicas with different layouts", make(2), (1,), ["missing_stages"], False, replicas=2,
             layouts={5: {"pp_size": 4, "pp_rank": 3}})
        case("a single rank", make()[:1], (0, 1), ["missing_stages"], False, world=3)
        case("host-timed messages on a GPU", make(flags=GPU), (0, 1), ["p2p_host_timed"], True)
        case("host-timed compute on a GPU", make(comm_flags=GPU), (1,), ["compute_host_timed"], False)
        case("no messages", make(sent=False), (0, 1), ["missing_messages"], True)
        case("negative durations", [records + [(F, records[0][1] + 5 * MS, -3 * MS, 1, 0, 0)] for records in make()],
             (0, 1), ["damage"], True)
        look_at_late_sends(scratch)
        restarted = make(steps=2)
        shift = 5000 * MS
        again = [[(r[0], r[1] + shift) + r[2:] for r in records if step_of(r) == 1] for records in make(steps=2)]
        case("a run that went on from an earlier step", [a + b for a, b in zip(restarted, again)], (0, 1), [], True)
    print("bad input is told as what it is")


main()
