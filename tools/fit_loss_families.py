# ruff: noqa: INP001 - a tool, not a package
"""Fits the loss families of ``steepest_lab.sim.losses`` to real runs and writes ``families.json``.

Every run is fitted with every shape: a shape's rates are searched on a logarithmic grid and then refined (Nelder, Mead),
and for given rates its other parameters, none below 0, follow by least squares (Golub, Pereyra 1973; ``scipy``'s
non-negative least squares). Of the shapes the one with the least Bayesian information criterion is taken. A workload
becomes one family: the run whose fitted curve, divided by its beginning, is nearest to those of all other runs.

Run: ``python -m tools.fit_loss_families DATA``, where DATA holds ``algoperf-curves.jsonl.gz`` (AlgoPerf v0.5),
``pollux/traces/`` (the OSDI 2021 artifact) and ``taskset/*.json.gz``. It takes a few minutes.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from steepest_lab.sim.losses.curve import Exponential, Fitted, Inverse, Power, TwoPhase
from steepest_lab.sim.losses.families import Catalogue, Family, task_of
from tools.real_curves import RealCurve, algoperf_curves, pollux_curves, taskset_curves

OUT = Path(__file__).parents[1] / "libs/steepest-lab/src/steepest_lab/sim/losses/families.json"

MOST_POINTS = 400
SMOOTHED_OVER = 5
LEAST_FALL = 0.15
"""A run that loses less than this share of its first loss has learnt nothing that a shape could show."""

LEAST_R2 = 0.5
"""A workload whose losses the shapes explain less than this of is no family."""

RATES = np.logspace(-1, 4, 26)
EXPONENTS = np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5])

Array = NDArray[np.float64]


class Shape(msgspec.Struct, frozen=True):
    """How a shape is fitted: the columns that its rates give, the rates to try, and the curve of what is found."""

    columns: Callable[[Array, Sequence[float]], list[Array]]
    grid: list[tuple[float, ...]]
    curve: Callable[[Sequence[float], Sequence[float]], Fitted]


SHAPES = {
    "inverse": Shape(
        lambda p, r: [1 / (1 + r[0] * p)],
        [(float(rate),) for rate in RATES],
        lambda r, a: Inverse(floor=a[0], drop=a[1], rate=r[0]),
    ),
    "power": Shape(
        lambda p, r: [(1 + r[0] * p) ** -r[1]],
        [(float(rate), float(exponent)) for rate in RATES for exponent in EXPONENTS],
        lambda r, a: Power(floor=a[0], drop=a[1], rate=r[0], exponent=r[1]),
    ),
    "exponential": Shape(
        lambda p, r: [np.exp(-r[0] * p)],
        [(float(rate),) for rate in RATES],
        lambda r, a: Exponential(floor=a[0], drop=a[1], rate=r[0]),
    ),
    "two-phase": Shape(
        lambda p, r: [np.exp(-r[0] * p), np.exp(-r[1] * p)],
        [(float(fast), float(slow)) for slow, fast in itertools.combinations(RATES[::2], 2)],
        lambda r, a: TwoPhase(floor=a[0], fast=a[1], fast_rate=r[0], slow=a[2], slow_rate=r[1]),
    ),
}


class Fit(msgspec.Struct, frozen=True):
    """A run's best shape."""

    run: str
    shape: str
    curve: Fitted
    r2: float
    error: float
    noise: float


