"""A pool of 100,000 jobs: few series, and a scrape that does not depend on the jobs."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined, submitted
from tests.harness.waiting import until

from steepest.clock import SystemClock
from steepest.pool_metrics.counters import PoolCounters
from steepest.pool_metrics.effector import PoolMetrics
from steepest.pool_metrics.gauges import PoolGauges
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.monitoring.probe import Address, probes

JOBS = 100_000
QUEUES = 40
NODES = 200
RUNNING = 2_000
SERIES_MOST = 2_000
SCRAPES = 20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def large_pool() -> FoldedPool:
    """Many jobs that wait, some that run."""
    pool = FoldedPool()
    pool.feed(*(joined(f"n{number:03}", cpu_m=2_000) for number in range(NODES)))
    for number in range(RUNNING):
        pool.run(f"running-{number}", f"n{number % NODES:03}", cpu_m=10)
    for number in range(JOBS - RUNNING):
        pool.fold(submitted(f"job-{number}", queue=f"q{number % QUEUES}"))
    return pool


async def test_a_scrape_of_a_large_pool(figures: dict[str, float]) -> None:
    """The number of series holds; the time of a scrape is a figure, and no condition."""
    pool = large_pool()
    metrics = Metrics()
    effector = PoolMetrics(PoolCounters(metrics.registry), PoolGauges(metrics.registry), "blue")
    effector.caught_up(pool.view)

    async def send(*_: Any, **__: Any) -> None: ...

    sampling = asyncio.ensure_future(effector.run(send))
    running: Any = SimpleNamespace(metrics=metrics, health=Health(SystemClock()))
    waiting = {"pool": "blue", "phase": "waiting"}
    with probes(running, Address(0)) as at:
        await until(lambda: metrics.registry.get_sample_value("steepest_jobs", waiting) == JOBS - RUNNING)
        text, times_ms = await asyncio.to_thread(scrapes, f"http://127.0.0.1:{at.port}/metrics")
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)
    series = [line for line in text.splitlines() if line and not line.startswith("#")]
    figures["series_100k"] = len(series)
    figures["scrape_ms"] = round(statistics.median(times_ms), 1)

    assert len(series) < SERIES_MOST
    assert "job-1" not in text
    assert await asyncio.to_thread(complaints, text) == ""


def complaints(text: str) -> str:
    """What promtool says about metrics; empty where it is content."""
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return checked.stdout + checked.stderr


def scrapes(url: str) -> tuple[str, list[float]]:
    """What a scrape gives, and the milliseconds of several."""
    text, times_ms = "", []
    for _ in range(SCRAPES):
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        times_ms.append(1000 * (time.perf_counter() - began))
    return text, times_ms
