"""A mixture of Gaussians over digits by expectation maximisation on batches (Cappé, Moulines 2009, online EM).

Each step averages expected statistics, with a weight that falls as steps^-0.6, and sets the parameters from them: the
negative log-likelihood drops once, and hardly changes in the rest of the training.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits

BATCH = 512
PARTS = 24
GREY_LEVELS = 16
VARIANCE_LEAST = 0.3  # in squared grey levels: pixels that are always white have zero variance


class Mixture:
    """Gaussians with diagonal covariance; ``state`` has expected counts, sums and sums of squares of each part."""

    def __init__(self, seed: int) -> None:
        images, _ = digits()
        self._images = GREY_LEVELS * images
        rng = np.random.default_rng(seed)
        centres = self._images[rng.choice(len(images), PARTS, replace=False)]
        spread = self._images.var(axis=0)
        self.state: dict[str, Array] = {
            "counts": np.full(PARTS, 1 / PARTS),
            "sums": centres / np.float64(PARTS),
            "squares": (centres**2 + spread) / np.float64(PARTS),
            "updates": np.zeros(()),
        }

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """The negative log-likelihood in nats per image, and the expected statistics, on random digits."""
        drawn = self._images[rng.integers(len(self._images), size=BATCH)]
        images = drawn + rng.uniform(-0.5, 0.5, drawn.shape)
        counts = self.state["counts"][:, None]
        means = self.state["sums"] / counts
        variances = np.maximum(self.state["squares"] / counts - means**2, VARIANCE_LEAST)
        precisions = 1 / variances
        distances = (
            images**2 @ precisions.T - 2 * images @ (means * precisions).T + np.sum(means**2 * precisions, axis=1)
        )
        constants = np.log(counts[:, 0]) - 0.5 * np.sum(np.log(2 * np.pi * variances), axis=1)
        joint = constants - 0.5 * distances
        best = joint.max(axis=1, keepdims=True)
        likelihood = best + np.log(np.exp(joint - best).sum(axis=1, keepdims=True))
        shares = np.exp(joint - likelihood) / BATCH
        statistics = {"counts": shares.sum(axis=0), "sums": shares.T @ images, "squares": shares.T @ images**2}
        return -float(likelihood.mean()), statistics

    def update(self, contributions: dict[str, Array]) -> None:
        """Moves the statistics towards those of the step (their equation 11)."""
        self.state["updates"] += 1
        weight = float(self.state["updates"] + 1) ** -0.6
        for name, statistic in contributions.items():
            self.state[name] += weight * (statistic - self.state[name])


if __name__ == "__main__":
    harness.main("mixture", Mixture, steps=700, batches=10, measure="negative log-likelihood")
