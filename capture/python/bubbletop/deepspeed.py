"""DeepSpeed's pipeline engine: every instruction of its schedules, with the microbatch that it is for.

`bubbletop record` attaches this by itself. Without it: `bubbletop.deepspeed.instrument(engine)`, in each rank, before the
first batch.

PipelineEngine executes a list of instructions on numbered buffers. Which microbatch a buffer holds follows from what fills
it: the n-th loading or receiving of a batch is for microbatch n. ForwardPass and BackwardPass are ops (BackwardPass is BW),
LoadMicroBatch is HOST, each tensor of Send… and Recv… a message with a gate, reductions are collectives. train_batch() is a
step, with the engine's own number.
"""
import functools
import sys

import torch

import bubbletop
from bubbletop import _distributed
from bubbletop._distributed import active, begin_stream, group_of, size_of, wrap

_attached = False
_wrapped = set()  # classes of engines whose instructions have been wrapped
_now = None  # the _Batch whose schedule is executed


def instrument(engine):
    """Captures this engine's batches from now on. Returns the engine."""
    from deepspeed.runtime.pipe import engine as module
    attach(module)
    return engine


def attach(module):
    """Wraps the functions of deepspeed.runtime.pipe.engine, once."""
    global _attached
    if _attached:
        return
    engine = getattr(module, "PipelineEngine", None)
    for name in ("train_batch", "_exec_schedule", "_INSTRUCTION_MAP"):
        if not hasattr(engine, name):
            bubbletop._say("%s: its pipeline engine has no %s that this version of bubbletop knows; it is not captured" %
                           (_version(), name))
            return
    _attached = True
    wrap(engine, "train_batch", _train_batch)
    wrap(engine, "_exec_schedule", _exec_schedule)
    wrap(engine, "_aggregate_total_loss", _total_loss)
    for name, kinds in (("send", (bubbletop.SEND_F, bubbletop.SEND_B)), ("recv", (bubbletop.RECV_F, bubbletop.RECV_B))):
        wrap(module.p2p, name, functools.partial(_message, kinds))
    checkpointing = getattr(module, "ds_checkpointing", None)
    _distributed.attach_recomputation(getattr(checkpointing, "CheckpointFunction", None),
                                      lambda: None if _now is None else _now.place)
    _distributed.attach_optimizers()


def _version():
    return "deepspeed " + getattr(sys.modules.get("deepspeed"), "__version__", "")


# --- batches ------------------------------------------------------------------------------------------------------------


class _Batch:
    """A schedule that is executed: which microbatch each of its buffers holds."""

    def __init__(self, engine, schedule, training):
        self.engine = engine
        self.forward = bubbletop.F if training else bubbletop.OTHER
        self.microbatches = schedule.num_micro_batches
        self.held = {}  # buffer -> microbatch
        self.filled = {}  # what fills a buffer -> how often it has
        self.place = (-1, 0)  # of the instruction that runs
        self.kinds = ()  # of the messages that it sends and receives: of the activations, or of the gradients
        self.queued = []  # places and kinds of messages that are posted later

    def place_of(self, name, buffer=-1, phase=None, **_):
        """(microbatch, chunk) of an instruction."""
        if phase is not None:  # a buffer a microbatch and phase, which is a chunk
            return buffer % self.microbatches, phase
        if name in ("LoadMicroBatch", "RecvActivation"):
            self.held[buffer] = self.filled.get(name, 0)
            self.filled[name] = self.held[buffer] + 1
        return self.held.get(buffer, -1), 0


def _train_batch(train_batch):
    def wrapped(self, *args, **kwargs):
        if not begin_stream():
            return train_batch(self, *args, **kwargs)
        try:
            _describe(self)
            number = self.global_steps
        except Exception as error:
            bubbletop._say("%s: the layout is not captured: %s" % (_version(), error), "deepspeed layout")
            number = getattr(self, "global_steps", 0)
        with bubbletop.step(number):
            return train_batch(self, *args, **kwargs)
    return wrapped


