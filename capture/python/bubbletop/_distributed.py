"""What the adapters of frameworks on torch.distributed share: the stream of a rank, its groups, messages and collectives
with what waits for them, optimizers."""
import functools
import os

import torch.distributed as dist

import bubbletop

_sequences = {}  # (group, peer or kind, whether sent) -> how many so far
_groups = {}  # id of a process group -> (the group, so that the id stays its own, and bubbletop's number)
_optimizers_attached = False
_optimizing = None  # the optimizer in whose step we are (one may be made of others), and its span


def wrap(owner, name, how):
    """owner.name = how(original), as far as there is such a thing."""
    original = getattr(owner, name, None)
    if callable(original):
        setattr(owner, name, functools.wraps(original)(how(original)))


def active():
    """Whether a stream is written, without beginning one."""
    return bubbletop._session is not None


def begin_stream():
    """Begins the stream at the first step: only a rank gets here. True if one is written."""
    if bubbletop._settled:
        return active()
    if os.environ.get("BUBBLETOP_RANK") or not dist.is_initialized():
        return bubbletop.enabled()
    return bubbletop.open(rank=dist.get_rank(), world_size=dist.get_world_size())


def group_of(group, domain):
    """bubbletop's number of a process group; None: all ranks."""
    group = group or dist.group.WORLD
    known = _groups.get(id(group))
    if known is None:
        known = _groups[id(group)] = (group, bubbletop.group(domain, dist.get_process_group_ranks(group)))
    return known[1]


def _next(*key):
    number = _sequences.get(key, 0)
    _sequences[key] = number + 1
    return number


def size_of(tensor):
    """Bytes of a tensor."""
    return tensor.numel() * tensor.element_size()


# --- messages -----------------------------------------------------------------------------------------------------------


class Message:
    """A message, numbered and begun: its span is open, and gate() is for what waits for it. `peer`: its global rank;
    `group`: of group_of()."""
    __slots__ = ("_span", "_gate")

    def __init__(self, kind, peer, size, group, microbatch=-1, chunk=0):
        sequence = _next(group, peer, kind in (bubbletop.SEND_F, bubbletop.SEND_B))
        self._span = bubbletop.comm(kind, peer, size, microbatch, chunk, group, sequence)
        self._gate = bubbletop.gate(kind, peer, microbatch, chunk, group, sequence)
        self._span.begin()

    def gate(self):
        return self._gate

    def end(self):
        self._span.end()


class Waited:
    """A work of torch.distributed whose wait is seen. It stands for several messages where the backend joins them."""
    __slots__ = ("_work", "_messages", "__weakref__")

    def __init__(self, work, messages):
        self._work = work
        self._messages = messages

    def wait(self, *args, **kwargs):
        messages, self._messages = self._messages, ()
        if not messages:
            return self._work.wait(*args, **kwargs)
        try:
            with messages[0].gate():
                return self._work.wait(*args, **kwargs)
        finally:
            for message in messages:
                message.end()

    def __getattr__(self, name):
        return getattr(self._work, name)


def waited(works, messages):
    """The works of a batch, each with the messages that its wait ends. Some backends have one work for all."""
    if len(works) == len(messages):
        return [Waited(work, [message]) for work, message in zip(works, messages)]
    return [Waited(work, messages if i == 0 else ()) for i, work in enumerate(works)]


# --- collectives --------------------------------------------------------------------------------------------------------


def collective(kind, group, domain, size=-1):
    """The span of a collective of a process group, and the gate of what waits for it; neither is begun."""
    number = group_of(group, domain)
    sequence = _next(number, kind, None)
    return (bubbletop.comm(kind, bytes=size, chunk=-1, group=number, sequence=sequence),
            bubbletop.gate(kind, chunk=-1, group=number, sequence=sequence))


# --- optimizers ---------------------------------------------------------------------------------------------------------


def optimizer_begin(optimizer):
    """The step of an optimizer begins, or of one that is a part of it."""
    global _optimizing
    if _optimizing is not None and _optimizing[0] == id(optimizer):
        optimizer_end(optimizer)  # an exception has left it
    if _optimizing is None and active():
        _optimizing = id(optimizer), bubbletop.begin(bubbletop.OPTIMIZER, -1, -1)


def optimizer_end(optimizer):
    global _optimizing
    if _optimizing is not None and _optimizing[0] == id(optimizer):
        bubbletop.end(_optimizing[1])
        _optimizing = None


def attach_optimizers():
    """Every torch optimizer's step, once a stream is written: it begins with a step of the pipeline."""
    global _optimizers_attached
    if _optimizers_attached:
        return
    try:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    except ImportError:
        return
    _optimizers_attached = True
    register_optimizer_step_pre_hook(lambda optimizer, *_: optimizer_begin(optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: optimizer_end(optimizer))