def main() -> None:
    """Fits, writes, and prints how well the shapes fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the real runs")
    data: Path = parser.parse_args().data
    groups: dict[str, list[Fit]] = defaultdict(list)
    for group, run in real_runs(data):
        groups[group].append(fit(run))
    found = [family(group, fits) for group, fits in groups.items()]
    families = [one for one in found if one.r2 is not None and one.r2 >= LEAST_R2]
    OUT.write_bytes(msgspec.json.format(msgspec.json.encode(Catalogue(Path(__file__).name, tuple(families)))) + b"\n")
    for one in found:
        print(f"{one.name:42} {one.runs:4} runs  r2 {one.r2:.3f}  error {one.error:.3f}  noise {one.noise:.3f}")  # noqa: T201
    fits = [one for group in groups.values() for one in group]
    print(f"{len(families)} of {len(found)} workloads are families, with an r2 of {LEAST_R2} or more")  # noqa: T201
    print(f"{len(fits)} runs; best shape: {dict(Counter(one.shape for one in fits))}")  # noqa: T201
    print(f"median r2 {statistics.median(one.r2 for one in fits):.3f}")  # noqa: T201


def real_runs(data: Path) -> Iterator[tuple[str, RealCurve]]:
    """The runs that learn, by the family to fit."""
    sources = [("algoperf", algoperf_curves(data / "algoperf-curves.jsonl.gz"))]
    sources.append(("pollux", pollux_curves(data / "pollux" / "traces")))
    sources += [("taskset", taskset_curves(path)) for path in sorted((data / "taskset").glob("*.json.gz"))]
    for source, runs in sources:
        for run in runs:
            losses = smoothed(np.array(run.points.losses))
            if losses.min() < (1 - LEAST_FALL) * losses[0]:
                yield f"{source}/{run.workload.replace('_', '-')}", run


def smoothed(losses: Array) -> Array:
    """The median over neighbouring points; fewer of them at both ends."""
    reach = SMOOTHED_OVER // 2
    return np.array([np.median(losses[max(0, at - reach) : at + reach + 1]) for at in range(len(losses))])


def fit(run: RealCurve) -> Fit:
    """The best shape of a run."""
    raw = np.array(run.points.losses)
    smooth = smoothed(raw)
    deviations = np.log(raw / smooth)
    noise = 1.4826 * float(np.median(np.abs(deviations - np.median(deviations))))
    kept = np.unique(np.linspace(0, len(raw) - 1, MOST_POINTS).astype(int))
    progress, losses = np.array(run.points.progress)[kept], smooth[kept]
    found = [(name, *fit_shape(shape, progress, losses)) for name, shape in SHAPES.items()]
    name, _, curve, left = min(found, key=lambda one: one[1])
    return Fit(
        run=run.run,
        shape=name,
        curve=curve,
        r2=round(1 - left / float(((losses - losses.mean()) ** 2).sum()), 4),
        error=round((left / len(losses)) ** 0.5 / float(np.ptp(losses)), 4),
        noise=round(noise, 4),
    )


def fit_shape(shape: Shape, progress: Array, losses: Array) -> tuple[float, Fitted, float]:
    """Information criterion, curve, and sum of squares that remains."""

    def solved(rates: Sequence[float]) -> tuple[Array, float]:
        matrix = np.column_stack([np.ones_like(progress), *shape.columns(progress, rates)])
        amounts, misfit = nnls(matrix, losses)
        return amounts, float(misfit) ** 2

    start = min(shape.grid, key=lambda rates: solved(rates)[1])
    refined = minimize(lambda logs: solved(np.exp(logs))[1], np.log(start), method="Nelder-Mead")
    rates = [float(rate) for rate in np.exp(refined.x)]
    amounts, left = solved(rates)
    parameters = len(rates) + len(amounts)
    criterion = len(losses) * np.log(left / len(losses)) + parameters * np.log(len(losses))
    short = [float(f"{value:.6g}") for value in (*rates, *amounts)]
    return float(criterion), shape.curve(short[: len(rates)], short[len(rates) :]), left


def family(name: str, fits: Sequence[Fit]) -> Family:
    """The run nearest to all others, which represents them."""
    at = np.linspace(0, 1, 101)
    curves = np.array([[one.curve.expected(float(p)) / one.curve.expected(0) for p in at] for one in fits])
    far = [float(np.abs(curves - curve).mean()) for curve in curves]
    middle = fits[int(np.argmin(far))]
    return Family(
        name=name,
        task=task_of(name) or "",
        curve=middle.curve,
        noise=round(statistics.median(one.noise for one in fits), 4),
        source=f"{name.partition('/')[0]}: {middle.run}",
        runs=len(fits),
        r2=middle.r2,
        error=middle.error,
    )


if __name__ == "__main__":
    main()
