"""Variational auto-encoder of digits (Kingma, Welling 2014), one of the models of the SpeCon thesis' experiments.

The negative evidence bound falls fast while the mean image is learned, and then slowly for a long time.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, digits
from steepest_lab.jobs.optimisers import Adam

BATCH = 256
PIXELS, HIDDEN, CODE = 64, 192, 8


class AutoEncoder:
    """Gaussian code, Bernoulli pixels; encoder and decoder have one hidden layer of tanh units each."""

    def __init__(self, seed: int) -> None:
        self._images, _ = digits()
        rng = np.random.default_rng(seed)
        shapes = {
            "encode": (PIXELS, HIDDEN),
            "mean": (HIDDEN, CODE),
            "spread": (HIDDEN, CODE),
            "decode": (CODE, HIDDEN),
            "pixels": (HIDDEN, PIXELS),
        }
        self._parameters: dict[str, Array] = {}
        for name, shape in shapes.items():
            self._parameters[f"{name}.w"] = rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
            self._parameters[f"{name}.b"] = np.zeros(shape[1], np.float32)
        self._optimiser = Adam(self._parameters, rate=0.0005)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """The negative evidence bound in nats per image, and its gradient, on random digits.

        With one sample of the code per image, z = μ + exp(s/2) · ε (their section 2.4), and the divergence from the
        standard normal distribution in closed form (their appendix B); s is the logarithm of the variance.
        """
        images = self._images[rng.integers(len(self._images), size=BATCH)]
        noise = rng.standard_normal((BATCH, CODE), np.float32)
        encoded = np.tanh(self._linear("encode", images))
        mean, log_variance = self._linear("mean", encoded), self._linear("spread", encoded)
        deviation = np.exp(log_variance / 2)
        code = mean + deviation * noise
        decoded = np.tanh(self._linear("decode", code))
        logits = self._linear("pixels", decoded)
        misfit = np.logaddexp(0, logits) - images * logits
        divergence = 0.5 * (mean**2 + deviation**2 - log_variance - 1)
        loss = float((misfit.sum() + divergence.sum()) / BATCH)

        gradients: dict[str, Array] = {}
        by_logits = (1 / (1 + np.exp(-logits)) - images) / BATCH
        by_decoded = self._backward("pixels", decoded, by_logits, gradients)
        by_code = self._backward("decode", code, by_decoded * (1 - decoded**2), gradients)
        by_mean = by_code + mean / BATCH
        by_spread = 0.5 * (by_code * noise * deviation + (deviation**2 - 1) / BATCH)
        by_encoded = self._backward("mean", encoded, by_mean, gradients)
        by_encoded += self._backward("spread", encoded, by_spread, gradients)
        self._backward("encode", images, by_encoded * (1 - encoded**2), gradients)
        return loss, gradients

    def update(self, contributions: dict[str, Array]) -> None:
        """Adam."""
        self._optimiser.update(contributions)

    def _linear(self, layer: str, inputs: Array) -> Array:
        return inputs @ self._parameters[f"{layer}.w"] + self._parameters[f"{layer}.b"]

    def _backward(self, layer: str, inputs: Array, by_outputs: Array, gradients: dict[str, Array]) -> Array:
        gradients[f"{layer}.w"] = inputs.T @ by_outputs
        gradients[f"{layer}.b"] = by_outputs.sum(axis=0)
        return by_outputs @ self._parameters[f"{layer}.w"].T


if __name__ == "__main__":
    harness.main("vae", AutoEncoder, steps=1000, batches=10, measure="negative evidence bound")
