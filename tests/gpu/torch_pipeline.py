"""A pipeline of one stage under torch.distributed.pipelining's 1F1B, on a GPU where there is one. It knows nothing of bubbletop.

Arguments: steps, microbatches. With a GPU exit status 77 says that this PyTorch cannot use it."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, ROWS = 1024, 256


def main(steps, microbatches):
    on_gpu = torch.cuda.is_available()
    if not on_gpu and "--cpu" not in sys.argv:
        print("this PyTorch sees no GPU")
        sys.exit(77)
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo", **({"device_id": device} if on_gpu else {}))
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers).to(device)
    stage = PipelineStage(model, 0, 1, device)
    schedule = Schedule1F1B(stage, microbatches, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(ROWS * microbatches, WIDTH, device=device)
    target = torch.randn(ROWS * microbatches, WIDTH, device=device)
    for _ in range(steps):
        losses = []
        optimizer.zero_grad()
        schedule.step(x, target=target, losses=losses)
        optimizer.step()
    print("loss", float(sum(losses)) / microbatches)
    dist.destroy_process_group()


main(int(sys.argv[1]), int(sys.argv[2]))