def _describe(engine):
    """Where this rank is, told again when the number of microbatches changes."""
    described = (engine.micro_batches,)
    if getattr(engine, "_bubbletop_described", None) == described:
        return
    first = not hasattr(engine, "_bubbletop_described")
    engine._bubbletop_described = described
    grid, schedule = engine.grid, "TrainSchedule"
    if hasattr(engine, "_train_schedule"):  # older versions have this one alone
        schedule = type(engine._train_schedule()).__name__
    stage, stages = grid.get_pipe_parallel_rank(), grid.get_pipe_parallel_world_size()
    folded = schedule == "DualPipeVSchedule"
    vstages = [stage, 2 * stages - 1 - stage] if folded else [stage]
    name = {"TrainSchedule": "1F1B", "DualPipeVSchedule": "DualPipeV"}.get(schedule, schedule)
    bubbletop.layout(pp_rank=stage, pp_size=stages, dp_rank=grid.get_data_parallel_rank(),
                     dp_size=grid.get_data_parallel_world_size(), tp_rank=grid.get_slice_parallel_rank(),
                     tp_size=grid.get_slice_parallel_world_size(), virtual_stages=len(vstages) * stages, vstages=vstages,
                     microbatches=engine.micro_batches, w_separable=False, zero_stage=engine.zero_optimization_stage(),
                     schedule=name)
    if not first:
        return
    _distributed.compute_on(engine.device)
    bubbletop.meta("framework", "%s, torch %s, %s" % (_version(), torch.__version__, schedule))
    bubbletop.instant("capture: %s pipeline engine on %s, %s: instructions, messages, gates, gradient reduction; %s" %
                      (_version(), torch.device(engine.device).type, schedule, _distributed.clock_name()))


def _exec_schedule(execute):
    def wrapped(self, schedule, *args, **kwargs):
        global _now
        if not active():
            return execute(self, schedule, *args, **kwargs)
        before = _now
        try:
            _wrap_instructions(type(self))
            _now = _Batch(self, schedule, torch.is_grad_enabled())
        except Exception as error:
            _now = None
            bubbletop._say("%s: a batch is not captured: %s" % (_version(), error), "deepspeed batch")
        try:
            return execute(self, schedule, *args, **kwargs)
        finally:
            _now = before
    return wrapped


# --- instructions -------------------------------------------------------------------------------------------------------


def _wrap_instructions(engine):
    """The functions that execute an engine's instructions; a class of its own has a map of its own."""
    if engine in _wrapped:
        return
    _wrapped.add(engine)
    instructions = dict(engine._INSTRUCTION_MAP)
    for instruction, function in instructions.items():
        how = _HOW.get(instruction.__name__)
        if how is not None and not hasattr(function, "_bubbletop"):
            instructions[instruction] = functools.wraps(function)(how(instruction.__name__, function))
            instructions[instruction]._bubbletop = True
    engine._INSTRUCTION_MAP = instructions


def _op(kind):
    def how(name, execute):
        def wrapped(self, buffer_id, **kwargs):
            now = _now
            if now is None or not active():
                return execute(self, buffer_id, **kwargs)
            now.place = now.place_of(name, buffer_id, **kwargs)
            with bubbletop.span(now.forward if kind is None else kind, *now.place, -1, _distributed.stream()):
                return execute(self, buffer_id, **kwargs)
        return wrapped
    return how


def _host(name, execute):
    def wrapped(self, buffer_id, **kwargs):
        now = _now
        if now is None or not active():
            return execute(self, buffer_id, **kwargs)
        with bubbletop.span(bubbletop.HOST, now.place_of(name, buffer_id, **kwargs)[0]):
            return execute(self, buffer_id, **kwargs)
    return wrapped


def _messages(send, receive):
    def how(name, execute):
        def wrapped(self, buffer_id, **kwargs):
            now = _now
            if now is None or not active():
                return execute(self, buffer_id, **kwargs)
            now.place, now.kinds = now.place_of(name, buffer_id, **kwargs), (send, receive)
            posted = len(getattr(self, "_p2p_ops", ()))
            try:
                return execute(self, buffer_id, **kwargs)
            finally:
                now.queued.extend((now.place, now.kinds) for _ in getattr(self, "_p2p_ops", ())[posted:])
                now.kinds = ()
        return wrapped
    return how


