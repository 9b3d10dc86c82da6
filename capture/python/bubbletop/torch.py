"""torch.distributed.pipelining: every action of every schedule class, messages and what waits for them, FSDP's collectives.

`bubbletop record` attaches this by itself. Without it: `bubbletop.torch.instrument(schedule)`, in each rank. For a loop of
one's own `bubbletop.torch.instrument()`: then messages and collectives of torch.distributed are seen (bubbletop._calls), and
the loop marks its ops by bubbletop.span().

Forward and backward are taken at the stage (its methods are what all schedules call), messages where the schedules hand
them to torch.distributed, steps at schedule.step(). Stages on the CPU have the host's times, on a GPU those of the stream that
computes. A message's span lasts from its posting until its wait has returned, so a receive's end is an upper bound; the
gate says how long the rank was blocked.
"""
import functools

import torch
import torch.distributed as dist

import bubbletop
from bubbletop import _calls, _distributed
from bubbletop._distributed import active, begin_stream, group_of, size_of, wrap

_attached = False
_steps = 0  # schedule.step() calls so far, unless instrument() said where to begin
_overlapped = False  # inside a function of the user's own that overlaps a forward and a backward: one FB span


def instrument(schedule=None, step=None):
    """Captures this schedule's steps and says where its stages are; `step`: the number of the next one (default: counted
    from 0 in this process). Returns the schedule. Without one: the calls of torch.distributed."""
    global _steps
    _calls.attach(dist.distributed_c10d)
    if schedule is None:
        return None
    from torch.distributed.pipelining import schedules
    attach(schedules)
    if step is not None:
        _steps = step
    try:
        if begin_stream():
            _describe(schedule)
    except Exception as error:
        bubbletop._say("the layout is not captured: %s" % error, "torch layout")
    return schedule


domain = _calls.say_domain  # domain(group, bubbletop.TP): what a process group is for


def attach(schedules):
    """Wraps the functions of torch.distributed.pipelining, once."""
    global _attached
    if _attached:
        return
    from torch.distributed.pipelining import stage
    base = stage._PipelineStageBase
    needed = [(base, "forward_one_chunk"), (base, "backward_one_chunk"), (schedules.PipelineScheduleSingle, "step"),
              (schedules.PipelineScheduleMulti, "step")]
    for owner, name in needed:
        if not callable(getattr(owner, name, None)):
            bubbletop._say("torch %s: torch.distributed.pipelining has no %s.%s that this version of bubbletop knows; its "
                           "steps are not captured" % (torch.__version__, owner.__name__, name))
            return
    _attached = True
    for owner, name in needed[2:]:
        wrap(owner, name, _step)
    wrap(base, "forward_one_chunk", _forward)
    wrap(base, "backward_one_chunk", _backward)
    wrap(base, "backward_weight_one_chunk", _weight)
    wrap(base, "scale_grads", _scale)
    _attach_messages(schedules, base)
    _attach_fsdp()
    _distributed.attach_optimizers()


# --- where the rank is --------------------------------------------------------------------------------------------------


def _stages(schedule):
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    return sorted(stages, key=lambda stage: stage.stage_index)


def _describe(schedule):
    """Layout and chunk numbers, once for a schedule. The chunks of a rank are its stages in the model's order."""
    if getattr(schedule, "_bubbletop_described", False):
        return
    schedule._bubbletop_described = True
    stages = _stages(schedule)
    for chunk, stage in enumerate(stages):
        stage._bubbletop_chunk = chunk
    name = type(schedule).__name__
    separable = any(word in name for word in ("ZeroBubble", "DualPipe"))
    bubbletop.layout(pp_rank=stages[0].group_rank, pp_size=stages[0].group_size, chunks=len(stages),
                     virtual_stages=stages[0].num_stages, vstages=[stage.stage_index for stage in stages],
                     microbatches=schedule._n_microbatches, w_separable=separable,
                     schedule=name[8:] if name.startswith("Schedule") else name, **_data_parallel(stages[0]))
    _distributed.compute_on(stages[0].device)
    bubbletop.meta("framework", "torch %s, %s" % (torch.__version__, name))
    bubbletop.instant("capture: torch %s pipelining on %s: actions, messages, gates; %s" %
                      (torch.__version__, torch.device(stages[0].device).type, _distributed.clock_name()))
    _wrap_overlap(schedule)


