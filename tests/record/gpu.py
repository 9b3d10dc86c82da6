"""GPU-timed spans from Python against a double of the CUDA driver (tests/capture/cuda_double.c): what Python hands to the
library, not a GPU."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Run, record, run_tests, top_builddir  # noqa: E402

with open(os.path.join(top_builddir, "Makefile")) as makefile:
    if any(line.startswith("BT_CFLAGS") and "-fsanitize" in line for line in makefile):
        print("a Python without the sanitizer cannot load the library")
        sys.exit(77)

GPU_TIMED, GPU_UNKNOWN, GROUPED = 1, 2, 4
MILLISECOND = 1000000
double = os.path.join(top_builddir, "tests", "capture", "double", "libcuda.so.1")

PRELUDE = """
import ctypes, sys, time
import bubbletop as bt
class Control(ctypes.Structure):
    _fields_ = [("stream", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)),
                ("kernel", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)),
                ("capture", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool))]
gpu = Control.in_dll(ctypes.CDLL(%r), "cuda_double_control") if %r else None
class Stream:  # as torch has it
    def __init__(self): self.cuda_stream = gpu.stream(1)
def settle(): time.sleep(0.05)
"""


def python(scratch, code, with_double=True):
    done = record(scratch("run"), sys.executable, "-c", PRELUDE % (double, with_double) + code)
    assert done.returncode == 0, done
    return done, Run(scratch("run"))


def test_ops_messages_and_gates(scratch):
    _, run = python(scratch, """
compute, other = Stream(), Stream()
for m in range(3):
    with bt.span(bt.F, m, stream=compute):
        gpu.kernel(compute.cuda_stream, 4000000)  # asked for at once, done 4 ms later
with bt.span(bt.HOST, 9): pass
with bt.comm(bt.SEND_F, 1, 100, 2, stream=other.cuda_stream):  # the number of a stream
    gpu.kernel(other.cuda_stream, 2000000)
with bt.gate(bt.RECV_B, 1, 2, stream=compute): pass
with bt.overlapped(4, 0, 3, 1, stream=compute): pass
bt.end(bt.begin(bt.OPTIMIZER, stream=compute))
settle()
assert bt.stats()["gpu_unknown"] == 0 and bt.stats()["graph_captured"] == 0, bt.stats()
""")
    forwards = run.of(0, "f")
    assert [s.microbatch for s in forwards] == [0, 1, 2] and all(s.flags == GPU_TIMED for s in forwards), forwards
    assert all(s.duration > 3.9 * MILLISECOND for s in forwards), forwards
    assert all(a.end <= b.start + MILLISECOND // 10 for a, b in zip(forwards, forwards[1:])), "behind each other"
    assert run.of(0, "host")[0].flags == 0
    assert run.of(0, "send_f")[0].duration > 1.9 * MILLISECOND and run.of(0, "send_f")[0].flags == GPU_TIMED
    assert [s.flags for s in run.of(0, "gate", "fb", "optimizer")] == [GPU_TIMED] * 3, run.spans
    assert run.of(0, "fb")[0].microbatch_b == 3


def test_what_cannot_be_timed(scratch):
    """A graph that is being captured is counted; what is no stream is said once, and timed by the host."""
    done, run = python(scratch, """
compute = Stream()
gpu.capture(compute.cuda_stream, True)
with bt.span(bt.F, 0, stream=compute): pass
gpu.capture(compute.cuda_stream, False)
with bt.span(bt.F, 1, stream="nonsense"): pass
with bt.span(bt.F, 2, stream=compute): pass
settle()
assert bt.stats()["graph_captured"] == 1, bt.stats()
""")
    assert [(s.microbatch, s.flags) for s in run.of(0, "f")] == [(1, 0), (2, GPU_TIMED)], run.spans
    assert len([line for line in done.stderr.splitlines() if line.startswith("bubbletop: stream: ")]) == 1, done.stderr


def test_without_a_driver(scratch):
    """On a machine without a GPU a stream cannot exist; the host's times, and it is said so."""
    if os.path.exists("/dev/nvidiactl"):
        print("there is a driver here")
        return
    _, run = python(scratch, "with bt.span(bt.F, 0, stream=0): time.sleep(0.002)\n", with_double=False)
    assert [(s.flags, s.duration > MILLISECOND) for s in run.of(0, "f")] == [(GPU_UNKNOWN, True)], run.spans


run_tests(globals())
