"""What a tick costs the placer while gangs wait: 10,000 of them on 1,000 nodes.

Gangs of 2 to 64 replicas with 1 to 8 GPUs each, drawn at random, fill the nodes; the others wait. Before every tick, some of
the running gangs end, so that there is room to give away, and as many are submitted. A tick's time is that of the placer's
decision alone; beside it stands an idle one, before which nothing ended. Seconds are of the processor.

Run: ``python benchmarks/gang_queue.py [--gangs 10000] [--nodes 1000] [--ticks 300] [--ends 2] [--json]``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueParameters
from steepest.events.received import Received
from steepest.events.registry import FLAGS, READS
from steepest.events.requests import Role
from steepest.policies.placement.placer import Placer
from steepest.policies.queueing.ranks import QUEUE_POLICIES
from steepest.testing.scenarios.folded_pool import submitted
from steepest.testing.system.driver import DeciderDriver
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

NODE = Resources(cpu_m=96_000, memory_mib=524_288, gpus=8)
BOUND_MS = 10.0
"""Of the 99th percentile."""


class TimedPlacer(Placer):
    """A placer that notes how long each of its ticks took, in milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[float] = []
        self._is_silent = False

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Decide nothing: what becomes free is for the next tick to give away."""
        self._is_silent = True
        yield
        self._is_silent = False

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Decide."""
        if self._is_silent:
            return ()
        if not isinstance(received.event, c.Tick):
            return super().step(view, received)
        began = time.process_time()
        decided = super().step(view, received)
        self.ticks.append(1000 * (time.process_time() - began))
        return decided


def gang(rng: random.Random, name: str) -> c.JobSubmitted:
    """A gang as clusters see them: most are small, and a third is elastic."""
    replicas = rng.choice((2, 2, 4, 4, 8, 8, 16, 32, 64))
    requests = Resources(
        cpu_m=rng.choice((1_000, 2_000, 4_000, 8_000)),
        memory_mib=rng.choice((4_096, 8_192, 16_384, 32_768)),
        gpus=rng.choice((1, 1, 2, 4, 8)),
    )
    least = replicas // 2 if rng.random() < 1 / 3 else replicas
    roles = (Role(name="worker", replicas=replicas, min=least, requests=requests),)
    return submitted(name, priority=rng.choice((0, 0, 0, 100)), roles=roles)


def measure(policy: str, *, gangs: int, nodes: int, ticks: int, ends: int) -> dict[str, Any]:
    """One queue policy."""
    rng = random.Random(1)  # noqa: S311 - no secret
    placer = TimedPlacer()
    driver = DeciderDriver(placer)
    parameters = PoolParameters(queueing=QueueParameters(policy=policy), settle_ms=10**9)
    driver.fold(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=parameters))
    driver.feed(*(c.NodeJoined(node=f"n{number:04}", capacity=NODE) for number in range(nodes)))
    number = 0
    while len(driver.view.jobs.queue) < gangs:
        driver.feed(gang(rng, f"gang-{number}"))
        number += 1
    driver.tick()
    placer.ticks.clear()
    for _ in range(ticks):
        driver.tick()
    idle = placer.ticks[:]
    placer.ticks.clear()
    placed = len(driver.decided)
    for _ in range(ticks):
        running = [job for job in driver.active() if job.phase is Phase.RUNNING]
        with placer.silent():
            for job in rng.sample(running, min(ends, len(running))):
                end(driver, job.name)
        driver.feed(*(gang(rng, f"gang-{number + more}") for more in range(ends)))
        number += ends
        driver.tick()
    return {
        "policy": policy,
        "waiting": len(driver.view.jobs.queue),
        "placed": sum(isinstance(event, c.PlacementPlanned) for event in driver.decided[placed:]),
        **percentiles("idle", idle),
        **percentiles("tick", placer.ticks),
    }


def end(driver: DeciderDriver, name: str) -> None:
    """A gang starts, if it has not yet, and finishes."""
    job = driver.carry_out(name)
    for index, node in enumerate(job.nodes):
        driver.fold(
            c.ReplicaStopped(job=name, replica=index, node=node, incarnation=job.incarnation, exit_status=0, reason="")
        )
    driver.carry_out(name)
    driver.fold(c.JobEnded(job=name, outcome=c.Outcome.FINISHED, exit_status=0))


def percentiles(name: str, ms: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and the longest."""
    cuts = statistics.quantiles(ms, n=100)
    return {
        f"{name}_p50_ms": round(cuts[49], 3),
        f"{name}_p99_ms": round(cuts[98], 3),
        f"{name}_max_ms": round(max(ms), 3),
    }


def main() -> int:
    """Measure each policy; exit with 1 where a 99th percentile is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gangs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--ends", type=int, default=2)
    parser.add_argument("--policy", action="append", choices=list(QUEUE_POLICIES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = {"gangs": options.gangs, "nodes": options.nodes, "ticks": options.ticks, "ends": options.ends}
    rows = [measure(policy, **sizes) for policy in options.policy or ("fifo", "priority")]
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    return int(any(row["tick_p99_ms"] > BOUND_MS for row in rows))


if __name__ == "__main__":
    sys.exit(main())
