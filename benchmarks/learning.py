"""When is a job still learning? Rules for it, on real training curves that they were not made from.

A job learns until it has reached 90 % of the loss reduction of its whole run. Each rule sees a run up to some share of its
steps, as N mean losses a run, and says how likely it is that the job still learns. The table has the mean squared error
of that (Brier score: 0 is perfect, 0.25 is a coin) over the workloads of AlgoPerf, Pollux and TaskSet, each with equal
weight:

* ``fixed``: it learns during the first 27 % of its steps;
* ``slope``: it learns until two reports in a row fell by less than half of the mean slope so far, at most for 40 %;
* ``fitted``: curves (exponential and power laws) weighted by their likelihood, with the shares below as their prior;
* ``shares``: the shares at which the runs of all *other* workloads got there, which is what the policy uses.

``--shares`` prints the shares of all workloads: ``SHARES`` in ``policies/steepest/learning.py``.

``--ahead`` compares what is foreseen of a run whose loss still falls (``policies/steepest/learning_history.py``): at which
share of its steps it will have reached the 90 %. The table has the mean error of the logarithm of that share, in %, over
the workloads with equal weight:

* ``multiple``: the same multiple of the share that is done, fitted to all *other* workloads;
* ``fitted``: d^a · r^b, likewise, where d is the share that is done, and r the lowest loss over the first one;
* ``policy``: the same with the policy's a and b, which were chosen with these runs, and its bounds.

A run's first moments count only where it has many reports (``--reports 200``): the policy judges no fewer than eight.
"""

from __future__ import annotations

import argparse
import bisect
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from benchmarks.frame.bench import data, doing, figure, options

from steepest.policies.steepest.learning import SHARES
from steepest.policies.steepest.learning_history import LEARNED, LossCourse
from tools.real_curves import RealCurve, algoperf_curves, learned_at, pollux_curves, taskset_curves

SEEN = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
"""Shares of a run that the rules see."""

FIXED = 0.27
FLAT_REPORTS = 2
LONGEST = 0.4
SPREAD = 0.35
"""Width, in the logarithm of the share, by which a share of the prior supports curves beside it."""

Report = tuple[float, float]
Rule = Callable[[Sequence[Report], float, Sequence[float]], float]


def main() -> None:
    """Print the table, or the shares."""

    def more(parser: argparse.ArgumentParser) -> None:
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--shares", action="store_true", help="print the shares of all workloads instead")
        instead.add_argument("--ahead", action="store_true", help="compare what is foreseen while losses fall instead")

    asked = options(__doc__, more, reports=(10, 50, 200), seen=((0.3,), SEEN, SEEN), runs=(3, 1_000, 1_000))
    doing("reading the curves")
    runs = by_workload(data("algoperf-curves.jsonl.gz", "pollux", "taskset"), asked.reports, asked.runs)
    if asked.shares:
        figure("shares", tenths=[round(share, 2) for share in tenths([share_of(run) for run in runs.values()])])
        return
    if asked.ahead:
        print_ahead(runs)
        return
    for seen in asked.seen:
        doing(f"{seen:.0%} seen")
        learns, errors = scores(runs, seen)
        rules = {name: round(error, 3) for name, error in zip(RULES, errors, strict=True)}
        figure(f"{seen:.0%} seen", learn=round(learns, 2), **rules)


def by_workload(data: Path, reports: int, most: int) -> Mapping[str, Sequence[Sequence[Report]]]:
    """The runs of each workload, or so many of them, as reports."""
    found: defaultdict[str, list[Sequence[Report]]] = defaultdict(list)
    for curve in curves(data):
        run = thinned(curve, reports) if len(found[curve.workload]) < most else ()
        if run and learned_at(run) is not None:
            found[curve.workload].append(run)
    return found


def curves(data: Path) -> Iterator[RealCurve]:
    """All real runs."""
    yield from algoperf_curves(data / "algoperf-curves.jsonl.gz")
    yield from pollux_curves(data / "pollux" / "traces")
    for path in sorted((data / "taskset").rglob("*.json*")):
        yield from taskset_curves(path)


