"""A pipeline of linear layers under a schedule of torch.distributed.pipelining, with gloo. It knows nothing of bubbletop.

Arguments: a folder for what each rank says as JSON (the schedule's plan for it, and what its stages were asked to do: a
subclass counts), schedule class, steps, microbatches, options: chunks=N, fsdp, ddp, explicit, double (double.py). Or `jobs` and a
file of such argument lists (jobs.py)."""
import json
import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

import jobs

WIDTH, ROWS = 32, 4


class Stage(PipelineStage):
    """Notes what it is asked to do."""
    executed = []

    def forward_one_chunk(self, microbatch, *args, **kwargs):
        self.executed.append([self.stage_index, "F", microbatch])
        return super().forward_one_chunk(microbatch, *args, **kwargs)

    def backward_one_chunk(self, microbatch, loss=None, full_backward=True, last_backward=False):
        self.executed.append([self.stage_index, "B" if full_backward else "I", microbatch])
        return super().backward_one_chunk(microbatch, loss=loss, full_backward=full_backward, last_backward=last_backward)

    def backward_weight_one_chunk(self, microbatch, *args, **kwargs):
        self.executed.append([self.stage_index, "W", microbatch])
        return super().backward_weight_one_chunk(microbatch, *args, **kwargs)


def flat(actions):
    for action in actions or ():
        if action is None:
            continue
        if getattr(action, "sub_actions", None):
            yield from flat(action.sub_actions)
        elif action.computation_type.value in "FIWB":
            yield [action.stage_index, action.computation_type.value, action.microbatch_index]


def make_stages(kind, chunks, options):
    """This rank's stages, and the number of all."""
    world, group, shards = dist.get_world_size(), None, None
    if "fsdp" in options or "ddp" in options:  # pairs of ranks share each stage's weights, or have the same
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("pp", "dp"))
        group, shards, world = mesh["pp"].get_group(), mesh["dp"], world // 2
    here = dist.get_rank(group)
    v_shaped = kind.__name__ in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    virtual = world * (2 if v_shaped else chunks)
    mine = [here, virtual - 1 - here] if v_shaped else list(range(here, virtual, world))
    torch.manual_seed(7)
    made = []
    for index in range(virtual):
        layer = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))
        if index in mine:
            if "fsdp" in options:
                fully_shard(layer, mesh=shards)
            elif shards is not None:
                layer = torch.nn.parallel.DistributedDataParallel(layer, process_group=shards.get_group())
            made.append(Stage(layer, index, virtual, torch.device("cpu"), group=group))
    return made, virtual, here


def train(folder, name, steps, microbatches, *options):
    steps, microbatches = int(steps), int(microbatches)
    if "double" in options:
        import double
        double.install()
    dist.init_process_group("gloo")
    kind = getattr(schedules, name)
    multi = issubclass(kind, schedules.PipelineScheduleMulti)
    chunks = next((int(option[7:]) for option in options if option.startswith("chunks=")), 1)
    made, virtual, here = make_stages(kind, chunks, options)
    mine = [stage.stage_index for stage in made]
    schedule = kind(made if multi else made[0], microbatches, loss_fn=torch.nn.functional.mse_loss)
    if "explicit" in options:
        import bubbletop.torch
        bubbletop.torch.instrument(schedule, step=100)
    optimizer = torch.optim.SGD([p for stage in made for p in stage.submod.parameters()], lr=0.05)
    torch.manual_seed(8)
    x, target = torch.randn(ROWS * microbatches, WIDTH), torch.randn(ROWS * microbatches, WIDTH)
    means = []
    for _ in range(steps):
        losses = []
        optimizer.zero_grad()
        schedule.step(*((x,) if 0 in mine else ()), **({"target": target, "losses": losses} if virtual - 1 in mine else {}))
        optimizer.step()
        means += [float(sum(loss.detach() for loss in losses)) / microbatches] if losses else []
    lowered = getattr(schedule, "pipeline_order_with_comms", None)
    order = lowered or getattr(schedule, "pipeline_order", None)
    kinds = [a.computation_type.value for a in (lowered or {}).get(here, ()) if a is not None]
    with open(os.path.join(folder, "rank%d.json" % dist.get_rank()), "w") as out:
        json.dump({"plan": list(flat(order[here])) if order else None, "executed": Stage.executed, "stages": mine,
                   "here": here, "loss": means,
                   "messages": sum(kind[:4] in ("SEND", "RECV") for kind in kinds) if lowered else None,
                   "unshards": kinds.count("UNSHARD") if lowered else None}, out)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    jobs.main(train)
