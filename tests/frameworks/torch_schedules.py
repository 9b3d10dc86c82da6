"""torch.distributed.pipelining for real: under `bubbletop record`, with gloo, every schedule class. What was captured is
what the stages executed, in the order of the schedule's own plan, and the messages and gates are all there.

Run by tests/frameworks/run, with a Python that has torch."""
import os
import shutil
import subprocess
import sys

import common
from common import MESSAGES, compare_messages, environment, quiet
from harness import run_tests, streams, top_builddir, top_srcdir

KINDS = {"f": "F", "bw": "B", "b": "I", "w": "W"}  # ours -> PyTorch's
GRADIENTS = 4 * 2 * (32 * 32 + 32)  # bytes of a stage: two layers of 32 x 32
SCHEDULES = (("ScheduleGPipe", 1), ("Schedule1F1B", 1), ("ScheduleInterleaved1F1B", 2), ("ScheduleLoopedBFS", 2),
             ("ScheduleInterleavedZeroBubble", 2), ("ScheduleZBVZeroBubble", 2), ("ScheduleDualPipeV", 2))


def launch(scratch, ranks, *arguments, **more):
    return common.launch(scratch, "torch_pipeline.py", ranks, *arguments, **more)


def compare_ops(run, said, steps, first=0):
    """The capture against what the script's own stages saw, and the plan."""
    for rank, one in enumerate(said):
        ops = run.of(rank, "f", "b", "w", "bw")
        taken = [[one["stages"][op.chunk], KINDS[op.kind], op.microbatch] for op in ops]
        assert taken == one["executed"], (rank, len(taken), len(one["executed"]))
        if one["plan"] is not None:
            plan = one["plan"] * steps
            if max(op[2] for op in plan) > max(op[2] for op in taken):
                # Schedule1F1B executes without its plan, which (torch 2.15) counts forwards to one too many on all ranks
                # but the first: only the order of kinds can be compared.
                assert [op[:2] for op in taken] == [op[:2] for op in plan], (rank, taken, plan)
            else:
                assert taken == plan, (rank, taken, plan)
        common.compare_steps(run, rank, steps, len(ops) // steps, "f", "b", "w", "bw", first=first)
        assert len(run.of(rank, "optimizer")) == steps
        if one["messages"] is not None:
            messages = run.of(rank, *MESSAGES)
            assert len(messages) == one["messages"] * steps, (rank, len(messages), one["messages"])
    assert not run.problems, run.problems


def compare(job, run, said):
    ranks, schedule, steps, microbatches, *options = job
    replicas = 2 if "fsdp" in options or "ddp" in options else 1
    compare_ops(run, said, steps)
    compare_messages(run, ranks)
    losses = [one["loss"] for one in said if one["loss"]]
    assert losses and losses[0][-1] < losses[0][0], "it learns"
    for rank, layout in run.layout.items():
        assert layout.startswith("pp %d %d " % (said[rank]["here"], ranks // replicas)), layout
        assert " microbatches %d " % microbatches in layout and " schedule %s " % schedule[8:] in layout, layout
        assert layout.endswith("vstages " + " ".join(map(str, said[rank]["stages"]))), layout
    print("  ", schedule, ranks, "ranks", *options, "%d spans" % len(run.spans))


def test_every_schedule(scratch):
    jobs = [(ranks, schedule, 3, 8, *(["chunks=%d" % chunks] if chunks > 1 else []))
            for ranks in (2, 4) for schedule, chunks in SCHEDULES]
    for job, run, said in common.launch_all(scratch, "torch_pipeline.py", jobs):
        compare(job, run, said)


def test_fsdp(scratch):
    """Two replicas that share each stage's weights: unshard and gradient reduction, in the data-parallel group."""
    jobs = [(4, "Schedule1F1B", 3, 4, "fsdp"), (4, "ScheduleInterleaved1F1B", 3, 4, "chunks=2", "fsdp")]
    for job, run, said in common.launch_all(scratch, "torch_pipeline.py", jobs):
        compare(job, run, said)
        for rank in range(4):
            gathers, reduces = run.of(rank, "all_gather"), run.of(rank, "reduce_scatter")
            assert gathers and reduces, (rank, len(gathers), len(reduces))
            assert all(s.bytes > 0 and s.group > 0 for s in gathers + reduces)
            assert len(reduces) == job[2] * len(said[rank]["stages"]), (len(reduces), job)
            assert " dp %d 2 " % (rank % 2) in run.layout[rank], run.layout


def test_ddp(scratch):
    """Two replicas: the all-reduces of the gradients, which C++ begins inside the last backward."""
    job = (4, "Schedule1F1B", 3, 4, "ddp")
    [(_, run, said)] = common.launch_all(scratch, "torch_pipeline.py", [job])
    compare(job, run, said)
    for rank in range(4):
        reduces, last = run.of(rank, "all_reduce"), [op for op in run.of(rank, "bw") if op.microbatch == 3]
        assert len(last) == 3
        for op in last:  # where torch finds out about shapes, before the first, there may be more
            inside = [r for r in reduces if op.start <= r.start <= op.end]
            assert sum(r.bytes for r in inside) == GRADIENTS and all(r.group > 0 for r in inside), (op, reduces)
        assert " dp %d 2 " % (rank % 2) in run.layout[rank], run.layout


def test_the_times_of_a_gpu(scratch):
    """By a double of the CUDA driver: everything has the times of the stream that computes."""
    jobs = [(2, "Schedule1F1B", 3, 4, "double"), (2, "ScheduleZBVZeroBubble", 3, 4, "chunks=2", "double"),
            (4, "Schedule1F1B", 2, 4, "fsdp", "double")]
    for job, run, said in common.launch_all(scratch, "torch_pipeline.py", jobs):
        compare(job, run, said)
        common.compare_clock(run)


def test_the_stream_of_a_device(scratch):
    sys.path.insert(0, os.path.join(top_srcdir, "capture", "python"))
    from bubbletop import _distributed
    assert _distributed.stream() is None
    _distributed.compute_on("cuda:1")
    assert _distributed.stream is not _distributed._on_host and _distributed.clock_name() == "times of the GPU"
    _distributed.compute_on("cpu")
    assert _distributed.stream() is None and _distributed.clock_name() == "host times"


def test_torchrun(scratch):
    done, run, said = launch(scratch, 2, "ScheduleInterleaved1F1B", 3, 8, "chunks=2")
    assert len(streams(scratch("run"))) == 2, "the launcher writes no stream: %s" % streams(scratch("run"))
    assert "2 ranks, 2 streams, steps 0..2" in done.stderr, done.stderr
    assert "torch" in done.stderr and "actions, messages, gates" in done.stderr, done.stderr
    compare((2, "ScheduleInterleaved1F1B", 3, 8), run, said)


def test_two_lines_in_the_script(scratch):
    """Without the import hook; steps are counted from where it says."""
    path = os.path.join(os.environ["top_srcdir"], "capture", "python")
    _, run, said = launch(scratch, 2, "Schedule1F1B", 2, 4, "explicit", options=("--no-python",),
                          env=environment(PYTHONPATH=path, **quiet))
    compare_ops(run, said, 2, first=100)


def test_sampled_steps(scratch):
    _, run, _ = launch(scratch, 2, "Schedule1F1B", 6, 4, options=("--steps", "2..5", "--every", "2"))
    assert [step[1] for step in run.steps if step[0] == 0] == [2, 4], run.steps
    assert len(run.of(0, "f")) == 8


def test_installed_by_pip(scratch):
    """Into an environment of its own, with the library where a variable says, or beside the package."""
    package = shutil.copytree(os.path.join(top_srcdir, "capture", "python"), scratch("package"))
    subprocess.run([sys.executable, "-m", "venv", scratch("venv")], check=True)
    python = scratch("venv", "bin", "python")
    subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    code = "import bubbletop as b\nwith b.span(b.F, 1): pass\nprint(b.enabled(), b.__file__)"
    library = os.path.join(top_builddir, ".libs", "libbubbletop.so.0")

    def captured(**env):
        done = subprocess.run([python, "-c", code], env=environment(BUBBLETOP_DIR=scratch("run"), **env), check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        assert scratch("venv") in done.stdout, done
        return done
    assert captured(BUBBLETOP_LIBRARY=library).stdout.startswith("True "), "the library that is named"
    found = captured()
    if found.stdout.startswith("False "):  # not installed in this system
        assert "BUBBLETOP_LIBRARY" in found.stderr and len(found.stderr.splitlines()) == 1, found
    shutil.copy(library, os.path.dirname(found.stdout.split()[1]))
    assert captured().stdout.startswith("True "), "the one beside the package"


tests = {name: test for name, test in globals().items() if name.startswith("test_")}
run_tests({name: tests[name] for name in sys.argv[1:] or tests})
