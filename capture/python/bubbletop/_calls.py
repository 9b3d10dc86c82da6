"""torch.distributed as a program itself calls it: messages and collectives, and what waits for them.

For a training loop of one's own, which marks its ops by bubbletop.span(). Seen is what Python hands to a process group (all
functions of torch.distributed end in a method of ProcessGroup), and where torch has hooks (2.15) also the all-reduces of
DistributedDataParallel, which C++ begins, on the CPU. Nothing is recorded before there is a stream, and only the latter where
an adapter of a framework knows more of its messages.

What goes to the next rank of its group is a forward message, what goes to the one before a backward one. Microbatches are not
known. The waits stand in for the works that the functions return, and hand on everything else. What the program marks by
comm() and gate() itself is not recorded a second time.
"""
import functools
import threading

import torch.distributed as dist

import bubbletop
from bubbletop import _distributed, _library
from bubbletop._distributed import Message, Waited, group_of, size_of, wrap

_KINDS = {
    bubbletop.ALL_REDUCE: ("allreduce", "allreduce_coalesced", "reduce"),
    bubbletop.ALL_GATHER: ("allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced",
                           "all_gather_single", "all_gather_single_coalesced", "gather", "gather_single"),
    bubbletop.REDUCE_SCATTER: ("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
                               "reduce_scatter_single", "reduce_scatter_single_coalesced"),
    bubbletop.ALL_TO_ALL: ("alltoall", "alltoall_base", "all_to_all_single"),
    bubbletop.BROADCAST: ("broadcast", "scatter"),
}
_HOOK = 0xb0bb1e  # the number of ours among a process group's hooks

_attached = False
_peers = {}  # (id of a group, rank in it, whether sent) -> (the group, global rank, kind)
_domains = {}  # id of a group -> (the group, what it is for)


class _Thread(threading.local):
    inside = False  # a call that is seen: what it calls in turn is a part of it
    coalesced = None  # the messages of a batch that a backend joins


_thread = _Thread()


def attach(c10d):
    """Wraps the methods of ProcessGroup, once; `c10d`: torch.distributed.distributed_c10d."""
    global _attached
    if _attached:
        return
    _attached = True
    base = c10d.ProcessGroup
    wrap(base, "send", functools.partial(_p2p, True))
    wrap(base, "recv", functools.partial(_p2p, False))
    wrap(base, "_start_coalescing", _start_coalescing)
    wrap(base, "_end_coalescing", _end_coalescing)
    for kind, names in _KINDS.items():
        for name in names:
            wrap(base, name, functools.partial(_collective, kind))
    if hasattr(base, "register_pre_hook"):
        wrap(c10d, "_new_process_group_helper", _made)
        for group in list(getattr(c10d._world, "pg_map", ())):
            _hook(group)


def say_domain(group, domain):
    """What a group is for: bubbletop.DP, TP, …"""
    _domains[id(group)] = group, domain


def _domain(group):
    known = _domains.get(id(group))
    if known is None:
        everybody = dist.get_world_size(group) == dist.get_world_size()
        known = _domains[id(group)] = group, bubbletop.WORLD if everybody else 0
    return known[1]


def _failed(error):
    bubbletop._say("a call of torch.distributed is not captured: %s" % error, "torch calls")


# --- messages -----------------------------------------------------------------------------------------------------------


def _peer(group, rank, sent):
    """Global rank and kind of a message to or from a rank of a group."""
    known = _peers.get((id(group), rank, sent))
    if known is None:
        members = _distributed.members_of(group)
        own, count = dist.get_rank(group), len(members)
        ahead = (rank - own) % count
        later = ahead == 1 if count > 2 and ahead in (1, count - 1) else rank > own
        kind = ((bubbletop.SEND_F if later else bubbletop.SEND_B) if sent else
                (bubbletop.RECV_B if later else bubbletop.RECV_F))
        known = _peers[id(group), rank, sent] = group, members[rank], kind
    return known[1:]


def _message(group, tensors, rank, sent):
    try:
        peer, kind = _peer(group, rank, sent)
        if kind in bubbletop._marked:
            return None
        bubbletop._lib.see(bubbletop._session, _library.ADAPTER, _library.P2P)
        _follow(tensors[0])
        return Message(kind, peer, sum(map(size_of, tensors)), group_of(group, bubbletop.PP))
    except Exception as error:
        _failed(error)
        return None


