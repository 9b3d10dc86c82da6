"""DeepSpeed's own PipelineEngine for real: under `bubbletop record`, with gloo on CPUs. What was captured is what the layers
were asked to do and what the engine's own schedule lists; messages, gates and reductions are all there.

Run by tests/frameworks/run, with a Python that has torch and deepspeed."""
import collections
import os
import subprocess
import sys

import common
from common import compare_messages, environment, quiet
from harness import run_tests, streams

SCRIPT = "deepspeed_train.py"
STEPS, MICROBATCHES = 3, 8
INSTRUCTIONS = {"f": "ForwardPass", "bw": "BackwardPass", "host": "LoadMicroBatch"}
SENT = {"send_f": "SendActivation", "recv_f": "RecvActivation", "send_b": "SendGrad", "recv_b": "RecvGrad"}


def compare(ranks, words, run, said, first=0):
    given = dict(word.split("=") if "=" in word else (word, True) for word in words)
    pp, chunks = int(given["pp"]), 2 if "dualpipev" in given else 1
    assert not run.problems, run.problems
    for rank, one in enumerate(said):
        taken = [[op.chunk, {"f": "F", "bw": "B"}[op.kind], op.microbatch] for op in run.of(rank, "f", "bw")]
        assert taken == one["executed"], (rank, taken, one["executed"])
        # The engine's schedule: instructions of one step in order. Messages of a queue follow it in groups.
        listed = [name for name, _ in one["plan"]]
        own = [INSTRUCTIONS[span.kind] for span in run.of(rank, *INSTRUCTIONS)]
        assert own == [name for name in listed if name in INSTRUCTIONS.values()] * STEPS, (rank, own, listed)
        for kind in ("host", "f", "bw"):
            for chunk in range(chunks):
                numbers = [span.microbatch for span in run.of(rank, kind) if kind == "host" or span.chunk == chunk]
                assert numbers in ([], list(range(MICROBATCHES)) * STEPS), (rank, kind, numbers)
        messages = collections.Counter(SENT[span.kind] for span in run.of(rank, *SENT))
        for name in SENT.values():
            # The first one of a direction is led by its shape, once.
            extra = messages[name] - listed.count(name) * STEPS
            assert extra in ((0,) if name.endswith("Grad") else (0, 1)), (rank, name, extra)
        common.compare_steps(run, rank, STEPS, 2 * chunks * MICROBATCHES, "f", "bw", first=first)
        assert len(run.of(rank, "optimizer")) == STEPS
        assert run.layout[rank] == (
            "pp %d %d dp %d %d chunks %d microbatches %d virtual %d separable 0 schedule %s vstages %s" %
            (one["pp"], pp, one["dp"], ranks // pp, chunks, MICROBATCHES, pp * chunks,
             "DualPipeV" if chunks == 2 else "1F1B",
             "%d %d" % (one["pp"], 2 * pp - 1 - one["pp"]) if chunks == 2 else one["pp"])), run.layout[rank]
    compare_messages(run, ranks)
    assert said[0]["loss"][-1] < said[0]["loss"][0], "it learns"
    print("  ", ranks, "ranks", *words, "%d spans" % len(run.spans))


def test_every_instruction(scratch):
    """The engine, and the one of DualPipeV: two stages a rank, messages that are queued and go together."""
    jobs = [(2, STEPS, MICROBATCHES, "pp=2"), (4, STEPS, MICROBATCHES, "pp=4"), (2, STEPS, MICROBATCHES, "pp=2", "dualpipev")]
    for number, (job, run, said) in enumerate(common.launch_all(scratch, SCRIPT, jobs)):
        compare(job[0], job[3:], run, said)
        if "dualpipev" not in job:
            found = common.report(scratch("run%d" % number))
            assert found["schedule"]["recognised"] == "1f1b" and found["warnings"] == [], found["warnings"]


def collectives(run, rank):
    return collections.Counter(span.kind for span in run.spans if span.rank == rank and span.kind in ("all_reduce", "broadcast"))


