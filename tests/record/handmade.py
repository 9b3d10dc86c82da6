"""A hand-written 1F1B pipeline in plain Python, instrumented with the bubbletop module: each stage is a process, activations
and gradients go through sockets. Arguments: stages, microbatches, steps; `die` as a fourth: the last stage kills itself in
its second step, after a microbatch has been acknowledged."""
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import bubbletop

stages, microbatches, steps = (int(each) for each in sys.argv[1:4])
die = "die" in sys.argv[4:]
SIZE = 256


def launch():
    """Starts a process a stage, as torchrun would, joined by socket pairs."""
    pairs = [socket.socketpair() for _ in range(stages - 1)]
    children = []
    for stage in range(stages):
        left = pairs[stage - 1][1].fileno() if stage > 0 else -1
        right = pairs[stage][0].fileno() if stage < stages - 1 else -1
        env = dict(os.environ, RANK=str(stage), WORLD_SIZE=str(stages), LEFT=str(left), RIGHT=str(right))
        children.append(subprocess.Popen([sys.executable] + sys.argv, env=env,
                                         pass_fds=[fd for fd in (left, right) if fd >= 0]))
    for pair in pairs:
        for end in pair:
            end.close()
    sys.exit(max(child.wait() != 0 for child in children))


class Link:
    """To a neighbour: messages with their spans, and the gate where the stage waits for one."""

    def __init__(self, fd, peer, group):
        self.socket, self.peer, self.group = socket.socket(fileno=fd), peer, group

    def send(self, kind, microbatch):
        with bubbletop.comm(kind, self.peer, SIZE, microbatch, group=self.group):
            self.socket.sendall(struct.pack("i", microbatch).ljust(SIZE))

    def receive(self, kind, microbatch):
        with bubbletop.comm(kind, self.peer, SIZE, microbatch, group=self.group):
            with bubbletop.gate(kind, self.peer, microbatch, group=self.group):
                data = b""
                while len(data) < SIZE:
                    more = self.socket.recv(SIZE - len(data))
                    if not more:
                        sys.exit(4)
                    data += more
        assert struct.unpack("i", data[:4])[0] == microbatch


def train(stage):
    group = bubbletop.group(bubbletop.PP, range(stages))
    bubbletop.layout(pp_rank=stage, pp_size=stages, microbatches=microbatches, w_separable=True, schedule="1f1b")
    left = Link(int(os.environ["LEFT"]), stage - 1, group) if stage > 0 else None
    right = Link(int(os.environ["RIGHT"]), stage + 1, group) if stage < stages - 1 else None
    done = 0

    def forward(m):
        nonlocal done
        if left:
            left.receive(bubbletop.RECV_F, m)
        with bubbletop.span(bubbletop.F, m):
            time.sleep(0.0005)
        done += 1
        if right:
            right.send(bubbletop.SEND_F, m)

    def backward(m):
        nonlocal done
        if right:
            right.receive(bubbletop.RECV_B, m)
        with bubbletop.span(bubbletop.B, m):
            time.sleep(0.0005)
        if left:
            left.send(bubbletop.SEND_B, m)
        begun = bubbletop.now()
        time.sleep(0.0005)
        bubbletop.complete(bubbletop.W, begun, bubbletop.now(), m)
        done += 2

    for step in range(steps):
        with bubbletop.step(step):
            warmup = min(stages - stage - 1, microbatches)
            for m in range(warmup):
                forward(m)
            for m in range(microbatches):
                if m + warmup < microbatches:
                    forward(m + warmup)
                backward(m)
                if die and stage == stages - 1 and step == 1 and m == microbatches // 2:
                    print("done", done, flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
            with bubbletop.span(bubbletop.OPTIMIZER, chunk=-1):
                pass
        bubbletop.counter("step time", 1.5)


if "RANK" in os.environ:
    train(int(os.environ["RANK"]))
else:
    launch()