def _message(kinds, move):
    """p2p.send and p2p.recv, which wait; what they carry is told by the instruction. Shapes that go ahead of tensors are
    messages as well."""
    def wrapped(tensor, stage, *args, **kwargs):
        now = _now
        kind = next((kind for kind in now.kinds if kind in kinds), None) if now is not None else None
        if kind is None or not active():
            return move(tensor, stage, *args, **kwargs)
        try:
            peer = now.engine.grid.stage_to_global(stage_id=stage)
            message = _distributed.Message(kind, peer, size_of(tensor), group_of(None, bubbletop.WORLD), *now.place)
        except Exception as error:
            bubbletop._say("%s: messages are not captured: %s" % (_version(), error), "deepspeed messages")
            return move(tensor, stage, *args, **kwargs)
        try:
            with message.gate():
                return move(tensor, stage, *args, **kwargs)
        finally:
            message.end()
    return wrapped


def _queued(ops, queued):
    """The messages of a queue, each begun."""
    messages = []
    for op, (place, (send, receive)) in zip(ops, queued):
        kind = send if getattr(op.op, "__name__", op.op) == "isend" else receive
        messages.append(_distributed.Message(kind, op.peer, size_of(op.tensor), group_of(None, bubbletop.WORLD), *place))
    return messages


def _commit(name, execute):
    """Messages that were queued go together, and are waited for together."""
    def wrapped(self, **kwargs):
        now, ops, messages = _now, getattr(self, "_p2p_ops", ()), []
        if now is not None and active():
            queued, now.queued = now.queued, []
            try:
                messages = _queued(ops, queued) if len(queued) == len(ops) else []
            except Exception as error:
                bubbletop._say("%s: messages are not captured: %s" % (_version(), error), "deepspeed messages")
        for message in messages:
            message.gate().__enter__()
        try:
            return execute(self, **kwargs)
        finally:
            for message in messages:
                message.gate().__exit__()
                message.end()
    return wrapped


# --- reductions and the optimizer ---------------------------------------------------------------------------------------


def _reduction(domain, group_and_size):
    def how(name, execute):
        def wrapped(self, **kwargs):
            found = None
            if _now is not None and active():
                try:
                    found = group_and_size(self)
                except Exception as error:
                    bubbletop._say("%s: %s is not captured: %s" % (_version(), name, error), "deepspeed " + name)
            if found is None:
                return execute(self, **kwargs)
            span, gate = _distributed.collective(bubbletop.ALL_REDUCE, found[0], domain, found[1])
            with span, gate:
                return execute(self, **kwargs)
        return wrapped
    return how


def _gradients(engine):
    """The data parallel group and what it reduces, None where there is nothing to do."""
    if engine.grid.get_data_parallel_world_size() == 1:
        return None
    return engine.grid.get_data_parallel_group(), sum(size_of(p) for p in engine.module.parameters() if p.requires_grad)


def _tied_gradients(engine):
    tied = engine.module.get_tied_weights_and_groups()
    return (tied[0][1], sum(size_of(weight) for weight, _ in tied)) if tied else None


def _optimizer(name, execute):
    def wrapped(self, **kwargs):
        _distributed.optimizer_begin(self)
        try:
            return execute(self, **kwargs)
        finally:
            _distributed.optimizer_end(self)
    return wrapped


def _total_loss(aggregate):
    """The last stage tells the others the loss: they wait for it at the end of a batch."""
    def wrapped(self):
        if not active() or self.grid.get_pipe_parallel_world_size() == 1:
            return aggregate(self)
        span, gate = _distributed.collective(bubbletop.BROADCAST, self.grid.get_pipe_parallel_group(), bubbletop.PP)
        with span, gate:
            return aggregate(self)
    return wrapped


_HOW = {
    "ForwardPass": _op(None),
    "BackwardPass": _op(bubbletop.BW),
    "LoadMicroBatch": _host,
    "SendActivation": _messages(bubbletop.SEND_F, bubbletop.RECV_F),
    "RecvActivation": _messages(bubbletop.SEND_F, bubbletop.RECV_F),
    "SendGrad": _messages(bubbletop.SEND_B, bubbletop.RECV_B),
    "RecvGrad": _messages(bubbletop.SEND_B, bubbletop.RECV_B),
    "CommitP2P": _commit,
    "ReduceGrads": _reduction(bubbletop.DP, _gradients),
    "ReduceTiedGrads": _reduction(bubbletop.PP, _tied_gradients),
    "OptimizerStep": _optimizer,
}
