"""A pipeline of linear layers under a schedule of torch.distributed.pipelining, with gloo. It knows nothing of bubbletop.

Arguments: schedule class, steps, microbatches, and a folder for the plan (what the schedule says that each rank does) and
for what the stages were asked to do (a subclass counts), as JSON."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

name, steps, microbatches, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
options = sys.argv[5:]
width, rows = 32, 4
dist.init_process_group("gloo")
world, rank = dist.get_world_size(), dist.get_rank()
group, dp, shards = None, 1, None
if "fsdp" in options:  # two replicas that share each stage's weights
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dp = 2
    mesh = init_device_mesh("cpu", (world // dp, dp), mesh_dim_names=("pp", "dp"))
    group, shards = mesh["pp"].get_group(), mesh["dp"]
stages = world // dp
here = dist.get_rank(group)
kind = getattr(schedules, name)
multi = issubclass(kind, schedules.PipelineScheduleMulti)
v_shaped = name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
chunks = (2 if v_shaped or "chunks" not in " ".join(options) else int(options[0].split("=")[1])) if multi else 1
virtual = stages * chunks
mine = [here, virtual - 1 - here] if v_shaped else [here + stages * chunk for chunk in range(chunks)]
torch.manual_seed(7)
layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width))
          for _ in range(virtual)]
executed = []


class Stage(PipelineStage):
    def forward_one_chunk(self, microbatch, *args, **kwargs):
        executed.append([self.stage_index, "F", microbatch])
        return super().forward_one_chunk(microbatch, *args, **kwargs)

    def backward_one_chunk(self, microbatch, loss=None, full_backward=True, last_backward=False):
        executed.append([self.stage_index, "B" if full_backward else "I", microbatch])
        return super().backward_one_chunk(microbatch, loss=loss, full_backward=full_backward, last_backward=last_backward)

    def backward_weight_one_chunk(self, microbatch, *args, **kwargs):
        executed.append([self.stage_index, "W", microbatch])
        return super().backward_weight_one_chunk(microbatch, *args, **kwargs)


made = []
for index in mine:
    if shards is not None:
        fully_shard(layers[index], mesh=shards)
    made.append(Stage(layers[index], index, virtual, torch.device("cpu"), group=group))


def loss_of(output, target):
    return torch.nn.functional.mse_loss(output, target)


schedule = kind(made if multi else made[0], microbatches, loss_fn=loss_of)
if "explicit" in options:
    import bubbletop.torch
    bubbletop.torch.instrument(schedule, step=100)
optimizer = torch.optim.SGD([p for stage in made for p in stage.submod.parameters()], lr=0.01)
x, target = torch.randn(rows * microbatches, width), torch.randn(rows * microbatches, width)
losses = []
for _ in range(steps):
    optimizer.zero_grad()
    arguments = (x,) if 0 in mine else ()
    kwargs = {"target": target, "losses": losses} if virtual - 1 in mine else {}
    schedule.step(*arguments, **kwargs)
    optimizer.step()


def flat(actions):
    for action in actions or ():
        if action is None:
            continue
        if getattr(action, "sub_actions", None):
            yield from flat(action.sub_actions)
        elif action.computation_type.value in "FIWB":
            yield [action.stage_index, action.computation_type.value, action.microbatch_index]


with_comms = getattr(schedule, "pipeline_order_with_comms", None) or getattr(schedule, "pipeline_order", None)
plan = list(flat(with_comms[here])) if with_comms else None
messages = sum(1 for a in with_comms[here] if a is not None and a.computation_type.value in ("SEND_F", "SEND_B", "RECV_F", "RECV_B")
               ) if getattr(schedule, "pipeline_order_with_comms", None) else None
with open(os.path.join(folder, "rank%d.json" % rank), "w") as out:
    json.dump({"plan": plan, "executed": executed, "stages": mine, "messages": messages,
               "loss": [float(loss) for loss in losses]}, out)
dist.barrier()
dist.destroy_process_group()
