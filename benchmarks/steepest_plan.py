"""What a plan of the policy ``steepest`` costs for one node, as the jobs on it grow in number.

Nine of ten jobs are of known size and have due times, the others keep up with their fair copies. Beside
each plan stands the sorting of as many pairs of numbers, which no plan by due time can do without.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from benchmarks.frame.bench import cpu_s, each, figure, options

from steepest.events.common import Resources
from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.fair.fair_pool import FairPool
from steepest.policies.steepest.node_plan import JobOnNode, plan_node

CORES = 64.0
UNKNOWN = 10
"""One job in so many is of unknown size."""

RUNS = 50
CHANGES = 8
"""Sizes that change between two plans: each makes the node's fair ends stale."""


def jobs_of(count: int, rng: random.Random) -> list[JobOnNode]:
    """Jobs that want several times what the node has."""
    return [
        JobOnNode(
            name=f"j{number}",
            left=None if number % UNKNOWN == 0 else rng.uniform(1, 2_000),
            demand=rng.uniform(0.5, 8),
            due_s=None if number % UNKNOWN == 0 else rng.uniform(-5, 600) * count / CORES,
            index=rng.random(),
            fair_rate=CORES / count if number % UNKNOWN == 0 else None,
            ahead=rng.uniform(0, 50) if number % UNKNOWN == 0 else 0.0,
        )
        for number in range(count)
    ]


def median_ms(action: Callable[[], object]) -> float:
    """Milliseconds of the processor, by the median of some runs."""
    return 1_000 * statistics.median(cpu_s(action) for _ in range(RUNS))


def measure(count: int) -> None:
    """One size: the plan, the fair ends that it needs, and both beside a sort."""
    rng = random.Random(1)  # noqa: S311 - no secret
    jobs, parameters = jobs_of(count, rng), SteepestParameters(on=True)
    pairs = [(rng.random(), number) for number in range(count)]
    pool, now_s = FairPool(), 0.0
    pool.join("n", Resources(cpu_m=round(CORES * 1_000)), now_s)
    for job in jobs:
        pool.come(job.name, Resources(), "n", now_s)
        pool.start(job.name, job.demand, now_s)
        pool.know(job.name, job.left, job.demand, now_s)

    def look() -> None:
        for job in rng.sample(jobs, min(CHANGES, count)):
            pool.know(job.name, rng.uniform(1e6, 2e6), job.demand, now_s)
        for job in jobs:
            pool.look(job.name, now_s)

    plan_ms, ends_ms = median_ms(lambda: plan_node(CORES, jobs, parameters)), median_ms(look)
    sort_ms = median_ms(lambda: sorted(pairs))
    figure(
        f"{count} jobs",
        plan_ms=round(plan_ms, 3),
        fair_ends_ms=round(ends_ms, 3),
        sort_ms=round(sort_ms, 4),
        plan_by_sort=round((plan_ms + ends_ms) / sort_ms),
    )


if __name__ == "__main__":
    for size in each("sizes", options(__doc__, jobs=((10,), (10, 100, 1_000), (10, 100, 1_000))).jobs):
        measure(size)
