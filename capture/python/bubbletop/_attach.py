"""Adapters attach when the module that they wrap has been imported. Until then nothing of theirs is imported either."""
import importlib
import importlib.util
import sys

# The module whose import triggers it, and the adapter: a module of this package with attach(module).
_ADAPTERS = {
    "torch.distributed.distributed_c10d": "_calls",
    "torch.distributed.pipelining.schedules": "torch",
    "megatron.core.pipeline_parallel.schedules": "megatron",
    "megatron.core.pipeline_parallel.combined_1f1b": "megatron",
    "megatron.core.pipeline_parallel.p2p_communication": "megatron",
    "megatron.core.tensor_parallel.random": "megatron",
    "megatron.core.tensor_parallel.mappings": "megatron",
    "megatron.core.distributed.param_and_grad_buffer": "megatron",
    "megatron.core.distributed.finalize_model_grads": "megatron",
    "megatron.core.optimizer.optimizer": "megatron",
    "megatron.core.optimizer.layer_wise_optimizer": "megatron",
    "deepspeed.runtime.pipe.engine": "deepspeed",
}


def _run(name, module):
    from . import _say
    try:
        importlib.import_module("bubbletop." + _ADAPTERS[name]).attach(module)
    except Exception as error:  # whatever the framework has become: it is captured or not, but it runs
        _say("%s is not captured: %s" % (name, error))


class _Loader:
    """The module's own loader, and the adapter after it."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # The module sees the loader that it would have had.
        spec = module.__spec__
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _run(spec.name, module)


class _Finder:
    """Stands first on sys.meta_path, asks the others, and puts an adapter behind what they find."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _ADAPTERS:
            return None
        for finder in sys.meta_path:
            if finder is _Finder or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def install():
    """From now on, adapters attach to what is imported; to what has been, at once."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    for name in _ADAPTERS:
        if name in sys.modules:
            _run(name, sys.modules[name])
