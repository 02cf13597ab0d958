"""Saves and restores a plain PyTorch loop for ``steepest_sdk.start``: its whole state, and its position in the data.

    loader = ResumableLoader(dataset, batch_size=32)
    state = TrainingState(model=model, optimiser=optimiser, loader=loader)
    run = steepest_sdk.start(save=state.save, load=state.load)

It owns which parts of a PyTorch training are state. It must never know steps, reports or the supervisor.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Sampler

FILE = "training.pt"


class Stateful(Protocol):
    """A model, an optimiser, a schedule, a gradient scaler, a ``ResumableLoader``."""

    def state_dict(self) -> Any:
        """Everything that training changes in it."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Restores that state."""


class TrainingState:
    """The parts of a training and the states of its random generators, saved as one file.

    Args:
        parts: Everything that training changes, under names of your choice.
    """

    def __init__(self, **parts: Stateful) -> None:
        self._parts = parts

    def save(self, folder: Path) -> None:
        """Writes ``training.pt`` with ``torch.save``."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        torch.save({"parts": parts, "random": random_state()}, folder / FILE)

    def load(self, folder: Path) -> None:
        """Restores the state, with tensors and plain values only; the random generators continue where they were.

        Raises:
            ValueError: It has other parts than this training.
        """
        # Load to the CPU: the device that a tensor was saved from may not exist here. The owner copies it to its device.
        saved = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        if saved["parts"].keys() != self._parts.keys():
            raise ValueError(f"{folder / FILE} has {sorted(saved['parts'])}; this training has {sorted(self._parts)}")
        for name, part in self._parts.items():
            part.load_state_dict(saved["parts"][name])
        restore_random_state(saved["random"])


class ResumableLoader(DataLoader):  # type: ignore[misc]  # torch is not installed when types are checked
    """A ``DataLoader`` that continues where it was stopped, even in the middle of an epoch.

    Each pass is an epoch, whose order depends only on the seed and the epoch. It does not use PyTorch's global
    generator, and batches that its workers prefetched are fetched again. The random generators of workers start again
    after a resume, so augmentation must derive from the index.

    Args:
        dataset: With a length and items by index.
        seed: Seed of the order.
        shuffle: Whether the order changes from epoch to epoch.
        options: Other arguments of ``DataLoader``, except a sampler and a generator.

    Attributes:
        epoch: Number of complete epochs.
    """

    def __init__(self, dataset: Any, *, seed: int = 0, shuffle: bool = True, **options: Any) -> None:
        self.epoch = 0
        self._batches_done = 0
        self._resumed = False
        self._order = _Order(len(dataset), seed, shuffle=shuffle)
        super().__init__(dataset, sampler=self._order, generator=torch.Generator(), **options)

    def __iter__(self) -> Iterator[Any]:
        """The remaining batches of this epoch."""
        if not self._resumed:
            self.end_epoch()
        self._resumed = False
        self._order.begin(self.epoch, self._batches_done * (self.batch_size or 1))
        self.generator.manual_seed(self._order.seed + self.epoch)
        for batch in super().__iter__():
            self._batches_done += 1
            yield batch
        self.end_epoch()

    def end_epoch(self) -> None:
        """Ends the epoch if it has at least one batch; a pass that runs to its end does this itself."""
        if self._batches_done:
            self.epoch += 1
            self._batches_done = 0

    def state_dict(self) -> dict[str, int]:
        """The position in the data: complete epochs, and batches taken since then."""
        return {"epoch": self.epoch, "batches": self._batches_done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restores a position; the next pass has the remaining batches of its epoch, possibly none."""
        self.epoch, self._batches_done = state["epoch"], state["batches"]
        self._resumed = True


class _Order(Sampler):  # type: ignore[misc]  # torch is not installed when types are checked
    """Indices from 0 in the order of an epoch, without those that were already taken.

    As in PyTorch's ``DistributedSampler``, epoch e shuffles with the seed plus e.
    """

    def __init__(self, length: int, seed: int, *, shuffle: bool) -> None:
        self.seed = seed
        self._length = length
        self._shuffle = shuffle
        self._epoch = 0
        self._taken = 0

    def begin(self, epoch: int, taken: int) -> None:
        self._epoch = epoch
        self._taken = taken

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        if not self._shuffle:
            return iter(range(self._taken, self._length))
        generator = torch.Generator().manual_seed(self.seed + self._epoch)
        return iter(torch.randperm(self._length, generator=generator)[self._taken :].tolist())


def random_state() -> dict[str, Any]:
    """The states of Python's, NumPy's and PyTorch's generators, as tensors and plain values."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        name, key, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (name, key.tolist(), *rest)
    return state


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Restores the generators; those of GPUs are skipped if the number of GPUs differs."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if torch.cuda.is_available() and len(state.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
