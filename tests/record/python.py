"""The Python module in plain Python, under `bubbletop record`: what a hand-written pipeline records, and what happens when
something is not there, full, killed, forked or not as expected."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Run, environment, record, run_tests, streams, top_builddir, top_srcdir  # noqa: E402

with open(os.path.join(top_builddir, "Makefile")) as makefile:
    if any(line.startswith("BT_CFLAGS") and "-fsanitize" in line for line in makefile):
        print("a Python without the sanitizer cannot load the library")
        sys.exit(77)

handmade = os.path.join(top_srcdir, "tests", "record", "handmade.py")
module = os.path.join(top_srcdir, "capture", "python")


def python(run, code, *arguments, options=(), env=None):
    return record(run, sys.executable, "-c", code, *arguments, options=options, env=env)


def test_a_pipeline(scratch):
    stages, microbatches, steps = 3, 4, 2
    done = record(scratch("run"), sys.executable, handmade, *map(str, (stages, microbatches, steps)))
    assert done.returncode == 0, done
    run = Run(scratch("run"))
    assert not run.problems and len(streams(scratch("run"))) == stages, "the launcher writes no stream"
    assert "3 ranks, 3 streams, steps 0..1" in done.stderr, done.stderr
    for rank in range(stages):
        warmup = stages - rank - 1
        plan = ["f%d" % m for m in range(min(warmup, microbatches))]
        for m in range(microbatches):
            plan += (["f%d" % (m + warmup)] if m + warmup < microbatches else []) + ["b%d" % m, "w%d" % m]
        assert ["%s%d" % (s.kind, s.microbatch) for s in run.of(rank, "f", "b", "w")] == plan * steps
        messages = run.of(rank, "send_f", "recv_f", "send_b", "recv_b")
        assert len(messages) == steps * microbatches * 2 * ((rank > 0) + (rank < stages - 1))
        assert all(s.bytes == 256 and s.group == 1 for s in messages)
        gates = run.of(rank, "gate")
        assert len(gates) == len(messages) // 2 and all(s.on.startswith("recv") for s in gates)
        assert len(run.of(rank, "optimizer")) == steps
        assert run.layout[rank].startswith("pp %d 3 dp -1 -1 chunks -1 microbatches 4 " % rank), run.layout
        assert "separable 1 schedule 1f1b" in run.layout[rank], run.layout
        assert run.marks.count("%d step time" % rank) == steps


def test_a_killed_rank(scratch):
    env = environment(BUBBLETOP_FLUSH_MS="60000")
    done = record(scratch("run"), sys.executable, handmade, "2", "4", "3", "die", env=env)
    assert done.returncode == 1 and "done" in done.stdout, done
    if os.path.ismount("/dev/shm"):
        ops = Run(scratch("run")).of(1, "f", "b", "w")
        assert len(ops) == int(done.stdout.split()[1]), "every op that had ended is there"
        assert "killed process" in done.stderr, done.stderr


def test_no_library(scratch):
    """The training goes on; one line says what is missing."""
    code = "import os; os.environ['BUBBLETOP_LIBRARY'] = '/nowhere/lib.so'\nimport bubbletop\n" \
           "for i in range(3):\n  with bubbletop.step(i), bubbletop.span(bubbletop.F, i): print('trained')\n" \
           "assert not bubbletop.enabled() and bubbletop.group(bubbletop.PP, [0, 1]) == 0 and bubbletop.stats() == {}"
    done = python(scratch("run"), code)
    assert done.returncode == 0 and done.stdout.count("trained") == 3, done
    assert len([line for line in done.stderr.splitlines() if "/nowhere/lib.so" in line]) == 1, done.stderr
    assert "nothing was captured" in done.stderr


def test_not_wanted(scratch):
    code = "import bubbletop\nwith bubbletop.span(bubbletop.F, 1), bubbletop.comm(bubbletop.SEND_F, 1): print('trained')"
    done = subprocess.run([sys.executable, "-c", code], env=environment(PYTHONPATH=module), cwd=scratch.path,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"trained\n", b""), done
    assert not os.listdir(scratch.path)


def test_no_directory(scratch):
    code = "import bubbletop\nwith bubbletop.span(bubbletop.F, 1): print('trained')"
    env = environment(PYTHONPATH=module, BUBBLETOP_DIR=scratch("no", "such"),
                      BUBBLETOP_LIBRARY=os.path.join(top_builddir, ".libs", "libbubbletop.so.0"))
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0 and done.stdout == b"trained\n", done
    assert len(done.stderr.splitlines()) == 1 and b"no capture" in done.stderr, done


def test_nothing_raises(scratch):
    code = """
import bubbletop
for call in (lambda: bubbletop.span("F", 1), lambda: bubbletop.span(bubbletop.F, "x"), lambda: bubbletop.span(None),
             lambda: bubbletop.comm(bubbletop.SEND_F, peer="x"), lambda: bubbletop.gate(1.5), lambda: bubbletop.step("x"),
             lambda: bubbletop.comm(bubbletop.F), lambda: bubbletop.span(99)):
    with call(): pass
