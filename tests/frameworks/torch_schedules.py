"""torch.distributed.pipelining for real: under `bubbletop record`, with gloo, every schedule class. What was captured is
what the stages executed, in the order of the schedule's own plan, and the messages and gates are all there.

Run by tests/frameworks/run, with a Python that has torch."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "record"))
from harness import Run, Scratch, environment, record, run_tests, streams  # noqa: E402

here = os.path.dirname(os.path.abspath(__file__))
KINDS = {"f": "F", "bw": "B", "b": "I", "w": "W"}  # ours -> PyTorch's
ports = iter(range(29600 + os.getpid() % 300, 65000))


def train(scratch, schedule, ranks, steps=3, microbatches=8, options=(), record_options=()):
    os.mkdir(scratch("out"))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
               str(next(ports)), os.path.join(here, "torch_pipeline.py"), schedule, str(steps), str(microbatches),
               scratch("out"), *options]
    done = record(scratch("run"), *command, options=record_options, env=environment(OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr[-3000:]
    said = []
    for rank in range(ranks):
        with open(scratch("out", "rank%d.json" % rank)) as file:
            said.append(json.load(file))
    return done, Run(scratch("run")), said


def compare(run, said, steps, first=0):
    """The capture against what the script's own stages saw, and the plan."""
    for rank, one in enumerate(said):
        ops = run.of(rank, "f", "b", "w", "bw")
        taken = [[one["stages"][op.chunk], KINDS[op.kind], op.microbatch] for op in ops]
        assert taken == one["executed"], (rank, len(taken), len(one["executed"]))
        if one["plan"] is not None:
            assert taken == one["plan"] * steps, (rank, taken[:40], one["plan"][:40])
        assert [step[1] for step in run.steps if step[0] == rank] == list(range(first, first + steps))
        assert len(run.of(rank, "optimizer")) == steps
        for step in (s for s in run.steps if s[0] == rank):
            inside = [op for op in ops if step[2] <= op.start and op.end <= step[3]]
            assert len(inside) == len(ops) // steps, step
        if one["messages"] is not None:
            messages = run.of(rank, "send_f", "recv_f", "send_b", "recv_b")
            assert len(messages) == one["messages"] * steps, (rank, len(messages), one["messages"])
    assert not run.problems, run.problems


def compare_messages(run, ranks):
    """Each message has two halves that say the same of it, and a gate on either side."""
    halves = {}
    for span in run.spans:
        if span.kind in ("send_f", "recv_f", "send_b", "recv_b"):
            sent = span.kind.startswith("send")
            key = (span.rank, span.peer, span.sequence) if sent else (span.peer, span.rank, span.sequence)
            halves.setdefault(key, []).append(span)
    assert halves
    for key, pair in halves.items():
        assert len(pair) == 2, (key, pair)
        send, receive = sorted(pair, key=lambda s: s.kind.startswith("recv"))
        assert send.kind[-1] == receive.kind[-1] and send.microbatch == receive.microbatch, pair
        assert send.bytes == receive.bytes > 0 and send.rank == receive.peer and receive.rank == send.peer, pair
        assert receive.end >= send.start, pair
    for rank in range(ranks):
        gates = run.of(rank, "gate")
        messages = run.of(rank, "send_f", "recv_f", "send_b", "recv_b")
        assert (sorted((g.on, g.peer, g.sequence) for g in gates if g.on in ("send_f", "recv_f", "send_b", "recv_b")) ==
                sorted((m.kind, m.peer, m.sequence) for m in messages)), rank


def check(scratch, schedule, ranks, options=()):
    done, run, said = train(scratch, schedule, ranks, options=options)
    assert len(streams(scratch("run"))) == ranks, "the launcher writes no stream: %s" % streams(scratch("run"))
    assert "%d ranks, %d streams, steps 0..2" % (ranks, ranks) in done.stderr, done.stderr
    compare(run, said, 3)
    compare_messages(run, ranks)
    last = [one for one in said if one["loss"]]
    assert last and last[0]["loss"][-1] < last[0]["loss"][0], "it learns"
    for rank, layout in run.layout.items():
        assert layout.startswith("pp %d %d " % (rank, ranks)) and " microbatches 8 " in layout, layout
        assert layout.endswith("vstages " + " ".join(map(str, said[rank]["stages"]))), layout


def define(name, schedule, ranks, *options):
    globals()["test_%s_%d" % (name, ranks)] = lambda scratch: check(scratch, schedule, ranks, options)


for ranks in (2, 4):
    define("gpipe", "ScheduleGPipe", ranks)
    define("1f1b", "Schedule1F1B", ranks)
    define("interleaved", "ScheduleInterleaved1F1B", ranks, "chunks=2")
    define("looped_bfs", "ScheduleLoopedBFS", ranks, "chunks=2")
    define("interleaved_zero_bubble", "ScheduleInterleavedZeroBubble", ranks, "chunks=2")
    define("zbv", "ScheduleZBVZeroBubble", ranks)
    define("dualpipev", "ScheduleDualPipeV", ranks)


def test_explicit(scratch):
    """Without the import hook, two lines in the script do it; steps are counted from where it says."""
    env_path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    os.environ["PYTHONPATH"] = env_path
    try:
        os.mkdir(scratch("out"))
        done = record(scratch("run"), sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                      str(next(ports)), os.path.join(here, "torch_pipeline.py"), "Schedule1F1B", "2", "4", scratch("out"),
                      "explicit", options=("--no-python",), env=environment(OMP_NUM_THREADS="1", PYTHONPATH=env_path))
    finally:
        del os.environ["PYTHONPATH"]
    assert done.returncode == 0, done.stderr[-3000:]
    run = Run(scratch("run"))
    assert [step[1] for step in run.steps if step[0] == 0] == [100, 101], run.steps
    assert len(run.of(0, "f")) == 8


def test_no_python(scratch):
    done = record(scratch("run"), sys.executable, "-c", "import torch.distributed.pipelining", options=("--no-python",))
    assert "turned off by --no-python" in done.stderr and "nothing was captured" in done.stderr, done.stderr


def test_sampled_steps(scratch):
    _, run, _ = train(scratch, "Schedule1F1B", 2, steps=6, microbatches=4, record_options=("--steps", "2..5", "--every", "2"))
    assert [step[1] for step in run.steps if step[0] == 0] == [2, 4], run.steps
    assert len(run.of(0, "f")) == 8


if len(sys.argv) > 1:
    run_tests({name: test for name, test in globals().items() if name in ["test_" + each for each in sys.argv[1:]]})
run_tests(globals())
