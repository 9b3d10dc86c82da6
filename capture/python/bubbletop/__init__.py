"""bubbletop: what this rank of a pipeline-parallel training run does, as a stream for `bubbletop RUN`.

    import bubbletop

    bubbletop.layout(pp_rank=stage, pp_size=stages, microbatches=m)
    with bubbletop.step(n):
        with bubbletop.span(bubbletop.F, microbatch=3):
            ...
        with bubbletop.comm(bubbletop.SEND_F, peer=rank + 1, bytes=size, microbatch=3):
            ...

Nothing here raises into the training. A stream begins with the first call in a process, if BUBBLETOP_DIR says where
(`bubbletop record -o RUN -- COMMAND` does); otherwise every call does nothing. Processes that call nothing write nothing,
and a forked child is silent until it calls open(). Times are the host's (CLOCK_MONOTONIC): on a GPU, when work was launched.
With stream=torch.cuda.current_stream() (or its number) a span has the times of that stream instead.
"""
import ctypes as _ctypes
import os as _os
import sys as _sys
import threading as _threading
import time as _time

from . import _library

__version__ = "0.1.0"

# Kinds. B is the input-gradient backward (PyTorch's I), BW the fused one (PyTorch's B).
F, B, W, BW, FB, RECOMPUTE, OPTIMIZER, OTHER = range(1, 9)
SEND_F, RECV_F, SEND_B, RECV_B, SEND, RECV = range(16, 22)
ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST = range(24, 29)
HOST = 40
# Domains of groups.
DP, TP, CP, EP, PP, WORLD = range(1, 7)

_byref = _ctypes.byref
_lock = _threading.RLock()
_lib = None
_session = None  # a c_void_p while a stream is written
_settled = False  # whether the first event has decided if there is a session
_complained = set()
_places = {}
_marked = set()  # the kinds of messages that the program itself marks: nobody else should
_spans, _gpu_spans = [], []  # buffers of ended spans, to be used again


def _say(text, about=None):
    """One line on stderr, once in a process for each thing that it is about."""
    if (about or text) in _complained:
        return
    _complained.add(about or text)
    try:
        _sys.stderr.write("bubbletop: %s\n" % text)
        _sys.stderr.flush()
    except Exception:
        pass


def _nothing(*_):
    return 0


def _use(session):
    """Binds the functions of the hot path, so that they need not ask whether there is a session."""
    global _session, _begin, _comm_begin, _gate_begin, _end, _settled
    global _gpu_begin, _gpu_comm_begin, _gpu_gate_begin, _gpu_end, _gpu_end_after
    _settled = True
    _session = session
    _begin, _comm_begin, _gate_begin = (_nothing, _nothing, _nothing) if session is None else (
        _lib.begin, _lib.comm_begin, _lib.gate_begin)
    _end = _nothing if session is None else _lib.end
    _gpu_begin, _gpu_comm_begin, _gpu_gate_begin = (_nothing, _nothing, _nothing) if session is None else (
        _lib.cuda_begin, _lib.cuda_comm_begin, _lib.cuda_gate_begin)
    _gpu_end, _gpu_end_after = (_nothing, _nothing) if session is None else (_lib.cuda_end, _lib.cuda_end_after)


def _is_helper():
    """A worker of a data loader: it has the rank's environment, but is not the rank."""
    worker = _sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def _settle():
    """The first event: opens a stream if one is wanted. True if there is a session."""
    if not _settled:
        with _lock:
            if not _settled:
                if _is_helper():
                    _use(None)
                else:
                    open()
    return _session is not None


def _first(call):
    """What stands in the place of a function of the hot path until the first event."""
    def do(*arguments):
        if _settle():
            return getattr(_lib, call)(_session, *arguments[1:])
        return 0
    return do


_begin, _comm_begin, _gate_begin = _first("begin"), _first("comm_begin"), _first("gate_begin")
_gpu_begin, _gpu_comm_begin, _gpu_gate_begin = _first("cuda_begin"), _first("cuda_comm_begin"), _first("cuda_gate_begin")
_end = _gpu_end = _gpu_end_after = _nothing


def _text(value):
    return None if value is None else _os.fsencode(str(value))


