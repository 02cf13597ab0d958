"""Shared by the processes of a gang: gradients of a part of a step's batches, the update, leaving when a peer is lost.

A step's batches depend on the seed and the step alone, and not on who computes them. The sums are in double precision, in
which the addition of single-precision gradients is exact except the last bits, so that the order of the additions does
not show.
"""

from __future__ import annotations

import time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array
from steepest_lab.jobs.mlp import Perceptron

LOST_STATUS = 1
"""Not 0 and not 85: the job has failed, and is started again from its last checkpoint."""

_STOP_MAY_FOLLOW_S = 1.0  # peers are stopped one after the other: that one is gone may be the beginning of a stop
_PRINT_EVERY_STEPS = 30

_Number = TypeVar("_Number", bound=np.floating)


class SharedStep:
    """The part of one process in the steps of a gang."""

    def __init__(self, model: Perceptron, given: harness.Options) -> None:
        self._model = model
        self._given = given
        _, example = model.batch(np.random.default_rng(given.seed))
        self._shapes = {name: array.shape for name, array in example.items()}

    @property
    def size(self) -> int:
        """The number of the model's parameters."""
        return sum(int(np.prod(shape)) for shape in self._shapes.values())

    def contribution(self, step: int, batches: range) -> NDArray[np.float64]:
        """The sum of the gradients of some batches of a step, and at the end that of their losses: ``size`` + 1 values."""
        total = np.zeros(self.size + 1)
        for batch in batches:
            loss, gradients = self._model.batch(np.random.default_rng([self._given.seed, step, batch]))
            total += np.concatenate([*(gradients[name].ravel() for name in self._shapes), [loss]], dtype=np.float64)
        return total

    def update(self, total: NDArray[np.float64]) -> float:
        """Update the model with the sum over all batches of a step; return their mean loss."""
        mean = total / self._given.batches
        self._model.update({name: part.astype(np.float32) for name, part in self._parts(mean).items()})
        return float(mean[-1])

    @property
    def parameters(self) -> Array:
        """A copy of the model's parameters: ``size`` values."""
        return np.concatenate([self._model.state[name].ravel() for name in self._shapes])

    @parameters.setter
    def parameters(self, values: Array) -> None:
        for name, part in self._parts(values).items():
            self._model.state[name][...] = part

    def _parts(self, values: NDArray[_Number]) -> dict[str, NDArray[_Number]]:
        parts: dict[str, NDArray[_Number]] = {}
        first = 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            parts[name] = values[first : first + size].reshape(shape)
            first += size
        return parts


def report(run: steepest_sdk.Run, name: str, given: harness.Options, step: int, loss: float) -> None:
    """Report a step; every 30th one and the last are printed too, by the chief."""
    if run.is_chief and (step % _PRINT_EVERY_STEPS == 0 or step == given.steps):
        harness.say(f"{name}: step {step} of {given.steps}, {run.world_size} processes, nats {loss:.8g}\n")
    run.report(step, loss=loss)


def leave(run: steepest_sdk.Run, name: str, error: Exception) -> None:
    """Leave, with 85 if the gang is being stopped, and otherwise with a failure that costs no step.

    Raises:
        SystemExit: Always.
    """
    deadline = time.monotonic() + _STOP_MAY_FOLLOW_S
    while time.monotonic() < deadline:
        run.safe_point()
        time.sleep(0.02)
    if run.step:
        run.checkpoint()
    harness.say(f"{name}: rank {run.rank} of {run.world_size} has lost a peer after step {run.step}: {error}\n")
    raise SystemExit(LOST_STATUS)
