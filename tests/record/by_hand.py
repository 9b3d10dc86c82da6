"""A 1F1B pipeline written by hand with PyTorch (Debian's python3-torch, or the one that Python has), under
`bubbletop record`: the order of its ops, and its messages, whether it marks them or not."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Run, environment, record, run_tests, top_builddir, top_srcdir  # noqa: E402

with open(os.path.join(top_builddir, "Makefile")) as makefile:
    if any(line.startswith("BT_CFLAGS") and "-fsanitize" in line for line in makefile):
        print("a Python without the sanitizer cannot load the library")
        sys.exit(77)


def find_torch():
    for python in (os.environ.get("BUBBLETOP_TORCH_PYTHON"), "/usr/bin/python3", sys.executable):
        if python and subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    print("no Python here has torch with gloo (Debian: python3-torch)")
    sys.exit(77)


python = find_torch()
script = os.path.join(top_srcdir, "tests", "record", "torch_1f1b.py")
quiet = dict(OMP_NUM_THREADS="1")
MESSAGES = ("send_f", "recv_f", "send_b", "recv_b")
STAGES, MICROBATCHES, STEPS = 2, 4, 2


LAUNCHER = """
import os, subprocess, sys
each = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29900 + os.getpid() % 1000),
            GLOO_SOCKET_IFNAME="lo")
ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env=dict(each, RANK=str(rank))) for rank in range(2)]
sys.exit(max(rank.wait() != 0 for rank in ranks))
"""


def said(text):
    return sorted(line for line in text.splitlines() if line.startswith("rank "))


def captured(scratch, how, stages=STAGES):
    """Under record; what it computes is what it computes without."""
    arguments = [python, script, how, str(stages), str(MICROBATCHES), str(STEPS)]
    done = record(scratch("run"), *arguments, env=environment(**quiet))
    assert done.returncode == 0, done.stderr[-3000:]
    plain = subprocess.run(arguments, stdout=subprocess.PIPE, universal_newlines=True, timeout=120, check=True,
                           env=environment(PYTHONPATH=os.path.join(top_srcdir, "capture", "python"), **quiet)).stdout
    assert len(said(plain)) == stages * STEPS and said(done.stdout) == said(plain), (done.stdout, plain)
    run = Run(scratch("run"))
    assert not run.problems, run.problems
    return run


def check_order(run, stages):
    for rank in range(stages):
        warm_up = stages - rank - 1
        plan = ["f%d" % m for m in range(min(warm_up, MICROBATCHES))]
        for m in range(MICROBATCHES):
            plan += (["f%d" % (m + warm_up)] if m + warm_up < MICROBATCHES else []) + ["bw%d" % m]
        assert ["%s%d" % (s.kind, s.microbatch) for s in run.of(rank, "f", "bw")] == plan * STEPS, rank
        assert [step[1] for step in run.steps if step[0] == rank] == list(range(STEPS))
        assert len(run.of(rank, "optimizer")) == STEPS


def check_messages(run, stages):
    """Of both halves, in their order, and a gate for each receive."""
    for rank in range(stages - 1):
        for forward, sender, receiver in (("f", rank, rank + 1), ("b", rank + 1, rank)):
            sent = [s for s in run.of(sender, "send_" + forward) if s.peer == receiver]
            received = [s for s in run.of(receiver, "recv_" + forward) if s.peer == sender]
            assert len(sent) == len(received) == MICROBATCHES * STEPS, (forward, sender, len(sent), len(received))
            assert all(a.bytes == b.bytes == 256 for a, b in zip(sent, received))
            assert all(b.end >= a.start for a, b in zip(sent, received)), "nothing is there before it is sent"
            gates = [g for g in run.of(receiver, "gate") if g.on == "recv_" + forward]
            assert len(gates) == len(received)


def test_marked(scratch):
    """What the program says itself is there once, with its microbatches; collectives, which it does not mark, are there."""
    run = captured(scratch, "marks")
    check_order(run, STAGES)
    check_messages(run, STAGES)
    for rank in range(STAGES):
        messages = run.of(rank, *MESSAGES)
        assert sorted(m.microbatch for m in messages) == sorted(list(range(MICROBATCHES)) * 2 * STEPS), messages
        assert len(run.of(rank, "all_reduce")) == STEPS


def test_called(scratch):
    """Messages that are not marked: taken where torch.distributed is called."""
    run = captured(scratch, "calls", stages=3)
    check_order(run, 3)
    check_messages(run, 3)
    for rank in range(3):
        messages = run.of(rank, *MESSAGES)
        assert all(m.group > 0 and m.sequence >= 0 for m in messages), messages
        gates = run.of(rank, "gate")
        reduces = run.of(rank, "all_reduce")
        assert len(reduces) == STEPS and all(r.bytes == 4 for r in reduces), reduces
        assert sorted(g.on for g in gates) == sorted([m.kind for m in messages] + ["all_reduce"] * STEPS), gates


def test_every_call(scratch):
    """Every function of torch.distributed gives, waits and raises what it does without capture."""
    arguments = [python, os.path.join(top_srcdir, "tests", "record", "torch_calls.py")]
    plain = subprocess.run(arguments, stdout=subprocess.PIPE, universal_newlines=True, timeout=120, check=True,
                           env=environment(PYTHONPATH=os.path.join(top_srcdir, "capture", "python"), **quiet)).stdout
    done = record(scratch("run"), *arguments, env=environment(**quiet))
    assert done.returncode == 0, done.stderr[-3000:]
    assert said(plain) and said(done.stdout) == said(plain), (done.stdout, plain)
    run = Run(scratch("run"))
    assert not run.problems, run.problems
    for rank in range(2):
        seen = {span.kind for span in run.of(rank, *MESSAGES, "all_reduce", "all_gather", "all_to_all", "broadcast")}
        forward = {"send_f", "recv_b"} if rank == 0 else {"send_b", "recv_f"}
        assert seen == forward | {"all_reduce", "all_gather", "all_to_all", "broadcast"}, seen


def test_the_program_of_the_readme(scratch):
    """Copied from there. Not by torchrun, which does not work in Debian's torch 1.13 with its Python 3.11."""
    with open(os.path.join(top_srcdir, "README.md"), encoding="utf-8") as file:
        program = re.search("```python\n(import torch\n.*?)```", file.read(), re.S).group(1)
    with open(scratch("gpipe.py"), "w") as file:
        file.write(program)
    done = record(scratch("run"), python, "-c", LAUNCHER, scratch("gpipe.py"), env=environment(**quiet))
    assert done.returncode == 0, done.stderr[-3000:]
    run = Run(scratch("run"))
    assert not run.problems, run.problems
    for rank in range(2):
        order = ["%s%d" % (kind, m) for kind in ("f", "bw") for m in range(8)]
        assert ["%s%d" % (s.kind, s.microbatch) for s in run.of(rank, "f", "bw")] == order * 5
        messages = run.of(rank, *MESSAGES)
        assert len(messages) == 2 * 8 * 5 and all(m.bytes == 64 * 512 * 4 for m in messages)


run_tests(globals())