def thinned(curve: RealCurve, reports: int) -> list[Report]:
    """The mean loss of each part of a run, with where the part ends."""
    points = list(zip(curve.points.progress, curve.points.losses, strict=True))
    run, at = [(0.0, points[0][1])], 0
    for number in range(1, reports + 1):
        end, part = number / reports, []
        while at < len(points) and points[at][0] <= end:
            part.append(points[at][1])
            at += 1
        run.append((end, statistics.fmean(part) if part else curve.points.expected(end)))
    return run


def share_of(runs: Sequence[Sequence[Report]]) -> list[float]:
    """Where each run of a workload got there."""
    return [share for run in runs if (share := learned_at(run)) is not None]


def tenths(workloads: Sequence[Sequence[float]]) -> list[float]:
    """The middles of the tenths of the shares, each workload with equal weight."""
    weighted = sorted((share, 1 / len(shares)) for shares in workloads for share in shares)
    found: list[float] = []
    sums = 0.0
    for share, weight in weighted:
        sums += weight
        while len(found) < len(SHARES) and sums >= (len(found) + 0.5) / len(SHARES) * len(workloads):
            found.append(share)
    return found


# --- rules ------------------------------------------------------------------------------------------------------------


def fixed(_: Sequence[Report], seen: float, __: Sequence[float]) -> float:
    """The first 27 % of the steps."""
    return float(seen < FIXED)


def slope(run: Sequence[Report], seen: float, _: Sequence[float]) -> float:
    """Until two reports in a row fell by less than half of the mean slope."""
    flat = 0
    for (x0, a), (x1, b), (x2, c), (x3, d) in zip(run, run[1:], run[2:], run[3:], strict=False):
        falls = ((a + b) - (c + d)) / (x2 + x3 - x0 - x1)
        flat = flat + 1 if falls < 0.5 * (run[0][1] - (c + d) / 2) else 0
        if flat >= FLAT_REPORTS:
            return 0.0
    return float(seen < LONGEST)


def others(_: Sequence[Report], seen: float, shares: Sequence[float]) -> float:
    """Where the runs of other workloads got there."""
    return 1 - bisect.bisect_right(shares, seen) / len(shares)


def fitted(run: Sequence[Report], seen: float, shares: Sequence[float]) -> float:
    """Curves by their likelihood: each is floor + drop · shape, fitted by least squares."""
    mean = statistics.fmean(loss for _, loss in run)
    total = sum((loss - mean) ** 2 for _, loss in run)
    errors = []
    for shape, _ in CURVES:
        values = [shape(share) for share, _ in run]
        centre = statistics.fmean(values)
        spread = sum((value - centre) ** 2 for value in values)
        both = sum((value - centre) * (loss - mean) for value, (_, loss) in zip(values, run, strict=True))
        errors.append(total - both**2 / spread if both > 0 and spread > 0 else total)
    if total <= 0:
        return others(run, seen, shares)
    variance = max(min(errors) / max(1, len(run) - 3), 1e-6 * total / len(run))
    weights = [
        prior(reached, shares) * math.exp((min(errors) - error) / variance / 20)  # reports are not independent
        for error, (_, reached) in zip(errors, CURVES, strict=True)
    ]
    return sum(weight for weight, (_, reached) in zip(weights, CURVES, strict=True) if reached > seen) / sum(weights)


def prior(reached: float, shares: Sequence[float]) -> float:
    """How likely a curve is that gets there at this share; relative, and even over the curves' own density."""

    def near(some: Sequence[float]) -> float:
        return sum(math.exp(-0.5 * (math.log(reached / other) / SPREAD) ** 2) for other in some)

    return near(shares) / near([other for _, other in CURVES])


def exponential(rate: float) -> tuple[Callable[[float], float], float]:
    """A shape, and the share at which it has 90 % of its fall."""
    level = 1 - LEARNED * (1 - math.exp(-rate))
    return lambda share: math.exp(-rate * share), -math.log(level) / rate


def power(rate: float, exponent: float) -> tuple[Callable[[float], float], float]:
    """As :func:`exponential`."""
    level = 1 - LEARNED * (1 - (1 + rate) ** -exponent)
    return lambda share: (1 + rate * share) ** -exponent, (level ** (-1 / exponent) - 1) / rate


