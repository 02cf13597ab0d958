"""What a pass costs the gang-scheduler while gangs wait: 10,000 of them on 1,000 nodes, under each variant of DRAGON.

Gangs as in ``gang_queue.py`` fill the nodes and run; the others wait, and starve. Then, at each tick, some gangs have
ended and as many have come. Each record that the gang-scheduler is asked about is timed; beside the passes stand the other
records, in which it only takes in what has changed. Seconds are of the processor.

Run: ``python benchmarks/dragon_queue.py [--gangs 10000] [--nodes 1000] [--ticks 100] [--ends 2] [--policy dragon-fixed]``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.events.registry import FLAGS, READS
from steepest.events.requests import Role
from steepest.policies.dragon.gang_scheduler import CHANGES, GangScheduler
from steepest.policies.named import under
from steepest.testing.scenarios.folded_pool import submitted
from steepest.testing.system.driver import DeciderDriver
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

NODE = Resources(cpu_m=96_000, memory_mib=524_288, gpus=8)
VARIANTS = ("dragon", "dragon-paper-era", "dragon-fixed")


class TimedScheduler(GangScheduler):
    """A gang-scheduler that notes how long each record took, in milliseconds, apart for passes and others."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[float] = []
        self.others: list[float] = []

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Decide."""
        began = time.process_time()
        decided = super().step(view, received)
        took = 1000 * (time.process_time() - began)
        (self.passes if isinstance(received.event, (*CHANGES, c.Tick)) else self.others).append(took)
        return decided


def gang(rng: random.Random, name: str) -> c.JobSubmitted:
    """Most gangs are small, and a third is elastic."""
    replicas = rng.choice((2, 2, 4, 4, 8, 8, 16, 32, 64))
    requests = Resources(rng.choice((1_000, 2_000, 4_000)), rng.choice((4_096, 8_192)), rng.choice((1, 1, 2, 4)))
    least = replicas // 2 if rng.random() < 1 / 3 else replicas
    roles = (Role(name="worker", replicas=replicas, min=least, requests=requests),)
    return submitted(name, roles=roles)


def measure(policy: str, *, gangs: int, nodes: int, ticks: int, ends: int) -> dict[str, Any]:
    """One variant."""
    rng = random.Random(1)  # noqa: S311 - no secret
    scheduler = TimedScheduler()
    driver = DeciderDriver(scheduler)
    parameters = under(policy, PoolParameters(settle_ms=10**9))
    driver.fold(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=parameters))
    driver.feed(*(c.NodeJoined(node=f"n{number:04}", capacity=NODE) for number in range(nodes)))
    number = 0
    while len(driver.view.jobs.queue) < gangs:
        driver.feed(gang(rng, f"gang-{number}"))
        number += 1
    for job in [job for job in driver.active() if job.phase is Phase.RUNNING]:
        driver.carry_out(job.name)
    scheduler.passes.clear()
    scheduler.others.clear()
    for _ in range(ticks):
        driver.tick()
        running = [job for job in driver.active() if job.phase is Phase.RUNNING]
        for job in rng.sample(running, min(ends, len(running))):
            end(driver, job.name)
        driver.feed(*(gang(rng, f"gang-{number + more}") for more in range(ends)))
        number += ends
        for job in [job for job in driver.active() if job.plan]:
            driver.carry_out(job.name)
    return {
        "policy": policy,
        "waiting": len(driver.view.jobs.queue),
        "scaled": sum(isinstance(event, c.TransitionPlanned) for event in driver.decided),
        **percentiles("pass", scheduler.passes),
        **percentiles("other", scheduler.others),
    }


def end(driver: DeciderDriver, name: str) -> None:
    """A gang finishes."""
    job = driver.carry_out(name)
    for index in range(len(job.nodes)):
        driver.fold(driver.stopped(name, 0, replica=index))
    driver.fold(c.JobEnded(job=name, outcome=c.Outcome.FINISHED, exit_status=0))


def percentiles(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Median and 99th percentile in milliseconds, of so many."""
    cuts = statistics.quantiles(values, n=100)
    return {f"{name}_p50_ms": round(cuts[49], 3), f"{name}_p99_ms": round(cuts[98], 3), f"{name}es": len(values)}


def main() -> None:
    """Print one JSON object a variant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for option, default in (("--gangs", 10_000), ("--nodes", 1_000), ("--ticks", 100), ("--ends", 2)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--policy", action="append", choices=VARIANTS)
    given = parser.parse_args()
    for policy in given.policy or VARIANTS:
        found = measure(policy, gangs=given.gangs, nodes=given.nodes, ticks=given.ticks, ends=given.ends)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
