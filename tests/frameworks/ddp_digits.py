"""A training by ``DistributedDataParallel`` over Gloo that saves and resumes by the SDK, and says which GPUs it sees."""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

import steepest_sdk
from steepest_sdk.pytorch import TrainingState

BATCH = 64
SEEN = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")


def main() -> None:
    """Train to the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each step: it then computes little")
    given = parser.parse_args()
    print("sees", *(os.environ.get(name, "-") for name in SEEN), flush=True)  # noqa: T201 - what tests read
    torch.set_num_threads(1)
    torch.manual_seed(1)
    inner = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(inner.parameters(), lr=0.01)
    state = TrainingState(model=inner, optimiser=optimiser)
    run = steepest_sdk.start(save=state.save, load=state.load)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(inner)  # after the state was loaded: it sends rank 0's to all
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    loss = torch.zeros(())
    for step in run.steps(given.steps):
        chance = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
        drawn = torch.randint(len(images), (BATCH,), generator=chance)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(images[drawn]), labels[drawn])
        loss.backward()
        optimiser.step()
        run.report(step, loss=loss.item())
        time.sleep(given.pause)
    print(f"final loss {loss.item()!r}", flush=True)  # noqa: T201 - what tests compare
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