def _follow(tensor):
    """A program of one's own does not say on which device it computes: where its tensors are."""
    if tensor.is_cuda and _distributed.stream() is None:
        _distributed.compute_on(tensor.device)


def _p2p(sent, call):
    def wrapped(self, tensors, rank, *args, **kwargs):
        if bubbletop._session is None or _distributed.adapted or _thread.inside:
            return call(self, tensors, rank, *args, **kwargs)
        message = _message(self, tensors, rank, sent)
        work = call(self, tensors, rank, *args, **kwargs)
        return _pending(work, message)
    return wrapped


def _pending(work, message):
    """What the caller gets for a work: its wait ends the message."""
    if message is None:
        return work
    if _thread.coalesced is not None:
        _thread.coalesced.append(message)
        return work
    if work is None:  # it is done, or on the stream that computes
        message.end()
        return work
    return Waited(work, (message,))


def _start_coalescing(start):
    def wrapped(self, *args, **kwargs):
        _thread.coalesced = []
        return start(self, *args, **kwargs)
    return wrapped


def _end_coalescing(end):
    def wrapped(self, *args, **kwargs):
        messages, _thread.coalesced = _thread.coalesced, None
        work = end(self, *args, **kwargs)
        if not messages:
            return work
        if work is not None:
            return Waited(work, messages)
        works = args[0] if args and isinstance(args[0], list) else []  # as torch 1.13 has it: those that the caller gets
        if len(works) == len(messages):
            works[:] = _distributed.waited(works, messages)
        else:
            for message in messages:
                message.end()
        return work
    return wrapped


# --- collectives --------------------------------------------------------------------------------------------------------


class _OnGpu:
    """A collective on a GPU, for Waited: the plugin of NCCL sees it better, if it is there."""
    __slots__ = ("end", "__enter__", "__exit__")

    def __init__(self, kind, group, size):
        span, gate = _distributed.collective(kind, group, _domain(group), size)
        self.end, self.__enter__, self.__exit__ = span.end, gate.__enter__, gate.__exit__
        span.begin()


def _tensor_of(arguments):
    """A tensor of a call's arguments, and the bytes of those that are its first."""
    first = arguments[0] if arguments else None
    while isinstance(first, (list, tuple)) and first and isinstance(first[0], (list, tuple)):
        first = first[0]
    tensors = first if isinstance(first, (list, tuple)) else (first,)
    return tensors[0], sum(map(size_of, tensors))


def _begin(kind, group, arguments):
    try:
        tensor, size = _tensor_of(arguments)
        _follow(tensor)
        if not tensor.is_cuda:
            return Message(kind, -1, size, group_of(group, _domain(group)), -1, -1)
        return _OnGpu(kind, group, size)
    except Exception as error:
        _failed(error)
        return None


def _collective(kind, call):
    def wrapped(self, *args, **kwargs):
        if bubbletop._session is None or _thread.inside:
            return call(self, *args, **kwargs)
        begun = None if _distributed.adapted or kind in bubbletop._marked else _begin(kind, self, args)
        _thread.inside = True
        try:
            work = call(self, *args, **kwargs)
        finally:
            _thread.inside = False
        return _pending(work, begun)
    return wrapped


# --- what C++ begins ----------------------------------------------------------------------------------------------------


def _made(make):
    def wrapped(*args, **kwargs):
        made = make(*args, **kwargs)
        try:
            _hook(made[0])
        except Exception as error:
            _failed(error)
        return made
    return wrapped


def _hook(group):
    """On the CPU alone: NCCL has a plugin."""
    if not any(device.type == "cpu" for device in getattr(group, "_device_types", ())):
        return
    begun = {}
    group.register_pre_hook(_HOOK, functools.partial(_before, group, begun))
    group.register_post_hook(_HOOK, functools.partial(_after, begun))


def _before(group, begun, call):
    try:
        if bubbletop._session is None or _thread.inside or call.name.name != "ALLREDUCE":
            return
        if bubbletop.ALL_REDUCE in bubbletop._marked:
            return
        tensors = call.input_tensors
        if not tensors[0].is_cuda:
            begun[call.op_id] = Message(bubbletop.ALL_REDUCE, -1, sum(map(size_of, tensors)),
                                        group_of(group, _domain(group)), -1, -1)
    except Exception as error:
        _failed(error)


def _after(begun, call):
    message = begun.pop(call.op_id, None)
    if message is None:
        return
    try:
        call.work.get_future().add_done_callback(lambda _: message.end())
    except Exception as error:
        message.end()
        _failed(error)
