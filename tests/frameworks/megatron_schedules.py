"""Megatron-core's own schedules for real: under `bubbletop record`, with gloo, without and with interleaving. What was captured
is what the model was asked to do, in the order of Megatron's own tables; messages, gates and collectives are all there.

Run by tests/frameworks/run, with a Python that has torch and megatron-core."""
import collections
import os
import subprocess
import sys

import common
from common import compare_messages, environment, quiet
from harness import run_tests, streams

SCRIPT = "megatron_train.py"
STEPS, MICROBATCHES = 3, 8


def options_of(words):
    given = dict(word.split("=") if "=" in word else (word, True) for word in words)
    return {name: int(given.pop(name, 1)) for name in ("pp", "vpp", "tp")}, given


def compare(ranks, words, run, said, first=0):
    sizes, given = options_of(words)
    pp, vpp, tp = sizes["pp"], sizes["vpp"], sizes["tp"]
    virtual, replicas = pp * vpp, ranks // pp // tp
    assert not run.problems, run.problems
    for rank, one in enumerate(said):
        taken = [[op.chunk, {"f": "F", "bw": "B"}[op.kind], op.microbatch] for op in run.of(rank, "f", "bw")]
        assert taken == one["executed"], (rank, taken, one["executed"])
        assert taken == one["plan"] * STEPS, (rank, taken, one["plan"])
        common.compare_steps(run, rank, STEPS, 2 * vpp * MICROBATCHES, "f", "bw", first=first)
        assert len(run.of(rank, "optimizer")) == STEPS
        assert run.layout[rank] == (
            "pp %d %d dp %d %d chunks %d microbatches %d virtual %d separable 0 schedule %s vstages %s" %
            (one["pp"], pp, one["dp"], replicas, vpp, MICROBATCHES, virtual, "Interleaved1F1B" if vpp > 1 else "1F1B",
             " ".join(str(one["pp"] + chunk * pp) for chunk in range(vpp)))), run.layout[rank]
    pairs = compare_messages(run, ranks, STEPS if "overlap" in given else 0)
    assert len(pairs) == 2 * (virtual - 1) * MICROBATCHES * STEPS * replicas * tp, len(pairs)
    for send, receive in pairs:  # from a virtual stage to the next one, or back
        there, back = (said[half.rank]["pp"] + half.chunk * pp for half in (send, receive))
        assert back - there == (1 if send.kind == "send_f" else -1), (send, receive)
    losses = [one["loss"] for one in said if one["loss"]]
    assert len(losses) == replicas * tp
    assert "sharded" in given or losses[0][-1] < losses[0][0], "it learns"
    print("  ", ranks, "ranks", *words, "%d spans" % len(run.spans))


def compare_report(directory, name):
    found = common.report(directory)
    assert found["schedule"]["recognised"] == name, found["schedule"]
    assert found["warnings"] == [], found["warnings"]


def test_schedules(scratch):
    """Without interleaving and with it: with messages that the schedule waits for at once, and in the background, where nothing
    waits for the last send."""
    jobs = [(ranks, STEPS, MICROBATCHES, *words) for ranks, *words in
            ((2, "pp=2"), (4, "pp=4"), (4, "pp=4", "vpp=2"), (2, "pp=2", "vpp=2", "overlap"), (4, "pp=4", "vpp=2", "overlap"))]
    for number, (job, run, said) in enumerate(common.launch_all(scratch, SCRIPT, jobs)):
        compare(job[0], job[3:], run, said)
        compare_report(scratch("run%d" % number), "interleaved" if "vpp=2" in job else "1f1b")


def collectives(run, rank):
    return collections.Counter(span.kind for span in run.spans
                               if span.rank == rank and span.kind in ("all_reduce", "all_gather", "reduce_scatter"))


