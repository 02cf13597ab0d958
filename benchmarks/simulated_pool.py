"""Cost of simulating a whole pool: the live deciders, view and saga under SpeCon, as jobs and nodes grow in number.

Jobs of the thesis' ten models arrive over ten minutes, ten to a node, each first on a node drawn at random, so that there
is something to move. Seconds are of the processor. Beside each run stands a bare one of the same size: as many events put
into a heap and taken out of it in order, which no simulation can do without.

Run: ``python benchmarks/simulated_pool.py [--jobs 1000,10000] [--json]``; 100,000 jobs on 10,000 nodes take some minutes.

``--beside CHECKOUT [--pairs 10]`` compares with another commit instead, of which that folder is a checkout with its own
``.venv``: the thesis' 50 mixed jobs under SpeCon, on both in turn, as a ratio of processor seconds with its 95 % interval.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import platform
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.sim.clusters import open_cluster
from steepest.sim.losses.thesis import SPECON
from steepest.sim.policies import LIVE
from steepest.sim.reproduce.verdict import estimate
from steepest.sim.system.simulate import simulate_system
from steepest.sim.workload import SimJob, Workload

JOBS_A_NODE = 10
ARRIVALS_S = 600.0
NARROWER = 4
"""The models' demands are divided by this, so that ten jobs find room on a node."""

MIXED = """
import time
from steepest.events.parameters import PoolParameters
from steepest.sim.clusters import open_cluster
from steepest.sim.policies import LIVE
from steepest.sim.system.simulate import simulate_system
from steepest.sim.workloads.read import open_workload

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


def measure(jobs: int) -> dict[str, Any]:
    """One size."""
    rng = random.Random(1)  # noqa: S311 - no secret
    work, cluster = workload(jobs, rng), open_cluster(f"{max(1, jobs // JOBS_A_NODE)}x8cpu")
    first = {job.name: rng.choice(cluster.nodes).name for job in work.jobs}
    parameters = LIVE["specon"].parameters(PoolParameters())
    began = time.process_time()
    result = simulate_system(work, cluster, "specon", parameters, 0, first_nodes=first)
    took_s = time.process_time() - began
    summary = result.summary()
    bare_s = bare(result.events, rng)
    return {
        "jobs": jobs,
        "nodes": len(cluster.nodes),
        "finished": summary.finished,
        "moves": summary.migrations,
        "events": result.events,
        "cpu_seconds": round(took_s, 1),
        "jobs_per_s": round(jobs / took_s),
        "events_per_s": round(result.events / took_s),
        "bare_heap_events_per_s": round(result.events / bare_s),
    }


def bare(events: int, rng: random.Random) -> float:
    """Processor seconds of a heap alone, which holds a tenth of the events at any time."""
    times = [rng.random() for _ in range(events)]
    began = time.process_time()
    heap: list[tuple[float, int]] = []
    for number, at in enumerate(times):
        heapq.heappush(heap, (number + at * events / 10, number))
        if number >= events // 10:
            heapq.heappop(heap)
    while heap:
        heapq.heappop(heap)
    return time.process_time() - began


def beside(checkout: Path, pairs: int) -> dict[str, Any]:
    """Processor seconds of the same simulations here and in another checkout, in alternating order."""
    here: list[float] = []
    there: list[float] = []
    for number in range(pairs):
        both = [(here, Path(sys.executable)), (there, checkout.resolve() / ".venv/bin/python")]
        for taken, python in both if number % 2 else reversed(both):
            run = subprocess.run([python, "-c", MIXED], check=True, capture_output=True, text=True)
            taken.append(float(run.stdout))
    found = estimate([math.log(mine / other) for mine, other in zip(here, there, strict=True)])
    return {
        "pairs": pairs,
        "cpu_seconds": round(statistics.median(here), 3),
        "cpu_seconds_beside": round(statistics.median(there), 3),
        "ratio": round(math.exp(found.mean), 3),
        "interval": [round(math.exp(found.low), 3), round(math.exp(found.high), 3)],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="1000,10000", help="sizes, separated by commas")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument(
        "--beside", type=Path, metavar="CHECKOUT", help="compare with the commit that is checked out there"
    )
    parser.add_argument("--pairs", type=int, default=10, help="runs of each, at least 2")
    options = parser.parse_args()
    if options.beside is not None:
        sys.stdout.write(json.dumps(beside(options.beside, options.pairs)) + "\n")
        return
    rows = []
    for size in options.jobs.split(","):
        rows.append(measure(int(size)))
        if not options.json:
            sys.stdout.write("  ".join(f"{name}={value}" for name, value in rows[-1].items()) + "\n")
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(json.dumps({"machine": platform.platform(), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
