"""A callback for Keras 3, on any of its backends: it reports losses and validation metrics, and can stop between epochs.

    steepest = SteepestCallback()
    model.fit(x, y, epochs=30, initial_epoch=steepest.initial_epoch, callbacks=[steepest])

``fit`` cannot start in the middle of an epoch, so the end of an epoch is the only safe point; make epochs short with
``steps_per_epoch``. A checkpoint is Keras's own ``.weights.h5``, optimiser included, plus the states of the random
generators, which that omits. The states of other callbacks (a plateau's patience) are not in it.
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


class SteepestCallback(keras.callbacks.Callback):  # type: ignore[misc]  # keras is not installed when types are checked
    """Reports, saves on request, and stops on SIGTERM. Create it in the main thread, for one call of ``fit``.

    Args:
        every: Report the mean loss every ``every`` steps; the steps in between are reported without it.
        mode: As for ``steepest_sdk.start``.

    Attributes:
        initial_epoch: The epoch for ``fit`` to start with; 0 for a new training.
    """

    def __init__(self, *, every: int = 1, mode: Literal["on-request", "on-stop"] = "on-request") -> None:
        super().__init__()
        self._every = every
        self._restored: Path | None = None
        self._run = steepest_sdk.start(save=self._save, load=self._remember, mode=mode)
        self.initial_epoch = self._run.epoch
        self._epochs: Iterator[int] = iter(())
        self._batches = 0
        self._reported_batches = 0
        self._reported_sum = 0.0

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Reads the number of epochs, and of steps where Keras knows those of an epoch before it trains."""
        del logs
        epochs, steps = self.params["epochs"], self.params.get("steps")
        self._epochs = self._run.epochs(epochs)
        if steps is not None:
            self._run.announce(steps=epochs * steps)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """The safe point: the previous epoch is complete, other callbacks included, and this one has not started.

        The first call restores: ``fit`` has built the model and its optimiser by now, and determines the order of the
            data next.

        Raises:
            SystemExit: With status 85: the process was asked to stop, and its state is saved.
            ValueError: ``fit`` was not called with ``initial_epoch``.
        """
        del logs
        if next(self._epochs, None) != epoch + 1:
            raise ValueError(
                f"fit() starts with epoch {epoch}, but the checkpoint with {self.initial_epoch}: "
                "call fit(..., initial_epoch=steepest.initial_epoch)"
            )
        if self._restored is not None:
            self._restore(self._restored)
            self._restored = None
        self._batches = self._reported_batches = 0
        self._reported_sum = 0.0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the step, and the mean loss of the steps since the last report."""
        step = self._run.step + batch + 1 - self._batches
        self._batches = batch + 1
        if logs is None or "loss" not in logs or step % self._every:
            self._run.record(step)
            return
        # Keras shows the mean over the epoch so far. Multiplied by the number of batches, minus the sum at the last report,
        # it is the sum since then; a smaller last batch has the same weight as in Keras's mean.
        total = float(logs["loss"]) * self._batches
        loss = (total - self._reported_sum) / (self._batches - self._reported_batches)
        self._reported_batches, self._reported_sum = self._batches, total
        self._run.record(step, loss=loss)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Reports the epoch's metrics, including those of the validation; the loss was reported step by step."""
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
    """The states of the layers' random generators, which are variables of the model but not weights."""
    others = {id(variable) for variable in [*model.weights, *model.metrics_variables]}
    return [variable for variable in model.variables if id(variable) not in others]


def _random_state() -> dict[str, Any]:
    """The states of the generators that determine the data order in ``fit``: NumPy's, or with its backend PyTorch's."""
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
