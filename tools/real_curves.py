# ruff: noqa: INP001 - a tool, not a package
"""Real training curves, out of the public collections that they were published in, and where a training has learned most.

It owns the collections' layouts: AlgoPerf's runs as JSON Lines (``run``, ``workload``, ``train`` = [[step, loss], …],
``evals`` = [[step, …], …]), the Pollux artifact's ``validation-<batch size>.csv``, and TaskSet's text classifiers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from steepest.errors import InputError
from steepest.policies.steepest.learning_history import LEARNED
from steepest_lab.sim.losses.curve import Points
from steepest_lab.sim.table import csv_rows
from steepest_lab.sim.text import read_text

_WHOLE = 0.9
"""A run counts where its losses reach this share of its last evaluation: most logs hold their first 100 steps only."""

BESIDE = 2
"""Losses on each side over which the median is taken: those of single batches scatter."""

_FEWEST = 10
_LARGEST = 1e9

_ERROR_OF = {"cifar10": 1.0, "imagenet": 1.0, "ncf": 1.0}
"""Pollux applications whose metric rises, and its best value; the others' is a loss or an error rate."""


class RealCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A real run.

    Attributes:
        run: Its name in the collection.
        workload: What was trained.
        points: The losses, all above 0, over the progress from the run's first step (0) to its last (1).
    """

    run: str
    workload: str
    points: Points


class _AlgoPerfRun(msgspec.Struct):
    run: str
    workload: str
    train: list[tuple[float, float | None]]
    evals: list[tuple[float | None, ...]]


class _Losses(msgspec.Struct):
    loss: list[float | None]


class _TaskSetRun(msgspec.Struct):
    train: _Losses


def algoperf_curves(path: Path) -> Iterator[RealCurve]:
    """The runs of which the whole training loss is known.

    Raises:
        InputError: The file is damaged, or a line is no run.
    """
    decode = msgspec.json.Decoder(_AlgoPerfRun).decode
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            run = decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: is no run: {error}", hint="Get the file again.") from error
        last_evaluated = max((step for step, *_ in run.evals if step is not None), default=math.inf)
        if run.train and run.train[-1][0] >= _WHOLE * last_evaluated:
            yield from _curve(run.run, run.workload, run.train)


def pollux_curves(folder: Path) -> Iterator[RealCurve]:
    """Each application's validation curve at its initial batch size; a rising metric is turned into what it lacks.

    Raises:
        InputError: A table is not what the artifact has.
    """
    for application in sorted(path for path in folder.iterdir() if path.is_dir()):
        tables = sorted(application.glob("validation-*.csv"), key=lambda path: (len(path.name), path.name))
        for path in tables[:1]:
            best = _ERROR_OF.get(application.name)
            points = [
                (row.number("progress", least=0, most=1e12), row.number("metric", least=0, most=_LARGEST))
                for row in csv_rows(read_text(path), ("progress", "metric"), path)
            ]
            losses = [(step, metric if best is None else best - metric) for step, metric in points]
            yield from _curve(path.name, application.name, losses)


def taskset_curves(path: Path) -> Iterator[RealCurve]:
    """The training losses of a TaskSet file's runs; not of those that became no number.

    Raises:
        InputError: The file is no such file.
    """
    # The collection writes NaN, which is no JSON.
    text = read_text(path).replace("NaN", "null").replace("-Infinity", "null").replace("Infinity", "null")
    try:
        runs = msgspec.json.decode(text, type=list[_TaskSetRun])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: is no collection of runs: {error}", hint="Get the file again.") from error
    for number, run in enumerate(runs):
        yield from _curve(f"run-{number}", "text-rnn", list(enumerate(run.train.loss)))


def _curve(run: str, workload: str, losses: Sequence[tuple[float, float | None]]) -> Iterator[RealCurve]:
    if any(loss is None for _, loss in losses):
        return
    by_step = {
        step: loss
        for step, loss in sorted(losses, key=lambda point: point[0])
        if loss is not None and 0 < loss < _LARGEST
    }
    if len(by_step) < _FEWEST:
        return
    first, last = min(by_step), max(by_step)
    if first == last:
        return
    progress = tuple((step - first) / (last - first) for step in by_step)
    yield RealCurve(run=run, workload=workload, points=Points(progress, tuple(by_step.values())))


def learned_at(run: Sequence[tuple[float, float]]) -> float | None:
    """Where a run has 90 % of the reduction from its first loss to its lowest one; None if its loss does not fall.

    Args:
        run: Steps, or shares of all steps, with a loss each, by rising step. Losses are smoothed by medians of five.
    """
    losses = [loss for _, loss in run]
    smooth = [statistics.median(losses[max(0, at - BESIDE) : at + BESIDE + 1]) for at in range(len(losses))]
    if not smooth or smooth[0] <= min(smooth):
        return None
    goal = smooth[0] - LEARNED * (smooth[0] - min(smooth))
    return next(at for (at, _), loss in zip(run, smooth, strict=True) if loss <= goal)
