"""What the adapters of frameworks on torch.distributed share: the stream of a rank, the clock of its device, its groups,
messages and collectives with what waits for them, optimizers.

On a GPU (compute_on) all of it is timed on the stream that computes. A message is then on its way from where that stream was
when it was posted until the stream has waited for it: its start is true, its end an upper bound (flag "grouped"), and the
gate round the wait has the time when it was there, if the stream was idle by then.
"""
import functools
import os

import torch
import torch.distributed as dist

import bubbletop
from bubbletop import _library

_sequences = {}  # (group, peer or kind, whether sent) -> a list with how many there were so far
_groups = {}  # id of a process group -> (the group, so that the id stays its own, and bubbletop's number)
_announced = None  # the session that knows that an adapter is there
adapted = False  # an adapter sees what this process sends, and knows more of it than torch.distributed's calls tell
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
    """Begins the stream at the first step: only a rank gets here. True if one is written. From then on nobody else in the
    process (NVTX ranges, NCCL's plugin) records ops and messages."""
    global _announced, adapted
    if not bubbletop._settled:
        if os.environ.get("BUBBLETOP_RANK") or not dist.is_initialized():
            bubbletop.enabled()
        else:
            bubbletop.open(rank=dist.get_rank(), world_size=dist.get_world_size())
    session = bubbletop._session
    if session is not None and session is not _announced:
        _announced, adapted = session, True
        _groups.clear()  # their numbers are those of a session
        _idle.clear()
        for sight in (_library.OPS, _library.P2P):
            bubbletop._lib.see(session, _library.ADAPTER, sight)
    return session is not None


# --- the clock ----------------------------------------------------------------------------------------------------------


def _on_host():
    return None


stream = _on_host  # the number of the CUDA stream that computes now, for `stream=` of spans; None: the host computes


def compute_on(device):
    """The device that the model is on, at any time."""
    global stream
    device = torch.device(device)
    stream = _on_host if device.type != "cuda" else _stream_getter(device)


def _stream_getter(device):
    index = device.index if device.index is not None else torch.cuda.current_device()
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None:
        return functools.partial(raw, index)
    return lambda: torch.cuda.current_stream(index).cuda_stream


def clock_name():
    """For what is said of a capture."""
    return "host times" if stream is _on_host else "times of the GPU"


# --- groups -------------------------------------------------------------------------------------------------------------


def members_of(group):
    """The global ranks of a process group, in its order."""
    listed = getattr(dist, "get_process_group_ranks", None)
    if listed is not None:
        return listed(group)
    return [dist.get_global_rank(group, rank) for rank in range(dist.get_world_size(group))]


def group_of(group, domain):
    """bubbletop's number of a process group; None: all ranks."""
    group = group or dist.group.WORLD
    known = _groups.get(id(group))
    if known is None:
        known = _groups[id(group)] = (group, bubbletop.group(domain, members_of(group)))
    return known[1]


def _count(*key):
    """A list of one number: how many there were so far."""
    found = _sequences.get(key)
    if found is None:
        found = _sequences[key] = [0]
    return found


def size_of(tensor):
    """Bytes of a tensor."""
    return tensor.numel() * tensor.element_size()


# --- messages -----------------------------------------------------------------------------------------------------------

_idle = {}  # (kind, peer, group, microbatch, chunk) -> messages of that kind that are not under way: to be used again


class Message:
    """A message, numbered and begun: its span is open, and gate() is for what waits for it. `peer`: its global rank;
    `group`: of group_of(); kinds of collectives, without a peer, are fine as well. Not to be used after end()."""
    __slots__ = ("_key", "_kind", "_where", "_count", "_comm", "_comm_at", "_on", "_on_at", "_span", "_held", "_gpu")

    def __new__(cls, kind, peer, size, group, microbatch=-1, chunk=0):
        key = (kind, peer, group, microbatch, chunk)
        idle = _idle.get(key)
        self = idle.pop() if idle else cls._make(key)
        count = self._count
        self._comm.bytes = size
        self._comm.sequence = self._on.sequence = count[0]
        count[0] += 1
        on = stream()
        if on is None:
            self._gpu = False
            self._span = found = bubbletop._buffer()
            bubbletop._comm_begin(bubbletop._session, found, kind, self._where, self._comm_at)
        else:
            self._gpu = True
            self._span = found = bubbletop._gpu_buffer()
            bubbletop._gpu_comm_begin(bubbletop._session, found, kind, self._where, self._comm_at,
                                      bubbletop._pointer(on))
        return self

    @classmethod
    def _make(cls, key):
        kind, peer, group, microbatch, chunk = key
        self = object.__new__(cls)
        self._key, self._kind, self._held = key, kind, None
        self._where = bubbletop._at(microbatch, chunk, -1)
        self._count = _count(group, kind if peer < 0 else peer, kind in (bubbletop.SEND_F, bubbletop.SEND_B))
        self._comm = _library.Comm(bubbletop._COMM_SIZE, peer, group, -1, -1)
        self._on = _library.GateOn(bubbletop._GATE_SIZE, kind, peer, group, -1, 1)
        self._comm_at, self._on_at = bubbletop._byref(self._comm), bubbletop._byref(self._on)
        return self

    def gate(self):
        """For a `with` round what waits."""
        return self

    def __enter__(self):
        if self._gpu:
            self._held = found = bubbletop._gpu_buffer()
            bubbletop._gpu_gate_begin(bubbletop._session, found, self._where, self._on_at, bubbletop._pointer(stream()))
        else:
            self._held = found = bubbletop._buffer()
            bubbletop._gate_begin(bubbletop._session, found, self._where, self._on_at)
        return self

    def __exit__(self, *_):
        found, self._held = self._held, None
        if self._gpu:
            bubbletop._gpu_end(found)
            bubbletop._gpu_spans.append(found)
        else:
            bubbletop._end(found)
            bubbletop._spans.append(found)

    def end(self):
        found = self._span
        if found is None:
            return
        self._span = None
        if self._gpu:
            bubbletop._gpu_end_after(found, bubbletop._pointer(stream()))
            bubbletop._gpu_spans.append(found)
        else:
            bubbletop._end(found)
            bubbletop._spans.append(found)
        idle = _idle.get(self._key)
        if idle is None:
            if len(_idle) > 65536:
                _idle.clear()
            idle = _idle[self._key] = []
        idle.append(self)


