"""What the tests of `bubbletop record` share: a scratch directory, running a command under record, reading the run."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

top_builddir = os.environ.get("top_builddir", ".")
top_srcdir = os.environ.get("top_srcdir", ".")
bubbletop = os.path.join(top_builddir, "bubbletop")
trainer = os.path.join(top_builddir, "samples", "pipeline_train")
LAUNCHERS = ("BUBBLETOP_", "SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "NCCL_", "NVTX_")


def environment(**more):
    """The environment without what would change a capture."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(LAUNCHERS) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTHONPATH")}
    env.update(more)
    return env


class Scratch:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="bubbletop-record-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __call__(self, *names):
        return os.path.join(self.path, *names)


def record(run, *command, options=(), env=None, limit=120, **more):
    """Runs `bubbletop record`; the result has returncode, stdout and stderr."""
    arguments = [bubbletop, "record", "-o", run, *options, "--", *command]
    with subprocess.Popen(arguments, env=env or environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, **more) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()  # which reaches the command's whole process group
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


class Span(collections.namedtuple("Span", "rank kind start duration chunk microbatch peer bytes sequence group chunk_b "
                                  "microbatch_b flags on")):
    @property
    def end(self):
        return self.start + self.duration


class Run:
    """A capture, read by tests/record/spans."""

    def __init__(self, run):
        self.spans, self.steps, self.layout, self.marks, self.problems = [], [], {}, [], []
        out = subprocess.run([os.path.join(top_builddir, "tests", "record", "spans"), run], stdout=subprocess.PIPE,
                             universal_newlines=True, timeout=120, check=True).stdout
        for line in out.splitlines():
            what, rest = line.split(" ", 1)
            if what == "span":
                rank, kind, *numbers, on = rest.split(" ")
                self.spans.append(Span(int(rank), kind.lower(), *(int(number) for number in numbers), on.lower()))
            elif what == "step":
                self.steps.append(tuple(int(number) for number in rest.split()))
            elif what == "layout":
                rank, layout = rest.split(" ", 1)
                self.layout[int(rank)] = layout
            elif what == "mark":
                self.marks.append(rest)
            else:
                self.problems.append(rest)

    def of(self, rank, *kinds):
        """Spans of a rank and kinds, by start."""
        return sorted((s for s in self.spans if s.rank == rank and s.kind in kinds), key=lambda s: s.start)


def streams(run):
    return sorted(name for name in os.listdir(run) if name.endswith(".msgpack"))


def run_tests(scope):
    """Runs every function whose name begins with test_; the exit status says whether one failed."""
    failed = 0
    for name, test in list(scope.items()):
        if not name.startswith("test_"):
            continue
        with Scratch() as scratch:
            begun = time.monotonic()
            try:
                test(scratch)
                print("ok", name, "%.1f s" % (time.monotonic() - begun))
            except Exception as error:  # an AssertionError, or a test that broke
                failed += 1
                print("FAILED", name)
                traceback.print_exception(type(error), error, error.__traceback__)
    sys.exit(1 if failed else 0)
