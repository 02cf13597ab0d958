"""Linear regression of the disease's progression on ten measures, their squares and products.

Noise is added to the drawn measures, which on average is ridge regression (Bishop 1995, "Training with Noise is Equivalent
to Tikhonov Regularization"). Almost all of the loss is gone after a few dozen steps.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, diabetes
from steepest_lab.jobs.optimisers import Momentum

BATCH = 2048


class Linear:
    """y = w · φ(x), by gradient descent on the mean squared error."""

    def __init__(self, _seed: int) -> None:
        self._measures, self._progression = diabetes()
        self._pairs = np.triu_indices(self._measures.shape[1])
        features = 1 + self._measures.shape[1] + len(self._pairs[0])
        self._parameters: dict[str, Array] = {"weights": np.zeros(features, np.float32)}
        self._optimiser = Momentum(self._parameters, rate=0.002)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Mean squared error and its gradient on noisy measures of random patients."""
        patients = rng.integers(len(self._measures), size=BATCH)
        noise = 0.1 * rng.standard_normal((BATCH, self._measures.shape[1]), np.float32)
        features = self._features(self._measures[patients] + noise)
        errors = features @ self._parameters["weights"] - self._progression[patients]
        return float(np.mean(errors**2)), {"weights": (2 / BATCH) * (errors @ features)}

    def update(self, contributions: dict[str, Array]) -> None:
        """Gradient descent with momentum."""
        self._optimiser.update(contributions)

    def _features(self, measures: Array) -> Array:
        """φ: 1, the measures, and the product of each pair of them; BATCH × 66."""
        first, second = self._pairs
        products = measures[:, first] * measures[:, second]
        return np.concatenate([np.ones((len(measures), 1), np.float32), measures, products], axis=1)


if __name__ == "__main__":
    harness.main("linear", Linear, steps=600, batches=12, measure="mean squared error")
