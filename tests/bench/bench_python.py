"""Cost of a span from Python: begin and end, by processor time, the library writing; and of the calls where nothing is captured.
The target is of `with span(...)`."""
import os
import sys
import tempfile
import time

top_builddir, top_srcdir = os.environ.get("top_builddir", "."), os.environ.get("top_srcdir", ".")
sys.path.insert(0, os.path.join(top_srcdir, "capture", "python"))
os.environ["BUBBLETOP_LIBRARY"] = os.path.join(top_builddir, ".libs", "libbubbletop.so.0")
import bubbletop  # noqa: E402

COUNT, ROUNDS = 2000, 30


def nothing(count):
    for _ in range(count):
        pass


def with_span(count):
    span, kind = bubbletop.span, bubbletop.F
    for i in range(count):
        with span(kind, i & 15, 0):
            pass


def begin_end(count):
    for i in range(count):
        bubbletop.end(bubbletop.begin(bubbletop.F, i & 15))


def with_comm(count):
    for i in range(count):
        with bubbletop.comm(bubbletop.SEND_F, 1, 4096, i & 15, sequence=i):
            pass


def clocks(count):
    now = time.monotonic_ns
    for _ in range(count):
        now()
        now()


def measure(work):
    """ns a call, the median of rounds, without the loop; with naps in which the writer empties the ring."""
    times = []
    for _ in range(ROUNDS):
        begun = time.thread_time_ns()
        work(COUNT)
        taken = time.thread_time_ns() - begun
        begun = time.thread_time_ns()
        nothing(COUNT)
        times.append((taken - (time.thread_time_ns() - begun)) / COUNT)
        time.sleep(0.02)
    return sorted(times)[ROUNDS // 2]


with tempfile.TemporaryDirectory() as run:
    before = measure(with_span)  # BUBBLETOP_DIR is not set: nothing is captured
    bubbletop.open(directory=run, rank=0, ring_bytes=1 << 20, flush_ms=5)
    assert bubbletop.enabled()
    two = measure(clocks)
    spans = measure(with_span)
    print("Python: two clock reads            %6.0f ns" % two)
    print("Python: with span(F, mb)           %6.0f ns  (target 1500), %.1f times two clock reads" % (spans, spans / two))
    print("Python: begin(F, mb), end          %6.0f ns" % measure(begin_end))
    print("Python: with comm(SEND_F, ...)     %6.0f ns" % measure(with_comm))
    print("Python: with span, no capture      %6.0f ns" % before)
    assert bubbletop.stats()["dropped"] == 0, bubbletop.stats()
    bubbletop.close()
