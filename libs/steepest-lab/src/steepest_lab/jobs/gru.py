"""A gated recurrent network (Cho et al. 2014) that reads a digit row by row, eight rows of eight pixels.

Its loss stays near that of guessing until the gates have learned to keep the information of the first rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits
from steepest_lab.jobs.optimisers import Momentum
from steepest_lab.jobs.softmax import cross_entropy

BATCH = 128
ROWS, PIXELS, HIDDEN, CLASSES = 8, 8, 64, 10


class RowState(NamedTuple):
    """The values of one row that the backward pass needs; all BATCH × HIDDEN, except ``row``, BATCH × PIXELS."""

    row: Array
    before: Array
    update: Array
    reset: Array
    candidate: Array


class Gru:
    """h ← (1 - z) h + z tanh(W [x, r h]), with update gate z and reset gate r; the scores are computed from the last h."""

    def __init__(self, seed: int) -> None:
        self._images, self._labels = digits()
        rng = np.random.default_rng(seed)
        gate = (PIXELS + HIDDEN, HIDDEN)
        shapes = {"update": gate, "reset": gate, "candidate": gate, "scores": (HIDDEN, CLASSES)}
        self._parameters: dict[str, Array] = {}
        for name, shape in shapes.items():
            self._parameters[f"{name}.w"] = rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
            self._parameters[f"{name}.b"] = np.zeros(shape[1], np.float32)
        self._optimiser = Momentum(self._parameters, rate=0.01)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Cross-entropy and its gradient, backpropagated through all rows, on random noisy digits."""
        drawn = rng.integers(len(self._images), size=BATCH)
        images = self._images[drawn] + 0.2 * rng.standard_normal((BATCH, ROWS * PIXELS), np.float32)
        hidden: Array = np.zeros((BATCH, HIDDEN), np.float32)
        states: list[RowState] = []
        for row in np.split(images, ROWS, axis=1):
            state = self._read(row, hidden)
            states.append(state)
            hidden = hidden + state.update * (state.candidate - hidden)
        loss, by_scores = cross_entropy(self._linear("scores", hidden), self._labels[drawn])

        gradients: dict[str, Array] = {name: np.zeros_like(array) for name, array in self._parameters.items()}
        by_hidden = self._backward("scores", hidden, by_scores, gradients)
        for state in reversed(states):
            by_hidden = self._backward_row(state, by_hidden, gradients)
        return loss, gradients

    def update(self, contributions: dict[str, Array]) -> None:
        """Gradient descent with momentum."""
        self._optimiser.update(contributions)

    def _read(self, row: Array, hidden: Array) -> RowState:
        seen = np.concatenate([row, hidden], axis=1)
        update, reset = _sigmoid(self._linear("update", seen)), _sigmoid(self._linear("reset", seen))
        candidate = np.tanh(self._linear("candidate", np.concatenate([row, reset * hidden], axis=1)))
        return RowState(row, hidden, update, reset, candidate)

    def _backward_row(self, state: RowState, by_after: Array, gradients: dict[str, Array]) -> Array:
        """The gradient with respect to the hidden state before a row, from the one after it; adds to ``gradients``."""
        row, before, update, reset, candidate = state
        by_candidate = by_after * update * (1 - candidate**2)
        kept = np.concatenate([row, reset * before], axis=1)
        by_kept = self._backward("candidate", kept, by_candidate, gradients)[:, PIXELS:]
        seen = np.concatenate([row, before], axis=1)
        by_update = by_after * (candidate - before) * update * (1 - update)
        by_reset = by_kept * before * reset * (1 - reset)
        by_seen = self._backward("update", seen, by_update, gradients)
        by_seen += self._backward("reset", seen, by_reset, gradients)
        return by_after * (1 - update) + by_kept * reset + by_seen[:, PIXELS:]

    def _linear(self, layer: str, inputs: Array) -> Array:
        return inputs @ self._parameters[f"{layer}.w"] + self._parameters[f"{layer}.b"]

    def _backward(self, layer: str, inputs: Array, by_outputs: Array, gradients: dict[str, Array]) -> Array:
        gradients[f"{layer}.w"] += inputs.T @ by_outputs
        gradients[f"{layer}.b"] += by_outputs.sum(axis=0)
        return by_outputs @ self._parameters[f"{layer}.w"].T


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))


if __name__ == "__main__":
    harness.main("gru", Gru, steps=800, batches=5, measure="cross-entropy")
