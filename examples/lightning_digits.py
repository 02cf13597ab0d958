"""Handwritten digits in PyTorch Lightning, stopped and resumed after any step by a loader that saves its position."""

import argparse

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepest_sdk.lightning import SteepestCallback
from steepest_sdk.pytorch import ResumableLoader


class Digits(LightningModule):
    """Two layers and a dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """The loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.layers(images), labels)

    def validation_step(self, batch: list[Tensor]) -> None:
        """The loss on images that it does not learn from."""
        self.log("val_loss", self.training_step(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.001)


def main() -> None:
    """Trains, and prints how well it has learned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    epochs = parser.parse_args().epochs

    seed_everything(1, verbose=False)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    loader = ResumableLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=32, seed=1)
    held_out = DataLoader(TensorDataset(images[1500:], labels[1500:]), batch_size=256)

    steepest = SteepestCallback()
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[steepest],
    )  # fmt: skip
    trainer.fit(Digits(), loader, held_out, ckpt_path=steepest.checkpoint)
    print(f"final loss {trainer.callback_metrics['val_loss'].item()!r}")


if __name__ == "__main__":
    main()
