"""What the tests of frameworks share: launching ranks under `bubbletop record`, and what is true of every capture."""
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from harness import Run, bubbletop, environment, record  # noqa: E402

here = os.path.dirname(os.path.abspath(__file__))
MESSAGES = ("send_f", "recv_f", "send_b", "recv_b")
JOB_LIMIT = 90  # seconds, of one run of a few steps
ports = iter(range(29600 + os.getpid() % 300 * 10, 65000))
quiet = dict(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", PYTHONWARNINGS="ignore", CUDA_VISIBLE_DEVICES="")


def said_by(folder, ranks):
    """What each rank wrote of itself."""
    out = []
    for rank in range(ranks):
        with open(os.path.join(folder, "rank%d.json" % rank)) as file:
            out.append(json.load(file))
    return out


def launch(scratch, script, ranks, *arguments, options=(), env=None):
    """By torchrun, as people do; `arguments` follow the folder for what the ranks say."""
    os.mkdir(scratch("out"))
    done = record(scratch("run"), sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
                  "--master-port", str(next(ports)), os.path.join(here, script), scratch("out"), *map(str, arguments),
                  options=options, env=env or environment(**quiet), limit=JOB_LIMIT + 60)
    assert done.returncode == 0, done.stderr[-3000:]
    return done, Run(scratch("run")), said_by(scratch("out"), ranks)


def launch_all(scratch, script, jobs):
    """Runs of (ranks, argument...) from one process, each into its own directory."""
    listed = []
    for number, (ranks, *arguments) in enumerate(jobs):
        for kind in "run", "out":
            os.mkdir(scratch("%s%d" % (kind, number)))
        listed.append([scratch("run%d" % number), ranks, next(ports), JOB_LIMIT, scratch("out%d" % number), *arguments])
    with open(scratch("jobs"), "w") as file:
        json.dump(listed, file)
    done = record(scratch("run"), sys.executable, os.path.join(here, script), "jobs", scratch("jobs"),
                  env=environment(**quiet), limit=JOB_LIMIT * (len(jobs) + 1))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return [(job, Run(scratch("run%d" % n)), said_by(scratch("out%d" % n), job[0])) for n, job in enumerate(jobs)]


def report(run):
    """The report of a run directory, as it says it itself. Steps of a few milliseconds on a busy machine: no rates are
    compared."""
    done = subprocess.run([bubbletop, "report", run, "--json"], stdout=subprocess.PIPE, universal_newlines=True, timeout=60)
    return json.loads(done.stdout)


def compare_messages(run, ranks, last_sends=0):
    """Each message has two halves that say the same of it, and a gate on either side. `last_sends`: the number of steps, where
    nothing needs to wait for the last send of a step. Returns the pairs of halves."""
    halves = collections.defaultdict(list)
    for span in run.spans:
        if span.kind in MESSAGES:
            sent = span.kind.startswith("send")
            halves[(span.rank, span.peer, span.sequence) if sent else (span.peer, span.rank, span.sequence)].append(span)
    assert halves
    pairs = []
    for key, pair in halves.items():
        assert len(pair) == 2, (key, pair)
        send, receive = sorted(pair, key=lambda s: s.kind.startswith("recv"))
        assert send.kind[-1] == receive.kind[-1] and send.microbatch == receive.microbatch, pair
        assert send.bytes == receive.bytes > 0 and send.rank == receive.peer and receive.rank == send.peer, pair
        assert receive.end >= send.start, pair
        pairs.append((send, receive))
    for rank in range(ranks):
        gates = collections.Counter((g.on, g.peer, g.sequence) for g in run.of(rank, "gate") if g.on in MESSAGES)
        messages = collections.Counter((m.kind, m.peer, m.sequence) for m in run.of(rank, *MESSAGES))
        assert not gates - messages, (rank, gates - messages)
        unwaited = messages - gates
        for kind in MESSAGES:
            own = run.of(rank, kind)
            for number, message in enumerate(own, 1):
                if (kind, message.peer, message.sequence) in unwaited:
                    assert last_sends and kind.startswith("send") and number % (len(own) // last_sends) == 0, message
    return pairs


def compare_steps(run, rank, steps, per_step, *kinds, first=0):
    """Steps are numbered, and have the same number of ops each."""
    own = [step for step in run.steps if step[0] == rank]
    assert [step[1] for step in own] == list(range(first, first + steps)), own
    ops = run.of(rank, *kinds)
    for step in own:
        inside = [op for op in ops if step[2] <= op.start and op.end <= step[3]]
        assert len(inside) == per_step, (step, len(inside), per_step)


GPU_TIMED, GROUPED = 1, 4


def compare_clock(run, host=()):
    """Everything, apart from kinds that are the host's, has the times of a stream; the ends of what others take part in are
    upper bounds."""
    shared = (*MESSAGES, "all_gather", "all_reduce", "broadcast", "reduce_scatter")
    for span in run.spans:
        assert span.flags == (0 if span.kind in host else GPU_TIMED | (GROUPED if span.kind in shared else 0)), span
