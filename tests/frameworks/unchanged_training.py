"""A PyTorch training that knows nothing of Steepest, in one of three styles; its last line is the digest of its weights."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCH = 40
"""Steps of an epoch."""


def tensors(data: TensorDataset) -> Iterator[list[Any]]:
    """The plain style: batches are slices of tensors, drawn in this process."""
    inputs, targets = data.tensors
    while True:
        for batch in torch.randperm(len(inputs)).split(32):
            yield [inputs[batch], targets[batch]]


def workers(data: TensorDataset) -> Iterator[list[Any]]:
    """Two forked workers, which outlive an epoch and hold batches ahead."""
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    while True:
        yield from loader


def new_workers(data: TensorDataset) -> Iterator[list[Any]]:
    """One new worker each epoch, as is the default of a loader."""
    while True:
        yield from DataLoader(data, batch_size=32, shuffle=True, num_workers=1)


STYLES = {"tensors": tensors, "workers": workers, "new-workers": new_workers}


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--style", choices=STYLES, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(32 * EPOCH, 32)
    data = TensorDataset(inputs, (inputs @ torch.randn(32, 4) / 6).sin())
    model = nn.Sequential(nn.Linear(32, options.width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(options.width, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate)
    batches = STYLES[options.style](data)
    for step in range(1, options.steps + 1):
        batch, expected = next(batches)
        loss = nn.functional.mse_loss(model(batch), expected)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}/{options.steps} loss {loss.item():.9f}", flush=True)  # noqa: T201
        time.sleep(options.pause)
    weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    print("digest", hashlib.sha256(weights).hexdigest(), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
