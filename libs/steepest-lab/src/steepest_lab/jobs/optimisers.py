"""Optimisers. All state is in arrays that are changed in place, so that a checkpoint is a list of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steepest_lab.jobs.datasets import Array


class Momentum:
    """Gradient descent with momentum (Polyak 1964): v ← 0.9 v + g, p ← p - rate · v."""

    def __init__(self, parameters: Mapping[str, Array], rate: float) -> None:
        self._parameters = parameters
        self._rate = rate
        self.state = {f"velocity.{name}": np.zeros_like(array) for name, array in parameters.items()}

    def update(self, gradients: Mapping[str, Array]) -> None:
        """Moves each parameter against its gradient."""
        for name, gradient in gradients.items():
            velocity = self.state[f"velocity.{name}"]
            velocity *= 0.9
            velocity += gradient
            self._parameters[name][...] -= self._rate * velocity


class Adam:
    """Adam (Kingma, Ba 2015, Algorithm 1) with its default decay rates of 0.9 and 0.999."""

    def __init__(self, parameters: Mapping[str, Array], rate: float) -> None:
        self._parameters = parameters
        self._rate = rate
        self.state: dict[str, Array] = {"adam.updates": np.zeros(())}
        for name, array in parameters.items():
            self.state[f"adam.mean.{name}"] = np.zeros_like(array)
            self.state[f"adam.square.{name}"] = np.zeros_like(array)

    def update(self, gradients: Mapping[str, Array]) -> None:
        """Moves each parameter by its bias-corrected mean gradient over the root of its mean square."""
        self.state["adam.updates"] += 1
        updates = float(self.state["adam.updates"])
        rate = self._rate * (1 - 0.999**updates) ** 0.5 / (1 - 0.9**updates)
        for name, gradient in gradients.items():
            mean, square = self.state[f"adam.mean.{name}"], self.state[f"adam.square.{name}"]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            self._parameters[name][...] -= rate * mean / (np.sqrt(square) + 1e-8)
