"""Decisions a second of a pool service on Kafka, with 1, 2 and 4 replicas that share 8 pools.

Placers follow pools whose nodes have room for all jobs. When every replica is ready, the same number of jobs is submitted to
each pool; the time runs from the first append to the last decision. A job makes two decisions: it is admitted and placed.
The replicas are measured beside each other, in turn in each round, each time on new topics. In each round the same records
also go through the same decider in this process, without a log. Compare versions by a row's ratio to this baseline:
decisions a second depend on the machine.

It starts its own broker (``make kafka``). Broker, load and replicas share the machine's cores, so that on few cores
scaling out shows its cost and not its gain.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec
from benchmarks.frame.bench import between, doing, figure, options
from benchmarks.kafka import Bench, broker
from tests.harness.scenarios.folded_pool import joined, submitted
from tests.harness.waiting import until

from steepest.app.state_folder import Installation, NodeSpec, PoolSpec
from steepest.events.cluster import LogOpened, PoolConfigured
from steepest.events.common import Resources
from steepest.events.received import ID, DecisionId
from steepest.log.base import Log, NewRecord, Record
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.policies.placement.placer import Placer
from steepest.runtime.decode import minted_record, new_record, received
from steepest.runtime.engine import PoolEngine

POOLS = 8
NODES = 10
A_JOB = 2
"""Decisions about a job."""

PATIENCE_S = 120.0


class PoolBench(Bench):
    """An installation of several pools, and replicas of one service on it."""

    def __init__(self, at: tuple[Path, str], name: str) -> None:
        pools = [PoolSpec(name=f"p{number}", nodes=(NodeSpec(f"n{number}", Resources(1)),)) for number in range(POOLS)]
        first, *others = pools
        super().__init__(at, name, Installation(pool=first.name, nodes=first.nodes, pools=tuple(others)))
        self.ports: list[int] = []

    async def open(self) -> KafkaLog:
        """Its topics, with nodes in each pool, and a handle on them."""
        log = await super().open()
        for pool in self.layout.pools:
            await log.append(self.first(pool))
        return log

    def jobs(self, number: int) -> list[NewRecord]:
        """Requests for so many jobs in each pool."""
        return [
            self._record(pool, submitted(f"{pool}-{each}", cpu_m=1))
            for each in range(number)
            for pool in self.layout.pools
        ]

    def first(self, pool: str) -> list[NewRecord]:
        """A pool's parameters and nodes."""
        configured = PoolConfigured()
        nodes = [joined(f"{pool}-{number}", 100_000_000) for number in range(NODES)]
        return [self._record(pool, event) for event in (configured, *nodes)]

    def in_process(self, number: int) -> float:
        """Decisions a second of the same decider about the same records, decoded and encoded as over a log."""
        requests = self.jobs(number)
        began, made = time.perf_counter(), 0
        for pool in self.layout.pools:
            at = self.layout.of_pool(pool)
            engine = PoolEngine([Placer()], at, pool)
            opened = self._record(pool, LogOpened(epoch=f"bench-{pool}"))
            due = deque([opened, *self.first(pool), *(one for one in requests if one.to == at)])
            for offset in itertools.count():
                if not due:
                    break
                new = due.popleft()
                record = Record(
                    at=at, offset=offset, key=new.key, value=new.value, at_ms=new.at_ms, headers=dict(new.headers)
                )
                decisions = engine.step(received(record))
                made += len(decisions)
                due.extend(map(minted_record, decisions))
        if made != A_JOB * len(requests):
            raise AssertionError(f"{made} decisions about {len(requests)} jobs")
        return made / (time.perf_counter() - began)

    def _record(self, pool: str, event: msgspec.Struct) -> NewRecord:
        return new_record(self.layout.of_pool(pool), pool, event, 1)

    async def replicas(self, number: int) -> None:
        """Start so many, and wait until each has its share, and has read its pools."""
        for _ in range(number):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports.append(free.getsockname()[1])
            self.start("placer", self.ports[-1])
        await until(lambda: all(map(_is_ready, self.ports)), "the replicas to be ready", within_s=PATIENCE_S)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except OSError:
        return False


async def decisions_a_second(at: tuple[Path, str], name: str, *, replicas: int, jobs: int) -> float:
    """Submit the jobs to ready replicas, and wait for the last decision."""
    bench = PoolBench(at, name)
    log = await bench.open()
    try:
        await bench.replicas(replicas)
        reader = log.reader({each: await log.end(each) for each in bench.layout.of_topic("cluster")})
        requests, due, found = bench.jobs(jobs), A_JOB * jobs * POOLS, 0
        began = time.perf_counter()
        appending = asyncio.create_task(_append(log, requests))
        async with asyncio.timeout(PATIENCE_S):
            while found < due:
                found += sum(_is_decision(one.headers.get(ID, "")) for one in await reader.poll(max_records=5000))
        took_s = time.perf_counter() - began
        await appending
        await reader.close()
    finally:
        bench.end()
        await log.close()
    return due / took_s


async def _append(log: Log, records: Sequence[NewRecord]) -> None:
    for first in range(0, len(records), 1000):
        await log.append(records[first : first + 1000])


def _is_decision(text: str) -> bool:
    decision = DecisionId.parse(text) if text else None
    return decision is not None and decision.decider == "placer"


async def measure(at: tuple[Path, str], replicas: Sequence[int], rounds: int, jobs: int) -> None:
    """The baseline and each number of replicas in turn, in every round; the ratios are those of each round."""
    bases: list[float] = []
    rates: dict[int, list[float]] = {number: [] for number in replicas}
    baseline = PoolBench(at, "baseline")
    for turn in range(rounds):
        doing(f"round {turn + 1} of {rounds}: in process")
        bases.append(baseline.in_process(jobs))
        for number, found in rates.items():
            doing(f"round {turn + 1} of {rounds}: {number} replicas")
            found.append(await decisions_a_second(at, f"r{turn}x{number}", replicas=number, jobs=jobs))
    figure("in process", decisions_a_second=between(bases, 0))
    for number, found in rates.items():
        to_baseline = between([rate / base for rate, base in zip(found, bases, strict=True)], 3)
        figure(f"replicas: {number}", decisions_a_second=between(found, 0), to_baseline=to_baseline)


if __name__ == "__main__":
    asked = options(__doc__, jobs=(5, 200, 500), rounds=(1, 1, 3), replicas=((1,), (1, 2), (1, 2, 4)))
    with broker() as place:
        asyncio.run(measure(place, asked.replicas, asked.rounds, asked.jobs))