def test_reductions(scratch):
    """Gradients of data parallel ranks, of a layer that two stages share, with ZeRO as well; the loss goes to all stages."""
    jobs = [(4, STEPS, MICROBATCHES, "pp=2", "tied"), (4, STEPS, MICROBATCHES, "pp=2", "zero")]
    for job, run, said in common.launch_all(scratch, SCRIPT, jobs):
        compare(job[0], job[3:], run, said)
        for rank in range(4):
            counts = {"all_reduce": STEPS * (2 if "tied" in job else 1), "broadcast": STEPS}
            assert collectives(run, rank) == counts, (job, rank, collectives(run, rank), counts)
            assert all(span.bytes > 0 and span.group > 0 for span in run.of(rank, "all_reduce"))
            gates = [gate for gate in run.of(rank, "gate") if gate.on in counts]
            assert len(gates) == sum(counts.values()), (rank, gates)


def test_recomputation_and_evaluation(scratch):
    """What is computed again is within its backward, with its microbatch; an evaluation is no step, and its forwards are no F."""
    jobs = [(2, STEPS, MICROBATCHES, "pp=2", "recompute"), (2, STEPS, MICROBATCHES, "pp=2", "eval")]
    (job, run, said), (_, evaluated, _) = common.launch_all(scratch, SCRIPT, jobs)
    compare(job[0], job[3:], run, said)
    for rank in range(2):
        again, backwards = run.of(rank, "recompute"), run.of(rank, "bw")
        assert len(again) == len(backwards), (len(again), len(backwards))
        for inner, outer in zip(again, backwards):
            assert outer.start <= inner.start and inner.end <= outer.end, (inner, outer)
            assert inner.microbatch == outer.microbatch, (inner, outer)
        own, others = [step for step in evaluated.steps if step[0] == rank], evaluated.of(rank, "other")
        assert len(evaluated.of(rank, "f")) == STEPS * MICROBATCHES and [step[1] for step in own] == list(range(STEPS))
        assert [op.microbatch for op in others] == list(range(MICROBATCHES))
        assert max(step[3] for step in own) <= others[0].start


def test_the_times_of_a_gpu(scratch):
    """By a double of the CUDA driver: everything but the loading of data has the times of the stream that computes."""
    jobs = [(4, STEPS, MICROBATCHES, "pp=2", "tied", "recompute", "double"),
            (2, STEPS, MICROBATCHES, "pp=2", "dualpipev", "double")]
    for job, run, said in common.launch_all(scratch, SCRIPT, jobs):
        compare(job[0], job[3:], run, said)
        common.compare_clock(run, host=("host",))


def test_another_version(scratch):
    """Whose engine is not what the adapter knows: it says so once and steps aside, and the training goes on."""
    code = ("import os; os.environ['DS_ACCELERATOR'] = 'cpu'; import deepspeed.runtime.pipe.engine as e; "
            "f = e.PipelineEngine.train_batch; del e.PipelineEngine._exec_schedule; import bubbletop.deepspeed as b; "
            "b.attach(e); b.attach(e); print(e.PipelineEngine.train_batch is f)")
    path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    done = subprocess.run([sys.executable, "-c", code], env=environment(PYTHONPATH=path, **quiet), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=common.JOB_LIMIT)
    assert done.returncode == 0 and done.stdout.split()[-1] == "True", done
    said = [line for line in done.stderr.splitlines() if line.startswith("bubbletop:")]
    assert len(said) == 1 and "_exec_schedule" in said[0] and "not captured" in said[0], done.stderr


def test_torchrun(scratch):
    done, run, said = common.launch(scratch, SCRIPT, 2, STEPS, MICROBATCHES, "pp=2")
    assert len(streams(scratch("run"))) == 2, "the launcher writes no stream: %s" % streams(scratch("run"))
    assert "2 ranks, 2 streams, steps 0..2" in done.stderr, done.stderr
    assert "deepspeed" in done.stderr and "TrainSchedule" in done.stderr, done.stderr
    compare(2, ("pp=2",), run, said)


def test_a_line_in_the_script(scratch):
    """Without the import hook."""
    path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    _, run, said = common.launch(scratch, SCRIPT, 2, STEPS, MICROBATCHES, "pp=2", "explicit", options=("--no-python",),
                                 env=environment(PYTHONPATH=path, **quiet))
    compare(2, ("pp=2", "explicit"), run, said)


run_tests({name: globals()[name] for name in sys.argv[1:]} or globals())