bubbletop.layout(nonsense=3); bubbletop.layout(vstages=3); bubbletop.group("x", 3); bubbletop.counter("a", "b")
bubbletop.complete(bubbletop.F, 5, 3); bubbletop.instant(None); bubbletop.meta(None, None)
with bubbletop.span(bubbletop.F, 2, 1): pass
try:
    with bubbletop.span(bubbletop.F, 3): raise KeyError
except KeyError: print("the program's own error")
bubbletop.close(); bubbletop.close()
with bubbletop.span(bubbletop.F, 4): print("trained")
"""
    done = python(scratch("run"), code)
    assert done.returncode == 0 and done.stdout == "the program's own error\ntrained\n", done
    run = Run(scratch("run"))
    assert [(s.microbatch, s.chunk) for s in run.of(0, "f") if s.microbatch >= 0] == [(2, 1), (3, 0)], run.spans
    assert not run.problems, run.problems


def test_a_full_disk(scratch):
    """Files may not grow beyond 8 KiB: the training goes on, what fitted is there."""
    code = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
import bubbletop
for step in range(40):
    with bubbletop.step(step):
        for m in range(200):
            with bubbletop.span(bubbletop.F, m): pass
    bubbletop.flush(50)
print("trained")
"""
    done = python(scratch("run"), code, env=environment(BUBBLETOP_CLOSE_MS="200", BUBBLETOP_RING_DIR="/nowhere"))
    assert done.returncode == 0 and "trained" in done.stdout, done
    assert 100 < len(Run(scratch("run")).of(0, "f")) < 8000


def test_forked_workers_are_silent(scratch):
    """A data loader's workers: forked from the rank, with all of its environment."""
    code = """
import multiprocessing, os, bubbletop
def work(n):
    with bubbletop.span(bubbletop.HOST, n): return os.getpid()
with bubbletop.span(bubbletop.F, 0): pass
with multiprocessing.get_context("fork").Pool(2) as pool: assert os.getpid() not in pool.map(work, range(8))
with bubbletop.span(bubbletop.F, 1): pass
"""
    done = python(scratch("run"), code)
    assert done.returncode == 0, done
    run = Run(scratch("run"))
    assert len(streams(scratch("run"))) == 1 and len(run.spans) == 2 and not run.problems, (run.spans, run.problems)


def test_children_of_multiprocessing_are_ranks(scratch):
    """They leave by os._exit: their streams end in good order all the same."""
    code = """
import multiprocessing, sys
def train(rank):
    import bubbletop
    bubbletop.open(rank=rank, world_size=2)
    with bubbletop.span(bubbletop.F, rank): pass
children = [multiprocessing.get_context("fork").Process(target=train, args=(rank,)) for rank in range(2)]
for child in children: child.start()
for child in children: child.join()
sys.exit(max(child.exitcode for child in children))
"""
    done = python(scratch("run"), code)
    assert done.returncode == 0 and "2 ranks, 2 streams" in done.stderr and "saved" not in done.stderr, done
    assert not Run(scratch("run")).problems


def test_another_sitecustomize(scratch):
    os.mkdir(scratch("site"))
    with open(scratch("site", "sitecustomize.py"), "w") as file:
        file.write("import sys\nsys.theirs = __file__\n")
    code = "import sys, sitecustomize, bubbletop; print(sys.theirs, sitecustomize.__file__)"
    done = python(scratch("run"), code, env=environment(PYTHONPATH=scratch("site")))
    theirs = scratch("site", "sitecustomize.py")
    assert done.stdout.split() == [theirs, theirs], done


def fake_torch(folder, schedules):
    """A package that has the names of torch's, and little in them."""
    pipelining = os.path.join(folder, "torch", "distributed", "pipelining")
    os.makedirs(pipelining)
    for path, text in (("torch/__init__.py", "__version__ = '99.0'"), ("torch/distributed/__init__.py", ""),
                       ("torch/distributed/pipelining/__init__.py", "from . import schedules"),
                       ("torch/distributed/pipelining/stage.py", "class _PipelineStageBase: pass"),
                       ("torch/distributed/pipelining/schedules.py", schedules)):
        with open(os.path.join(folder, path), "w") as file:
            file.write(text + "\n")


def test_a_framework_that_has_changed(scratch):
    """An adapter that does not fit says so once and steps aside; the framework's modules are what they were."""
    for number, schedules in enumerate(("class PipelineScheduleSingle:\n  def step(self): pass\nPipelineScheduleMulti = "
                                        "PipelineScheduleSingle", "nothing = 1")):
        folder = scratch("site%d" % number)
        fake_torch(folder, schedules)
        code = "import torch.distributed.pipelining as p, bubbletop; s = p.schedules\n" \
               "assert type(s.__loader__).__name__ == 'SourceFileLoader' and s.__spec__.loader is s.__loader__\nprint('trained')"
        done = python(scratch("run"), code, env=environment(PYTHONPATH=folder))
        assert done.returncode == 0 and done.stdout == "trained\n", done
        lines = [line for line in done.stderr.splitlines() if line.startswith("bubbletop: ")]
        assert len(lines) == 1 and "not captured" in lines[0], done.stderr


def test_no_python(scratch):
    done = python(scratch("run"), "import os; print(os.environ.get('PYTHONPATH'))", options=("--no-python",))
    assert done.stdout == "None\n" and "turned off by --no-python" in done.stderr, done


run_tests(globals())
