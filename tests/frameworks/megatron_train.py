"""A model of a few layers, trained by Megatron-core's own schedules, with gloo on CPUs. It knows nothing of bubbletop.

Arguments: a folder for what each rank says as JSON, steps, microbatches, and options: pp=N, vpp=N, tp=N (what is left is data
parallel), overlap (messages in the background), ddp (Megatron's own, gradients in the background, and its optimizer), sharded
(the same with gradients and parameters sharded, and without the optimizer that belongs to that, which wants a GPU), tied (the
first and the last stage share a weight), recompute, explicit, double (double.py). Or `jobs` and a file of such argument lists (jobs.py).

Megatron-core asks for CUDA in four places of what runs here: buffers and counters are made on torch.cuda.current_device() or
"cuda", batches of messages end with torch.cuda.synchronize(), and recomputation keeps the GPU's random state. Those alone
are put on the CPU, in on_cpu(); everything else is its own."""
import json
import os

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.enums import ModelType
from megatron.core.pipeline_parallel import get_forward_backward_func, schedules
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig

import jobs

WIDTH, ROWS = 32, 4  # of a layer, and of a microbatch
executed = []  # [chunk, "F" or "B", microbatch], as the model sees them


class OnCpu(TorchFunctionMode):
    """What is to be made on CUDA is made on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def on_cpu():
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    tensor_parallel.random._get_cuda_rng_state = lambda *_, **__: None
    tensor_parallel.random._set_cuda_rng_state = lambda *_, **__: None
    OnCpu().__enter__()


class Chunk(MegatronModule):
    """Two layers, tensor parallel if that is on. It notes what it is asked to do, by the numbers that the data carry."""

    def __init__(self, config, index, first, last, given):
        super().__init__(config)
        self.index, self.recompute = index, "recompute" in given
        self.pre_process, self.post_process = first, last
        self.model_type = ModelType.encoder_or_decoder
        self.share_embeddings_and_output_weights = "tied" in given
        common = dict(config=config, init_method=config.init_method, bias=True, skip_bias_add=False)
        self.up = ColumnParallelLinear(WIDTH, 2 * WIDTH, gather_output=False, **common)
        self.down = RowParallelLinear(2 * WIDTH, WIDTH, input_is_parallel=True, **common)
        self.input = None

    def set_input_tensor(self, given):
        self.input = given[0] if isinstance(given, list) else given

    def shared_embedding_or_output_weight(self):
        return self.up.weight

    def layers(self, hidden):
        return self.down(torch.tanh(self.up(hidden)[0]))[0]

    def forward(self, number, rows):
        executed.append([self.index, "F", number])
        hidden = rows.requires_grad_(self.recompute) if self.pre_process else self.input
        out = tensor_parallel.checkpoint(self.layers, False, hidden) if self.recompute else self.layers(hidden)
        if out.requires_grad:
            out.register_hook(lambda gradient: executed.append([self.index, "B", number]))
        return out


def forward_step(data, model):
    number, rows, target = next(data)
    out = model(number, rows)

    def loss(result):
        value = torch.nn.functional.mse_loss(result, target)
        return value, {"loss": value.detach()}
    return out, loss


def options_of(words):
    given = dict(word.split("=") if "=" in word else (word, True) for word in words)
    sizes = {name: int(given.pop(name, 1)) for name in ("pp", "vpp", "tp")}
    return sizes, given


def make_model(sizes, given):
    """Chunks of this rank and their configuration."""
    pp, vpp, tp = sizes["pp"], sizes["vpp"], sizes["tp"]
    overlap = "overlap" in given
    config = TransformerConfig(
        num_layers=pp * vpp, hidden_size=WIDTH, num_attention_heads=tp, use_cpu_initialization=True, attention_dropout=0.0,
        pipeline_dtype=torch.float32, tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None, overlap_p2p_comm=overlap,
        batch_p2p_comm=not overlap, overlap_p2p_comm_warmup_flush=False, deallocate_pipeline_outputs=not overlap)
    rank = parallel_state.get_pipeline_model_parallel_rank()
    torch.manual_seed(7 + rank)
    chunks = [Chunk(config, chunk, rank == 0 and chunk == 0, rank == pp - 1 and chunk == vpp - 1, given)
              for chunk in range(vpp)]
    if {"ddp", "sharded"} & set(given):
        ddp = DistributedDataParallelConfig(overlap_grad_reduce="ddp" in given, use_distributed_optimizer="sharded" in given)
        chunks = [DistributedDataParallel(config, ddp, chunk) for chunk in chunks]
        config.no_sync_func = [chunk.no_sync for chunk in chunks] if vpp > 1 else chunks[0].no_sync
        config.finalize_model_grads_func = finalize_model_grads
    return chunks, config


def make_optimizer(chunks, given):
    if "ddp" in given and "sharded" not in given:
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        return get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.01, clip_grad=0.0), chunks)
    return torch.optim.SGD([p for chunk in chunks for p in chunk.parameters()], lr=0.05)


def plan(sizes, microbatches, config):
    """What Megatron's own tables say of this rank: [chunk, "F" or "B", microbatch] of a step."""
    chunks = sizes["vpp"]
    table = schedules.get_schedule_table(microbatches, chunks, config.microbatch_group_size_per_vp_stage or microbatches)
    warmup = schedules.get_pp_rank_microbatches(microbatches, chunks, config.microbatch_group_size_per_vp_stage)[2]
    forwards = [[chunk, "F", microbatch] for microbatch, chunk in table]
    backwards = [[chunks - 1 - chunk, "B", microbatch] for microbatch, chunk in table]
    steady = [op for pair in zip(forwards[warmup:], backwards) for op in pair]
    return forwards[:warmup] + steady + backwards[len(forwards) - warmup:]


def train(folder, steps, microbatches, *words):
    steps, microbatches = int(steps), int(microbatches)
    sizes, given = options_of(words)
    if "double" in given:
        import double
        double.install()
    on_cpu()
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(sizes["tp"], sizes["pp"], sizes["vpp"] if sizes["vpp"] > 1 else None)
    if "explicit" in given:
        import bubbletop.megatron
        bubbletop.megatron.instrument()
    chunks, config = make_model(sizes, given)
    optimizer = make_optimizer(chunks, given)
    schedule = get_forward_backward_func()
    torch.manual_seed(8)
    rows, target = torch.randn(2, microbatches, ROWS, 1, WIDTH)
    losses = []
    for _ in range(steps):
        data = [((number, rows[number], target[number]) for number in range(microbatches)) for _ in chunks]
        found = schedule(forward_step_func=forward_step, data_iterator=data, model=chunks, num_microbatches=microbatches,
                         seq_length=ROWS, micro_batch_size=1, forward_only=False)
        optimizer.step()
        optimizer.zero_grad()
        for chunk in chunks:
            if isinstance(chunk, DistributedDataParallel):
                chunk.zero_grad_buffer()
                if "sharded" in given:
                    chunk.start_param_sync(force_sync=True)
        losses += [float(sum(one["loss"] for one in found)) / microbatches] if found else []
    with open(os.path.join(folder, "rank%d.json" % dist.get_rank()), "w") as out:
        json.dump({"executed": executed, "plan": plan(sizes, microbatches, config), "loss": losses, "pp": parallel_state.get_pipeline_model_parallel_rank(),
                   "dp": parallel_state.get_data_parallel_rank()}, out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    jobs.main(train)
