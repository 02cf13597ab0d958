"""Decisions a second of a pool service on Kafka, with 1, 2 and 4 replicas that share 8 pools.

Placers follow pools whose nodes have room for all jobs. When every replica is ready, the same number of jobs is submitted to
each pool; the time runs from the first append to the last decision. A job makes two decisions: it is admitted and placed.
The replicas are measured beside each other, in turn in each round, each time on new topics. In each round the same records
also go through the same decider in this process, without a log. Compare versions by a row's ratio to this baseline:
decisions a second depend on the machine.

It starts its own broker (``make kafka``). Broker, load and replicas share the machine's cores, so that on few cores
scaling out shows its cost and not its gain.

Run: ``python benchmarks/kafka_pools.py [--jobs 500] [--rounds 3] [--replicas 1 2 4] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kafka import HOME  # type: ignore[import-not-found]  # beside this
from steepest.app.installation import apply_topics, open_log
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import MetricsSettings, Settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, PoolSpec, StateFolder
from steepest.events.cluster import LogOpened, PoolConfigured
from steepest.events.common import Resources
from steepest.events.received import ID, DecisionId
from steepest.events.registry import FLAGS, READS
from steepest.log.base import Log, NewRecord, Record
from steepest.log.kafka.broker import running_broker
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.policies.placement.placer import Placer
from steepest.runtime.decode import minted_record, new_record, received
from steepest.runtime.engine import PoolEngine
from steepest.testing.scenarios.folded_pool import joined, submitted
from steepest.testing.waiting import until

POOLS = 8
NODES = 10
A_JOB = 2
"""Decisions about a job."""

IN_PROCESS = 0
"""Stands for the number of replicas in the baseline."""

_NAMES = {IN_PROCESS: "in process", 1: "1 replica"}

PATIENCE_S = 120.0


class PoolBench:
    """An installation of several pools, and replicas of one service on it."""

    def __init__(self, folder: Path, bootstrap: str, name: str) -> None:
        self.kafka = KafkaSettings(bootstrap=bootstrap, prefix=f"{name}-")
        self.folder = StateFolder(folder / name)
        pools = [PoolSpec(name=f"p{each}", nodes=(NodeSpec(f"n{each}", Resources(1)),)) for each in range(POOLS)]
        first, *others = pools
        self.installation = Installation(pool=first.name, nodes=first.nodes, pools=tuple(others))
        self.folder.create(self.installation)
        self.folder.remember_kafka(KafkaPlace(bootstrap, self.kafka.prefix))
        self.layout = self.installation.layout
        self._ports: list[int] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    async def open(self) -> Log:
        """Its topics, with nodes in each pool, and a handle on them."""
        await apply_topics(self.kafka, self.layout)
        log = open_log(read_settings({"state_dir": self.folder.root}), self.installation)
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
        configured = PoolConfigured(reads=READS, flags=tuple(FLAGS))
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

    def start(self) -> None:
        """Start one more replica."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._ports.append(free.getsockname()[1])
        settings = Settings(
            state_dir=str(self.folder.root), kafka=self.kafka, metrics=MetricsSettings(port=self._ports[-1])
        )
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "steepest_placer"],
                env={**os.environ, **as_environment(settings)},
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
        )

    async def ready(self) -> None:
        """Wait until every replica has its share, and has read its pools."""
        await until(lambda: all(map(_is_ready, self._ports)), "the replicas to be ready", within_s=PATIENCE_S)

    def end(self) -> None:
        """Stop the replicas."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except OSError:
        return False


async def decisions_a_second(folder: Path, bootstrap: str, name: str, *, replicas: int, jobs: int) -> float:
    """Submit the jobs to ready replicas, and wait for the last decision."""
    bench = PoolBench(folder, bootstrap, name)
    log = await bench.open()
    try:
        for _ in range(replicas):
            bench.start()
        await bench.ready()
        reader = log.reader({at: await log.end(at) for at in bench.layout.of_topic("cluster")})
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


async def measure(folder: Path, bootstrap: str, replicas: Sequence[int], rounds: int, jobs: int) -> dict[str, Any]:
    """The baseline and each number of replicas in turn, in every round; the ratios are those of each round."""
    rates: dict[int, list[float]] = {each: [] for each in (IN_PROCESS, *replicas)}
    baseline = PoolBench(folder, bootstrap, "baseline")
    for number in range(rounds):
        rates[IN_PROCESS].append(baseline.in_process(jobs))
        for each in replicas:
            name = f"r{number}x{each}"
            rates[each].append(await decisions_a_second(folder, bootstrap, name, replicas=each, jobs=jobs))
    return {
        _NAMES.get(each, f"{each} replicas"): {
            "decisions_a_second": round(statistics.median(found)),
            "least": round(min(found)),
            "greatest": round(max(found)),
            "to_baseline": [round(one / base, 3) for one, base in zip(found, rates[IN_PROCESS], strict=True)],
        }
        for each, found in rates.items()
    }


def main() -> None:
    """Measure, and print one JSON object or a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=500, help="in each pool")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_broker(Path(folder) / "broker", home=HOME) as broker,
    ):
        found = asyncio.run(measure(Path(folder), broker.bootstrap, chosen.replicas, chosen.rounds, chosen.jobs))
    if chosen.json:
        print(json.dumps({"cores": os.cpu_count(), "pools": POOLS, "jobs": chosen.jobs, **found}))
        return
    print(f"{POOLS} pools, {chosen.jobs} jobs in each, {chosen.rounds} rounds, {os.cpu_count()} cores")
    print(f"{'':12} {'decisions/s':>12} {'least':>8} {'greatest':>8}   to the baseline")
    for name, row in found.items():
        ratios = sorted(row["to_baseline"])
        spread = f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f})"
        print(f"{name:12} {row['decisions_a_second']:>12,} {row['least']:>8,} {row['greatest']:>8,}   {spread}")


if __name__ == "__main__":
    main()
