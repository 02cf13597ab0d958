"""What is found in 1,000 training curves of TaskSet and 405 of AlgoPerf, against labels made in hindsight.

The bars hold on the whole of both: the rules were chosen on halves of them, and reported on the others.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import random
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from tests.unit.sim.samples import real_data

from steepest.events.growth import FindingKind
from steepest.policies.watch.loss_course import LossChange, LossWatch

DATA = real_data()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="no public curves: set STEEPEST_DATA to a folder that holds taskset/"),
]
CHANCE = math.log(2)
"""The loss of a guess, in TaskSet's task of two balanced classes."""

STEPS_A_POINT = 200

Found = Sequence[tuple[int, LossChange]]
"""Changes, each with the number of the value that caused it."""


@functools.cache
def taskset() -> list[list[float]]:
    """The training losses of each run."""
    assert DATA is not None
    name = "FixedTextRNNClassification_imdb_patch128_LSTM128_bs64.json.gz"
    with gzip.open(DATA / "taskset" / name, "rt") as file:
        return [[math.nan if x is None else x for x in run["train"]["loss"]] for run in json.load(file)]


@functools.cache
def algoperf() -> list[dict[str, Any]]:
    """Runs with training losses and evaluations, each a step and a value."""
    assert DATA is not None
    with gzip.open(DATA / "algoperf-curves.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def watched(points: Iterable[tuple[float, float | None]], total: int | None = None) -> Found:
    """What is said of a curve."""
    course = LossWatch()
    return [
        (number, change)
        for number, (step, value) in enumerate(points)
        for change in course.add(step, math.nan if value is None else value, total)
    ]


def points(curve: Sequence[float]) -> list[tuple[float, float]]:
    """A curve of TaskSet with its steps."""
    return [(STEPS_A_POINT * number, value) for number, value in enumerate(curve)]


def first(found: Found, kind: FindingKind) -> int | None:
    """The value at which it was found first."""
    return next((number for number, change in found if change.kind is kind and not change.is_over), None)


def onset(curve: Sequence[float]) -> int | None:
    """From where on a run is bad: not finite, or above its start by 2 % in the median of its last fifth; None: it is not."""
    for number, value in enumerate(curve):
        if not math.isfinite(value):
            return number
    bar = curve[0] + 0.02 * abs(curve[0])
    if statistics.median(curve[-max(3, len(curve) // 5) :]) <= bar:
        return None
    begun = len(curve)
    while begun > 1 and sum(value <= bar for value in curve[begun - 1 :]) <= 0.05 * len(curve):
        begun -= 1
    return begun


def test_runs_that_diverge_are_found_early_and_few_others_are() -> None:
    """Of TaskSet's bad runs 93 % within ten points of their onset, of the others 1.5 %; AlgoPerf has no more than four."""
    bad = late = others = wrong = 0
    for curve in taskset():
        begun, found = onset(curve), first(watched(points(curve)), FindingKind.DIVERGED)
        if begun is None:
            others += 1
            wrong += found is not None
        else:
            bad += 1
            late += found is None or found > begun + 10
    called = sum(first(watched(run["train"]), FindingKind.DIVERGED) is not None for run in algoperf())

    assert (bad, others) == (150, 850)
    assert late <= 0.07 * bad, late
    assert wrong <= 0.015 * others, wrong
    assert called <= 4


def test_runs_that_never_learn_are_called_stuck_by_half() -> None:
    """98 % of those that never beat chance; of those that learn, at most 30 % are called and get better later."""
    never = called = learned = wrong = 0
    for curve in taskset():
        if onset(curve) is not None:
            continue
        found = watched(points(curve), STEPS_A_POINT * len(curve))
        half = [change for number, change in found if number <= len(curve) // 2]
        kinds = {FindingKind.STUCK, FindingKind.PLATEAU}
        opened = [change.kind for change in half if change.kind in kinds and not change.is_over]
        closed = [change.kind for change in half if change.kind in kinds and change.is_over]
        means = [statistics.median(curve[at : at + 5]) for at in range(len(curve) - 4)]
        if min(means) >= 0.99 * CHANCE:
            never += 1
            called += len(opened) > len(closed)
        else:
            learned += 1
            wrong += any(
                _better_later(curve, number) for number, change in found if change.kind in kinds and not change.is_over
            )

    assert (never, learned) == (752, 98)
    assert called >= 0.98 * never, called
    assert wrong <= 0.30 * learned, wrong


def _better_later(curve: Sequence[float], at: int) -> bool:
    """Whether a run's later values are better than all before, by 5 % of what it has gained and 2 % of its value."""
    before, after = min(curve[: at + 1]), min(curve[at + 1 :], default=math.inf)
    gained = curve[0] - before
    return after < before - max(0.05 * gained, 0.02 * abs(before))


def budgets() -> dict[str, float]:
    """The longest run of each workload of AlgoPerf, in steps."""
    found: dict[str, float] = {}
    for run in algoperf():
        found[run["workload"]] = max(found.get(run["workload"], 0), run["evals"][-1][0], run["train"][-1][0])
    return found


def evaluations() -> list[tuple[list[tuple[float, float]], int]]:
    """Curves of AlgoPerf with twenty evaluations and more, lower is better, each with the steps of its whole run."""
    known = budgets()
    return [
        (
            [(each[0], -each[3] if run["higher_better"] else each[3]) for each in run["evals"]],
            int(known[run["workload"]]),
        )
        for run in algoperf()
        if len(run["evals"]) >= 20
    ]


def collapsed(curve: Sequence[float]) -> bool:
    """Whether it learned, and its last fifth lies above its best median of five by half of what it had gained."""
    medians = [statistics.median(curve[max(0, at - 4) : at + 1]) for at in range(len(curve))]
    best = min(medians[4:])
    gained = curve[0] - best
    return gained > 0.05 * abs(curve[0]) and statistics.median(curve[-len(curve) // 5 :]) > best + 0.5 * gained


def test_evaluations_that_collapse_are_called_lost_and_few_that_rise_are_called_flat() -> None:
    """12 of 13 are, and none that is called beats its best later. At most 3 % are called a plateau and get better."""
    bad = found = better = wrong = 0
    curves = evaluations()
    for run, total in curves:
        curve, said = [value for _, value in run], watched(run, total)
        lost, flat = first(said, FindingKind.LOST), first(said, FindingKind.PLATEAU)
        if collapsed(curve):
            bad += 1
            found += lost is not None
        better += lost is not None and min(curve[lost:]) < min(curve[:lost])
        wrong += flat is not None and _better_later(curve, flat)

    assert (len(curves), bad) == (386, 13)
    assert found >= 12, found
    assert better == 0
    assert wrong <= 0.03 * len(curves), wrong


def test_a_loss_of_three_times_its_size_is_a_spike_and_few_others_are() -> None:
    """80 % of those that are put into long curves after sixty losses; of the curves' own losses two in 1,000 are called."""
    rng = random.Random(7)
    long = [run["train"] for run in algoperf() if len(run["train"]) > 200]
    called = sum(change.kind is FindingKind.SPIKE and not change.is_over for run in long for _, change in watched(run))
    found = 0
    for run in long:
        curve = [value for _, value in run[:1_500]]
        at = rng.randrange(60, len(curve) - 30)
        curve[at] *= 3
        said = watched(enumerate(curve[: at + 25]))
        found += any(change.kind is FindingKind.SPIKE and at - 1 <= number <= at + 1 for number, change in said)

    assert len(long) == 55
    assert found >= 0.8 * len(long), found
    assert called <= sum(len(run) for run in long) / 500, called
