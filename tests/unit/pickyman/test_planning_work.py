"""What the planner does in a large pool, counted in calls of functions: nothing more where nothing changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PickyManParameters, PoolParameters, PreemptionLimits, QueueParameters
from steepest.policies.pickyman.preemption_planner import LOOKED_AT, PreemptionPlanner

PER_NODE = 8


def pool_of(running: int, waiting: int) -> FoldedPool:
    """Full nodes with jobs that are predicted, and longer ones that wait: none of those is worth a suspension."""
    pool = FoldedPool()
    parameters = PoolParameters(
        pickyman=PickyManParameters(on=True),
        queueing=QueueParameters(policy="predicted"),
        preemption=PreemptionLimits(min_run_ms=0),
    )
    pool.feed(c.PoolConfigured(parameters=parameters))
    pool.feed(*(joined(f"n{node}", 96_000, 524_288, PER_NODE) for node in range(running // PER_NODE)))
    for number in range(running):
        name = f"r{number}"
        pool.feed(submitted(name, requests=Resources(cpu_m=1_000, gpus=1)), placement(name, f"n{number // PER_NODE}"))
        pool.carry_out(name)
        pool.fold(predicted(name, 1, 1_000_000 + number))
    for number in range(waiting):
        name = f"w{number}"
        pool.fold(submitted(name, requests=Resources(cpu_m=1_000, gpus=1)))
        pool.fold(predicted(name, 0, 998_000 + number))
    return pool


def predicted(name: str, incarnation: int, ms: int) -> c.RunTimePredicted:
    """A prediction."""
    left = c.PredictedSpan(ms, ms, ms)
    return c.RunTimePredicted(
        job=name, incarnation=incarnation, method=c.PredictionMethod.TIME_MODEL, total=left, remaining=left
    )


def calls(do: Callable[[], object]) -> int:
    """How many functions, of Python and of C, a call enters."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


def work(running: int, waiting: int) -> tuple[int, int]:
    """Of a record that changes nothing, and of a tick at which nothing is worth it."""
    pool, planner = pool_of(running, waiting), PreemptionPlanner()
    planner.step(pool.view, pool.log[-1])
    pool.tick()
    assert not planner.step(pool.view, pool.log[-1])
    pool.fold(c.NodeUsage(node="n0", used=Resources(), jobs={}))
    idle = calls(lambda: planner.step(pool.view, pool.log[-1]))
    pool.tick()
    return idle, calls(lambda: planner.step(pool.view, pool.log[-1]))


def test_where_nothing_changed_the_work_does_not_grow_with_the_pool() -> None:
    """More running jobs than the planner looks at, and four times as many of them and of the waiting ones."""
    small, large = work(2 * LOOKED_AT, 20), work(8 * LOOKED_AT, 80)
    assert large[0] == small[0]
    assert large[1] <= 1.05 * small[1]
