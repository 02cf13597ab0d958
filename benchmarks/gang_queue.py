"""The cost of a decision while gangs wait: 10,000 of them on 1,000 nodes, in the placer's queue and under DRAGON.

Gangs of 2 to 64 replicas with 1 to 8 GPUs each, drawn at random, fill the nodes; the others wait. Under a queue policy some
of the running gangs end before every tick, so that there is room to give away, and as many are submitted. A tick's time is
that of the placer's decision alone; beside it stands an idle one, before which nothing ended. Under a variant of DRAGON,
beside the passes of the gang-scheduler stand the other records, in which it only takes in what has changed. Time is of the
processor.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.frame.bench import doing, each, figure, options, percentiles
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueParameters
from steepest.events.received import Received
from steepest.events.requests import Role
from steepest.policies.decider import ClusterDecider
from steepest.policies.dragon.gang_scheduler import CHANGES, GangScheduler
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.policies.queueing.ranks import QUEUE_POLICIES
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase

NODE = Resources(cpu_m=96_000, memory_mib=524_288, gpus=8)
DRAGON = ("dragon", "dragon-paper-era", "dragon-fixed")
PARAMETERS = PoolParameters(settle_ms=10**9)


class Timed(ClusterDecider):
    """A decider that notes how long each record takes, in milliseconds, apart for those at which it looks at the queue."""

    def __init__(self, decider: ClusterDecider, *looks_at: type) -> None:
        self.name, self.logic, self.state = decider.name, decider.logic, decider.state
        self.looks: list[float] = []
        self.others: list[float] = []
        self._decider = decider
        self._looks_at = looks_at
        self._is_silent = False

    @property
    def reads(self) -> frozenset[type]:  # type: ignore[override]  # it changes with the decider's
        """The decider's."""
        return self._decider.reads

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Decide nothing: the next tick gives away what becomes free."""
        self._is_silent = True
        yield
        self._is_silent = False

    def reconsider(self, event: c.ClusterEvent) -> None:
        """As the decider."""
        self._decider.reconsider(event)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """As the decider."""
        if self._is_silent:
            return ()
        began = time.process_time()
        decided = self._decider.step(view, received)
        taken = self.looks if isinstance(received.event, self._looks_at) else self.others
        taken.append(1000 * (time.process_time() - began))
        return decided


class GangPool(DeciderDriver):
    """A pool whose nodes are full, and whose other gangs wait."""

    def __init__(self, timed: Timed, parameters: PoolParameters, gangs: int, nodes: int) -> None:
        super().__init__(timed)
        self.rng = random.Random(1)  # noqa: S311 - no secret
        self.number = 0
        self.fold(c.PoolConfigured(parameters=parameters))
        self.feed(*(c.NodeJoined(node=f"n{number:04}", capacity=NODE) for number in range(nodes)))
        while len(self.view.jobs.queue) < gangs:
            self.submit(1)
        timed.looks.clear()
        timed.others.clear()

    def submit(self, count: int) -> None:
        """Gangs as clusters see them: most are small, and a third is elastic."""
        for _ in range(count):
            choice, self.number = self.rng.choice, self.number + 1
            replicas = choice((2, 2, 4, 4, 8, 8, 16, 32, 64))
            requests = Resources(
                choice((1_000, 2_000, 4_000, 8_000)), choice((4_096, 8_192, 16_384, 32_768)), choice((1, 1, 2, 4, 8))
            )
            least = replicas // 2 if self.rng.random() < 1 / 3 else replicas
            roles = (Role(name="worker", replicas=replicas, min=least, requests=requests),)
            self.feed(submitted(f"gang-{self.number}", priority=choice((0, 0, 0, 100)), roles=roles))

    def running(self) -> list[Job]:
        """The gangs that run."""
        return [job for job in self.active() if job.phase is Phase.RUNNING]

    def end_some(self, most: int) -> None:
        """Some gangs start, if they have not yet, and finish."""
        running = self.running()
        for name in [job.name for job in self.rng.sample(running, min(most, len(running)))]:
            job = self.carry_out(name)
            for index in range(len(job.nodes)):
                self.fold(self.stopped(name, 0, replica=index))
            self.fold(c.JobEnded(job=name, outcome=c.Outcome.FINISHED, exit_status=0))


def queued(policy: str, *, gangs: int, nodes: int, ticks: int, ends: int) -> None:
    """The placer under one queue policy."""
    timed = Timed(Placer(), c.Tick)
    parameters = PoolParameters(queueing=QueueParameters(policy=policy), settle_ms=PARAMETERS.settle_ms)
    pool = GangPool(timed, parameters, gangs, nodes)
    pool.tick()
    timed.looks.clear()
    for _ in range(ticks):
        pool.tick()
    idle, timed.looks, placed = timed.looks, [], len(pool.decided)
    for _ in each(f"{policy}: ticks", range(ticks)):
        with timed.silent():
            pool.end_some(ends)
        pool.submit(ends)
        pool.tick()
    placed = sum(isinstance(event, c.PlacementPlanned) for event in pool.decided[placed:])
    figure(policy, placed=placed, **percentiles(idle, "idle_"), **percentiles(timed.looks, "tick_"))


def scheduled(variant: str, *, gangs: int, nodes: int, ticks: int, ends: int) -> None:
    """The gang-scheduler under one variant of DRAGON."""
    timed = Timed(GangScheduler(), *CHANGES, c.Tick)
    pool = GangPool(timed, under(variant, PARAMETERS), gangs, nodes)
    for job in pool.running():
        pool.carry_out(job.name)
    for _ in each(f"{variant}: ticks", range(ticks)):
        pool.tick()
        pool.end_some(ends)
        pool.submit(ends)
        for job in [job for job in pool.active() if job.plan]:
            pool.carry_out(job.name)
    scaled = sum(isinstance(event, c.TransitionPlanned) for event in pool.decided)
    figure(variant, scaled=scaled, **percentiles(timed.looks, "pass_"), **percentiles(timed.others, "other_"))


def main() -> None:
    """Measure each policy."""

    def policies(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--policy", action="append", choices=[*QUEUE_POLICIES, *DRAGON])

    sizes = {"gangs": (50, 10_000, 10_000), "nodes": (5, 1_000, 1_000), "ticks": (20, 100, 300), "ends": (2, 2, 2)}
    asked = options(__doc__, policies, **sizes)
    for policy in asked.policy or ("fifo", "priority", *DRAGON):
        doing(f"{policy}: filling {asked.nodes} nodes")
        measure = scheduled if policy in DRAGON else queued
        measure(policy, **{name: getattr(asked, name) for name in sizes})


if __name__ == "__main__":
    main()
