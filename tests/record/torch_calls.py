"""Every way in which a program sends by torch.distributed (gloo), two ranks: prints what each call gives, or the exception that
it raises, which must not depend on being captured."""
import os
import sys
import warnings

import torch
import torch.distributed as dist

import bubbletop

warnings.simplefilter("ignore")
RANKS = 2


def launch():
    port, children = str(29900 + os.getpid() % 1000), []
    for rank in range(RANKS):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                              GLOO_SOCKET_IFNAME="lo")
            return rank
        children.append(child)
    sys.exit(max(os.waitpid(child, 0)[1] != 0 for child in children))


def calls(rank):
    """(name, call); a call returns what is shown."""
    def own():
        return torch.arange(4.0) + 10 * rank

    def empty(n=4):
        return torch.zeros(n)

    def done(tensor, work=None):
        if work is not None:
            work.wait()
        return tensor

    def future(tensor):
        work = dist.all_reduce(tensor, async_op=True)
        return work.get_future().then(lambda each: each.value()[0] * 2).wait()

    def polled(tensor):
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            pass
        assert isinstance(work, torch._C._distributed_c10d.Work)
        return tensor

    def forgotten(tensor):
        dist.all_reduce(tensor, async_op=True)
        dist.barrier()
        return None

    def both_ways(tensor):
        into = empty()
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, 1 - rank),
                                            dist.P2POp(dist.irecv, into, 1 - rank)]):
            work.wait()
        return into

    def listed(call, *arguments):
        made = [empty(), empty()]
        call(made, *arguments)
        return made

    def anybody():
        if rank == 0:
            return dist.send(own(), 1)
        into = empty()
        return dist.recv(into), into

    def objects():
        made = [None, None]
        dist.all_gather_object(made, {"rank": rank})
        shared = [rank]
        dist.broadcast_object_list(shared, 1)
        return made, shared

    def split(tensor):
        group = dist.new_group([1, 0] if hasattr(dist, "get_process_group_ranks") else [0, 1])
        return done(tensor, dist.all_reduce(tensor, group=group, async_op=True)), dist.get_world_size(group)

    return [
        ("all_reduce", lambda: done(own(), None) if dist.all_reduce(own()) else None),
        ("all_reduce_async", lambda: (lambda t: done(t, dist.all_reduce(t, async_op=True)))(own())),
        ("all_reduce_future", lambda: future(own())), ("all_reduce_polled", lambda: polled(own())),
        ("all_reduce_forgotten", lambda: forgotten(own())), ("batch", lambda: both_ways(own())),
        ("recv_any", anybody), ("objects", objects), ("new_group", lambda: split(own())),
        ("broadcast", lambda: (lambda t: (dist.broadcast(t, 1), t))(own())),
        ("reduce", lambda: (lambda t: (dist.reduce(t, 0), t if rank == 0 else None))(own())),
        ("all_gather", lambda: listed(dist.all_gather, own())),
        ("gather", lambda: dist.gather(own(), [empty(), empty()] if rank == 0 else None)),
        ("scatter", lambda: (lambda t: (dist.scatter(t, [own(), own()] if rank == 0 else None), t))(empty())),
        ("reduce_scatter", lambda: (lambda t: (dist.reduce_scatter(t, [own(), own()]), t))(empty())),
        ("all_to_all_single", lambda: (lambda t: (dist.all_to_all_single(t, own()), t))(empty())),
        ("bad_tensor", lambda: dist.all_reduce("nothing")),
        ("bad_list", lambda: dist.all_gather([], own())), ("barrier", dist.barrier),
        ("all_gather_into_tensor", lambda: (lambda t: (dist.all_gather_into_tensor(t, own()), t))(empty(8))),
        ("ddp", lambda: ddp(rank)),
    ]


def ddp(rank):
    torch.manual_seed(3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4) * (rank + 1)).sum().backward()
    return [p.grad for p in model.parameters()]


rank = launch()
torch.set_num_threads(1)
dist.init_process_group("gloo")
with bubbletop.step(0):
    for name, call in calls(rank):
        try:
            made = call()
        except Exception as error:
            made = type(error).__name__
        sys.stdout.write("rank %d %s %s\n" % (rank, name, str(made).replace("\n", " ")))
        sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
