"""Handwritten digits in plain PyTorch: a hand-written loop, which can be stopped and resumed after any step."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import steepest_sdk
from steepest_sdk.pytorch import ResumableLoader, TrainingState


def main() -> None:
    """Trains, and prints how well it has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    epochs = parser.parse_args().epochs

    torch.manual_seed(1)
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    loader = ResumableLoader(TensorDataset(images, labels), batch_size=32, seed=1)

    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(512, 10),
    )  # fmt: skip
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)

    state = TrainingState(model=model, optimiser=optimiser, schedule=schedule, loader=loader)
    run = steepest_sdk.start(save=state.save, load=state.load)

    for epoch in range(loader.epoch, epochs):
        for batch, targets in loader:
            loss = nn.functional.cross_entropy(model(batch), targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            run.report(epoch=epoch + 1, loss=loss.item())
        schedule.step()
        print(f"epoch {epoch + 1} of {epochs}, loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        print(f"final loss {nn.functional.cross_entropy(model(images), labels).item()!r}")


if __name__ == "__main__":
    main()
