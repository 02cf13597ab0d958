"""Matrix factorisation: digits with 30 % of their pixels missing, as a product of two thin matrices.

From small initial values the factors grow one after the other, the strongest first (Saxe, McClelland, Ganguli 2014): the
loss falls in steps, and looks converged before each of them.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits
from steepest_lab.jobs.optimisers import Momentum

RANK = 16
ROWS = 512
MISSING = 0.3
START = 1e-3


class Factorisation:
    """X ≈ U · V by gradient descent on the squared error of the pixels that are not missing."""

    def __init__(self, seed: int) -> None:
        images, _ = digits()
        rng = np.random.default_rng(seed)
        self._images = images
        self._seen = (rng.random(images.shape) >= MISSING).astype(np.float32)
        self._parameters: dict[str, Array] = {
            "rows": START * rng.standard_normal((len(images), RANK), np.float32),
            "columns": START * rng.standard_normal((RANK, images.shape[1]), np.float32),
        }
        self._optimiser = Momentum(self._parameters, rate=0.006)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Mean squared error, and the gradient of a row's summed error, on random images."""
        drawn = rng.choice(len(self._images), ROWS, replace=False)
        rows, columns = self._parameters["rows"][drawn], self._parameters["columns"]
        errors = self._seen[drawn] * (rows @ columns - self._images[drawn])
        by_rows = np.zeros_like(self._parameters["rows"])
        by_rows[drawn] = errors @ columns.T
        loss = float(np.sum(errors**2) / np.sum(self._seen[drawn]))
        return loss, {"rows": by_rows, "columns": (rows.T @ errors) / ROWS}

    def update(self, contributions: dict[str, Array]) -> None:
        """Gradient descent with momentum."""
        self._optimiser.update(contributions)


if __name__ == "__main__":
    harness.main("factorisation", Factorisation, steps=1000, batches=48, measure="mean squared error")
