"""Cost of simulating a whole pool: the live deciders, view and saga under SpeCon, as jobs and nodes grow in number.

Jobs of the thesis' ten models arrive over ten minutes, ten to a node, each first on a node drawn at random, so that there
is something to move. Seconds are of the processor. Beside each run stands a bare one of the same size: as many events put
into a heap and taken out of it in order, which no simulation can do without.

Run: ``python benchmarks/simulated_pool.py [--jobs 1000,10000] [--json]``; 100,000 jobs on 10,000 nodes take some minutes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import platform
import random
import sys
import time
from typing import Any

from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.sim.clusters import open_cluster
from steepest.sim.losses.thesis import SPECON
from steepest.sim.policies import LIVE
from steepest.sim.system.simulate import simulate_system
from steepest.sim.workload import SimJob, Workload

JOBS_A_NODE = 10
ARRIVALS_S = 600.0
NARROWER = 4
"""The models' demands are divided by this, so that ten jobs find room on a node."""


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="1000,10000", help="sizes, separated by commas")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
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