def _data_parallel(stage):
    """dp_rank and dp_size where the stage's module tells them."""
    group = None
    try:
        if hasattr(stage.submod, "process_group"):  # DistributedDataParallel
            group = stage.submod.process_group
            domain(group, bubbletop.DP)
        for module in stage.submod.modules():
            param_group = getattr(getattr(module, "_get_fsdp_state", lambda: None)(), "_fsdp_param_group", None)
            if param_group is not None:
                mesh = param_group.mesh_info.mesh
                if mesh.ndim == 1:
                    group = mesh.get_group()
                break
    except Exception as error:
        bubbletop._say("the data-parallel layout is not known: %s" % error, "torch dp")
    if group is None:
        return {}
    return {"dp_rank": dist.get_rank(group), "dp_size": dist.get_world_size(group)}


# --- steps and ops ------------------------------------------------------------------------------------------------------


def _step(step):
    def wrapped(self, *args, **kwargs):
        global _steps
        number, _steps = _steps, _steps + 1
        if not begin_stream():
            return step(self, *args, **kwargs)
        try:
            _describe(self)
        except Exception as error:
            bubbletop._say("the layout is not captured: %s" % error, "torch layout")
        if not getattr(self, "_has_backward", True):  # an evaluation is no training step
            _steps = number
            return step(self, *args, **kwargs)
        with bubbletop.step(number):
            return step(self, *args, **kwargs)
    return wrapped


def _op(kind, stage, microbatch):
    return bubbletop.span(kind, microbatch, getattr(stage, "_bubbletop_chunk", 0), -1, _distributed.stream())


def _forward(forward):
    def wrapped(self, microbatch, *args, **kwargs):
        if not active() or _overlapped:
            return forward(self, microbatch, *args, **kwargs)
        with _op(bubbletop.F if getattr(self, "has_backward", True) else bubbletop.OTHER, self, microbatch):
            return forward(self, microbatch, *args, **kwargs)
    return wrapped


def _backward(backward):
    def wrapped(self, microbatch, *args, **kwargs):
        if not active() or _overlapped or not getattr(self, "has_backward", True):
            return backward(self, microbatch, *args, **kwargs)
        full = kwargs.get("full_backward", args[1] if len(args) > 1 else True)
        with _op(bubbletop.BW if full else bubbletop.B, self, microbatch):
            return backward(self, microbatch, *args, **kwargs)
    return wrapped


def _weight(weight):
    def wrapped(self, microbatch, *args, **kwargs):
        if not active() or _overlapped or not getattr(self, "has_backward", True):
            return weight(self, microbatch, *args, **kwargs)
        with _op(bubbletop.W, self, microbatch):
            return weight(self, microbatch, *args, **kwargs)
    return wrapped


def _scale(scale):
    def wrapped(self, factor, *args, **kwargs):
        if not active() or factor == 1:
            return scale(self, factor, *args, **kwargs)
        with _op(bubbletop.OTHER, self, -1):
            return scale(self, factor, *args, **kwargs)
    return wrapped


def _wrap_overlap(schedule):
    """The schedule runs an OVERLAP_F_B action as a forward and then a backward, unless the user registered a function
    that overlaps them: that is one FB span."""
    functions = getattr(schedule, "_comp_type_to_function_map", {})
    chunks = {stage.stage_index: stage._bubbletop_chunk for stage in _stages(schedule)}

    def overlapping(function):
        @functools.wraps(function)
        def wrapped(action, context):
            global _overlapped
            forward = next((a for a in action.sub_actions or () if a.computation_type.value == "F"), None)
            backward = next((a for a in action.sub_actions or () if a.computation_type.value in "BI"), None)
            if not active() or forward is None or backward is None:
                return function(action, context)
            _overlapped = True
            try:
                with bubbletop.overlapped(forward.microbatch_index, chunks.get(forward.stage_index, 0),
                                          backward.microbatch_index, chunks.get(backward.stage_index, 0),
                                          stream=_distributed.stream()):
                    return function(action, context)
            finally:
                _overlapped = False
        return wrapped

    for kind, function in functions.items():
        if kind.value == "OVERLAP_F_B":
            functions[kind] = overlapping(function)


# --- messages -----------------------------------------------------------------------------------------------------------


