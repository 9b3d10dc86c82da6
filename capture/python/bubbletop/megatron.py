"""Megatron-core: every forward and backward of its schedules, messages and what waits for them, gradient reduction, tensor
parallel collectives, the optimizer.

`bubbletop record` attaches this by itself. Without it: `bubbletop.megatron.instrument()`, in each rank, before the first
step.

The schedules of megatron.core.pipeline_parallel call forward_step() and backward_step() for each microbatch; those are
wrapped, and with them the functions that post messages, the buckets of DistributedDataParallel and the optimizers. One call
of a schedule is a step, with Megatron's own number where its training loop runs. A backward is BW: Megatron does not split
it.
"""
import functools
import inspect
import sys

import torch

import bubbletop
from bubbletop import _distributed, _megatron_collectives
from bubbletop._distributed import active, begin_stream, group_of, size_of, wrap

_attached = set()
_now = None  # the _Pass that runs
_last_step = -1
_described = None  # the layout that was told last


def instrument():
    """Captures what Megatron-core does from now on: for a program that does not run under `bubbletop record`."""
    import importlib
    for name in _PARTS:
        try:
            attach(importlib.import_module(name))
        except ImportError:  # this version has no such part
            pass


def attach(module):
    """Wraps what one module of Megatron-core does, once."""
    part = _PARTS.get(module.__name__)
    if part is not None and module.__name__ not in _attached:
        _attached.add(module.__name__)
        part(module)


def _version():
    return "megatron-core " + getattr(sys.modules.get("megatron.core"), "__version__", "")


def _has(module, *names):
    missing = [name for name in names if not callable(getattr(module, name, None))]
    if missing:
        bubbletop._say("%s: %s has no %s that this version of bubbletop knows; it is not captured" %
                       (_version(), module.__name__, missing[0]))
    return not missing


# --- a call of a schedule: a step ---------------------------------------------------------------------------------------


class _Pass:
    """One call of a schedule function: what its ops and messages are."""

    def __init__(self, training, chunks, microbatches, group_size, first, last):
        self.forward = bubbletop.F if training else bubbletop.OTHER
        self.place = _NOWHERE  # of the op that runs
        order = list(_order(microbatches, chunks, group_size))
        # Messages come in the order of the forwards or backwards that they are for.
        self.receives = {
            bubbletop.RECV_F: iter([place for place in order if not (first and place[1] == 0)]),
            bubbletop.RECV_B: iter([(m, chunks - 1 - c) for m, c in order if not (last and c == 0)])}

    def received(self, kind):
        """The place of the next message of a kind."""
        return next(self.receives[kind], _NOWHERE) if self.receives is not None else _NOWHERE

    def check(self, tensors, place):
        """Whether what an op takes is the message that it was thought to be."""
        found = _place_of(tensors)
        if found not in (None, _NOWHERE, place) and self.receives is not None:
            self.receives = None
            bubbletop._say("%s: messages come in an order that this version of bubbletop does not know: they carry no "
                           "microbatch" % _version())


_NOWHERE = (-1, -1)


def _order(microbatches, chunks, group_size):
    """(microbatch, chunk) of each forward of a rank, in order: all microbatches of a group, chunk after chunk."""
    for first in range(0, microbatches, group_size):
        for chunk in range(chunks):
            for microbatch in range(first, min(first + group_size, microbatches)):
                yield microbatch, chunk


def _schedule(name, schedule):
    def wrapped(*args, **kwargs):
        global _now
        if not begin_stream():
            return schedule(*args, **kwargs)
        before, number = _now, None
        try:
            training = not kwargs.get("forward_only", False)
            _now = _begin(name, training, kwargs)
            number = _step_number() if training else None
        except Exception as error:
            _now = None
            bubbletop._say("%s: a step is not captured: %s" % (_version(), error), "megatron step")
        try:
            if number is None:  # an evaluation is no training step
                return schedule(*args, **kwargs)
            with bubbletop.step(number):
                return schedule(*args, **kwargs)
        finally:
            _now = before
    return wrapped


