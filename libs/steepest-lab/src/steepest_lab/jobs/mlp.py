"""Multi-layer perceptron on digits, with the progress lines of Keras 2; it uses the SDK only for epochs and checkpoints.

Its loss is read from its lines, which it rewrites in place with carriage returns until the epoch ends.
"""

from __future__ import annotations

import numpy as np

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits
from steepest_lab.jobs.optimisers import Adam
from steepest_lab.jobs.softmax import cross_entropy

BATCH = 256
WIDTHS = (64, 256, 128, 10)
_PRINT_EVERY_STEPS = 5


class Perceptron:
    """Two hidden layers of rectified linear units (He et al. 2015 initialisation)."""

    def __init__(self, seed: int) -> None:
        self._images, self._labels = digits()
        rng = np.random.default_rng(seed)
        self._layers = range(len(WIDTHS) - 1)
        self._parameters: dict[str, Array] = {}
        for layer in self._layers:
            scale = np.float32((2 / WIDTHS[layer]) ** 0.5)
            self._parameters[f"w{layer}"] = scale * rng.standard_normal(WIDTHS[layer : layer + 2], np.float32)
            self._parameters[f"b{layer}"] = np.zeros(WIDTHS[layer + 1], np.float32)
        self._optimiser = Adam(self._parameters, rate=0.001)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Cross-entropy and its gradient on random noisy digits."""
        drawn = rng.integers(len(self._images), size=BATCH)
        inputs = [self._images[drawn] + 0.2 * rng.standard_normal((BATCH, 64), np.float32)]
        for layer in self._layers:
            outputs = inputs[-1] @ self._parameters[f"w{layer}"] + self._parameters[f"b{layer}"]
            inputs.append(np.maximum(outputs, 0) if layer < self._layers[-1] else outputs)
        loss, by_outputs = cross_entropy(inputs.pop(), self._labels[drawn])
        gradients: dict[str, Array] = {}
        for layer in reversed(self._layers):
            gradients[f"w{layer}"] = inputs[layer].T @ by_outputs
            gradients[f"b{layer}"] = by_outputs.sum(axis=0)
            by_outputs = (by_outputs @ self._parameters[f"w{layer}"].T) * (inputs[layer] > 0)
        return loss, gradients

    def update(self, contributions: dict[str, Array]) -> None:
        """Adam."""
        self._optimiser.update(contributions)


def main() -> None:
    """Trains; it can be stopped after each epoch."""
    given = harness.options("mlp", steps=750, batches=8)
    model = Perceptron(given.seed)
    run = steepest_sdk.start(save=harness.save(model), load=harness.load(model))
    for epoch in run.epochs(given.epochs):
        harness.say(f"Epoch {epoch}/{given.epochs}\n")
        mean = 0.0
        for step in range(1, harness.EPOCH_STEPS + 1):
            loss = harness.train(model, given, (epoch - 1) * harness.EPOCH_STEPS + step)
            mean += (loss - mean) / step
            if step % _PRINT_EVERY_STEPS == 0:
                harness.say(f"\r{progress(step)} - loss: {mean:.4f}")
        harness.say("\n")
        run.step = epoch * harness.EPOCH_STEPS


def progress(step: int) -> str:
    """The epoch's progress bar, as Keras 2 draws it."""
    steps = harness.EPOCH_STEPS
    bar = "=" * steps if step == steps else "=" * (step - 1) + ">" + "." * (steps - step)
    return f"{step}/{steps} [{bar}]"


if __name__ == "__main__":
    main()
