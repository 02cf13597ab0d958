"""Lightning trainings beyond the example: a loader without a saved position, accumulated gradients, a plateau schedule."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steepest_sdk.lightning import SteepestCallback
from steepest_sdk.pytorch import ResumableLoader


class Digits(LightningModule):  # type: ignore[misc]  # lightning is not there when types are checked
    """Two layers, a dropout between them, and a learning rate that falls where the loss does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10))

    def training_step(self, batch: list[Any]) -> dict[str, Any]:
        """The loss and another metric."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.log("train_loss", loss)
        return {"loss": loss, "batch": len(images)}

    def validation_step(self, batch: list[Any]) -> None:
        """A metric whose name does not say that it is a validation's."""
        images, labels = batch
        self.log("accuracy", (self.layers(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> dict[str, Any]:
        """Momentum, halved when the training loss has not fallen for an epoch."""
        optimiser = torch.optim.SGD(self.parameters(), lr=0.3, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=0)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "monitor": "train_loss"}}


def main() -> None:
    """Trains, and prints how well it has learned."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--ordinary-loader", action="store_true")
    given = parser.parse_args()

    seed_everything(1, verbose=False)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    data = TensorDataset(images, labels)
    loader = (
        DataLoader(data, batch_size=32, shuffle=True) if given.ordinary_loader else ResumableLoader(data, batch_size=32)
    )
    model = Digits()
    steepest = SteepestCallback(every=2)
    trainer = Trainer(
        max_epochs=given.epochs,
        max_steps=given.max_steps,
        accumulate_grad_batches=given.accumulate,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[steepest],
    )
    trainer.fit(model, loader, DataLoader(data, batch_size=600), ckpt_path=steepest.checkpoint)
    model.eval()
    with torch.no_grad():
        print(f"final loss {nn.functional.cross_entropy(model.layers(images), labels).item()!r}")  # noqa: T201


if __name__ == "__main__":
    main()