def test_collectives(scratch):
    """Gradients of DistributedDataParallel's buckets in the background and at once, whole and sharded, a shared embedding, and
    the tensor parallel layers."""
    jobs = [(4, STEPS, MICROBATCHES, *words) for words in
            (("pp=2", "ddp", "tied"), ("pp=2", "vpp=2", "overlap", "ddp"), ("pp=2", "sharded"), ("pp=2", "tp=2"))]
    # Each step: a bucket a chunk, and the shared weight; row parallel forwards (backwards are the linear layer's own).
    expected = [{"all_reduce": STEPS * 2}, {"all_reduce": STEPS * 2}, {"reduce_scatter": STEPS, "all_gather": STEPS},
                {"all_reduce": STEPS * MICROBATCHES}]
    for (job, run, said), counts in zip(common.launch_all(scratch, SCRIPT, jobs), expected):
        compare(job[0], job[3:], run, said)
        for rank in range(4):
            assert collectives(run, rank) == counts, (job, rank, collectives(run, rank), counts)
            for span in run.spans:
                if span.kind in counts:
                    assert span.group > 0 and span.bytes > 0 and span.duration > 0, span
            gated = {(gate.on, gate.group, gate.sequence) for gate in run.of(rank, "gate") if gate.on in counts}
            if "tp=2" not in job:  # those are inside ops, which wait
                assert len(gated) == sum(counts.values()), (job, rank, gated)


def test_recomputation(scratch):
    """What is computed again is within its backward, with its microbatch."""
    (job, run, said), = common.launch_all(scratch, SCRIPT, [(2, STEPS, MICROBATCHES, "pp=2", "recompute")])
    for rank in range(2):
        again, backwards = run.of(rank, "recompute"), run.of(rank, "bw")
        assert len(again) == len(backwards) == STEPS * MICROBATCHES, (len(again), len(backwards))
        for inner, outer in zip(again, backwards):
            assert outer.start <= inner.start and inner.end <= outer.end, (inner, outer)
            assert (inner.microbatch, inner.chunk) == (outer.microbatch, outer.chunk), (inner, outer)
    assert [one["loss"] for one in said if one["loss"]]
    compare_report(scratch("run0"), "1f1b")


def test_the_times_of_a_gpu(scratch):
    """By a double of the CUDA driver: everything has the times of the stream that computes."""
    jobs = [(2, STEPS, MICROBATCHES, "pp=2", "vpp=2", "overlap", "recompute", "double"),
            (4, STEPS, MICROBATCHES, "pp=2", "ddp", "tied", "double"), (4, STEPS, MICROBATCHES, "pp=2", "tp=2", "double")]
    for job, run, said in common.launch_all(scratch, SCRIPT, jobs):
        compare(job[0], job[3:], run, said)
        common.compare_clock(run)


def test_another_version(scratch):
    """Whose schedules are not what the adapter knows: it says so once and steps aside, and the training goes on."""
    code = ("import megatron.core.pipeline_parallel.schedules as s; del s.backward_step; import bubbletop.megatron as b; "
            "b.instrument(); b.instrument(); print(s.forward_step.__module__, hasattr(s.forward_step, '__wrapped__'))")
    path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    done = subprocess.run([sys.executable, "-c", code], env=environment(PYTHONPATH=path, **quiet), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=common.JOB_LIMIT)
    assert done.returncode == 0 and done.stdout.split() == ["megatron.core.pipeline_parallel.schedules", "False"], done
    said = [line for line in done.stderr.splitlines() if line.startswith("bubbletop:")]
    assert len(said) == 1 and "has no backward_step" in said[0] and "not captured" in said[0], done.stderr


def test_torchrun(scratch):
    done, run, said = common.launch(scratch, SCRIPT, 2, STEPS, MICROBATCHES, "pp=2", "vpp=2", "overlap")
    assert len(streams(scratch("run"))) == 2, "the launcher writes no stream: %s" % streams(scratch("run"))
    assert "2 ranks, 2 streams, steps 0..2" in done.stderr, done.stderr
    assert "megatron-core" in done.stderr and "Interleaved1F1B on cpu" in done.stderr, done.stderr
    compare(2, ("pp=2", "vpp=2", "overlap"), run, said)


def test_a_line_in_the_script(scratch):
    """Without the import hook."""
    path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    _, run, said = common.launch(scratch, SCRIPT, 2, STEPS, MICROBATCHES, "pp=2", "explicit", options=("--no-python",),
                                 env=environment(PYTHONPATH=path, **quiet))
    compare(2, ("pp=2", "explicit"), run, said)


run_tests({name: globals()[name] for name in sys.argv[1:]} or globals())
