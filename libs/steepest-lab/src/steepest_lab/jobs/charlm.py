"""A recurrent language model (Elman 1990; Mikolov et al. 2010) that reads English letter by letter.

It learns letters, then pairs, then words: its loss falls slowly and keeps falling.
"""

from __future__ import annotations

import numpy as np

from steepest_lab.jobs import harness
from steepest_lab.jobs.datasets import Array, Labels, descriptions
from steepest_lab.jobs.optimisers import Adam
from steepest_lab.jobs.softmax import cross_entropy

BATCH, LENGTH, HIDDEN = 32, 24, 128


class LanguageModel:
    """h ← tanh(E[letter] + W h), and softmax(V h) is the next letter; gradients go back through LENGTH letters."""

    def __init__(self, seed: int) -> None:
        alphabet, self._text = descriptions()
        rng = np.random.default_rng(seed)
        scale = np.float32(HIDDEN**-0.5)
        self._parameters: dict[str, Array] = {
            "embedding": 0.1 * rng.standard_normal((len(alphabet), HIDDEN), np.float32),
            "recurrent": 0.5 * scale * rng.standard_normal((HIDDEN, HIDDEN), np.float32),
            "scores": scale * rng.standard_normal((HIDDEN, len(alphabet)), np.float32),
            "bias": np.zeros(len(alphabet), np.float32),
        }
        self._optimiser = Adam(self._parameters, rate=0.0004)
        self.state = self._parameters | self._optimiser.state

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """Cross-entropy in nats per letter, and its gradient, on random passages."""
        starts = rng.integers(len(self._text) - LENGTH, size=BATCH)
        passages = self._text[starts + np.arange(LENGTH + 1)[:, None]]
        letters, following = passages[:-1], passages[1:]
        hidden = self._read(letters)
        heard = hidden[1:].reshape(-1, HIDDEN)
        scores = heard @ self._parameters["scores"] + self._parameters["bias"]
        loss, by_scores = cross_entropy(scores, following.ravel())
        by_heard = (by_scores @ self._parameters["scores"].T).reshape(LENGTH, BATCH, HIDDEN)
        gradients = self._unread(letters, hidden, by_heard)
        gradients |= {"scores": heard.T @ by_scores, "bias": by_scores.sum(axis=0)}
        return loss, gradients

    def update(self, contributions: dict[str, Array]) -> None:
        """Adam, on a gradient of bounded length (Pascanu, Mikolov, Bengio 2013)."""
        length = float(np.sqrt(sum(float(np.sum(part**2)) for part in contributions.values())))
        scale = 1 / max(1.0, length)
        self._optimiser.update({name: scale * part for name, part in contributions.items()})

    def _read(self, letters: Labels) -> Array:
        """The hidden state before the first and after each letter: (LENGTH + 1) × BATCH × HIDDEN."""
        hidden: Array = np.zeros((LENGTH + 1, BATCH, HIDDEN), np.float32)
        for position, letter in enumerate(letters):
            inputs = self._parameters["embedding"][letter] + hidden[position] @ self._parameters["recurrent"]
            np.tanh(inputs, out=hidden[position + 1])
        return hidden

    def _unread(self, letters: Labels, hidden: Array, by_heard: Array) -> dict[str, Array]:
        by_embedding = np.zeros_like(self._parameters["embedding"])
        by_recurrent = np.zeros_like(self._parameters["recurrent"])
        by_hidden: Array = np.zeros((BATCH, HIDDEN), np.float32)
        for place in reversed(range(LENGTH)):
            by_inputs = (by_heard[place] + by_hidden) * (1 - hidden[place + 1] ** 2)
            np.add.at(by_embedding, letters[place], by_inputs)
            by_recurrent += hidden[place].T @ by_inputs
            by_hidden = by_inputs @ self._parameters["recurrent"].T
        return {"embedding": by_embedding, "recurrent": by_recurrent}


if __name__ == "__main__":
    harness.main("charlm", LanguageModel, steps=1200, batches=3, measure="nats a letter")
