"""What metrics cost: the categorizer's records and a pool's, with metrics and without them, in turn.

* *categorizer*: its loop over a log in memory, from bytes to appended decisions; without: metrics that count nothing.
* *pool*: the records of ``view.py`` folded by the engine of a pool; with: shown to the effector of its metrics as well.
* *sample*: what the gauges cost beside that, as a share of the second between two ticks of the pool's clock.

The share is the median of the pairs' ratios of processor time; below zero is noise.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.categorizer import FOLD_EVERY_MS, flattening, reports, watches
from benchmarks.frame.bench import between, cpu_s, doing, each, figure, options
from benchmarks.view import Life, received
from prometheus_client import CollectorRegistry
from tests.harness.memory_log import MemoryLog, MemorySnapshots

from steepest.clock import SystemClock
from steepest.log.base import NewRecord, TopicPartition
from steepest.policies.specon.categorizer import Categorizer
from steepest.pool_metrics.counters import PoolCounters
from steepest.pool_metrics.effector import JOBS_A_TICK, PoolMetrics
from steepest.pool_metrics.gauges import PoolGauges
from steepest.pool_metrics.sample import PoolSample, sampling
from steepest.runtime.engine import PoolEngine
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service
from steepest.view.cluster_view import ClusterView

REPORTING_JOBS = 100
LOOK_S = 0.001


class Nothing:
    """A metric that counts nothing."""

    def labels(self, *_: object) -> Nothing:
        """Itself."""
        return self

    def inc(self, _: float = 1) -> None:
        """Nothing."""

    observe = set = inc


class NoMetrics(Metrics):
    """Metrics that count nothing."""

    def __init__(self) -> None:
        super().__init__()
        for name in vars(self).keys() - {"registry", "build"}:
            setattr(self, name, Nothing())


async def categorize(records: Sequence[NewRecord], metrics: Metrics) -> float:
    """Processor time until the categorizer has decided about all records."""
    layout = Layout(pools=("pool",), loss_partitions=1)
    log = MemoryLog(layout.partitions())
    runtime = Runtime(
        [Service(name="categorizer", stream_deciders=(Categorizer,))],
        log=log,
        layout=layout,
        snapshots=MemorySnapshots(),
        clock=SystemClock(),
        metrics=metrics,
    )
    await log.append(records)
    end = await log.end(layout.of_topic("loss")[0])
    stop = asyncio.Event()
    gc.collect()
    began = time.process_time()
    running = asyncio.ensure_future(runtime.run(stop))
    while not any(loop.position >= end for loop in runtime.health.loops.values()):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_S)
    took_s = time.process_time() - began
    stop.set()
    await running
    return took_s


def loss_records(count: int) -> list[NewRecord]:
    """Reports of some jobs."""
    raws = [
        *watches(REPORTING_JOBS),
        *reports(REPORTING_JOBS, range(count // REPORTING_JOBS), FOLD_EVERY_MS, flattening),
    ]
    at = TopicPartition("loss")
    return [NewRecord(to=at, key="job", value=value, at_ms=at_ms, headers=headers) for value, at_ms, headers in raws]


def fold(records: Sequence[Any], begun: int, *, watched: bool) -> float:
    """Processor time to fold the records of a pool behind its first ``begun`` ones."""
    engine = PoolEngine([], TopicPartition("cluster"), "pool")
    for offset, raw in enumerate(records[:begun]):
        engine.step(received(raw, offset))
    if watched:
        engine.go_live([effector()])

    def step() -> None:
        for offset, raw in enumerate(records[begun:], begun):
            engine.step(received(raw, offset))

    return cpu_s(step)


def effector() -> PoolMetrics:
    """The effector of a pool's metrics."""
    registry = CollectorRegistry()
    return PoolMetrics(PoolCounters(registry), PoolGauges(registry), "pool")


def sample_share(records: Sequence[Any], runs: int) -> dict[str, float]:
    """Processor time of a sample, over the time between two samples of a pool of that size."""
    view = ClusterView()
    for offset, raw in enumerate(records):
        view.fold(received(raw, offset))
    between_s = (1 + len(view.jobs) // JOBS_A_TICK) * view.parameters.tick_ms / 1000
    taken = []
    for _ in each("sample", range(runs)):
        began = time.process_time()
        for _ in sampling(PoolSample(), view, 0, lambda _: None):
            pass
        taken.append((time.process_time() - began) / between_s)
    return between(taken, 4)


def share(name: str, runs: int, bare: Callable[[], float], whole: Callable[[], float]) -> dict[str, float]:
    """What the whole takes more than the bare, as a share of the bare: the median of pairs, and their ends."""
    ratios = []
    for number in each(name, range(runs)):
        first, second = (bare, whole) if number % 2 else (whole, bare)
        one, other = first(), second()
        ratios.append((other / one if number % 2 else one / other) - 1)
    return between(ratios, 4)


def main() -> None:
    """Measure what the command line asks for."""
    asked = options(__doc__, records=(1_000, 100_000, 100_000), jobs=(10, 1_000, 1_000), runs=(1, 5, 5))
    doing("making records")
    losses, life = loss_records(asked.records), Life(asked.jobs)
    beginning = list(life.beginning())
    pool = [*beginning, *itertools.islice(life.days(), asked.records)]
    costs = {
        "categorizer": (
            lambda: asyncio.run(categorize(losses, NoMetrics())),
            lambda: asyncio.run(categorize(losses, Metrics())),
        ),
        "pool": (
            lambda: fold(pool, len(beginning), watched=False),
            lambda: fold(pool, len(beginning), watched=True),
        ),
    }
    for name, (bare, whole) in costs.items():
        figure(name, **share(name, asked.runs, bare, whole))
    figure("sample", **sample_share(beginning, asked.runs))


if __name__ == "__main__":
    main()
