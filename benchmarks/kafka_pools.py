"""Decisions a second of a pool service on Kafka, with 1, 2 and 4 replicas that share 8 pools.

Placers follow pools whose nodes have room for all jobs. When every replica is ready, the same number of jobs is submitted to
each pool; the time runs from the first append to the last decision. A job makes two decisions: it is admitted and placed.
The replicas are measured beside each other, in turn in each round, each time on new topics.

It starts its own broker (``make kafka``). Broker, load and replicas share the machine's cores, so that on few cores
scaling out shows its cost and not its gain.

Run: ``python benchmarks/kafka_pools.py [--jobs 500] [--rounds 2] [--replicas 1 2 4] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
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
from steepest.events.cluster import PoolConfigured
from steepest.events.common import Resources
from steepest.events.received import ID, DecisionId
from steepest.events.registry import FLAGS, READS
from steepest.log.base import Log, NewRecord
from steepest.log.kafka.broker import running_broker
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.decode import new_record
from steepest.testing.scenarios.folded_pool import joined, submitted
from steepest.testing.waiting import until

POOLS = 8
NODES = 10
A_JOB = 2
"""Decisions about a job."""

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
        configured = PoolConfigured(reads=READS, flags=tuple(FLAGS))
        for pool in self.layout.pools:
            nodes = [joined(f"{pool}-{number}", 100_000_000) for number in range(NODES)]
            await log.append([self._record(pool, event) for event in (configured, *nodes)])
        return log

    def jobs(self, number: int) -> list[NewRecord]:
        """Requests for so many jobs in each pool."""
        return [
            self._record(pool, submitted(f"{pool}-{each}", cpu_m=1))
            for each in range(number)
            for pool in self.layout.pools
        ]

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
    """Each number of replicas in turn, in every round."""
    found: dict[int, list[float]] = {each: [] for each in replicas}
    for number in range(rounds):
        for each, rates in found.items():
            rates.append(await decisions_a_second(folder, bootstrap, f"r{number}x{each}", replicas=each, jobs=jobs))
    return {
        f"{each} replicas": {
            "decisions_a_second": round(statistics.median(rates)),
            "least": round(min(rates)),
            "greatest": round(max(rates)),
        }
        for each, rates in found.items()
    }


def main() -> None:
    """Measure, and print one JSON object or the same in lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=500, help="in each pool")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_broker(Path(folder) / "broker", home=HOME) as broker,
    ):
        found = asyncio.run(measure(Path(folder), broker.bootstrap, chosen.replicas, chosen.rounds, chosen.jobs))
    result: dict[str, Any] = {"cores": os.cpu_count(), "pools": POOLS, "jobs": chosen.jobs, **found}
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:12} {value}")


if __name__ == "__main__":
    main()
