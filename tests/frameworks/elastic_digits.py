"""A training by ``torch.distributed`` over Gloo: any number of processes divide each step's batches, and sum gradients.

It finds its peers by PyTorch's own variables, and saves and resumes by the SDK. Alone it needs neither.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

import steepest_sdk

BATCHES, BATCH = 6, 64


def main() -> None:
    """Train to the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds after each step, so that few are done meanwhile"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def save(folder: Path) -> None:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, folder / "state.pt")

    def load(folder: Path) -> None:
        state = torch.load(folder / "state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])

    run = steepest_sdk.start(save=save, load=load)
    together = "WORLD_SIZE" in os.environ
    if together:
        dist.init_process_group("gloo")
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images / 16), torch.tensor(labels)
    loss = 0.0
    for step in run.steps(given.steps):
        optimiser.zero_grad()
        total = torch.zeros((), dtype=torch.float64)
        for batch in range(rank, BATCHES, world_size):
            drawn = torch.randint(
                len(images), (BATCH,), generator=torch.Generator().manual_seed(step * BATCHES + batch)
            )
            one = nn.functional.cross_entropy(model(images[drawn]), labels[drawn]) / BATCHES
            one.backward()
            total += one.detach()
        if together:
            for values in (*(parameter.grad for parameter in model.parameters()), total):
                if values is None:
                    raise SystemExit("more processes than batches")
                dist.all_reduce(values)
        optimiser.step()
        loss = float(total)
        run.report(step, loss=loss)
        time.sleep(given.pause)
    print(f"final loss {loss!r}", flush=True)  # noqa: T201 - what tests compare
    if together:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
