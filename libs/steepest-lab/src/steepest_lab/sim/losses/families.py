"""Loss families: a curve, how noisy it is, and where it is from; and which of them a job gets.

It owns the catalogue: what ``tools/fit_loss_families.py`` fitted to real runs (``families.json`` in this folder) and
the reconstructed models of the thesis. It must never know how a curve was fitted.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping

import msgspec

from steepest_lab.sim.losses.curve import Fitted
from steepest_lab.sim.losses.noise import stream_of
from steepest_lab.sim.losses.thesis import MODELS


class Family(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Trainings whose loss does alike.

    Attributes:
        name: E.g. ``algoperf/wmt``.
        task: Of :data:`TASKS`, or ``thesis``; decides which models of a trace get it. Empty: those of no known task.
        curve: The expected loss, in the loss's own unit.
        noise: Standard deviation of the logarithm of a report's loss around that of the curve.
        source: The real runs, or what it is a reconstruction of.
        runs: How many runs were fitted; this one is the one nearest to all others.
        r2: Share of the real losses' variance (median-smoothed over 5 points) that the curve explains; None: not fitted.
        error: Root mean square of the misfit, as a share of the losses' range; None: not fitted.
    """

    name: str
    task: str
    curve: Fitted
    noise: float
    source: str
    runs: int = 0
    r2: float | None = None
    error: float | None = None


class Catalogue(msgspec.Struct, frozen=True):
    """The content of ``families.json``."""

    written_by: str
    families: tuple[Family, ...]


TASKS: Mapping[str, tuple[str, ...]] = {
    "vision": ("vgg", "resnet", "shufflenet", "inception", "googlenet", "alexnet", "imagenet", "cifar", "yolo", "vit"),
    "speech": ("deepspeech", "librispeech", "speech", "conformer"),
    "language": ("bert", "gpt", "lm", "transformer", "wmt", "lstm", "rnn", "gru", "t5", "llama"),
    "graphs": ("ogbg", "gnn"),
}
"""Tasks that some family has, and the parts of models' names by which they are known, in this order."""


def _catalogue() -> dict[str, Family]:
    data = importlib.resources.files("steepest_lab.sim.losses").joinpath("families.json").read_bytes()
    fitted = {family.name: family for family in msgspec.json.decode(data, type=Catalogue).families}
    thesis = {
        model.family: Family(
            name=model.family,
            task="thesis",
            curve=model.curve,
            noise=model.noise,
            source="reconstruction: see the assumptions in steepest_lab.sim.losses.thesis",
        )
        for model in MODELS.values()
    }
    return fitted | thesis


FAMILIES: Mapping[str, Family] = _catalogue()
"""By name, the fitted ones first."""

_FITTED = tuple(family for family in FAMILIES.values() if family.task != "thesis")


def task_of(model: str) -> str | None:
    """The task that a model's name says; None where it says none."""
    small = model.lower()
    return next((task for task, parts in TASKS.items() if any(part in small for part in parts)), None)


def family_of(model: str, seed: int) -> Family:
    """The family of a model that a trace names: one of its task's if that is known, else one of all, by lot.

    The same model gets the same family under the same seed, in every process.
    """
    task = task_of(model)
    choice = [family for family in _FITTED if family.task == task] or _FITTED
    return choice[stream_of(seed, model) % len(choice)]
