"""What capture costs a training run with PyTorch: four ranks of 1F1B with gloo on this machine. Of four steps the second and the
third are captured, so that both kinds meet the same machine, in odd and even steps. Compared are the medians of their processor
time (of the threads that train, and the library's writer; gloo's own threads wait busily) and of their duration, which says
little where there are fewer cores than ranks. How far the uncaptured steps differ from each other is noise.

tests/frameworks/run torch_overhead [STEPS]"""
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

RANKS, MICROBATCHES, WARM_UP = 4, 8, 4
SIZES = ((32, 4, 4), (512, 32, 1), (1024, 64, 0.3))  # width, rows, and how many steps to make of those that are asked for


def writer_ns():
    """Processor time of the library's threads."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/comm" % task) as comm, open("/proc/self/task/%s/schedstat" % task) as stat:
            if comm.read().startswith("bubbletop"):
                total += int(stat.read().split()[0])
    return total


def train(rank, port, width, rows, steps, run):
    """Processor and wall seconds of each step, and the writer's in all."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      GLOO_SOCKET_IFNAME="lo", BUBBLETOP_DIR=run)
    torch.set_num_threads(1)
    import bubbletop.torch
    bubbletop.torch.instrument()
    bubbletop.torch.attach(schedules)
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    layers = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4)))
    stage = PipelineStage(layers, rank, RANKS, torch.device("cpu"))
    schedule = schedules.Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
    x = torch.randn(rows * MICROBATCHES, width)

    def step():
        dist.barrier()
        wall, cpu = time.monotonic(), time.thread_time()
        optimizer.zero_grad()
        schedule.step(*((x,) if rank == 0 else ()), **({"target": x} if rank == RANKS - 1 else {}))
        optimizer.step()
        return time.thread_time() - cpu, time.monotonic() - wall

    for _ in range(WARM_UP):
        step()
    session, written, taken = bubbletop._session, writer_ns(), []
    for number in range(steps):
        bubbletop._use(session if number % 4 in (1, 2) else None)
        taken.append(step())
    written = (writer_ns() - written) / 1e9
    dist.barrier()
    return taken, written


def measure(width, rows, steps, run, port):
    children = []
    for rank in range(RANKS):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(write, "w") as file:
                json.dump(train(rank, port, width, rows, steps, run), file)
            os._exit(0)
        os.close(write)
        children.append((child, read))
    results = []
    for child, read in children:
        with os.fdopen(read) as file:
            results.append(json.load(file))
        os.waitpid(child, 0)
    return results


def compare(width, rows, steps, port):
    with tempfile.TemporaryDirectory() as run:
        results = measure(width, rows, steps, run, port)

    def total(what, *turns):
        return sum(statistics.median(each[what] for number, each in enumerate(taken) if number % 4 in turns)
                   for taken, _ in results)
    written = sum(each for _, each in results) / (steps / 2)
    plain, captured, noise = total(0, 0, 3), total(0, 1, 2) + written, total(0, 0) / total(0, 3)
    print("torch 1F1B, %d ranks, %.2f ms an op: captured %+.1f %% processor time (target 1; uncaptured steps differ by %.1f %%), "
          "%+.0f us a microbatch and rank, %+.1f %% duration" %
          (RANKS, plain / (RANKS * MICROBATCHES * 2) * 1e3, 100 * (captured / plain - 1), 100 * abs(noise - 1),
           (captured - plain) / (RANKS * MICROBATCHES) * 1e6, 100 * (total(1, 1, 2) / total(1, 0, 3) - 1)), flush=True)


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
for number, (width, rows, share) in enumerate(SIZES):
    compare(width, rows, max(int(steps * share) // 4 * 4, 8), 30100 + os.getpid() % 1000 + number)
