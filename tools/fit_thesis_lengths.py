# ruff: noqa: INP001 - a tool, not a package
"""Finds the factors on the lengths of the thesis' jobs with which the default scheduler's published figures come out.

Each experiment has one factor for each start. The tool searches the one for which the default run's mean completion and
makespan are nearest to the published ones: the least sum of squared logarithms of their ratios, of the means over 20 seeds.
The published figures of SpeCon and FlowCon are not used.

Run: ``python tools/fit_thesis_lengths.py [EXPERIMENT …]``; some minutes.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics

import msgspec

from steepest_lab.reproduce.experiments.experiment import Experiment
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.run import ran
from steepest_lab.reproduce.papers import SIMULATED
from steepest_lab.sim.run import side_by_side

SEEDS = 20
STEPS = 12
"""Of the golden section; each narrows the factor's range to 0.62 of it."""

LEAST, MOST = 0.25, 4.0
GOLDEN = (math.sqrt(5) - 1) / 2

FITTED = ("mean", "makespan")


EXPERIMENTS = {
    one.name: one
    for paper in SIMULATED.values()
    for one in (*paper.experiments, *paper.sensitivity)
    if one.lengths and one.default
}


def default_run(experiment: Experiment, start: Start, seed: int) -> dict[str, float]:
    """Mean completion and makespan of one run, in seconds."""
    summary = ran(experiment, None, start, seed).summary()
    return {"mean": summary.mean_jct, "makespan": summary.makespan}


def means(experiment: Experiment, start: Start, factor: float) -> dict[str, tuple[float, float]]:
    """The published and the simulated value of each printed figure."""
    changed = msgspec.structs.replace(experiment, lengths={start: factor})
    runs = list(side_by_side(functools.partial(default_run, changed, start), range(SEEDS)))
    printed = {one.measure: one.value for one in experiment.default if one.value is not None}
    return {name: (printed[name], statistics.fmean(run[name] for run in runs)) for name in FITTED if name in printed}


def distance(experiment: Experiment, start: Start, factor: float) -> float:
    """The sum of squared logarithms over all figures."""
    return sum(math.log(ours / published) ** 2 for published, ours in means(experiment, start, factor).values())


def best(experiment: Experiment, start: Start) -> float:
    """The factor of least distance: a golden-section search over its logarithm."""
    low, high = math.log(LEAST), math.log(MOST)
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    distances = [distance(experiment, start, math.exp(one)) for one in inner]
    for _ in range(STEPS):
        if distances[0] < distances[1]:
            high = inner[1]
            inner = [high - GOLDEN * (high - low), inner[0]]
            distances = [distance(experiment, start, math.exp(inner[0])), distances[0]]
        else:
            low = inner[0]
            inner = [inner[1], low + GOLDEN * (high - low)]
            distances = [distances[1], distance(experiment, start, math.exp(inner[1]))]
    return math.exp((low + high) / 2)


def main() -> None:
    """Print each factor, and the result of the default run with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}")
    for name in parser.parse_args().experiments or EXPERIMENTS:
        for start in EXPERIMENTS[name].starts:
            factor = best(EXPERIMENTS[name], start)
            print(f"{name}, {start}: {factor:.2f}")  # noqa: T201
            for measure, (published, ours) in means(EXPERIMENTS[name], start, factor).items():
                print(f"  {measure}: published {published:,.1f} s, ours {ours:,.1f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