class Waited:
    """A work of torch.distributed whose wait is seen. It stands for several messages where the backend joins them."""
    __slots__ = ("_work", "_messages", "__weakref__")

    def __init__(self, work, messages):
        self._work = work
        self._messages = messages

    def wait(self, *args, **kwargs):
        messages = self._messages
        if not messages:
            return self._work.wait(*args, **kwargs)
        self._messages = ()
        first = messages[0]
        first.__enter__()
        try:
            return self._work.wait(*args, **kwargs)
        finally:
            first.__exit__()
            for message in messages:
                message.end()

    def is_completed(self):
        done = self._work.is_completed()
        if done:
            self._end()
        return done

    def _end(self):
        messages, self._messages = self._messages, ()
        for message in messages:
            message.end()

    def __del__(self):  # nobody will wait any more
        try:
            self._end()
        except Exception:  # the interpreter is going down
            pass

    def __getattr__(self, name):
        return getattr(self._work, name)

    @property
    def __class__(self):  # for isinstance()
        return self._work.__class__


def waited(works, messages):
    """The works of a batch, each with the messages that its wait ends. Some backends have one work for all."""
    if len(works) == len(messages) == 1:
        return [Waited(works[0], messages)]
    if len(works) == len(messages):
        return [Waited(work, (message,)) for work, message in zip(works, messages)]
    return [Waited(work, messages if i == 0 else ()) for i, work in enumerate(works)]


# --- collectives --------------------------------------------------------------------------------------------------------


class _Collective(bubbletop.comm):
    """A collective that the caller begins and ends. On a GPU, NCCL's plugin sees it better, if it is there."""
    __slots__ = ()

    def __enter__(self):
        on = stream()
        if on is None:
            return bubbletop.comm.__enter__(self)
        self._span = None
        if bubbletop._lib.seen_by(bubbletop._session, _library.COLLECTIVES) != _library.PLUGIN:
            self._stream = bubbletop._pointer(on)
            self._span = bubbletop._gpu_buffer()
            bubbletop._lib.cuda_launch_begin(bubbletop._session, self._span, self._stream)
        return self

    def __exit__(self, *_):
        found = self._span
        if self._stream is None or found is None:
            return bubbletop.comm.__exit__(self)
        self._span = None
        # The first collective of a communicator makes it, and brings the plugin along.
        if bubbletop._lib.see(bubbletop._session, _library.ADAPTER, _library.COLLECTIVES) == _library.ADAPTER:
            bubbletop._lib.cuda_add(found, self._kind, self._where, self._comm)
        bubbletop._gpu_end_after(found, bubbletop._pointer(stream()))
        bubbletop._gpu_spans.append(found)


class _Gate(bubbletop.gate):
    """A gate on the clock of the moment."""
    __slots__ = ()

    def __enter__(self):
        on = stream()
        self._stream = None if on is None else bubbletop._pointer(on)
        return bubbletop.gate.__enter__(self)


def collective(kind, group, domain, size=-1):
    """The span of a collective of a process group, and the gate of what waits for it; neither is begun."""
    number = group_of(group, domain)
    count = _count(number, kind, False)
    sequence = count[0]
    count[0] += 1
    return (_Collective(kind, bytes=size, chunk=-1, group=number, sequence=sequence),
            _Gate(kind, chunk=-1, group=number, sequence=sequence))


# --- optimizers ---------------------------------------------------------------------------------------------------------


def optimizer_begin(optimizer):
    """The step of an optimizer begins, or of one that is a part of it."""
    global _optimizing
    if _optimizing is not None and _optimizing[0] == id(optimizer):
        optimizer_end(optimizer)  # an exception has left it
    if _optimizing is None and active():
        _optimizing = id(optimizer), bubbletop.begin(bubbletop.OPTIMIZER, -1, -1, stream=stream())


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


# --- recomputation ------------------------------------------------------------------------------------------------------


def attach_recomputation(function, place):
    """`function`: an autograd function that takes the checkpointed one first, as those of Megatron-core and DeepSpeed do.
    `place()`: the (microbatch, chunk) of the op that runs, None outside of one."""
    original = getattr(function, "forward", None)
    if original is None:
        return

    @functools.wraps(original)
    def forward(ctx, checkpointed, *args, **kwargs):
        again = recomputation(checkpointed, place)
        calls = iter((checkpointed,))  # the first one is the forward itself
        return original(ctx, lambda *a, **k: next(calls, again)(*a, **k), *args, **kwargs)
    function.forward = staticmethod(forward)


def recomputation(function, place):
    """A function that computes activations again."""
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        at = place() if active() else None
        if at is None:
            return function(*args, **kwargs)
        with bubbletop.span(bubbletop.RECOMPUTE, *at, -1, stream()):
            return function(*args, **kwargs)
    return wrapped