def open(directory=None, rank=None, world_size=None, run_id=None, steps=None, every=0, **sizes):
    """Begins the stream of this process, which the first event does as well. What is not given comes from BUBBLETOP_* and
    the launcher (capture/bubbletop.h). True if a stream is written now."""
    global _lib
    with _lock:
        if _session is not None:
            return True
        if directory is None and not _os.environ.get("BUBBLETOP_DIR"):
            _use(None)
            return False
        try:
            if _lib is None:
                _lib = _library.Library()
            config = _library.Config(size=_ctypes.sizeof(_library.Config), directory=_text(directory),
                                     rank=-1 if rank is None else rank,
                                     world_size=-1 if world_size is None else world_size, run_id=_text(run_id),
                                     steps=_text(steps), every=every, **sizes)
            session = _ctypes.c_void_p()
            status = _lib.open(_byref(config), _byref(session))
            if status < 0:
                _say("no capture: %s" % _lib.last_error().decode(errors="replace"))
        except Exception as error:
            _say("no capture: %s" % error)
            _use(None)
            return False
        _use(session if session.value else None)
        if _session is not None:
            _end_with_multiprocessing()
        return _session is not None


def _end_with_multiprocessing():
    """Children of multiprocessing leave by os._exit, past the library's exit handler."""
    util = _sys.modules.get("multiprocessing.util")
    process = _sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, close, exitpriority=0)


def close(limit_ms=0):
    """Ends the stream. Not needed: the end of the process does it. Events afterwards do nothing until open() is called."""
    with _lock:
        session = _session
        _use(None)
        if session is not None and _lib.close(session, limit_ms) < 0:
            _say("the end of the capture could not be written in time")


def flush(limit_ms=1000):
    """True if all that ended before is in the file."""
    return _session is not None and _lib.flush(_session, limit_ms) == 0


def _after_fork():
    global _lock
    _lock = _threading.RLock()
    if _session is not None:
        _use(None)


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)


def enabled():
    """Whether a stream is written; begins it if one is wanted."""
    return _settle()


def _at(microbatch, chunk, lane):
    """The place of an op, made once."""
    key = (microbatch, chunk, lane)
    where = _places.get(key)
    if where is None:
        if len(_places) > 65536:
            _places.clear()
        where = _places[key] = _library.Where(int(microbatch), int(chunk), int(lane), -1, 0, 0)
    return where


def _buffer():
    try:
        return _spans.pop()
    except IndexError:
        return _byref(_library.Span())


def _gpu_buffer():
    try:
        return _gpu_spans.pop()
    except IndexError:
        return _byref(_library.CudaSpan())


_pointer = _ctypes.c_void_p  # of a CUDA stream


def _stream(given):
    """The pointer of a CUDA stream of torch (or whatever has its number as cuda_stream), or of the number."""
    try:
        return _pointer(getattr(given, "cuda_stream", given))
    except Exception as error:
        _say("stream: %s" % error)
        return None


class span:
    """An op: `with span(F, microbatch, chunk):`, or begin() and end() on it. `stream`: that of the GPU on which it runs,
    whose times it then has."""
    __slots__ = ("_kind", "_where", "_span", "_stream")

    def __init__(self, kind, microbatch=-1, chunk=0, lane=-1, stream=None):
        self._kind = kind
        self._stream = None if stream is None else _stream(stream)
        try:
            self._where = _places.get((microbatch, chunk, lane)) or _at(microbatch, chunk, lane)
        except Exception as error:
            self._where = _at(-1, -1, -1)
            _say("span: %s" % error)

    def __enter__(self):
        try:
            if self._stream is None:
                self._span = found = _spans.pop() if _spans else _buffer()
                _begin(_session, found, self._kind, self._where)
            else:
                self._span = found = _gpu_buffer()
                _gpu_begin(_session, found, self._kind, self._where, self._stream)
        except Exception as error:
            self._span = None
            _say("span: %s" % error)
        return self

    def __exit__(self, *_):
        found = self._span
        if found is not None:
            self._span = None
            if self._stream is None:
                _end(found)
                _spans.append(found)
            else:
                _gpu_end(found)
                _gpu_spans.append(found)

    def begin(self):
        return self.__enter__()

    def end(self):
        self.__exit__()


class overlapped(span):
    """A forward and a backward at the same time (FB)."""
    __slots__ = ()

    def __init__(self, microbatch, chunk, microbatch_b, chunk_b, lane=-1, stream=None):
        span.__init__(self, FB, stream=stream)
        try:
            self._where = _library.Where(microbatch, chunk, lane, microbatch_b, chunk_b, 0)
        except Exception as error:
            _say("overlapped: %s" % error)


class comm(span):
    """A message (peer: its global rank) or a collective (group: of group()). `sequence` counts the messages of a group,
    peer and direction from 0, -1: as they come in the stream."""
    __slots__ = ("_comm",)

    def __init__(self, kind, peer=-1, bytes=-1, microbatch=-1, chunk=0, group=0, sequence=-1, lane=-1, stream=None):
        span.__init__(self, kind, microbatch, chunk, lane, stream)
        try:
            if type(self) is comm:
                _marked.add(kind)
            self._comm = _byref(_library.Comm(_COMM_SIZE, peer, group, bytes, sequence))
        except Exception as error:
            self._comm = None
            _say("comm: %s" % error)

    def __enter__(self):
        try:
            if self._stream is None:
                self._span = _buffer()
                _comm_begin(_session, self._span, self._kind, self._where, self._comm)
            else:
                self._span = _gpu_buffer()
                _gpu_comm_begin(_session, self._span, self._kind, self._where, self._comm, self._stream)
        except Exception as error:
            self._span = None
            _say("comm: %s" % error)
        return self