def _attach_messages(schedules, base):
    makers = {"get_fwd_recv_ops": bubbletop.RECV_F, "get_fwd_send_ops": bubbletop.SEND_F,
              "get_bwd_recv_ops": bubbletop.RECV_B, "get_bwd_send_ops": bubbletop.SEND_B}
    if not hasattr(schedules, "_batch_p2p") or not all(hasattr(base, name) for name in makers):
        bubbletop._say("torch %s: messages between stages are not captured" % torch.__version__)
        return
    for name, kind in makers.items():
        wrap(base, name, functools.partial(_mark, kind))
    wrap(schedules, "_batch_p2p", _post)


def _mark(kind, make):
    """A message knows what it carries."""
    def wrapped(self, microbatch, *args, **kwargs):
        ops = make(self, microbatch, *args, **kwargs)
        if active():
            for op in ops:
                op._bubbletop = (kind, microbatch, getattr(self, "_bubbletop_chunk", 0))
        return ops
    return wrapped


def _message(op):
    kind, microbatch, chunk = getattr(op, "_bubbletop", (None, -1, 0))
    if kind is None:  # not of a stage: sent or received, nothing else is known
        kind = bubbletop.SEND_F if op.op is dist.isend else bubbletop.RECV_F
    return _distributed.Message(kind, op.peer, size_of(op.tensor), group_of(op.group, bubbletop.PP), microbatch, chunk)


def _post(post):
    def wrapped(ops, *args, **kwargs):
        # Of messages in several groups it calls itself, once a group: those calls are the ones to see.
        if not active() or not ops or (len(ops) > 1 and len({id(op.group) for op in ops}) > 1):
            return post(ops, *args, **kwargs)
        try:
            messages = [_message(op) for op in ops]
        except Exception as error:
            bubbletop._say("messages are not captured: %s" % error, "torch messages")
            return post(ops, *args, **kwargs)
        works = post(ops, *args, **kwargs)
        if not isinstance(works, list):  # as older versions do
            return _distributed.Waited(works, messages) if works is not None else works
        return _distributed.waited(works, messages)
    return wrapped


# --- FSDP ---------------------------------------------------------------------------------------------------------------


def _attach_fsdp():
    """Unshard (all-gather) and gradient reduction of fully_shard."""
    try:
        from torch.distributed.fsdp._fully_shard import _fsdp_param_group as fsdp
        param_group = fsdp.FSDPParamGroup
    except (ImportError, AttributeError):
        return
    wrap(param_group, "unshard", _unshard)
    wrap(param_group, "wait_for_unshard", _wait_for_unshard)
    wrap(fsdp, "foreach_reduce", _reduce)


def _begin_unshard(group):
    """The span and gate of the all-gather that a parameter group is about to make, or None if it makes none."""
    try:
        if group._all_gather_result is not None or group.is_unsharded:
            return None
        members = group._all_gather_process_group
        size = sum(param.sharded_size.numel() * param.orig_dtype.itemsize for param in group.fsdp_params)
        return _distributed.collective(bubbletop.ALL_GATHER, members, bubbletop.DP, size * members.size())
    except Exception as error:
        bubbletop._say("FSDP's all-gather is not captured: %s" % error, "torch unshard")
        return None


def _unshard(unshard):
    def wrapped(self, *args, **kwargs):
        begun = _begin_unshard(self) if active() else None
        if begun is None:
            return unshard(self, *args, **kwargs)
        span, gate = begun
        span.begin()
        with gate:
            result = unshard(self, *args, **kwargs)
        work = getattr(getattr(self, "_all_gather_result", None), "all_gather_work", None)
        if work is None and self.device.type == "cpu":
            span.end()  # it was done at once
        else:
            self._bubbletop_unshard = begun
        return result
    return wrapped


def _wait_for_unshard(wait):
    def wrapped(self, *args, **kwargs):
        begun = self.__dict__.pop("_bubbletop_unshard", None)
        if begun is None:
            return wait(self, *args, **kwargs)
        span, gate = begun
        try:
            with gate:
                return wait(self, *args, **kwargs)
        finally:
            span.end()
    return wrapped


def _reduce(reduce):
    def wrapped(params, grads, group, *args, **kwargs):
        if not active() or group is None:
            return reduce(params, grads, group, *args, **kwargs)
        try:
            size = sum(size_of(grad) for grad in grads)
            span, gate = _distributed.collective(bubbletop.REDUCE_SCATTER, group, bubbletop.DP, size)
        except Exception as error:
            bubbletop._say("FSDP's reduce-scatter is not captured: %s" % error, "torch reduce")
            return reduce(params, grads, group, *args, **kwargs)
        with span, gate:
            return reduce(params, grads, group, *args, **kwargs)
    return wrapped
