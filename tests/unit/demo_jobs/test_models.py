"""Every demo model computes the gradient that it says, learns, and goes on from a checkpoint bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from steepest_lab.jobs import harness
from steepest_lab.jobs.birnn import BidirectionalRnn
from steepest_lab.jobs.charlm import LanguageModel
from steepest_lab.jobs.datasets import Array
from steepest_lab.jobs.dynamic_rnn import DynamicRnn
from steepest_lab.jobs.factorisation import Factorisation
from steepest_lab.jobs.gru import Gru
from steepest_lab.jobs.linear import Linear
from steepest_lab.jobs.mixture import Mixture
from steepest_lab.jobs.mlp import Perceptron
from steepest_lab.jobs.rnn import Rnn
from steepest_lab.jobs.softmax import Softmax
from steepest_lab.jobs.vae import AutoEncoder

BY_GRADIENT = [Linear, Softmax, Perceptron, AutoEncoder, Gru, Rnn, BidirectionalRnn, DynamicRnn, LanguageModel]
ALL = [*BY_GRADIENT, Mixture, Factorisation]
ONE_BATCH = harness.Options(steps=150, seed=3, batches=1)


@pytest.mark.parametrize("make", BY_GRADIENT)
def test_gradient_is_that_of_the_loss(make: Callable[[int], harness.TrainableModel]) -> None:
    """Along each parameter's gradient the loss rises by its squared length, as central differences measure it."""
    model = make(3)
    for step in range(1, 6):
        harness.train(model, ONE_BATCH, step)
    _, gradients = model.batch(np.random.default_rng(7))
    for name, gradient in gradients.items():
        array, here, length = model.state[name], model.state[name].copy(), float(np.linalg.norm(gradient))
        reach = 0.02 * float(np.linalg.norm(here) + 0.1) / length
        losses = []
        for side in (reach, -reach):
            array[...] = here + side * gradient
            losses.append(model.batch(np.random.default_rng(7))[0])
        array[...] = here
        assert (losses[0] - losses[1]) / (2 * reach) == pytest.approx(length**2, rel=0.05), name


@pytest.mark.parametrize("make", ALL)
def test_model_learns(make: Callable[[int], harness.TrainableModel]) -> None:
    """The mean loss of the last ten steps is clearly below that of the first ten."""
    model = make(3)
    losses = [harness.train(model, ONE_BATCH, step) for step in range(1, ONE_BATCH.steps + 1)]
    assert np.mean(losses[-10:]) < 0.97 * np.mean(losses[:10])


@pytest.mark.parametrize("make", ALL)
def test_checkpoint_holds_all_that_training_changes(
    make: Callable[[int], harness.TrainableModel], tmp_path: Path
) -> None:
    """A new model loaded at step 20 has the losses, to the last bit, of the one that continued."""
    first = make(3)
    for step in range(1, 21):
        harness.train(first, ONE_BATCH, step)
    harness.save(first)(tmp_path)
    second = make(3)
    harness.load(second)(tmp_path)
    for step in range(21, 41):
        assert harness.train(second, ONE_BATCH, step) == harness.train(first, ONE_BATCH, step)


@pytest.mark.parametrize("make", ALL)
def test_seed_decides_everything(make: Callable[[int], harness.TrainableModel]) -> None:
    """The same seed gives the same losses; another one gives others."""

    def losses(seed: int) -> list[float]:
        given = harness.Options(steps=3, seed=seed, batches=2)
        model = make(seed)
        return [harness.train(model, given, step) for step in (1, 2, 3)]

    assert losses(3) == losses(3)
    assert losses(3) != losses(4)


def test_step_learns_from_the_mean_of_its_batches() -> None:
    """Gradient accumulation: the loss and the contribution of a step are the means over its batches."""

    class Counting:
        """Sees 1, 2, 3, … and remembers what it learned from."""

        def __init__(self) -> None:
            self.state: dict[str, Array] = {}
            self.batches = 0

        def batch(self, _rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
            """The number of the batch, twice."""
            self.batches += 1
            return float(self.batches), {"seen": np.array([float(self.batches)])}

        def update(self, contributions: dict[str, Array]) -> None:
            """Remembers."""
            self.state.update(contributions)

    model = Counting()
    assert harness.train(model, harness.Options(steps=1, seed=0, batches=3), 1) == 2
    assert model.state["seen"] == 2
