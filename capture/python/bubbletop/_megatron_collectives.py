"""Megatron-core's collectives: gradients and parameters of DistributedDataParallel's buckets, gradients of embeddings that
the first and the last stage share, tensor and expert parallel ones.

A collective that Megatron begins inside a fused kernel, or directly by torch.distributed (the linear layers' asynchronous
all-reduce, clipping), is a part of the op round it.
"""
import functools

import bubbletop
from bubbletop import _distributed
from bubbletop._distributed import active, size_of, wrap

_domains = {}  # id of a process group -> (the group, so that the id stays its own, and its domain)


# --- buckets of gradients and parameters --------------------------------------------------------------------------------


def attach_buckets(module):
    """A bucket group of DistributedDataParallel reduces its gradients, and gathers its parameters for the distributed
    optimizer, at once or in the background: then start_… begins and finish_… waits."""
    for name in ("_ParamAndGradBucketGroup", "ParamAndGradBucketGroup", "Bucket"):  # as versions call it
        buckets = getattr(module, name, None)
        if buckets is not None and hasattr(buckets, "start_grad_sync"):
            for what, handle, begin in (("grad", "grad_reduce_handle", _reduction),
                                        ("param", "param_gather_handle", _gathering)):
                wrap(buckets, "start_%s_sync" % what, functools.partial(_start, handle, begin))
                wrap(buckets, "finish_%s_sync" % what, functools.partial(_finish, handle))
            return
    bubbletop._say("megatron-core: gradient reduction is not captured: %s has no bucket that this version of bubbletop "
                   "knows" % module.__name__)


def _bucket_group(self):
    sharded = getattr(self, "intra_distributed_optimizer_instance_group", None)
    return self.data_parallel_group if sharded is None else sharded


def _reduction(self, force_all_reduce=False, **_):
    sharded = self.ddp_config.use_distributed_optimizer and not force_all_reduce
    size = sum(size_of(bucket.grad_data) for bucket in getattr(self, "buckets", (self,)))
    return bubbletop.REDUCE_SCATTER if sharded else bubbletop.ALL_REDUCE, size


def _gathering(self, **_):
    return bubbletop.ALL_GATHER, sum(size_of(bucket.param_data) for bucket in getattr(self, "buckets", (self,)))


def _pending(self, handle):
    return self.__dict__.pop("_bubbletop_" + handle, None)


def _start(handle, what, start):
    def wrapped(self, *args, **kwargs):
        begun = _pending(self, handle)
        if begun is not None:  # it waits for what runs already
            with begun[1]:
                result = start(self, *args, **kwargs)
            begun[0].end()
            return result
        if not active() or getattr(self, handle, None) is not None or _bucket_group(self).size() == 1:
            return start(self, *args, **kwargs)
        try:
            kind, size = what(self, **kwargs)
            span, gate = _distributed.collective(kind, _bucket_group(self), bubbletop.DP, size)
        except Exception as error:
            bubbletop._say("megatron-core: a bucket is not captured: %s" % error, "megatron bucket")
            return start(self, *args, **kwargs)
        span.begin()
        gate.begin()
        result = start(self, *args, **kwargs)
        if getattr(self, handle, None) is None:  # it is done, or nobody will say when
            gate.end()
            span.end()
        else:
            setattr(self, "_bubbletop_" + handle, (span, gate))
            if not getattr(self, "_bubbletop_finishes", False):
                gate.end()
        return result
    return wrapped


def _finish(handle, finish):
    def wrapped(self, *args, **kwargs):
        begun = _pending(self, handle)
        if begun is None:  # it may begin now
            self._bubbletop_finishes = True
            try:
                result = finish(self, *args, **kwargs)
            finally:
                self._bubbletop_finishes = False
                begun = _pending(self, handle)
                if begun is not None:
                    begun[1].end()
                    begun[0].end()
            return result
        span, gate = begun
        try:
            with gate:
                return finish(self, *args, **kwargs)
        finally:
            span.end()
    return wrapped


# --- embeddings ---------------------------------------------------------------------------------------------------------


def attach_embeddings(module):
    wrap(module, "_allreduce_embedding_grad", _embedding)


def _embedding(reduce):
    def wrapped(model, group, pp_group, weight_getter, *args, **kwargs):
        if not active() or group is None or group.size() == 1:
            return reduce(model, group, pp_group, weight_getter, *args, **kwargs)
        begun = []

        def seen(*given, **named):
            """It asks for the weight on the ranks that have one, just before the all-reduce."""
            weight = weight_getter(*given, **named)
            if weight is not None and not begun:
                begun.extend(_distributed.collective(bubbletop.ALL_REDUCE, group, bubbletop.PP, size_of(weight)))
                for span in begun:
                    span.begin()
            return weight
        try:
            return reduce(model, group, pp_group, seen, *args, **kwargs)
        finally:
            for span in reversed(begun):
                span.end()
    return wrapped


# --- tensor and expert parallel -----------------------------------------------------------------------------------------


def attach_mappings(module):
    """The collectives inside forward and backward, on the compute's own stream."""
    for name, kind in (("_reduce", bubbletop.ALL_REDUCE), ("_gather_along_first_dim", bubbletop.ALL_GATHER),
                       ("_gather_along_last_dim", bubbletop.ALL_GATHER),
                       ("_reduce_scatter_along_first_dim", bubbletop.REDUCE_SCATTER)):
        wrap(module, name, functools.partial(_mapping, kind))
    exchange = getattr(module, "_AllToAll", None)
    if exchange is not None:
        original = exchange.forward

        @staticmethod
        @functools.wraps(original)
        def forward(ctx, group, tensor, *args, **kwargs):
            with _span(bubbletop.ALL_TO_ALL, group, tensor):
                return original(ctx, group, tensor, *args, **kwargs)
        exchange.forward = forward


def _domain(group):
    known = _domains.get(id(group))
    if known is None:
        from megatron.core import parallel_state as own
        found = bubbletop.TP
        for name, domain in (("tensor_model", bubbletop.TP), ("context", bubbletop.CP), ("expert_model", bubbletop.EP)):
            try:
                if getattr(own, "get_%s_parallel_group" % name)() is group:
                    found = domain
                    break
            except Exception:  # not initialised, or not in this version
                pass
        known = _domains[id(group)] = (group, found)
    return known[1]


class _Nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


_nothing = _Nothing()


def _span(kind, group, tensor):
    try:
        if not active() or group is None or group.size() == 1:
            return _nothing
        return _distributed.collective(kind, group, _domain(group), size_of(tensor))[0]
    except Exception as error:
        bubbletop._say("megatron-core: a tensor parallel collective is not captured: %s" % error, "megatron mapping")
        return _nothing


def _mapping(kind, function):
    def wrapped(tensor, group=None, *args, **kwargs):
        told = group
        if told is None and active():  # older versions have one such group
            from megatron.core import parallel_state
            told = parallel_state.get_tensor_model_parallel_group()
        with _span(kind, told, tensor):
            return function(tensor, *(() if group is None else (group,)), *args, **kwargs)
    return wrapped