def _step_number():
    """The iteration of Megatron's training loop, else one more than before."""
    global _last_step
    number = _last_step + 1
    loop = sys.modules.get("megatron.training.global_vars")
    try:
        number = max(number, loop.get_args().curr_iteration)
    except Exception:  # there is no such loop, or it has not said
        pass
    _last_step = number
    return number


def _begin(name, training, kwargs):
    """The pass that a schedule function's arguments are of, and its layout told."""
    from megatron.core.utils import get_model_config
    model = kwargs["model"]
    chunks = model if isinstance(model, (list, tuple)) else [model]
    config = get_model_config(chunks[0])
    layout = _layout(kwargs.get("p2p_communicator"), kwargs.get("pg_collection"))
    layout.update(chunks=len(chunks), microbatches=kwargs["num_microbatches"],
                  virtual_stages=layout["pp_size"] * len(chunks),
                  vstages=tuple(layout["pp_rank"] + chunk * layout["pp_size"] for chunk in range(len(chunks))))
    if training or _described is None:
        _describe(name, chunks, config, layout)
    rank, size = layout["pp_rank"], layout["pp_size"]
    group_size = (getattr(config, "microbatch_group_size_per_vp_stage", None) if len(chunks) > 1 else None) or size
    return _Pass(training, len(chunks), kwargs["num_microbatches"], group_size, rank == 0, rank == size - 1)


def _layout(communicator, groups):
    """Ranks and sizes of what is parallel: of the groups that the schedule was given, else of Megatron's own."""
    from megatron.core import parallel_state as own
    found = {}
    for axis, name in (("tp", "tensor_model"), ("cp", "context"), ("dp", "data"), ("ep", "expert_model")):
        try:
            if groups is not None:
                group = getattr(groups, axis, None)
                if group is None and axis == "dp" and groups.cp.size() == 1:
                    group = groups.dp_cp
                rank, size = group.rank(), group.size()
            else:
                rank, size = (getattr(own, "get_%s_parallel_%s" % (name, what))() for what in ("rank", "world_size"))
            found.update({axis + "_rank": rank, axis + "_size": size})
        except Exception:  # this version or this program has no such axis
            pass
    group = getattr(communicator, "pp_group", None) or getattr(groups, "pp", None)
    if group is None:
        group = own.get_pipeline_model_parallel_group()
    found.update(pp_rank=group.rank(), pp_size=group.size())
    return found


def _describe(name, chunks, config, layout):
    global _described
    if layout == _described:
        return
    first, _described = _described is None, dict(layout)
    if getattr(config, "overlap_moe_expert_parallel_comm", False):
        name += " with experts' communication overlapped"
    bubbletop.layout(schedule=name, w_separable=False, **layout)
    if not first:
        return
    device = next((parameter.device for chunk in chunks for parameter in chunk.parameters()), torch.device("cpu"))
    _distributed.compute_on(device)
    bubbletop.meta("framework", "%s, torch %s, %s" % (_version(), torch.__version__, name))
    bubbletop.instant("capture: %s %s on %s: forward and backward, messages, gates, gradient reduction; %s" %
                      (_version(), name, device.type, _distributed.clock_name()))
    if getattr(config, "use_ring_exchange_p2p", False):
        bubbletop.instant("capture: %s: messages of its ring exchange are not seen" % _version())


def _attach_schedules(schedules):
    names = {"forward_backward_no_pipelining": "NoPipelining",
             "forward_backward_pipelining_without_interleaving": "1F1B",
             "forward_backward_pipelining_with_interleaving": "Interleaved1F1B"}
    if not _has(schedules, "forward_step", "backward_step", *names):
        return
    for function, name in names.items():
        wrap(schedules, function, functools.partial(_schedule, name))
    wrap(schedules, "forward_step", _forward)
    wrap(schedules, "backward_step", _backward)
    wrap(schedules, "finish_embedding_wgrad_compute", _embedding_weights)
    _distributed.attach_optimizers()


# --- forward and backward -----------------------------------------------------------------------------------------------


def _tensors(value):
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, torch.Tensor):
            yield each


