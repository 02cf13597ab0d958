"""PickyMan's planner: how far its greedy choice is from the best one, and what a plan costs in a large pool.

*Gap*: small instances at random (up to three waiting jobs, up to six running ones), in which every ordered division without
superfluous members is tried. An instance's gap is the share of the best division's gain that the greedy one misses. *Plan*:
10,000 jobs run and 1,000 wait; the time of a tick at which the planner looks at the first waiting jobs, beside that of a
record that changes nothing, and of such a record in a pool of a tenth of the size. Seconds are of the processor.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from itertools import product

import msgspec
from benchmarks.frame.bench import cpu_s, doing, figure, options
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PickyManParameters, PoolParameters, PreemptionLimits, QueueParameters
from steepest.events.received import Received
from steepest.policies.pickyman.division import Victim, Wanted, best_block, gain_ms, room_in_ms
from steepest.policies.pickyman.preemption_planner import PreemptionPlanner
from steepest.policies.queueing.wish import Wish

NODE = "n1"


def instance(rng: random.Random) -> tuple[list[Wanted], list[Victim], int]:
    """Waiting jobs in order, running ones, and free GPUs."""
    running = [
        Victim(
            name=f"v{number}",
            remaining_ms=1000 * rng.lognormvariate(7, 1.5),
            suspension_ms=1000 * rng.uniform(0, 600),
            resumption_ms=1000 * rng.uniform(10, 120),
            leaves={NODE: Resources(gpus=rng.choice((1, 1, 1, 2, 2, 4)))},
        )
        for number in range(rng.randint(2, 6))
    ]
    waiting = [
        Wanted(f"w{number}", 1000 * rng.lognormvariate(5.5, 1.5), Wish(Resources(gpus=gpus), None, ("queue default",)))
        for number, gpus in enumerate(rng.choice((1, 1, 2, 2, 4)) for _ in range(rng.randint(1, 3)))
    ]
    free = rng.choice((0, 0, 0, 1))
    ending = sorted(running, key=lambda one: one.remaining_ms)
    waiting = [
        msgspec.structs.replace(one, room_in_ms=room_in_ms(one, {NODE: Resources(gpus=free)}, ending))
        for one in sorted(waiting, key=lambda one: one.remaining_ms)
    ]
    return waiting, running, free


def greedy(waiting: Sequence[Wanted], running: Sequence[Victim], free: int) -> float:
    """The planner's gain."""
    total, left = 0.0, list(running)
    for wanted in waiting:
        if wanted.wish.requests.gpus <= free:
            free -= wanted.wish.requests.gpus
            continue
        block = best_block(wanted, {NODE: Resources(gpus=free)}, {NODE: left})
        if block is None:
            continue
        total += gain_ms(wanted, block.victims)
        free += sum(one.leaves[NODE].gpus for one in block.victims) - wanted.wish.requests.gpus
        left = [one for one in left if one not in block.victims]
    return total


def best(waiting: Sequence[Wanted], running: Sequence[Victim], free: int) -> float:
    """The largest gain of all ordered divisions that make room."""
    return max(_gains(waiting, running, free))


def _gains(waiting: Sequence[Wanted], running: Sequence[Victim], free: int) -> Iterator[float]:
    for to in product(range(len(waiting) + 1), repeat=len(running)):
        left, total = free, 0.0
        for number, wanted in enumerate(waiting):
            block = [one for one, block in zip(running, to, strict=True) if block == number]
            fits = wanted.wish.requests.gpus <= left
            if block and (fits or _is_too_large(wanted, block, left)):
                break  # of a block with more than is needed, the gain would count what it need not wait for
            if not block:
                left -= wanted.wish.requests.gpus if fits else 0
                continue
            left += sum(one.leaves[NODE].gpus for one in block) - wanted.wish.requests.gpus
            total += gain_ms(wanted, block)
            if left < 0:
                break
        else:
            yield total


def _is_too_large(wanted: Wanted, block: Sequence[Victim], free: int) -> bool:
    """Whether there would be room without one of the block."""
    freed = free + sum(one.leaves[NODE].gpus for one in block)
    return any(freed - one.leaves[NODE].gpus >= wanted.wish.requests.gpus for one in block)