CURVES = [exponential(0.5 * 1.5**step) for step in range(16)] + [
    power(3.0**step, exponent) for step in range(9) for exponent in (0.5, 1.0, 2.0)
]

RULES: Mapping[str, Rule] = {"fixed": fixed, "slope": slope, "fitted": fitted, "shares": others}


def scores(runs: Mapping[str, Sequence[Sequence[Report]]], seen: float) -> tuple[float, list[float]]:
    """How many learn after that share of their runs, and each rule's Brier score."""
    shares = {workload: share_of(of) for workload, of in runs.items()}
    learns, errors = [], []
    for workload, of in runs.items():
        known = tenths([found for other, found in shares.items() if other != workload])
        truth = [reached > seen for reached in shares[workload]]
        parts = [[report for report in run if report[0] <= seen + 1e-9] for run in of]
        learns.append(statistics.fmean(truth))
        errors.append(
            [
                statistics.fmean((rule(part, seen, known) - so) ** 2 for part, so in zip(parts, truth, strict=True))
                for rule in RULES.values()
            ]
        )
    return statistics.fmean(learns), [statistics.fmean(column) for column in zip(*errors, strict=True)]


# --- while a loss still falls -----------------------------------------------------------------------------------------


class Falling(msgspec.Struct, frozen=True):
    """A run at a moment at which its loss still falls.

    Attributes:
        weight: By which each workload counts as much.
        done: Share of its steps.
        lowest: Its lowest loss so far over its first one.
        reached: The share at which it will have 90 % of its reduction.
        foreseen: That by the policy's rule.
    """

    weight: float
    done: float
    lowest: float
    reached: float
    foreseen: float


def print_ahead(runs: Mapping[str, Sequence[Sequence[Report]]]) -> None:
    """Print each rule's error."""
    moments = {workload: list(falling(of)) for workload, of in runs.items()}
    moments = {workload: of for workload, of in moments.items() if of}
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for workload, of in moments.items():
        others = [one for other, ones in moments.items() if other != workload for one in ones]
        times = multiple(others)
        a, b = exponents(others)
        errors["multiple"].append(error(of, [one.done * times for one in of]))
        errors["fitted"].append(error(of, [one.done**a * one.lowest**b for one in of]))
        errors["policy"].append(error(of, [one.foreseen for one in of]))
    a, b = exponents([one for ones in moments.values() for one in ones])
    figure("fitted to all", workloads=len(moments), a=round(a, 2), b=round(b, 2))
    for name, found in errors.items():
        figure(name, error=round(statistics.fmean(found), 2))


def falling(runs: Sequence[Sequence[Report]]) -> Iterator[Falling]:
    """The moments of a workload's runs."""
    for run in runs:
        course, reached, steps = LossCourse(), learned_at(run), len(run) - 1
        for number, (done, loss) in enumerate(run[1:], 1):
            course.add(number, loss)
            if reached is not None and done < reached and course.falls:
                yield Falling(1 / len(runs), done, course.lowest, reached, course.expected(number, steps))


def multiple(moments: Sequence[Falling]) -> float:
    """The multiple of the share that is done which fits best."""
    logs = [math.log(one.reached / one.done) for one in moments]
    return math.exp(statistics.fmean(logs, [one.weight for one in moments]))


def exponents(moments: Sequence[Falling]) -> tuple[float, float]:
    """Those of d and r, by least squares."""
    weights = np.sqrt([one.weight for one in moments])
    known = np.log([(one.done, one.lowest) for one in moments]) * weights[:, None]
    a, b = np.linalg.lstsq(known, np.log([one.reached for one in moments]) * weights)[0]
    return float(a), float(b)


def error(moments: Sequence[Falling], shares: Sequence[float]) -> float:
    """The mean error of the logarithm; a share is 1 at most."""
    return statistics.fmean(
        abs(math.log(min(share, 1.0) / one.reached)) for one, share in zip(moments, shares, strict=True)
    )


if __name__ == "__main__":
    main()
