"""A callback for Keras 3, on any of its backends: it reports losses and validation metrics, and is left between epochs.

    steepest = SteepestCallback()
    model.fit(x, y, epochs=30, initial_epoch=steepest.initial_epoch, callbacks=[steepest])

``fit`` cannot begin in the middle of an epoch, so an epoch's end is the only safe point; make epochs short with
``steps_per_epoch``. A checkpoint is Keras's own ``.weights.h5``, optimiser included, and what that leaves out: the states
of the random generators. The states of other callbacks (a plateau's patience) are not in it.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np

import steepest_sdk

WEIGHTS = "model.weights.h5"
SEEDS = "seeds.npz"
RANDOM = "random.json"


class SteepestCallback(keras.callbacks.Callback):  # type: ignore[misc]  # keras is not there when types are checked
    """Reports, saves when it is asked to, and leaves on SIGTERM. Make it in the main thread, for one call of ``fit``.

    Args:
        every: Report the loss every so many steps, as their mean; each step in between is reported without.
        mode: As of ``steepest_sdk.start``.

    Attributes:
        initial_epoch: What ``fit`` is to begin with; 0 at the beginning of a training.
    """

    def __init__(self, *, every: int = 1, mode: Literal["on-request", "on-stop"] = "on-request") -> None:
        super().__init__()
        self._every = every
        self._restored: Path | None = None
        self._run = steepest_sdk.start(save=self._save, load=self._remember, mode=mode)
        self.initial_epoch = self._run.epoch
        self._epochs: Iterator[int] = iter(())
        self._batches = 0
        self._told_batches = 0
        self._told_sum = 0.0

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Learns how many epochs there will be."""
        del logs
        self._epochs = self._run.epochs(self.params["epochs"])

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """The safe point: nothing of the epoch is done, and all of the one before, other callbacks included.

        The first one restores: ``fit`` has built the model and its optimiser by now, and draws the order of the data next.

        Raises:
            SystemExit: With status 85: the process was told to leave, and its state is saved.
            ValueError: ``fit`` was not told where to begin.
        """
        del logs
        if next(self._epochs, None) != epoch + 1:
            raise ValueError(
                f"fit() begins with epoch {epoch} and the checkpoint with {self.initial_epoch}: "
                "call fit(..., initial_epoch=steepest.initial_epoch)"
            )
        if self._restored is not None:
            self._restore(self._restored)
            self._restored = None
        self._batches = self._told_batches = 0
        self._told_sum = 0.0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the step, and the mean loss of the steps since the last one that was reported."""
        step = self._run.step + batch + 1 - self._batches
        self._batches = batch + 1
        if logs is None or "loss" not in logs or step % self._every:
            self._run.record(step)
            return
        # Keras shows the mean over the epoch so far. Times its batches, less what was there at the last report, it is
        # the sum since; a last batch that is smaller than the others counts as little as it does in Keras's mean.
        total = float(logs["loss"]) * self._batches
        loss = (total - self._told_sum) / (self._batches - self._told_batches)
        self._told_batches, self._told_sum = self._batches, total
        self._run.record(step, loss=loss)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the epoch's metrics, those of the validation among them; the loss was told step by step."""
        del epoch
        self._run.record(self._run.step, **{name: value for name, value in (logs or {}).items() if name != "loss"})

    def _save(self, folder: Path) -> None:
        self.model.save_weights(folder / WEIGHTS)
        np.savez(
            folder / SEEDS,
            **{str(number): keras.ops.convert_to_numpy(seed) for number, seed in enumerate(_seeds(self.model))},
        )
        (folder / RANDOM).write_text(json.dumps(_random_state()))

    def _restore(self, folder: Path) -> None:
        self.model.load_weights(folder / WEIGHTS)
        with np.load(folder / SEEDS, allow_pickle=False) as seeds:
            for number, variable in enumerate(_seeds(self.model)):
                variable.assign(seeds[str(number)])
        _restore_random_state(json.loads((folder / RANDOM).read_text()))

    def _remember(self, folder: Path) -> None:
        self._restored = folder


def _seeds(model: Any) -> list[Any]:
    """The states of the layers' random generators, which are variables of the model but none of its weights."""
    others = {id(variable) for variable in [*model.weights, *model.metrics_variables]}
    return [variable for variable in model.variables if id(variable) not in others]


def _random_state() -> dict[str, Any]:
    """The generators from which ``fit`` draws the order of the data: NumPy's, or PyTorch's with that backend."""
    name, key, *rest = np.random.get_state()
    state = {"python": random.getstate(), "numpy": [name, np.asarray(key).tolist(), *rest]}
    if keras.backend.backend() == "torch":
        state["torch"] = importlib.import_module("torch").get_rng_state().tolist()
    return state


def _restore_random_state(state: Mapping[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(tuple(state["numpy"]))
    if "torch" in state and keras.backend.backend() == "torch":
        torch = importlib.import_module("torch")
        torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