def _mark(value, place):
    """Tensors carry the (microbatch, chunk) that they are of to the message or the op that takes them."""
    try:
        for tensor in _tensors(value):
            tensor._bubbletop = place
    except Exception as error:
        bubbletop._say("%s: a tensor cannot be followed: %s" % (_version(), error), "megatron tensor")


def _place_of(value):
    return next((tensor._bubbletop for tensor in _tensors(value) if hasattr(tensor, "_bubbletop")), None)


def _arguments(function, *names):
    """A function that takes a call's arguments to those of these names, None where there is none."""
    positions = list(inspect.signature(function).parameters)
    places = [(name, positions.index(name) if name in positions else sys.maxsize) for name in names]

    def pick(args, kwargs):
        return [kwargs.get(name, args[at] if at < len(args) else None) for name, at in places]
    return pick


def _chunk(said):
    """The chunk that a schedule names, or that older versions keep in parallel_state."""
    try:
        if said is None:
            from megatron.core import parallel_state
            said = parallel_state.get_virtual_pipeline_model_parallel_rank()
    except Exception:  # it is not asked to know
        pass
    return said or 0


def _forward(forward):
    pick = _arguments(forward, "input_tensor", "current_microbatch", "vp_stage")

    def wrapped(*args, **kwargs):
        now = _now
        if now is None or not active():
            return forward(*args, **kwargs)
        taken, microbatch, chunk = pick(args, kwargs)
        place = (-1 if microbatch is None else microbatch, _chunk(chunk))
        now.check(taken, place)
        now.place = place
        with bubbletop.span(now.forward, *place, -1, _distributed.stream()):
            made = forward(*args, **kwargs)
        _mark(made[0] if isinstance(made, tuple) else made, place)  # older versions return no number of tokens
        return made
    return wrapped


def _backward(backward):
    pick = _arguments(backward, "output_tensor", "output_tensor_grad")

    def wrapped(*args, **kwargs):
        now = _now
        if now is None or not active():
            return backward(*args, **kwargs)
        made, gradient = pick(args, kwargs)
        place = now.place = _place_of(made) or _NOWHERE
        now.check(gradient, place)
        with bubbletop.span(bubbletop.BW, *place, -1, _distributed.stream()):
            passed_on = backward(*args, **kwargs)
        _mark(passed_on, place)
        return passed_on
    return wrapped


def _embedding_weights(finish):
    """The output layer's weight gradients, where they were put off to the end of the step."""
    pick = _arguments(finish, "config", "is_last_stage")

    def wrapped(*args, **kwargs):
        config, last = pick(args, kwargs)
        if not active() or not last or not getattr(config, "defer_embedding_wgrad_compute", False):
            return finish(*args, **kwargs)
        with bubbletop.span(bubbletop.OTHER, -1, -1, -1, _distributed.stream()):
            return finish(*args, **kwargs)
    return wrapped


def _attach_combined(combined):
    if hasattr(combined, "combined_forward_backward_step"):
        wrap(combined, "combined_forward_backward_step", _combined)


def _combined(step):
    """A forward and the backward of another microbatch, layer by layer (overlap_moe_expert_parallel_comm): one FB. Weight
    gradients that it puts off are still within it."""
    pick = _arguments(step, "f_model", "current_microbatch", "f_model_chunk_id", "b_model", "b_output_tensor")

    def wrapped(*args, **kwargs):
        now = _now
        if now is None or not active():
            return step(*args, **kwargs)
        model, microbatch, chunk, backward, output = pick(args, kwargs)
        forward_place = (-1 if microbatch is None else microbatch, chunk or 0)
        backward_place = now.place = _place_of(output) or _NOWHERE
        if backward is None:
            span = bubbletop.span(now.forward, *forward_place, stream=_distributed.stream())
        elif model is None:
            span = bubbletop.span(bubbletop.BW, *backward_place, stream=_distributed.stream())
        else:
            span = bubbletop.overlapped(*forward_place, *backward_place, stream=_distributed.stream())
        with span:
            made = step(*args, **kwargs)
        if model is not None:
            _mark(made[0], forward_place)
        if backward is not None:
            _mark(made[2], backward_place)
        return made
    return wrapped


# --- recomputation ------------------------------------------------------------------------------------------------------


def _place_now():
    return None if _now is None else _now.place