class gate(span):
    """The compute of this rank is blocked until a message (or `count` of them from `sequence` on) is there or gone."""
    __slots__ = ("_on",)

    def __init__(self, kind, peer=-1, microbatch=-1, chunk=0, group=0, sequence=-1, count=1, lane=-1, stream=None):
        span.__init__(self, kind, microbatch, chunk, lane, stream)
        try:
            if type(self) is gate:
                _marked.add(kind)
            self._on = _byref(_library.GateOn(_GATE_SIZE, kind, peer, group, sequence, count))
        except Exception as error:
            self._on = None
            _say("gate: %s" % error)

    def __enter__(self):
        try:
            if self._stream is None:
                self._span = _buffer()
                _gate_begin(_session, self._span, self._where, self._on)
            else:
                self._span = _gpu_buffer()
                _gpu_gate_begin(_session, self._span, self._where, self._on, self._stream)
        except Exception as error:
            self._span = None
            _say("gate: %s" % error)
        return self


_COMM_SIZE = _ctypes.sizeof(_library.Comm)
_GATE_SIZE = _ctypes.sizeof(_library.GateOn)


def begin(kind, microbatch=-1, chunk=0, lane=-1, stream=None):
    """Begins an op now; the result goes to end()."""
    return span(kind, microbatch, chunk, lane, stream).__enter__()


def end(begun):
    begun.__exit__()


now = _time.monotonic_ns


def complete(kind, start, end, microbatch=-1, chunk=0, lane=-1):
    """An op whose times the caller took with now()."""
    _call("complete", kind, _at(microbatch, chunk, lane), start, end)


def _call(name, *arguments):
    try:
        if _session is not None or _settle():
            return getattr(_lib, name)(_session, *arguments)
    except Exception as error:
        _say("%s: %s" % (name, error))
    return 0


def step_begin(number):
    _call("step_begin", number)


def step_end(number):
    _call("step_end", number)


class step:
    """A training iteration: `with step(n):`."""
    __slots__ = ("_number",)

    def __init__(self, number):
        self._number = number

    def __enter__(self):
        _call("step_begin", self._number)
        return self

    def __exit__(self, *_):
        _call("step_end", self._number)


def layout(vstages=None, zero_stage=-1, w_separable=-1, schedule=None, **sizes):
    """Where this rank is: pp_rank, pp_size and the like of tp, dp, cp, ep; chunks, microbatches, virtual_stages; vstages:
    the virtual stage of each chunk of this rank. At any time, in any parts; the last word holds."""
    try:
        filled = _library.Layout(size=_ctypes.sizeof(_library.Layout), zero_stage=zero_stage,
                                 w_separable=int(w_separable), schedule=_text(schedule))
        for name in _library.LAYOUT_SIZES:
            setattr(filled, name, sizes.pop(name, -1))
        if sizes:
            raise TypeError("no such thing as %s" % ", ".join(sorted(sizes)))
        if vstages is not None:
            vstages = list(vstages)
            filled.chunks = len(vstages)
            filled.vstages = (_ctypes.c_int32 * len(vstages))(*vstages)
    except Exception as error:
        _say("layout: %s" % error)
        return
    _call("layout_set", _byref(filled))


def meta(key, value):
    """Anything else worth showing, as a key and a text."""
    _call("meta", _text(key), _text(value))


def group(domain, ranks):
    """A communicator: its global ranks in its order. The number that comm() and gate() take, 0 without a stream."""
    try:
        ranks = list(ranks)
        members = (_ctypes.c_int32 * len(ranks))(*ranks)
    except Exception as error:
        _say("group: %s" % error)
        return 0
    return _call("group", domain, members, len(ranks))


def instant(name):
    _call("instant", _text(name))


def counter(name, value):
    _call("counter", _text(name), value)


def stats():
    """What was recorded, as a dict; empty without a stream."""
    filled = _library.Stats(size=_ctypes.sizeof(_library.Stats))
    if _session is None or _call("get_stats", _byref(filled)) != 0:
        return {}
    out = {name: getattr(filled, name) for name, *_ in _library.Stats._fields_[1:]}
    out["path"] = _os.fsdecode(out["path"])
    return out
