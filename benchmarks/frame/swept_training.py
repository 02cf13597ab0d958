"""A training with settings to choose: a perceptron on scikit-learn's digits, for real sweeps.

As a program it is a job of Steepest: ``python -m benchmarks.frame.swept_training STEPS RATE MOMENTUM DECAY SPREAD``. Under
Ray Tune its class is used. A step takes a fifth of a second of CPU, and gives the loss on images that are not trained on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from steepest_lab.jobs.datasets import digits

WIDTH, BATCH, BATCHES, HELD_OUT = 256, 256, 300, 400
SETTINGS = ("rate", "momentum", "decay", "spread")
RANGES = {"rate": "log:1e-4..10", "momentum": "0.0..0.99", "decay": "log:1e-6..1e-1", "spread": "log:1e-3..10"}
"""Of the learning rate, its momentum, the decay of weights, and the spread of the first ones, as ``--param`` writes them."""

Array = Any


class Perceptron:
    """One hidden layer of rectified linear units, by stochastic gradient descent with momentum."""

    def __init__(self, rate: float, momentum: float, decay: float, spread: float) -> None:
        images, labels = digits()
        rng = np.random.default_rng(0)
        order = rng.permutation(len(labels))
        self._images, self._labels = images[order], labels[order]
        self._rate, self._momentum, self._decay = rate, momentum, decay
        sizes = ((64, WIDTH), (WIDTH, 10))
        self.weights: list[Array] = [spread * rng.standard_normal(size) / size[0] ** 0.5 for size in sizes]
        self.speeds: list[Array] = [np.zeros(size) for size in sizes]
        self.step = 0

    def train(self) -> float:
        """A step of several batches; the loss on held-out images afterwards."""
        self.step += 1
        rng = np.random.default_rng(self.step)
        with np.errstate(all="ignore"):  # a rate that is too large is found by its loss
            for _ in range(BATCHES):
                self._descend(rng.integers(HELD_OUT, len(self._labels), size=BATCH))
            return self._loss()

    def _descend(self, drawn: Array) -> None:
        hidden = np.maximum(self._images[drawn] @ self.weights[0], 0)
        by_outputs = _softmax(hidden @ self.weights[1])
        by_outputs[np.arange(len(drawn)), self._labels[drawn]] -= 1
        by_outputs /= len(drawn)
        by_hidden = (by_outputs @ self.weights[1].T) * (hidden > 0)
        for index, gradient in enumerate((self._images[drawn].T @ by_hidden, hidden.T @ by_outputs)):
            self.speeds[index] = self._momentum * self.speeds[index] - self._rate * (
                gradient + self._decay * self.weights[index]
            )
            self.weights[index] = self.weights[index] + self.speeds[index]

    def _loss(self) -> float:
        outputs = _softmax(np.maximum(self._images[:HELD_OUT] @ self.weights[0], 0) @ self.weights[1])
        return float(-np.log(outputs[np.arange(HELD_OUT), self._labels[:HELD_OUT]] + 1e-30).mean())

    def save(self, folder: Path) -> None:
        """Write all that it has learned."""
        np.savez(folder / "state.npz", *self.weights, *self.speeds, step=self.step)

    def load(self, folder: Path) -> None:
        """Go on from there."""
        with np.load(folder / "state.npz") as found:
            self.weights, self.speeds = ([found[f"arr_{one}"] for one in pair] for pair in ((0, 1), (2, 3)))
            self.step = int(found["step"])


def _softmax(outputs: Array) -> Array:
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main() -> None:
    """Train as a job of Steepest."""
    import steepest_sdk  # noqa: PLC0415 - Ray's side has none

    model = Perceptron(*map(float, sys.argv[2:]))
    run = steepest_sdk.start(save=model.save, load=model.load)
    for step in run.steps(int(sys.argv[1])):
        run.report(step, loss=model.train())


if __name__ == "__main__":
    main()
