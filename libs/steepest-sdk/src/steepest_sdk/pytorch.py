"""What a plain PyTorch loop hands to ``steepest_sdk.start``: all of its state in one file, and its place in the data.

    loader = ResumableLoader(dataset, batch_size=32)
    state = TrainingState(model=model, optimiser=optimiser, loader=loader)
    run = steepest_sdk.start(save=state.save, load=state.load)

It owns what of a PyTorch training is state. It never knows steps, reports or the supervisor.
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
        """All that training changes in it."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Takes it over again."""


class TrainingState:
    """The parts of a training and the states of its random generators, saved as one file.

    Args:
        parts: Everything that training changes, by a name of your choice.
    """

    def __init__(self, **parts: Stateful) -> None:
        self._parts = parts

    def save(self, folder: Path) -> None:
        """Writes ``training.pt`` with ``torch.save``."""
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        torch.save({"parts": parts, "random": random_state()}, folder / FILE)

    def load(self, folder: Path) -> None:
        """Reads it again, tensors and plain values only; the random generators go on where they were.

        Raises:
            ValueError: It holds other parts than this training has.
        """
        # On whatever device a tensor was saved, its owner copies it to its own.
        saved = torch.load(folder / FILE, map_location="cpu", weights_only=True)
        if saved["parts"].keys() != self._parts.keys():
            raise ValueError(f"{folder / FILE} holds {sorted(saved['parts'])}; this training has {sorted(self._parts)}")
        for name, part in self._parts.items():
            part.load_state_dict(saved["parts"][name])
        restore_random_state(saved["random"])


class ResumableLoader(DataLoader):  # type: ignore[misc]  # torch is not there when types are checked
    """A ``DataLoader`` that a resumed training finds where it was left, also in the middle of an epoch.

    Each pass over it is an epoch, with an order of its own that follows from the seed and the epoch alone. It draws
    nothing from PyTorch's global generator, and what its workers have fetched ahead is fetched again. With workers,
    augmentation by their random generators begins anew after a resume: let it follow from the index.

    Args:
        dataset: With a length and items by index.
        seed: Of the order.
        shuffle: Whether the order changes from epoch to epoch.
        options: What else ``DataLoader`` takes, but no sampler and no generator.

    Attributes:
        epoch: How many epochs are complete.
    """

    def __init__(self, dataset: Any, *, seed: int = 0, shuffle: bool = True, **options: Any) -> None:
        self.epoch = 0
        self._batches_done = 0
        self._resumed = False
        self._order = _Order(len(dataset), seed, shuffle=shuffle)
        super().__init__(dataset, sampler=self._order, generator=torch.Generator(), **options)

    def __iter__(self) -> Iterator[Any]:
        """The batches that are left of this epoch."""
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
        """Counts an epoch of which at least one batch was taken as complete; a pass that runs to its end does so itself."""
        if self._batches_done:
            self.epoch += 1
            self._batches_done = 0

    def state_dict(self) -> dict[str, int]:
        """The place in the data: complete epochs, and batches taken since."""
        return {"epoch": self.epoch, "batches": self._batches_done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Goes to a place; the next pass is what is left of its epoch, which may be nothing."""
        self.epoch, self._batches_done = state["epoch"], state["batches"]
        self._resumed = True


class _Order(Sampler):  # type: ignore[misc]  # torch is not there when types are checked
    """Indices from 0 in the order of an epoch, without those that were taken before.

    As PyTorch's ``DistributedSampler``, epoch e shuffles with the seed plus e.
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
    """Lets the generators go on where they were; those of GPUs that are not here are left out."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if torch.cuda.is_available() and len(state.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
