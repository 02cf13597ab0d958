"""A recurrent network with tanh units (Elman 1990) that reads a digit row by row, eight rows of eight pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits
from steepest_lab.jobs.optimisers import Momentum
from steepest_lab.jobs.softmax import cross_entropy

BATCH = 128
ROWS, PIXELS, HIDDEN, CLASSES = 8, 8, 64, 10


class Recurrence:
    """h ← tanh(x U + h V + b) over the rows of a batch; where a row is missing, h stays.

    The values of the last pass are kept for the backward pass.
    """

    def __init__(self, parameters: dict[str, Array], name: str, rng: np.random.Generator) -> None:
        """Draw the parameters and add them to ``parameters``, under ``name``."""
        self._parameters, self._name = parameters, name
        shape = (PIXELS + HIDDEN, HIDDEN)
        parameters[f"{name}.w"] = rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
        parameters[f"{name}.b"] = np.zeros(HIDDEN, np.float32)
        self._tape: list[tuple[Array, Array, Array]] = []

    def read(self, rows: Sequence[Array], there: Sequence[Array]) -> Array:
        """The last h, BATCH × HIDDEN.

        Args:
            rows: BATCH × PIXELS each.
            there: BATCH × 1 each: 1 where the row exists, 0 where it is missing.
        """
        weights, bias = self._parameters[f"{self._name}.w"], self._parameters[f"{self._name}.b"]
        hidden: Array = np.zeros((BATCH, HIDDEN), np.float32)
        self._tape = []
        for row, exists in zip(rows, there, strict=True):
            seen = np.concatenate([row, hidden], axis=1)
            new = np.tanh(seen @ weights + bias)
            self._tape.append((seen, new, exists))
            hidden = hidden + exists * (new - hidden)
        return hidden

    def read_back(self, by_hidden: Array, gradients: dict[str, Array]) -> None:
        """Add the gradient of the last pass, from the one with respect to the last h, to ``gradients``."""
        weights = self._parameters[f"{self._name}.w"]
        for seen, new, exists in reversed(self._tape):
            by_sum = by_hidden * exists * (1 - new**2)
            gradients[f"{self._name}.w"] += seen.T @ by_sum
            gradients[f"{self._name}.b"] += by_sum.sum(axis=0)
            by_hidden = by_hidden * (1 - exists) + (by_sum @ weights.T)[:, PIXELS:]


class RowReader:
    """Classifies noisy digits by the last states of recurrences, each of which reads the rows in its own order."""

    def __init__(self, seed: int, directions: Sequence[int], *, shortest: int = ROWS) -> None:
        """Draw the parameters.

        Args:
            seed: Of the parameters.
            directions: For each recurrence 1 (from the first row on) or −1 (from the last one).
            shortest: Each digit keeps at least this many of its first rows; the number is drawn.
        """
        self._images, self._labels = digits()
        self._directions, self._shortest = directions, shortest
        rng = np.random.default_rng(seed)
        self._parameters: dict[str, Array] = {}
        self._recurrences = [Recurrence(self._parameters, f"rows{at}", rng) for at in range(len(directions))]
        width = HIDDEN * len(directions)
        self._parameters["scores.w"] = rng.standard_normal((width, CLASSES), np.float32) / np.float32(width**0.5)
        self._parameters["scores.b"] = np.zeros(CLASSES, np.float32)
        self._optimiser = Momentum(self._parameters, rate=0.01)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Cross-entropy and its gradient, backpropagated through all rows, on random noisy digits."""
        drawn = rng.integers(len(self._images), size=BATCH)
        images = self._images[drawn] + 0.2 * rng.standard_normal((BATCH, ROWS * PIXELS), np.float32)
        lengths = rng.integers(self._shortest, ROWS + 1, size=(BATCH, 1))
        rows = np.split(images, ROWS, axis=1)
        there = [(at < lengths).astype(np.float32) for at in range(ROWS)]
        hidden = np.concatenate(
            [
                one.read(rows[::direction], there[::direction])
                for one, direction in zip(self._recurrences, self._directions, strict=True)
            ],
            axis=1,
        )
        scores = hidden @ self._parameters["scores.w"] + self._parameters["scores.b"]
        loss, by_scores = cross_entropy(scores, self._labels[drawn])

        gradients: dict[str, Array] = {name: np.zeros_like(array) for name, array in self._parameters.items()}
        gradients["scores.w"] += hidden.T @ by_scores
        gradients["scores.b"] += by_scores.sum(axis=0)
        by_hidden = by_scores @ self._parameters["scores.w"].T
        for one, part in zip(self._recurrences, np.split(by_hidden, len(self._recurrences), axis=1), strict=True):
            one.read_back(part, gradients)
        return loss, gradients

    def update(self, contributions: dict[str, Array]) -> None:
        """Gradient descent with momentum."""
        self._optimiser.update(contributions)


class Rnn(RowReader):
    """One recurrence, from the first row to the last."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, (1,))


if __name__ == "__main__":
    harness.main("rnn", Rnn, steps=900, batches=8, measure="cross-entropy")
