"""A training in PyTorch that holds memory of a GPU, alone or as a rank of a gang (DDP by gloo): a job of ``gpu_check``."""

from __future__ import annotations

import argparse
import os
import time

SUMMED = "the ranks sum to"
SEES = "GPUs that it sees:"


def main() -> None:
    """Train, and print what the ranks sum to."""
    import torch  # noqa: PLC0415 - the check itself does without
    from torch import nn  # noqa: PLC0415 - as above

    import steepest_sdk  # noqa: PLC0415 - as above
    from steepest_sdk.pytorch import TrainingState  # noqa: PLC0415 - as above

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    steps = parser.parse_args().steps
    torch.manual_seed(1)
    where = torch.device("cuda", 0)
    print(f"{SEES} {torch.cuda.device_count()}: {torch.cuda.get_device_name(0)}", flush=True)
    inner = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 1)).to(where)
    optimiser = torch.optim.Adam(inner.parameters())
    model: nn.Module = inner
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(inner)
        total = torch.tensor([torch.distributed.get_rank() + 1])
        torch.distributed.all_reduce(total)
        print(f"{SUMMED} {total.item()} on {torch.cuda.get_device_name(0)}", flush=True)
    state = TrainingState(model=inner, optimiser=optimiser)
    run = steepest_sdk.start(save=state.save, load=state.load)
    batch = torch.randn(4096, 256, generator=torch.Generator().manual_seed(2)).to(where)
    for step in run.steps(steps):
        loss = (model(batch) - batch.mean(1, keepdim=True)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        run.report(step=step, loss=loss.item())
        time.sleep(0.1)


if __name__ == "__main__":
    main()