def _attach_recomputation(random):
    """What is computed again is inside the backward, and a span within its span."""
    _distributed.attach_recomputation(getattr(random, "CheckpointFunction", None), _place_now)
    without_output = getattr(random, "CheckpointWithoutOutput", None)
    if without_output is not None:
        wrap(without_output, "_recompute", lambda recompute: _distributed.recomputation(recompute, _place_now))


# --- messages -----------------------------------------------------------------------------------------------------------

# In the order in which they are posted. Unbatched, ranks of one pair may use two communicators, one a direction: numbers
# count what one rank sends another, which is the same.
_BATCHED = ("send_prev", "recv_prev", "send_next", "recv_next")
_SINGLE = ("send_next", "recv_prev", "send_prev", "recv_next")
_KINDS = {"send_prev": bubbletop.SEND_B, "recv_prev": bubbletop.RECV_F, "send_next": bubbletop.SEND_F,
          "recv_next": bubbletop.RECV_B}


def _attach_messages(p2p):
    if _has(p2p, "_batched_p2p_ops", "_p2p_ops"):
        wrap(p2p, "_batched_p2p_ops", functools.partial(_post, _BATCHED))
        wrap(p2p, "_p2p_ops", functools.partial(_post, _SINGLE))


def _message(end, tensor, kwargs):
    kind = _KINDS[end]
    receives = kind in (bubbletop.RECV_F, bubbletop.RECV_B)
    place = _now.received(kind) if receives else _place_of(tensor) or _NOWHERE
    if receives:
        _mark(tensor, place)
    peer = kwargs.get("%s_pipeline_rank" % end[5:])
    if peer is None:  # older versions ask parallel_state
        from megatron.core import parallel_state
        peer = getattr(parallel_state, "get_pipeline_model_parallel_%s_rank" % end[5:])()
    return _distributed.Message(kind, peer, size_of(tensor), group_of(kwargs["group"], bubbletop.PP), *place)


def _post(ends, post):
    def wrapped(**kwargs):
        if _now is None or not active():
            return post(**kwargs)
        try:
            messages = {end: _message(end, kwargs["tensor_" + end], kwargs) for end in ends
                        if kwargs.get("tensor_" + end) is not None}
        except Exception as error:
            bubbletop._say("%s: messages are not captured: %s" % (_version(), error), "megatron messages")
            return post(**kwargs)
        works = post(**kwargs)
        if isinstance(works, dict):
            return {end: _distributed.Waited(work, [messages[end]] if end in messages else ())
                    for end, work in works.items()}
        return _distributed.waited(works, list(messages.values()))
    return wrapped


# --- optimizers ---------------------------------------------------------------------------------------------------------


def _attach_megatron_optimizers(module):
    """Megatron's own optimizers: gradient norm, clipping and the gathering of parameters belong to their step."""
    base = getattr(module, "MegatronOptimizer", None)
    for optimizer in vars(module).values():
        if inspect.isclass(optimizer) and base in optimizer.__mro__[1:] and "step" in vars(optimizer):
            wrap(optimizer, "step", _optimizer_step)


def _optimizer_step(step):
    def wrapped(self, *args, **kwargs):
        _distributed.optimizer_begin(self)
        try:
            return step(self, *args, **kwargs)
        finally:
            _distributed.optimizer_end(self)
    return wrapped


_PARTS = {
    "megatron.core.pipeline_parallel.schedules": _attach_schedules,
    "megatron.core.pipeline_parallel.combined_1f1b": _attach_combined,
    "megatron.core.pipeline_parallel.p2p_communication": _attach_messages,
    "megatron.core.tensor_parallel.random": _attach_recomputation,
    "megatron.core.tensor_parallel.mappings": _megatron_collectives.attach_mappings,
    "megatron.core.distributed.param_and_grad_buffer": _megatron_collectives.attach_buckets,
    "megatron.core.distributed.finalize_model_grads": _megatron_collectives.attach_embeddings,
    "megatron.core.optimizer.optimizer": _attach_megatron_optimizers,
    "megatron.core.optimizer.layer_wise_optimizer": _attach_megatron_optimizers,
}
