"""A pipeline written by hand with PyTorch: two stages or more, 1F1B, activations and gradients by torch.distributed (gloo).
The ops are marked with bubbletop's context managers; the messages as well (`marks`), or not at all (`calls`).

Arguments: marks or calls, stages, microbatches, steps. Prints each rank's loss, which must not depend on being captured."""
import os
import sys

import torch
import torch.distributed as dist

import bubbletop as bt

WIDTH, ROWS = 16, 4


def launch(stages):
    """A process a stage, as torchrun would."""
    port = str(29900 + os.getpid() % 1000)
    children = []
    for rank in range(stages):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(stages), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                              GLOO_SOCKET_IFNAME="lo")
            return rank
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    sys.exit(1 if failed else 0)


class Marked:
    """Messages with a span each, and a gate where the stage waits."""

    def __init__(self):
        self.under_way = []

    def send(self, kind, tensor, peer, microbatch):
        span = bt.comm(kind, peer=peer, bytes=tensor.numel() * 4, microbatch=microbatch).begin()
        self.under_way.append((dist.isend(tensor, peer), span, tensor))

    def receive(self, kind, peer, microbatch):
        tensor = torch.empty(ROWS, WIDTH)
        with bt.comm(kind, peer=peer, bytes=tensor.numel() * 4, microbatch=microbatch), bt.gate(kind, peer, microbatch):
            dist.recv(tensor, peer)
        return tensor

    def finish(self):
        for work, span, _ in self.under_way:
            work.wait()
            span.end()
        self.under_way = []


class Called:
    """Messages as people write them: each way that torch.distributed has."""

    def __init__(self):
        self.under_way = []

    def send(self, kind, tensor, peer, microbatch):
        if microbatch % 2:
            works = [dist.isend(tensor, peer)]
        else:
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer)])
        self.under_way += [(work, tensor) for work in works]

    def receive(self, kind, peer, microbatch):
        tensor = torch.empty(ROWS, WIDTH)
        if microbatch % 2:
            dist.recv(tensor, peer)
        else:
            assert isinstance(dist.irecv(tensor, peer).wait(), (bool, type(None)))
        return tensor

    def finish(self):
        for work, _ in self.under_way:
            work.wait()
            assert work.is_completed() and isinstance(work, dist.Work if hasattr(dist, "Work") else object)
        self.under_way = []


def train(stage, how, stages, microbatches, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bt.layout(pp_rank=stage, pp_size=stages, microbatches=microbatches, schedule="1f1b")
    torch.manual_seed(stage)
    layer = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    torch.manual_seed(99)
    data = torch.randn(microbatches, ROWS, WIDTH)
    first, last = stage == 0, stage == stages - 1
    messages = Marked() if how == "marks" else Called()
    kept = {}

    def forward(m):
        x = data[m] if first else messages.receive(bt.RECV_F, stage - 1, m)
        with bt.span(bt.F, m):
            x.requires_grad_(not first)
            y = layer(x)
            if last:
                y = y.square().mean() / microbatches
        if not last:
            messages.send(bt.SEND_F, y.detach(), stage + 1, m)
        kept[m] = x, y

    def backward(m):
        x, y = kept.pop(m)
        gradient = None if last else messages.receive(bt.RECV_B, stage + 1, m)
        with bt.span(bt.BW, m):
            y.backward(gradient)
        if not first:
            messages.send(bt.SEND_B, x.grad, stage - 1, m)
        return float(y.detach()) if last else 0.0

    for step in range(steps):
        with bt.step(step):
            optimizer.zero_grad()
            warm_up = min(stages - stage - 1, microbatches)
            loss = torch.zeros(1)
            for m in range(warm_up):
                forward(m)
            for m in range(microbatches):
                if m + warm_up < microbatches:
                    forward(m + warm_up)
                loss += backward(m)
            messages.finish()
            dist.all_reduce(loss)
            with bt.span(bt.OPTIMIZER, chunk=-1):
                optimizer.step()
        sys.stdout.write("rank %d step %d loss %.9f\n" % (stage, step, float(loss)))
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


how, sizes = sys.argv[1], [int(each) for each in sys.argv[2:]]
train(launch(sizes[0]), how, *sizes)
