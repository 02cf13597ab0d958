"""Multinomial logistic regression on digits. It does not use Steepest: it prints like PyTorch's examples.

Its loss is read from its lines, and it cannot be checkpointed.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, Labels, digits
from steepest_lab.jobs.optimisers import Momentum

BATCH = 1024
_PRINT_EVERY_STEPS = 3


def cross_entropy(scores: Array, labels: Labels) -> tuple[float, Array]:
    """Mean cross-entropy in nats of softmax(scores), n × classes, and its gradient w.r.t. the scores, n × classes."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    probabilities = np.exp(shifted)
    totals = probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(np.mean(np.log(totals[:, 0]) - shifted[rows, labels]))
    probabilities /= totals
    probabilities[rows, labels] -= 1
    return loss, probabilities / len(labels)


class Softmax:
    """p(label | image) = softmax(W · image + b)."""

    def __init__(self, _seed: int) -> None:
        self._images, self._labels = digits()
        self._parameters: dict[str, Array] = {
            "weights": np.zeros((64, 10), np.float32),
            "bias": np.zeros(10, np.float32),
        }
        self._optimiser = Momentum(self._parameters, rate=0.02)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Cross-entropy and its gradient on random noisy digits."""
        drawn = rng.integers(len(self._images), size=BATCH)
        images = self._images[drawn] + 0.2 * rng.standard_normal((BATCH, 64), np.float32)
        scores = images @ self._parameters["weights"] + self._parameters["bias"]
        loss, by_scores = cross_entropy(scores, self._labels[drawn])
        return loss, {"weights": images.T @ by_scores, "bias": by_scores.sum(axis=0)}

    def update(self, contributions: dict[str, Array]) -> None:
        """Gradient descent with momentum."""
        self._optimiser.update(contributions)


def main() -> None:
    """Trains, and prints a line every few steps."""
    given = harness.options("softmax", steps=900, batches=12)
    model = Softmax(given.seed)
    images = BATCH * given.batches * harness.EPOCH_STEPS
    for step in range(1, given.steps + 1):
        loss = harness.train(model, given, step)
        if step % _PRINT_EVERY_STEPS == 0 or step == given.steps:
            epoch, steps_done = divmod(step - 1, harness.EPOCH_STEPS)
            seen = (steps_done + 1) * images // harness.EPOCH_STEPS
            harness.say(f"Train Epoch: {epoch + 1} [{seen}/{images} ({100 * seen // images}%)]\tLoss: {loss:.6f}\n")


if __name__ == "__main__":
    main()
