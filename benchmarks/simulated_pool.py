"""Cost of simulating a whole pool: the live deciders, view and saga under SpeCon, as jobs and nodes grow in number.

Jobs of the thesis' ten models arrive over ten minutes, ten to a node, each first on a node drawn at random, so that there
is something to move. Seconds are of the processor. Beside each run stands a bare one of the same size: as many events put
into a heap and taken out of it in order, which no simulation can do without.

``--beside CHECKOUT [--pairs 10]`` compares with another commit instead, of which that folder is a checkout with its own
``.venv``: the thesis' 50 mixed jobs under SpeCon, on both in turn, as a ratio of processor seconds with its 95 % interval.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.frame.bench import cpu_s, doing, each, figure, options

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.estimate import estimate
from steepest_lab.sim.losses.thesis import SPECON
from steepest_lab.sim.policies import LIVE
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload

JOBS_A_NODE = 10
ARRIVALS_S = 600.0
NARROWER = 4
"""The models' demands are divided by this, so that ten jobs find room on a node."""

MIXED = """
import time
from steepest.events.parameters import PoolParameters
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.policies import LIVE
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workloads.read import open_workload

parameters = LIVE["specon"].parameters(PoolParameters())
def simulate(seed):
    simulate_system(open_workload("thesis:mixed-50", seed=seed), open_cluster("8x8cpu"), "specon", parameters, seed)
simulate(0)  # imports what is imported late
began = time.process_time()
for seed in range(4):
    simulate(seed)
print(time.process_time() - began)
"""
"""A program that runs in a checkout of any age from the first commit that has :func:`simulate_system` on."""


def workload(jobs: int, rng: random.Random) -> Workload:
    """A workload of that many jobs."""
    models = list(SPECON.items())
    arrivals = sorted(round(rng.uniform(0, ARRIVALS_S), 3) for _ in range(jobs))
    made = []
    for number, at_s in enumerate(arrivals):
        name, model = rng.choice(models)
        made.append(
            SimJob(
                name=f"j{number}",
                submit_s=at_s,
                requests=Resources(cpu_m=100),
                work_s=model.work_s,
                iterations=model.reports,
                model=name,
                family=model.family,
                demand_cpu_m=model.demand_cpu_m // NARROWER,
            )
        )
    return Workload(source="drawn", format="thesis", jobs=made)


def measure(jobs: int) -> None:
    """One size."""
    doing(f"{jobs} jobs")
    rng = random.Random(1)  # noqa: S311 - no secret
    work, cluster = workload(jobs, rng), open_cluster(f"{max(1, jobs // JOBS_A_NODE)}x8cpu")
    first = {job.name: rng.choice(cluster.nodes).name for job in work.jobs}
    parameters = LIVE["specon"].parameters(PoolParameters())
    began = time.process_time()
    result = simulate_system(work, cluster, "specon", parameters, 0, first_nodes=first)
    took_s = time.process_time() - began
    summary = result.summary()
    bare_s = bare(result.events, rng)
    figure(
        f"{jobs} jobs",
        finished=summary.finished,
        moves=summary.migrations,
        events=result.events,
        cpu_s=round(took_s, 1),
        jobs_per_s=round(jobs / took_s),
        events_per_s=round(result.events / took_s),
        bare_heap_events_per_s=round(result.events / bare_s),
    )


def bare(events: int, rng: random.Random) -> float:
    """Processor seconds of a heap alone, which holds a tenth of the events at any time."""
    times = [rng.random() for _ in range(events)]

    def turn_over() -> None:
        heap: list[tuple[float, int]] = []
        for number, at in enumerate(times):
            heapq.heappush(heap, (number + at * events / 10, number))
            if number >= events // 10:
                heapq.heappop(heap)
        while heap:
            heapq.heappop(heap)

    return cpu_s(turn_over)


def beside(checkout: Path, pairs: int) -> None:
    """Processor seconds of the same simulations here and in another checkout, in alternating order."""
    here: list[float] = []
    there: list[float] = []
    for number in each("pairs", range(pairs)):
        both = [(here, Path(sys.executable)), (there, checkout.resolve() / ".venv/bin/python")]
        for taken, python in both if number % 2 else reversed(both):
            run = subprocess.run([python, "-c", MIXED], check=True, capture_output=True, text=True)
            taken.append(float(run.stdout))
    found = estimate([math.log(mine / other) for mine, other in zip(here, there, strict=True)])
    figure(
        "ratio",
        cpu_s=round(statistics.median(here), 3),
        cpu_s_beside=round(statistics.median(there), 3),
        ratio=round(math.exp(found.mean), 3),
        interval=[round(math.exp(found.low), 3), round(math.exp(found.high), 3)],
    )


def main() -> None:
    """Measure and print."""

    def more(parser: argparse.ArgumentParser) -> None:
        help_ = "compare with the commit that is checked out there"
        parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help=help_)

    asked = options(__doc__, more, jobs=((20,), (1_000, 3_000), (1_000, 10_000, 100_000)), pairs=(2, 5, 10))
    if asked.beside is not None:
        beside(asked.beside, asked.pairs)
        return
    for size in asked.jobs:
        measure(size)


if __name__ == "__main__":
    main()
