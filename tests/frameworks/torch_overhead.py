"""What capture costs a training run with PyTorch: four ranks of 1F1B with gloo on this machine, with and without, in turns.

Processor time of all ranks a step (their threads and the writer's included) and steps a second. With fewer free cores than
ranks the second says little. Arguments: pairs of runs (8), width of the layers (all sizes)."""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

top_builddir, top_srcdir = os.environ.get("top_builddir", "."), os.environ.get("top_srcdir", ".")
sys.path.insert(0, os.path.join(top_srcdir, "capture", "python"))
os.environ["BUBBLETOP_LIBRARY"] = os.path.join(top_builddir, ".libs", "libbubbletop.so.0")

RANKS, MICROBATCHES, WARM_UP = 4, 8, 3
SIZES = ((32, 4, 40), (640, 32, 12))  # width, rows, steps: ops of next to nothing, and of some milliseconds
ports = iter(range(30100 + os.getpid() % 300, 65000))


def train(rank, port, width, rows, steps, run):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    if run:
        os.environ["BUBBLETOP_DIR"] = run
        import bubbletop.torch
        bubbletop.torch.attach(schedules)
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    layers = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4)))
    stage = PipelineStage(layers, rank, RANKS, torch.device("cpu"))
    schedule = schedules.Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
    x = torch.randn(rows * MICROBATCHES, width)

    def step():
        optimizer.zero_grad()
        schedule.step(*((x,) if rank == 0 else ()), **({"target": x} if rank == RANKS - 1 else {}))
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    dist.barrier()
    wall, cpu = time.monotonic(), time.process_time()
    for _ in range(steps):
        step()
    cpu = time.process_time() - cpu
    dist.barrier()
    wall = time.monotonic() - wall
    dist.destroy_process_group()
    return cpu / steps, wall / steps


def measure(width, rows, steps, run):
    """Seconds of processor and wall time that a step of the whole pipeline takes."""
    port, children = next(ports), []
    for rank in range(RANKS):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, json.dumps(train(rank, port, width, rows, steps, run)).encode())
            finally:
                os._exit(0)
        os.close(write)
        children.append((child, read))
    results = []
    for child, read in children:
        with os.fdopen(read) as file:
            results.append(json.load(file))
        os.waitpid(child, 0)
    return sum(cpu for cpu, _ in results), max(wall for _, wall in results)


def compare(pairs, width, rows, steps):
    with tempfile.TemporaryDirectory() as scratch:
        cpu, wall, plain = [], [], []
        for pair in range(pairs):
            both = {}
            for captured in ((False, True) if pair % 2 else (True, False)):
                run = os.path.join(scratch, "run%d" % pair) if captured else ""
                if captured:
                    os.mkdir(run)
                both[captured] = measure(width, rows, steps, run)
            plain.append(both[False][0])
            cpu.append(both[True][0] / both[False][0])
            wall.append(both[True][1] / both[False][1])
    op = statistics.median(plain) / (RANKS * MICROBATCHES * 2) * 1e3
    spread = sorted(cpu)
    print("torch 1F1B, %d ranks, %.2f ms an op: processor time %+.1f %% (%+.1f .. %+.1f), time of a step %+.1f %%  (target 1)"
          % (RANKS, op, *(100 * (ratio - 1) for ratio in (statistics.median(cpu), spread[len(spread) // 4],
                                                           spread[3 * len(spread) // 4], statistics.median(wall)))),
          flush=True)


pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
for size in SIZES:
    if len(sys.argv) < 3 or size[0] == int(sys.argv[2]):
        compare(pairs, *size)
