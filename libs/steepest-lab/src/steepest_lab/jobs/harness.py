"""The common parts of the demo jobs: arguments, the training step, checkpoints, reports. It must never know a model.

Randomness depends only on the seed and the step, so the data of step 500 are the same whether or not the training was
stopped at 400: a checkpoint needs only the parameters and the optimiser's state.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

import steepest_sdk
from steepest_lab.jobs.datasets import Array

EPOCH_STEPS = 25
"""Steps per epoch. Batches are random, so the length of a pass over the data is a convention."""

SAYS = ("steps", "epochs", "nothing")
"""What a job's log can say of its length. One that says no steps knows nothing of Steepest, and saves nothing."""

_REPORT_EVERY_STEPS = 3  # about 30 reports per second at full speed


class TrainableModel(Protocol):
    """A model that can be trained.

    Attributes:
        state: All arrays that training changes in place, by name.
    """

    state: dict[str, Array]

    def batch(self, rng: np.random.Generator) -> tuple[float, dict[str, Array]]:
        """The loss on a batch drawn with ``rng``, and its contribution to the update: gradients, or statistics."""

    def update(self, contributions: dict[str, Array]) -> None:
        """Updates the model with the mean contribution of a step's batches."""


@dataclass(frozen=True)
class Options:
    """Number of steps, seed, number of batches per step (gradient accumulation), and what it says of its length."""

    steps: int
    seed: int
    batches: int
    says: str = "steps"

    @property
    def epochs(self) -> int:
        """Number of epochs to train, rounded up."""
        return -(-self.steps // EPOCH_STEPS)


@dataclass(frozen=True)
class GangOptions:
    """Whether workers wait for each other, and how many seconds each waits for peers that start later."""

    asynchronous: bool
    patience_s: float


def options(name: str, *, steps: int, batches: int) -> Options:
    """Parses the command line of a job.

    Args:
        name: The job's name, for its help.
        steps: The default number of steps.
        batches: Number of batches per step at ``--work 1``.
    """
    parser = _parser(name, steps)
    return _chosen(parser, parser.parse_args(), batches)


def gang_options(name: str, *, steps: int, batches: int) -> tuple[Options, GangOptions]:
    """Parses the command line of a job with a server and workers."""
    parser = _parser(name, steps)
    parser.add_argument("--asynchronous", action="store_true", help="no worker waits for another one")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for peers that start later")
    given = parser.parse_args()
    return _chosen(parser, given, batches), GangOptions(given.asynchronous, given.patience)


def fault_options(name: str, faults: Sequence[str], *, steps: int, batches: int) -> tuple[Options, str]:
    """Parses the command line of a job with a fault; returns the fault too."""
    parser = _parser(name, steps)
    parser.add_argument("--fault", choices=faults, required=True, help="what goes wrong in its first incarnation")
    given = parser.parse_args()
    return _chosen(parser, given, batches), str(given.fault)


def _parser(name: str, steps: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m steepest_lab.jobs.{name}")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=_count, default=steps, help=f"steps to train (default {steps})")
    length.add_argument("--epochs", type=_count, help=f"the same in epochs of {EPOCH_STEPS} steps")
    parser.add_argument("--seed", type=_count, default=0, help="same seed, same losses (default 0)")
    parser.add_argument("--work", type=float, default=1.0, help="CPU time of a step, relative to the default")
    parser.add_argument("--says", choices=SAYS, default=SAYS[0], help="what its log says of its length")
    return parser


def _chosen(parser: argparse.ArgumentParser, given: argparse.Namespace, batches: int) -> Options:
    if not 0 < given.work <= 1000:  # noqa: PLR2004 - a step of about ten seconds, more than any demo needs
        parser.error(f"--work {given.work}: it must be above 0 and at most 1000")
    total = given.steps if given.epochs is None else given.epochs * EPOCH_STEPS
    return Options(total, given.seed, max(1, round(batches * given.work)), given.says)


def train(model: TrainableModel, given: Options, step: int) -> float:
    """Trains one step on the mean contribution of its batches; returns their mean loss."""
    rng = np.random.default_rng([given.seed, step])
    loss, sums = model.batch(rng)
    for _ in range(given.batches - 1):
        batch_loss, contributions = model.batch(rng)
        loss += batch_loss
        for name, contribution in contributions.items():
            sums[name] += contribution
    model.update({name: total / given.batches for name, total in sums.items()})
    return loss / given.batches


def save(model: TrainableModel) -> Callable[[Path], None]:
    """The ``save`` argument of ``steepest_sdk.start`` for this model."""
    return lambda folder: np.savez(folder / "state.npz", **model.state)  # type: ignore[arg-type]


def load(model: TrainableModel) -> Callable[[Path], None]:
    """The ``load`` argument of ``steepest_sdk.start`` for this model."""

    def restore(folder: Path) -> None:
        with np.load(folder / "state.npz", allow_pickle=False) as saved:
            for name, array in model.state.items():
                array[...] = saved[name]

    return restore


def main(name: str, make: Callable[[int], TrainableModel], *, steps: int, batches: int, measure: str) -> None:
    """Trains a model from the command line, with reports and checkpoints.

    Args:
        name: The job's name.
        make: Makes the model from a seed.
        steps: As in ``options``.
        batches: As in ``options``.
        measure: The name of the loss in printed lines.
    """
    given = options(name, steps=steps, batches=batches)
    model = make(given.seed)
    if given.says != SAYS[0]:
        _train_in_epochs(model, given)
        return
    run = steepest_sdk.start(save=save(model), load=load(model))
    losses = []
    for step in run.steps(given.steps):
        losses.append(train(model, given, step))
        if step % _REPORT_EVERY_STEPS == 0 or step == given.steps:
            if step % (10 * _REPORT_EVERY_STEPS) == 0 or step == given.steps:
                say(f"{name}: step {step} of {given.steps}, {measure} {losses[-1]:.6g}\n")
            run.report(step, loss=sum(losses) / len(losses))
            losses.clear()


def _train_in_epochs(model: TrainableModel, given: Options) -> None:
    """Trains, and prints the mean loss of each epoch, with or without their number."""
    of = f"/{given.epochs}" if given.says == "epochs" else ""
    for epoch in range(given.epochs):
        steps = range(1 + epoch * EPOCH_STEPS, 1 + min((epoch + 1) * EPOCH_STEPS, given.steps))
        losses = [train(model, given, step) for step in steps]
        say(f"Epoch {epoch + 1}{of} | loss {sum(losses) / len(losses):.6f}\n")


def say(text: str) -> None:
    """Writes to standard output and flushes it, even if it is a file."""
    sys.stdout.write(text)
    sys.stdout.flush()


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is negative")
    return number
