"""A model of a few layers, trained by DeepSpeed's own PipelineEngine, with gloo on CPUs (its accelerator "cpu", which is
DeepSpeed's own). It knows nothing of bubbletop.

Arguments: a folder for what each rank says as JSON, steps, microbatches, and options: pp=N (what is left is data parallel),
tied (the first and the last stage share a layer), recompute, zero (stage 1), eval (after the steps), dualpipev (its engine of
that name), explicit, double (double.py). Or `jobs` and a file of such argument lists (jobs.py)."""
import json
import os

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec  # noqa: E402

import jobs  # noqa: E402

# Else it compiles a kernel for all-reduces in shared memory, which takes a minute and a compiler. Nothing here needs it.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

WIDTH, ROWS = 32, 4  # of a layer, and of a microbatch
executed = []  # [chunk, "F" or "B", microbatch], as the layers see them


class Layer(torch.nn.Module):
    """A layer. A rank's first one notes what it is asked to do; the first column of the rows carries the microbatch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH ** 0.5)
        self.chunk, self.recompute = None, False

    def forward(self, rows):
        number = int(rows[0, 0].item())
        hidden = torch.tanh(rows[:, 1:] @ self.weight)
        if self.chunk is not None:
            if not (self.recompute and torch.is_grad_enabled()):  # else it is computed again
                executed.append([self.chunk, "F", number])
            if hidden.requires_grad:
                hidden.register_hook(lambda gradient: executed.append([self.chunk, "B", number]))
        return torch.cat([rows[:, :1], hidden], dim=1)


def loss(result, target):
    return torch.nn.functional.mse_loss(result[:, 1:], target)


def make_module(stages, given):
    layers = 2 * stages * (2 if "dualpipev" in given else 1)
    specs = [LayerSpec(Layer) for _ in range(layers)]
    if "tied" in given:
        specs[0] = specs[-1] = TiedLayerSpec("shared", Layer, tied_weight_attr=["weight"])
    if "dualpipev" in given:
        from deepspeed.runtime.pipe.dualpipev import DualPipeVModule as Module
    else:
        Module = PipelineModule
    module = Module(layers=specs, num_stages=stages, loss_fn=loss, partition_method="uniform",
                    activation_checkpoint_interval=2 if "recompute" in given else 0)
    for chunk, functions in enumerate(getattr(module, "phase_funcs", [module.forward_funcs])):
        functions[0].chunk, functions[0].recompute = chunk, "recompute" in given
    return module


def data(microbatches):
    """Forever the same batch."""
    torch.manual_seed(8)
    rows, target = torch.randn(2, microbatches, ROWS, WIDTH)
    while True:
        for number in range(microbatches):
            yield torch.cat([torch.full((ROWS, 1), float(number)), rows[number]], dim=1), target[number]


def train(folder, steps, microbatches, *words):
    steps, microbatches = int(steps), int(microbatches)
    given = dict(word.split("=") if "=" in word else (word, True) for word in words)
    stages = int(given["pp"])
    if "double" in given:
        import double
        double.install()
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(7 + dist.get_rank() // (dist.get_world_size() // stages))
    module = make_module(stages, given)
    config = {"train_micro_batch_size_per_gpu": ROWS, "gradient_accumulation_steps": microbatches, "steps_per_print": 1000,
              "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
              "zero_optimization": {"stage": 1 if "zero" in given else 0}}
    engine, *_ = deepspeed.initialize(model=module, model_parameters=[p for p in module.parameters() if p.requires_grad],
                                      config=config)
    if "explicit" in given:
        import bubbletop.deepspeed
        bubbletop.deepspeed.instrument(engine)
    batches = data(microbatches)
    losses = [float(engine.train_batch(batches)) for _ in range(steps)]
    trained = list(executed)
    if "eval" in given:
        engine.eval_batch(batches)
    plan = [[command.name, command.kwargs.get("phase", 0)] for commands in engine._train_schedule() for command in commands]
    with open(os.path.join(folder, "rank%d.json" % dist.get_rank()), "w") as out:
        json.dump({"executed": trained, "loss": losses, "plan": plan, "pp": engine.stage_id,
                   "dp": engine.grid.get_data_parallel_rank()}, out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    jobs.main(train)