def gaps(count: int) -> None:
    """The gaps of instances in which anything can be gained; within 5 % on average."""
    doing(f"{count} instances")
    rng, tried = random.Random(1), 0  # noqa: S311
    found: list[float] = []
    while len(found) < count:
        waiting, running, free = instance(rng)
        tried += 1
        most = best(waiting, running, free)
        if most > 0:
            found.append(1 - greedy(waiting, running, free) / most)
    found.sort()
    optimal = sum(gap < 1e-9 for gap in found) / len(found)  # noqa: PLR2004
    gap = {"mean": statistics.fmean(found), "p95": found[int(0.95 * len(found))], "largest": found[-1]}
    figure("gap", instances=len(found), tried=tried, optimal=optimal, **gap)


def pool_of(running: int, waiting: int, per_node: int = 8) -> FoldedPool:
    """Nodes full of jobs of one GPU with predicted remaining times, and jobs that wait."""
    rng, pool = random.Random(2), FoldedPool()  # noqa: S311
    parameters = PoolParameters(
        pickyman=PickyManParameters(on=True),
        queueing=QueueParameters(policy="predicted"),
        preemption=PreemptionLimits(min_run_ms=0),
    )
    pool.feed(c.PoolConfigured(parameters=parameters))
    nodes = -(-running // per_node)
    pool.feed(*(joined(f"n{node}", 96_000, 524_288, per_node) for node in range(nodes)))
    for number in range(running):
        name = f"r{number}"
        pool.feed(submitted(name, requests=Resources(cpu_m=1_000, gpus=1)), placement(name, f"n{number // per_node}"))
        pool.carry_out(name)
        pool.fold(predicted(name, 1, 1000 * rng.lognormvariate(8, 1.5)))
    for number in range(waiting):
        name = f"w{number}"
        gpus = rng.choice((1, 1, 1, 2, 4, 8))
        pool.fold(submitted(name, requests=Resources(cpu_m=1_000, gpus=gpus)))
        pool.fold(predicted(name, 0, 1000 * rng.lognormvariate(6, 1.5)))
    return pool


def predicted(name: str, incarnation: int, ms: float) -> c.RunTimePredicted:
    """A prediction."""
    left = c.PredictedSpan(round(ms), round(0.9 * ms), round(1.1 * ms))
    return c.RunTimePredicted(
        job=name, incarnation=incarnation, method=c.PredictionMethod.TIME_MODEL, total=left, remaining=left
    )


def planning(running: int, waiting: int, times: int = 20) -> None:
    """Milliseconds of a plan, and of a record that changes nothing."""
    doing(f"a pool with {running} running and {waiting} waiting jobs")
    pool = pool_of(running, waiting)
    plans, idle, made = [], [], 0
    for _ in range(times):
        planner = PreemptionPlanner()
        planner.step(pool.view, pool.log[-1])  # it looks at the pool for the first time
        pool.tick()
        plans.append(_timed(planner, pool, pool.log[-1]))
        made = len(planner.state.jobs)
        pool.fold(c.NodeUsage(node="n0", used=Resources(), jobs={}))
        idle.append(_timed(planner, pool, pool.log[-1]))
    plan = {"decided": made, "plan_ms": round(statistics.median(plans), 2), "plan_max_ms": round(max(plans), 2)}
    figure(f"{running} run, {waiting} wait", **plan, record_ms=round(statistics.median(idle), 4))


def _timed(planner: PreemptionPlanner, pool: FoldedPool, received: Received[c.ClusterEvent]) -> float:
    return 1000 * cpu_s(lambda: planner.step(pool.view, received))


if __name__ == "__main__":
    asked = options(__doc__, instances=(10, 1_000, 1_000), running=(20, 10_000, 10_000), waiting=(10, 1_000, 1_000))
    gaps(asked.instances)
    planning(asked.running // 10, asked.waiting // 10)
    planning(asked.running, asked.waiting)
